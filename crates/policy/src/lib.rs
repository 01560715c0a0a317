//! The rules of policy, without any I/O: the objects that belong to a backup, the time for which
//! versions are kept, and the cases in which a backup must not trust what it finds.
//!
//! Every function here decides from its arguments alone; nothing reads a clock, a file or the
//! environment. So every wrong decision can be tested without a server.

mod class;
pub mod clock_guard;
pub mod expiry;
pub mod expiry_guard;
pub mod local;
pub mod lock;
mod migration;
pub mod moment;
mod pattern;
pub mod review;
pub mod schedule;
mod selection;
pub mod settings;
pub mod sizes;
pub mod statement;

pub use class::{
    ArchiveCopyGroup, BackupCopyGroup, InvalidWord, Limit, ManagementClass, Mode, PolicyDomain,
    PolicySet, RetentionStart, STANDARD, Serialization, is_name,
};
pub use migration::{Eligibility, FileFacts};
pub use pattern::{PATTERN_BYTES_MAX, Pattern, PatternError};
pub use selection::{Selection, Verdict};
pub use statement::{Operation, Source, Statement, StatementError, Treatment};
