//! Work with volumes by hand, without any catalogue: files are written as objects, and objects are
//! listed, extracted and verified.
//!
//! ```text
//! writing        files -> volumes, one after the other
//! extraction     chosen pieces of volumes -> files
//! verification   every piece of a volume -> nowhere
//!   piece          the part of an object that is on a volume, and the choice of pieces
//!   meter          the progress of the work, and the order to stop
//! ```

mod extraction;
mod meter;
mod piece;
mod verification;
mod writing;

pub use extraction::{ExtractedFile, Extraction, Extracts};
pub use meter::Meter;
pub use piece::{Piece, PieceError, PieceFailure, Selection, pieces};
pub use verification::Verification;
pub use writing::{FileError, FileFailure, OutgoingFile, VolumeUse, WritingReport, WritingSession};
