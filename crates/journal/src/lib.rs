//! The journal: which directories of a file system have changed, with a proof that none is missing.
//!
//! ```text
//! kernel --reports--> watch (a thread and a record for each file system)
//!                       |
//!                     watcher (the process, its socket)
//!                       ^ message
//!                     conversation (a backup)      places (paths of the changed directories)
//! ```
//!
//! The states, the proof, and the changes that the kernel does not report are in
//! `docs/design/journal.md`.
//!
//! Invariants:
//! 1. An answer contains every change whose system call has returned before the question: the
//!    queue of the kernel is drained under the lock of the record ([`watch`]).
//! 2. A record lives and dies with its watch. Nothing of it is on disk.
//! 3. Doubt removes anchors. Without an anchor the backup walks.
//!
//! Deliberately absent: the server, rules of selection, and the decision of a backup; they are in
//! the client.

mod anchor;
mod conversation;
mod message;
mod places;
mod record;
mod status;
mod text;
mod watch;
mod watcher;

pub use anchor::{Anchor, AnchorKey, Continuation, Fingerprint};
pub use conversation::{
    Conversation, ConversationError, FirstAnswer, LastAnchor, is_watched, status,
};
pub use places::{OpenFile, Place, Places, Unsuitability};
pub use record::{ANCHORS_MAX, ChangedDirectory, DIRECTORIES_MAX};
pub use status::{AnchorState, DifferenceState, FilesystemState, LossState, WatcherState};
pub use text::PathText;
pub use watcher::{SOCKET, Watcher, WatcherError};
