//! The report of watched blocks for a person.
use super::{
    BUDGET, DISK_FULL, Detail, LATE, NO_FILE, NO_OUTPUTS, NamedBlock, NamedChange, NamedDoubt, NamedNeighbour,
    NamedOperator, NamedProblem, NamedWatches, TOO_MANY_BLOCKS,
};
use crate::line::{Line, line_of};
use crate::report::quantity::{bytes, count, counted};
use crate::views::layout::{Emphasis, Layout, joined_within};

/// How many changes of a block are told after a run, and how many blocks without one.
const BRIEF_CHANGES: usize = 3;
const BRIEF_BLOCKS: usize = 3;
/// How many frames of a stack are told; all, where it was asked for.
const BRIEF_FRAMES: usize = 4;

pub(super) fn of(report: &NamedWatches, layout: &Layout, detail: Detail) -> Vec<Line> {
    let mut lines = Vec::new();
    let (alarmed, quiet): (Vec<&NamedBlock>, Vec<&NamedBlock>) =
        report.blocks.iter().partition(|block| block.alarms > 0);
    for block in alarmed {
        lines.extend(of_alarms(block, layout, detail));
    }
    let (doubtful, quiet): (Vec<&NamedBlock>, Vec<&NamedBlock>) =
        quiet.into_iter().partition(|block| block.doubtful_changes > 0);
    for block in doubtful {
        lines.push(line_of!("watched {}: {}{}", title(block), found(block), end(block)));
        lines.extend(of_doubts(block, layout, detail));
    }
    let told = if detail == Detail::Full { usize::MAX } else { BRIEF_BLOCKS };
    for block in quiet.iter().take(told) {
        lines.push(line_of!("watched {}: {}{}", title(block), found(block), end(block)));
    }
    if let more @ 1.. = quiet.len().saturating_sub(told) {
        let changes: u64 = quiet.iter().skip(told).map(|block| block.legal_changes).sum();
        let blocks = counted(more as u64, "more block was", "more blocks were");
        lines.push(line_of!(
            "{blocks} watched without an alarm, {} by their owners",
            counted(changes, "change", "changes")
        ));
    }
    if let Some(block) = report.blocks.iter().find(|block| block.no_such_output) {
        lines.push(line_of!(
            "note: {} has no output of the number that was asked for; all its outputs were watched",
            block.name
        ));
    }
    if report.blocks.iter().any(|block| block.late && block.legal_changes > 0) {
        lines.push(Line::new(
            "note: launches were asynchronous: a change seen during an owner of the block is taken for the owner's, and may be that of an \
             operator before it; ASCEND_LAUNCH_BLOCKING=1 makes it certain",
        ));
    }
    if report.not_looked > 0 {
        lines.push(line_of!(
            "note: watched blocks were not looked at {} while a graph was captured, for nobody may wait for the device then; what the \
             graph writes when it runs is told as between operators",
            counted(report.not_looked, "time", "times")
        ));
    }
    let mut problems: Vec<Line> = report.problems.iter().map(|problem| of_problem(problem).into()).collect();
    problems.dedup();
    lines.extend(problems);
    lines.extend(of_window(report).map(Line::from));
    lines
}

/// What became of the window that the command asked for.
fn of_window(report: &NamedWatches) -> Option<String> {
    let asked_for = report.asked_for.as_ref()?;
    let mut parts = asked_for.split(',');
    let start = parts.next().filter(|start| !start.is_empty())?;
    let end = parts.next().unwrap_or_default();
    let of_command: Vec<&NamedBlock> = report.blocks.iter().filter(|block| block.chosen_by == "operator").collect();
    if of_command.is_empty() && report.problems.is_empty() && report.not_looked == 0 {
        return Some(format!(
            "note: --watch={asked_for}: nothing was watched, for no operator {start} ended while it was traced; operators are named as \
             in the Name column, or by their path behind its first part"
        ));
    }
    let is_open = of_command.iter().any(|block| block.ended.is_none());
    is_open.then(|| {
        format!(
            "note: --watch={asked_for}: the end operator {end} did not come; watching went on to the end of the program"
        )
    })
}

/// `block w (2.0 MiB at 0x12c0 on npu 0)`.
fn title(block: &NamedBlock) -> String {
    let output = if block.chosen_by == "operator" { format!(", output {}", block.output) } else { String::new() };
    let device = if block.device == "cpu" { "cpu".to_owned() } else { format!("npu {}", block.device) };
    format!("block `{}`{output} ({} at {} on {device})", block.name, bytes(block.bytes), block.address)
}

fn found(block: &NamedBlock) -> String {
    let looks = counted(block.looks, "look", "looks");
    let legal = match (block.legal_changes, block.doubtful_changes + block.alarms) {
        (0, 0) => String::from(", unchanged"),
        (0, _) => String::new(),
        (legal, _) => format!(", {} by operators that own it", counted(legal, "change", "changes")),
    };
    let doubtful = match block.doubtful_changes {
        0 => String::new(),
        doubtful => format!(", {} by operators that may own it", counted(doubtful, "change", "changes")),
    };
    format!("{looks}{legal}{doubtful}")
}

fn of_doubts(block: &NamedBlock, layout: &Layout, detail: Detail) -> Vec<Line> {
    let told = if detail == Detail::Full { usize::MAX } else { BRIEF_CHANGES };
    let mut lines: Vec<Line> =
        block.doubts.iter().take(told).flat_map(|doubt| of_doubt(doubt, layout, detail)).collect();
    if let more @ 1.. = block.doubts.len().saturating_sub(told) {
        lines.push(line_of!("  and by {}", counted(more as u64, "more operator", "more operators")));
    }
    lines
}

fn of_doubt(doubt: &NamedDoubt, layout: &Layout, detail: Detail) -> Vec<Line> {
    let NamedDoubt { owner, times, change, .. } = doubt;
    let times = if *times == 1 { String::new() } else { format!(" {} times, at first", count(*times)) };
    let mut lines = Vec::new();
    if doubt.doubt == LATE {
        lines.push(line_of!("  changed{times} {}{}", place(change), differing(change)));
        lines.push(line_of!(
            "    launches were asynchronous: it may be the change of {}, which owns the block and had ended unseen to change it, or that of \
             any operator{}; ASCEND_LAUNCH_BLOCKING=1 tells",
            operator(owner),
            since(change)
        ));
    } else {
        lines.push(line_of!(
            "  changed{times} during {}, which was given it as an input and does not say whether to write into it{}",
            operator(owner),
            differing(change)
        ));
    }
    lines.extend(callers_and_neighbours(change, layout, detail));
    lines
}

fn end(block: &NamedBlock) -> &'static str {
    match block.ended {
        Some("freed") => "; its watch ended when it was freed",
        Some("resized") => "; its watch ended when it was resized",
        Some("unreadable") => "; its watch ended when it could not be read any more",
        Some("dump_nums") => "; looked at as often as dump_nums says",
        _ => "",
    }
}

fn of_alarms(block: &NamedBlock, layout: &Layout, detail: Detail) -> Vec<Line> {
    let times = counted(block.alarms, "time", "times");
    let title = format!("OVERWRITTEN: {} was changed {times} by others than its owners", title(block));
    let mut lines = vec![layout.emphasised(layout.fit(&title), Emphasis::Grown)];
    let told = if detail == Detail::Full { usize::MAX } else { BRIEF_CHANGES };
    for change in block.changes.iter().take(told) {
        lines.extend(of_change(change, layout, detail));
    }
    let told = block.changes.len().min(told) as u64;
    if block.alarms > told {
        lines.push(line_of!("  and {} more such changes", count(block.alarms - told)));
    }
    lines.push(line_of!("  {}{}", found(block), end(block)));
    lines.extend(of_doubts(block, layout, detail));
    lines
}

fn of_change(change: &NamedChange, layout: &Layout, detail: Detail) -> Vec<Line> {
    let mut lines = vec![line_of!("  changed {}{}", place(change), differing(change))];
    if !change.exact {
        lines.push(line_of!(
            "    launches were asynchronous: an earlier operator may have done it{}; ASCEND_LAUNCH_BLOCKING=1 narrows it to one",
            since(change)
        ));
    }
    lines.extend(callers_and_neighbours(change, layout, detail));
    lines
}

/// `: bytes 4096..8191`, where bytes are kept.
fn differing(change: &NamedChange) -> String {
    match (change.first_byte, change.last_byte) {
        (Some(first), Some(last)) => format!(": bytes {first}..{last}"),
        _ => String::new(),
    }
}

/// During which operators, or between which.
fn place(change: &NamedChange) -> String {
    match change.during.as_slice() {
        [] => between(change),
        [one] => format!("during {}, which does not own it", operator(one)),
        several => {
            let all: Vec<String> = several.iter().map(operator).collect();
            format!("during one of these, none of which owns it: {}", all.join("; "))
        }
    }
}

/// Which operators can have made a change that was seen late.
fn since(change: &NamedChange) -> String {
    change.since.as_ref().map_or_else(String::new, |since| {
        format!(", from {} on ({})", operator(since), counted(change.operators_since, "operator", "operators"))
    })
}

fn callers_and_neighbours(change: &NamedChange, layout: &Layout, detail: Detail) -> Vec<Line> {
    let with_stack = change.during.iter().filter(|call| !call.stack.is_empty());
    let callers = with_stack.map(|call| line_of!("    called by {}", stack(&call.stack, layout, detail)));
    let neighbours =
        change.neighbours.iter().map(|neighbour| line_of!("    {}", of_neighbour(neighbour, layout, detail)));
    callers.chain(neighbours).collect()
}

/// Nobody was at work: the program itself, or what no operator says.
fn between(change: &NamedChange) -> String {
    match (&change.after, &change.before) {
        (Some(after), Some(before)) => format!("between {} and {}", operator(after), operator(before)),
        (None, Some(before)) => format!("before {}", operator(before)),
        (Some(after), None) => format!("after {}", operator(after)),
        (None, None) => "outside of operators".to_owned(),
    }
}

fn operator(call: &NamedOperator) -> String {
    let kernel = if call.level == "kernel" { "kernel " } else { "" };
    format!("{kernel}{} (call {}, thread {})", call.name, call.call, call.thread)
}

fn stack(frames: &[String], layout: &Layout, detail: Detail) -> String {
    let shown = if detail == Detail::Full { frames.len() } else { frames.len().min(BRIEF_FRAMES) };
    joined_within(&frames[..shown], " < ", layout.left(16))
}

fn of_neighbour(neighbour: &NamedNeighbour, layout: &Layout, detail: Detail) -> String {
    let distance = match neighbour.distance {
        0 => format!("right {} it", neighbour.side),
        distance => format!("{} {} it", bytes(distance), neighbour.side),
    };
    let by = |frames: &[String]| match frames {
        [] => String::new(),
        frames => format!(" by {}", stack(frames, layout, detail)),
    };
    let life = match neighbour.freed_after_ns {
        Some(_) => format!("allocated{}, freed{}", by(&neighbour.made_by), by(&neighbour.freed_by)),
        None => format!("allocated{}, alive", by(&neighbour.made_by)),
    };
    format!("{distance}: {} at {}, {life}", bytes(neighbour.bytes), neighbour.address)
}

fn of_problem(problem: &NamedProblem) -> String {
    match problem.problem {
        BUDGET => format!(
            "note: bytes of watched blocks were kept up to --watch-max-bytes ({}); from then on only check sums were",
            bytes(problem.value)
        ),
        DISK_FULL => {
            "note: the disk is nearly full: of watched blocks only check sums were kept from then on".to_owned()
        }
        NO_FILE => format!(
            "note: the file for the bytes of watched blocks could not be made (errno {}): only check sums were kept",
            problem.value
        ),
        NO_OUTPUTS => "note: the start operator of --watch put out nothing that can be watched".to_owned(),
        TOO_MANY_BLOCKS => format!("note: no more than {} blocks can be watched at once", count(problem.value)),
        _ => String::new(),
    }
}
