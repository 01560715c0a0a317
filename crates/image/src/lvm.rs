//! Logical volumes in an image.

mod fault;
mod label;
mod text;

pub use fault::Fault;
pub use label::{ReadAt, checksum};
