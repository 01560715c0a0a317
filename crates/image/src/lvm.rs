//! Logical volumes in an image.

mod fault;
mod label;
mod map;
mod text;

pub use fault::Fault;
pub use label::{ReadAt, checksum};
pub use map::VolumeMap;
