//! Which addresses were freed lately, and by whom.
use crate::{Moment, TimestampNs};

/// The newest free of an address, for some addresses: each is at a place given by its address.
#[derive(Debug)]
pub(crate) struct LastFrees(Box<[LastFree; PLACES]>);

const PLACES: usize = 1024;

#[derive(Clone, Copy, Default, Debug)]
struct LastFree {
    address: u64,
    time: TimestampNs,
    thread: u32,
}

impl Default for LastFrees {
    fn default() -> LastFrees {
        LastFrees(Box::new([LastFree::default(); PLACES]))
    }
}

impl LastFrees {
    #[inline]
    pub(crate) fn remember(&mut self, address: u64, now: &Moment) {
        self.0[place(address)] = LastFree { address, time: now.time, thread: now.thread };
    }

    /// Whether another thread than this freed the address since `since`, as far as that is remembered.
    pub(crate) fn has(&self, address: u64, but_by: u32, since: TimestampNs) -> bool {
        let last = &self.0[place(address)];
        last.address == address && last.thread != but_by && last.time >= since
    }
}

fn place(address: u64) -> usize {
    (address >> 4) as usize % PLACES
}
