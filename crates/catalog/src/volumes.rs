//! Libraries, their volumes, and the places of packs on volumes.

use std::collections::BTreeMap;

use model::{PackNumber, PoolId, ServerTime};

use crate::CatalogError;

/// A library of volumes that the server uses: a changer with drives, or a folder of files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LibraryRow {
    pub name: String,
    pub changer: Option<String>,
    pub drives: Vec<String>,
    pub folder: Option<String>,
    /// Capacity of each volume in the folder.
    pub capacity_bytes: Option<u64>,
    /// Maximum number of volumes that are mounted at once.
    pub drives_max: u32,
    /// Time for which an idle volume stays mounted.
    pub retain_secs: u32,
    /// True if a migrated file may be recalled only with a list of files, not by opening it.
    pub optimised_only: bool,
    /// Maximum number of drives that write at once; 0 for the default of the library.
    pub writers_max: u32,
}

/// Use of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VolumeState {
    /// The volume belongs to no pool: any pool may take it.
    Scratch,
    Filling,
    Full,
    /// The volume's data is elsewhere or dead. It is scratch again after its pool's reuse delay.
    Pending,
}

impl VolumeState {
    /// The name of the state, as documents and messages show it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scratch => "scratch",
            Self::Filling => "filling",
            Self::Full => "full",
            Self::Pending => "pending",
        }
    }
}

/// Access to a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VolumeAccess {
    ReadWrite,
    ReadOnly,
    /// The volume is outside of the library.
    Offsite,
    /// The volume should be in the library and is not, or it fails.
    Unavailable,
    /// Nobody will ever read the volume again.
    Destroyed,
}

/// A volume of a library.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeRow {
    /// Number of the volume; 0 for a new one.
    pub id: u64,
    pub library: String,
    pub name: String,
    /// Identity in the volume's label.
    pub label: [u8; 16],
    /// Size of the largest block on the volume, in bytes.
    pub block_bytes: u32,
    /// The pool whose packs the volume holds.
    pub pool: Option<PoolId>,
    /// The node or group whose packs the volume holds, if its pool is collocated; empty otherwise.
    pub group: String,
    pub state: VolumeState,
    pub access: VolumeAccess,
    /// Place of the volume, in words.
    pub location: String,
    /// Size of all data on the volume, live or dead, in bytes.
    pub written_bytes: u64,
    /// Number of failures of the volume.
    pub errors: u32,
    /// Time of the last change of `state`.
    pub changed: ServerTime,
}

/// One part of a pack on a volume. A pack has several parts if a volume ended within it. See
/// `format::volume::Part`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartRow {
    pub volume: u64,
    pub object: [u8; 16],
    /// Number of the object on the volume, from 1.
    pub object_sequence: u32,
    /// Position of the first block.
    pub position: u64,
    pub block_count: u64,
    /// Number of the first block in its object.
    pub first_sequence: u64,
    /// Offset of the first byte in its object.
    pub offset: u64,
    pub bytes: u64,
    /// True if the pack ends with this part.
    pub is_last: bool,
}

/// A part on a volume, with the pack to which it belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VolumePart {
    pub pool: PoolId,
    pub pack: PackNumber,
    pub part: PartRow,
}

/// A pack that a pool has on volumes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredPack {
    pub pack: PackNumber,
    pub bytes: u64,
    pub stored: ServerTime,
}

/// The libraries, their volumes, and the parts of packs on them.
pub trait Volumes {
    /// All libraries, by name.
    fn libraries(&self) -> Result<Vec<LibraryRow>, CatalogError>;

    /// Makes or replaces a library; a known library keeps the spelling of its name.
    fn put_library(&self, library: &LibraryRow) -> Result<(), CatalogError>;

    /// Removes a library, which must have no volume. Fails with `NotFound`.
    fn remove_library(&self, name: &str) -> Result<(), CatalogError>;

    /// All volumes, by library and name.
    fn volumes(&self) -> Result<Vec<VolumeRow>, CatalogError>;

    /// Makes a volume and returns its number. Fails with `NotFound` for an unknown library and
    /// `Exists` for a name that the library knows.
    fn add_volume(&self, volume: &VolumeRow) -> Result<u64, CatalogError>;

    /// Removes a volume. Fails with `NotFound`, and with `Exists` while parts of packs lie on it.
    fn remove_volume(&self, volume: u64) -> Result<(), CatalogError>;

    /// The packs that the pool has on volumes, by number.
    fn stored_packs(&self, pool: PoolId) -> Result<Vec<StoredPack>, CatalogError>;

    /// The parts of the pack that the pool has, in order of offset.
    fn parts(&self, pool: PoolId, pack: PackNumber) -> Result<Vec<PartRow>, CatalogError>;

    /// The parts of packs on the volume, in order of position.
    fn volume_parts(&self, volume: u64) -> Result<Vec<VolumePart>, CatalogError>;

    /// Size in bytes of all parts together, for each volume that has parts.
    fn volume_bytes(&self) -> Result<BTreeMap<u64, u64>, CatalogError>;
}
