//! The seams to the Linux system: the one crate where `unsafe` is allowed, and the only door to the
//! clock, to randomness and to files as a backup sees them.
//!
//! Invariants:
//! 1. Objects are reached by an open directory ([`dir::Dir`]) and one name, never by a full path:
//!    paths may be longer than `PATH_MAX`, and no component can be swapped for a symbolic link
//!    while a backup or a restore is at work.
//! 2. Nothing but [`dir::Dir::open`], [`mount::filespace_root`] and [`mount::resolved`], which take
//!    a path from a person, follows a symbolic link or depends on the working directory.
//! 3. A name is one component: anything with `/` in it, empty, `.` or `..` is refused.
//! 4. Reading a source does not change it, access times included where the kernel allows that.
//!
//! Deliberately absent: policy, formats, protocols except iSCSI, logging, and environment
//! variables.

pub mod alarm;
#[expect(unsafe_code, reason = "the options of the allocator have no safe binding")]
pub mod allocator;
mod apply;
mod attributes;
#[expect(unsafe_code, reason = "the map of a file system has no safe binding")]
pub mod block;
#[expect(unsafe_code, reason = "the local time has no safe binding")]
pub mod clock;
pub mod dir;
pub mod disk_error;
pub mod durable;
pub mod entropy;
#[expect(
    unsafe_code,
    clippy::host_endian_bytes,
    reason = "fanotify has no safe binding, and the kernel writes numbers as this machine does"
)]
pub mod fanotify;
pub mod fault;
pub mod frozen_filesystem;
#[expect(unsafe_code, reason = "a GPU is used by C functions and by programs of its own")]
pub mod gpu;
pub mod huge_memory;
#[expect(unsafe_code, reason = "handles and UUIDs have no safe binding")]
pub mod identity;
#[expect(unsafe_code, reason = "libiscsi is a C library")]
pub mod iscsi;
mod listing;
pub mod lock;
#[expect(unsafe_code, reason = "loop devices have no safe binding")]
pub mod loop_device;
#[expect(unsafe_code, reason = "memory shared with a file can only be named by raw pointers")]
pub mod map;
#[expect(unsafe_code, reason = "mount_setattr(2) has no safe binding")]
pub mod mount;
pub mod net;
mod new_file_state;
pub mod open_files;
pub mod pipe;
#[expect(unsafe_code, reason = "priorities for disks have no safe binding")]
pub mod priority;
#[expect(unsafe_code, reason = "getrusage has no safe binding")]
pub mod process;
#[expect(unsafe_code, reason = "the segments of a program have no safe binding")]
pub mod program;
#[expect(unsafe_code, reason = "the generic SCSI driver has no safe binding")]
pub mod scsi;
mod source;
#[expect(unsafe_code, reason = "leases have no safe binding")]
pub mod space;
mod status;
pub mod target;
pub mod terminal;
pub mod thin_pool;
pub mod users;

pub use apply::{ApplyOutcome, Part, Refusal};
pub use attributes::FLAGS_RESTORED;
pub use dir::Dir;
pub use listing::{Entry, Failure, Listing};
pub use source::{Segment, SourceFile};
pub use status::ObjectStatus;
pub use target::NewFile;
