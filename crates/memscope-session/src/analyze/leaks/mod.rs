//! Leaks, by name: the line of the user's own code that makes memory which is not given back, and the verdict on it.
mod lines;
mod marks;
mod site_key;

use self::site_key::SiteKey;
use super::{Detail, Ended, Lacking, Report, Running, Wishes, as_json};
use crate::line::Line;
use crate::views::layout::Layout;
use crate::views::merged::Naming;
use crate::views::names::FrameId;
use crate::views::profile::most_used;
use memscope_analysis::leaks::{LeakReport, LeakSearch, LeakSource, LeakedBlock, RunParts, SourcesTogether, Verdict};
use memscope_model::{Device, Names, Pool, TraceSink};
use rustc_hash::FxHashMap;
use serde::Serialize;
use serde_json::Value;
use std::cmp::Reverse;

pub use lines::NOTHING_GROWS_OVER_TIME;
pub use marks::{MarkedDevice, MarkedLeak, MarkedLeaks, Marks};

/// How many sources get names, those with most bytes: names are expensive, and without steps everything that is alive at
/// the end is looked at.
const NAMED_SOURCES: usize = 5000;
/// How many call sites a report has of those that do not grow.
const SITES: usize = 500;
/// Sites of less than this part of all growth do not come first because they are the user's own.
const WORTH_TELLING: f64 = 0.01;

pub(super) fn begin(wishes: &Wishes) -> Box<dyn Running> {
    match &wishes.marks {
        Some(marks) => Box::new(marks::Search::new(marks)),
        None => Box::new(Search(LeakSearch::new())),
    }
}

struct Search(LeakSearch);

impl Running for Search {
    fn sink(&mut self) -> &mut dyn TraceSink {
        &mut self.0
    }

    fn finish(self: Box<Self>, ended: &Ended<'_>, naming: &mut Naming<'_>) -> Result<Box<dyn Report>, Lacking> {
        let found = self.0.finish(ended.outcome);
        if found.pools().next().is_none() {
            return Err(Lacking(NO_ALLOCATIONS.to_owned()));
        }
        Ok(Box::new(Leaks::new(&found, ended, naming)))
    }
}

const NO_ALLOCATIONS: &str =
    "no allocation is in it; record with --events=alloc,free, and host memory with --device=cpu";

/// The leaks of a process.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Leaks {
    /// `null` without steps: then places of `per_step` are equal parts of the time.
    pub steps: Option<StepsTold>,
    /// Nanoseconds of a part of the time, if there are no steps.
    pub part_ns: Option<u64>,
    /// There are too few steps, or too little time, to say what grows.
    pub too_short: bool,
    /// Whether the end is when a Python program's own code had ended.
    pub until_main_returned: bool,
    /// Whether recording stopped before the program did: what it gave back later is not known.
    #[serde(skip)]
    pub is_cut_short: bool,
    /// What grows first, fastest first; then what is kept and what is carried, most bytes first, but what was made in the first
    /// step last.
    pub leaks: Vec<Leak>,
    /// What is not in `leaks` because it is little.
    pub left_out: LeftOut,
    /// Call sites that grew up to the last step and gave everything back after it.
    pub freed_late: Vec<FreedLate>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct StepsTold {
    pub begun: u32,
    /// Only these are compared.
    pub ended: u32,
    /// Steps of one place of `per_step`: more than one only in runs of more than 1024.
    pub per_place: u32,
}

/// Memory of one call site, or, without call stacks, of one owner.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Leak {
    pub device: String,
    pub pool: &'static str,
    pub verdict: &'static str,
    pub bytes: u64,
    pub blocks: u64,
    /// The first and the last step in which some of it was made.
    pub first_step: Option<u32>,
    pub last_step: Option<u32>,
    /// Bytes that are left, by the step they were made in.
    pub per_step: Vec<u64>,
    /// Bytes of the call site that were alive when each step ended, left or not.
    pub live_per_step: Vec<u64>,
    pub growth: Option<GrowthTold>,
    /// The line, and its callers.
    pub site: Option<String>,
    pub callers: Vec<String>,
    /// What the line called to get most of it.
    pub via: Option<String>,
    /// Whether the line is the user's own.
    pub own: bool,
    /// By which most of it was made, innermost first.
    pub stack: Vec<String>,
    pub owner: Option<String>,
    pub operator: Option<String>,
    /// Of the largest blocks, and their sizes, steps and operators.
    pub addresses: Vec<String>,
    pub sizes: Vec<u64>,
    pub steps: Vec<Option<u32>>,
    pub operators: Vec<Option<String>>,
}

/// What shows that memory grows.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct GrowthTold {
    /// Steps in which it shows.
    pub first_step: u32,
    pub last_step: u32,
    pub bytes: u64,
    /// In how many of them there was more for good.
    pub rises: u32,
    pub bytes_per_step: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct LeftOut {
    pub sites: u64,
    pub bytes: u64,
    pub blocks: u64,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FreedLate {
    pub device: String,
    pub pool: &'static str,
    pub site: Option<String>,
    pub callers: Vec<String>,
    /// Where there is no stack.
    pub owner: Option<String>,
    pub growth: GrowthTold,
}

struct NamedSite<'r> {
    key: SiteKey,
    own: bool,
    sources: Vec<(&'r LeakSource, Option<FrameId>)>,
}

/// Puts sources of one line together, in the order in which they come.
fn by_site<'r>(sources: impl IntoIterator<Item = &'r LeakSource>, naming: &mut Naming<'_>) -> Vec<NamedSite<'r>> {
    let mut sites: Vec<NamedSite<'r>> = Vec::new();
    let mut known: FxHashMap<SiteKey, usize> = FxHashMap::default();
    for source in sources {
        let (key, via, own) = SiteKey::of((source.device, source.pool), source.stack, source.owner, naming);
        let place = *known.entry(key).or_insert_with_key(|key| {
            sites.push(NamedSite { key: key.clone(), own, sources: Vec::new() });
            sites.len() - 1
        });
        sites[place].sources.push((source, via));
    }
    sites
}

impl NamedSite<'_> {
    fn sources(&self) -> Vec<&LeakSource> {
        self.sources.iter().map(|(source, _)| *source).collect()
    }

    /// What was called for most of it.
    fn via(&self) -> Option<FrameId> {
        let mut ways: FxHashMap<Option<FrameId>, u64> = FxHashMap::default();
        for (source, via) in &self.sources {
            *ways.entry(*via).or_default() += source.bytes;
        }
        most_used(ways)
    }
}

impl Leaks {
    fn new(found: &LeakReport, ended: &Ended<'_>, naming: &mut Naming<'_>) -> Leaks {
        let mut left_out = LeftOut::default();
        for source in found.sources.iter().skip(NAMED_SOURCES) {
            left_out.add(1, source.bytes, source.blocks);
        }
        let sites = by_site(found.sources.iter().take(NAMED_SOURCES), naming);
        let mut judged: Vec<(NamedSite<'_>, SourcesTogether)> = sites
            .into_iter()
            .map(|site| {
                let together = found.together(&site.sources());
                (site, together)
            })
            .collect();
        let growing = judged.iter().filter(|(_, together)| together.verdict == Verdict::Grows).count();
        judged.sort_by_key(|(_, together)| {
            (together.verdict != Verdict::Grows, is_start(together), Reverse(together.bytes))
        });
        for (_, together) in judged.drain(judged.len().min(growing + SITES)..) {
            left_out.add(1, together.bytes, together.blocks);
        }
        rank(&mut judged);
        let has_steps = matches!(found.parts, RunParts::Steps { .. });
        let teller = Teller { ended, has_steps, width: found.parts.steps_of_place() };
        let leaks = judged.iter().map(|(site, together)| teller.leak(site, together, naming)).collect();
        let late = by_site(&found.freed_late, naming);
        let mut freed_late: Vec<FreedLate> = late
            .iter()
            .filter_map(|site| {
                let growth = teller.growth(&found.growth_of_freed(&site.sources())?);
                let (site_text, callers) = texts(&site.key.frames, naming);
                let (device, pool) = (site.key.device.to_string(), site.key.pool.name());
                let owner = ended.outcome.owners.name(site.key.owner).map(str::to_owned);
                Some(FreedLate { device, pool, site: site_text, callers, owner, growth })
            })
            .collect();
        freed_late.sort_by_key(|late| Reverse(late.growth.bytes));
        let (steps, part_ns) = match found.parts {
            RunParts::Steps { begun, ended, per_place } => (Some(StepsTold { begun, ended, per_place }), None),
            RunParts::Time { per_place, .. } => (None, Some(per_place)),
        };
        let (too_short, until_main_returned) = (found.is_too_short(), found.main_returned.is_some());
        let is_cut_short = ended.outcome.is_cut_short();
        Leaks { steps, part_ns, too_short, until_main_returned, is_cut_short, leaks, left_out, freed_late }
    }
}

impl LeftOut {
    fn add(&mut self, sites: u64, bytes: u64, blocks: u64) {
        self.sites += sites;
        self.bytes += bytes;
        self.blocks += blocks;
    }
}

/// All of it was made in the first step, in which everything is new.
fn is_start(together: &SourcesTogether) -> bool {
    together.last <= 1
}

/// What grows fastest first, the user's own lines before all others if they matter.
fn rank(judged: &mut [(NamedSite<'_>, SourcesTogether)]) {
    let rate = |together: &SourcesTogether| together.growth.map_or(0.0, |growth| growth.rate());
    let all: f64 = judged.iter().map(|(_, together)| rate(together)).sum();
    let pools_that_grow: Vec<Device> = judged
        .iter()
        .filter(|(site, together)| together.verdict == Verdict::Grows && is_of_framework(site.key.pool))
        .map(|(site, _)| site.key.device)
        .collect();
    judged.sort_by_cached_key(|(site, together)| {
        let own = together.verdict == Verdict::Grows && site.own && rate(together) >= all * WORTH_TELLING;
        // A pool takes memory of the driver when it runs out, which may be in any line.
        let is_taken_by_pool = site.key.pool == Pool::Hal && pools_that_grow.contains(&site.key.device);
        let rate = Reverse((rate(together) * 1e3) as u64);
        (together.verdict, is_taken_by_pool, !own, rate, is_start(together), Reverse(together.bytes))
    });
}

fn is_of_framework(pool: Pool) -> bool {
    !matches!(pool, Pool::Host | Pool::Pinned | Pool::Hal)
}

fn texts(frames: &[FrameId], naming: &Naming<'_>) -> (Option<String>, Vec<String>) {
    let mut texts = frames.iter().map(|frame| naming.names.text(*frame));
    (texts.next(), texts.collect())
}

/// Gives numbers their names.
struct Teller<'t> {
    ended: &'t Ended<'t>,
    has_steps: bool,
    /// Steps of a place.
    width: u32,
}

impl Teller<'_> {
    fn leak(&self, site: &NamedSite<'_>, together: &SourcesTogether, naming: &mut Naming<'_>) -> Leak {
        let step = |number: u32| self.has_steps.then_some(number);
        let (text, callers) = texts(&site.key.frames, naming);
        let largest = site.sources.iter().map(|(source, _)| *source).max_by_key(|source| source.bytes);
        let stack = largest.map(|source| naming.merged(source.stack));
        let stack = stack.iter().flat_map(|frames| frames.iter().rev()).map(|frame| naming.names.text(*frame));
        let stack = stack.collect();
        let told = |of: fn(&Self, &LeakedBlock) -> Option<String>| -> Vec<Option<String>> {
            together.largest.iter().map(|block| of(self, block)).collect()
        };
        Leak {
            device: site.key.device.to_string(),
            pool: site.key.pool.name(),
            verdict: together.verdict.word(),
            bytes: together.bytes,
            blocks: together.blocks,
            first_step: step(together.first),
            last_step: step(together.last),
            per_step: together.survivors.clone(),
            live_per_step: together.live.clone(),
            growth: together.growth.map(|growth| self.growth(&growth)),
            site: text,
            callers,
            via: site.via().map(|via| naming.names.text(via)),
            own: site.own,
            stack,
            owner: largest.and_then(|source| self.ended.outcome.owners.name(source.owner)).map(str::to_owned),
            operator: together.operator.and_then(|name| name_of(&self.ended.outcome.names, name)),
            addresses: together.largest.iter().map(|block| format!("{:#x}", block.address)).collect(),
            sizes: together.largest.iter().map(|block| block.size).collect(),
            steps: together.largest.iter().map(|block| step(block.step)).collect(),
            operators: told(|teller, block| block.operator.and_then(|name| name_of(&teller.ended.outcome.names, name))),
        }
    }

    fn growth(&self, growth: &memscope_analysis::leaks::Growth) -> GrowthTold {
        GrowthTold {
            first_step: growth.first as u32 * self.width + 1,
            last_step: (growth.last as u32 + 1) * self.width,
            bytes: growth.bytes,
            rises: growth.rises as u32,
            bytes_per_step: growth.rate() / f64::from(self.width),
        }
    }
}

fn name_of(names: &Names, name: memscope_model::NameId) -> Option<String> {
    names.get(name).map(|name| name.text.to_owned())
}

impl Report for Leaks {
    fn findings(&self) -> u64 {
        let growing = self.leaks.iter().filter(|leak| leak.verdict == Verdict::Grows.word()).count() as u64;
        // Whether the program gave it back or its end did is not known, unless it is known when main returned.
        if self.until_main_returned { growing } else { growing + self.freed_late.len() as u64 }
    }

    fn json(&self) -> Value {
        as_json(self)
    }

    fn lines(&self, layout: &Layout, detail: Detail) -> Vec<Line> {
        lines::of(self, layout, detail)
    }
}
