//! `spool_counts DIR`: what each recorded process of a run did, one JSON object a line, for tests in other languages.
//!
//! Read by the decoder alone: what the model makes of the events is not the question.
use memscope_format::decode::{EventKind, LaneCursor, Spool};
use memscope_format::layout::SPOOL_DIRECTORY;
use memscope_model::find_processes;
use std::env;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(root) = env::args_os().nth(1) else {
        let _ = writeln!(io::stderr(), "spool_counts DIR");
        return ExitCode::from(2);
    };
    let directories = find_processes(Path::new(&root), None).unwrap_or_default();
    for directory in directories {
        if let Err(error) = print_counts(&directory) {
            let _ = writeln!(io::stderr(), "{}: {error}", directory.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn print_counts(directory: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let spool = Spool::open(&directory.join(SPOOL_DIRECTORY))?;
    let (mut events, mut begun, mut ended, mut bytes) = (0u64, 0u64, 0u64, 0u64);
    let mut damage: Vec<String> = spool.damage().iter().map(ToString::to_string).collect();
    for lane in spool.lanes() {
        let mut cursor = LaneCursor::new(lane);
        while let Some(event) = cursor.next_event(&spool, &mut |_| {})? {
            events += 1;
            match event.kind {
                EventKind::HostAlloc { size, .. } => (begun, bytes) = (begun + 1, bytes + size),
                EventKind::HostFree { .. } => ended += 1,
                _ => {}
            }
        }
        damage.extend(cursor.damage().iter().map(ToString::to_string));
    }
    let info = spool.process();
    let line = format!(
        "{{\"pid\": {}, \"executable\": {:?}, \"events\": {events}, \"begun\": {begun}, \"ended\": {ended}, \
         \"bytes\": {bytes}, \"lost\": {}, \"damage\": {damage:?}}}",
        info.pid,
        info.executable,
        spool.lost_events()
    );
    writeln!(io::stdout(), "{line}")?;
    Ok(())
}
