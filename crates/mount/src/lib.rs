//! Stored content as file systems, by FUSE.
//!
//! A [`ServedDisk`] is one file whose bytes come from a [`DiskContent`], such as an image at the
//! server. It is mounted where no path leads to, so that nobody else sees it and nothing is left
//! when the process ends, however it ends.
//!
//! Deliberately absent: writing.

mod disk;

pub use disk::{DiskContent, ServedDisk};
