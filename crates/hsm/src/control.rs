//! What commands ask of the worker, over a socket in the node's folder: one JSON document a line,
//! answered by as many as there is to tell, and at last by `done` or `refused`.

use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::SOCKET;
use crate::settings::written;

/// Whether who asks still wants to know is looked at so often.
const GOES_ON: Duration = Duration::from_millis(250);

/// A path in a document.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PathText(#[serde(with = "written")] pub Vec<u8>);

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Request {
    /// Removes files, and lets go of their copies.
    Purge {
        paths: Vec<PathText>,
    },
    /// Files, and directories with all that is in them.
    Migrate {
        paths: Vec<PathText>,
        only_copies: bool,
    },
    Recall {
        paths: Vec<PathText>,
        resident: bool,
        /// Tell what it takes, and do nothing.
        preview: bool,
    },
    /// As the monitor does when the disk is too full.
    Relieve {
        mount_point: PathText,
    },
    /// Compares records with the server's copies.
    Reconcile {
        mount_point: PathText,
        dry_run: bool,
    },
    /// Makes stubs again for copies that no file names any more.
    Undelete {
        mount_point: PathText,
    },
    /// Makes stubs of files that the server's backup has and that are not there.
    MakeStubs {
        paths: Vec<PathText>,
        bytes_min: u64,
    },
    Status,
    Cancel {
        number: u64,
    },
}

/// What is told.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "tell", rename_all = "snake_case")]
pub enum Reply {
    File(FileOutcome),
    Request(RequestState),
    /// How many files there will be.
    Expect {
        files: u64,
        bytes: u64,
    },
    /// What a recall takes.
    Plan(PlanState),
    Reconciled {
        kept: u64,
        released: u64,
        lost: Vec<PathText>,
    },
    Done,
    /// It was not done at all.
    Refused {
        reason: String,
    },
}

/// What became of one file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileOutcome {
    pub path: PathText,
    /// `r`, `p` or `m`; absent if it failed.
    pub state: Option<String>,
    /// Came free, were copied, or were recalled.
    pub bytes: u64,
    pub error: Option<String>,
}

/// What the recall of files takes.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PlanState {
    /// The files, as they will be recalled.
    pub order: Vec<PathText>,
    /// In the order in which they are about to be read.
    pub volumes: Vec<PlannedVolume>,
    /// Files that need no volume, and their bytes.
    pub disk_files: u64,
    pub disk_bytes: u64,
    /// Those of which the server has nothing.
    pub unknown: Vec<PathText>,
    pub mounts: u32,
    /// Until all has been read from volumes.
    pub estimate_secs: f64,
}

/// A volume that a recall needs, or why files cannot be had.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PlannedVolume {
    pub library: String,
    pub volume: String,
    pub is_mounted: bool,
    /// Files that begin on it, and their bytes.
    pub files: u64,
    pub bytes: u64,
    pub packs: u64,
    pub estimate_secs: f64,
    pub problem: Option<String>,
}

impl PlanState {
    /// Adds what files of another file system take.
    pub(crate) fn add(&mut self, mut other: Self) {
        self.order.append(&mut other.order);
        self.unknown.append(&mut other.unknown);
        self.disk_files += other.disk_files;
        self.disk_bytes += other.disk_bytes;
        self.mounts += other.mounts;
        self.estimate_secs += other.estimate_secs;
        for volume in other.volumes {
            let is_it = |known: &&mut PlannedVolume| {
                (&known.library, &known.volume, &known.problem)
                    == (&volume.library, &volume.volume, &volume.problem)
            };
            match self.volumes.iter_mut().find(is_it) {
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

/// A recall that is waited for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RequestState {
    pub number: u64,
    pub path: PathText,
    pub uid: u32,
    pub pid: u32,
    pub program: String,
    /// Microseconds since 1970.
    pub since: i64,
    /// `recalling` or `waiting`.
    pub state: String,
    /// How many are before it.
    pub place: usize,
    pub waiters: usize,
    pub bytes: u64,
    pub done_bytes: u64,
    pub estimate_secs: Option<f64>,
}

/// Asks the worker of the node in `home`; calls `visit` with all but the last that it tells.
///
/// Fails with `NotFound` or `ConnectionRefused` if none runs.
pub fn ask(
    home: &Path,
    request: &Request,
    visit: &mut dyn FnMut(Reply) -> bool,
) -> std::io::Result<Result<(), String>> {
    ask_while(home, request, (visit, &|| true))
}

/// The same while `goes_on` says so; then the error is `Interrupted`, and the worker stops.
pub fn ask_while(
    home: &Path,
    request: &Request,
    (visit, goes_on): (&mut dyn FnMut(Reply) -> bool, &dyn Fn() -> bool),
) -> std::io::Result<Result<(), String>> {
    let mut socket = sys::net::connect_unix(home, SOCKET)?;
    socket.set_nonblocking(false)?;
    let text = serde_json::to_string(request).expect("a request is a document");
    socket.write_all(format!("{text}\n").as_bytes())?;
    socket.set_read_timeout(Some(GOES_ON))?;
    let mut replies = BufReader::new(socket);
    let mut line = Vec::new();
    loop {
        match replies.read_until(b'\n', &mut line) {
            Ok(0) => return Ok(Err("space management has ended before it was done".to_owned())),
            Ok(_) => {}
            // What has come of the line is kept.
            Err(error) if error.kind() == ErrorKind::WouldBlock && goes_on() => continue,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return Err(ErrorKind::Interrupted.into());
            }
            Err(error) => return Err(error),
        }
        if !goes_on() {
            return Err(ErrorKind::Interrupted.into());
        }
        match serde_json::from_slice(&std::mem::take(&mut line))? {
            Reply::Done => return Ok(Ok(())),
            Reply::Refused { reason } => return Ok(Err(reason)),
            reply => {
                if !visit(reply) {
                    // The worker stops when nobody listens any more.
                    return Ok(Ok(()));
                }
            }
        }
    }
}
