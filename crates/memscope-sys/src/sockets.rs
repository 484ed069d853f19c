//! Local sockets, as far as asking another process for descriptors needs them.
use crate::{Errno, Fd, nr, result, syscall6};

const AF_UNIX: u16 = 1;
const SOL_SOCKET: usize = 1;

/// A new sequenced-packet socket, close-on-exec.
pub fn packet_socket() -> Result<Fd, Errno> {
    const SOCK_SEQPACKET: usize = 5;
    const SOCK_CLOEXEC: usize = 0o2000000;
    // SAFETY: no memory is involved.
    result(unsafe { syscall6(nr::SOCKET, [AF_UNIX as usize, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, 0, 0, 0]) })
        .map(|fd| Fd(fd as i32))
}

/// Lets connecting, sending and receiving fail after a time instead of waiting on.
pub fn limit_waits(socket: Fd, milliseconds: u64) -> Result<(), Errno> {
    const SO_RCVTIMEO: usize = 20;
    const SO_SNDTIMEO: usize = 21;
    let time = [milliseconds / 1000, milliseconds % 1000 * 1000];
    for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
        let value = time.as_ptr() as usize;
        // SAFETY: the kernel reads one `timeval` of two words.
        result(unsafe { syscall6(nr::SETSOCKOPT, [socket.0 as usize, SOL_SOCKET, option, value, 16, 0]) })?;
    }
    Ok(())
}

/// Connects to the socket of an abstract name (given without its leading zero byte).
pub fn connect_abstract(socket: Fd, name: &[u8]) -> Result<(), Errno> {
    #[repr(C)]
    struct Address {
        family: u16,
        path: [u8; 108],
    }
    const HEAD: usize = 3;
    let mut address = Address { family: AF_UNIX, path: [0; 108] };
    address.path.get_mut(1..=name.len()).ok_or(Errno::EINVAL)?.copy_from_slice(name);
    let place = &raw const address as usize;
    // SAFETY: the kernel reads the address, whose length covers family, zero byte and name.
    result(unsafe { syscall6(nr::CONNECT, [socket.0 as usize, place, HEAD + name.len(), 0, 0, 0]) }).map(drop)
}

/// The user who opened the other end.
pub fn peer_user(socket: Fd) -> Result<u32, Errno> {
    const SO_PEERCRED: usize = 17;
    // Process, user, group.
    let mut credentials = [0u32; 3];
    let mut length = size_of_val(&credentials) as u32;
    let (place, length) = (credentials.as_mut_ptr() as usize, &raw mut length as usize);
    // SAFETY: the kernel writes at most the twelve bytes that `length` says, and the length.
    result(unsafe { syscall6(nr::GETSOCKOPT, [socket.0 as usize, SOL_SOCKET, SO_PEERCRED, place, length, 0]) })?;
    Ok(credentials[1])
}

/// Sends one packet. A peer that is gone is an error, not a signal.
pub fn send(socket: Fd, packet: &[u8]) -> Result<(), Errno> {
    const MSG_NOSIGNAL: usize = 0x4000;
    // SAFETY: the kernel reads the packet.
    result(unsafe {
        syscall6(nr::SENDTO, [socket.0 as usize, packet.as_ptr() as usize, packet.len(), MSG_NOSIGNAL, 0, 0])
    })
    .map(drop)
}

/// Receives one packet and the descriptors that come with it, close-on-exec; more than there are places for are closed by
/// the kernel.
pub fn receive<const N: usize>(
    socket: Fd,
    packet: &mut [u8],
    descriptors: &mut [Option<Fd>; N],
) -> Result<usize, Errno> {
    const MSG_CMSG_CLOEXEC: usize = 0x4000_0000;
    const SCM_RIGHTS: i32 = 1;
    /// One message of at most two descriptors, which end on the boundary the kernel aligns to.
    #[repr(C)]
    struct Control {
        length: usize,
        level: i32,
        kind: i32,
        descriptors: [i32; 2],
    }
    #[repr(C)]
    struct Message {
        name: usize,
        name_length: usize,
        parts: usize,
        part_count: usize,
        control: usize,
        control_length: usize,
        flags: usize,
    }
    const HEAD: usize = 16;
    let mut control = Control { length: 0, level: 0, kind: 0, descriptors: [-1; 2] };
    let part = [packet.as_mut_ptr() as usize, packet.len()];
    let mut message = Message {
        name: 0,
        name_length: 0,
        parts: part.as_ptr() as usize,
        part_count: 1,
        control: &raw mut control as usize,
        control_length: size_of::<Control>(),
        flags: 0,
    };
    let place = &raw mut message as usize;
    // SAFETY: all that the message names is ours, lives through the call and is as long as it says.
    let length = result(unsafe { syscall6(nr::RECVMSG, [socket.0 as usize, place, MSG_CMSG_CLOEXEC, 0, 0, 0]) })?;
    if message.control_length >= HEAD && control.level == SOL_SOCKET as i32 && control.kind == SCM_RIGHTS {
        let count = control.length.saturating_sub(HEAD) / size_of::<i32>();
        for (place, descriptor) in descriptors.iter_mut().zip(control.descriptors.iter().take(count)) {
            *place = Some(Fd(*descriptor));
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock, clock_ns};

    #[test]
    fn a_name_nobody_listens_at_is_refused_at_once() {
        let socket = packet_socket().unwrap();
        limit_waits(socket, 1000).unwrap();
        assert_eq!(connect_abstract(socket, b"memscope-nobody-is-here"), Err(Errno(111)));
        assert_eq!(connect_abstract(socket, &[b'x'; 200]), Err(Errno::EINVAL));
        crate::close(socket);
    }

    #[test]
    fn a_peer_that_says_nothing_is_waited_for_no_longer_than_asked() {
        use std::os::fd::AsRawFd;
        let (ours, theirs) = std::os::unix::net::UnixDatagram::pair().unwrap();
        let socket = Fd(ours.as_raw_fd());
        limit_waits(socket, 20).unwrap();
        let began = clock_ns(Clock::Monotonic);
        let mut packet = [0; 8];
        assert_eq!(receive::<2>(socket, &mut packet, &mut [None; 2]), Err(Errno::EAGAIN));
        assert!(clock_ns(Clock::Monotonic) - began >= 20_000_000);
        theirs.send(b"answer").unwrap();
        assert_eq!(receive::<2>(socket, &mut packet, &mut [None; 2]), Ok(6));
        assert_eq!(&packet, b"answer\0\0");
        assert_eq!(send(socket, b"more"), Ok(()));
        assert_eq!(theirs.recv(&mut packet).unwrap(), 4);
    }
}
