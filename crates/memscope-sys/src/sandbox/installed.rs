//! How many filters the kernel says the process has.
use crate::calls;

/// The longest line that is looked for, and more.
const KEPT: usize = 64;
const PIECE: usize = 256;

/// The seccomp filters of the process's first thread; strict mode, and a kernel that does not count them (before 5.9), make
/// one. `None` where that cannot be read.
///
/// Reads a file: only for who has just opened others, because it is no rarer a call.
pub fn installed() -> Option<u32> {
    let file = calls::open(c"/proc/self/status", calls::O_RDONLY).ok()?;
    let mut count = Count::default();
    let mut buffer = [0; KEPT + PIECE];
    // The end of what was read before is kept in front, for a line that lies in two pieces.
    while let Some(read) =
        buffer.get_mut(KEPT..).and_then(|piece| calls::read(file, piece).ok()).filter(|read| *read > 0)
    {
        count.look(buffer.get(..KEPT + read).unwrap_or_default());
        for place in 0..KEPT {
            let later = buffer.get(read + place).copied().unwrap_or(0);
            if let Some(byte) = buffer.get_mut(place) {
                *byte = later;
            }
        }
    }
    calls::close(file);
    count.total()
}

/// What two lines of the file say.
#[derive(Default)]
struct Count {
    mode: Option<u32>,
    filters: Option<u32>,
}

impl Count {
    fn look(&mut self, text: &[u8]) {
        self.mode = self.mode.or_else(|| value(text, b"\nSeccomp:\t"));
        self.filters = self.filters.or_else(|| value(text, b"\nSeccomp_filters:\t"));
    }

    fn total(&self) -> Option<u32> {
        let at_least = u32::from(self.mode? != 0);
        Some(self.filters.unwrap_or(0).max(at_least))
    }
}

/// The number behind `name`, if its line is whole.
fn value(text: &[u8], name: &[u8]) -> Option<u32> {
    let begin = text.windows(name.len()).position(|window| window == name)? + name.len();
    let rest = text.get(begin..)?;
    let length = rest.iter().position(|byte| *byte == b'\n')?;
    rest.get(..length)?.iter().try_fold(0u32, |number, byte| {
        let digit = char::from(*byte).to_digit(10)?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pieces: &[&str]) -> Option<u32> {
        let mut count = Count::default();
        pieces.iter().for_each(|piece| count.look(piece.as_bytes()));
        count.total()
    }

    #[test]
    fn filters_are_counted_and_where_the_kernel_does_not_the_mode_counts() {
        assert_eq!(of(&["x:\t1\nSeccomp:\t2\nSeccomp_filters:\t3\nSpec"]), Some(3));
        assert_eq!(of(&["x:\t1\nSeccomp:\t2\nSpec"]), Some(1));
        assert_eq!(of(&["\nSeccomp:\t0\nSeccomp_filters:\t0\n"]), Some(0));
        assert_eq!(of(&["\nSeccomp:\t1\nSeccomp_filters:\t0\n"]), Some(1));
        assert_eq!(of(&["\nName:\ta\n"]), None);
        // The second piece begins with the end of the first.
        assert_eq!(of(&["x\nSeccomp:\t2\nSeccomp_filters:\t1", "\nSeccomp_filters:\t12\n"]), Some(12));
    }

    #[test]
    fn the_tests_own_process_has_what_its_status_says() {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("Seccomp_filters:"));
        if let Some(filters) = line.and_then(|filters| filters.trim().parse().ok()) {
            assert_eq!(installed(), Some(filters));
        }
    }
}
