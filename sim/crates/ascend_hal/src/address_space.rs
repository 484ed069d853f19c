//! Where blocks lie: fixed ranges of the process's address space, given out lowest gap first so that addresses repeat from
//! run to run.

use std::collections::BTreeMap;

/// Bytes of address space per device.
pub(crate) const DEVICE_SPAN: usize = 1 << 40;
/// Address of device 0's memory.
pub(crate) const DEVICE_BASE: usize = 0x1240_0000_0000;
/// Address of the first pinned host block.
pub(crate) const HOST_BASE: usize = 0x1100_0000_0000;
/// Address of the first reserved (virtual memory) range. Above the memory of 16 devices.
pub(crate) const RESERVE_BASE: usize = 0x3000_0000_0000;
/// Bytes of address space for reservations.
pub(crate) const RESERVE_SPAN: usize = 0x2000_0000_0000;
/// Most devices that fit between the bases.
pub(crate) const MOST_DEVICES: u64 = 16;

/// Ranges in use within one span of numbers (addresses, or offsets in a file).
pub(crate) struct Ranges {
    base: usize,
    end: usize,
    used: BTreeMap<usize, usize>,
    /// Nothing below it is free; the end of a range in use, or the base.
    full_below: usize,
}

impl Ranges {
    pub(crate) const fn new(base: usize, span: usize) -> Self {
        Self { base, end: base + span, used: BTreeMap::new(), full_below: base }
    }

    /// Takes the lowest gap that holds `size` bytes at a multiple of `alignment` (a power of two).
    pub(crate) fn take(&mut self, size: usize, alignment: usize) -> Option<usize> {
        let mut start = self.full_below.next_multiple_of(alignment);
        for (&used, &length) in self.used.range(self.full_below..) {
            if start.checked_add(size)? <= used {
                break;
            }
            start = start.max((used + length).next_multiple_of(alignment));
        }
        if start.checked_add(size)? > self.end {
            return None;
        }
        self.used.insert(start, size);
        if start == self.full_below {
            self.full_below = start + size;
        }
        Some(start)
    }

    /// Gives a range back; its size, or `None` if no range starts there.
    pub(crate) fn release(&mut self, start: usize) -> Option<usize> {
        let size = self.used.remove(&start)?;
        self.full_below = self.full_below.min(start);
        Some(size)
    }

    /// The range that contains `address`, as (start, size).
    pub(crate) fn containing(&self, address: usize) -> Option<(usize, usize)> {
        let (&start, &size) = self.used.range(..=address).next_back()?;
        (address < start + size).then_some((start, size))
    }

    pub(crate) fn spans(&self, address: usize) -> bool {
        (self.base..self.end).contains(&address)
    }
}
