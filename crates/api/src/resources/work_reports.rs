//! The work of an event as it is told: how far it has come, and the report at its end.
//!
//! A node sends both in the words of its program, which may be older or newer than the server. The
//! server tells numbers with names about its own work.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fields::{Bytes, Time};

/// Progress or report of work: of a node the document of its command, of the server numbers. The
/// progress of the server mostly has `done` and `total`.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Work_{N}")]
pub(super) enum WorkDocument<N> {
    OfNode(Box<N>),
    OfServer(BTreeMap<String, u64>),
}

impl<N: DeserializeOwned> WorkDocument<N> {
    /// Reads what was told; `None` if there is nothing, or if its fields are of another kind.
    pub(super) fn read(text: &str, is_of_node: bool) -> Option<Self> {
        match is_of_node {
            true => serde_json::from_str(text).ok().map(Self::OfNode),
            false => serde_json::from_str(text).ok().map(Self::OfServer),
        }
    }
}

/// Progress of the command of a node. Newer programs may add fields.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct NodeProgress {
    /// The line that a terminal would show.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    objects: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    /// Bytes that have arrived at the server, or that were received.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_transferred: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    objects_per_sec: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_per_sec: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<u64>,
    /// Share that is done; absent while the total is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    percent: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds_left: Option<u64>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// Report of the command of a node. Each kind of work has fields of its own. Older programs leave
/// fields out, and newer ones may add some.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct NodeReport {
    /// The command: backup, archive, restore, retrieve or verify.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    restored: Option<u64>,
    /// Number of objects of a restore that were there as they were stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<u64>,
    /// Number of objects of a restore that differ from what is stored, and were not replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<u64>,
    /// Number of versions that a verification has read.
    #[serde(skip_serializing_if = "Option::is_none")]
    versions: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_restored: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_verified: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_transfer_secs: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    elapsed_secs: Option<f64>,
    /// Number of times in which the server was away.
    #[serde(skip_serializing_if = "Option::is_none")]
    interruptions: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pauses: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<u8>,
    /// The first failures.
    #[serde(skip_serializing_if = "Option::is_none")]
    failures: Option<Vec<FailureDocument>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warnings: Option<Vec<String>>,
    /// Number of the archive that was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    archive: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    drill: Option<DrillReport>,
    #[serde(flatten)]
    backup: BackupReport,
}

/// Report of a backup, as the node sent it. Older programs leave fields out, and newer ones may add
/// some.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct BackupReport {
    /// Number of examined objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    inspected: Option<u64>,
    /// Number of new versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    backed_up: Option<u64>,
    /// Number of objects with new attributes only.
    #[serde(skip_serializing_if = "Option::is_none")]
    updated: Option<u64>,
    /// Number of active versions that became inactive.
    #[serde(skip_serializing_if = "Option::is_none")]
    expired: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<u64>,
    /// Sum of the sizes of examined objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_inspected: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_before_dedup: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_after_dedup: Option<u64>,
    /// Bytes that have arrived at the server, including retries; of a restore, those that were
    /// received.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_transferred: Option<u64>,
    /// Times by the names of the stages: authenticate, read, compress, send and commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    stages: Option<BTreeMap<String, StageTimes>>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// Times of a stage of a backup.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
struct StageTimes {
    /// Work, summed over threads.
    #[serde(default)]
    busy_secs: f64,
    /// Time for which the backup waited because of the stage.
    #[serde(default)]
    waited_for_secs: f64,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// An object that could not be worked on.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
struct FailureDocument {
    path: Bytes,
    error: String,
}

/// A restore drill, as the node tells it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
struct DrillReport {
    /// Number by which the same sample is drawn again.
    seed: u64,
    good: bool,
    time: Time,
    /// Number of files that the server has sent and the node has checked.
    objects: u64,
    /// Their bytes at the server.
    bytes: u64,
    reason: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(told: &str, is_of_node: bool) -> Option<Value> {
        let report: WorkDocument<NodeReport> = WorkDocument::read(told, is_of_node)?;
        Some(serde_json::to_value(&report).expect("is JSON"))
    }

    #[test]
    fn a_report_of_a_node_keeps_what_this_program_does_not_know() {
        let told = json!({
            "command": "backup",
            "inspected": 7,
            "failures": [{ "path": { "bytes": "L//+" }, "error": "it is locked" }],
            "stages": { "read": { "busy_secs": 0.5, "waited_for_secs": 0.0, "threads": 2 } },
            "drill": {
                "seed": 7, "good": true, "time": "2026-11-20T18:00:00Z", "objects": 3, "bytes": 9,
                "reason": "",
            },
            "compressed_percent": 12.5,
            "network_rate_kb_per_sec": null,
        });
        assert_eq!(report(&told.to_string(), true), Some(told));
        assert_eq!(report(r#"{"inspected":"many"}"#, true), None);
        assert_eq!(report("", true), None);
    }

    #[test]
    fn a_report_of_the_server_is_numbers() {
        let told = json!({ "done": 3, "total": 3, "failures": 0 });
        assert_eq!(report(&told.to_string(), false), Some(told));
        assert_eq!(report(r#"{"done":"all"}"#, false), None);
    }

    #[test]
    fn progress_has_the_numbers_of_who_works() {
        let of = |told: &str, is_of_node| {
            let progress: Option<WorkDocument<NodeProgress>> = WorkDocument::read(told, is_of_node);
            serde_json::to_value(&progress).expect("is JSON")
        };
        let told = r#"{"line":"7 objects","objects":7,"percent":null,"lanes":2}"#;
        assert_eq!(of(told, true), json!({ "line": "7 objects", "objects": 7, "lanes": 2 }));
        assert_eq!(of(r#"{"done":1,"total":4}"#, false), json!({ "done": 1, "total": 4 }));
    }
}
