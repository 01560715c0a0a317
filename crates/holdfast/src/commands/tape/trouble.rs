//! Errors of volumes and libraries: each on one line, with the next step.

use std::io;

use ::tape::address::Address;
use ::tape::depot::{Depot, DepotError, OpenError};
use ::tape::library::LibraryError;
use ::tape::manual::{FileError, FileFailure, PieceError, PieceFailure};
use ::tape::medium::MediumError;
use ::tape::volume::VolumeError;
use format::volume::VolumeName;
use serde::Serialize;

use crate::context::Context;
use crate::error::{CommandError, DONE, FAILED, NOT_DONE, WARNED};
use crate::output;
use crate::path::{self, JsonPath};

/// Failure of a command with one object, file or volume, while it continued with others.
#[derive(Debug)]
pub(super) struct Failure {
    /// The name of the object, file or volume.
    pub(super) what: Vec<u8>,
    pub(super) why: CommandError,
}

impl Failure {
    pub(super) fn new(what: &[u8], why: impl Into<String>) -> Self {
        Self { what: what.to_vec(), why: CommandError::new(why) }
    }

    pub(super) fn of_volume(name: &VolumeName, why: CommandError) -> Self {
        Self { what: name.as_str().as_bytes().to_vec(), why }
    }

    pub(super) fn of_piece(failure: PieceFailure) -> Self {
        Self { what: failure.name, why: of_piece(&failure.error) }
    }

    pub(super) fn of_file(failure: &FileFailure) -> Self {
        Self { what: path::bytes(&failure.path), why: of_file(&failure.error) }
    }

    pub(super) fn document(&self) -> FailureDocument<'_> {
        FailureDocument {
            what: JsonPath(&self.what),
            error: &self.why.message,
            hint: self.why.hint.as_deref(),
        }
    }
}

/// A failure in a document.
#[derive(Serialize)]
pub(super) struct FailureDocument<'a> {
    what: JsonPath<'a>,
    error: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
}

pub(super) fn documents(failures: &[Failure]) -> Vec<FailureDocument<'_>> {
    failures.iter().map(Failure::document).collect()
}

/// Writes `failures` and `warnings` to standard error. Returns the exit code of a command that has
/// done `done` of its tasks.
pub(super) fn tell(
    failures: &[Failure],
    warnings: &[String],
    done: usize,
    context: &mut Context,
) -> u8 {
    // The flush puts results before failures where a terminal shows both.
    context.output.flush();
    for failure in failures {
        output::say(&format!("{}: {}", model::escaped(&failure.what), failure.why.message));
        if let Some(hint) = &failure.why.hint {
            output::say(&format!("  {hint}"));
        }
    }
    warnings.iter().for_each(|warning| output::say(&format!("Warning: {warning}")));
    match (failures, warnings) {
        ([], []) => DONE,
        ([], _) => WARNED,
        _ if done == 0 => NOT_DONE,
        _ => FAILED,
    }
}

/// Returns the warnings of a depot since the last call.
pub(super) fn warnings(depot: &mut Depot) -> Vec<String> {
    let warnings = depot.take_warnings();
    warnings.iter().map(|warning| CommandError::chain(warning).message).collect()
}

fn with_hint(error: &dyn std::error::Error, hint: Option<&str>) -> CommandError {
    CommandError { hint: hint.map(str::to_owned), ..CommandError::chain(error) }
}

pub(super) fn of_volume(error: &VolumeError) -> CommandError {
    let hint = match error {
        VolumeError::Blank => "'holdfast tape label' labels it",
        VolumeError::Foreign(_) => {
            "'holdfast tape label --overwrite=anything' would destroy the content of the volume"
        }
        VolumeError::Labelled(_) => {
            "'holdfast tape label --overwrite' would destroy the content of the volume"
        }
        VolumeError::Another { .. } => {
            "check the volume, and label it with '--overwrite' if its content may be destroyed"
        }
        VolumeError::Damaged { .. } | VolumeError::WrongPlace { .. } => {
            "clean the drive or try another drive; if the error remains, read another copy"
        }
        VolumeError::Handover(_) => return with_hint(error, None),
        VolumeError::Medium(error) => return of_medium(error),
    };
    with_hint(error, Some(hint))
}

fn of_medium(error: &MediumError) -> CommandError {
    let hint = match error {
        MediumError::EndOfMedium => "continue with another volume",
        MediumError::WriteProtected => {
            "to write, move the tab of the cartridge, or use 'chmod u+w' on the file"
        }
        MediumError::Damaged { .. } | MediumError::WrongPlace { .. } => {
            "clean the drive or try another drive; if the error remains, read another copy"
        }
        MediumError::NoMedium => "'holdfast tape inventory' shows where each volume is",
        MediumError::PositionLost => "the drive was reset, or another program uses it; try again",
        MediumError::Failed(_) => "the volume may be good: check the drive, and use another drive",
        MediumError::EndOfData { .. } => return with_hint(error, None),
    };
    with_hint(error, Some(hint))
}

pub(super) fn of_depot(error: &DepotError) -> CommandError {
    let hint = match error {
        DepotError::NotInFolder { .. } => Some("'holdfast tape label' makes the volume"),
        DepotError::NoLibrary(_) | DepotError::Cleaner(_) | DepotError::Elsewhere { .. } => None,
        DepotError::Library(error) => return of_library(error),
        DepotError::Volume(error) => return of_volume(error),
    };
    with_hint(error, hint)
}

pub(super) fn of_library(error: &LibraryError) -> CommandError {
    let hint = match error {
        LibraryError::NotFound(_) => {
            "'holdfast tape inventory --scan' shows all volumes after a new inspection"
        }
        LibraryError::InUse(_) => "'holdfast tape dismount' puts the volume into a slot",
        LibraryError::NoDrive => "wait until a drive is free, or check the drives that have failed",
        LibraryError::UnknownDrive(_) => {
            "'holdfast tape drives' shows the drives with their elements"
        }
        LibraryError::DriveNotFree(_) => {
            "wait until the drive is free, or check it if it has failed"
        }
        LibraryError::NoRoom(_) => {
            "take cartridges out: 'holdfast tape checkout' moves a volume out of its slot"
        }
        LibraryError::NoCleaner => {
            "put a cleaning cartridge, whose barcode begins with CLN, into the library"
        }
        LibraryError::Volume { source, .. } => return of_volume(source),
        LibraryError::Drive { .. } => {
            "the volume may be good: check the drive, and use another drive"
        }
        LibraryError::Changer(_) => "'holdfast tape inventory' shows where each volume is now",
    };
    with_hint(error, Some(hint))
}

pub(super) fn of_opening(error: &OpenError) -> CommandError {
    let hint = match error {
        OpenError::FolderInUse(_) => Some("try again when that process has ended"),
        OpenError::LibraryInUse(_) => {
            Some("try again when that process has ended; a running server keeps its libraries")
        }
        OpenError::Device { address, source } => of_address(address, source),
        OpenError::Changer(_) => Some("'lsscsi -g' shows changers as mediumx, drives as tape"),
        OpenError::Drive { .. } => Some(
            "until the drive is repaired, add the library without it: 'holdfast tape add' replaces \
             a library of the same name",
        ),
        OpenError::NoFolder(_) | OpenError::Folder { .. } | OpenError::Lock { .. } => None,
    };
    with_hint(error, hint)
}

fn of_address(address: &Address, error: &io::Error) -> Option<&'static str> {
    match (error.kind(), address) {
        (io::ErrorKind::Unsupported, _) => Some("install libiscsi7 (Debian) or libiscsi (Fedora)"),
        (io::ErrorKind::PermissionDenied, _) => {
            Some("only root and the members of the device's group may use it")
        }
        (io::ErrorKind::NotFound, Address::Local(_)) => {
            Some("'lsscsi -g' shows the devices; 'modprobe sg' makes them appear")
        }
        _ => None,
    }
}

fn of_piece(error: &PieceError) -> CommandError {
    match error {
        PieceError::Volume(error) => of_volume(error),
        error => with_hint(error, None),
    }
}

fn of_file(error: &FileError) -> CommandError {
    let hint = match error {
        FileError::InDoubt(_) => Some(
            "'holdfast tape read --list' shows the objects on the volume; write the file again \
             if it is missing",
        ),
        _ => None,
    };
    with_hint(error, hint)
}

/// Returns one failure of the volume for each of the positions.
pub(super) fn unreadable(name: &VolumeName, positions: &[u64]) -> Vec<Failure> {
    let failure = |position: &u64| {
        let why = format!("position {position} cannot be read");
        Failure::new(name.as_str().as_bytes(), why)
    };
    positions.iter().map(failure).collect()
}
