//! The report of an out of memory for a person.
use super::{Detail, GIVEN_LESS, NamedBlock, NamedHolder, NamedKill, NamedOom, NamedPool, OomReport, REFUSED_AGAIN};
use crate::keeper::oom_kills::Certainty;
use crate::line::{Line, line_of};
use crate::report::quantity::{bytes, count, counted};
use crate::views::layout::{Emphasis, Layout};
use crate::views::rows::share;
use memscope_model::Pool;

/// How many are told after a run that was not asked for them, and how many of their call sites.
const BRIEF_OOMS: usize = 3;
const BRIEF_SITES: usize = 3;

/// Nothing to say of a process that had all it wanted, unless `asked`.
pub(super) fn of(report: &OomReport, layout: &Layout, asked: Detail) -> Vec<Line> {
    let detail = if report.asked_for { Detail::Full } else { asked };
    let told = match detail {
        Detail::Brief => BRIEF_OOMS,
        Detail::Full => usize::MAX,
    };
    let mut lines = Vec::new();
    let mut before = None;
    for oom in report.ooms.iter().take(told) {
        lines.extend(of_oom(oom, report.pid, before, layout, detail));
        before = Some(oom);
    }
    let told = report.ooms.len().min(told) as u64;
    if report.count > told {
        let more = counted(report.count - told, "more time", "more times");
        lines.push(line_of!("out of memory {more}, {} refusals in all", count(report.refusals)));
    }
    if report.handled {
        lines.push("the program dealt with that, and ended with status 0".into());
    }
    if let Some(killed) = &report.killed {
        lines.extend(of_kill(killed, report.pid, layout, detail));
    }
    if lines.is_empty() && asked == Detail::Full {
        lines.push("no memory was refused".into());
    }
    lines
}

fn of_oom(oom: &NamedOom, pid: u32, before: Option<&NamedOom>, layout: &Layout, detail: Detail) -> Vec<Line> {
    let mut circumstances = vec![oom.call.to_owned()];
    if let Some(step) = oom.step {
        circumstances.push(format!("step {step}"));
    }
    if detail == Detail::Full {
        circumstances.push(format!("thread {}", oom.thread));
        if oom.flag != 0 {
            circumstances.push(format!("flag {:#x}", oom.flag));
        }
    }
    if oom.tries > 1 {
        circumstances.push(format!("{} tries", count(u64::from(oom.tries))));
    }
    let title = format!(
        "OUT OF MEMORY in process {pid}: {} refused {} after {} ({})",
        device(&oom.device),
        bytes(oom.bytes),
        seconds(oom.after_ns),
        circumstances.join(", ")
    );
    let mut lines = vec![layout.emphasised(layout.fit(&title), Emphasis::Grown)];
    let asked = "  asked for by ";
    lines.push(line_of!("{asked}{}", oom.site.text(layout.left(asked.len()))));
    lines.push(line_of!("  {}", fate(oom)));
    if oom.pools.is_empty() {
        lines.push("  what was alive then was not looked at: there were too many refusals".into());
    } else if before.is_some_and(|before| is_same_memory(before, oom)) {
        lines.push("  what was alive was the same as before".into());
        return lines;
    }
    lines.extend(of_pools(&oom.pools, &oom.device, layout, detail));
    lines
}

/// Whether nothing was allocated or freed in between.
fn is_same_memory(before: &NamedOom, oom: &NamedOom) -> bool {
    let is_same = |(one, other): (&NamedPool, &NamedPool)| {
        let sums = |pool: &NamedPool| (pool.pool, pool.used, pool.blocks, pool.reserved);
        sums(one) == sums(other) && one.largest == other.largest && one.newest == other.newest
    };
    let pools = before.pools.iter().zip(&oom.pools);
    before.device == oom.device && before.pools.len() == oom.pools.len() && pools.into_iter().all(is_same)
}

fn fate(oom: &NamedOom) -> String {
    match (oom.then, oom.given_after_ns) {
        (_, Some(after)) => format!(
            "the same thread was given as much {} later: the program went on",
            seconds(after.saturating_sub(oom.after_ns))
        ),
        (GIVEN_LESS, _) => "the same thread was given memory there later, but never as much at once".to_owned(),
        (REFUSED_AGAIN, _) => "the next that the same thread asked for was refused, too".to_owned(),
        _ => "the same thread was given no memory there any more".to_owned(),
    }
}

fn of_kill(killed: &NamedKill, pid: u32, layout: &Layout, detail: Detail) -> Vec<Line> {
    let kill = killed.kill;
    let processes = counted(kill.killed, "process", "processes");
    let (sure, why) = match kill.certainty {
        Certainty::Certain => ("", "the kernel's log says so".to_owned()),
        Certainty::Likely => (
            "probably ",
            format!("it ended by SIGKILL, and the kernel killed {processes} of its control group during the run"),
        ),
        Certainty::Possible => (
            "possibly ",
            format!("it ended without exit, and the kernel killed {processes} for want of memory during the run"),
        ),
    };
    let title = format!("OUT OF MEMORY: process {pid} was {sure}killed by the kernel for want of memory");
    let mut lines = vec![layout.emphasised(layout.fit(&title), Emphasis::Grown), line_of!("  {why}")];
    if killed.pools.iter().all(|pool| pool.blocks == 0) {
        lines.push("  its host memory was not recorded: --device=cpu, or npu,cpu, does".into());
    }
    lines.extend(of_pools(&killed.pools, "cpu", layout, detail));
    lines
}

fn of_pools(pools: &[NamedPool], of: &str, layout: &Layout, detail: Detail) -> Vec<Line> {
    let mut pools: Vec<&NamedPool> = pools.iter().filter(|pool| pool.blocks > 0 || pool.reserved > Some(0)).collect();
    // A framework's pool says more than the driver's memory that it is made of: whose block made the pool grow is chance.
    pools.sort_by_key(|pool| pool.pool == Pool::Hal.name());
    let mut lines: Vec<Line> = pools.iter().map(|pool| line_of!("  {}", state(pool, of))).collect();
    match detail {
        Detail::Brief => {
            let is_made_of = |pool: &NamedPool| pool.pool == Pool::Hal.name();
            let telling = pools.iter().filter(|pool| pool.used > 0).max_by_key(|pool| (!is_made_of(pool), pool.used));
            if let Some(pool) = telling {
                lines.extend(holders(&pool.sites, pool.used, BRIEF_SITES, layout));
            }
        }
        Detail::Full => lines.extend(pools.iter().flat_map(|pool| in_full(pool, of, layout))),
    }
    lines
}

/// `npu 0 PTA: 1.9 GiB in use in 120 blocks of 2.0 GiB reserved; …`
fn state(pool: &NamedPool, of: &str) -> String {
    let held = format!(
        "{} {}: {} in use in {}",
        device(of),
        pool.pool,
        bytes(pool.used),
        counted(pool.blocks, "block", "blocks")
    );
    match (pool.reserved, pool.idle, pool.idle_is_enough) {
        (Some(reserved), Some(idle), enough) => {
            let verdict = match enough {
                Some(true) => ": enough for the request, but not in one piece",
                _ => "",
            };
            format!("{held}, {} reserved, {} of it handed out to nobody{verdict}", bytes(reserved), bytes(idle))
        }
        _ if lies_in_host(pool, of) => format!("{held}, within HOST"),
        _ => held,
    }
}

/// Storages of tensors on the host.
fn lies_in_host(pool: &NamedPool, of: &str) -> bool {
    of == "cpu" && pool.pool == Pool::PtaCaching.name()
}

fn in_full(pool: &NamedPool, of: &str, layout: &Layout) -> Vec<Line> {
    let heading = |text: &str| {
        let title = format!("  {text} of {} {}:", device(of), pool.pool);
        layout.emphasised(layout.fit(&title), Emphasis::Heading)
    };
    let mut lines = Vec::new();
    if !pool.sites.is_empty() {
        lines.push(heading("who held it, by call site,"));
        lines.extend(holders(&pool.sites, pool.used, usize::MAX, layout));
    }
    if pool.owners.iter().any(|owner| owner.owner.is_some()) {
        lines.push(heading("by owner,"));
        lines.extend(pool.owners.iter().map(|owner| {
            let name = owner.owner.as_deref().unwrap_or("(no owner)");
            line_of!("  {}{name}", numbers(owner.bytes, owner.blocks, pool.used))
        }));
    }
    for (title, blocks) in [("largest blocks", &pool.largest), ("newest blocks", &pool.newest)] {
        if !blocks.is_empty() {
            lines.push(heading(title));
            lines.extend(of_blocks(blocks, layout));
        }
    }
    if !pool.new_sites.is_empty() {
        lines.push(heading(&format!("allocated since {}, {},", seconds(pool.new_after_ns), bytes(pool.new_bytes))));
        lines.extend(holders(&pool.new_sites, pool.used, usize::MAX, layout));
    }
    lines.extend(history(pool, of, layout));
    lines
}

fn numbers(part: u64, blocks: u64, whole: u64) -> String {
    format!("{:>12} {:>5.1}% {:>13}  ", bytes(part), share(part, whole) * 100.0, counted(blocks, "block", "blocks"))
}

fn holders(sites: &[NamedHolder], whole: u64, most: usize, layout: &Layout) -> Vec<Line> {
    let row = |holder: &NamedHolder| {
        let numbers = format!("  {}", numbers(holder.bytes, holder.blocks, whole));
        let place = holder.site.text(layout.left(numbers.len()));
        let place = if holder.site.own { layout.emphasised(place, Emphasis::Own) } else { place.into() };
        Line::new(numbers).then(place)
    };
    sites.iter().take(most).map(row).collect()
}

/// Neighbours that differ in nothing but their address and time are one row.
fn of_blocks(blocks: &[NamedBlock], layout: &Layout) -> Vec<Line> {
    let kind = |block: &NamedBlock| (block.bytes, block.owner.clone(), block.step, block.site.clone());
    blocks.chunk_by(|one, other| kind(one) == kind(other)).map(|alike| of_alike(alike, layout)).collect()
}

fn of_alike(alike: &[NamedBlock], layout: &Layout) -> Line {
    let Some(block) = alike.first() else { return Line::default() };
    let number = match alike.len() {
        1 => format!("at {}, after {}", block.address, seconds(block.after_ns)),
        number => format!("{number} blocks, one at {}, after {}", block.address, seconds(block.after_ns)),
    };
    let step = block.step.map_or(String::new(), |step| format!(", step {step}"));
    let owner = block.owner.as_ref().map_or(String::new(), |owner| format!(" {owner}"));
    let facts = format!("  {:>12}  {number}{step}{owner}  ", bytes(block.bytes));
    let place = block.site.text(layout.left(facts.len()));
    let place = if block.site.own { layout.emphasised(place, Emphasis::Own) } else { place.into() };
    Line::new(facts).then(place)
}

/// A row of bars, each the most in its stretch of time.
fn history(pool: &NamedPool, of: &str, layout: &Layout) -> Vec<Line> {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    const COLUMNS: usize = 64;
    let most = pool.history.iter().map(|point| point.most).max().unwrap_or(0);
    let (Some(first), Some(last)) = (pool.history.first(), pool.history.last()) else { return Vec::new() };
    if most == 0 {
        return Vec::new();
    }
    let a_column = pool.history.len().div_ceil(COLUMNS);
    let bars: String = pool
        .history
        .chunks(a_column)
        .map(|points| {
            let height = points.iter().map(|point| point.most).max().unwrap_or(0) as f64 / most as f64;
            BARS[((height * BARS.len() as f64).ceil() as usize).clamp(1, BARS.len()) - 1]
        })
        .collect();
    let title = format!(
        "  in use of {} {} from {} to {}, at most {}:",
        device(of),
        pool.pool,
        seconds(first.after_ns),
        seconds(last.after_ns),
        bytes(most)
    );
    vec![layout.emphasised(layout.fit(&title), Emphasis::Heading), layout.narrower(4).fit(&bars).indented(4)]
}

fn seconds(ns: u64) -> String {
    format!("{:.3} s", ns as f64 / 1e9)
}

/// `npu 0`, as everywhere in reports.
fn device(device: &str) -> String {
    match device {
        "cpu" => "cpu".to_owned(),
        "N/A" => "unknown device".to_owned(),
        number => format!("npu {number}"),
    }
}
