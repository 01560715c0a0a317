//! The elements of a library and the volumes in them, or the volumes of a folder.

use std::io;

use format::DamageError;
use format::volume::{ForeignContent, Label, VolumeName};

use crate::file_volume::FileVolumes;
use crate::library::Library;
use crate::medium::Medium as _;
use crate::scsi::{Element, ElementKind};
use crate::volume::{self, Identification, VolumeError};

/// Free bytes above which a file volume has no capacity of its own to show, because its file system
/// is full first.
const LEFT_BYTES_MAX: u64 = u64::MAX >> 1;

/// The content of an element, as far as the changer can tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ElementContent {
    Empty,
    CleaningCartridge,
    /// A volume. Its label is unknown until the volume is mounted.
    Volume,
    /// A cartridge whose barcode is not a valid name of a volume.
    OtherBarcode,
    NoBarcode,
}

/// One element of a library.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ElementEntry {
    pub address: u16,
    pub kind: ElementKind,
    pub barcode: Option<String>,
    pub content: ElementContent,
    /// Additional sense code and qualifier, if the element has a fault.
    pub exception: Option<u16>,
}

/// The content of a file that stands for a tape.
#[derive(Debug)]
pub enum FileContent {
    Labelled {
        label: Label,
        is_protected: bool,
        /// Bytes up to the end of data; `None` if the end cannot be found.
        used_bytes: Option<u64>,
        /// Free bytes; `None` for a volume without a capacity of its own.
        left_bytes: Option<u64>,
    },
    Unlabelled,
    Foreign(ForeignContent),
    Damaged(DamageError),
    Unreadable(VolumeError),
}

/// A volume of a folder.
#[derive(Debug)]
pub struct FileEntry {
    pub name: VolumeName,
    pub content: FileContent,
}

/// Returns all elements of a library, as its last refresh found them.
pub fn of_library(library: &Library) -> Vec<ElementEntry> {
    let volumes = library.volumes();
    let entry = |element: &Element| {
        let listed = volumes.iter().find(|listed| listed.address == element.address);
        let content = match (element.is_full, listed) {
            (false, _) => ElementContent::Empty,
            (true, Some(listed)) if listed.is_cleaning => ElementContent::CleaningCartridge,
            (true, Some(_)) => ElementContent::Volume,
            (true, None) if element.barcode.is_some() => ElementContent::OtherBarcode,
            (true, None) => ElementContent::NoBarcode,
        };
        ElementEntry {
            address: element.address,
            kind: element.kind,
            barcode: element.barcode.clone(),
            content,
            exception: element.exception,
        }
    };
    library.elements().iter().map(entry).collect()
}

/// Returns all volumes of a folder, each with its content.
pub fn of_folder(volumes: &FileVolumes) -> io::Result<Vec<FileEntry>> {
    let entry = |name: VolumeName| {
        let content = file_content(volumes, &name).unwrap_or_else(FileContent::Unreadable);
        FileEntry { name, content }
    };
    Ok(volumes.names()?.into_iter().map(entry).collect())
}

fn file_content(volumes: &FileVolumes, name: &VolumeName) -> Result<FileContent, VolumeError> {
    let mut medium = volumes.medium(name)?;
    let label = match volume::identify(&mut medium)? {
        Identification::Ours(label) => label,
        Identification::Blank => return Ok(FileContent::Unlabelled),
        Identification::Foreign(foreign) => return Ok(FileContent::Foreign(foreign)),
        Identification::Damaged(damaged) => return Ok(FileContent::Damaged(damaged)),
    };
    let left_bytes = medium.remaining_bytes().ok().flatten();
    Ok(FileContent::Labelled {
        label,
        is_protected: medium.is_write_protected().unwrap_or(true),
        used_bytes: medium.locate_end().and_then(|()| medium.position()).ok(),
        left_bytes: left_bytes.filter(|&left| left < LEFT_BYTES_MAX),
    })
}
