//! How memory goes up and down: within steps or over time, at the peak, and against what pools reserve.
use super::shares::{OwnerView, SiteView, owner_rows, percent, site_rows};
use super::{Detail, Ended, Lacking, Report, Running, Wishes, as_json};
use crate::line::{Line, line_of};
use crate::report::quantity::{bytes, count, counted};
use crate::views::layout::{Emphasis, Layout};
use crate::views::merged::Naming;
use crate::views::reading::pool_label;
use memscope_analysis::{
    Basis, Bin, Fluctuation, FluctuationReport, Gap, Held, Peak, PoolFluctuation, Reserve, StepUse,
};
use memscope_model::{Device, Pool, STEP_TEXT, TimestampNs, TraceInfo, TraceSink};
use serde::Serialize;
use serde_json::Value;

pub(super) fn begin(wishes: &Wishes) -> Box<dyn Running> {
    Box::new(match wishes.detail {
        Detail::Full => Fluctuation::new(),
        Detail::Brief => Fluctuation::without_holders(),
    })
}

impl Running for Fluctuation {
    fn sink(&mut self) -> &mut dyn TraceSink {
        self
    }

    fn finish(self: Box<Self>, ended: &Ended<'_>, naming: &mut Naming<'_>) -> Result<Box<dyn Report>, Lacking> {
        let report = Fluctuation::finish(*self, ended.outcome);
        if report.pools.is_empty() {
            return Err(super::no_memory());
        }
        Ok(Box::new(FluctuationView::new(&report, ended.info, naming)))
    }
}

/// The report with names; times are nanoseconds since the recording began.
#[derive(Debug, Serialize)]
struct FluctuationView {
    #[serde(skip)]
    pid: u32,
    /// `steps` or `time`: what the gaps are of.
    basis: &'static str,
    /// How many steps began.
    steps: u32,
    /// Where the first piece of `over_time` begins, and how long each is.
    bins_after_ns: u64,
    bin_ns: u64,
    pools: Vec<PoolView>,
}

#[derive(Debug, Serialize)]
struct PoolView {
    device: String,
    pool: &'static str,
    #[serde(skip)]
    label: String,
    min_gap: Option<GapView>,
    max_gap: Option<GapView>,
    balance: Option<BalanceView>,
    peak: Option<PeakView>,
    most_unused: Option<ReserveView>,
    per_step: Vec<StepView>,
    over_time: Vec<Option<BinView>>,
}

#[derive(Debug, Serialize)]
struct GapView {
    /// The least over the most in use, in percent.
    ratio: f64,
    min_bytes: u64,
    max_bytes: u64,
    step: Option<u32>,
    /// When the piece of time began, where there are no steps.
    after_ns: Option<u64>,
}

impl GapView {
    /// There is a difference at all.
    fn is_one(&self) -> bool {
        self.min_bytes < self.max_bytes
    }
}

/// What steps, from the second on, ended with against what they began with.
#[derive(Debug, Serialize)]
struct BalanceView {
    steps: u64,
    grown: u64,
    shrunk: u64,
    most_grown: Option<GrownView>,
}

#[derive(Debug, Serialize)]
struct GrownView {
    step: u32,
    /// By how much.
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct ReserveView {
    after_ns: u64,
    step: Option<u32>,
    bytes: u64,
    reserved_bytes: Option<u64>,
    unused_bytes: Option<u64>,
}

#[derive(Debug, Serialize)]
struct PeakView {
    #[serde(flatten)]
    at: ReserveView,
    blocks: u64,
    owners: Vec<OwnerView>,
    sites: Vec<SiteView>,
}

#[derive(Debug, Serialize)]
struct StepView {
    step: u32,
    min_bytes: u64,
    max_bytes: u64,
    begin_bytes: u64,
    end_bytes: u64,
    reserved_bytes: Option<u64>,
    most_unused_bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
struct BinView {
    min_bytes: u64,
    max_bytes: u64,
    reserved_bytes: Option<u64>,
    most_unused_bytes: u64,
}

impl FluctuationView {
    fn new(report: &FluctuationReport, info: &TraceInfo, naming: &mut Naming<'_>) -> FluctuationView {
        let start = info.start;
        let bins_after_ns = report.bins_from.since(start);
        let gap = |gap: &Gap| {
            let (step, after_ns) = match report.basis {
                Basis::Steps => (Some(gap.number), None),
                Basis::Time => (None, Some(bins_after_ns + u64::from(gap.number - 1) * report.bin_ns)),
            };
            let (min_bytes, max_bytes) = (gap.least, gap.most);
            GapView { ratio: gap.ratio() * 100.0, min_bytes, max_bytes, step, after_ns }
        };
        let mut pool = |pool: &PoolFluctuation| PoolView {
            device: pool.device.to_string(),
            pool: pool.pool.name(),
            label: title(pool.device, pool.pool),
            min_gap: pool.gaps.as_ref().map(|gaps| gap(&gaps.min)),
            max_gap: pool.gaps.as_ref().map(|gaps| gap(&gaps.max)),
            balance: balance(&pool.steps),
            peak: pool.peak.as_ref().map(|peak| PeakView::new(peak, start, naming)),
            most_unused: pool.worst.as_ref().map(|worst| ReserveView::new(worst, start)),
            per_step: pool.steps.iter().map(StepView::new).collect(),
            over_time: pool.bins.iter().map(|bin| bin.as_ref().map(BinView::new)).collect(),
        };
        FluctuationView {
            pid: info.pid,
            basis: match report.basis {
                Basis::Steps => "steps",
                Basis::Time => "time",
            },
            steps: report.steps,
            bins_after_ns,
            bin_ns: report.bin_ns,
            pools: report.pools.iter().map(&mut pool).collect(),
        }
    }

    fn is_of_steps(&self) -> bool {
        self.basis == "steps"
    }

    /// What the gaps are of.
    fn heading(&self) -> String {
        if self.is_of_steps() {
            return format!("fluctuation within steps of process {}, from the second on:", self.pid);
        }
        let piece = self.bin_ns as f64 / 1e6;
        let why = match self.steps {
            0 => format!("there are no steps (mstx ranges \"{STEP_TEXT}\", or calls of step())"),
            _ => "no second step ended".to_owned(),
        };
        format!(
            "fluctuation of process {} within pieces of {piece:.3} ms, without the first and the last, because {why}:",
            self.pid
        )
    }
}

fn title(device: Device, pool: Pool) -> String {
    format!("{} memory", pool_label(device, pool))
}

fn balance(steps: &[StepUse]) -> Option<BalanceView> {
    let settled = || steps.iter().filter(|used| used.number > 1);
    let grown = || settled().filter(|used| used.end > used.begin);
    let most = grown().max_by_key(|used| (used.end - used.begin, std::cmp::Reverse(used.number)));
    settled().next()?;
    Some(BalanceView {
        steps: settled().count() as u64,
        grown: grown().count() as u64,
        shrunk: settled().filter(|used| used.end < used.begin).count() as u64,
        most_grown: most.map(|used| GrownView { step: used.number, bytes: used.end - used.begin }),
    })
}

impl ReserveView {
    fn new(at: &Reserve, start: TimestampNs) -> ReserveView {
        let Reserve { time, step, used, reserved } = *at;
        let unused_bytes = reserved.map(|_| at.unused());
        ReserveView { after_ns: time.since(start), step, bytes: used, reserved_bytes: reserved, unused_bytes }
    }

    /// `after 2.200 s, in step 3`
    fn when(&self) -> String {
        let after = format!("after {:.3} s", self.after_ns as f64 / 1e9);
        self.step.map_or(after.clone(), |step| format!("{after}, in step {step}"))
    }

    /// `1.5 GiB reserved, 300.0 MiB (20.0%) of it unused`
    fn reservation(&self) -> Option<String> {
        let (reserved, unused) = (self.reserved_bytes?, self.unused_bytes?);
        let share = percent(unused, reserved);
        Some(format!("{} reserved, {} ({share:.1}%) of it unused", bytes(reserved), bytes(unused)))
    }
}

impl PeakView {
    fn new(peak: &Peak, start: TimestampNs, naming: &mut Naming<'_>) -> PeakView {
        let total = Held { bytes: peak.at.used, blocks: peak.blocks };
        PeakView {
            at: ReserveView::new(&peak.at, start),
            blocks: peak.blocks,
            owners: peak.owners.iter().map(|share| OwnerView::new(share, total.bytes)).collect(),
            sites: SiteView::largest(&peak.stacks, total, naming),
        }
    }

    fn lines(&self, layout: &Layout) -> Vec<Line> {
        let blocks = counted(self.blocks, "block", "blocks");
        let reserved = self.at.reservation().map_or_else(String::new, |text| format!("; {text}"));
        let mut lines = vec![line_of!("  peak: {} in {blocks} {}{reserved}", bytes(self.at.bytes), self.at.when())];
        let inner = layout.narrower(2);
        lines.extend(owner_rows(&self.owners, &inner).into_iter().map(|row| row.indented(2)));
        if self.sites.iter().any(|site| !site.frames.is_empty()) {
            lines.push("  by call site:".into());
            lines.extend(site_rows(&self.sites, &inner).into_iter().map(|row| row.indented(2)));
        }
        lines
    }
}

impl StepView {
    fn new(used: &StepUse) -> StepView {
        StepView {
            step: used.number,
            min_bytes: used.least,
            max_bytes: used.most,
            begin_bytes: used.begin,
            end_bytes: used.end,
            reserved_bytes: used.reserved_at_end,
            most_unused_bytes: used.most_unused,
        }
    }
}

impl BinView {
    fn new(bin: &Bin) -> BinView {
        BinView {
            min_bytes: bin.least,
            max_bytes: bin.most,
            reserved_bytes: bin.most_reserved,
            most_unused_bytes: bin.most_unused,
        }
    }

    fn with(&self, other: &BinView) -> BinView {
        BinView {
            min_bytes: self.min_bytes.min(other.min_bytes),
            max_bytes: self.max_bytes.max(other.max_bytes),
            reserved_bytes: self.reserved_bytes.max(other.reserved_bytes),
            most_unused_bytes: self.most_unused_bytes.max(other.most_unused_bytes),
        }
    }
}

impl PoolView {
    /// The table users know, each column as wide as theirs.
    fn table(&self, is_of_steps: bool) -> Vec<Line> {
        let (Some(min), Some(max)) = (&self.min_gap, &self.max_gap) else { return Vec::new() };
        let row = |cells: [&str; 4]| Line::new(cells.map(|cell| format!("{cell:<25}")).concat().trim_end());
        let of = |name: &str, gap: &GapView| {
            let place = match gap.step {
                Some(step) => step.to_string(),
                None => format!("{:.3}", gap.after_ns.unwrap_or(0) as f64 / 1e9),
            };
            let megabytes = gap.min_bytes as f64 / f64::from(1 << 20);
            row([name, &format!("{:.4}", gap.ratio), &format!("{megabytes:.4}"), &place])
        };
        let place = if is_of_steps { "StepId" } else { "After(s)" };
        vec![row(["", "MinAlloc/MaxAlloc(%)", "MinAllocMem(MB)", place]), of("MinGap", min), of("MaxGap", max)]
    }

    fn balance_line(&self) -> Option<String> {
        let BalanceView { steps, grown, shrunk, most_grown } = self.balance.as_ref()?;
        let most = most_grown
            .as_ref()
            .map_or_else(String::new, |grown| format!(" (step {} by most, {})", grown.step, bytes(grown.bytes)));
        let of = counted(*steps, "step", "steps");
        Some(format!(
            "  of {of}, {} ended with more than they began with{most}, {} with less",
            count(*grown),
            count(*shrunk)
        ))
    }

    fn lines(&self, view: &FluctuationView, layout: &Layout) -> Vec<Line> {
        let mut lines = vec![layout.emphasised(layout.fit(&format!("{}:", self.label)), Emphasis::Heading)];
        let table = self.table(view.is_of_steps());
        if table.is_empty() {
            let of = if view.is_of_steps() { "step" } else { "piece of time" };
            lines.push(line_of!("  nothing was in use in any {of} that is compared"));
        }
        lines.extend(table);
        lines.extend(self.balance_line().map(Line::from));
        lines.extend(self.peak.iter().flat_map(|peak| peak.lines(layout)));
        if let Some(worst) = self.most_unused.as_ref() {
            let reservation = worst.reservation().unwrap_or_default();
            lines.push(line_of!("  most unused: {} {}: {reservation}", bytes(worst.bytes), worst.when()));
            lines.extend(self.unused_in_steps().map(Line::from));
            lines.push(Line::new(
                "  (how large a single request would still have fitted is not known: pools do not tell how their free \
                 memory is cut)",
            ));
        }
        lines.extend(self.over_time_lines(view));
        lines
    }

    /// While a program begins it reserves what it is going to use; later that is another matter.
    fn unused_in_steps(&self) -> Option<String> {
        let settled = self.per_step.iter().filter(|used| used.step > 1);
        let worst = settled.max_by_key(|used| (used.most_unused_bytes, std::cmp::Reverse(used.step)))?;
        let (unused, step) = (bytes(worst.most_unused_bytes), worst.step);
        Some(format!("  most unused within a step, from the second on: {unused}, in step {step}"))
    }

    /// The pieces of time, some together, in so few rows that they can be read.
    fn over_time_lines(&self, view: &FluctuationView) -> Vec<Line> {
        const ROWS: usize = 8;
        if self.over_time.len() < 2 {
            return Vec::new();
        }
        let together = self.over_time.len().div_ceil(ROWS);
        let mut lines = vec![Line::from("  over time:")];
        let mut before = None;
        for (number, bins) in self.over_time.chunks(together).enumerate() {
            let mut seen = bins.iter().flatten();
            let Some(first) = seen.next() else { continue };
            let merged = seen.fold(*first, |merged, bin| merged.with(bin));
            // What stays as it was needs no row.
            if before.replace(merged) == Some(merged) {
                continue;
            }
            let after = view.bins_after_ns + (number * together) as u64 * view.bin_ns;
            let reserved = merged.reserved_bytes.map_or_else(String::new, |reserved| {
                format!("; up to {} reserved, {} unused", bytes(reserved), bytes(merged.most_unused_bytes))
            });
            let used = format!("{:>10} to {:>10} in use", bytes(merged.min_bytes), bytes(merged.max_bytes));
            lines.push(line_of!("  from {:>10.3} s  {used}{reserved}", after as f64 / 1e9));
        }
        lines
    }
}

impl Report for FluctuationView {
    /// Memory that goes up and down is nothing wrong in itself.
    fn findings(&self) -> u64 {
        0
    }

    fn json(&self) -> Value {
        as_json(self)
    }

    fn lines(&self, layout: &Layout, detail: Detail) -> Vec<Line> {
        let heading = layout.emphasised(layout.fit(&self.heading()), Emphasis::Heading);
        match detail {
            Detail::Full => {
                let pools = self.pools.iter().flat_map(|pool| pool.lines(self, layout));
                std::iter::once(heading).chain(pools).collect()
            }
            Detail::Brief if !self.is_of_steps() => Vec::new(),
            Detail::Brief => {
                // What stays level is no news.
                let told = self.pools.iter().filter(|pool| pool.min_gap.as_ref().is_some_and(GapView::is_one));
                let tables = told.flat_map(|pool| {
                    let title = layout.fit(&format!("{}:", pool.label));
                    std::iter::once(title).chain(pool.table(true))
                });
                let tables: Vec<Line> = tables.collect();
                if tables.is_empty() { tables } else { std::iter::once(heading).chain(tables).collect() }
            }
        }
    }
}
