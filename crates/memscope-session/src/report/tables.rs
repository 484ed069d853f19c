//! The tables of the summary: where the memory of a process was.
use super::holders::Holders;
use super::process::{Life, PoolReport, ProcessReport};
use super::quantity::{bytes, counted};
use super::summary::shortened;

use crate::analyze::leaks::NOTHING_GROWS_OVER_TIME;
use crate::analyze::{Conclusion, Detail, Kind, Lacking};
use crate::line::Line;
use crate::views::layout::{Emphasis, Layout};
use crate::views::rows::{function_rows, site_rows};
use memscope_model::{Device, Pool};

/// By function and by call site at the peak, and what was not given back.
pub(super) fn of_process(report: &ProcessReport, layout: &Layout) -> Vec<Line> {
    if !report.stacks_recorded {
        let wish = if report.attached { "config(call_stack=\"c,python\")" } else { "--call-stack=c,python" };
        let line = format!("no call stacks were recorded; {wish} shows where memory comes from");
        return if report.peak_bytes() > 0 { vec![line.into()] } else { Vec::new() };
    }
    // None if nothing of the process lies in the time the user chose.
    let pools = report.pools.iter().filter(|_| report.outcome.nothing_chosen.is_none());
    pools.flat_map(|pool| of_pool(pool, report, layout)).collect()
}

/// What the analyses found that the run was asked for, of one of several processes: whose it is, if there is anything to say.
pub(super) fn of_analyses_among_others(report: &ProcessReport, layout: &Layout) -> Vec<Line> {
    let mut lines = of_analyses(report, layout);
    lines.retain(|line| *line != NOTHING_GROWS_OVER_TIME);
    if !lines.is_empty() {
        let title = format!("process {} {}:", report.pid, shortened(&report.command));
        lines.insert(0, layout.emphasised(layout.fit(&title), Emphasis::Heading));
    }
    lines
}

/// What the analyses found that the run was asked for.
pub(super) fn of_analyses(report: &ProcessReport, layout: &Layout) -> Vec<Line> {
    let told = |(kind, conclusion): &Conclusion| match conclusion {
        Ok(found) => found.lines(layout, Detail::Brief),
        // Nobody gets this one without asking for it.
        Err(Lacking(what))
            if *kind == Kind::Inefficient && report.pools.iter().any(|pool| pool.device != Device::Cpu) =>
        {
            vec![layout.fit(&format!("no {}: {what}", kind.word()))]
        }
        Err(_) => Vec::new(),
    };
    let mut lines: Vec<Line> = report.conclusions.iter().flat_map(told).collect();
    if report.outcome.nothing_chosen.is_some() {
        // Where nothing was looked at, that nothing was seen is no news.
        lines.retain(|line| *line != NOTHING_GROWS_OVER_TIME);
    }
    lines
}

fn of_pool(pool: &PoolReport, report: &ProcessReport, layout: &Layout) -> Vec<Line> {
    let title = |text: String| layout.emphasised(layout.fit(&text), Emphasis::Heading);
    let of = |what: &str| format!("{what} of process {}, {}", report.pid, pool.label());
    let sites = |holders: &Holders| site_rows(&holders.sites, holders.total, &report.names, layout);
    let mut lines = Vec::new();
    if pool.peak_bytes == report.peak_bytes() && !pool.at_peak.functions.is_empty() {
        lines.push(title(format!("{}, by function:", of("at the peak"))));
        lines.extend(function_rows(&pool.at_peak.functions, pool.at_peak.total, &report.names, layout));
    }
    lines.push(title(format!("{}:", of("at the peak"))));
    lines.extend(sites(&pool.at_peak));
    if let Some(holders) = pool.main_returned.as_ref().filter(|holders| holders.total.blocks > 0) {
        let total = holders.total;
        lines.push(title(format!(
            "{}: {} in {}; {} {}",
            of("alive when main returned"),
            bytes(total.bytes),
            counted(total.blocks, "block", "blocks"),
            report.last_moment(),
            bytes(pool.live_bytes)
        )));
        lines.extend(sites(holders));
    } else if pool.live_blocks > 0 {
        // A framework gives its pool back as a whole, blocks and all: what is alive in it was not forgotten.
        let what = match (report.life, pool.pool) {
            (Life::Running, _) => format!("in use {}", report.last_moment()),
            (_, Pool::Host) if !report.outcome.is_cut_short() => "never freed".to_owned(),
            _ => format!("alive {}", report.last_moment()),
        };
        lines.push(title(format!("{}:", of(&what))));
        lines.extend(sites(&pool.alive));
    }
    lines
}
