//! A comparison for people.
use super::Comparison;
use super::report::{Bytes, ComparisonReport, LevelReport, NameReport, PairReport, PoolReport, Subject};
use crate::line::{Line, line_of};
use crate::report::process::device_label;
use crate::report::quantity::{bytes, count, counted};
use crate::report::summary::shortened;
use crate::views::diff::signed_bytes;
use crate::views::layout::{Emphasis, Layout, joined_within};
use crate::views::reading::pool_label;

/// How many names, owners and call sites are told.
const NAMES: usize = 10;
const OWNERS: usize = 5;
const SITES: usize = 10;
/// What is left over is told one by one if it is no more than this.
const TOLD: usize = 8;

impl Comparison {
    pub fn lines(&self, layout: &Layout) -> Vec<Line> {
        let mut lines = Vec::new();
        for pair in &self.report.pairs {
            if !lines.is_empty() {
                lines.push(Line::default());
            }
            lines.extend(of_pair(pair, layout));
        }
        lines.extend(left_over(&self.report).map(|line| layout.fit(&line)));
        lines
    }

    /// What the numbers cannot say, of each pair that it applies to.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        for pair in &self.report.pairs {
            if let Some(kernels) = &pair.kernels
                && kernels.bytes == Bytes::default()
                && kernels.names.iter().all(|name| name.bytes == Bytes::default())
                && pair.bytes != Bytes::default()
            {
                remarks.push(format!(
                    "no thread that launches kernels on {} allocates memory there; with TASK_QUEUE_ENABLE=0 the thread \
                     that allocates launches them, too",
                    device_label(pair.base.device)
                ));
            }
        }
        if self
            .report
            .pairs
            .iter()
            .flat_map(|pair| &pair.pools)
            .any(|pool| pool.stackless && pool.base != pool.compared)
        {
            remarks.push(
                "no call stacks of this memory were recorded; --call-stack=c,python shows where it comes from"
                    .to_owned(),
            );
        }
        remarks.dedup();
        remarks
    }
}

fn heading(text: &str, layout: &Layout) -> Line {
    layout.emphasised(layout.fit(text), Emphasis::Heading)
}

/// `process 31 python3 train.py, npu 0, step 2 (run1)`
fn subject(subject: &Subject) -> String {
    let mut text = format!("process {}", subject.pid);
    if !subject.command.is_empty() {
        text = format!("{text} {}", shortened(&subject.command));
    }
    text = format!("{text}, {}", device_label(subject.device));
    if let Some(step) = subject.step {
        text = format!("{text}, step {step}");
    }
    format!("{text} ({})", subject.source.display())
}

fn of_pair(pair: &PairReport, layout: &Layout) -> Vec<Line> {
    let Bytes { base, compared, difference } = pair.bytes;
    let mut lines = vec![
        layout.fit(&format!("base:     {}: memory {}", subject(&pair.base), signed(base))),
        layout.fit(&format!("compared: {}: memory {}", subject(&pair.compared), signed(compared))),
        heading(&format!("difference: {}", signed(difference)), layout),
    ];
    for (level, singular, plural) in [(&pair.operators, "operator", "operators"), (&pair.kernels, "kernel", "kernels")]
    {
        if let Some(level) = level {
            lines.extend(of_level(level, singular, plural, layout));
        }
    }
    for pool in &pair.pools {
        lines.extend(of_pool(pool, pair, layout));
    }
    lines
}

fn signed(difference: i64) -> String {
    signed_bytes(difference.into())
}

/// How much it grew by, and from what to what.
fn change(difference: i128, from: String, to: String, layout: &Layout) -> Line {
    let emphasis = if difference > 0 { Emphasis::Grown } else { Emphasis::Shrunk };
    let numbers = format!("{:>12}  {from:>10} → {to:<10}", signed_bytes(difference));
    if difference == 0 { numbers.into() } else { layout.emphasised(numbers, emphasis) }
}

fn of_level(level: &LevelReport, singular: &str, plural: &str, layout: &Layout) -> Vec<Line> {
    let launches = level.launches;
    let summary = format!(
        "{plural}: {} → {}, {} together, {} only in the base, {} only in the compared; memory in them {} → {}",
        count(launches.base),
        count(launches.compared),
        count(launches.both),
        count(launches.base_only),
        count(launches.compared_only),
        signed(level.bytes.base),
        signed(level.bytes.compared),
    );
    let mut lines = vec![heading(&summary, layout)];
    let row = |name: &NameReport| {
        let numbers =
            change(name.bytes.difference.into(), signed(name.bytes.base), signed(name.bytes.compared), layout);
        let counts = match (name.launches.base, name.launches.compared) {
            (base, compared) if base == compared => format!("{} times", count(base)),
            (base, compared) => format!("{} → {} times", count(base), count(compared)),
        };
        let of_both = match name.difference_of_both {
            of_both if of_both == name.bytes.difference || name.launches.both == 0 => String::new(),
            of_both => format!("  ({} in those both have)", signed(of_both)),
        };
        let counts = format!("  {counts:<20} ");
        let room = layout.left(console::measure_text_width(&numbers) + console::measure_text_width(&counts));
        let room = room.map(|room| room.saturating_sub(console::measure_text_width(&of_both)));
        numbers.then(counts).then(joined_within(std::slice::from_ref(&name.name), "", room)).then(of_both)
    };
    lines.extend(level.names.iter().take(NAMES).map(row));
    let rest = level.names.get(NAMES..).unwrap_or_default();
    if !rest.is_empty() {
        let sum: i128 = rest.iter().map(|name| i128::from(name.bytes.difference)).sum();
        let others = format!("other {}", if rest.len() == 1 { singular } else { plural });
        lines.push(line_of!("{:>12}  {} {others} that differ", signed_bytes(sum), count(rest.len() as u64)));
    }
    lines
}

fn of_pool(pool: &PoolReport, pair: &PairReport, layout: &Layout) -> Vec<Line> {
    let differing = || pool.owners.iter().filter(|owner| owner.difference() != 0);
    if differing().next().is_none() && pool.sites.sites.iter().all(|site| site.bytes() == 0) {
        return Vec::new();
    }
    let when = if pool.at == "peak" { "at the peak" } else { "at the end of the step" };
    let label = pool_label(pair.compared.device, pool.pool);
    let mut lines =
        vec![heading(&format!("{label} {when}: {} → {}, by owner:", bytes(pool.base), bytes(pool.compared)), layout)];
    lines.extend(differing().take(OWNERS).map(|owner| {
        let numbers = change(owner.difference(), bytes(owner.base), bytes(owner.compared), layout);
        let room = layout.left(console::measure_text_width(&numbers) + 2);
        let name = owner.owner.clone().unwrap_or_else(|| "no owner".to_owned());
        numbers.then("  ").then(joined_within(&[name], "", room))
    }));
    if !pool.stackless {
        lines.push(heading("by call site:", layout));
        lines.extend(pool.sites.rows(SITES, layout));
    }
    lines
}

fn left_over(report: &ComparisonReport) -> impl Iterator<Item = String> {
    [(&report.left_over.base, "base"), (&report.left_over.compared, "compared")].into_iter().filter_map(
        |(subjects, side)| {
            let number = counted(subjects.len() as u64, "device", "devices");
            match subjects.len() {
                0 => None,
                1..=TOLD => {
                    let told: Vec<String> = subjects.iter().map(subject).collect();
                    Some(format!("left over of the {side}, with nothing to compare it with: {}", told.join("; ")))
                }
                _ => Some(format!("left over of the {side}, with nothing to compare them with: {number}")),
            }
        },
    )
}
