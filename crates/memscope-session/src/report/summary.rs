//! The summary after a run or an export, and `info`: lines of text about recorded processes.
use super::completeness::Missing;
use super::process::{Life, PoolReport, ProcessReport};
use super::quantity::{bytes, count, counted};
use super::{tables, words};
use crate::export::Batch;
use crate::keeper::Unrecorded;
use crate::line::{Line, escaped, line_of};
use crate::views::layout::Layout;
use memscope_model::{Device, Outcome, Pool};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

/// Columns that the printer takes at the beginning of each line of a summary: `[msmemscope] `.
const PREFIX: usize = 13;
/// More processes than this are summed up, and so many of them told.
const PROCESSES_SHOWN: usize = 10;
/// Programs without a recording.
const UNRECORDED_SHOWN: usize = 8;
/// Of many processes, how many programs are told.
const PROGRAMS_SHOWN: usize = 8;

/// What was recorded, the largest process in detail, what is missing, and where the files are.
/// The recording and the files may be in different directories.
pub fn of_run(batch: &Batch, recording: &Path, written_to: &Path) -> Vec<Line> {
    let unrecorded = without_recording(&batch.unrecorded, &batch.reports);
    let by_peak = largest_first(&batch.reports);
    let mut lines = opening(batch, &unrecorded);
    for report in by_peak.iter().take(PROCESSES_SHOWN) {
        lines.extend(process_lines(report));
    }
    lines.extend(rest_line(&by_peak, recording).map(Line::from));
    lines.extend(unrecorded_lines(&unrecorded));
    // The answer before what it can be checked with.
    let layout = Layout::stderr(PREFIX);
    lines.extend(findings(&by_peak, &layout));
    lines.extend(by_peak.first().into_iter().flat_map(|largest| tables::of_process(largest, &layout)));
    let files: Vec<&Path> = by_peak.iter().flat_map(|report| &report.files).map(|file| file.as_path()).collect();
    match files.len() {
        0 => {}
        1..=6 => {
            lines.push("files:".into());
            lines.extend(files.iter().map(|file| line_of!("  {}", file.display())));
        }
        many => lines.push(line_of!("{} files below {}", count(many as u64), written_to.display())),
    }
    lines
}

/// Everything about each process; of many processes the largest in detail, unless `all` are asked for.
pub fn of_recording(batch: &Batch, output: &Path, all: bool) -> Vec<Line> {
    let unrecorded = without_recording(&batch.unrecorded, &batch.reports);
    let mut lines = opening(batch, &unrecorded);
    let directory_line = |report: &ProcessReport| line_of!("    {}", report.directory.display());
    if !all && batch.reports.len() > PROCESSES_SHOWN {
        let by_peak = largest_first(&batch.reports);
        for report in by_peak.iter().take(PROCESSES_SHOWN) {
            lines.extend(process_lines(report));
            lines.push(directory_line(report));
        }
        lines.extend(rest_line(&by_peak, output).map(Line::from));
        lines.extend(unrecorded_lines(&unrecorded));
        lines.extend(findings(&by_peak, &Layout::stdout()));
        lines.extend(by_peak.first().into_iter().flat_map(|largest| tables::of_process(largest, &Layout::stdout())));
        return lines;
    }
    for report in &batch.reports {
        lines.extend(process_lines(report));
        lines.push(directory_line(report));
        let layout = Layout::stdout().narrower(2);
        let tables = [tables::of_analyses(report, &layout), tables::of_process(report, &layout)];
        lines.extend(tables.into_iter().flatten().map(|line| line.indented(2)));
    }
    lines.extend(unrecorded_lines(&unrecorded));
    lines
}

/// What analyses found, of the largest processes.
fn findings(by_peak: &[&ProcessReport], layout: &Layout) -> Vec<Line> {
    match by_peak {
        [alone] => tables::of_analyses(alone, layout),
        several => {
            let told = several.iter().take(PROCESSES_SHOWN);
            told.flat_map(|report| tables::of_analyses_among_others(report, layout)).collect()
        }
    }
}

/// What holds for all.
fn opening(batch: &Batch, unrecorded: &[Unrecorded]) -> Vec<Line> {
    let mut lines = vec![Line::new(headline(batch, unrecorded.len()))];
    lines.extend(nothing_chosen(&batch.reports).map(Line::from));
    if batch.reports.len() > PROCESSES_SHOWN {
        lines.extend(program_lines(&batch.reports));
    }
    lines
}

/// Whoever was refused memory is what the user looks for, small as it may be.
fn largest_first(reports: &[ProcessReport]) -> Vec<&ProcessReport> {
    let mut sorted: Vec<&ProcessReport> = reports.iter().collect();
    sorted.sort_by_key(|report| Reverse((report.outcome.refusals > 0, report.peak_bytes())));
    sorted
}

/// Processes of the same program have one line.
fn program_lines(reports: &[ProcessReport]) -> Vec<Line> {
    let mut programs: BTreeMap<&Path, Vec<&ProcessReport>> = BTreeMap::new();
    for report in reports {
        programs.entry(&report.executable).or_default().push(report);
    }
    let mut programs: Vec<(&Path, Vec<&ProcessReport>)> = programs.into_iter().collect();
    programs.sort_by_key(|(_, reports)| Reverse(reports.iter().map(|report| report.peak_bytes()).max()));
    let mut lines: Vec<Line> = programs
        .iter()
        .take(PROGRAMS_SHOWN)
        .map(|(program, reports)| {
            let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy();
            line_of!("  {} of {}: {}", count(reports.len() as u64), shortened(&name), sums(reports))
        })
        .collect();
    if let Some(rest @ [_, ..]) = programs.get(PROGRAMS_SHOWN..) {
        let processes: Vec<&ProcessReport> = rest.iter().flat_map(|(_, reports)| reports).copied().collect();
        let programs = counted(rest.len() as u64, "other program", "other programs");
        lines.push(line_of!("  {} of {programs}: {}", count(processes.len() as u64), sums(&processes)));
    }
    lines
}

/// Events, and the largest peak.
fn sums(reports: &[&ProcessReport]) -> String {
    let events = counted_events(reports.iter().map(|report| &report.outcome));
    let most = reports.iter().map(|report| report.peak_bytes()).max().unwrap_or(0);
    format!("{events}, peak {}{}", if reports.len() == 1 { "" } else { "at most " }, bytes(most))
}

/// Those that are not told one by one.
fn rest_line(by_peak: &[&ProcessReport], output: &Path) -> Option<String> {
    let rest = by_peak.get(PROCESSES_SHOWN..).filter(|rest| !rest.is_empty())?;
    let incomplete = rest.iter().filter(|report| is_incomplete(report)).count() as u64;
    let noted = if incomplete == 0 { String::new() } else { format!("; {} of them incomplete", count(incomplete)) };
    Some(format!(
        "  and {}: {}{noted}; all are listed by: info --all {}",
        counted(rest.len() as u64, "smaller process", "smaller processes"),
        sums(rest),
        output.display()
    ))
}

/// A process may have been recorded in spite of what it looked like from outside.
fn without_recording(unrecorded: &[Unrecorded], reports: &[ProcessReport]) -> Vec<Unrecorded> {
    let recorded: HashSet<(u32, Cow<'_, str>)> =
        reports.iter().map(|report| (report.pid, report.executable.to_string_lossy())).collect();
    let missing = unrecorded
        .iter()
        .filter(|process| !recorded.contains(&(process.pid, Cow::Borrowed(process.executable.as_str()))));
    missing.cloned().collect()
}

/// Processes that run the same program and lack a recording for the same reason have one line.
pub fn unrecorded_lines(unrecorded: &[Unrecorded]) -> Vec<Line> {
    let mut groups: Vec<(&Unrecorded, u64)> = Vec::new();
    let mut places: HashMap<(&str, u32, &str), usize> = HashMap::new();
    for process in unrecorded {
        let program = if process.executable.is_empty() { &process.name } else { &process.executable };
        let place = *places.entry((program, process.user, &process.reason)).or_insert_with(|| {
            groups.push((process, 0));
            groups.len() - 1
        });
        groups[place].1 += 1;
    }
    let mut lines: Vec<Line> = groups
        .iter()
        .take(UNRECORDED_SHOWN)
        .map(|(process, number)| {
            let more = match number - 1 {
                0 => String::new(),
                more => format!(" and {} of it", counted(more, "more process", "more processes")),
            };
            let Unrecorded { pid, user, name, reason, .. } = process;
            line_of!("  process {pid} {}{more}: NOT RECORDED: {reason} (user {user})", shortened(name))
        })
        .collect();
    if groups.len() > UNRECORDED_SHOWN {
        let rest: u64 = groups[UNRECORDED_SHOWN..].iter().map(|(_, number)| number).sum();
        lines.push(line_of!("  and {} NOT RECORDED", counted(rest, "more process", "more processes")));
    }
    lines
}

/// Why nothing is shown, once, if that holds for all; a script that only starts the program marks no steps.
fn nothing_chosen(reports: &[ProcessReport]) -> Option<String> {
    let mut reasons = reports.iter().map(|report| report.outcome.nothing_chosen.as_ref());
    let first = reasons.next()??;
    reasons
        .all(|reason| reason.is_some())
        .then(|| words::nothing_chosen(first, reports.iter().all(|report| report.attached)))
}

fn headline(batch: &Batch, unrecorded: usize) -> String {
    let reports = &batch.reports;
    let processes = |number: u64| counted(number, "process", "processes");
    let events = counted_events(reports.iter().map(|report| &report.outcome));
    let verdict = Missing::of_batch(batch, unrecorded).verdict();
    let verdict = verdict.map_or_else(String::new, |verdict| format!(", {verdict}"));
    let mut parts = Vec::new();
    // Where nothing could be read nothing is known, not even that none was lost.
    if !reports.is_empty() || batch.unreadable == 0 {
        parts.push(format!("{} recorded: {events}{verdict}", processes(reports.len() as u64)));
    }
    if batch.unwritten() > 0 {
        parts.push(format!("files of {} could NOT be written", processes(batch.unwritten())));
    }
    if batch.unreadable > 0 {
        let more = if reports.is_empty() { "" } else { "more " };
        let recordings = counted(batch.unreadable, &format!("{more}recording"), &format!("{more}recordings"));
        parts.push(format!("{recordings} could NOT be read, see above"));
    }
    if unrecorded > 0 {
        parts.push(format!("{} NOT RECORDED", processes(unrecorded as u64)));
    }
    parts.join("; ")
}

/// Where the user chose a part of the time, how many events are of it.
fn counted_events<'o>(outcomes: impl Iterator<Item = &'o Outcome>) -> String {
    let (mut all, mut chosen, mut choice) = (0, 0, false);
    for outcome in outcomes {
        all += outcome.events;
        chosen += outcome.chosen_events;
        choice |= outcome.chosen_events < outcome.events;
    }
    let events = counted(all, "event", "events");
    match (choice, chosen) {
        (false, _) => events,
        (true, 0) => format!("{events}, none of them in the time asked for"),
        (true, chosen) => format!("{events}, {} of them in the time asked for", count(chosen)),
    }
}

fn process_lines(report: &ProcessReport) -> Vec<Line> {
    let events = counted_events(std::iter::once(&report.outcome));
    let mut lines =
        vec![line_of!("  process {} {}: {events}, {}", report.pid, shortened(&report.command), report.end_in_words())];
    lines.extend(shown_pools(report).map(|pool| line_of!("    {}{}", pool_line(pool, report), beside(pool, report))));
    lines.extend(kernel_line(report).map(|kernels| line_of!("    {kernels}")));
    lines.extend(shortcomings(report).into_iter().map(|shortcoming| line_of!("    {shortcoming}")));
    lines
}

/// None if nothing of the process lies in the time the user chose.
fn shown_pools(report: &ProcessReport) -> impl Iterator<Item = &PoolReport> {
    report.pools.iter().filter(|_| report.outcome.nothing_chosen.is_none())
}

fn kernel_line(report: &ProcessReport) -> Option<String> {
    let kernels = report.outcome.kernels;
    (kernels.launches > 0).then(|| {
        let launches = counted(kernels.launches, "launch", "launches");
        format!("kernels: {launches}, {} on a device", counted(kernels.executions, "execution", "executions"))
    })
}

fn pool_line(pool: &PoolReport, report: &ProcessReport) -> String {
    let reserved = pool
        .reserved
        .map_or(String::new(), |(last, most)| format!(", reserved {} (at most {})", bytes(last), bytes(most)));
    format!(
        "{}: peak {} after {:.3} s, {} {} {} in {}{reserved}",
        pool.label(),
        bytes(pool.peak_bytes),
        pool.peak_after_ns as f64 / 1e9,
        if report.life == Life::Running { "in use" } else { "alive" },
        report.last_moment(),
        bytes(pool.live_bytes),
        counted(pool.live_blocks, "block", "blocks"),
    )
}

/// What stands beside the host's memory: how much of it the process had touched, and what only looks like memory.
fn beside(pool: &PoolReport, report: &ProcessReport) -> String {
    if pool.pool != Pool::Host {
        let is_within = pool.device == Device::Cpu && pool.pool == Pool::PtaCaching;
        return if is_within { "; within HOST".to_owned() } else { String::new() };
    }
    let resident = report.resident_bytes.map_or(String::new(), |most| format!("; resident at most {}", bytes(most)));
    // Guard pages are no news.
    const WORTH_TELLING: u64 = 1 << 20;
    let reserved = match report.outcome.peak_reserved_space {
        0..WORTH_TELLING => String::new(),
        most => format!("; at most {} of address space reserved and not usable", bytes(most)),
    };
    format!("{resident}{reserved}")
}

/// Whether something of the process is not in its recording, or not in its files.
fn is_incomplete(report: &ProcessReport) -> bool {
    Missing::of_process(report).is_anything() || !report.unwritten.is_empty() || !report.notes.is_empty()
}

/// What the recording does not hold.
fn shortcomings(report: &ProcessReport) -> Vec<String> {
    let outcome = &report.outcome;
    let mut lines: Vec<String> = report.unwritten.iter().map(|failure| format!("NOT EXPORTED: {failure}")).collect();
    lines.extend(report.notes.iter().cloned());
    lines.extend(outcome.problems.iter().map(words::problem));
    lines.extend(losses(outcome));
    let mut counted_line = |number: u64, singular: &str, plural: &str| {
        if number > 0 {
            lines.push(counted(number, singular, plural));
        }
    };
    let (free, frees) = match report.attached {
        true => {
            ("free of a block that was allocated before start()", "frees of blocks that were allocated before start()")
        }
        false => (
            "free of a block whose allocation was not seen (a forked child frees what its parent allocated)",
            "frees of blocks whose allocation was not seen (a forked child frees what its parent allocated)",
        ),
    };
    counted_line(outcome.unmatched_frees, free, frees);
    counted_line(
        outcome.replaced_blocks,
        "block whose free was not seen before its address was used again",
        "blocks whose free was not seen before their address was used again",
    );
    counted_line(
        outcome.implausible_events,
        "recorded event that cannot have happened was left out",
        "recorded events that cannot have happened were left out",
    );
    counted_line(outcome.events_without_stack, "event whose call stack is lost", "events whose call stack is lost");
    counted_line(
        outcome.unknown_records,
        "record of a kind that this version does not know was skipped",
        "records of kinds that this version does not know were skipped",
    );
    const DAMAGE_SHOWN: usize = 5;
    lines.extend(outcome.damage.iter().take(DAMAGE_SHOWN).map(|damage| format!("damaged: {}", words::damage(damage))));
    if outcome.damage.len() > DAMAGE_SHOWN {
        lines.push(format!("and {} more damaged places", outcome.damage.len() - DAMAGE_SHOWN));
    }
    lines
}

/// How many events are missing, and why.
fn losses(outcome: &Outcome) -> Vec<String> {
    let missing = |number: u64, why: &str| {
        (number > 0).then(|| format!("{} not recorded: {why}", counted(number, "event was", "events were")))
    };
    match outcome.stopped.map(words::stopped) {
        Some(why) if outcome.lost_events == 0 => vec![format!("recording stopped early: {why}")],
        Some(why) => missing(outcome.lost_events, &why).into_iter().collect(),
        None => {
            let interrupted = outcome.lost_events.saturating_sub(outcome.lost_without_window);
            let lines = [
                missing(
                    outcome.lost_without_window,
                    "there was no memory, descriptor or disk space for their threads, or they came between vfork and exec",
                ),
                missing(interrupted, "they came from signal handlers, or jumps, while the recorder was at work"),
            ];
            lines.into_iter().flatten().collect()
        }
    }
}

/// A command line on one line, cut to what fits beside the numbers.
pub(crate) fn shortened(command: &str) -> String {
    const LONGEST: usize = 60;
    let words: Vec<Cow<'_, str>> = command.split_whitespace().map(escaped).collect();
    let mut words = words.iter().map(|word| &**word);
    let mut line = words.next().unwrap_or_default().to_owned();
    for word in words {
        line.push(' ');
        line.push_str(word);
    }
    if line.chars().count() <= LONGEST {
        return line;
    }
    // Where a program lies says less than what it was told.
    let program = line.split(' ').next().unwrap_or_default();
    if let Some(name) = program.rfind('/') {
        line.drain(..=name);
    }
    if line.chars().count() <= LONGEST {
        return line;
    }
    let kept: String = line.chars().take(LONGEST - 1).collect();
    format!("{kept}…")
}
