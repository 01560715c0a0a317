//! The last backup of the node, in the status.

use client::{CompressorWork, LastBackup, Stages};
use model::{ServerTime, printable};
use serde::Serialize;

use super::stages::stages_text;
use crate::{moment, quantity};

/// The last backup in `status --json`.
#[derive(Serialize)]
pub(crate) struct LastBackupDocument<'a> {
    command: &'a str,
    filespaces: &'a [String],
    ended: String,
    elapsed_secs: f64,
    stages: &'a Stages,
    compressors: &'a [CompressorWork],
}

impl<'a> LastBackupDocument<'a> {
    pub(crate) fn new(last: &'a LastBackup) -> Self {
        Self {
            command: &last.command,
            filespaces: &last.filespaces,
            ended: moment::rfc3339(ServerTime(last.ended_micros)),
            elapsed_secs: last.elapsed.as_secs_f64(),
            stages: &last.stages,
            compressors: &last.compressors,
        }
    }
}

/// Returns a line about the backup, and its stages.
pub(crate) fn last_backup_text(last: &LastBackup) -> String {
    let filespaces = last.filespaces.join(", ");
    let (command, filespaces) = (printable(&last.command), printable(&filespaces));
    let ended = moment::shown(ServerTime(last.ended_micros));
    let elapsed = quantity::clock(last.elapsed);
    let stages = stages_text(&last.stages, &last.compressors);
    format!("Last {command}: {filespaces}, ended {ended}, took {elapsed}\n{stages}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use client::{CompressorKind, StageTime};

    use super::*;

    fn last() -> LastBackup {
        let time = Duration::from_millis(1500);
        let read = StageTime { busy: 2 * time, waited_for: time };
        LastBackup {
            node: "anna".to_owned(),
            command: "image backup".to_owned(),
            filespaces: vec!["image:/dev/sda".to_owned(), "image:\u{1b}[2J".to_owned()],
            ended_micros: 1_700_000_000_000_000,
            elapsed: Duration::from_millis(3200),
            stages: Stages { read, ..Stages::default() },
            compressors: vec![CompressorWork {
                name: CompressorKind::Threads,
                quanta: 1,
                bytes_before: 2 << 20,
                bytes_after: 1 << 19,
                time,
            }],
        }
    }

    #[test]
    fn the_text_has_the_stages_and_the_compressors() {
        let last = last();
        let shown = moment::shown(ServerTime(last.ended_micros));
        let text = last_backup_text(&last).replace(&shown, "TIME");
        insta::assert_snapshot!(text, @r"
        Last image backup: image:/dev/sda, image:\x1b[2J, ended TIME, took 00:00:03
        Stage         Busy, s  Waited for, s
        authenticate     0.00           0.00
        read             3.00           1.50
        compress         0.00           0.00
        send             0.00           0.00
        commit           0.00           0.00
        Compressed by threads: 1 quantum, 2.00 MB to 512.00 KB.
        ");
    }

    #[test]
    fn the_document_has_every_key() {
        let last = last();
        let document = serde_json::to_value(LastBackupDocument::new(&last)).expect("a document");
        let keys: Vec<&String> = document.as_object().expect("an object").keys().collect();
        let expected = ["command", "compressors", "elapsed_secs", "ended", "filespaces", "stages"];
        assert_eq!(keys, expected);
        assert_eq!(document["elapsed_secs"], 3.2);
        assert_eq!(document["stages"]["read"]["waited_for_secs"], 1.5);
        assert_eq!(document["compressors"][0]["name"], "threads");
    }
}
