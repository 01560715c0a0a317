//! Stored content as file systems, by FUSE.
//!
//! ```text
//!   kernel -> stored (answers) -> inodes, node (attributes), kernel (contents put there ahead)
//!                |-> tree: what is in each directory -> filespaces (pure), ahead
//!                \-> contents: ranges, and in a walk the small files to come -> walk, stock
//!                       both -> connection -> client
//! ```
//!
//! A [`StoredMount`] shows the files of a node at any time, all versions of a file, and images. A
//! [`ServedDisk`] is one file whose bytes come from a [`DiskContent`], such as an image at the
//! server. It is mounted where no path leads to, so that nobody else sees it and nothing is left
//! when the process ends, however it ends.
//!
//! 1. A program gets the right bytes or an error. Each chunk is checked against its digest.
//! 2. A version has a number (inode) of its own, so the kernel never mixes two versions.
//! 3. What is remembered of directories and contents has a limit. What the kernel knows has none
//!    but the kernel's: a node takes about 0.4 KB until the kernel forgets it.
//!
//! Deliberately absent: writing.

mod ahead;
mod connection;
mod contents;
mod disk;
mod filespaces;
mod inodes;
mod kernel;
mod messages;
mod mounted;
mod node;
mod stored;
mod tree;
mod walk;

pub use connection::Opener;
pub use disk::{DiskContent, ServedDisk};
pub use messages::Log;
pub use mounted::{MountError, MountSettings, StoredMount};
pub use tree::Times;
