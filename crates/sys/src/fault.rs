//! Panics, which are faults of the program: their reports, and processes that end with them.
//!
//! In the keeper of a space-managed file system, in its worker and in its holder a thread that has
//! panicked leaves readers waiting for an answer that never comes. Each of these processes calls
//! [`end_process_on_panic`] before it starts its first thread: then another process starts it again
//! and answers.

use std::panic::{self, PanicHookInfo};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Once, OnceLock};

use crate::lock::{ENDED_BY_A_BUG, Mutex};

/// Makes a panic of any thread end the process with [`ENDED_BY_A_BUG`], after the hook that was
/// installed before has written where the panic was.
///
/// No destructor runs and no buffer is written, because both could act on a half-changed state.
/// A second call changes nothing.
pub fn end_process_on_panic() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            report(panic);
            crate::process::exit_now(ENDED_BY_A_BUG);
        }));
    });
}

/// Guard of a thread that other threads depend on: a panic while the guard lives ends the process
/// with [`ENDED_BY_A_BUG`]. The panic hook has already written where the panic was.
#[must_use]
pub struct ProcessEnd;

impl Drop for ProcessEnd {
    fn drop(&mut self) {
        if std::thread::panicking() {
            crate::process::exit_now(ENDED_BY_A_BUG);
        }
    }
}

/// A panic of a thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Panic {
    /// Name of the thread; empty if it has none.
    pub thread: String,
    /// Place of the panic: file, line and column.
    pub place: String,
    pub message: String,
}

impl Panic {
    fn of(info: &PanicHookInfo<'_>) -> Self {
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let message = info.payload_as_str().unwrap_or("no message").to_owned();
        Self { thread, place, message }
    }
}

static PANICS: AtomicU64 = AtomicU64::new(0);

/// Passes each panic to `report` instead of standard error, and counts panics. This is for a
/// process that goes on after a panic of one of its sessions.
pub fn report_panics(report: fn(&Panic)) {
    panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        report(&Panic::of(info));
    }));
}

/// Number of panics since [`report_panics`] was called.
pub fn panics() -> u64 {
    PANICS.load(Ordering::Relaxed)
}

/// Names of points at which one thread is to panic, once for each point.
static PLANTED: OnceLock<Mutex<Vec<String>>> = OnceLock::new();

/// Makes one thread panic at each of these points, whose names are separated by commas: tests plant
/// bugs in a real program this way. A release build has no such points.
pub fn plant(points: &str) {
    let names = points.split(',').map(str::to_owned).collect();
    // A second call changes nothing.
    drop(PLANTED.set(Mutex::new(names)));
}

/// Panics if [`plant`] was called with this `name`, once for each name.
#[inline]
#[track_caller]
pub fn point(name: &str) {
    if cfg!(debug_assertions) {
        let Some(planted) = PLANTED.get() else { return };
        let mut planted = planted.lock();
        if let Some(at) = planted.iter().position(|planted| planted == name) {
            planted.swap_remove(at);
            drop(planted);
            panic!("a bug that was planted at {name}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Name of the environment variable that makes this program the child of a test.
    const CHILD: &str = "HOLDFAST_TEST_FAULT";

    /// Runs in the child process: a thread panics while the main thread waits for its message for
    /// ever.
    #[test]
    fn a_child_waits_for_a_thread_that_panics() {
        if std::env::var_os(CHILD).is_none() {
            return;
        }
        end_process_on_panic();
        end_process_on_panic();
        let (message, messages) = std::sync::mpsc::channel::<()>();
        let kept = message.clone();
        std::thread::spawn(move || {
            let _message = message;
            panic!("a bug in a thread");
        });
        assert!(messages.recv().is_err(), "nobody sends");
        drop(kept);
        std::process::exit(0);
    }

    /// Runs in the child process: one thread panics without the guard, and another thread with it.
    #[test]
    fn a_child_guards_one_thread() {
        if std::env::var_os(CHILD).is_none() {
            return;
        }
        let unguarded = std::thread::spawn(|| panic!("a bug that only this thread has"));
        assert!(unguarded.join().is_err(), "the process goes on");
        std::thread::spawn(|| {
            let _guard = ProcessEnd;
            panic!("a bug of a thread that others depend on");
        })
        .join()
        .ok();
        std::process::exit(0);
    }

    #[test]
    fn a_panic_of_a_guarded_thread_ends_the_process() {
        let program = std::env::current_exe().expect("a test knows its program");
        let child = Command::new(program)
            .args(["--exact", "fault::tests::a_child_guards_one_thread", "--nocapture"])
            .env(CHILD, "1")
            .output()
            .expect("the test can be run again");
        let said = String::from_utf8_lossy(&child.stderr);
        assert_eq!(child.status.code(), Some(ENDED_BY_A_BUG), "{said}");
        assert!(said.contains("only this thread has"), "{said}");
    }

    #[test]
    fn a_panic_of_any_thread_ends_the_process() {
        let program = std::env::current_exe().expect("a test knows its program");
        let child = Command::new(program)
            .args(["--exact", "fault::tests::a_child_waits_for_a_thread_that_panics"])
            .arg("--nocapture")
            .env(CHILD, "1")
            .output()
            .expect("the test can be run again");
        let said = String::from_utf8_lossy(&child.stderr);
        assert_eq!(child.status.code(), Some(ENDED_BY_A_BUG), "{said}");
        assert!(said.contains("src/fault.rs"), "the report lacks the place of the panic: {said}");
    }
}
