//! Path names, built without formatting machinery.
use core::ffi::CStr;

/// A C string in a fixed buffer. Zeroed memory is an empty one. One that holds any path is never on a stack: threads may
/// have 16 KiB of it.
pub(crate) struct Path<const CAPACITY: usize = ANY_PATH> {
    bytes: [u8; CAPACITY],
    length: usize,
    overflowed: bool,
}

const ANY_PATH: usize = 4096 + 256;

impl<const CAPACITY: usize> Path<CAPACITY> {
    pub(crate) const fn new() -> Path<CAPACITY> {
        Path { bytes: [0; CAPACITY], length: 0, overflowed: false }
    }

    /// Makes it what `other` is, without a copy in between.
    pub(crate) fn copy_from(&mut self, other: &Path<CAPACITY>) {
        self.bytes.copy_from_slice(&other.bytes);
        (self.length, self.overflowed) = (other.length, other.overflowed);
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// Whether all fitted that was appended.
    pub(crate) fn is_whole(&self) -> bool {
        !self.overflowed
    }

    /// Makes it a new one.
    pub(crate) fn clear(&mut self) {
        self.truncate(0);
        self.overflowed = false;
    }

    /// Takes back what was appended since the path had this length.
    pub(crate) fn truncate(&mut self, length: usize) {
        for byte in self.bytes.iter_mut().skip(length).take(self.length.saturating_sub(length)) {
            *byte = 0;
        }
        self.length = self.length.min(length);
    }

    /// Appends. A path that does not fit stays empty whatever is appended, and opening an empty path fails cleanly.
    pub(crate) fn push(&mut self, part: &[u8]) -> &mut Self {
        let end = self.length + part.len();
        match self.bytes.get_mut(self.length..end) {
            Some(room) if end < CAPACITY => {
                room.copy_from_slice(part);
                self.length = end;
            }
            _ => self.overflowed = true,
        }
        self
    }

    pub(crate) fn push_number(&mut self, number: u64, width: usize) -> &mut Self {
        let mut digits = [b'0'; 20];
        let mut rest = number;
        let mut used = 0;
        for digit in digits.iter_mut().rev() {
            if rest == 0 && used >= width.max(1) {
                break;
            }
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
            used += 1;
        }
        let start = digits.len() - used;
        self.push(digits.get(start..).unwrap_or_default())
    }

    /// Appends `YYYYmmddHHMMSS` of seconds since the epoch, already shifted to local time.
    pub(crate) fn push_timestamp(&mut self, local_seconds: i64) -> &mut Self {
        let (days, second) = (local_seconds.div_euclid(86_400), local_seconds.rem_euclid(86_400));
        let (year, month, day) = civil(days);
        self.push_number(year, 4).push_number(month, 2).push_number(day, 2);
        let second = second as u64;
        self.push_number(second / 3600, 2).push_number(second / 60 % 60, 2).push_number(second % 60, 2)
    }

    pub(crate) fn as_c_str(&self) -> &CStr {
        if self.overflowed {
            return c"";
        }
        self.bytes.get(..=self.length).and_then(|bytes| CStr::from_bytes_with_nul(bytes).ok()).unwrap_or(c"")
    }
}

/// Year, month and day of a day number since 1970-01-01, in the proleptic Gregorian calendar.
///
/// Counts in 400-year eras that begin on March 1, so that the leap day is the last of its year.
fn civil(days: i64) -> (u64, u64, u64) {
    const DAYS_PER_ERA: i64 = 146_097;
    const MARCH_FIRST_YEAR_0: i64 = 719_468;
    let shifted = days + MARCH_FIRST_YEAR_0;
    let era = shifted.div_euclid(DAYS_PER_ERA);
    let day_of_era = shifted.rem_euclid(DAYS_PER_ERA);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year.max(0) as u64, month as u64, day as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_calendar_dates() {
        for (seconds, expected) in [
            (0, "/19700101000000"),
            (951_782_399, "/20000228235959"),
            (951_782_400, "/20000229000000"),
            (1_709_251_199, "/20240229235959"),
            (4_102_444_800, "/21000101000000"),
        ] {
            let mut path = Path::<64>::new();
            path.push(b"/").push_timestamp(seconds);
            assert_eq!(path.as_c_str().to_str().unwrap(), expected);
        }
    }

    #[test]
    fn a_path_that_does_not_fit_stays_empty() {
        let mut path = Path::<ANY_PATH>::new();
        path.push(b"/").push(&[b'a'; 4400]).push(b"/b");
        assert_eq!(path.as_c_str(), c"");
    }
}
