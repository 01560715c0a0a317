//! Progress and outcome of an expiration.

use serde_json::{Value, json};

/// Progress of an expiration, and its outcome at the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    pub directories: u64,
    pub examined: u64,
    pub expired: u64,
    pub expired_bytes: u64,
    pub nodes: u32,
    /// In a simulation, the number of versions that the active policy drops too.
    pub due_anyway: u64,
    /// Number of directories that were passed over because a page or a version is damaged.
    pub damaged: u64,
    pub filespaces_done: u32,
    pub filespaces: u32,
}

impl Outcome {
    /// Returns the numbers for programs.
    pub(crate) fn numbers(&self) -> Value {
        json!({
            "done": self.filespaces_done, "total": self.filespaces, "examined": self.examined,
            "expired": self.expired, "expired_bytes": self.expired_bytes,
            "damaged": self.damaged,
        })
    }
}
