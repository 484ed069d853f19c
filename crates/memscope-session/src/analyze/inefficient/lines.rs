//! Memory that is held for nothing, for a person.
use super::{Finding, Inefficient};
use crate::analyze::Detail;
use crate::line::{Line, line_of};
use crate::report::quantity::{bytes, count, counted};
use crate::views::layout::{Emphasis, Layout, joined_within};
use crate::views::tree::NO_STACK;
use memscope_model::Inefficiencies;

const SHOWN: usize = 20;
const SHOWN_AFTER_A_RUN: usize = 5;

pub(super) fn of(report: &Inefficient, layout: &Layout, detail: Detail) -> Vec<Line> {
    let mut lines = vec![layout.emphasised(layout.fit(&headline(report)), Emphasis::Heading)];
    lines.extend(report.pools.iter().filter(|pool| pool.bytes_at_peak > 0).map(|pool| {
        let share = pool.bytes_at_peak as f64 * 100.0 / pool.peak_bytes.max(1) as f64;
        line_of!(
            "  {} {}: of the peak of {}, {} ({share:.1} %) were held for nothing",
            device_label(&pool.device),
            pool.pool,
            bytes(pool.peak_bytes),
            bytes(pool.bytes_at_peak)
        )
    }));
    let shown = if detail == Detail::Full { SHOWN } else { SHOWN_AFTER_A_RUN };
    lines.extend(report.inefficient.iter().take(shown).flat_map(|finding| rows(finding, layout)));
    let rest = report.inefficient.len().saturating_sub(shown) as u64 + report.left_out;
    if rest > 0 {
        lines.push(line_of!("  and {}; --json has them", counted(rest, "more finding", "more findings")));
    }
    lines
}

fn headline(report: &Inefficient) -> String {
    let seen = format!(
        "{} and {}",
        counted(report.operators, "operator", "operators"),
        counted(report.accesses, "access", "accesses")
    );
    match report.inefficient.len() as u64 {
        0 => format!("inefficient memory: none in {seen}"),
        number => {
            format!("inefficient memory: {} in {seen}, by bytes × operators:", counted(number, "finding", "findings"))
        }
    }
}

/// What a finding comes to, where it is, and the worst of its blocks.
fn rows(finding: &Finding, layout: &Layout) -> Vec<Line> {
    let mut facts = vec![format!("{} in {}", bytes(finding.bytes), counted(finding.blocks, "block", "blocks"))];
    if finding.times > finding.blocks {
        facts.push(format!("{} times", count(finding.times)));
    }
    if finding.bytes_at_peak > 0 {
        facts.push(format!("{} at the peak", bytes(finding.bytes_at_peak)));
    }
    let memory = format!("{} {}", device_label(&finding.device), finding.pool);
    let numbers = format!("  {} {memory}: {}", finding.kind, facts.join(", "));
    let place = joined_within(&place(finding), " < ", layout.left(6));
    let place = if finding.own { layout.emphasised(place, Emphasis::Own) } else { place.into() };
    let worst = format!("      {} at {} was {}", bytes(finding.worst.size), finding.worst.address, story(finding));
    let emphasis = if finding.bytes_at_peak > 0 { Emphasis::Grown } else { Emphasis::Faint };
    let numbers = layout.emphasised(layout.fit(&numbers), emphasis);
    vec![numbers, place.indented(6), layout.fit(&worst)]
}

/// What became of the worst block.
fn story(finding: &Finding) -> String {
    let place = |operator: &Option<String>| match operator {
        Some(operator) => format!("by {operator}"),
        None => "outside of operators".to_owned(),
    };
    let (from, to) = (place(&finding.worst.from), place(&finding.worst.to));
    let later = format!("{} later", counted(finding.worst.operators, "operator", "operators"));
    match Inefficiencies::from_word(finding.kind) {
        Some(Inefficiencies::EARLY_ALLOCATION) => format!("allocated {from} and first used {to}, {later}"),
        Some(Inefficiencies::LATE_DEALLOCATION) => format!("last used {from} and freed {to}, {later}"),
        _ => format!("used {from} and not again until {later}, {to}"),
    }
}

/// The line and its callers, or whose it is where no stack was recorded.
fn place(finding: &Finding) -> Vec<String> {
    match &finding.site {
        Some(site) => {
            let via = finding.via.iter().map(|via| format!("[{via}]"));
            std::iter::once(site.clone()).chain(finding.callers.iter().cloned()).chain(via).collect()
        }
        None => {
            let operator = finding.operator.iter().map(|operator| format!("allocated by {operator}"));
            let told: Vec<String> = operator.chain(finding.owner.clone()).collect();
            vec![if told.is_empty() { NO_STACK.to_owned() } else { format!("{} {NO_STACK}", told.join(", ")) }]
        }
    }
}

fn device_label(device: &str) -> String {
    if device.bytes().all(|byte| byte.is_ascii_digit()) { format!("npu {device}") } else { device.to_owned() }
}
