//! Work with volumes by hand, without any catalogue: files are written as objects, and objects are
//! listed, extracted and verified.
//!
//! ```text
//! writing        files -> volumes, one after the other
//! extraction     selected pieces of volumes -> files
//! verification   every piece of a volume is read and checked
//!   piece          the part of an object that is on one volume, and the selection of pieces
//!   meter          the progress of the work, and the request to stop
//! ```

mod extraction;
mod meter;
mod piece;
mod verification;
mod writing;

pub use extraction::{ExtractedFile, Extraction, ExtractionReport};
pub use meter::Meter;
pub use piece::{Piece, PieceError, PieceFailure, Selection, pieces};
pub use verification::Verification;
pub use writing::{FileError, FileFailure, OutgoingFile, VolumeUse, WritingReport, WritingSession};
