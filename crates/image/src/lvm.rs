//! Logical volumes in an image.

mod fault;
mod text;

pub use fault::Fault;
