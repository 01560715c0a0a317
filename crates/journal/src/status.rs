//! State of a watcher, as `holdfast journal status` shows it.

use serde::{Deserialize, Serialize};

use crate::text::PathText;

/// State of a watcher.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WatcherState {
    pub pid: u32,
    /// Time of the start, in microseconds since 1970.
    pub started_micros: i64,
    pub filesystems: Vec<FilesystemState>,
}

/// State of one file system.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FilesystemState {
    /// Directory at which the file system was mounted when the watch began.
    pub path: PathText,
    /// Time since which the file system is watched without a gap, in microseconds since 1970.
    pub watched_since_micros: i64,
    /// Number of directories that have changed since the oldest anchor.
    pub directories: u64,
    /// Number of reports of the kernel since the watch began.
    pub reports: u64,
    /// Number of times that the queue of the kernel was full.
    pub overflows: u64,
    pub backups_under_way: u64,
    pub last_loss: Option<LossState>,
    pub anchors: Vec<AnchorState>,
    pub last_difference: Option<DifferenceState>,
}

/// Loss of a record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LossState {
    pub at_micros: i64,
    pub reason: String,
}

/// Anchor of one filespace.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AnchorState {
    pub filespace: PathText,
    /// Number of directories and subtrees to look at in any case.
    pub again: u64,
    /// Time since the last walk of everything, in seconds.
    pub walked_secs_ago: u64,
}

/// Changes that a record has missed, as a walk has found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DifferenceState {
    pub at_micros: i64,
    pub objects: u64,
    /// The first of them.
    pub first: PathText,
}
