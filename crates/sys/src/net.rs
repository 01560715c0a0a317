//! Sockets in folders whose paths may be longer than a socket address holds (108 bytes): both ends
//! name the folder by an open descriptor.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

fn short(folder: &File, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd()))
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
