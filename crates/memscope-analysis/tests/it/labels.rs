//! Decomposition by labels, against a model too simple to be wrong.
use memscope_analysis::{Decomposition, Held, Holder, OwnerNode, PointInTime, PoolDecomposition};
use memscope_model::{Device, Process, TraceSource};
use memscope_testkit::{EPOCH, LabelLevel, LaneNumber, Space, SpoolBuilder};
use proptest::prelude::*;
use std::collections::BTreeMap;

const TEXTS: [&str; 4] = ["a", "b", "c", "d"];

/// What is open in a thread, level by level, the innermost last.
#[derive(Clone, Default)]
struct Open([Vec<usize>; 6]);

impl Open {
    fn end(&mut self, level: usize, text: usize) {
        if let Some(place) = self.0[level].iter().rposition(|open| *open == text) {
            self.0[level].remove(place);
        }
    }
}

/// A block with the labels it has.
#[derive(Clone)]
struct Labelled {
    pool: &'static str,
    device: Device,
    size: u64,
    levels: [Option<usize>; 5],
    user: Vec<usize>,
    own: Option<usize>,
    /// When it begins and ends.
    life: (u64, u64),
}

impl Labelled {
    fn owner(&self) -> Option<String> {
        let labels = self.levels.iter().flatten().chain(&self.user).chain(&self.own);
        let words: Vec<&str> = labels.map(|text| TEXTS[*text]).collect();
        let is_owned = self.pool != "HOST" || !words.is_empty();
        is_owned.then(|| [&[self.pool][..], &words].concat().join("@"))
    }
}

fn sum(nodes: &[OwnerNode]) -> Held {
    nodes.iter().fold(Held::default(), |sum, node| {
        if !node.children.is_empty() {
            assert_eq!(self::sum(&node.children), node.held);
        }
        Held { bytes: sum.bytes + node.held.bytes, blocks: sum.blocks + node.held.blocks }
    })
}

type Shares = BTreeMap<Option<String>, (u64, u64)>;

fn found(pool: &PoolDecomposition) -> Shares {
    assert_eq!(sum(&OwnerNode::tree(&pool.owners)), pool.used);
    let words = |holder: &Holder| match holder {
        Holder::Owner(words) => Some(words.clone()),
        Holder::Unlabelled(_) => None,
    };
    pool.owners.iter().map(|share| (words(&share.holder), (share.held.bytes, share.held.blocks))).collect()
}

proptest! {
    #[test]
    fn every_byte_has_the_owner_its_labels_make_at_any_time(
        deeds in proptest::collection::vec((0u8..8, 0usize..3, 0usize..6, 0usize..4, 1u64..1000), 1..200),
        until in 10u64..220,
    ) {
        let mut spool = SpoolBuilder::new();
        let lanes: [LaneNumber; 3] = [11, 12, 13].map(|thread| spool.lane(thread));
        for lane in lanes {
            for (number, text) in (1u32..).zip(TEXTS) {
                spool.label_name(lane, number, text);
            }
        }
        let mut open: [Open; 3] = std::array::from_fn(|_| Open::default());
        let mut all: Vec<Labelled> = Vec::new();
        let mut live: BTreeMap<(bool, u64), usize> = BTreeMap::new();
        for (time, (kind, thread, level, text, size)) in (10u64..).zip(&deeds) {
            let (lane, code, label) = (lanes[*thread], LabelLevel::ALL[*level], *text as u32 + 1);
            // Few places, so that blocks come and go at the same.
            let (on_host, address) = (*level % 2 == 0, 0x1_0000 * (1 + *text as u64));
            match kind {
                0 | 1 => {
                    spool.label_start(lane, time, code, label);
                    open[*thread].0[*level].push(*text);
                }
                2 => {
                    spool.label_end(lane, time, code, label);
                    open[*thread].end(*level, *text);
                }
                3 => {
                    let inside = address + size % 7;
                    spool.label_block(lane, time, code, label, inside);
                    for place in [false, true] {
                        if let Some(block) = live.get(&(place, address)).map(|number| &mut all[*number])
                            && inside - address < block.size
                        {
                            match *level {
                                5 => block.own = Some(*text),
                                level => block.levels[level] = Some(*text),
                            }
                        }
                    }
                }
                _ => match live.remove(&(on_host, address)) {
                    Some(number) => {
                        all[number].life.1 = time;
                        match on_host {
                            true => spool.free(lane, time, address, 0),
                            false => spool.device_free(lane, time, Space::PtaCaching, address, 0),
                        };
                    }
                    None => {
                        match on_host {
                            true => spool.alloc(lane, time, address, *size, 0),
                            false => spool.region(lane, time, Space::PtaCaching, 0, address, *size),
                        };
                        live.insert((on_host, address), all.len());
                        let Open(levels) = &open[*thread];
                        all.push(Labelled {
                            pool: if on_host { "HOST" } else { "PTA" },
                            device: if on_host { Device::Cpu } else { Device::Npu(0) },
                            size: *size,
                            levels: std::array::from_fn(|level| levels[level].last().copied()),
                            user: levels[5].clone(),
                            own: None,
                            life: (time, u64::MAX),
                        });
                    }
                },
            }
        }
        let mut expected: BTreeMap<Device, Shares> = BTreeMap::new();
        for block in all.iter().filter(|block| block.life.0 <= until && until < block.life.1) {
            let share = expected.entry(block.device).or_default().entry(block.owner()).or_default();
            *share = (share.0 + block.size, share.1 + 1);
        }
        let directory = tempfile::tempdir().unwrap();
        spool.write(directory.path()).unwrap();
        let mut decomposition = Decomposition::at(Some(PointInTime::Time(EPOCH.later_by(until))));
        let outcome = Process::open(directory.path()).unwrap().run(&mut [&mut decomposition], &mut |_| {}).unwrap();
        let report = decomposition.finish(&outcome);
        let moments = report.devices.iter().filter_map(|device| Some((device.device, device.asked.as_ref()?)));
        let told: BTreeMap<Device, Shares> = moments
            .filter_map(|(device, moment)| Some((device, moment.pools.first().map(found)?)))
            .filter(|(_, shares)| !shares.is_empty())
            .collect();
        prop_assert_eq!(told, expected);
    }
}
