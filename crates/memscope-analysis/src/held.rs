//! What is held, now and at moments that passed, by whatever the holders are numbered by.

/// What is held, in bytes and blocks.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Held {
    pub bytes: u64,
    pub blocks: u64,
}

impl Held {
    #[inline]
    pub(crate) fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.blocks += 1;
    }

    /// Saturating: a caller that left out allocations gets figures that are too small, not ones that wrapped.
    #[inline]
    pub(crate) fn remove(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.blocks = self.blocks.saturating_sub(1);
    }
}

/// What was held at a moment. It is not copied when the moment comes, since that would touch every holder: it is what the
/// holder holds until its first change afterwards, and saved only then.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Saved<T = Held> {
    value: T,
    /// Which coming of the moment `value` is of; if not of the last, there was no change since.
    taken: u64,
}

impl<T> Saved<T> {
    #[inline]
    pub(crate) fn before_change(&mut self, taken: u64, live: T) {
        if self.taken != taken {
            *self = Saved { value: live, taken };
        }
    }

    pub(crate) fn of(self, taken: u64, live: T) -> T {
        if self.taken == taken { self.value } else { live }
    }
}

/// What each holder holds now and held at so many moments. A moment comes by counting it up in the array of the caller,
/// before the change that follows it.
#[derive(Clone, Debug)]
pub(crate) struct Shares<const MOMENTS: usize>(Vec<Share<MOMENTS>>);

#[derive(Clone, Copy, Debug)]
struct Share<const MOMENTS: usize> {
    live: Held,
    saved: [Saved; MOMENTS],
}

impl<const MOMENTS: usize> Default for Shares<MOMENTS> {
    fn default() -> Self {
        Shares(Vec::new())
    }
}

impl<const MOMENTS: usize> Shares<MOMENTS> {
    /// The holder's share, about to change.
    #[inline]
    pub(crate) fn changing(&mut self, holder: usize, taken: &[u64; MOMENTS]) -> &mut Held {
        if holder >= self.0.len() {
            self.0.resize(holder + 1, Share { live: Held::default(), saved: [Saved::default(); MOMENTS] });
        }
        let share = &mut self.0[holder];
        for (saved, taken) in share.saved.iter_mut().zip(taken) {
            saved.before_change(*taken, share.live);
        }
        &mut share.live
    }

    pub(crate) fn live(&self, holder: usize) -> Held {
        self.0.get(holder).map_or_else(Held::default, |share| share.live)
    }

    /// Who holds a block now.
    pub(crate) fn now(&self) -> impl Iterator<Item = (usize, Held)> + '_ {
        self.0.iter().map(|share| share.live).enumerate().filter(|(_, held)| held.blocks > 0)
    }

    /// Who held a block at a moment, given how often it came; nobody, if it never did.
    pub(crate) fn at(&self, moment: usize, taken: u64) -> impl Iterator<Item = (usize, Held)> + '_ {
        let then = move |share: &Share<MOMENTS>| {
            if taken == 0 { Held::default() } else { share.saved[moment].of(taken, share.live) }
        };
        self.0.iter().map(then).enumerate().filter(|(_, held)| held.blocks > 0)
    }
}
