//! The gate between keeper and worker. The worker shuts it while it finds out whether a file is in
//! use, and the keeper neither reads questions nor sets marks meanwhile.
//!
//! To find it out, the worker takes a lease on the file for a moment. The kernel asks before a
//! program opens the file, and cannot open a leased file for the question: if the keeper read the
//! question during the lease, the kernel would refuse the program.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use sys::lock::{Mutex, MutexGuard};

/// The file whose lock is the gate, in the node's folder.
const FILE: &str = "hsm.gate";
/// Number of attempts to pass the gate, and the pause after each. A worker shuts the gate for a few
/// microseconds, unless it is stopped in them.
const TRIES: u32 = 1000;
const TRY_PAUSE: Duration = Duration::from_micros(100);

/// One process's end of the gate.
pub(crate) struct Gate {
    /// The lock belongs to the open file, which the threads of a process share.
    file: Mutex<File>,
}

/// The gate, while this process keeps it shut or open.
pub(crate) struct GateHold<'a>(MutexGuard<'a, File>);

impl Gate {
    /// `home` is the node's folder.
    pub(crate) fn open(home: &Path) -> io::Result<Self> {
        let mut options = File::options();
        // Another user who could open the file could shut the gate.
        let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
        Ok(Self { file: Mutex::new(options.open(home.join(FILE))?) })
    }

    /// Shuts the gate until the result is dropped. Waits for those who pass it.
    pub(crate) fn shut(&self) -> io::Result<GateHold<'_>> {
        let file = self.file.lock();
        loop {
            match rustix::fs::flock(&*file, FlockOperation::LockExclusive) {
                Ok(()) => return Ok(GateHold(file)),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits until the gate is open, and keeps it open until the result is dropped; `None` if it
    /// stays shut.
    pub(crate) fn pass(&self) -> Option<GateHold<'_>> {
        let file = self.file.lock();
        for _ in 0..TRIES {
            if rustix::fs::flock(&*file, FlockOperation::NonBlockingLockShared).is_ok() {
                return Some(GateHold(file));
            }
            sys::clock::sleep(TRY_PAUSE);
        }
        None
    }
}

impl Drop for GateHold<'_> {
    fn drop(&mut self) {
        let unlocked = rustix::fs::flock(&*self.0, FlockOperation::Unlock);
        debug_assert!(unlocked.is_ok(), "the lock of an open file can be released");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_passes_a_gate_that_is_shut() {
        let folder = tempfile::tempdir().expect("a folder");
        let [worker, keeper, other] = [(); 3].map(|()| Gate::open(folder.path()).expect("opened"));
        let shut = worker.shut().expect("shut");
        assert!(keeper.pass().is_none());
        drop(shut);
        let passing = keeper.pass();
        assert!(passing.is_some());
        assert!(other.pass().is_some(), "several keepers pass at once");
        drop(passing);
        drop(worker.shut().expect("shut"));
    }
}
