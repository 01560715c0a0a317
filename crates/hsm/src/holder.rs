//! The holder: a third process, which holds the kernel's questions and does nothing else. While a
//! process holds the questions, the programs that use files wait. So no program reads zeros if
//! keeper and worker are killed together, because the holder then becomes the keeper.
//!
//! If a service manager holds the questions, no holder is started.

use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::process::Child;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sys::fanotify::Group;

/// Message to the holder of a keeper that ends in an orderly way.
const DISMISSAL: &[u8] = b"end";
/// Pause between two attempts to become the keeper.
const TRY_PAUSE: Duration = Duration::from_millis(100);

/// The descriptors that a holder inherits.
pub struct HolderEnds<'a> {
    pub group: &'a Group,
    /// The pipe at which the holder waits.
    pub pipe: BorrowedFd<'a>,
}

/// The holder as keeper and worker see it: the writing end of the pipe at which the holder waits.
/// The holder becomes the keeper once no process has that end open.
pub struct Holder {
    pipe: PipeWriter,
    /// The holder's process, if this process has started it.
    child: Option<Child>,
}

impl Holder {
    /// Starts a holder of `group`.
    pub(crate) fn start(
        group: &Group,
        launch: impl FnOnce(HolderEnds<'_>) -> io::Result<Child>,
    ) -> io::Result<Self> {
        let (waits, pipe) = io::pipe()?;
        let child = launch(HolderEnds { group, pipe: waits.as_fd() })?;
        Ok(Self { pipe, child: Some(child) })
    }

    /// Takes over a holder that another process has started, by the number of its pipe.
    pub fn inherited(number: RawFd) -> io::Result<Self> {
        Ok(Self { pipe: sys::process::inherited(number)?.into(), child: None })
    }

    /// The number of the pipe, for a process that is to inherit it.
    pub fn number(&self) -> RawFd {
        self.pipe.as_raw_fd()
    }

    /// True if the holder has died.
    pub(crate) fn is_gone(&mut self) -> bool {
        let mut polled = [PollFd::new(&self.pipe, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let is_gone = poll(&mut polled, Some(&now)).is_ok_and(|count| count > 0);
        if is_gone && let Some(child) = &mut self.child {
            // The exit status is not needed.
            drop(child.wait());
        }
        is_gone
    }

    /// Tells the holder to end.
    pub(crate) fn dismiss(mut self) {
        // A holder that was killed needs no dismissal.
        drop(self.pipe.write_all(DISMISSAL));
    }
}

/// Holds `group` until the holder is dismissed, or until keeper and worker have died; then calls
/// `become_keeper`, which returns only if that is impossible. A panic ends the process.
pub fn hold(
    group: &Group,
    pipe: OwnedFd,
    become_keeper: &dyn Fn(&Group) -> io::Error,
    say: &dyn Fn(&str),
) {
    sys::fault::end_process_on_panic();
    // The holder needs hardly any memory. When memory is short, the kernel should kill the keeper
    // or the worker instead.
    drop(std::fs::write("/proc/self/oom_score_adj", "-1000"));
    if is_dismissed(PipeReader::from(pipe)) {
        return;
    }
    say("keeper and worker have died; the holder takes their place");
    // The worker may have died while the kernel did not ask about a file that was losing its
    // content.
    if let Err(error) = group.watch_all_again() {
        say(&format!("cannot make the kernel ask about all files: {error}"));
    }
    loop {
        let error = become_keeper(group);
        // If the holder ended, programs would read stubs as zeros.
        say(&format!("cannot become the keeper: {error}; trying again"));
        sys::clock::sleep(TRY_PAUSE);
    }
}

/// Waits until no process has the other end of the pipe open. Returns true if the last message was
/// a dismissal.
fn is_dismissed(mut pipe: PipeReader) -> bool {
    let mut message = Vec::new();
    pipe.read_to_end(&mut message).is_ok() && message == DISMISSAL
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use sys::fanotify::QuestionKinds;

    use super::*;

    fn group() -> Group {
        Group::inherited(tempfile::tempfile().expect("a file").into(), QuestionKinds::Ranges)
    }

    #[test]
    fn a_dismissed_holder_ends_and_a_deserted_one_does_not() {
        let (waits, pipe) = io::pipe().expect("a pipe");
        Holder { pipe, child: None }.dismiss();
        assert!(is_dismissed(waits));
        let (waits, pipe) = io::pipe().expect("a pipe");
        drop(Holder { pipe, child: None });
        assert!(!is_dismissed(waits), "the pipe was closed without a dismissal");
    }

    /// Name of the environment variable that makes this program the child of a test.
    const CHILD: &str = "HOLDFAST_TEST_HOLDER";

    /// Runs in the child process: a holder that is left alone has a bug in one of its threads.
    #[test]
    fn a_child_holds_and_has_a_bug() {
        if std::env::var_os(CHILD).is_none() {
            return;
        }
        let (waits, pipe) = io::pipe().expect("a pipe");
        drop(pipe);
        let become_keeper = |_: &Group| {
            let thread = std::thread::spawn(|| panic!("a bug of the holder"));
            io::Error::other(format!("{:?}", thread.join()))
        };
        hold(&group(), waits.into(), &become_keeper, &|_| {});
    }

    #[test]
    fn a_panic_of_any_thread_of_a_holder_ends_it() {
        let program = std::env::current_exe().expect("a test knows its program");
        let child = Command::new(program)
            .args(["--exact", "holder::tests::a_child_holds_and_has_a_bug", "--nocapture"])
            .env(CHILD, "1")
            .output()
            .expect("the test can be run again");
        let said = String::from_utf8_lossy(&child.stderr);
        assert_eq!(child.status.code(), Some(sys::lock::ENDED_BY_A_BUG), "{said}");
        assert!(said.contains("src/holder.rs"), "it hides where it was: {said}");
    }

    #[test]
    fn a_keeper_sees_that_its_holder_has_died() {
        let launch = |ends: HolderEnds<'_>| {
            let pipe = ends.pipe.try_clone_to_owned()?;
            Command::new("sleep").arg("60").stdin(std::process::Stdio::from(pipe)).spawn()
        };
        let mut holder = Holder::start(&group(), launch).expect("started");
        assert!(!holder.is_gone());
        holder.child.as_mut().expect("its own").kill().expect("killed");
        while !holder.is_gone() {
            std::thread::yield_now();
        }
    }
}
