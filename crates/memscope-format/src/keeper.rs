//! What a process says to the command that started the run, where it cannot make its own files.
//!
//! One packet each way over a sequenced-packet socket with an abstract name ([`socket_name`]): a [`Request`] of at most
//! [`LONGEST_REQUEST`] bytes, and a [`Reply`] of [`REPLY_SIZE`] bytes that brings the descriptors of `windows.spool` and
//! `events.spool` if its error is 0. Before it there may be any number of replies [`IN_PROGRESS`]. All integers little-endian.

const REQUEST_SIZE: usize = 24;
/// With the name of a program behind it.
pub const LONGEST_REQUEST: usize = 512;
pub const REPLY_SIZE: usize = 8;
/// Descriptors with a reply: `windows.spool` for reading and writing, `events.spool` for appending.
pub const DESCRIPTORS: usize = 2;

/// The error of a reply that says no more than that the keeper is alive and at it.
pub const IN_PROGRESS: i32 = 115;

const REQUEST_MAGIC: u32 = u32::from_le_bytes(*b"msmq");
const REPLY_MAGIC: u32 = u32::from_le_bytes(*b"msma");

const NAME_START: &[u8] = b"msmemscope-";
pub const NAME_LENGTH: usize = NAME_START.len() + 8;

/// The socket's abstract name, without the zero byte that makes it one. Names of sockets can be listed by everybody, so
/// it has half of the run id; a request has to know the whole.
pub fn socket_name(run_id: u64) -> [u8; NAME_LENGTH] {
    let mut name = [0; NAME_LENGTH];
    let digits = (0..8).rev().map(|place| b"0123456789abcdef"[(run_id >> (4 * place)) as usize & 15]);
    for (to, from) in name.iter_mut().zip(NAME_START.iter().copied().chain(digits)) {
        *to = from;
    }
    name
}

/// What a process wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// Files to record into; it could not make them itself.
    Files,
    /// To be named as not recorded.
    NotRecorded(Reason),
}

/// Why a process is not recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Reason {
    /// Its directory or files could not be made.
    NoFiles = 1,
    /// There were files, and no space in them or no memory for them.
    NoSpace = 2,
    /// The kernel cannot keep a forked child out of its parent's recording (before 4.14).
    OldKernel = 3,
    /// The program it becomes has 32 bits, and is begun without our libraries.
    Bits32 = 4,
    /// The same where whoever it is cannot read our libraries.
    Unreachable = 5,
    /// The same where a seccomp filter of the process, which the program inherits, would end it for what a recording needs.
    Filter = 6,
}

impl Reason {
    fn from_code(code: u32) -> Option<Reason> {
        use Reason::{Bits32, Filter, NoFiles, NoSpace, OldKernel, Unreachable};
        [NoFiles, NoSpace, OldKernel, Bits32, Unreachable, Filter].into_iter().find(|reason| *reason as u32 == code)
    }
}

/// Magic, wish (0 files, else the reason), run id, errno, 0, and the name of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request<'a> {
    pub wish: Wish,
    pub run_id: u64,
    /// The error the process had itself.
    pub errno: i32,
    /// The program that it becomes, if that is what is not recorded; of a long name the beginning.
    pub program: &'a [u8],
}

impl<'a> Request<'a> {
    /// The packet, and how long it is.
    pub fn encode(self) -> ([u8; LONGEST_REQUEST], usize) {
        let wish = match self.wish {
            Wish::Files => 0,
            Wish::NotRecorded(reason) => reason as u32,
        };
        let mut packet = [0; LONGEST_REQUEST];
        let fields = [REQUEST_MAGIC, wish, self.run_id as u32, (self.run_id >> 32) as u32, self.errno as u32, 0];
        let words = fields.into_iter().flat_map(u32::to_le_bytes);
        for (to, from) in packet.iter_mut().zip(words.chain(self.program.iter().copied())) {
            *to = from;
        }
        (packet, (REQUEST_SIZE + self.program.len()).min(LONGEST_REQUEST))
    }

    pub fn decode(bytes: &'a [u8]) -> Option<Request<'a>> {
        let program = bytes.get(REQUEST_SIZE..).filter(|_| bytes.len() <= LONGEST_REQUEST)?;
        if word(bytes, 0)? != REQUEST_MAGIC {
            return None;
        }
        let wish = match word(bytes, 1)? {
            0 => Wish::Files,
            code => Wish::NotRecorded(Reason::from_code(code)?),
        };
        let run_id = u64::from(word(bytes, 2)?) | u64::from(word(bytes, 3)?) << 32;
        Some(Request { wish, run_id, errno: word(bytes, 4)? as i32, program })
    }
}

/// Magic, errno.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// 0: granted.
    pub errno: i32,
}

impl Reply {
    pub fn encode(self) -> [u8; REPLY_SIZE] {
        let mut bytes = [0; REPLY_SIZE];
        let words = [REPLY_MAGIC, self.errno as u32].into_iter().flat_map(u32::to_le_bytes);
        for (to, from) in bytes.iter_mut().zip(words) {
            *to = from;
        }
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Option<Reply> {
        (bytes.len() == REPLY_SIZE && word(bytes, 0)? == REPLY_MAGIC)
            .then(|| word(bytes, 1).map(|errno| Reply { errno: errno as i32 }))?
    }
}

fn word(bytes: &[u8], index: usize) -> Option<u32> {
    bytes.get(index * 4..)?.first_chunk().copied().map(u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_as_they_were_sent() {
        let reasons = [Reason::NoSpace, Reason::OldKernel, Reason::Bits32, Reason::Unreachable, Reason::Filter];
        for wish in [Wish::Files].into_iter().chain(reasons.map(Wish::NotRecorded)) {
            for program in [b"".as_slice(), b"/bin/ls"] {
                let request = Request { wish, run_id: 0xfedc_ba98_7654_3210, errno: 13, program };
                let (packet, length) = request.encode();
                assert_eq!(Request::decode(&packet[..length]), Some(request));
                assert_eq!(Request::decode(&packet[1..length]), None);
            }
        }
        let long = Request { wish: Wish::Files, run_id: 1, errno: 0, program: &[b'x'; 2 * LONGEST_REQUEST] };
        let (packet, length) = long.encode();
        assert_eq!(length, LONGEST_REQUEST);
        assert!(Request::decode(&packet).is_some_and(|request| long.program.starts_with(request.program)));
        assert_eq!(Request::decode(&[&packet[..], b"x"].concat()), None);
        let reply = Reply { errno: 28 };
        assert_eq!(Reply::decode(&reply.encode()), Some(reply));
        assert_eq!(Reply::decode(&[0; REPLY_SIZE]), None);
        assert_eq!(Request::decode(&[0; REQUEST_SIZE]), None);
    }

    #[test]
    fn the_name_tells_half_of_the_run_id() {
        assert_eq!(&socket_name(0xfedc_ba98_7654_3210), b"msmemscope-76543210");
    }
}
