//! Which torch this is, without asking Python: what its libraries export, and one number one of them returns.
use core::ffi::CStr;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Version {
    pub major: u8,
    pub minor: u8,
}

/// The two forms of `std::string` that libstdc++ has had. Which one a torch was built with does not follow from its version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StringForm {
    /// One word, the address of the characters.
    Old,
    /// Four words, of which the first is it.
    Cxx11,
}

/// Exported by `libtorch_cpu.so` since 2.7: `uint64_t aoti_torch_abi_version()`.
pub const VERSION_FUNCTION: &CStr = c"aoti_torch_abi_version";
/// Exported by it since 2.4.
pub const SINCE_2_4: &CStr = c"aoti_torch_check_inf_and_nan";
/// The constructor of `c10::Error` in `libc10.so`, with a string of either form.
pub const OLD_STRING_FUNCTION: &CStr = c"_ZN3c105ErrorC1ENS_14SourceLocationESs";
pub const CXX11_STRING_FUNCTION: &CStr =
    c"_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";

impl Version {
    /// From what [`VERSION_FUNCTION`] returns: one byte each for major, minor and patch, from the top.
    pub fn from_number(number: u64) -> Version {
        let [major, minor, ..] = number.to_be_bytes();
        Version { major, minor }
    }

    /// Of one that has no such function. Up to 2.6 nothing we read has moved since 2.4; one before 2.3 is taken for it, and
    /// the check decides.
    pub fn without_number(has_function_since_2_4: bool) -> Version {
        Version { major: 2, minor: if has_function_since_2_4 { 4 } else { 3 } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_has_a_byte_for_each_part() {
        assert_eq!(Version::from_number(0x0207_0100_0000_0000), Version { major: 2, minor: 7 });
        assert_eq!(Version::from_number(0x020f_0000_0000_0000), Version { major: 2, minor: 15 });
    }
}
