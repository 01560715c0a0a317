//! Which process keeps the questions: one at a time.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::run::failed;
use crate::error::CommandError;
use crate::output;

/// A keeper that has died lets go of its lock in a moment.
const LOCK_TRIES: u32 = 50;
pub(super) const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// The file by which a keeper knows that another one works, and which one was the last: that may
/// have stayed to refuse whoever uses stubs.
pub(super) struct Guard {
    file: File,
}

impl Guard {
    pub(super) fn lock(home: &Path) -> Result<Self, CommandError> {
        Self::try_lock(home)?.ok_or_else(|| CommandError::new("space management runs already"))
    }

    /// The same; `None` where another process holds it.
    fn try_lock(home: &Path) -> Result<Option<Self>, CommandError> {
        let what = format!("cannot lock {}", Self::path(home).display());
        let mut options = File::options();
        let opened = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(Self::path(home));
        let file = opened.map_err(failed(&what))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self { file })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(failed(&what)(error.into())),
        }
    }

    /// The same, where one holds it who has taken the place of a keeper that died, and of whom
    /// nobody who starts keepers knows: that one is told to end.
    pub(super) fn lock_instead(home: &Path) -> Result<Self, CommandError> {
        let refused = match Self::lock(home) {
            Ok(guard) => return Ok(guard),
            Err(refused) => refused,
        };
        match Self::last(home).filter(|(_, line)| line.contains("\0--adopt\0")) {
            Some((pid, _)) => {
                sys::process::terminate(pid).map_err(failed("cannot end what has run before"))?;
                locked_soon(home).ok_or(refused)
            }
            None => Err(refused),
        }
    }

    fn path(home: &Path) -> PathBuf {
        home.join("hsm.lock")
    }

    /// The keeper that was the last to lock it, if that is there still, and its command line.
    pub(super) fn last(home: &Path) -> Option<(u32, String)> {
        keeper(&std::fs::read_to_string(Self::path(home)).ok()?)
    }

    /// Ends the process that has only stayed, if one has, and stands in its place once it is gone:
    /// two must not read the same questions.
    pub(super) fn take_over(&self, home: &Path) -> io::Result<()> {
        for _ in 0..LOCK_TRIES {
            let Some((pid, _)) = Self::last(home) else { return self.sign() };
            // It may end just now.
            drop(sys::process::terminate(pid));
            sys::clock::sleep(LOCK_PAUSE);
        }
        Err(io::Error::other("it does not end"))
    }

    /// Says that this process is the keeper.
    pub(super) fn sign(&self) -> io::Result<()> {
        let pid = std::process::id();
        let began = sys::process::began(pid).ok_or(io::ErrorKind::NotFound)?;
        self.file.set_len(0)?;
        self.file.write_all_at(format!("{pid} {began}").as_bytes(), 0)
    }

    /// Lets another one take over.
    pub(super) fn unlock(&self) {
        let _unlocked = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

/// The keeper that `text` names and its command line, if that is another process and runs still.
/// The kernel gives numbers again: the one that has this number now may keep for another home.
fn keeper(text: &str) -> Option<(u32, String)> {
    let (pid, began) = text.split_once(' ')?;
    let pid = pid.parse::<u32>().ok().filter(|pid| *pid != std::process::id())?;
    if began.parse().ok() != sys::process::began(pid) {
        return None;
    }
    let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
    (line.contains("\0hsm\0") && line.contains("\0run\0")).then_some((pid, line))
}

/// The lock for who takes the place of a keeper that died; `None` where there is none to be had.
/// The error is the command line of another process that has said that it is the keeper.
pub(super) fn locked_in_place_of(home: &Path) -> Result<Option<Guard>, String> {
    loop {
        match Guard::try_lock(home) {
            Ok(Some(guard)) => return Ok(Some(guard)),
            Ok(None) => {}
            Err(error) => {
                output::say_error(&error);
                return Ok(None);
            }
        }
        if let Some((_, line)) = Guard::last(home) {
            return Err(line);
        }
        sys::clock::sleep(LOCK_PAUSE);
    }
}

/// Waits for who lets go of the lock in a moment.
fn locked_soon(home: &Path) -> Option<Guard> {
    (0..LOCK_TRIES).find_map(|_| match Guard::lock(home) {
        Ok(guard) => Some(guard),
        Err(_) => {
            sys::clock::sleep(LOCK_PAUSE);
            None
        }
    })
}
