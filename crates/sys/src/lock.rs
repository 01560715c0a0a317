//! Locks that nobody takes after their holder has panicked.
//!
//! A panic while a lock is held may leave what the lock guards half changed. The next thread that
//! takes the lock, or wakes up with it, ends the process with [`ENDED_BY_A_BUG`]: a half-changed
//! state is worse than a process that a supervisor starts again. The panic hook has already
//! written where the panic was.
//!
//! Panics of threads that hold no lock have no effect here.

use std::io::Write;
use std::sync::{self, LockResult, TryLockError};
use std::time::Duration;

pub use sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

/// Exit status of a process that a bug has ended: `EX_SOFTWARE` of `sysexits.h`.
pub const ENDED_BY_A_BUG: i32 = 70;

/// A mutex whose poison ends the process; see the module.
#[derive(Default, Debug)]
pub struct Mutex<T: ?Sized>(sync::Mutex<T>);

impl<T> Mutex<T> {
    pub const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    pub fn into_inner(self) -> T {
        whole(self.0.into_inner())
    }
}

impl<T: ?Sized> Mutex<T> {
    pub fn lock(&self) -> MutexGuard<'_, T> {
        whole(self.0.lock())
    }

    /// Takes the lock unless somebody else holds it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(_)) => end_process(),
        }
    }

    pub fn get_mut(&mut self) -> &mut T {
        whole(self.0.get_mut())
    }
}

/// A lock that many readers or one writer may hold, and whose poison ends the process; see the
/// module.
#[derive(Default, Debug)]
pub struct RwLock<T: ?Sized>(sync::RwLock<T>);

impl<T> RwLock<T> {
    pub const fn new(value: T) -> Self {
        Self(sync::RwLock::new(value))
    }

    pub fn into_inner(self) -> T {
        whole(self.0.into_inner())
    }
}

impl<T: ?Sized> RwLock<T> {
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        whole(self.0.read())
    }

    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        whole(self.0.write())
    }

    pub fn get_mut(&mut self) -> &mut T {
        whole(self.0.get_mut())
    }
}

/// A condition variable for threads that wait with a [`Mutex`]; see the module.
#[derive(Default, Debug)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    pub const fn new() -> Self {
        Self(sync::Condvar::new())
    }

    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        whole(self.0.wait(guard))
    }

    pub fn wait_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        whole(self.0.wait_while(guard, condition))
    }

    /// Waits for at most `limit`. The caller sees from the guarded state whether it was notified or
    /// the time is over.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Duration,
    ) -> MutexGuard<'a, T> {
        whole(self.0.wait_timeout(guard, limit)).0
    }

    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// Returns the guard or the value of a lock if no holder has panicked. Otherwise ends the process.
fn whole<T>(taken: LockResult<T>) -> T {
    taken.unwrap_or_else(|_| end_process())
}

/// Ends the process without running destructors: they could take the lock too, or write the guarded
/// state to disk.
fn end_process() -> ! {
    let message = "holdfast: a thread panicked while it held a lock; the process ends, because \
                   the state that the thread left is unknown\n";
    // If standard error is closed, only the exit status tells the reason.
    std::io::stderr().write_all(message.as_bytes()).ok();
    crate::process::exit_now(ENDED_BY_A_BUG)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::process::Command;

    use super::*;

    /// Name of the environment variable that says which lock the child process leaves poisoned.
    const CHILD: &str = "HOLDFAST_TEST_POISON";

    fn panic_while_held<G>(guard: G) {
        let held = AssertUnwindSafe(guard);
        let outcome = catch_unwind(move || {
            let _held = held;
            panic!("a bug while the lock is held");
        });
        assert!(outcome.is_err());
    }

    /// Runs in the child process: panics while it holds a lock, and takes the lock again, which
    /// ends the process.
    #[test]
    fn a_child_goes_on_after_a_panic() {
        let Ok(kind) = std::env::var(CHILD) else { return };
        let (mutex, shared) = (Mutex::new(0), RwLock::new(0));
        match kind.as_str() {
            "mutex" => {
                panic_while_held(mutex.lock());
                drop(mutex.lock());
            }
            "try" => {
                panic_while_held(mutex.lock());
                drop(mutex.try_lock());
            }
            "write" => {
                panic_while_held(shared.write());
                drop(shared.read());
            }
            "wait" => wait_for_a_panic(&mutex, &Condvar::new()),
            other => panic!("no lock is called {other}"),
        }
        std::process::exit(0);
    }

    fn wait_for_a_panic(mutex: &Mutex<i32>, wake: &Condvar) {
        let ready = sync::Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let guard = mutex.lock();
                ready.wait();
                drop(wake.wait_while(guard, |value| *value == 0));
            });
            ready.wait();
            let mut guard = mutex.lock();
            *guard = 1;
            wake.notify_all();
            panic_while_held(guard);
        });
    }

    #[test]
    fn nobody_goes_on_with_what_a_panic_left() {
        for kind in ["mutex", "try", "write", "wait"] {
            let program = std::env::current_exe().expect("a test knows its program");
            let child = Command::new(program)
                .args(["--exact", "lock::tests::a_child_goes_on_after_a_panic", "--nocapture"])
                .env(CHILD, kind)
                .output()
                .expect("the test can be run again");
            let said = String::from_utf8_lossy(&child.stderr);
            assert_eq!(child.status.code(), Some(ENDED_BY_A_BUG), "{kind}: {said}");
            assert!(
                said.contains("src/lock.rs"),
                "{kind}: the report lacks the place of the panic: {said}"
            );
        }
    }

    #[test]
    fn a_panic_of_a_reader_changes_nothing() {
        let shared = RwLock::new(7);
        panic_while_held(shared.read());
        assert_eq!(*shared.read(), 7);
    }

    #[test]
    fn a_lock_that_is_held_is_not_taken_twice() {
        let mutex = Mutex::new(());
        let held = mutex.lock();
        assert!(mutex.try_lock().is_none());
        drop(held);
        assert!(mutex.try_lock().is_some());
    }
}
