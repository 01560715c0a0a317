//! Progress and outcome of a run over packs.

use model::PackNumber;
use serde_json::{Value, json};

use crate::lifecycle::reclaim::RecompressionEffect;

/// Progress of a run over packs, and its outcome at the end.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Number of packs of the run.
    pub packs: u64,
    /// Total size of these packs.
    pub bytes: u64,
    pub packs_done: u64,
    pub bytes_done: u64,
    /// Packs for which the run failed, with the reasons.
    pub failures: Vec<(PackNumber, String)>,
    /// Names of volumes that could not be read or are not emptied, with the reasons.
    pub volumes: Vec<(String, String)>,
    /// Effect of the recompression, if the run was to compress what it moves.
    pub recompression: Option<RecompressionEffect>,
    /// Number of packs that such a run moves as they are.
    pub packs_unchanged: u64,
}

impl Outcome {
    /// Returns the numbers for programs.
    pub(crate) fn numbers(&self) -> Value {
        json!({
            "done": self.packs_done, "total": self.packs, "bytes_done": self.bytes_done,
            "bytes": self.bytes, "failures": self.failures.len() + self.volumes.len(),
        })
    }
}

/// Function that a run calls with its progress. It returns false to cancel the run.
pub type Listener<'a> = &'a mut dyn FnMut(&Outcome) -> bool;
