//! Storages of tensors on the host, and the blocks of the heap they lie in.
use super::devices::notes;
use super::{record, replay};
use crate::{Action, Device, Pool, TraceEvent};
use memscope_testkit::{AccessMode, HOST_DEVICE, LaneNumber, Space, SpoolBuilder};
use std::ops::ControlFlow;

const STORAGE: Space = Space::TensorStorage;

fn storage(spool: &mut SpoolBuilder, lane: LaneNumber, ticks: u64, address: u64, size: u64) {
    spool.alloc(lane, ticks, address, size, 0);
    spool.device_alloc(lane, ticks + 1, STORAGE, HOST_DEVICE, address, size, 0, 0);
}

fn end(spool: &mut SpoolBuilder, lane: LaneNumber, ticks: u64, address: u64) {
    spool.device_free(lane, ticks, STORAGE, address, 0).free(lane, ticks + 1, address, 0);
}

#[test]
fn a_storage_is_of_torchs_pool_and_the_host_counts_as_without_it() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    storage(&mut spool, lane, 10, 0x1000, 100);
    spool.alloc(lane, 15, 0x5000, 7, 0);
    end(&mut spool, lane, 20, 0x1000);
    let (events, outcome) = replay(&mut record(&mut spool).process);
    let told: Vec<_> = events.iter().map(|event| (event.action, event.block.pool, event.used)).collect();
    let (host, pta) = (Pool::Host, Pool::PtaCaching);
    let (malloc, free) = (Action::Malloc, Action::Free);
    assert_eq!(told, [(malloc, host, 100), (malloc, pta, 100), (malloc, host, 107), (free, pta, 0), (free, host, 7)]);
    assert!(events.iter().all(|event| event.block.device == Device::Cpu));
    assert_eq!(
        outcome.pools.iter().map(|usage| (usage.pool, usage.peak_bytes)).collect::<Vec<_>>(),
        [(host, 107), (pta, 100)]
    );
}

#[test]
fn a_storage_knows_the_block_of_the_heap_it_lies_in_if_there_is_one() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    storage(&mut spool, lane, 10, 0x1000, 100);
    // A torch with an allocator of its own.
    spool.device_alloc(lane, 12, STORAGE, HOST_DEVICE, 0x9000, 50, 0, 0);
    end(&mut spool, lane, 20, 0x1000);
    let mut beneath = Vec::new();
    let mut visit = |event: &TraceEvent<'_>, state: &crate::State<'_>| {
        if let TraceEvent::Memory(event) = event {
            let found = state.beneath(&event.block);
            beneath.push((event.block.id.0, found.map(|block| (block.id.0, block.pool, block.size))));
        }
        ControlFlow::Continue(())
    };
    record(&mut spool).process.trace(&mut visit, &mut |_| {}).unwrap();
    let host = Some((1, Pool::Host, 100));
    assert_eq!(beneath, [(1, None), (2, host), (3, None), (2, host), (1, None)]);
}

#[test]
fn an_access_of_the_host_is_to_the_storage_and_not_to_the_block_beneath_it() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    storage(&mut spool, lane, 10, 0x1000, 100);
    spool.alloc(lane, 15, 0x5000, 64, 0).aten_name(lane, 0, "aten::add");
    spool.aten_start(lane, 20, 1, HOST_DEVICE, 0, 0);
    for storage in [0x1000, 0x5000] {
        spool.aten_access(lane, 21, AccessMode::Read, 0, HOST_DEVICE, (storage + 8, 8), storage, &[2]);
    }
    let notes = notes(&mut record(&mut spool).process);
    let blocks: Vec<_> = notes.iter().filter_map(|note| note.split_once("BlockId(")).map(|(_, id)| &id[..1]).collect();
    assert_eq!(blocks, ["2", "3"], "{notes:#?}");
}

#[test]
fn storages_of_one_address_dated_in_the_wrong_order_on_two_threads_are_put_right() {
    // Thread 2 frees what thread 1 allocated, and thread 1 is then given the address again; its events are dated early.
    let mut spool = SpoolBuilder::new();
    let (one, two) = (spool.lane(1), spool.lane(2));
    storage(&mut spool, one, 1000, 0x40, 7);
    end(&mut spool, two, 9000, 0x40);
    storage(&mut spool, one, 8990, 0x40, 9);
    end(&mut spool, two, 19_000, 0x40);
    let (events, outcome) = replay(&mut record(&mut spool).process);
    let told: Vec<_> = events.iter().map(|event| (event.action, event.block.pool, event.block.size)).collect();
    let of = |pool| told.iter().filter(|told| told.1 == pool).map(|told| (told.0, told.2)).collect::<Vec<_>>();
    let expected = [(Action::Malloc, 7), (Action::Free, 7), (Action::Malloc, 9), (Action::Free, 9)];
    assert_eq!((of(Pool::Host), of(Pool::PtaCaching)), (expected.to_vec(), expected.to_vec()));
    assert_eq!((outcome.unmatched_frees, outcome.replaced_blocks), (0, 0));
}

#[test]
fn the_end_of_a_storage_from_before_is_counted_and_takes_nothing_from_the_others() {
    let mut spool = SpoolBuilder::new();
    let lane = spool.lane(1);
    storage(&mut spool, lane, 10, 0x1000, 100);
    spool.device_free(lane, 20, STORAGE, 0x7000, 0);
    let (events, outcome) = replay(&mut record(&mut spool).process);
    assert_eq!((events.len(), outcome.unmatched_frees, outcome.live_blocks().len()), (2, 1, 2));
}

#[test]
fn after_a_refused_storage_memory_of_the_heap_is_no_answer() {
    let mut spool = SpoolBuilder::new();
    spool.config("c=0;py=0;cpu=1;npu=0;analysis=8;oomk=2;dir=/tmp");
    let lane = spool.lane(1);
    storage(&mut spool, lane, 10, 0x1000, 100);
    spool.out_of_memory(lane, 20, STORAGE, HOST_DEVICE, 1 << 40, 0, 0).alloc(lane, 30, 0x8000, 5, 0);
    storage(&mut spool, lane, 40, 0x2000, 1);
    let notes = notes(&mut record(&mut spool).process);
    let named =
        |name: &str| notes.iter().filter(|note| note.contains(name)).map(|note| note.as_str()).collect::<Vec<_>>();
    assert!(matches!(named("OOM_Snapshot_After")[..], [after] if after.starts_with("41 cpu")), "{notes:#?}");
    assert!(matches!(named("OutOfMemory")[..], [refused] if refused.contains("Pool(PtaCaching)")), "{notes:#?}");
    // The memory is listed once: as a storage.
    let listed = named("LiveAtRefusal");
    assert!(listed.len() == 2 && listed.iter().all(|note| note.contains("pool: PtaCaching")), "{listed:#?}");
}
