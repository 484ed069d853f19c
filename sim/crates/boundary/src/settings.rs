//! The simulator's environment variables. `sim/README.md` lists them for users.

use std::env;
use std::sync::OnceLock;

/// Devices of the simulated machine.
pub static DEVICE_COUNT: Number = Number::new("SIM_DEVICES", 8);
/// Memory of one device.
pub static HBM_BYTES: Number = Number::new("SIM_HBM_BYTES", 64 << 30);
/// Memory of every device that counts as taken by others.
pub static HBM_OTHER_BYTES: Number = Number::new("SIM_HBM_OTHER_BYTES", 0);
/// Duration of a kernel in the task log.
pub static KERNEL_NS: Number = Number::new("SIM_KERNEL_NS", 1000);
/// Workspace that operators with a known signature ask for.
pub static WORKSPACE_BYTES: Number = Number::new("SIM_WORKSPACE_BYTES", 0);
/// Device memory a communicator takes.
pub static HCCL_BUFFER_BYTES: Number = Number::new("SIM_HCCL_BUFFER_BYTES", 0);
/// Whether stream ids are reported in their expanded form.
pub static STREAM_EXPAND: Number = Number::new("SIM_STREAM_EXPAND", 0);
/// Whether task tracks are reported only after a profiling start command.
pub static PROFILING_NEEDS_COMMAND: Number = Number::new("SIM_PROFILING_NEEDS_COMMAND", 0);
/// Whether another profiler holds the callbacks, so that registering fails.
pub static PROFILING_TAKEN: Number = Number::new("SIM_PROFILING_TAKEN", 0);

/// Whether device and pinned memory can be touched. Without it an allocation is two table entries and no system call.
pub static MAP_MEMORY: Number = Number::new("SIM_MAP_MEMORY", 1);
/// Whether tasks run only when somebody waits for their stream.
pub static DEFERRED: Number = Number::new("SIM_DEFERRED", 0);
/// Whether every task is written to standard error.
pub static TRACE: Number = Number::new("SIM_TRACE", 0);

/// A variable holding a number, with K, M or G (powers of 1024) behind it if wanted.
pub struct Number {
    variable: &'static str,
    default: u64,
    value: OnceLock<u64>,
}

impl Number {
    const fn new(variable: &'static str, default: u64) -> Self {
        Self { variable, default, value: OnceLock::new() }
    }

    /// The value in force, read once.
    pub fn get(&self) -> u64 {
        *self.value.get_or_init(|| number(self.variable).unwrap_or(self.default))
    }
}

/// The name of the simulated chip.
pub fn soc_name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| env::var("SIM_SOC_NAME").unwrap_or_else(|_| "Ascend910B2".to_owned()))
}

/// The number in an environment variable; `None` if it is unset. A value that is no number is reported and ignored.
pub fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    let parsed = parse(&text);
    if parsed.is_none() {
        eprintln!("sim: {variable}={text} is not a number of the form 123, 64M or 2G; ignored");
    }
    parsed
}

fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, shift) = match text.chars().last()? {
        'K' | 'k' => (&text[..text.len() - 1], 10),
        'M' | 'm' => (&text[..text.len() - 1], 20),
        'G' | 'g' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_shl(shift)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn sizes_may_carry_a_binary_unit() {
        assert_eq!(parse("60000000"), Some(60_000_000));
        assert_eq!(parse("64M"), Some(64 << 20));
        assert_eq!(parse(" 2g "), Some(2 << 30));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        assert_eq!(parse(""), None);
        assert_eq!(parse("G"), None);
        assert_eq!(parse("-1"), None);
        assert_eq!(parse("1T"), None);
    }
}
