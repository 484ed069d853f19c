//! Who a block belongs to, as far as its pool tells: the `owner` of the attributes, levels joined by `@`.
use crate::{Origin, Pool};
use rustc_hash::FxHashMap;

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

/// Pools that own what they hand out.
const POOLS: [&str; 4] = ["PTA", "PTA_WORKSPACE", "ATB", "MINDSPORE"];

/// Whose a block is; its words are in [`Owners`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct OwnerId(pub u32);

impl OwnerId {
    pub const NONE: OwnerId = OwnerId(0);

    /// As far as the pool and the call tell; host memory has no owner.
    pub(crate) fn of(pool: Pool, origin: Origin) -> OwnerId {
        let number = match (pool, origin) {
            (Pool::Hal, Origin::Driver(traits) | Origin::DriverHandle(traits)) => {
                usize::from(traits.module).min(MODULES.len())
            }
            (Pool::PtaCaching, _) => FIRST_POOL,
            (Pool::PtaWorkspace, _) => FIRST_POOL + 1,
            (Pool::Atb, _) => FIRST_POOL + 2,
            (Pool::MindSpore, _) => FIRST_POOL + 3,
            _ => return OwnerId::NONE,
        };
        OwnerId(number as u32 + 1)
    }

    /// The number of the CANN module this is, if it is one.
    pub fn module(self) -> Option<u8> {
        let number = self.0.checked_sub(1)?;
        u8::try_from(number).ok().filter(|number| usize::from(*number) <= MODULES.len())
    }
}

/// Behind the modules and the unknown one.
const FIRST_POOL: usize = MODULES.len() + 1;

/// The words of all owners: those every trace knows, and those this one brought.
#[derive(Clone, Debug)]
pub struct Owners {
    /// Owner `n` is at `n - 1`.
    names: Vec<String>,
    ids: FxHashMap<String, OwnerId>,
}

impl Default for Owners {
    fn default() -> Owners {
        let known = MODULES.iter().chain([&UNKNOWN_MODULE]).chain(&POOLS);
        let names: Vec<String> = known.map(|name| (*name).to_owned()).collect();
        let ids = names.iter().zip(1..).map(|(name, number)| (name.clone(), OwnerId(number))).collect();
        Owners { names, ids }
    }
}

impl Owners {
    /// Levels joined by `@`; `None` of memory that belongs to nobody.
    pub fn name(&self, owner: OwnerId) -> Option<&str> {
        self.names.get((owner.0 as usize).checked_sub(1)?).map(String::as_str)
    }

    /// The owner of these words, if there is one.
    pub fn find(&self, name: &str) -> Option<OwnerId> {
        self.ids.get(name).copied()
    }

    /// The owner of these words.
    pub fn intern(&mut self, name: &str) -> OwnerId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        self.names.push(name.to_owned());
        let id = OwnerId(self.names.len() as u32);
        self.ids.insert(name.to_owned(), id);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DriverTraits, PageSize};

    fn name(pool: Pool, origin: Origin) -> Option<String> {
        Owners::default().name(OwnerId::of(pool, origin)).map(str::to_owned)
    }

    #[test]
    fn driver_memory_belongs_to_the_module_that_asked() {
        let of = |module: u8| {
            name(Pool::Hal, Origin::Driver(DriverTraits { module, page: PageSize::Normal })).expect("an owner")
        };
        assert_eq!(of(0), "CANN@SLOG");
        assert_eq!((of(3).as_str(), of(7).as_str(), of(48).as_str()), ("CANN@HCCL", "CANN@RUNTIME", "CANN@ASCENDCL"));
        assert_eq!(
            (of(75).as_str(), of(76).as_str(), of(255).as_str()),
            ("CANN@INVLID_MOUDLE_ID", UNKNOWN_MODULE, UNKNOWN_MODULE)
        );
        assert_eq!(name(Pool::Pinned, Origin::Registered), None);
    }

    #[test]
    fn a_pool_owns_what_it_hands_out() {
        let pools = [Pool::PtaCaching, Pool::PtaWorkspace, Pool::Atb, Pool::MindSpore];
        let names = pools.map(|pool| name(pool, Origin::Region).expect("an owner"));
        assert_eq!(names, ["PTA", "PTA_WORKSPACE", "ATB", "MINDSPORE"]);
    }

    #[test]
    fn the_same_words_are_the_same_owner() {
        let mut owners = Owners::default();
        let mine = owners.intern("PTA@model@weight");
        assert_eq!(owners.intern("PTA@model@weight"), mine);
        assert_eq!(owners.name(mine), Some("PTA@model@weight"));
        assert_eq!(owners.intern("PTA"), OwnerId::of(Pool::PtaCaching, Origin::Region));
    }
}
