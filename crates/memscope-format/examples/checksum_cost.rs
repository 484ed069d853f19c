//! How long the checksum of watched memory takes: seconds for 10^9 bytes, of a piece that is in the cache and of a block that is not.
#![allow(clippy::print_stdout, reason = "printing is what it is for")]
use memscope_format::watch::Checksum;
use std::hint::black_box;
use std::time::Instant;

const GIGABYTE: f64 = 1e9;

fn main() {
    for (name, bytes) in [("piece", 256 << 10), ("block", 64 << 20)] {
        let memory: Vec<u8> = (0..bytes).map(|number: usize| number as u8).collect();
        let rounds = (128 << 20) / bytes;
        // The best of a few: what else the machine does is not ours.
        let seconds = (0..5).map(|_| {
            let began = Instant::now();
            for _ in 0..rounds {
                black_box(Checksum::of(black_box(&memory)));
            }
            began.elapsed().as_secs_f64() / (rounds * bytes) as f64 * GIGABYTE
        });
        println!("{name} {:.3}", seconds.fold(f64::INFINITY, f64::min));
    }
}
