//! What went wrong, in one line, and what to do next.

use std::io;

use ::tape::library::{LibraryError, OpenError};
use ::tape::medium::MediumError;
use ::tape::transport::Address;
use ::tape::volume::VolumeError;
use format::volume::VolumeName;
use serde::Serialize;

use crate::commands::{Context, DONE};
use crate::error::{CommandError, FAILED, NOT_DONE, WARNED};
use crate::output;
use crate::path::JsonPath;

/// Something that was not done, while others were.
#[derive(Debug)]
pub(super) struct Failure {
    /// The file, object or volume.
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

/// Says all of `failures` and `warnings` on standard error; returns the exit code of a command that
/// has done `done` of what it should.
pub(super) fn tell(
    failures: &[Failure],
    warnings: &[String],
    done: usize,
    context: &mut Context,
) -> u8 {
    // What is on standard output comes first.
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

fn told(error: &dyn std::error::Error, hint: Option<&str>) -> CommandError {
    CommandError { hint: hint.map(str::to_owned), ..CommandError::chain(error) }
}

pub(super) fn of_volume(error: &VolumeError) -> CommandError {
    let hint = match error {
        VolumeError::Blank => "'holdfast tape label' labels it",
        VolumeError::Foreign(_) => {
            "it is left alone; 'holdfast tape label --overwrite=anything' would destroy that"
        }
        VolumeError::Labelled(_) => "'holdfast tape label --overwrite' would destroy what it holds",
        VolumeError::Another { .. } => {
            "its barcode and its label differ; look at it, and label it if its content may go"
        }
        VolumeError::Damaged { .. } | VolumeError::WrongPlace { .. } => {
            "try another drive, after cleaning; if it stays so, read another copy"
        }
        VolumeError::Handover(_) => return told(error, None),
        VolumeError::Medium(error) => return of_medium(error),
    };
    told(error, Some(hint))
}

pub(super) fn of_medium(error: &MediumError) -> CommandError {
    let hint = match error {
        MediumError::EndOfMedium => "go on with another volume",
        MediumError::WriteProtected => {
            "move the tab of the cartridge, or 'chmod u+w' the file, if it may be written"
        }
        MediumError::Damaged { .. } | MediumError::WrongPlace { .. } => {
            "try another drive, after cleaning; if it stays so, read another copy"
        }
        MediumError::NoMedium => "'holdfast tape inventory' shows what is where",
        MediumError::PositionLost => "the drive was reset, or somebody else uses it; try again",
        MediumError::Failed(_) => "the volume may be good: look after the drive, use another one",
        MediumError::EndOfData { .. } => return told(error, None),
    };
    told(error, Some(hint))
}

pub(super) fn of_library(error: &LibraryError) -> CommandError {
    let hint = match error {
        LibraryError::NotFound(_) => {
            "'holdfast tape inventory' shows what is there; '--scan' has the robot look again"
        }
        LibraryError::InUse(_) => "'holdfast tape dismount' puts it away",
        LibraryError::NoDrive => "a drive that has failed has to be looked after first",
        LibraryError::NoRoom(_) => {
            "take cartridges out: 'holdfast tape checkout' hands over those of slots"
        }
        LibraryError::NoCleaner => "put a cartridge into the library whose barcode begins with CLN",
        LibraryError::Volume { source, .. } => return of_volume(source),
        LibraryError::Drive { .. } => {
            "the volume may be good: look after the drive, use another one"
        }
        LibraryError::Changer(_) => "'holdfast tape inventory' shows what is where now",
    };
    told(error, Some(hint))
}

pub(super) fn of_opening(error: &OpenError, drives: &[Address]) -> CommandError {
    match error {
        OpenError::Changer(_) => {
            told(error, Some("'lsscsi -g' shows changers as mediumx, drives as tape"))
        }
        OpenError::Drive { index, source } => {
            let address = drives.get(*index).map(ToString::to_string).unwrap_or_default();
            let source = CommandError::chain(source);
            CommandError {
                message: format!("drive {address} does not answer as one: {}", source.message),
                hint: Some(
                    "until it is repaired, give the library without it: 'holdfast tape add' \
                     replaces one of the same name"
                        .to_owned(),
                ),
            }
        }
    }
}

pub(super) fn of_address(address: &Address, error: &io::Error) -> CommandError {
    let hint = match (error.kind(), address) {
        (io::ErrorKind::Unsupported, _) => Some("install libiscsi7 (Debian) or libiscsi (Fedora)"),
        (io::ErrorKind::PermissionDenied, _) => Some("root may use it, or who is in its group"),
        (io::ErrorKind::NotFound, Address::Local(_)) => {
            Some("'lsscsi -g' shows the devices; 'modprobe sg' makes them appear")
        }
        _ => None,
    };
    // What libiscsi says has line ends in it.
    let error = error.to_string().replace('\n', " ");
    CommandError {
        message: format!("cannot use {address}: {}", error.trim_end()),
        hint: hint.map(str::to_owned),
    }
}
