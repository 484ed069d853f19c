//! What makes memory one thing to the user.
use crate::views::merged::Naming;
use crate::views::names::FrameId;
use crate::views::profile::site_of;
use memscope_model::{Device, OwnerId, Pool, StackId};

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct SiteKey {
    pub(super) device: Device,
    pub(super) pool: Pool,
    /// The line and its callers, innermost first.
    pub(super) frames: Vec<FrameId>,
    /// Where there is no stack.
    pub(super) owner: OwnerId,
}

impl SiteKey {
    /// With what was called to get the memory, and whether the line is the user's own.
    pub(super) fn of(
        (device, pool): (Device, Pool),
        stack: StackId,
        owner: OwnerId,
        naming: &mut Naming<'_>,
    ) -> (SiteKey, Option<FrameId>, bool) {
        let (frames, via, foreign) = site_of(&naming.merged(stack), &naming.names);
        let owner = if frames.is_empty() { owner } else { OwnerId::NONE };
        (SiteKey { device, pool, frames, owner }, via, !foreign)
    }
}
