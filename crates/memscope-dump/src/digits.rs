//! Integers as text, straight into a byte buffer: a row holds about eight of them, and `core::fmt` would be the
//! largest part of its cost.

const PAIRS: &[u8; 200] = b"0001020304050607080910111213141516171819\
    2021222324252627282930313233343536373839\
    4041424344454647484950515253545556575859\
    6061626364656667686970717273747576777879\
    8081828384858687888990919293949596979899";

/// Decimal digits, no sign, no padding.
pub(crate) fn push_decimal(out: &mut Vec<u8>, mut value: u64) {
    // The longest u64 has 20 digits.
    let mut text = [0u8; 20];
    let mut start = text.len();
    while value >= 100 {
        let pair = (value % 100) as usize * 2;
        value /= 100;
        start -= 2;
        text[start..start + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    if value >= 10 {
        let pair = value as usize * 2;
        start -= 2;
        text[start..start + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    } else {
        start -= 1;
        text[start] = b'0' + value as u8;
    }
    out.extend_from_slice(&text[start..]);
}

/// `0x` and 16 lower-case hexadecimal digits: the one spelling of an address in every file.
pub(crate) fn address(value: u64) -> [u8; 18] {
    let mut text = *b"0x0000000000000000";
    for (at, digit) in text[2..].iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(value >> (60 - 4 * at) & 15) as usize];
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn digits_are_those_of_the_standard_formatter(value in prop_oneof![any::<u64>(), 0u64..2000], shift in 0..64) {
            for value in [value, value >> shift, u64::MAX, 0] {
                let mut out = Vec::new();
                push_decimal(&mut out, value);
                prop_assert_eq!(String::from_utf8(out).unwrap(), format!("{value}"));
                prop_assert_eq!(address(value).to_vec(), format!("{value:#018x}").into_bytes());
            }
        }
    }
}
