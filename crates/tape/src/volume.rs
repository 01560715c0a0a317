//! Volumes: labelled and self-describing, on any kind of medium.
//!
//! [`VolumeWriter`] appends objects at the end, [`VolumeReader`] lists a volume and reads
//! its objects without any catalogue. The bytes are in `docs/format/volume.md`.
//!
//! Rules:
//! 1. A medium is written only if it is blank or has a label of this program, or if a user has
//!    allowed to overwrite it.
//! 2. A part counts only when [`VolumeWriter::sync`] or [`VolumeWriter::close`] has returned it.
//! 3. Every block contains its own place. A block that names another place is an error, never
//!    content.

mod error;
mod label;
mod reader;
mod writer;

pub use error::VolumeError;
pub use label::{Identification, Overwrite, identify, is_unwritten, label, read_label};
pub(crate) use label::{check_overwrite, write_label};
pub use reader::{Listing, VolumeReader};
pub use writer::{Continuation, Progress, SessionSummary, VolumeWriter, WriterOptions};
