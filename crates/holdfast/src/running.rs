//! Record of a running command in the node's folder, which `holdfast status` shows.
//!
//! Nothing depends on these files. A process that was killed leaves its file, which the next status
//! removes.

use std::io;
use std::path::{Path, PathBuf};

use client::Progress;
use model::ServerTime;
use serde::{Deserialize, Serialize};

/// Folder in the node's folder.
const FOLDER: &str = "running";

/// State of a running command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Running,
    Paused,
    /// The command waits for its server.
    Waiting,
}

/// Content of a file. Times are in microseconds since 1970, by the clock of this machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) pid: u32,
    /// Start of the process, which distinguishes it from a later one with its number.
    start: u64,
    pub(crate) command: String,
    pub(crate) began_micros: i64,
    pub(crate) state: State,
    /// Begin of the state.
    pub(crate) since_micros: i64,
}

/// File of this process, until it is dropped.
pub(crate) struct RunningCommand {
    path: PathBuf,
    record: Record,
}

impl RunningCommand {
    /// Makes the file of this process in the folder `home`; `None` if that cannot be done.
    pub(crate) fn begin(home: &Path, command: &str) -> Option<Self> {
        let pid = std::process::id();
        let began_micros = sys::clock::system().0;
        let record = Record {
            pid,
            start: sys::process::began(pid)?,
            command: command.to_owned(),
            began_micros,
            state: State::Running,
            since_micros: began_micros,
        };
        let folder = home.join(FOLDER);
        match std::fs::create_dir(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return None,
            _ => {}
        }
        // A process that was killed has left its file.
        drop(commands(home));
        let running = Self { path: folder.join(format!("{pid}.json")), record };
        running.write(&running.record).ok()?;
        Some(running)
    }

    /// Notes the present state of `progress`.
    pub(crate) fn note(&self, progress: &Progress) {
        let (state, since) = match (progress.paused_since(), progress.absence()) {
            (Some(since), _) => (State::Paused, since),
            (None, Some(absence)) => (State::Waiting, absence.since),
            (None, None) => (State::Running, sys::clock::system()),
        };
        let record = Record { state, since_micros: since.0, ..self.record.clone() };
        // The status is for people to look at. The command goes on without it.
        drop(self.write(&record));
    }

    fn write(&self, record: &Record) -> io::Result<()> {
        let bytes = serde_json::to_vec(record).map_err(io::Error::from)?;
        sys::durable::write(&self.path, &bytes, 0o600)
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.path));
    }
}

impl Record {
    pub(crate) fn began(&self) -> ServerTime {
        ServerTime(self.began_micros)
    }

    pub(crate) fn since(&self) -> ServerTime {
        ServerTime(self.since_micros)
    }
}

/// Returns the commands that run with the node's folder `home`, oldest first. Removes the files of
/// processes that are gone.
pub(crate) fn commands(home: &Path) -> Vec<Record> {
    let files = std::fs::read_dir(home.join(FOLDER)).into_iter().flatten().flatten();
    let mut records: Vec<Record> = files
        .filter_map(|file| {
            let bytes = std::fs::read(file.path()).ok()?;
            let record = serde_json::from_slice::<Record>(&bytes).ok();
            let is_alive = |record: &Record| sys::process::began(record.pid) == Some(record.start);
            let record = record.filter(is_alive);
            if record.is_none() {
                drop(std::fs::remove_file(file.path()));
            }
            record
        })
        .collect();
    records.sort_by_key(|record| (record.began_micros, record.pid));
    records
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_running_command_is_shown_with_its_state_until_it_ends() {
        let home = tempfile::tempdir().expect("a folder");
        let progress = Progress::default();
        let running = RunningCommand::begin(home.path(), "holdfast backup").expect("a file");
        let state = || {
            let [record] = commands(home.path()).try_into().expect("one command");
            assert_eq!(
                (record.pid, record.command.as_str()),
                (std::process::id(), "holdfast backup")
            );
            record.state
        };
        assert_eq!(state(), State::Running);
        progress.begin_absence(Duration::from_secs(60));
        running.note(&progress);
        assert_eq!(state(), State::Waiting);
        progress.pause();
        running.note(&progress);
        assert_eq!(state(), State::Paused);
        progress.resume();
        progress.end_absence();
        running.note(&progress);
        assert_eq!(state(), State::Running);
        drop(running);
        assert_eq!(commands(home.path()), []);
    }

    #[test]
    fn the_file_of_a_process_that_is_gone_is_removed() {
        let home = tempfile::tempdir().expect("a folder");
        let running = RunningCommand::begin(home.path(), "holdfast backup").expect("a file");
        let other = Record { start: 1, ..running.record.clone() };
        let path = home.path().join(FOLDER).join("1.json");
        std::fs::write(&path, serde_json::to_vec(&other).expect("bytes")).expect("written");
        std::fs::write(home.path().join(FOLDER).join("2.json"), "damaged").expect("written");
        assert_eq!(commands(home.path()).len(), 1);
        assert_eq!(std::fs::read_dir(home.path().join(FOLDER)).expect("a folder").count(), 1);
    }
}
