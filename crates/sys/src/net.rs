//! Sockets: the kernel's buffers of a connection, and sockets in folders.
//!
//! The path of a folder may be longer than a socket address holds (108 bytes), so both ends name
//! the folder by an open descriptor.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sockopt,
};
use socket2::{Domain, SockAddr, SockRef, Socket, Type};

/// Number of probes of an idle connection.
const PROBES: u32 = 4;

fn short(folder: &File, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd()))
}

/// Returns the name of this machine.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Gives a connection buffers of `bytes` for each direction, instead of buffers that the kernel
/// adapts to the network. The kernel takes twice that size, for data of its own, and never more
/// than the administrator's limit.
pub fn set_buffers(connection: &impl AsFd, bytes: u32) -> io::Result<()> {
    let socket = SockRef::from(connection);
    socket.set_send_buffer_size(bytes as usize)?;
    socket.set_recv_buffer_size(bytes as usize)?;
    Ok(())
}

/// Sizes of the kernel's buffers of a connection, in bytes. About half of a buffer holds data of
/// the connection; the rest is for data of the kernel's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferSizes {
    pub send: u64,
    pub receive: u64,
}

/// Returns the buffers that a connection has now.
pub fn buffers(connection: &impl AsFd) -> io::Result<BufferSizes> {
    let socket = SockRef::from(connection);
    let (send, receive) = (socket.send_buffer_size()?, socket.recv_buffer_size()?);
    Ok(BufferSizes { send: send as u64, receive: receive as u64 })
}

/// Returns the buffers to which the kernel lets a connection over TCP grow.
pub fn buffers_max() -> io::Result<BufferSizes> {
    let max = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}"))?;
        // Minimum, default and maximum.
        let last = text.split_whitespace().nth(2).and_then(|last| last.parse().ok());
        last.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, name.to_owned()))
    };
    Ok(BufferSizes { send: max("tcp_wmem")?, receive: max("tcp_rmem")? })
}

/// Limits the bytes that wait in the kernel before they are sent to `bytes`. At the limit a writer
/// has to wait, and so notices that the network is the slower part.
pub fn limit_unsent(connection: &impl AsFd, bytes: u32) -> io::Result<()> {
    SockRef::from(connection).set_tcp_notsent_lowat(bytes)
}

/// Makes the kernel probe a connection that has been idle for `idle`. The connection breaks if
/// there is no answer for `patience`.
pub fn probe_when_idle(
    connection: &impl AsFd,
    idle: Duration,
    patience: Duration,
) -> io::Result<()> {
    sockopt::set_socket_keepalive(connection, true)?;
    sockopt::set_tcp_keepidle(connection, idle)?;
    sockopt::set_tcp_keepintvl(connection, patience / PROBES)?;
    sockopt::set_tcp_keepcnt(connection, PROBES)?;
    let sent_millis = u32::try_from((idle + patience).as_millis()).unwrap_or(u32::MAX);
    Ok(sockopt::set_tcp_user_timeout(connection, sent_millis)?)
}

/// Listens on the socket `name` in `folder`. The result is non-blocking, as an asynchronous runtime
/// needs it.
pub fn bind_unix(folder: &Path, name: &str) -> io::Result<UnixListener> {
    let folder = File::open(folder)?;
    let listener = UnixListener::bind(short(&folder, name))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Connects to the socket `name` in `folder`. The result is non-blocking, as an asynchronous
/// runtime needs it.
pub fn connect_unix(folder: &Path, name: &str) -> io::Result<UnixStream> {
    let folder = File::open(folder)?;
    let stream = UnixStream::connect(short(&folder, name))?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Connects to the socket at `path`, which may be of any length. A path that begins with NUL is a
/// name in the kernel's own list of sockets. Fails with `TimedOut` if the server accepts no
/// connection within `timeout`. The result is blocking.
pub fn connect_unix_within(path: &Path, timeout: Duration) -> io::Result<UnixStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_write_timeout(Some(timeout))?;
    let connected = if path.as_os_str().as_bytes().first() == Some(&0) {
        socket.connect(&SockAddr::unix(path)?)
    } else {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(folder.unwrap_or(Path::new(".")), flags, Mode::empty())?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
        socket.connect(&SockAddr::unix(path)?)
    };
    match connected {
        Ok(()) => Ok(socket.into()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(io::ErrorKind::TimedOut.into())
        }
        Err(error) => Err(error),
    }
}

/// Returns the process and the user at the other end of a connection within this machine.
pub fn peer(connection: &impl AsFd) -> io::Result<(u32, u32)> {
    let told = sockopt::socket_peercred(connection)?;
    Ok((told.pid.as_raw_pid().unsigned_abs(), told.uid.as_raw()))
}

/// Returns true if the other end of a connection is closed and everything that it sent has been
/// read.
pub fn is_closed(connection: &impl AsFd) -> bool {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    match rustix::net::recv(connection, &mut [0_u8; 1][..], flags) {
        Ok((_, bytes)) => bytes == 0,
        Err(error) => error != Errno::AGAIN,
    }
}

/// Makes the two ends of a connection within this machine. The connection keeps messages apart.
/// Another process gets its end by inheritance.
pub fn packet_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    Ok(rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None)?)
}

/// Sends a message, and with it a descriptor, if any. Unless `waits` is set, it fails with
/// `WouldBlock` while the other end has too many messages to read.
pub fn send_packet(
    socket: &impl AsFd,
    message: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
    waits: bool,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = descriptor.as_slice();
    if !descriptors.is_empty() {
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(descriptors)), "there is room");
    }
    let parts = [IoSlice::new(message)];
    let now = if waits { SendFlags::empty() } else { SendFlags::DONTWAIT };
    let sent = loop {
        let flags = SendFlags::NOSIGNAL | now;
        match rustix::net::sendmsg(socket, &parts, &mut ancillary, flags) {
            Err(Errno::INTR) => {}
            other => break other?,
        }
    };
    assert_eq!(sent, message.len(), "a message goes whole or not at all");
    Ok(())
}

/// Receives a message into `buffer`, and the descriptor that came with it; `None` once the other
/// end is closed. A message that is longer than the buffer is cut. Unless `waits` is set, it fails
/// with `WouldBlock` while there is no message.
pub fn receive_packet(
    socket: &impl AsFd,
    buffer: &mut [u8],
    waits: bool,
) -> io::Result<Option<(usize, Option<OwnedFd>)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(buffer)];
    let now = if waits { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
    let flags = RecvFlags::CMSG_CLOEXEC | now;
    let received = loop {
        match rustix::net::recvmsg(socket, &mut parts, &mut ancillary, flags) {
            Err(Errno::INTR) => {}
            Err(Errno::CONNRESET) => return Ok(None),
            other => break other?,
        }
    };
    let rights = |message| match message {
        RecvAncillaryMessage::ScmRights(rights) => Some(rights),
        _ => None,
    };
    let descriptor = ancillary.drain().filter_map(rights).flatten().next();
    Ok((received.bytes > 0).then_some((received.bytes, descriptor)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_as_large_as_asked_for() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("listens");
        let address = listener.local_addr().expect("an address");
        let connection = std::net::TcpStream::connect(address).expect("connects");
        set_buffers(&connection, 64 << 10).expect("allowed");
        let got = buffers(&connection).expect("tells");
        assert_eq!(got, BufferSizes { send: 128 << 10, receive: 128 << 10 });
        let max = buffers_max().expect("tells");
        assert!(max.send >= 4096 && max.receive >= 4096, "{max:?}");
        limit_unsent(&connection, 16 << 10).expect("TCP knows this");
        let (idle, patience) = (Duration::from_secs(40), Duration::from_secs(20));
        probe_when_idle(&connection, idle, patience).expect("TCP knows this");
        let between = sockopt::tcp_keepintvl(&connection).expect("tells");
        assert_eq!((between, sockopt::socket_keepalive(&connection)), (patience / 4, Ok(true)));
        let unix = UnixStream::pair().expect("a pair").0;
        assert!(limit_unsent(&unix, 16 << 10).is_err());
    }

    #[test]
    fn a_socket_in_a_deep_folder_is_reached() {
        let root = tempfile::tempdir().expect("a folder");
        let deep = root.path().join("d".repeat(100)).join("e".repeat(100));
        std::fs::create_dir_all(&deep).expect("folders");
        let missing = connect_unix(&deep, "s.sock").expect_err("nobody listens");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        let _listener = bind_unix(&deep, "s.sock").expect("listens");
        connect_unix(&deep, "s.sock").expect("connects");
        connect_unix_within(&deep.join("s.sock"), Duration::from_secs(9)).expect("connects");
    }

    #[test]
    fn a_server_that_accepts_nobody_is_given_up() {
        let root = tempfile::tempdir().expect("a folder");
        let path = root.path().join("s.sock");
        let missing = connect_unix_within(&path, Duration::from_secs(9)).expect_err("not there");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        let listener = Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
        listener
            .bind(&SockAddr::unix(&path).expect("a short path"))
            .expect("a free name");
        listener.listen(0).expect("listens");
        let connect = || connect_unix_within(&path, Duration::from_millis(50));
        let _first = connect().expect("it waits in the queue");
        assert_eq!(connect().expect_err("the queue is full").kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn packets_bring_descriptors_and_an_end() {
        use std::io::{Read as _, Seek as _, Write as _};
        let (one, other) = packet_pair().expect("a pair");
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"content").expect("written");
        file.rewind().expect("at the start");
        send_packet(&one, b"with", Some(file.as_fd()), true).expect("sent");
        send_packet(&one, b"without", None, false).expect("sent");
        drop(one);
        let mut buffer = [0; 16];
        let (bytes, descriptor) =
            receive_packet(&other, &mut buffer, true).expect("read").expect("one");
        assert_eq!(&buffer[..bytes], b"with");
        let mut content = String::new();
        File::from(descriptor.expect("came along"))
            .read_to_string(&mut content)
            .expect("read");
        assert_eq!(content, "content");
        let (bytes, none) = receive_packet(&other, &mut buffer, true).expect("read").expect("one");
        assert_eq!((&buffer[..bytes], none.is_none()), (&b"without"[..], true));
        assert!(receive_packet(&other, &mut buffer, true).expect("read").is_none());
    }
}
