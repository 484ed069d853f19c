//! What aligning two sequences costs: `cargo run --release -p memscope-analysis --example alignment_cost [LENGTH]`.
#![allow(clippy::print_stdout, reason = "its purpose")]
use memscope_analysis::Alignment;
use std::time::Instant;

/// Pseudo-random numbers, always the same.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % u64::from(limit)) as u32
    }
}

fn main() {
    const NAMES: u32 = 300;
    let length: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let random: Vec<u32> = (0..length).map(|_| numbers.below(NAMES)).collect();
    let step: Vec<u32> = (0..1000).map(|_| numbers.below(NAMES)).collect();
    let steps: Vec<u32> = step.iter().copied().cycle().take(length).collect();
    let mut changed = |base: &[u32], first: u32| -> Vec<u32> {
        base.iter().map(|name| if numbers.below(10) == 0 { first + numbers.below(NAMES) } else { *name }).collect()
    };
    let evaluation: Vec<u32> = random.iter().rev().take(length / 10).copied().collect();
    let cases = [
        ("steps, 10 % have new names", steps.clone(), changed(&steps, NAMES)),
        ("steps, 10 % have other names", steps.clone(), changed(&steps, 0)),
        ("random, 10 % have other names", random.clone(), changed(&random, 0)),
        (
            "steps with an evaluation between",
            steps.clone(),
            [&steps[..length / 2], &evaluation, &steps[length / 2..]].concat(),
        ),
        ("random, in another order", random.clone(), random.iter().rev().copied().collect()),
        (
            "two names at random",
            random.iter().map(|name| name % 2).collect(),
            random.iter().rev().map(|name| name % 2).collect(),
        ),
    ];
    for (what, base, compared) in cases {
        let begun = Instant::now();
        let matched = Alignment::of(&base, &compared).matched();
        let seconds = begun.elapsed().as_secs_f64();
        println!("{what}: {} against {}: {matched} belong together, {seconds:.2} s", base.len(), compared.len());
    }
}
