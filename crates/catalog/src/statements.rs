//! Number of statements that each thread has put to the database.
//!
//! A refusal must not tell by its time whether an object exists. So it takes the same statements in
//! both cases, and tests compare their numbers.

use std::cell::Cell;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of statements that this thread has put to the database so far. The statements
/// of one write count as one if another thread carries them out.
pub fn statements_of_thread() -> u64 {
    COUNT.get()
}

/// Counts a statement of this thread.
pub(crate) fn count() {
    COUNT.set(COUNT.get().wrapping_add(1));
}
