//! The basic types of Holdfast, which every other crate uses. They do no I/O.
//!
//! Names and paths are bytes throughout. Within a filespace a directory is named by its *directory
//! path*, which starts and ends with `/`; an object is its directory path plus its name. The root
//! of a filespace is itself an object: directory path empty, name `/`.

mod chunk;
mod escape;
mod fault;
mod filespace;
mod id;
mod length;
mod migrated;
mod object;
mod path;
mod percent;
mod sample;
mod size;
pub mod spelling;
mod time;
mod trace;
mod wildcards;

pub use chunk::{
    CHUNK_BYTES_MAX, CHUNK_BYTES_MEAN, CHUNK_BYTES_MIN, CHUNK_INDEX_MAX, ChunkDigest, ChunkRange,
    Extent, GrantProof, Place, PlaceCode, QUANTUM_BYTES_MAX, QUANTUM_CHUNKS_MAX, SessionPlace,
};
pub use escape::{escaped, is_unprintable, plain_json, printable, unescaped};
pub use fault::{chain, located, on_one_line, word_meant};
pub use filespace::{
    BACKUP_FILESPACE_MIN, FILESPACE_BYTES_MAX, IMAGE_HEAD, archive_filespace, archive_filespaces,
    archive_number, image_filespace, image_name, is_backup_filespace, is_space_filespace,
    mount_point, space_filespace,
};
pub use id::{
    ClassId, DomainId, FilespaceId, NodeId, NodeName, NodeNameError, PackNumber, PersonId, PoolId,
    SessionId,
};
pub use length::{LENGTH_MAX, LengthError, parse_length, show_length};
pub use migrated::{BatchId, CopyId};
pub use object::{Attributes, Kind, Object, Payload, Stat, Version, Xattr};
pub use path::{DirPath, Name, NameError, is_at_or_below, within};
pub use percent::{percent_decoded, percent_encoded};
pub use sample::{SampleAmount, SampleError};
pub use size::{SizeError, parse_bytes};
pub use time::{ServerTime, Timestamp};
pub use trace::TRACE;
pub use wildcards::matches_wildcards;

/// Maximum number of objects in one directory page; larger directories have several pages.
pub const PAGE_OBJECTS_MAX: usize = 512;

/// A 128-bit keyed digest over everything that the client compares of one directory page. The
/// server does not interpret it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DirectoryDigest(pub [u8; 16]);

/// A 64-bit keyed hash of a directory path within its filespace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PathHash(pub [u8; 8]);
