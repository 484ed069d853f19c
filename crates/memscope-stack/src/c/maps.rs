//! `/proc/self/maps`, read by raw calls: what is mapped where, without asking the loader and its locks.
use memscope_sys::Fd;

/// A stretch of the address space.
#[derive(Clone, Copy, Default)]
pub(super) struct Mapping {
    pub(super) start: usize,
    pub(super) end: usize,
    /// Where it begins in its file.
    pub(super) offset: usize,
    device: [usize; 2],
    /// 0 if it is of no file.
    inode: usize,
    pub(super) is_readable: bool,
}

impl Mapping {
    pub(super) fn contains(&self, address: usize) -> bool {
        address >= self.start && address < self.end
    }

    pub(super) fn is_of_a_file(&self) -> bool {
        self.inode != 0
    }

    pub(super) fn is_of_the_file_of(&self, other: &Mapping) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// The mappings of the process in order of address. Small, because the hooked thread may run on a small stack.
pub(super) struct Maps {
    file: Fd,
    buffer: [u8; 512],
    at: usize,
    length: usize,
}

impl Maps {
    pub(super) fn open() -> Option<Maps> {
        let file = memscope_sys::open(c"/proc/self/maps", memscope_sys::O_RDONLY).ok()?;
        Some(Maps { file, buffer: [0; 512], at: 0, length: 0 })
    }

    /// The next mapping. As much of its name as fits is put into `name`; the second number is its length.
    pub(super) fn next(&mut self, name: &mut [u8]) -> Option<(Mapping, usize)> {
        let start = self.number(16, b'-')?;
        let end = self.number(16, b' ')?;
        let is_readable = self.byte()? == b'r';
        while self.byte()? != b' ' {}
        let offset = self.number(16, b' ')?;
        let device = [self.number(16, b':')?, self.number(16, b' ')?];
        let mut inode = 0;
        let mut byte = self.byte()?;
        while byte.is_ascii_digit() {
            inode = inode * 10 + usize::from(byte - b'0');
            byte = self.byte()?;
        }
        while byte == b' ' {
            byte = self.byte()?;
        }
        let mut length = 0;
        while byte != b'\n' {
            if let Some(slot) = name.get_mut(length) {
                *slot = byte;
                length += 1;
            }
            byte = self.byte()?;
        }
        Some((Mapping { start, end, offset, device, inode, is_readable }, length))
    }

    fn number(&mut self, radix: u32, end: u8) -> Option<usize> {
        let mut number = 0usize;
        loop {
            let byte = self.byte()?;
            if byte == end {
                return Some(number);
            }
            let digit = char::from(byte).to_digit(radix)? as usize;
            number = number.wrapping_mul(radix as usize) + digit;
        }
    }

    fn byte(&mut self) -> Option<u8> {
        if self.at == self.length {
            self.length = memscope_sys::read(self.file, &mut self.buffer).ok().filter(|length| *length > 0)?;
            self.at = 0;
        }
        let byte = *self.buffer.get(self.at)?;
        self.at += 1;
        Some(byte)
    }
}

impl Drop for Maps {
    fn drop(&mut self) {
        memscope_sys::close(self.file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_those_of_the_process_in_order() {
        let code = mappings_are_those_of_the_process_in_order as *const () as usize;
        let exe = std::env::current_exe().unwrap();
        let mut maps = Maps::open().unwrap();
        let mut name = [0; 4096];
        let (mut count, mut last_end, mut found) = (0, 0, None);
        while let Some((mapping, length)) = maps.next(&mut name) {
            assert!(mapping.start >= last_end && mapping.end > mapping.start);
            last_end = mapping.end;
            count += 1;
            if mapping.contains(code) {
                assert!(mapping.is_readable && mapping.is_of_a_file());
                assert_eq!(&name[..length], exe.as_os_str().as_encoded_bytes());
                found = Some(mapping);
            }
        }
        assert!(count > 10 && found.is_some());
        let listed = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = listed.lines().find(|line| line.starts_with(&format!("{:x}-", found.unwrap().start))).unwrap();
        assert!(line.contains(&format!(" {:08x} ", found.unwrap().offset)), "{line}");
    }
}
