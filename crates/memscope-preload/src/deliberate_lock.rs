//! What must never be: a lock that every event takes. Only in a build with the feature `deliberate-lock`, which
//! `scripts/check-locks` must find out; otherwise nothing at all.

#[cfg(feature = "deliberate-lock")]
mod lock {
    use core::sync::atomic::AtomicBool;
    use core::sync::atomic::Ordering::{Acquire, Release};
    use memscope_recorder::sys;

    static TAKEN: AtomicBool = AtomicBool::new(false);

    pub(crate) struct Held;

    pub(crate) fn hold() -> Held {
        while TAKEN.swap(true, Acquire) {
            sys::yield_now();
        }
        Held
    }

    impl Drop for Held {
        fn drop(&mut self) {
            TAKEN.store(false, Release);
        }
    }
}

#[cfg(not(feature = "deliberate-lock"))]
mod lock {
    pub(crate) struct Held;

    #[inline(always)]
    pub(crate) fn hold() -> Held {
        Held
    }
}

pub(crate) use lock::hold;
