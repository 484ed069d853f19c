//! What a comparison came to, with names: plain data.
use super::PairedLaunches;
use super::pairing::Pair;
use super::reading::PoolSide;
use crate::views::diff::{Difference, NamedSites, SiteDifference};
use memscope_analysis::{Held, Launch, LaunchKind, Levels};
use memscope_model::{Device, Names, Pool, TraceInfo};
use serde::{Serialize, Serializer};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// A process of one side.
#[derive(Clone, Debug)]
pub(super) struct Process {
    /// Where it was read from.
    pub(super) path: PathBuf,
    pub(super) info: TraceInfo,
    /// The step that is looked at; `None`: all of it.
    pub(super) step: Option<u32>,
    /// Of operators and kernels.
    pub(super) names: Arc<Names>,
}

#[derive(Clone, Debug, Serialize)]
pub struct ComparisonReport {
    pub pairs: Vec<PairReport>,
    pub left_over: LeftOver,
}

/// Devices that nothing was compared with.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LeftOver {
    pub base: Vec<Subject>,
    pub compared: Vec<Subject>,
}

/// What is compared, or was left over.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Subject {
    pub source: PathBuf,
    pub pid: u32,
    pub command: String,
    #[serde(serialize_with = "device_text")]
    pub device: Device,
    pub step: Option<u32>,
}

/// A device of the base and a device of the compared.
#[derive(Clone, Debug, Serialize)]
pub struct PairReport {
    pub base: Subject,
    pub compared: Subject,
    /// The change of the pools that are counted, from beginning to end, whoever made it.
    pub bytes: Bytes,
    /// `None` if nobody asked.
    pub operators: Option<LevelReport>,
    pub kernels: Option<LevelReport>,
    pub pools: Vec<PoolReport>,
}

/// A change of memory on both sides: bytes allocated less bytes freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Bytes {
    pub base: i64,
    pub compared: i64,
    pub difference: i64,
}

/// The operators of two devices, or the kernels.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct LevelReport {
    pub launches: LaunchCounts,
    /// Of operators within others only the outermost count.
    pub bytes: Bytes,
    /// Those that took more or less memory, or are more or fewer; the largest difference first.
    pub names: Vec<NameReport>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct LaunchCounts {
    pub base: u64,
    pub compared: u64,
    /// Belong together.
    pub both: u64,
    pub base_only: u64,
    pub compared_only: u64,
}

/// All launches of one name. Of operators within others all count.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct NameReport {
    pub name: String,
    pub launches: LaunchCounts,
    pub bytes: Bytes,
    /// The part of the difference that is of launches both have.
    pub difference_of_both: i64,
}

/// Who held more or less of a pool.
#[derive(Clone, Debug, Serialize)]
pub struct PoolReport {
    #[serde(serialize_with = "pool_name")]
    pub pool: Pool,
    /// `peak`, or `step` for the end of the step.
    pub at: &'static str,
    pub base: u64,
    pub compared: u64,
    /// The largest difference first.
    pub owners: Vec<OwnerReport>,
    #[serde(serialize_with = "sites")]
    pub sites: Difference,
    /// No stack of this memory was recorded, on either side.
    pub stackless: bool,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct OwnerReport {
    /// `None` is nobody.
    pub owner: Option<String>,
    pub base: u64,
    pub compared: u64,
}

impl OwnerReport {
    pub fn difference(&self) -> i128 {
        i128::from(self.compared) - i128::from(self.base)
    }
}

impl Subject {
    pub(super) fn of(process: &Process, device: Device) -> Subject {
        Subject {
            source: process.path.clone(),
            pid: process.info.pid,
            command: process.info.command.clone(),
            device,
            step: process.step,
        }
    }
}

impl Bytes {
    fn new(base: i64, compared: i64) -> Bytes {
        Bytes { base, compared, difference: compared.saturating_sub(base) }
    }

    fn add(&mut self, base: Option<&Launch>, compared: Option<&Launch>) {
        let change = |launch: Option<&Launch>| launch.map_or(0, |launch| launch.change);
        *self = Bytes::new(self.base.saturating_add(change(base)), self.compared.saturating_add(change(compared)));
    }
}

impl LaunchCounts {
    fn add(&mut self, base: Option<&Launch>, compared: Option<&Launch>) {
        self.base += u64::from(base.is_some());
        self.compared += u64::from(compared.is_some());
        self.both += u64::from(base.is_some() && compared.is_some());
        self.base_only += u64::from(compared.is_none());
        self.compared_only += u64::from(base.is_none());
    }
}

impl NameReport {
    fn differs(&self) -> bool {
        self.weight() != 0 || self.one_sided() > 0
    }

    /// Both parts of the difference, so that they do not hide each other.
    fn weight(&self) -> u64 {
        let one_sided = self.bytes.difference.saturating_sub(self.difference_of_both);
        self.difference_of_both.unsigned_abs().saturating_add(one_sided.unsigned_abs())
    }

    fn one_sided(&self) -> u64 {
        self.launches.base_only + self.launches.compared_only
    }
}

/// Sums up what was found of a pair; the launches were taken out of it.
pub(super) fn report_of(pair: &Pair, paired: &PairedLaunches, levels: Levels) -> PairReport {
    let (mut operators, mut kernels) = (LevelReport::default(), LevelReport::default());
    let mut names: Vec<NameReport> =
        paired.names.iter().map(|(_, name)| NameReport { name: name.clone(), ..NameReport::default() }).collect();
    for (symbol, base, compared) in paired.entries() {
        let level = match paired.names[symbol as usize].0 {
            LaunchKind::Operator => &mut operators,
            LaunchKind::Kernel => &mut kernels,
        };
        level.launches.add(base, compared);
        let outermost = |launch: &&Launch| launch.outermost;
        level.bytes.add(base.filter(outermost), compared.filter(outermost));
        let name = &mut names[symbol as usize];
        name.launches.add(base, compared);
        name.bytes.add(base, compared);
        if let (Some(base), Some(compared)) = (base, compared) {
            let difference = compared.change.saturating_sub(base.change);
            name.difference_of_both = name.difference_of_both.saturating_add(difference);
        }
    }
    for (name, (kind, _)) in names.into_iter().zip(&paired.names).filter(|(name, _)| name.differs()) {
        match kind {
            LaunchKind::Operator => operators.names.push(name),
            LaunchKind::Kernel => kernels.names.push(name),
        }
    }
    for level in [&mut operators, &mut kernels] {
        level.names.sort_by(|one, other| {
            let rank = |name: &NameReport| (Reverse(name.weight()), Reverse(name.one_sided()));
            rank(one).cmp(&rank(other)).then_with(|| one.name.cmp(&other.name))
        });
    }
    PairReport {
        base: Subject::of(&pair.processes.0, pair.base.device),
        compared: Subject::of(&pair.processes.1, pair.compared.device),
        bytes: Bytes::new(pair.base.change, pair.compared.change),
        operators: levels.operators.then_some(operators),
        kernels: levels.kernels.then_some(kernels),
        pools: pools(pair),
    }
}

/// All pools of both; of one that only one side has, the other held nothing.
fn pools(pair: &Pair) -> Vec<PoolReport> {
    let mut all: Vec<Pool> = pair.base.pools.iter().chain(&pair.compared.pools).map(|(pool, _)| *pool).collect();
    all.sort_unstable();
    all.dedup();
    let nothing = PoolSide::default();
    let report = |pool: Pool| {
        let base = pair.base.pool(pool).unwrap_or(&nothing);
        let compared = pair.compared.pool(pool).unwrap_or(&nothing);
        PoolReport {
            pool,
            at: if pair.processes.0.step.is_some() { "step" } else { "peak" },
            base: base.total.bytes,
            compared: compared.total.bytes,
            owners: owners(base, compared),
            sites: Difference::between(sites_of(base), sites_of(compared)),
            stackless: base.is_stackless() && compared.is_stackless(),
        }
    };
    all.into_iter().map(report).collect()
}

fn sites_of(side: &PoolSide) -> NamedSites<'_> {
    NamedSites { total: side.total, sites: side.sites.clone(), names: &side.names }
}

fn owners(base: &PoolSide, compared: &PoolSide) -> Vec<OwnerReport> {
    let mut owners: BTreeMap<Option<&str>, (u64, u64)> = BTreeMap::new();
    let add = |sum: &mut u64, held: &Held| *sum = sum.saturating_add(held.bytes);
    base.owners.iter().for_each(|(owner, held)| add(&mut owners.entry(owner.as_deref()).or_default().0, held));
    compared.owners.iter().for_each(|(owner, held)| add(&mut owners.entry(owner.as_deref()).or_default().1, held));
    let mut owners: Vec<OwnerReport> = owners
        .into_iter()
        .map(|(owner, (base, compared))| OwnerReport { owner: owner.map(str::to_owned), base, compared })
        .collect();
    owners.sort_by_key(|owner| Reverse(owner.difference().unsigned_abs()));
    owners
}

fn device_text<S: Serializer>(device: &Device, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(device)
}

fn pool_name<S: Serializer>(pool: &Pool, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(pool.name())
}

/// Those that differ.
fn sites<S: Serializer>(difference: &Difference, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Site<'s> {
        site: &'s [String],
        via: Option<&'s str>,
        own: bool,
        base: u64,
        compared: u64,
        blocks_base: u64,
        blocks_compared: u64,
    }
    let site = |site: &'_ SiteDifference| -> serde_json::Value {
        let site = Site {
            site: &site.frames,
            via: site.via.as_deref(),
            own: !site.foreign,
            base: site.base.bytes,
            compared: site.compared.bytes,
            blocks_base: site.base.blocks,
            blocks_compared: site.compared.blocks,
        };
        serde_json::to_value(site).unwrap_or_default()
    };
    serializer.collect_seq(difference.sites.iter().filter(|site| site.bytes() != 0 || site.blocks() != 0).map(site))
}
