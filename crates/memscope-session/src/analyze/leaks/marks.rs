//! Leaks between marks of the program, by name.
use super::lines::{device_label, place_text};
use super::site_key::SiteKey;
use super::{NO_ALLOCATIONS, name_of, texts};
use crate::analyze::{Detail, Ended, Lacking, Report, Running, as_json};
use crate::line::{Line, line_of};
use crate::report::quantity::{bytes, counted};
use crate::views::layout::{Emphasis, Layout};
use crate::views::merged::Naming;
use crate::views::names::FrameId;
use memscope_analysis::leaks::{BetweenMarks, LeaksBetweenMarks};
use memscope_model::{Block, Moment, NameId, StackId, TraceSink};
use rustc_hash::FxHashMap;
use serde::Serialize;
use serde_json::Value;
use std::cmp::Reverse;

/// Between which marks leaks are looked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Marks {
    /// The text of the marks A, B and C.
    pub text: String,
    /// Which of the marks of this text is A, from 0.
    pub start: usize,
}

pub(super) struct Search {
    marks: Marks,
    search: LeaksBetweenMarks,
}

impl Search {
    pub(super) fn new(marks: &Marks) -> Search {
        Search { marks: marks.clone(), search: LeaksBetweenMarks::new(&marks.text, marks.start) }
    }
}

impl Running for Search {
    fn sink(&mut self) -> &mut dyn TraceSink {
        &mut self.search
    }

    fn finish(self: Box<Self>, ended: &Ended<'_>, naming: &mut Naming<'_>) -> Result<Box<dyn Report>, Lacking> {
        let Search { marks, search } = *self;
        let found = search.finish();
        if found.is_empty() {
            return Err(Lacking(NO_ALLOCATIONS.to_owned()));
        }
        if found.iter().all(|device| device.points.is_none()) {
            let most = found.iter().map(|device| device.marks).max().unwrap_or(0);
            return Err(Lacking(marks.lacking(most)));
        }
        Ok(Box::new(MarkedLeaks::new(&marks, &found, ended, naming)))
    }
}

impl Marks {
    fn lacking(&self, found: usize) -> String {
        let marks = counted(found as u64, "mark", "marks");
        let Marks { text, start } = self;
        format!(
            "there are {marks} \"{text}\", and A, B and C are three, from number {start} on; let the program make them with \
             mstx's mark(\"{text}\"): memory allocated from A to B is to be freed by C"
        )
    }
}

/// What was allocated between A and B and not freed by C.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MarkedLeaks {
    pub mstx_info: String,
    pub start_index: usize,
    pub devices: Vec<MarkedDevice>,
    /// Most bytes first.
    pub leaks: Vec<MarkedLeak>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MarkedDevice {
    pub device: String,
    /// How many marks of the text it has.
    pub marks: usize,
    /// When A, B and C were, in nanoseconds since the epoch; `null` if there are not so many marks.
    pub points_ns: Option<[u64; 3]>,
    pub bytes: u64,
    pub blocks: u64,
}

/// Memory of one call site, or, without call stacks, of one owner.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MarkedLeak {
    pub device: String,
    pub pool: &'static str,
    pub bytes: u64,
    pub blocks: u64,
    pub site: Option<String>,
    pub callers: Vec<String>,
    pub via: Option<String>,
    pub own: bool,
    /// By which most of it was made, innermost first.
    pub stack: Vec<String>,
    pub owner: Option<String>,
    pub operator: Option<String>,
    /// Of the largest blocks, and their sizes.
    pub addresses: Vec<String>,
    pub sizes: Vec<u64>,
}

/// How many blocks of a call site are told one by one.
const BLOCKS: usize = 16;

struct Site<'b> {
    key: SiteKey,
    own: bool,
    bytes: u64,
    blocks: Vec<(&'b Block, Option<NameId>)>,
    ways: FxHashMap<StackId, (u64, Option<FrameId>)>,
}

fn by_site<'b>(found: &'b [BetweenMarks], naming: &mut Naming<'_>) -> Vec<Site<'b>> {
    let mut sites: Vec<Site<'b>> = Vec::new();
    let mut known: FxHashMap<SiteKey, usize> = FxHashMap::default();
    for (block, operator) in found.iter().flat_map(|device| &device.leaks) {
        let stack = block.made.stack;
        let (key, via, own) = SiteKey::of((block.device, block.pool), stack, block.owner, naming);
        let place = *known.entry(key).or_insert_with_key(|key| {
            sites.push(Site { key: key.clone(), own, bytes: 0, blocks: Vec::new(), ways: FxHashMap::default() });
            sites.len() - 1
        });
        let site = &mut sites[place];
        site.bytes = site.bytes.saturating_add(block.size);
        site.ways.entry(stack).or_insert((0, via)).0 += block.size;
        site.blocks.push((block, *operator));
    }
    sites.sort_by_key(|site| Reverse(site.bytes));
    sites
}

impl MarkedLeaks {
    fn new(marks: &Marks, found: &[BetweenMarks], ended: &Ended<'_>, naming: &mut Naming<'_>) -> MarkedLeaks {
        let devices = found
            .iter()
            .map(|device| MarkedDevice {
                device: device.device.to_string(),
                marks: device.marks,
                points_ns: device.points.map(|points| points.map(|point: Moment| point.time.0)),
                bytes: device.leaks.iter().map(|(block, _)| block.size).sum(),
                blocks: device.leaks.len() as u64,
            })
            .collect();
        let sites = by_site(found, naming);
        let leaks = sites.into_iter().map(|site| site.told(ended, naming)).collect();
        MarkedLeaks { mstx_info: marks.text.clone(), start_index: marks.start, devices, leaks }
    }
}

impl Site<'_> {
    fn told(mut self, ended: &Ended<'_>, naming: &mut Naming<'_>) -> MarkedLeak {
        let number = self.blocks.len() as u64;
        self.blocks.sort_by_key(|(block, _)| Reverse(block.size));
        let most = self.ways.iter().max_by_key(|(stack, (bytes, _))| (*bytes, Reverse(**stack)));
        let (stack, via) = most.map_or((StackId::NONE, None), |(stack, (_, via))| (*stack, *via));
        let mut operators: FxHashMap<NameId, u64> = FxHashMap::default();
        for (block, operator) in &self.blocks {
            operator.iter().for_each(|name| *operators.entry(*name).or_default() += block.size);
        }
        let operator = operators.into_iter().max_by_key(|(name, bytes)| (*bytes, Reverse(*name)));
        let (site, callers) = texts(&self.key.frames, naming);
        let owner = self.blocks.first().and_then(|(block, _)| ended.outcome.owners.name(block.owner));
        self.blocks.truncate(BLOCKS);
        let merged = naming.merged(stack);
        MarkedLeak {
            device: self.key.device.to_string(),
            pool: self.key.pool.name(),
            bytes: self.bytes,
            blocks: number,
            site,
            callers,
            via: via.map(|via| naming.names.text(via)),
            own: self.own,
            stack: merged.iter().rev().map(|frame| naming.names.text(*frame)).collect(),
            owner: owner.map(str::to_owned),
            operator: operator.and_then(|(name, _)| name_of(&ended.outcome.names, name)),
            addresses: self.blocks.iter().map(|(block, _)| format!("{:#x}", block.address)).collect(),
            sizes: self.blocks.iter().map(|(block, _)| block.size).collect(),
        }
    }
}

impl Report for MarkedLeaks {
    fn findings(&self) -> u64 {
        self.leaks.len() as u64
    }

    fn json(&self) -> Value {
        as_json(self)
    }

    fn lines(&self, layout: &Layout, _: Detail) -> Vec<Line> {
        const SITES_SHOWN: usize = 20;
        const BLOCKS_SHOWN: usize = 4;
        let mut lines = Vec::new();
        for device in &self.devices {
            let label = device_label(&device.device);
            let title = match device.points_ns {
                Some([a, b, c]) => format!(
                    "leaks of {label} between marks {} to {} of \"{}\" (A to B {:.3} s, to C {:.3} s): {}",
                    self.start_index,
                    self.start_index + 2,
                    self.mstx_info,
                    b.saturating_sub(a) as f64 / 1e9,
                    c.saturating_sub(a) as f64 / 1e9,
                    match device.blocks {
                        0 => "none".to_owned(),
                        blocks => format!("{} in {}", bytes(device.bytes), counted(blocks, "block", "blocks")),
                    }
                ),
                None => format!(
                    "no leaks of {label}: it has {} \"{}\"",
                    counted(device.marks as u64, "mark", "marks"),
                    self.mstx_info
                ),
            };
            lines.push(layout.emphasised(layout.fit(&title), Emphasis::Heading));
            let leaks: Vec<&MarkedLeak> = self.leaks.iter().filter(|leak| leak.device == device.device).collect();
            for leak in leaks.iter().take(SITES_SHOWN) {
                let operator = leak.operator.iter().map(|operator| format!(", for {operator}")).collect::<String>();
                let held = counted(leak.blocks, "block", "blocks");
                let row = format!("  {}: {} in {held}{operator}", leak.pool, bytes(leak.bytes));
                lines.push(layout.fit(&row));
                let via = leak.via.as_deref();
                let place = place_text(leak.site.as_deref(), &leak.callers, via, leak.owner.as_deref(), layout.left(4));
                let place = if leak.own { layout.emphasised(place, Emphasis::Own) } else { place.into() };
                lines.push(place.indented(4));
                let told = leak.addresses.iter().zip(&leak.sizes).take(BLOCKS_SHOWN);
                let told: Vec<String> = told.map(|(address, size)| format!("{address} {}", bytes(*size))).collect();
                let more = if leak.blocks > told.len() as u64 { ", …" } else { "" };
                lines.push(layout.fit(&format!("    at {}{more}", told.join(", "))));
            }
            if leaks.len() > SITES_SHOWN {
                let rest = &leaks[SITES_SHOWN..];
                let sum = rest.iter().map(|leak| leak.bytes).sum();
                let sites = counted(rest.len() as u64, "more call site", "more call sites");
                lines.push(line_of!("  and {sites}: {}", bytes(sum)));
            }
        }
        lines
    }
}
