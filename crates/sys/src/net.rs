//! Sockets: the kernel's buffers of a connection, and sockets in folders.
//!
//! The paths of folders may be longer than a socket address holds (108 bytes): both ends name the
//! folder by an open descriptor.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use socket2::SockRef;

fn short(folder: &File, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd()))
}

/// Gives a connection buffers of `bytes` for each direction, in place of those that the kernel
/// fits to what the path can hold. The kernel takes twice as much, for its own books, and never
/// more than its administrator allows.
pub fn set_buffers(connection: &impl AsFd, bytes: u32) -> io::Result<()> {
    let socket = SockRef::from(connection);
    socket.set_send_buffer_size(bytes as usize)?;
    socket.set_recv_buffer_size(bytes as usize)?;
    Ok(())
}

/// Lets no more than `bytes` wait in the kernel behind what is under way: a writer is told to wait
/// instead, and knows that the network is the slower part.
pub fn limit_unsent(connection: &impl AsFd, bytes: u32) -> io::Result<()> {
    SockRef::from(connection).set_tcp_notsent_lowat(bytes)
}

/// Listens on the socket `name` in `folder`. Non-blocking, as an asynchronous runtime wants it.
pub fn bind_unix(folder: &Path, name: &str) -> io::Result<UnixListener> {
    let folder = File::open(folder)?;
    let listener = UnixListener::bind(short(&folder, name))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Connects to the socket `name` in `folder`. Non-blocking, as an asynchronous runtime wants it.
pub fn connect_unix(folder: &Path, name: &str) -> io::Result<UnixStream> {
    let folder = File::open(folder)?;
    let stream = UnixStream::connect(short(&folder, name))?;
    stream.set_nonblocking(true)?;
    Ok(stream)
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
        let got = SockRef::from(&connection).send_buffer_size().expect("tells");
        assert_eq!(got, 128 << 10);
        limit_unsent(&connection, 16 << 10).expect("TCP knows this");
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
    }
}
