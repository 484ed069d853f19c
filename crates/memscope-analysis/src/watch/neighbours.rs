//! The blocks beside a watched one: who writes beyond the end of a block is often its neighbour's owner.
use super::Place;
use memscope_model::{Action, Block, BlockEvent, Moment, State};

/// Blocks further away are not beside it.
const NEAR: u64 = 4096;

/// Before and behind the watched block.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Neighbours {
    pub before: Option<Neighbour>,
    pub behind: Option<Neighbour>,
    /// Blocks that were beside it and are freed.
    pub freed_before: Option<Neighbour>,
    pub freed_behind: Option<Neighbour>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Neighbour {
    pub address: u64,
    pub size: u64,
    pub made: Moment,
    /// `None`: it is alive.
    pub freed: Option<Moment>,
    /// Bytes between the two.
    pub distance: u64,
}

/// What was freed beside a watched block, the newest of each side.
#[derive(Clone, Debug, Default)]
pub(super) struct FreedNearby {
    before: Option<Neighbour>,
    behind: Option<Neighbour>,
}

enum Side {
    Before(u64),
    Behind(u64),
}

impl Side {
    fn distance(&self) -> u64 {
        match self {
            Side::Before(distance) | Side::Behind(distance) => *distance,
        }
    }
}

/// On which side of the place a block is, and how far from it; `None` if they overlap.
fn side(place: Place, address: u64, size: u64) -> Option<Side> {
    let (start, end) = (place.address.0, place.address.0.saturating_add(place.size));
    match address.checked_add(size) {
        Some(block_end) if block_end <= start => Some(Side::Before(start - block_end)),
        _ if address >= end => Some(Side::Behind(address - end)),
        _ => None,
    }
}

impl FreedNearby {
    pub(super) fn see(&mut self, event: &BlockEvent, place: Place) {
        let Block { device, address, size, made, .. } = event.block;
        if event.action != Action::Free || device != place.device || size == 0 {
            return;
        }
        let neighbour = |distance| Some(Neighbour { address, size, made, freed: Some(event.at), distance });
        match side(place, address, size) {
            Some(Side::Before(distance)) if distance <= NEAR => self.before = neighbour(distance),
            Some(Side::Behind(distance)) if distance <= NEAR => self.behind = neighbour(distance),
            _ => {}
        }
    }
}

impl Neighbours {
    pub(super) fn of(place: Place, freed: &FreedNearby, state: &State<'_>) -> Neighbours {
        let around = state.around(place.device, place.address).map(|block| block.block);
        let mut pool = None;
        let mut outer = place;
        state.for_each_live(&mut |block| {
            if Some(block.id) == around {
                pool = Some(block.pool);
                outer = Place { address: memscope_model::DevAddr(block.address), size: block.size, ..place };
            }
        });
        let mut found = Neighbours { freed_before: freed.before, freed_behind: freed.behind, ..Neighbours::default() };
        let closer = |known: &Option<Neighbour>, distance| known.is_none_or(|known| distance < known.distance);
        state.for_each_live(&mut |block| {
            if block.device != place.device || pool.is_some_and(|pool| pool != block.pool) || block.size == 0 {
                return;
            }
            let Block { address, size, made, .. } = *block;
            let neighbour = |distance| Some(Neighbour { address, size, made, freed: None, distance });
            match side(outer, address, size).filter(|side| side.distance() <= NEAR) {
                Some(Side::Before(distance)) if closer(&found.before, distance) => found.before = neighbour(distance),
                Some(Side::Behind(distance)) if closer(&found.behind, distance) => found.behind = neighbour(distance),
                _ => {}
            }
        });
        found
    }
}
