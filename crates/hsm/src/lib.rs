//! Space management: files migrate off a file system to the server and leave stubs, which are
//! filled again when a program uses them.
//!
//! ```text
//!  reader --open, read--> kernel (fanotify) --question--> keeper --stubs only--> worker
//!     ^                                                     |                      | fills from
//!     +------------------ continues or fails <--------------+<------answer---------+ the server
//! ```
//!
//! The *keeper* is a process that only passes on questions. While the keeper or the worker has the
//! group of questions open, nobody reads a stub before its content is there. The *worker* does all
//! other work. A third process, the *holder*, only holds the group.
//!
//! | process that dies | replacement |
//! |---|---|
//! | the worker | another worker, which the keeper starts and hands the questions that wait |
//! | the keeper | the worker, which becomes the keeper |
//! | keeper and worker | the holder, or the next keeper of a service manager that holds the group |
//!
//! A panic of any thread ends its process, so that the next process answers. A keeper that is told
//! to end stays while anybody uses a managed file system, and refuses programs that use stubs.
//!
//! Invariants:
//! 1. A file loses its content only while nobody has it open, after the server has durably
//!    acknowledged a copy of that very state, or has confirmed that it has the copy that the file's
//!    record names (`confirmation.rs`).
//! 2. The record of a stub is on the disk before its content is removed.
//! 3. Content is written to a stub only where nothing was written since the migration, and only
//!    after its digest was checked. Programs that wait for the content continue only afterwards,
//!    or fail.
//!    If size or times of a stub show that its size was changed without a question, nothing is
//!    written to it (`record.rs`).
//! 4. No stub has a mark that keeps the kernel from asking about it.
//! 5. Where files are hidden (`hidden.rs`), nobody finds them before the kernel asks about them.
//! 6. The times of a file do not show that it was migrated or recalled, except its change time.

mod caller;
mod confirmation;
mod connection;
mod control;
mod desk;
mod fill;
mod gate;
mod hidden;
mod holder;
mod keeper;
mod keeper_lock;
mod migrate;
mod monitor;
mod mount;
mod outcome;
mod questions;
mod recall;
mod record;
mod relay;
mod release;
mod remake;
mod requester;
mod requests;
mod rests;
mod roster;
mod server_wait;
mod settings;
mod station;
mod stub;
mod tender;
mod tree;
mod watch;
mod worker;

pub use control::{
    AskError, FileOutcome, FilesystemState, PathText, PlanState, PlannedVolume, Reply, Request,
    RequestState, ask, ask_while,
};
pub use hidden::is_whole;
pub use holder::{Holder, HolderEnds, hold};
pub use keeper::WorkerEnds;
pub use keeper_lock::is_running;
pub use questions::OpenQuestions;
pub use record::{FileState, state_of};
pub use relay::OpenQuestion;
pub use release::{ReleaseError, release};
pub use settings::{FilesystemSettings, Settings, SettingsError};
pub use station::{KeeperError, Launcher, Station, Supervisor};
pub use tender::Say;
pub use tree::{Counts, ListedFile, count, count_each, list};
pub use watch::WatchError;
pub use worker::{Channels, Places, Succession, work};

/// Name of the socket in the node's folder by which the worker takes requests.
pub const SOCKET: &str = "hsm.socket";
/// Folder of the public socket, which every user may use, if the system's own node is managed.
pub const PUBLIC_FOLDER: &str = "/run/holdfast";
