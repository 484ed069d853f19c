//! Who a block belongs to, as far as its pool tells: the `owner` of the attributes, levels joined by `@`.
use memscope_model::{Origin, Pool};

macro_rules! of_cann {
    ($($module:literal),* $(,)?) => { [$(concat!("CANN@", $module)),*] };
}

/// By the number CANN's modules give to the driver; the last one's spelling is CANN's.
const MODULES: [&str; 76] = of_cann![
    "SLOG",
    "IDEDD",
    "IDEDH",
    "HCCL",
    "FMK",
    "HIAIENGINE",
    "DVPP",
    "RUNTIME",
    "CCE",
    "HDC",
    "DRV",
    "MDCFUSION",
    "MDCLOCATION",
    "MDCPERCEPTION",
    "MDCFSM",
    "MDCCOMMON",
    "MDCMONITOR",
    "MDCBSWP",
    "MDCDEFAULT",
    "MDCSC",
    "MDCPNC",
    "MLL",
    "DEVMM",
    "KERNEL",
    "LIBMEDIA",
    "CCECPU",
    "ASCENDDK",
    "ROS",
    "HCCP",
    "ROCE",
    "TEFUSION",
    "PROFILING",
    "DP",
    "APP",
    "TS",
    "TSDUMP",
    "AICPU",
    "LP",
    "TDT",
    "FE",
    "MD",
    "MB",
    "ME",
    "IMU",
    "IMP",
    "GE",
    "MDCFUSA",
    "CAMERA",
    "ASCENDCL",
    "TEEOS",
    "ISP",
    "SIS",
    "HSM",
    "DSS",
    "PROCMGR",
    "BBOX",
    "AIVECTOR",
    "TBE",
    "FV",
    "MDCMAP",
    "TUNE",
    "HSS",
    "FFTS",
    "OP",
    "UDF",
    "HICAID",
    "TSYNC",
    "AUDIO",
    "TPRT",
    "ASCENDCKERNEL",
    "ASYS",
    "ATRACE",
    "RTC",
    "SYSMONITOR",
    "AML",
    "INVLID_MOUDLE_ID",
];
const UNKNOWN_MODULE: &str = "CANN@UNKNOWN";

/// The owner of a block of device memory; host memory has none.
pub(crate) fn owner(pool: Pool, origin: Origin) -> Option<&'static str> {
    match (pool, origin) {
        (Pool::Hal, Origin::Driver(traits) | Origin::DriverHandle(traits)) => {
            Some(MODULES.get(usize::from(traits.module)).copied().unwrap_or(UNKNOWN_MODULE))
        }
        (Pool::PtaCaching, _) => Some("PTA"),
        (Pool::PtaWorkspace, _) => Some("PTA_WORKSPACE"),
        (Pool::Atb, _) => Some("ATB"),
        (Pool::MindSpore, _) => Some("MINDSPORE"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memscope_model::{DriverTraits, PageSize};

    #[test]
    fn driver_memory_belongs_to_the_module_that_asked() {
        let of = |module: u8| owner(Pool::Hal, Origin::Driver(DriverTraits { module, page: PageSize::Normal }));
        assert_eq!(of(0), Some("CANN@SLOG"));
        assert_eq!((of(3), of(7), of(48)), (Some("CANN@HCCL"), Some("CANN@RUNTIME"), Some("CANN@ASCENDCL")));
        assert_eq!(
            (of(75), of(76), of(255)),
            (Some("CANN@INVLID_MOUDLE_ID"), Some(UNKNOWN_MODULE), Some(UNKNOWN_MODULE))
        );
        assert_eq!(owner(Pool::Pinned, Origin::Registered), None);
    }
}
