//! The protocol between commands and the worker, over a socket in the node's folder. A command
//! sends a request, which is one JSON document on one line. The worker answers with any number of
//! replies, one per line; the last reply is `done` or `refused`.

use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::SOCKET;
use crate::settings::written;

/// Interval at which a command checks whether its user still waits.
const WAITS_INTERVAL: Duration = Duration::from_millis(250);

/// A path, which may hold any bytes, as text of a document.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PathText(#[serde(with = "written")] pub Vec<u8>);

/// A request to the worker.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Request {
    /// Removes files, and releases their copies.
    Purge { paths: Vec<PathText> },
    /// Migrates files, and directories with all files in them.
    Migrate {
        paths: Vec<PathText>,
        /// The files are copied only; their content stays.
        only_copies: bool,
        /// Files that are named themselves migrate however small they are.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        any_size: bool,
    },
    Recall {
        paths: Vec<PathText>,
        /// The files need no copies afterwards: their records are removed.
        resident: bool,
        /// The worker reports the volumes and the time that the recall needs, and moves nothing.
        preview: bool,
    },
    /// Migrates by policy, as the monitor does when the file system is too full.
    Relieve { mount_point: PathText },
    /// Compares records with the server's copies.
    Reconcile {
        mount_point: PathText,
        dry_run: bool,
        /// The copies that no file names are released, even if they are most of the copies.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_confirmed: bool,
    },
    /// Makes stubs again for copies that no file names any more.
    Undelete { mount_point: PathText },
    /// Makes stubs again of deleted files at and below the paths. Users get files of their own.
    UndeletePaths { paths: Vec<PathText> },
    /// Makes stubs of files that are backed up and missing in the file system.
    MakeStubs { paths: Vec<PathText>, bytes_min: u64 },
    /// Shows the recalls for which somebody waits.
    Status,
    /// Cancels a recall.
    Cancel { number: u64 },
    /// Shows the managed file systems, with their states.
    Filesystems,
    /// Reads the settings again, puts them into effect, and shows the states afterwards.
    Reread,
    /// Ends the management of a file system without migrated files.
    Release { mount_point: PathText },
}

impl Request {
    /// True for requests that every user may send, for files of their own. Only root may send the
    /// other requests.
    pub(crate) fn is_for_everybody(&self) -> bool {
        matches!(
            self,
            Self::Recall { .. } | Self::Status | Self::Cancel { .. } | Self::UndeletePaths { .. }
        )
    }
}

/// A reply of the worker.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "tell", rename_all = "snake_case")]
pub enum Reply {
    File(FileOutcome),
    Request(RequestState),
    Filesystem(FilesystemState),
    /// Number of files that will be reported, and their bytes.
    Expect {
        files: u64,
        bytes: u64,
    },
    /// The answer to a recall with `preview`.
    Plan(PlanState),
    Reconciled {
        /// Number of copies that files name.
        kept: u64,
        /// Number of copies that were released, or would be.
        released: u64,
        /// Number of copies that no file names, and that were not released because they are most
        /// of the copies.
        #[serde(default)]
        doubtful: u64,
        /// Stubs whose copy the server does not have.
        lost: Vec<PathText>,
        /// Stubs whose copy was released, so that the server keeps it for a limited time only.
        #[serde(default)]
        expiring: Vec<PathText>,
    },
    /// The request was carried out; single files may have failed.
    Done,
    /// The request was not carried out, or not completely.
    Refused {
        reason: String,
    },
}

/// The outcome of one file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileOutcome {
    pub path: PathText,
    /// `r`, `p`, `m` or `purged`; absent if the file failed.
    pub state: Option<String>,
    /// Number of bytes that were freed, copied or recalled, or that a new stub has at the server.
    pub bytes: u64,
    pub error: Option<String>,
}

/// The plan of a recall.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PlanState {
    /// The files in the order of the recall.
    pub order: Vec<PathText>,
    /// Volumes in the order in which they will be read.
    pub volumes: Vec<PlannedVolume>,
    /// Number of files that need no volume, and their bytes.
    pub disk_files: u64,
    pub disk_bytes: u64,
    /// Files of which the server has no copy.
    pub unknown: Vec<PathText>,
    pub mounts: u32,
    /// Time until all volumes have been read.
    pub estimate_secs: f64,
}

/// A volume that a recall needs, or a problem because of which files cannot be recalled.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PlannedVolume {
    pub library: String,
    pub volume: String,
    pub is_mounted: bool,
    /// Number of files that begin on the volume, and their bytes.
    pub files: u64,
    pub bytes: u64,
    pub packs: u64,
    pub estimate_secs: f64,
    pub problem: Option<String>,
}

impl PlanState {
    /// Adds the plan for another file system.
    pub(crate) fn add(&mut self, mut other: Self) {
        self.order.append(&mut other.order);
        self.unknown.append(&mut other.unknown);
        self.disk_files += other.disk_files;
        self.disk_bytes += other.disk_bytes;
        self.mounts += other.mounts;
        self.estimate_secs += other.estimate_secs;
        for volume in other.volumes {
            let is_same = |known: &&mut PlannedVolume| {
                (&known.library, &known.volume, &known.problem)
                    == (&volume.library, &volume.volume, &volume.problem)
            };
            match self.volumes.iter_mut().find(is_same) {
                Some(known) => {
                    known.files += volume.files;
                    known.bytes += volume.bytes;
                    known.packs += volume.packs;
                }
                None => self.volumes.push(volume),
            }
        }
    }
}

/// State of a recall for which somebody waits.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RequestState {
    pub number: u64,
    pub path: PathText,
    pub uid: u32,
    pub pid: u32,
    pub program: String,
    /// Time of the request, in microseconds since 1970.
    pub since: i64,
    /// `recalling`, `at the server` or `waiting`.
    pub state: String,
    /// Place in the queue; 0 for a file that is no longer in the queue.
    pub place: usize,
    pub waiters: usize,
    pub bytes: u64,
    pub done_bytes: u64,
    pub estimate_secs: Option<f64>,
    /// Volume for which the recall waits at the server.
    #[serde(default)]
    pub volume: Option<String>,
    /// Place in the server's queue for that volume, from 1.
    #[serde(default)]
    pub volume_place: Option<u32>,
}

/// State of a file system of the settings.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FilesystemState {
    pub mount_point: PathText,
    /// `managed`, `not mounted` or `failed`.
    pub state: String,
    /// Reason of a failure.
    pub problem: Option<String>,
}

/// Reason why a request was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Start 'holdfast hsm run'.
    #[error("space management is not running; start 'holdfast hsm run'")]
    NotRunning,
    /// The user has stopped waiting. Repeat the request to continue.
    #[error("interrupted; the files that are done stay done")]
    Interrupted,
    /// The worker has died, and another one starts: repeat the request.
    #[error("space management ended before the request was done")]
    Ended,
    /// The worker says why.
    #[error("{0}")]
    Refused(String),
    #[error("cannot send a request to space management")]
    Broken(#[source] std::io::Error),
}

impl From<std::io::Error> for AskError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => Self::NotRunning,
            _ => Self::Broken(error),
        }
    }
}

/// Sends a request to the worker with a socket in `folder`. Calls `visit` with each reply except
/// the last, until `visit` returns false.
pub fn ask(
    folder: &Path,
    request: &Request,
    visit: &mut dyn FnMut(Reply) -> bool,
) -> Result<(), AskError> {
    ask_while(folder, request, visit, &|| true)
}

/// Does the same as [`ask`] until `waits` returns false. The worker stops when it notices that the
/// connection is closed.
pub fn ask_while(
    folder: &Path,
    request: &Request,
    visit: &mut dyn FnMut(Reply) -> bool,
    waits: &dyn Fn() -> bool,
) -> Result<(), AskError> {
    let mut socket = sys::net::connect_unix(folder, SOCKET)?;
    socket.set_nonblocking(false)?;
    let text = serde_json::to_string(request).expect("a request is a document");
    socket.write_all(format!("{text}\n").as_bytes()).map_err(AskError::Broken)?;
    socket.set_read_timeout(Some(WAITS_INTERVAL)).map_err(AskError::Broken)?;
    let mut replies = BufReader::new(socket);
    let mut line = Vec::new();
    loop {
        match replies.read_until(b'\n', &mut line) {
            Ok(0) => return Err(AskError::Ended),
            Ok(_) => {}
            // The received part of the line stays in `line`.
            Err(error) if error.kind() == ErrorKind::WouldBlock && waits() => continue,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return Err(AskError::Interrupted);
            }
            Err(error) => return Err(AskError::Broken(error)),
        }
        if !waits() {
            return Err(AskError::Interrupted);
        }
        let reply = serde_json::from_slice(&std::mem::take(&mut line));
        match reply.map_err(|error| AskError::Broken(error.into()))? {
            Reply::Done => return Ok(()),
            Reply::Refused { reason } => return Err(AskError::Refused(reason)),
            reply => {
                if !visit(reply) {
                    return Ok(());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &[u8]) -> PathText {
        PathText(text.to_vec())
    }

    /// Commands of other releases read the documents, so the words must not change.
    #[test]
    fn requests_keep_their_words() {
        #[track_caller]
        fn check(request: &Request, text: &str) {
            assert_eq!(serde_json::to_string(request).expect("written"), text);
            assert_eq!(serde_json::from_str::<Request>(text).expect("read"), *request);
        }
        let paths = || vec![path(b"/a%\xff")];
        check(&Request::Purge { paths: paths() }, r#"{"do":"purge","paths":["/a%25%ff"]}"#);
        check(
            &Request::Migrate { paths: paths(), only_copies: true, any_size: false },
            r#"{"do":"migrate","paths":["/a%25%ff"],"only_copies":true}"#,
        );
        check(
            &Request::Migrate { paths: paths(), only_copies: false, any_size: true },
            r#"{"do":"migrate","paths":["/a%25%ff"],"only_copies":false,"any_size":true}"#,
        );
        check(
            &Request::Recall { paths: paths(), resident: false, preview: true },
            r#"{"do":"recall","paths":["/a%25%ff"],"resident":false,"preview":true}"#,
        );
        check(
            &Request::Relieve { mount_point: path(b"/d") },
            r#"{"do":"relieve","mount_point":"/d"}"#,
        );
        let reconcile = |is_confirmed: bool| {
            let (mount_point, dry_run) = (path(b"/d"), !is_confirmed);
            Request::Reconcile { mount_point, dry_run, is_confirmed }
        };
        check(&reconcile(false), r#"{"do":"reconcile","mount_point":"/d","dry_run":true}"#);
        check(
            &reconcile(true),
            r#"{"do":"reconcile","mount_point":"/d","dry_run":false,"is_confirmed":true}"#,
        );
        check(&Request::Status, r#"{"do":"status"}"#);
        check(&Request::Cancel { number: 3 }, r#"{"do":"cancel","number":3}"#);
        check(
            &Request::UndeletePaths { paths: paths() },
            r#"{"do":"undelete_paths","paths":["/a%25%ff"]}"#,
        );
        check(&Request::Filesystems, r#"{"do":"filesystems"}"#);
        check(&Request::Reread, r#"{"do":"reread"}"#);
        check(
            &Request::Release { mount_point: path(b"/d") },
            r#"{"do":"release","mount_point":"/d"}"#,
        );
    }

    #[test]
    fn users_may_recall_undelete_and_look_and_nothing_else() {
        let is_for_everybody = |text: &str| {
            serde_json::from_str::<Request>(text).expect("a request").is_for_everybody()
        };
        assert!(is_for_everybody(r#"{"do":"recall","paths":[],"resident":true,"preview":false}"#));
        assert!(is_for_everybody(r#"{"do":"undelete_paths","paths":[]}"#));
        assert!(is_for_everybody(r#"{"do":"status"}"#));
        assert!(is_for_everybody(r#"{"do":"cancel","number":1}"#));
        assert!(!is_for_everybody(r#"{"do":"purge","paths":[]}"#));
        assert!(!is_for_everybody(r#"{"do":"filesystems"}"#));
        assert!(!is_for_everybody(r#"{"do":"reread"}"#));
        assert!(!is_for_everybody(r#"{"do":"release","mount_point":"/"}"#));
        assert!(!is_for_everybody(r#"{"do":"undelete","mount_point":"/"}"#));
        assert!(!is_for_everybody(r#"{"do":"make_stubs","paths":[],"bytes_min":1}"#));
    }

    #[test]
    fn plans_of_several_file_systems_become_one() {
        let volume = |name: &str, files| PlannedVolume {
            volume: name.to_owned(),
            files,
            bytes: files * 10,
            packs: 1,
            ..PlannedVolume::default()
        };
        let plan = |path_text: &[u8], volumes: Vec<PlannedVolume>| PlanState {
            order: vec![path(path_text)],
            volumes,
            disk_files: 1,
            mounts: 2,
            estimate_secs: 1.5,
            ..PlanState::default()
        };
        let mut sum = plan(b"/a", vec![volume("A", 1), volume("B", 2)]);
        let offsite = PlannedVolume { problem: Some("offsite".to_owned()), ..volume("B", 4) };
        sum.add(plan(b"/b", vec![volume("B", 3), offsite.clone()]));
        assert_eq!(sum.order, [path(b"/a"), path(b"/b")]);
        let together = PlannedVolume { packs: 2, ..volume("B", 5) };
        assert_eq!(sum.volumes, [volume("A", 1), together, offsite]);
        assert_eq!((sum.disk_files, sum.mounts, sum.estimate_secs), (2, 4, 3.0));
    }

    /// Answers one request with `text`. Returns the replies that the command gets.
    fn answered(text: &'static str) -> Result<Vec<Reply>, AskError> {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = sys::net::bind_unix(folder.path(), SOCKET).expect("a socket");
        listener.set_nonblocking(false).expect("set");
        let worker = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a command");
            stream.set_nonblocking(false).expect("set");
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).expect("read");
            assert_eq!(line, "{\"do\":\"status\"}\n");
            stream.write_all(text.as_bytes()).expect("written");
        });
        let mut replies = Vec::new();
        let asked = ask(folder.path(), &Request::Status, &mut |reply| {
            replies.push(reply);
            true
        });
        worker.join().expect("it has answered");
        asked.map(|()| replies)
    }

    #[test]
    fn a_request_ends_with_done_or_refused() {
        let done = "{\"tell\":\"expect\",\"files\":1,\"bytes\":2}\n{\"tell\":\"done\"}\n";
        let replies = answered(done).expect("done");
        assert_eq!(replies, [Reply::Expect { files: 1, bytes: 2 }]);
        let refused = answered("{\"tell\":\"refused\",\"reason\":\"no\"}\n").unwrap_err();
        assert!(matches!(refused, AskError::Refused(reason) if reason == "no"));
    }

    #[test]
    fn a_worker_that_dies_or_talks_nonsense_is_no_success() {
        assert!(matches!(answered(""), Err(AskError::Ended)));
        let cut = "{\"tell\":\"expect\",\"files\":1,\"bytes\":2}\n";
        assert!(matches!(answered(cut), Err(AskError::Ended)));
        assert!(matches!(answered("nonsense\n"), Err(AskError::Broken(_))));
    }

    #[test]
    fn a_folder_without_a_worker_says_what_to_start() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = ask(folder.path(), &Request::Status, &mut |_| true).unwrap_err();
        assert!(matches!(error, AskError::NotRunning));
        drop(sys::net::bind_unix(folder.path(), SOCKET).expect("a socket"));
        let error = ask(folder.path(), &Request::Status, &mut |_| true).unwrap_err();
        assert!(matches!(error, AskError::NotRunning), "the worker has died: {error:?}");
    }

    #[test]
    fn a_user_who_does_not_wait_interrupts_his_request() {
        let folder = tempfile::tempdir().expect("a folder");
        let _silent = sys::net::bind_unix(folder.path(), SOCKET).expect("a socket");
        let mut visit = |_| true;
        let asked = ask_while(folder.path(), &Request::Status, &mut visit, &|| false);
        assert!(matches!(asked, Err(AskError::Interrupted)));
    }
}
