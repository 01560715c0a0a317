//! The meter of work by hand.

/// Counts the work that is done, and says when to stop.
pub trait Meter {
    /// Returns true once the work is to end soon.
    fn is_stopped(&self) -> bool;

    /// Counts bytes of content that were read or written.
    fn add_bytes(&self, bytes: u64);

    /// Counts an object that is done.
    fn add_object(&self);

    /// Counts an object or file that failed.
    fn add_failure(&self);
}

/// Text of the error with which a stopped reader or writer ends.
pub(super) const STOPPED: &str = "stopped before it was done";
