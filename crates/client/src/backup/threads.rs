//! Threads of a backup.

use std::thread::ScopedJoinHandle;

/// Waits for a thread and returns its result. A panic of the thread continues in the caller.
pub(super) fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
