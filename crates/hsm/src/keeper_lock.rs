//! The lock of the keeper: only one process at a time keeps the questions.
//!
//! The file `hsm.lock` in the node's folder is locked by the working keeper. It names the keeper
//! that locked it last. An earlier keeper may still run, to refuse programs that use stubs.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

const FILE: &str = "hsm.lock";
/// Number of attempts to take the lock while a dying keeper still holds it.
const TRIES: u32 = 50;
const TRY_PAUSE: Duration = Duration::from_millis(100);

/// A running keeper.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KeeperProcess {
    pid: u32,
    /// Words of the keeper's command line, separated by NUL.
    command_line: String,
}

impl KeeperProcess {
    /// The keeper that `signature` names, if it is another process and still runs. The kernel
    /// reuses process numbers, so the process with that number may be another program.
    fn of_signature(signature: &str) -> Option<Self> {
        let (pid, began) = signature.split_once(' ')?;
        let pid = pid.parse::<u32>().ok().filter(|pid| *pid != std::process::id())?;
        if began.parse().ok() != sys::process::began(pid) {
            return None;
        }
        let command_line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
        let is_keeper = command_line.contains("\0hsm\0") && command_line.contains("\0run\0");
        is_keeper.then_some(Self { pid, command_line })
    }

    /// True if the keeper has taken the place of a dead keeper. Then neither the service manager
    /// nor the user who started the dead keeper knows it.
    pub(crate) fn has_taken_over(&self) -> bool {
        self.command_line.contains("\0--adopt\0")
    }
}

/// True if a keeper of the node with the folder `home` runs.
pub fn is_running(home: &Path) -> bool {
    KeeperLock::last_keeper(home).is_some()
}

/// The lock, while this process holds it.
pub(crate) struct KeeperLock {
    file: File,
}

impl KeeperLock {
    /// Takes the lock; `None` while another process holds it.
    pub(crate) fn try_lock(home: &Path) -> io::Result<Option<Self>> {
        let mut options = File::options();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(Self::path(home))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self { file })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the lock. A keeper that has taken over from a dead keeper gives way: it is told to
    /// end. `None` while any other process holds the lock.
    pub(crate) fn lock_or_replace(home: &Path) -> io::Result<Option<Self>> {
        if let Some(lock) = Self::try_lock(home)? {
            return Ok(Some(lock));
        }
        match Self::last_keeper(home).filter(KeeperProcess::has_taken_over) {
            Some(keeper) => {
                sys::process::terminate(keeper.pid)?;
                Self::lock_soon(home)
            }
            None => Ok(None),
        }
    }

    /// Takes the lock. Waits a moment for another process to release it; `None` if it does not.
    fn lock_soon(home: &Path) -> io::Result<Option<Self>> {
        for _ in 0..TRIES {
            if let Some(lock) = Self::try_lock(home)? {
                return Ok(Some(lock));
            }
            sys::clock::sleep(TRY_PAUSE);
        }
        Ok(None)
    }

    /// Takes the lock in place of a keeper that has died. If another process is the keeper by now,
    /// the result is that process.
    pub(crate) fn lock_after_death(home: &Path) -> io::Result<Result<Self, KeeperProcess>> {
        loop {
            if let Some(lock) = Self::try_lock(home)? {
                return Ok(Ok(lock));
            }
            if let Some(keeper) = Self::last_keeper(home) {
                return Ok(Err(keeper));
            }
            sys::clock::sleep(TRY_PAUSE);
        }
    }

    fn path(home: &Path) -> PathBuf {
        home.join(FILE)
    }

    /// The keeper that was the last to sign the lock, if it still runs.
    pub(crate) fn last_keeper(home: &Path) -> Option<KeeperProcess> {
        KeeperProcess::of_signature(&std::fs::read_to_string(Self::path(home)).ok()?)
    }

    /// Ends a keeper that still runs without the lock, and signs the lock after that keeper has
    /// ended: two processes must not read the same questions.
    pub(crate) fn take_over(&self, home: &Path) -> io::Result<()> {
        for _ in 0..TRIES {
            let Some(keeper) = Self::last_keeper(home) else { return self.sign() };
            // The other keeper may just have ended by itself.
            drop(sys::process::terminate(keeper.pid));
            sys::clock::sleep(TRY_PAUSE);
        }
        Err(io::Error::other("it does not end"))
    }

    /// Writes into the lock that this process is the keeper.
    pub(crate) fn sign(&self) -> io::Result<()> {
        let pid = std::process::id();
        let began = sys::process::began(pid).ok_or(io::ErrorKind::NotFound)?;
        self.file.set_len(0)?;
        self.file.write_all_at(format!("{pid} {began}").as_bytes(), 0)
    }

    /// Lets another process become the keeper.
    pub(crate) fn unlock(&self) {
        // The call fails only if the descriptor is no open file.
        let _unlocked = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_has_the_lock_at_a_time() {
        let home = tempfile::tempdir().expect("a folder");
        let lock = KeeperLock::try_lock(home.path()).expect("opened").expect("free");
        assert!(KeeperLock::try_lock(home.path()).expect("opened").is_none());
        assert!(KeeperLock::lock_or_replace(home.path()).expect("opened").is_none());
        lock.unlock();
        let second = KeeperLock::try_lock(home.path()).expect("opened").expect("free");
        drop(second);
        assert!(KeeperLock::lock_or_replace(home.path()).expect("opened").is_some());
    }

    #[test]
    fn a_keeper_signs_and_does_not_take_itself_for_another() {
        let home = tempfile::tempdir().expect("a folder");
        let lock = KeeperLock::try_lock(home.path()).expect("opened").expect("free");
        lock.take_over(home.path()).expect("nobody is in the way");
        let signature = std::fs::read_to_string(home.path().join(FILE)).expect("written");
        let began = sys::process::began(std::process::id()).expect("it runs");
        assert_eq!(signature, format!("{} {began}", std::process::id()));
        assert_eq!(KeeperLock::last_keeper(home.path()), None);
    }

    /// A process whose command line looks like that of a keeper.
    fn keeper_like(word: &str) -> std::process::Child {
        let mut command = std::process::Command::new("sh");
        // The process ends by itself if the test fails before it ends the process.
        let script = "for second in 1 2 3 4 5 6 7 8 9; do sleep 1; done";
        command.args(["-c", script, "sh", "hsm", "run", word, "end"]);
        let child = command.spawn().expect("a shell");
        // The kernel shows the words only some time after the program was started.
        let line = format!("/proc/{}/cmdline", child.id());
        while !std::fs::read_to_string(&line).expect("it runs").contains(word) {
            std::thread::yield_now();
        }
        child
    }

    #[test]
    fn a_keeper_that_has_taken_over_gives_way_and_others_do_not() {
        for (word, gives_way) in [("--adopt", true), ("--home", false)] {
            let home = tempfile::tempdir().expect("a folder");
            let mut child = keeper_like(word);
            let began = sys::process::began(child.id()).expect("it runs");
            let signature = format!("{} {began}", child.id());
            std::fs::write(home.path().join(FILE), signature).expect("written");
            // Another open file of this process stands for the file of the keeper.
            let of_keeper = KeeperLock::try_lock(home.path()).expect("opened").expect("free");
            let keeper = KeeperLock::last_keeper(home.path()).expect("it runs");
            assert_eq!((keeper.pid, keeper.has_taken_over()), (child.id(), gives_way));
            let found = KeeperLock::lock_after_death(home.path()).expect("opened");
            assert!(found.is_err_and(|other| other == keeper), "{word}");
            if gives_way {
                let path = home.path().to_owned();
                let replacing = std::thread::spawn(move || KeeperLock::lock_or_replace(&path));
                child.wait().expect("it was told to end");
                drop(of_keeper);
                let lock = replacing.join().expect("no panic").expect("opened");
                assert!(lock.is_some());
            } else {
                assert!(KeeperLock::lock_or_replace(home.path()).expect("opened").is_none());
                child.kill().expect("killed");
                child.wait().expect("dead");
            }
            assert_eq!(KeeperLock::last_keeper(home.path()), None, "it is dead");
        }
    }

    #[test]
    fn a_number_that_another_program_has_by_now_is_no_keeper() {
        let this = std::process::id();
        for signature in ["", "7", "7 x", "x 7", &format!("{this} 1"), "1 1"] {
            assert_eq!(KeeperProcess::of_signature(signature), None, "{signature}");
        }
        let began = sys::process::began(1).expect("the first process");
        assert_eq!(KeeperProcess::of_signature(&format!("1 {began}")), None, "it keeps nothing");
    }
}
