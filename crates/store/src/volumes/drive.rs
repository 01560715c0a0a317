//! Drives that threads hold. A thread that holds a drive must not wait for another drive.

use std::cell::Cell;

thread_local! {
    /// True while this thread holds a drive. If it then waited for another drive, it could wait for
    /// ever.
    static HOLDS_DRIVE: Cell<bool> = const { Cell::new(false) };
}

/// Returns true while this thread holds a drive.
pub(crate) fn holds_drive() -> bool {
    HOLDS_DRIVE.get()
}

/// Guard while this thread holds a drive.
pub(crate) struct HeldDrive;

impl HeldDrive {
    pub(crate) fn begin() -> Self {
        assert!(!holds_drive(), "a thread holds one drive at a time");
        HOLDS_DRIVE.set(true);
        Self
    }
}

impl Drop for HeldDrive {
    fn drop(&mut self) {
        HOLDS_DRIVE.set(false);
    }
}
