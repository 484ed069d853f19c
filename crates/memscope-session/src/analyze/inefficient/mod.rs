//! Memory that is held for nothing, by name: the line that allocates it too early, frees it too late or leaves it idle.
mod check;
mod lines;
#[cfg(test)]
mod tests;

use super::{Detail, Ended, Lacking, Report, Running, Wishes, as_json};
use crate::line::Line;
use crate::views::layout::Layout;
use crate::views::merged::Naming;
use crate::views::names::FrameId;
use crate::views::profile::site_of;
use memscope_analysis::{Inefficiency, InefficiencyReport, InefficiencySettings, InefficiencyTally, WorstBlock};
use memscope_model::{Annotations, Device, Inefficiencies, NameId, OwnerId, Pool, TraceSink};
use rustc_hash::FxHashMap;
use serde::Serialize;
use serde_json::Value;
use std::cmp::Reverse;

pub use check::{CheckError, Checked, check_inefficient, check_inefficient_until};

/// How many findings get names, those that cost most: names are expensive.
const NAMED: usize = 5000;

pub(super) fn begin(wishes: &Wishes) -> Box<dyn Running> {
    Box::new(Search::new(InefficiencyTally::new(wishes.inefficient), wishes.inefficient))
}

struct Search {
    tally: InefficiencyTally,
    settings: InefficiencySettings,
}

impl Search {
    fn new(tally: InefficiencyTally, settings: InefficiencySettings) -> Search {
        Search { tally, settings }
    }

    /// What was found, and of which blocks.
    fn conclude(
        mut self,
        ended: &Ended<'_>,
        naming: &mut Naming<'_>,
    ) -> (Result<Box<dyn Report>, Lacking>, Annotations) {
        let annotations = self.tally.take_annotations();
        let found = self.tally.report();
        let conclusion = match lacking(&found) {
            Some(what) => Err(Lacking(format!("{what}; --analysis=inefficient records what it needs"))),
            None => Ok(Box::new(Inefficient::new(&found, self.settings, ended, naming)) as Box<dyn Report>),
        };
        (conclusion, annotations)
    }
}

fn lacking(found: &InefficiencyReport) -> Option<&'static str> {
    match found {
        InefficiencyReport { pools, .. } if pools.is_empty() => Some("no allocation of a device's memory is in it"),
        InefficiencyReport { operators: 0, .. } => Some("no operator is in it (OP_LAUNCH rows)"),
        InefficiencyReport { accesses: 0, .. } => Some("no access to a block is in it (ACCESS rows)"),
        _ => None,
    }
}

impl Running for Search {
    fn sink(&mut self) -> &mut dyn TraceSink {
        &mut self.tally
    }

    fn finish(self: Box<Self>, ended: &Ended<'_>, naming: &mut Naming<'_>) -> Result<Box<dyn Report>, Lacking> {
        self.conclude(ended, naming).0
    }
}

/// The memory of a process that was held for nothing.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Inefficient {
    /// What counted as such.
    pub idle_threshold: u64,
    pub mem_size: u64,
    pub types: Vec<&'static str>,
    /// Outermost operators, and accesses to blocks.
    pub operators: u64,
    pub accesses: u64,
    pub pools: Vec<PoolTold>,
    /// Most bytes × operators first.
    pub inefficient: Vec<Finding>,
    /// Findings that are not in it because they cost little.
    pub left_out: u64,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PoolTold {
    pub device: String,
    pub pool: &'static str,
    pub peak_bytes: u64,
    /// Of the peak: held for nothing at that moment.
    pub bytes_at_peak: u64,
}

/// Blocks of one call site, or, without call stacks, of one owner and operator.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Finding {
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub device: String,
    pub pool: &'static str,
    pub blocks: u64,
    pub times: u64,
    pub bytes: u64,
    pub byte_operators: u64,
    pub bytes_at_peak: u64,
    /// The line, and its callers.
    pub site: Option<String>,
    pub callers: Vec<String>,
    /// What the line called to get it.
    pub via: Option<String>,
    /// Whether the line is the user's own.
    pub own: bool,
    /// Of the worst block, innermost first.
    pub stack: Vec<String>,
    pub owner: Option<String>,
    /// That allocated the worst block.
    pub operator: Option<String>,
    pub worst: WorstTold,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct WorstTold {
    pub allocation_id: u64,
    pub address: String,
    pub size: u64,
    /// Operators in between.
    pub operators: u64,
    pub from: Option<String>,
    pub to: Option<String>,
}

/// What makes findings one thing to the user.
#[derive(Clone, PartialEq, Eq, Hash)]
struct SiteKey {
    kind: Inefficiencies,
    device: Device,
    pool: Pool,
    frames: Vec<FrameId>,
    /// Where there is no stack.
    owner: OwnerId,
    operator: Option<NameId>,
}

struct Together<'r> {
    key: SiteKey,
    own: bool,
    via: Option<FrameId>,
    /// The one with the worst block.
    worst: &'r Inefficiency,
    blocks: u64,
    times: u64,
    bytes: u64,
    byte_operators: u64,
    bytes_at_peak: u64,
}

impl Together<'_> {
    fn cost(&self) -> impl Ord + use<> {
        (Reverse(self.byte_operators), Reverse(self.bytes_at_peak), Reverse(self.bytes))
    }
}

/// Puts findings of one line together.
fn by_site<'r>(findings: &'r [Inefficiency], naming: &mut Naming<'_>) -> Vec<Together<'r>> {
    let mut sites: Vec<Together<'r>> = Vec::new();
    let mut known: FxHashMap<SiteKey, usize> = FxHashMap::default();
    for found in findings {
        let merged = naming.merged(found.stack);
        let (frames, via, foreign) = site_of(&merged, &naming.names);
        let (owner, operator) = if frames.is_empty() { (found.owner, found.operator) } else { (OwnerId::NONE, None) };
        let key = SiteKey { kind: found.kind, device: found.device, pool: found.pool, frames, owner, operator };
        let place = *known.entry(key).or_insert_with_key(|key| {
            sites.push(Together {
                key: key.clone(),
                own: !foreign,
                via,
                worst: found,
                blocks: 0,
                times: 0,
                bytes: 0,
                byte_operators: 0,
                bytes_at_peak: 0,
            });
            sites.len() - 1
        });
        let site = &mut sites[place];
        let weight = |worst: &WorstBlock| u128::from(worst.size) * u128::from(worst.operators);
        if weight(&found.worst) > weight(&site.worst.worst) {
            (site.worst, site.via) = (found, via);
        }
        site.blocks += found.blocks;
        site.times += found.times;
        site.bytes = site.bytes.saturating_add(found.bytes);
        site.byte_operators = site.byte_operators.saturating_add(found.byte_operators);
        site.bytes_at_peak += found.bytes_at_peak;
    }
    sites.sort_by_key(Together::cost);
    sites
}

impl Inefficient {
    fn new(
        found: &InefficiencyReport,
        settings: InefficiencySettings,
        ended: &Ended<'_>,
        naming: &mut Naming<'_>,
    ) -> Inefficient {
        let named = &found.findings[..found.findings.len().min(NAMED)];
        let sites = by_site(named, naming);
        let pool = |pool: &memscope_analysis::InefficientPool| PoolTold {
            device: pool.device.to_string(),
            pool: pool.pool.name(),
            peak_bytes: pool.peak_bytes,
            bytes_at_peak: pool.bytes_at_peak,
        };
        Inefficient {
            idle_threshold: settings.idle_threshold,
            mem_size: settings.least_bytes,
            types: settings.kinds.words().collect(),
            operators: found.operators,
            accesses: found.accesses,
            pools: found.pools.iter().map(pool).collect(),
            inefficient: sites.iter().map(|site| finding(site, ended, naming)).collect(),
            left_out: (found.findings.len() - named.len()) as u64,
        }
    }
}

fn finding(site: &Together<'_>, ended: &Ended<'_>, naming: &mut Naming<'_>) -> Finding {
    let name = |id: Option<NameId>| Some(ended.outcome.names.get(id?)?.text.to_owned());
    let Inefficiency { owner, operator, stack, worst, .. } = *site.worst;
    let stack = naming.merged(stack);
    let text = |frame: &FrameId| naming.names.text(*frame);
    let mut frames = site.key.frames.iter().map(text);
    Finding {
        kind: site.key.kind.words().next().unwrap_or_default(),
        device: site.key.device.to_string(),
        pool: site.key.pool.name(),
        blocks: site.blocks,
        times: site.times,
        bytes: site.bytes,
        byte_operators: site.byte_operators,
        bytes_at_peak: site.bytes_at_peak,
        site: frames.next(),
        callers: frames.collect(),
        via: site.via.as_ref().map(text),
        own: site.own,
        stack: stack.iter().rev().map(text).collect(),
        owner: ended.outcome.owners.name(owner).map(str::to_owned),
        operator: name(operator),
        worst: WorstTold {
            allocation_id: worst.block.0,
            address: format!("{:#x}", worst.address),
            size: worst.size,
            operators: worst.operators,
            from: name(worst.from),
            to: name(worst.to),
        },
    }
}

impl Report for Inefficient {
    fn findings(&self) -> u64 {
        self.inefficient.len() as u64 + self.left_out
    }

    fn json(&self) -> Value {
        as_json(self)
    }

    fn lines(&self, layout: &Layout, detail: Detail) -> Vec<Line> {
        lines::of(self, layout, detail)
    }
}
