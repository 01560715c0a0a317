//! The progress of work by hand, and the request to stop it.

/// Counter of the work that is done. It also tells the work to stop.
pub trait Meter {
    /// Returns true if the work is to stop.
    fn is_stopped(&self) -> bool;

    /// Counts bytes of content that were read or written.
    fn add_bytes(&self, bytes: u64);

    /// Counts an object that was written or read whole.
    fn add_object(&self);

    /// Counts an object or file that failed.
    fn add_failure(&self);
}

/// Text of the error with which a stopped reader or writer ends.
pub(super) const STOPPED: &str = "the command was stopped before this was complete";
