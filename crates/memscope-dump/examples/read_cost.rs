//! What reading dump files costs: `read_cost FILE_OR_DIRECTORY…` reads each and says what it found.
#![allow(clippy::print_stdout, reason = "an example reports to its user")]
use memscope_dump::sources;
use std::path::Path;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in std::env::args().skip(1) {
        let begin = Instant::now();
        let sources = sources(Path::new(&path))?;
        for (path, error) in &sources.unreadable {
            println!("{}: {error}", path.display());
        }
        for mut source in sources.found {
            let outcome = source.trace.run(&mut [], &mut |_| {})?;
            println!(
                "{}: process {}, {} events, {} notes, {} stacks, {} damaged, {} of unknown kind, {:.2} s",
                source.path.display(),
                source.trace.info().pid,
                outcome.events,
                outcome.notes,
                source.trace.stacks().len(),
                outcome.damage.len(),
                outcome.unknown_records,
                begin.elapsed().as_secs_f64(),
            );
            for usage in &outcome.pools {
                println!(
                    "    {} {}: {} live, {} at most",
                    usage.device,
                    usage.pool.name(),
                    usage.live_bytes,
                    usage.peak_bytes
                );
            }
            outcome.damage.iter().take(5).for_each(|damage| println!("    {damage:?}"));
        }
    }
    Ok(())
}
