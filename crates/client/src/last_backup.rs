//! Record of the last backup in the node's folder, for people to look at.
//!
//! Nothing depends on this file. If it is lost or damaged, the next backup writes it again.

use std::io;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::report::BackupReport;
use crate::stages::{CompressorWork, Stages, secs};

/// File in the node's folder.
const FILE: &str = "last-backup.json";

/// The last backup, archive or image that a node has completed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LastBackup {
    pub node: String,
    /// Command that made it, such as `image backup`.
    pub command: String,
    /// Names of the filespaces, in printable form.
    pub filespaces: Vec<String>,
    /// Time of its end by the node's clock, in microseconds since 1970.
    pub ended_micros: i64,
    #[serde(rename = "elapsed_secs", with = "secs")]
    pub elapsed: Duration,
    pub stages: Stages,
    pub compressors: Vec<CompressorWork>,
}

impl LastBackup {
    /// Makes the record of a backup that `command` has just completed.
    pub fn new(command: &str, report: &BackupReport) -> Self {
        Self {
            node: report.node.clone(),
            command: command.to_owned(),
            filespaces: report.filespaces.iter().map(|name| model::escaped(name)).collect(),
            ended_micros: sys::clock::system().0,
            elapsed: report.elapsed,
            stages: report.stages,
            compressors: report.compressors.clone(),
        }
    }

    /// Loads the record from the folder `home`; `None` if there is none.
    pub fn load(home: &Path) -> io::Result<Option<Self>> {
        match std::fs::read(home.join(FILE)) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(io::Error::from),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces the record in the folder `home`.
    pub fn keep(&self, home: &Path) -> io::Result<()> {
        let bytes = serde_json::to_vec(self).map_err(io::Error::from)?;
        sys::durable::write(&home.join(FILE), &bytes, 0o600)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::{CompressorKind, StageTime};

    #[test]
    fn the_last_backup_survives_in_the_home_of_the_node() {
        let home = tempfile::tempdir().expect("a folder");
        assert_eq!(LastBackup::load(home.path()).expect("none"), None);
        let name = CompressorKind::Threads;
        let time = Duration::from_millis(1500);
        let report = BackupReport {
            node: "anna".to_owned(),
            filespaces: vec![b"/data\xff".to_vec()],
            elapsed: Duration::from_secs(2),
            stages: Stages { read: StageTime::alone(time), ..Stages::default() },
            compressors: vec![CompressorWork {
                name,
                quanta: 1,
                bytes_before: 9,
                bytes_after: 3,
                time,
            }],
            ..BackupReport::default()
        };
        let last = LastBackup::new("backup", &report);
        assert_eq!(last.filespaces, ["/data\\xff"]);
        last.keep(home.path()).expect("kept");
        assert_eq!(LastBackup::load(home.path()).expect("read"), Some(last.clone()));
        // A later backup takes its place.
        let later = LastBackup { elapsed: 2 * time, ..last };
        later.keep(home.path()).expect("kept");
        assert_eq!(LastBackup::load(home.path()).expect("read"), Some(later));
        for damaged in ["", "nonsense", "{}"] {
            std::fs::write(home.path().join(FILE), damaged).expect("a file");
            LastBackup::load(home.path()).expect_err("damaged");
        }
    }
}
