//! Results of runtime calls. The acl interface hands the same numbers on.

pub(crate) type Status = i32;

pub(crate) const OK: Status = 0;
pub(crate) const INVALID_PARAMETER: Status = 107_000;
pub(crate) const INVALID_DEVICE: Status = 107_001;
pub(crate) const NO_CONTEXT: Status = 107_002;
pub(crate) const STREAM_CAPTURED: Status = 107_027;
pub(crate) const NOT_CAPTURED: Status = 107_029;
pub(crate) const CAPTURE_FORBIDS: Status = 107_030;
pub(crate) const OUT_OF_MEMORY: Status = 207_001;
pub(crate) const NOT_SUPPORTED: Status = 207_000;
pub(crate) const AICORE_EXCEPTION: Status = 507_015;
pub(crate) const DRIVER_ERROR: Status = 507_899;
pub(crate) const CAPTURE_INVALIDATED: Status = 507_903;

/// What a driver's result is at this level.
pub(crate) fn of_driver(result: i32) -> Status {
    match result {
        0 => OK,
        1 => INVALID_DEVICE,
        3 => INVALID_PARAMETER,
        6 => OUT_OF_MEMORY,
        0xfffe => NOT_SUPPORTED,
        _ => DRIVER_ERROR,
    }
}

/// `OK`, or that the caller passed null for a result.
pub(crate) fn written(set: bool) -> Status {
    if set { OK } else { INVALID_PARAMETER }
}
