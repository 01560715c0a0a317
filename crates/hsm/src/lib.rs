//! Space management: files migrate off a file system to the server and leave stubs, which are
//! filled again when somebody uses them.
//!
//! ```text
//!  reader --open, read--> kernel (fanotify) --question--> keeper --stubs only--> worker
//!     ^                                                     |                      | fills from
//!     +------------------- goes on, or fails <--------------+<------answer---------+ the server
//! ```
//!
//! The *keeper* is a process that does nothing but pass questions on: while it, or the worker, has
//! the group of questions open, nobody reads a stub unasked. The *worker* does everything else.
//! When the worker dies the keeper starts another and gives it the questions that wait; when the
//! keeper dies the worker becomes the keeper; when both die at once the holder, which does nothing
//! but hold the group, becomes the keeper, or a service manager has it for the next one. Told to
//! end, the keeper stays while anybody uses a managed file system, and refuses whoever uses a stub.
//!
//! Invariants:
//! 1. A file loses its content only while nobody has it open, after the server has durably
//!    acknowledged a copy of that very state.
//! 2. A stub's record is on disk before its content goes.
//! 3. Content is written to a stub only where nothing has been written since, and only after its
//!    digest was checked; who waits for it goes on only after that, or fails.
//! 4. No file that is a stub has a mark that keeps the kernel from asking.
//! 5. Where files are hidden (`hidden.rs`), nobody finds them before the kernel asks about them.
//! 6. Times do not show that a file was migrated or recalled; its change time does.

mod control;
mod fill;
mod hidden;
mod keeper;
mod migrate;
mod monitor;
mod recall;
mod record;
mod relay;
mod remake;
mod settings;
mod stub;
mod tree;
mod worker;

pub use control::{
    FileOutcome, PathText, PlanState, PlannedVolume, Reply, Request, RequestState, ask, ask_while,
};
pub use hidden::{conceal, give_up, show};
pub use keeper::{Adopted, Keeping, keep, refuse_waiting};
pub use record::{FileState, state_of};
pub use settings::{FilesystemSettings, Settings, SettingsError};
pub use tree::{Counts, Listed, count, list};
pub use worker::{BecomeKeeper, Inherited, work};

/// The socket in the node's folder by which the worker takes requests.
pub const SOCKET: &str = "hsm.socket";
/// Where a socket of that name is for everybody, if the system's own node has its files managed.
pub const PUBLIC_FOLDER: &str = "/run/holdfast";
