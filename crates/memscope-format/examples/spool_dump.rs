//! Prints a spool's records as text: `cargo run --example spool_dump --features decode -- DIR`.
#![allow(clippy::print_stdout, reason = "printing is what it is for")]
use memscope_format::decode::{LaneCursor, Spool};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args_os().nth(1).ok_or("usage: spool_dump SPOOL_DIRECTORY")?;
    let spool = Spool::open(directory.as_ref())?;
    println!("{:#?}", spool.process());
    let timeline = spool.timeline();
    for lane in spool.lanes() {
        let mut cursor = LaneCursor::new(lane);
        while let Some(event) = cursor.next_event(&spool, &mut |definition| println!("{lane} {definition:?}"))? {
            println!("{lane} {} {event:?}", timeline.epoch_ns(event.ticks));
        }
        for damage in cursor.damage() {
            println!("{lane} {damage}");
        }
    }
    for damage in spool.damage() {
        println!("{damage}");
    }
    println!("lost {}", spool.lost_events());
    Ok(())
}
