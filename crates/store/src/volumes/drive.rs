//! Drives that threads hold. A thread that holds a drive must not wait for another drive.

use std::cell::Cell;

thread_local! {
    /// True while this thread holds a drive. Waiting for another drive then could take for ever.
    static HOLDS_DRIVE: Cell<bool> = const { Cell::new(false) };
}

/// True while this thread holds a drive.
pub(crate) fn holds_drive() -> bool {
    HOLDS_DRIVE.get()
}

/// A drive that this thread holds until it is dropped.
pub(crate) struct Holding;

impl Holding {
    pub(crate) fn begin() -> Self {
        assert!(!holds_drive(), "a thread holds one drive at a time");
        HOLDS_DRIVE.set(true);
        Self
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        HOLDS_DRIVE.set(false);
    }
}
