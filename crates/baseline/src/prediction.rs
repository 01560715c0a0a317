//! A prediction: the time of a piece of work, the stage that limits it, and the space that it
//! takes.

use serde::{Deserialize, Serialize};

/// Kind of work that is predicted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// The first backup of the tree.
    First,
    /// A backup that finds no change.
    Unchanged,
    /// A backup after a usual day.
    Day,
    /// A restore of the whole tree.
    Restore,
    /// The first image backup of the file system.
    Image,
}

impl Work {
    pub const ALL: [Self; 5] =
        [Self::First, Self::Unchanged, Self::Day, Self::Restore, Self::Image];

    /// Returns the words for a heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::First => "First backup",
            Self::Unchanged => "Backup, nothing changed",
            Self::Day => "Backup after a usual day",
            Self::Restore => "Restore of everything",
            Self::Image => "Image backup",
        }
    }
}

/// Stage of the pipeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    Disk,
    Processor,
    Network,
}

impl Stage {
    pub fn title(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Processor => "processors",
            Self::Network => "network",
        }
    }
}

/// A figure that is likely, and the bounds between which it lies in most cases.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Range {
    pub least: f64,
    pub likely: f64,
    pub most: f64,
}

impl Range {
    /// Makes a range of `likely` within a relative deviation, which is counted twice: 19 of 20 lie
    /// in it, if the deviation is right.
    pub(crate) fn around(likely: f64, deviation: f64) -> Self {
        let factor = 1.0 + 2.0 * deviation.max(0.0);
        Self { least: likely / factor, likely, most: likely * factor }
    }
}

/// Time of a stage if nothing else held it up.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct StageTime {
    pub stage: Stage,
    pub secs: f64,
}

/// Sentence about the change that would shorten the work most.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Advice(pub String);

/// A prediction for one kind of work on one place.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Prediction {
    pub work: Work,
    pub secs: Range,
    /// The stage that limits it.
    pub limit: Stage,
    pub stages: Vec<StageTime>,
    /// Bytes that are read from the disk.
    pub bytes_read: Range,
    /// Bytes that travel between node and server.
    pub bytes_sent: Range,
    /// Memory of the program at the node.
    pub node_memory_bytes: Range,
    /// Space at the server that the work takes, the catalogue included.
    pub server_bytes: Range,
    /// The part of it in the catalogue and the chunk index.
    pub catalog_bytes: Range,
    pub advice: Advice,
    /// Factor by which earlier runs of this node took longer than predicted, which is in the
    /// times; 1 without earlier runs.
    pub fitted: f64,
}
