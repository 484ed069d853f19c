//! Out of memory: what was asked for, what the memory was made of, and how it came to that.
mod lines;

use super::{Detail, Ended, Lacking, Report, Running, Wishes, as_json};
use crate::keeper::oom_kills::OomKill;
use crate::line::{Line, escaped};
use crate::settings::values::DEFAULT_OOM_HOLDERS;
use crate::views::layout::{Layout, joined_within};
use crate::views::merged::Naming;
use crate::views::names::Names;
use crate::views::profile::{Profile, Site};
use crate::views::rows::users_first;
use crate::views::tree::NO_STACK;
use memscope_analysis::oom::{self, Fate, Holders, OomWatch, PoolSituation, Request, Situation};
use memscope_analysis::{Held, StackUsage};
use memscope_model::{Block, Device, OwnerId, Owners, StackId, State, Steps, TimestampNs, TraceEvent, TraceSink};
use serde::Serialize;
use serde_json::Value;
use std::num::NonZeroU16;
use std::ops::ControlFlow;

pub(super) fn begin(wishes: &Wishes) -> Box<dyn Running> {
    let listed = wishes.oom_listed.map_or(DEFAULT_OOM_HOLDERS, NonZeroU16::get);
    Box::new(Watching {
        watch: OomWatch::new(usize::from(listed)),
        owners: Owners::default(),
        listed: usize::from(listed),
        asked_for: wishes.oom_listed.is_some(),
    })
}

/// What [`NamedOom::then`] may say.
const ASKED_NO_MORE: &str = "asked_no_more";
const REFUSED_AGAIN: &str = "refused_again";
const GIVEN_LESS: &str = "given_less";
const GIVEN: &str = "given";

struct Watching {
    watch: OomWatch,
    /// As they were at the last refusal.
    owners: Owners,
    listed: usize,
    asked_for: bool,
}

impl TraceSink for Watching {
    #[inline]
    fn event(&mut self, event: &TraceEvent<'_>, state: &State<'_>) -> ControlFlow<()> {
        if let TraceEvent::Note(note) = event
            && let memscope_model::NoteKind::OutOfMemory { .. } = note.kind
        {
            self.owners.clone_from(state.owners);
        }
        self.watch.event(event, state)
    }
}

impl Running for Watching {
    fn sink(&mut self) -> &mut dyn TraceSink {
        self
    }

    fn finish(self: Box<Self>, ended: &Ended<'_>, naming: &mut Naming<'_>) -> Result<Box<dyn Report>, Lacking> {
        let Watching { watch, owners, listed, asked_for } = *self;
        let names =
            Describing { naming, owners: &owners, steps: &ended.outcome.steps, start: ended.info.start, listed };
        Ok(Box::new(names.report(watch, ended, asked_for)))
    }
}

/// Named, for people and programs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct OomReport {
    /// Calls that got nothing; several may be one out of memory.
    pub refusals: u64,
    pub count: u64,
    /// The program dealt with it: it ended with status 0.
    pub handled: bool,
    /// The first ones, and the last.
    pub ooms: Vec<NamedOom>,
    /// The kernel ended the process for want of memory, as far as can be told.
    pub killed: Option<NamedKill>,
    /// By the run itself, which then tells it in full.
    #[serde(skip)]
    asked_for: bool,
    #[serde(skip)]
    pid: u32,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NamedOom {
    /// `cpu`, or the number of an NPU.
    pub device: String,
    pub call: &'static str,
    pub bytes: u64,
    pub flag: u64,
    pub thread: u32,
    pub step: Option<u32>,
    /// Since the recording began.
    pub after_ns: u64,
    /// How many refusals it was, the first of them after this time.
    pub tries: u32,
    pub first_after_ns: u64,
    pub site: NamedSite,
    /// The whole stack, innermost first.
    pub stack: Vec<String>,
    /// What became of the thread: `asked_no_more`, `refused_again`, `given_less` or `given`, and when.
    pub then: &'static str,
    pub given_after_ns: Option<u64>,
    /// Of that device; empty if it was one too many to look again.
    pub pools: Vec<NamedPool>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NamedKill {
    #[serde(flatten)]
    pub kill: OomKill,
    /// Of the host, at the end of the recording.
    pub pools: Vec<NamedPool>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NamedPool {
    pub pool: &'static str,
    pub used: u64,
    pub blocks: u64,
    pub peak: u64,
    pub reserved: Option<u64>,
    /// Reserved and handed out to nobody.
    pub idle: Option<u64>,
    /// Whether that would have been enough for the request, were it in one piece.
    pub idle_is_enough: Option<bool>,
    pub sites: Vec<NamedHolder>,
    pub owners: Vec<NamedOwner>,
    pub largest: Vec<NamedBlock>,
    pub newest: Vec<NamedBlock>,
    /// What was allocated after this time, the last tenth, and is alive.
    pub new_after_ns: u64,
    pub new_bytes: u64,
    pub new_sites: Vec<NamedHolder>,
    /// How much was in use at most from each time on.
    pub history: Vec<NamedPoint>,
}

/// A line of code a person would change, and who called it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NamedSite {
    /// Innermost first; empty if no stack was recorded.
    pub frames: Vec<String>,
    /// What it called to get the memory.
    pub via: Option<String>,
    /// The user's own code.
    pub own: bool,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NamedHolder {
    pub bytes: u64,
    pub blocks: u64,
    #[serde(flatten)]
    pub site: NamedSite,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NamedOwner {
    pub owner: Option<String>,
    pub bytes: u64,
    pub blocks: u64,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NamedBlock {
    pub address: String,
    pub bytes: u64,
    pub owner: Option<String>,
    pub thread: u32,
    pub step: Option<u32>,
    /// When it was allocated.
    pub after_ns: u64,
    #[serde(flatten)]
    pub site: NamedSite,
}

#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct NamedPoint {
    pub after_ns: u64,
    pub most: u64,
}

impl NamedSite {
    fn of(site: &Site, names: &Names) -> NamedSite {
        NamedSite {
            frames: site.frames.iter().map(|frame| names.text(*frame)).collect(),
            via: site.via.map(|frame| names.text(frame)),
            own: !site.foreign,
        }
    }

    /// As far as there is room.
    fn text(&self, room: Option<usize>) -> String {
        if self.frames.is_empty() {
            return joined_within(&[NO_STACK.to_owned()], "", room);
        }
        let mut text = joined_within(&self.frames, " < ", room);
        if let Some(via) = &self.via {
            let via = escaped(via);
            let used = console::measure_text_width(&text) + console::measure_text_width(&via) + 3;
            if room.is_none_or(|room| used <= room) {
                text.push_str(&format!(" [{via}]"));
            }
        }
        text
    }
}

impl Report for OomReport {
    fn findings(&self) -> u64 {
        // A program that provokes it and goes on is not one that ran out of memory.
        let unhandled = if self.handled { 0 } else { self.count };
        unhandled + u64::from(self.killed.is_some())
    }

    fn json(&self) -> Value {
        as_json(self)
    }

    fn lines(&self, layout: &Layout, detail: Detail) -> Vec<Line> {
        lines::of(self, layout, detail)
    }
}

/// Gives numbers their names.
struct Describing<'d, 'n> {
    naming: &'d mut Naming<'n>,
    owners: &'d Owners,
    steps: &'d Steps,
    start: TimestampNs,
    listed: usize,
}

impl Describing<'_, '_> {
    fn report(mut self, watch: OomWatch, ended: &Ended<'_>, asked_for: bool) -> OomReport {
        let killed = ended.oom_kill.map(|kill| {
            let situation = watch.at_end(Device::Cpu, ended.outcome);
            NamedKill { kill, pools: self.pools(&situation, None) }
        });
        let found = watch.finish();
        let ooms = found.told().map(|oom| self.oom(oom)).collect();
        let (refusals, count) = (found.refusals, found.count);
        let handled = count > 0 && ended.ended_well;
        OomReport { refusals, count, handled, ooms, killed, asked_for, pid: ended.info.pid }
    }

    fn oom(&mut self, oom: &oom::Oom) -> NamedOom {
        let Request { device, call, size, flag, time, thread, stack, step } = oom.request;
        let frames = self.naming.merged(stack);
        NamedOom {
            device: device.to_string(),
            call: call.name(),
            bytes: size,
            flag,
            thread,
            step: self.steps.number(step),
            after_ns: self.after(time),
            tries: oom.tries,
            first_after_ns: self.after(oom.first_time),
            site: self.site(stack),
            stack: frames.iter().rev().map(|frame| self.naming.names.text(*frame)).collect(),
            then: match oom.fate {
                Fate::AskedNoMore => ASKED_NO_MORE,
                Fate::RefusedAgain => REFUSED_AGAIN,
                Fate::GivenLess => GIVEN_LESS,
                Fate::Given(_) => GIVEN,
            },
            given_after_ns: match oom.fate {
                Fate::Given(time) => Some(self.after(time)),
                _ => None,
            },
            pools: oom.situation.as_ref().map(|found| self.pools(found, Some(size))).unwrap_or_default(),
        }
    }

    fn pools(&mut self, situation: &Situation, request: Option<u64>) -> Vec<NamedPool> {
        situation.pools.iter().map(|pool| self.pool(pool, request)).collect()
    }

    fn pool(&mut self, pool: &PoolSituation, request: Option<u64>) -> NamedPool {
        let idle = pool.idle_bytes();
        NamedPool {
            pool: pool.usage.pool.name(),
            used: pool.usage.live_bytes,
            blocks: pool.usage.live_blocks,
            peak: pool.usage.peak_bytes,
            reserved: pool.usage.reserved_bytes,
            idle,
            idle_is_enough: idle.zip(request).map(|(idle, request)| idle >= request),
            sites: self.sites(&pool.by_stack),
            owners: pool.by_owner.first.iter().take(self.listed).map(|holder| self.owner(holder)).collect(),
            largest: pool.largest.iter().map(|block| self.block(block)).collect(),
            newest: pool.newest.iter().map(|block| self.block(block)).collect(),
            new_after_ns: self.after(pool.lately),
            new_bytes: pool.new_by_stack.bytes(),
            new_sites: self.sites(&pool.new_by_stack),
            history: pool
                .history
                .iter()
                .map(|point| NamedPoint { after_ns: self.after(point.time), most: point.most_bytes })
                .collect(),
        }
    }

    fn sites(&mut self, holders: &Holders<StackId>) -> Vec<NamedHolder> {
        let usages: Vec<StackUsage> =
            holders.first.iter().map(|holder| usage(holder.key, holder.bytes, holder.blocks)).collect();
        let total = Held { bytes: holders.bytes(), blocks: holders.blocks() };
        let profile = Profile::new(total, &usages, self.naming);
        let names = &self.naming.names;
        let sites = users_first(profile.sites(names), total, self.listed);
        let named = |site: &Site| NamedHolder {
            bytes: site.held.bytes,
            blocks: site.held.blocks,
            site: NamedSite::of(site, names),
        };
        sites.iter().filter(|site| site.held.blocks > 0).map(named).collect()
    }

    fn site(&mut self, stack: StackId) -> NamedSite {
        let profile = Profile::new(Held::default(), &[usage(stack, 0, 1)], self.naming);
        let sites = profile.sites(&self.naming.names);
        let nothing = NamedSite { frames: Vec::new(), via: None, own: false };
        sites.first().map_or(nothing, |site| NamedSite::of(site, &self.naming.names))
    }

    fn owner(&self, holder: &oom::Holder<OwnerId>) -> NamedOwner {
        NamedOwner { owner: self.owner_name(holder.key), bytes: holder.bytes, blocks: holder.blocks }
    }

    fn owner_name(&self, owner: OwnerId) -> Option<String> {
        self.owners.name(owner).map(str::to_owned)
    }

    fn block(&mut self, block: &Block) -> NamedBlock {
        NamedBlock {
            address: format!("{:#x}", block.address),
            bytes: block.size,
            owner: self.owner_name(block.owner),
            thread: block.made.thread,
            step: self.steps.number(block.made.step),
            after_ns: self.after(block.made.time),
            site: self.site(block.made.stack),
        }
    }

    fn after(&self, time: TimestampNs) -> u64 {
        time.since(self.start)
    }
}

fn usage(stack: StackId, bytes: u64, blocks: u64) -> StackUsage {
    StackUsage { stack, bytes, blocks, allocations: blocks, allocated_bytes: bytes, temporary_allocations: 0 }
}
