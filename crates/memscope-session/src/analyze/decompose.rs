//! What memory is made of, by owner.
use super::shares::{OwnerTreeView, OwnerView, percent};
use super::{Detail, Ended, Lacking, Report, Running, Wishes, as_json};
use crate::line::{Line, line_of};
use crate::report::process::device_label;
use crate::report::quantity::{bytes, counted};
use crate::views::layout::{Emphasis, Layout};
use crate::views::merged::Naming;
use crate::views::reading::{At, known_steps};
use memscope_analysis::{
    Decomposition, DecompositionReport, DeviceDecomposition, DeviceMoment, OwnerNode, PointInTime, PoolDecomposition,
};
use memscope_model::{TimestampNs, TraceInfo, TraceSink};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

pub(super) fn begin(wishes: &Wishes) -> Box<dyn Running> {
    let at = wishes.at;
    let asked = (at != At::Peak).then(|| at.point(wishes.recording_start));
    Box::new(Decomposing { at, asked, sink: Decomposition::at(asked) })
}

struct Decomposing {
    at: At,
    asked: Option<PointInTime>,
    sink: Decomposition,
}

impl Running for Decomposing {
    fn sink(&mut self) -> &mut dyn TraceSink {
        &mut self.sink
    }

    fn finish(self: Box<Self>, ended: &Ended<'_>, _: &mut Naming<'_>) -> Result<Box<dyn Report>, Lacking> {
        let Decomposing { at, asked, sink } = *self;
        let report = sink.finish(ended.outcome);
        if report.devices.is_empty() {
            return Err(super::no_memory());
        }
        let steps = ended.outcome.steps.count();
        let came = match at {
            At::Step(number) => number <= steps,
            _ => asked.is_none() || report.devices.iter().any(|device| device.asked.is_some()),
        };
        if !came {
            return Err(never_came(at, steps));
        }
        Ok(Box::new(DecomposeView::new(&report, at, ended.info)))
    }
}

fn never_came(at: At, steps: u32) -> Lacking {
    Lacking(match at {
        At::Step(asked) => format!("it never came to step {asked}: {}", known_steps(steps)),
        _ => String::from(
            "when main returned is not known of it: that shows in Python call stacks, of a program that came to its end \
             (--call-stack=python)",
        ),
    })
}

/// The report with words; times are nanoseconds since the recording began.
#[derive(Debug, Serialize)]
struct DecomposeView {
    #[serde(skip)]
    pid: u32,
    devices: Vec<DeviceView>,
}

#[derive(Debug, Serialize)]
struct DeviceView {
    device: String,
    #[serde(skip)]
    label: String,
    peak: Option<MomentView>,
    /// The moment asked for, unless that is the peak.
    at: Option<MomentView>,
    /// At the end of each.
    steps: Vec<StepView>,
}

#[derive(Debug, Serialize)]
struct MomentView {
    #[serde(skip)]
    described: String,
    after_ns: u64,
    step: Option<u32>,
    /// What the driver handed out; none if that was not recorded.
    driver_bytes: Option<u64>,
    /// What pools took of it.
    pool_bytes: u64,
    pools: Vec<PoolView>,
}

#[derive(Debug, Serialize)]
struct PoolView {
    pool: &'static str,
    bytes: u64,
    blocks: u64,
    reserved_bytes: Option<u64>,
    owners: Vec<OwnerView>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tree: Vec<OwnerTreeView>,
}

#[derive(Debug, Serialize)]
struct StepView {
    step: u32,
    after_ns: u64,
    pools: Vec<PoolView>,
}

impl DecomposeView {
    fn new(report: &DecompositionReport, at: At, info: &TraceInfo) -> DecomposeView {
        let start = info.start;
        let device = |device: &DeviceDecomposition| DeviceView {
            device: device.device.to_string(),
            label: device_label(device.device),
            peak: device.peak.as_ref().map(|moment| MomentView::new(moment, At::Peak, start)),
            at: device.asked.as_ref().map(|moment| MomentView::new(moment, at, start)),
            steps: device
                .steps
                .iter()
                .map(|step| StepView {
                    step: step.number,
                    after_ns: step.time.since(start),
                    pools: step.pools.iter().map(PoolView::flat).collect(),
                })
                .collect(),
        };
        DecomposeView { pid: info.pid, devices: report.devices.iter().map(device).collect() }
    }
}

impl MomentView {
    fn new(moment: &DeviceMoment, at: At, start: TimestampNs) -> MomentView {
        let after_ns = moment.time.since(start);
        let described = match (at, moment.step) {
            (At::After(_), _) => at.describe(),
            (At::Peak, Some(step)) => {
                format!("{} (after {:.3} s, in step {step})", at.describe(), after_ns as f64 / 1e9)
            }
            _ => format!("{} (after {:.3} s)", at.describe(), after_ns as f64 / 1e9),
        };
        MomentView {
            described,
            after_ns,
            step: moment.step,
            driver_bytes: moment.driver_bytes(),
            pool_bytes: moment.pool_bytes(),
            pools: moment.pools.iter().map(PoolView::with_tree).collect(),
        }
    }

    fn lines(&self, (pid, device): (u32, &str), layout: &Layout) -> Vec<Line> {
        let title = format!("decomposition of process {pid}, {device} {}:", self.described);
        let mut lines = vec![layout.emphasised(layout.fit(&title), Emphasis::Heading)];
        if self.pools.is_empty() {
            lines.push("  nothing was in use".into());
        }
        lines.extend(self.relation().map(Line::from));
        for pool in &self.pools {
            let reserved = pool.reserved_bytes.map_or_else(String::new, |all| format!(", {} reserved", bytes(all)));
            let blocks = counted(pool.blocks, "block", "blocks");
            lines.push(line_of!("  {}: {} in {blocks}{reserved}", pool.pool, bytes(pool.bytes)));
            pool.tree.iter().for_each(|node| node.rows(0, layout, &mut lines));
        }
        lines
    }

    /// How the driver's memory and that of pools, which is part of it, stand to each other.
    fn relation(&self) -> Option<String> {
        let (driver, pools) = (self.driver_bytes?, self.pool_bytes);
        if pools == 0 {
            return None;
        }
        Some(match driver.checked_sub(pools) {
            Some(rest) => format!(
                "  of {} from the driver, pools took {} ({:.1}%); {} ({:.1}%) is not theirs",
                bytes(driver),
                bytes(pools),
                percent(pools, driver),
                bytes(rest),
                percent(rest, driver)
            ),
            None => format!(
                "  pools say they took {}, more than the {} that the driver was seen to hand out",
                bytes(pools),
                bytes(driver)
            ),
        })
    }
}

impl PoolView {
    fn flat(pool: &PoolDecomposition) -> PoolView {
        PoolView {
            pool: pool.pool.name(),
            bytes: pool.used.bytes,
            blocks: pool.used.blocks,
            reserved_bytes: pool.reserved,
            owners: pool.owners.iter().map(|share| OwnerView::new(share, pool.used.bytes)).collect(),
            tree: Vec::new(),
        }
    }

    fn with_tree(pool: &PoolDecomposition) -> PoolView {
        let tree = OwnerNode::tree(&pool.owners).iter().map(|node| OwnerTreeView::new(node, pool.used.bytes)).collect();
        PoolView { tree, ..PoolView::flat(pool) }
    }
}

impl DeviceView {
    /// Owners by step, at the ends of some of them.
    fn step_lines(&self, layout: &Layout) -> Vec<Line> {
        const COLUMNS: usize = 6;
        const ROWS: usize = 20;
        let told = spread(&self.steps, COLUMNS);
        if told.is_empty() {
            return Vec::new();
        }
        let mut rows: BTreeMap<(&str, String), Vec<u64>> = BTreeMap::new();
        for (column, step) in told.iter().enumerate() {
            for (pool, owner) in step.pools.iter().flat_map(|pool| pool.owners.iter().map(move |owner| (pool, owner))) {
                let row = rows.entry((pool.pool, owner.label())).or_insert_with(|| vec![0; told.len()]);
                row[column] = owner.bytes();
            }
        }
        if rows.is_empty() {
            return Vec::new();
        }
        let mut rows: Vec<_> = rows.into_iter().collect();
        rows.sort_by_key(|(_, values)| std::cmp::Reverse(values.iter().copied().max()));
        let all = counted(self.steps.len() as u64, "step", "steps");
        let title = match told.len() < self.steps.len() {
            true => format!("{} at the ends of steps, some of {all}:", self.label),
            false => format!("{} at the ends of steps:", self.label),
        };
        let cells = |texts: Vec<String>| texts.iter().map(|text| format!("{text:>12}")).collect::<String>();
        let heads = cells(told.iter().map(|step| format!("step {}", step.step)).collect());
        let mut lines = vec![layout.emphasised(layout.fit(&title), Emphasis::Heading), layout.fit(&heads)];
        for ((pool, owner), values) in rows.iter().take(ROWS) {
            let values = cells(values.iter().map(|value| bytes(*value)).collect());
            // A pool's own name need not be said twice.
            let whose = if owner.starts_with(pool) { owner.clone() } else { format!("{pool} {owner}") };
            lines.push(layout.fit(&format!("{values}  {}", whose)));
        }
        if rows.len() > ROWS {
            lines.push(line_of!("{:>12} more, in --json", rows.len() - ROWS));
        }
        lines
    }
}

/// At most `count` of them, evenly, the first and the last included.
fn spread<T>(all: &[T], count: usize) -> Vec<&T> {
    if all.len() <= count {
        return all.iter().collect();
    }
    (0..count).map(|place| &all[place * (all.len() - 1) / (count - 1)]).collect()
}

impl Report for DecomposeView {
    fn findings(&self) -> u64 {
        0
    }

    fn json(&self) -> Value {
        as_json(self)
    }

    fn lines(&self, layout: &Layout, detail: Detail) -> Vec<Line> {
        let mut lines = Vec::new();
        for device in &self.devices {
            match &device.at {
                Some(asked) => lines.extend(asked.lines((self.pid, &device.label), layout)),
                None => lines.extend(device.peak.iter().flat_map(|peak| peak.lines((self.pid, &device.label), layout))),
            }
            if detail == Detail::Full {
                lines.extend(device.step_lines(layout));
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_of_many_are_spread_evenly() {
        let all: Vec<u32> = (1..=50).collect();
        assert_eq!(spread(&all, 6), [&1, &10, &20, &30, &40, &50]);
        assert_eq!(spread(&all[..3], 6), [&1, &2, &3]);
    }
}
