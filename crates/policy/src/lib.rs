//! The rules, without any I/O: what belongs to a backup, how long versions are kept, and when a
//! backup must not believe what it sees.
//!
//! Every function here decides from its arguments alone; nothing reads a clock, a file or the
//! environment. What can be decided wrongly can so be tested without a server.

mod class;
pub mod expiry;
pub mod expiry_guard;
pub mod lock;
mod migration;
mod pattern;
pub mod review;
mod selection;
pub mod statement;

pub use class::{
    ArchiveCopyGroup, BackupCopyGroup, Limit, ManagementClass, Mode, PolicyDomain, PolicySet,
    RetentionStart, STANDARD, Serialization, is_name,
};
pub use migration::{Eligibility, FileFacts};
pub use pattern::{PATTERN_BYTES_MAX, Pattern, PatternError};
pub use selection::{Selection, Verdict};
pub use statement::{Operation, Source, Statement, StatementError, Treatment};
