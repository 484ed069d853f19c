//! Leaks for a person.
use super::{Leak, Leaks};
use crate::analyze::Detail;
use crate::line::{Line, escaped, line_of};
use crate::report::quantity::{bytes, count, counted};
use crate::views::layout::{Emphasis, Layout, joined_within};
use crate::views::tree::NO_STACK;
use memscope_analysis::leaks::Verdict;

/// Rows of each verdict, and of blocks of a device.
const GROWING_SHOWN: usize = 10;
const GROWING_SHOWN_WITHOUT_STEPS: usize = 4;
const OTHERS_SHOWN: usize = 8;
const BLOCKS_SHOWN: usize = 12;
/// Columns of a row of steps.
const SPARK_WIDTH: usize = 16;

/// After a run without steps in which there is nothing to see.
pub const NOTHING_GROWS_OVER_TIME: &str = "leaks: nothing grows over the time of the run";

pub(super) fn of(leaks: &Leaks, layout: &Layout, detail: Detail) -> Vec<Line> {
    let growing: Vec<&Leak> = leaks.of(Verdict::Grows).collect();
    if detail == Detail::Brief && growing.is_empty() && leaks.freed_late.is_empty() {
        let told = match &leaks.steps {
            Some(steps) => format!("leaks: nothing grows over {}", counted(u64::from(steps.ended), "step", "steps")),
            None if leaks.is_cut_short => "leaks: nothing grows over the time that was recorded".to_owned(),
            None => NOTHING_GROWS_OVER_TIME.to_owned(),
        };
        return if leaks.too_short { Vec::new() } else { vec![layout.fit(&told)] };
    }
    let shown = match (detail, &leaks.steps) {
        // What a program fills up to its end looks like a leak: enough of it for the line one looks for.
        (Detail::Brief, None) => GROWING_SHOWN_WITHOUT_STEPS,
        _ => GROWING_SHOWN,
    };
    let mut lines = vec![layout.emphasised(layout.fit(&headline(leaks, growing.len())), Emphasis::Heading)];
    lines.extend(growing.iter().take(shown).flat_map(|leak| rows(leak, leaks, layout)));
    if growing.len() > shown {
        let rest = &growing[shown..];
        let sum = rest.iter().map(|leak| leak.bytes).sum();
        lines.push(line_of!(
            "  and {}: {}",
            counted(rest.len() as u64, "more call site that grows", "more call sites that grow"),
            bytes(sum)
        ));
    }
    lines.extend(freed_late(leaks, layout));
    if detail == Detail::Full {
        for verdict in [Verdict::Kept, Verdict::Carried] {
            lines.extend(others(leaks, verdict, layout));
        }
        lines.extend(blocks(&growing));
    } else if leaks.steps.is_some() {
        lines.extend(sums(leaks).map(|sum| line_of!("  {sum}")));
    }
    lines
}

impl Leaks {
    fn of(&self, verdict: Verdict) -> impl Iterator<Item = &Leak> {
        self.leaks.iter().filter(move |leak| leak.verdict == verdict.word())
    }
}

fn headline(leaks: &Leaks, growing: usize) -> String {
    let end = match (leaks.until_main_returned, leaks.is_cut_short) {
        (true, _) => "when main returned",
        (false, true) => "when recording stopped",
        (false, false) => "at the end",
    };
    let time = if leaks.is_cut_short { "the time that was recorded" } else { "the time of the run" };
    let seen = match &leaks.steps {
        None if leaks.too_short => format!("the run is too short to tell what grows; what was alive {end}"),
        Some(steps) if leaks.too_short => {
            let ended = counted(u64::from(steps.ended), "step", "steps");
            format!("{ended} ended: too few to tell what grows; what outlived its step and was alive {end}")
        }
        Some(steps) => format!("over {}, alive {end}", counted(u64::from(steps.ended), "step", "steps")),
        None if growing > 0 => {
            format!("over {time}, alive {end} (it may only be filling up: mark steps to know)")
        }
        None => format!("over {time}, alive {end}"),
    };
    match growing {
        0 if leaks.too_short => format!("leaks: {seen}:"),
        0 => format!("leaks: nothing grows, {seen}:"),
        number => format!(
            "leaks: {} {}, {seen}:",
            counted(number as u64, "call site", "call sites"),
            if number == 1 { "grows" } else { "grow" }
        ),
    }
}

/// What a leak comes to, and where it is.
fn rows(leak: &Leak, leaks: &Leaks, layout: &Layout) -> Vec<Line> {
    let mut facts = vec![format!("{} in {}", bytes(leak.bytes), counted(leak.blocks, "block", "blocks"))];
    if let (Some(growth), Some(_)) = (leak.growth, &leaks.steps) {
        facts.push(format!("{} a step", bytes(growth.bytes_per_step.round() as u64)));
    }
    // A steady leak shows in the second half of a run: half of it. Far less than that, and most came at once.
    if let Some(growth) = leak.growth.filter(|growth| growth.bytes < leak.bytes / 4) {
        facts.push(format!("of which only {} grew", bytes(growth.bytes)));
    }
    if let Some(made) = made_in(leak) {
        facts.push(made);
    }
    if let Some(operator) = &leak.operator {
        facts.push(format!("for {operator}"));
    }
    // A label says more than the pool; where there is no line, it stands in its place.
    let is_labelled = |owner: &&String| leak.site.is_some() && owner.contains('@') && !owner.starts_with("CANN@");
    if let Some(owner) = leak.owner.as_ref().filter(is_labelled) {
        facts.push(format!("labelled {owner}"));
    }
    let memory = format!("{} {}", device_label(&leak.device), leak.pool);
    let numbers = format!("  {:<7} {memory}: {}  {}", leak.verdict, facts.join(", "), spark(&leak.live_per_step));
    let emphasis = if leak.verdict == Verdict::Grows.word() { Emphasis::Grown } else { Emphasis::Faint };
    let (site, via, owner) = (leak.site.as_deref(), leak.via.as_deref(), leak.owner.as_deref());
    let place = place_text(site, &leak.callers, via, owner, layout.left(10));
    let place = if leak.own { layout.emphasised(place, Emphasis::Own) } else { place.into() };
    vec![layout.emphasised(layout.fit(&numbers), emphasis), place.indented(10)]
}

fn made_in(leak: &Leak) -> Option<String> {
    match (leak.first_step?, leak.last_step?) {
        (first, last) if first == last => Some(format!("made in step {first}")),
        (first, last) => Some(format!("made in steps {first} to {last}")),
    }
}

/// The line and its callers, or whose it is where no stack was recorded.
pub(super) fn place_text(
    site: Option<&str>,
    callers: &[String],
    via: Option<&str>,
    owner: Option<&str>,
    room: Option<usize>,
) -> String {
    let Some(site) = site else {
        let words: Vec<&str> = owner.into_iter().chain([NO_STACK]).collect();
        return joined_within(&[words.join(" ")], "", room);
    };
    let frames: Vec<String> = std::iter::once(site.to_owned()).chain(callers.iter().cloned()).collect();
    let mut text = joined_within(&frames, " < ", room);
    if let Some(via) = via.map(|via| format!(" [{}]", escaped(via))) {
        let used = console::measure_text_width(&text) + console::measure_text_width(&via);
        if room.is_none_or(|room| used <= room) {
            text.push_str(&via);
        }
    }
    text
}

pub(super) fn device_label(device: &str) -> String {
    if device.bytes().all(|byte| byte.is_ascii_digit()) { format!("npu {device}") } else { device.to_owned() }
}

fn freed_late(leaks: &Leaks, layout: &Layout) -> Vec<Line> {
    const SHOWN: usize = 5;
    let row = |late: &super::FreedLate| {
        let numbers = format!(
            "  grew by {} a step up to step {}, freed after the last step: ",
            bytes(late.growth.bytes_per_step.round() as u64),
            late.growth.last_step
        );
        let (site, owner) = (late.site.as_deref(), late.owner.as_deref());
        line_of!("{numbers}{}", place_text(site, &late.callers, None, owner, layout.left(numbers.len())))
    };
    leaks.freed_late.iter().take(SHOWN).map(row).collect()
}

fn others(leaks: &Leaks, verdict: Verdict, layout: &Layout) -> Vec<Line> {
    let all: Vec<&Leak> = leaks.of(verdict).collect();
    let mut lines: Vec<Line> = all.iter().take(OTHERS_SHOWN).flat_map(|leak| rows(leak, leaks, layout)).collect();
    if all.len() > OTHERS_SHOWN {
        let rest = &all[OTHERS_SHOWN..];
        let sum = rest.iter().map(|leak| leak.bytes).sum();
        let sites = counted(rest.len() as u64, "more call site", "more call sites");
        lines.push(line_of!("  and {sites}, {}: {}", verdict.word(), bytes(sum)));
    }
    lines
}

/// What does not grow, in a line each.
fn sums(leaks: &Leaks) -> impl Iterator<Item = String> + '_ {
    let told =
        [(Verdict::Kept, "kept, and no longer growing"), (Verdict::Carried, "carried from step to step, and replaced")];
    told.into_iter().filter_map(|(verdict, words)| {
        let sum: u64 = leaks.of(verdict).map(|leak| leak.bytes).sum();
        let sites = leaks.of(verdict).count() as u64;
        (sites > 0).then(|| format!("{words}: {} by {}", bytes(sum), counted(sites, "call site", "call sites")))
    })
}

/// The largest blocks of what grows, device by device and pool by pool.
fn blocks(growing: &[&Leak]) -> Vec<Line> {
    let mut pools: Vec<(&str, &str)> = Vec::new();
    for leak in growing {
        let pool = (leak.device.as_str(), leak.pool);
        if !pools.contains(&pool) {
            pools.push(pool);
        }
    }
    pools.into_iter().flat_map(|pool| blocks_of_pool(pool, growing)).collect()
}

fn blocks_of_pool((device, pool): (&str, &str), growing: &[&Leak]) -> Vec<Line> {
    let leaks = || growing.iter().filter(|leak| leak.device == device && leak.pool == pool);
    let (total, number) = leaks().fold((0, 0), |(sum, number), leak| (sum + leak.bytes, number + leak.blocks));
    let mut lines = vec![
        line_of!("  {} {pool}, blocks of what grows, the largest first:", device_label(device)),
        line_of!("    {:>6}  {:<24} {:<18} {:>12}", "step", "operator or kernel", "address", "size"),
    ];
    let rows = leaks().flat_map(|leak| {
        let blocks = leak.addresses.iter().zip(&leak.sizes);
        blocks.zip(leak.steps.iter().zip(&leak.operators))
    });
    for ((address, size), (step, operator)) in rows.take(BLOCKS_SHOWN) {
        let step = step.map_or("-".to_owned(), |step| step.to_string());
        let operator = operator.as_deref().unwrap_or("-");
        lines.push(line_of!("    {step:>6}  {operator:<24} {address:<18} {:>12}", bytes(*size)));
    }
    let more = match number.saturating_sub(BLOCKS_SHOWN as u64) {
        0 => String::new(),
        more => format!(", {} of them not shown", count(more)),
    };
    lines.push(line_of!("    total: {} in {}{more}", bytes(total), counted(number, "block", "blocks")));
    lines
}

/// A row of bars, as high as the numbers; of more numbers than there is room for, the highest of some each.
fn spark(row: &[u64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let highest = row.iter().copied().max().unwrap_or(0).max(1);
    let columns = row.len().min(SPARK_WIDTH);
    let bar = |column: usize| {
        let (first, end) = (column * row.len() / columns, (column + 1) * row.len() / columns);
        let value = row[first..end].iter().copied().max().unwrap_or(0);
        BARS[((u128::from(value) * 7).div_ceil(u128::from(highest))) as usize]
    };
    (0..columns).map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_high_as_the_numbers() {
        assert_eq!(spark(&[0, 1, 2, 3, 4, 5, 6, 7]), "▁▂▃▄▅▆▇█");
        assert_eq!(spark(&[5, 5]), "██");
        assert_eq!((spark(&[]), spark(&[0])), (String::new(), "▁".to_owned()));
        assert_eq!(spark(&(0..1000).collect::<Vec<u64>>()).chars().count(), SPARK_WIDTH);
    }
}
