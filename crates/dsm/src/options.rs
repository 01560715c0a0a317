//! Options of TSM's client: the files that have them, their order, and the fate of each option.
//!
//! ```text
//!   bytes of a file -> file::parse -> entries --+
//!   dsm.sys -> stanzas, one is chosen ----------+-> Options, last one wins
//!   command line -> entries --------------------+
//! ```
//!
//! 1. There is one table of all options (`table`). A file, a command line, the check, the import
//!    and the manual read the same table.
//! 2. Each entry has a fate: it is carried out, it is needless, or it is refused. An option is
//!    refused only if ignoring it would store, restore or protect something else than it says.
//! 3. Bytes of a file never lead to a panic. Each line that is no option is one [`Fault`].
//!
//! Lines have no continuation, as in TSM. A line that begins with `*` is a comment. Names of
//! options may be abbreviated to the capital letters of their spelling, in upper or lower case.

mod definition;
mod entry;
mod file;
mod sources;
mod table;

pub use definition::{Definition, Fate, Homes, Kind, ValueFault};
pub use entry::{Entry, Fault, Place, Verdict};
pub(crate) use file::unquoted;
pub use file::{FILE_BYTES_MAX, LINE_BYTES_MAX, parse, unreadable, unreadable_line};
pub use sources::{Options, Stanza, StanzaError, System};
pub use table::{definitions, find, find_exactly, of_name};
