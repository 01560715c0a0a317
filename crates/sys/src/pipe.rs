//! Waiting for the output of another process.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Waits for at most `within` until `source` can be read or has ended. Returns false if neither has
/// happened.
pub fn is_readable(source: &impl AsFd, within: Duration) -> io::Result<bool> {
    let mut fds = [PollFd::new(source, PollFlags::IN)];
    let within = Timespec::try_from(within).map_err(io::Error::other)?;
    match poll(&mut fds, Some(&within)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn bytes_and_the_end_are_readable() {
        let (reader, mut writer) = io::pipe().unwrap();
        let soon = Duration::from_millis(1);
        assert!(!is_readable(&reader, soon).unwrap());
        writer.write_all(b"x").unwrap();
        assert!(is_readable(&reader, soon).unwrap());
        let (reader, writer) = io::pipe().unwrap();
        drop(writer);
        assert!(is_readable(&reader, soon).unwrap());
    }
}
