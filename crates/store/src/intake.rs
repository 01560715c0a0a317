//! Intake of a backup: quanta are stored, changes of pages are resolved, applied and committed.
//!
//! ```text
//!   quantum ---> quantum::take_in ---> places of its chunks
//!   changes ---> resolve ---> prepare (apply to the pages) ---> commit, after a sync of the packs
//! ```
//!
//! Transactions of one session commit one after the other. So each change is applied to the page as
//! the previous change has left it.
//!
//! Crash rule: a transaction is in the catalogue as a whole or not at all. Pages below a directory
//! that no longer exists are removed in batches before the directory itself. A crash between two
//! batches leaves the directory, and the next backup finds again that it no longer exists.

mod archived;
pub(crate) mod change;
pub(crate) mod opener;
pub(crate) mod prepare;
pub mod quantum;
pub mod resolve;
mod session;
mod sharing;

pub use change::{KnownContent, PageChange, Reason, Rejection, Remnant};
pub use quantum::{Check, Origin, ReceivedQuantum, StoredQuantum, take_in};
pub use session::{CommitReceipt, Intake, QuantumGrants};
