//! Libraries.

use format::volume::VolumeName;
use store::StoreError;
use store::volumes::{
    Devices, DriveState, DriveSummary, Element, ElementKind, LibraryOutage, LibrarySettings,
    LibrarySummary, LibraryWork, NewLibrary,
};
use wire::proto;
use wire::proto::library_drive::State;
use wire::proto::library_element::Kind;
use wire::proto::serve_library_request::Work;

pub(crate) fn library(info: LibrarySummary) -> proto::Library {
    let LibrarySummary { row, problem, away_since, drives, elements } = info;
    proto::Library {
        name: row.name,
        changer: row.changer.unwrap_or_default(),
        drive_addresses: row.drives,
        folder: row.folder.unwrap_or_default(),
        capacity_bytes: row.capacity_bytes,
        drives_max: row.drives_max,
        retain_secs: row.retain_secs,
        optimised_only: row.optimised_only,
        problem: problem.unwrap_or_default(),
        drives: drives.into_iter().map(drive).collect(),
        elements: elements.into_iter().map(element).collect(),
        away_since: away_since.map(|since| since.0),
        writers_max: row.writers_max,
    }
}

pub(crate) fn outage(outage: LibraryOutage) -> proto::LibraryOutage {
    let LibraryOutage { library, drive, since } = outage;
    proto::LibraryOutage { library, drive: drive.map(u32::from), since: since.0 }
}

fn drive(drive: DriveSummary) -> proto::LibraryDrive {
    let state = match drive.state {
        DriveState::Empty => State::Empty,
        DriveState::Mounting => State::Mounting,
        DriveState::Idle => State::Idle,
        DriveState::Reading => State::Reading,
        DriveState::Writing => State::Writing,
        DriveState::Failed => State::Failed,
        DriveState::Away => State::Away,
    };
    proto::LibraryDrive {
        address: drive.address.into(),
        product: drive.product.unwrap_or_default(),
        serial: drive.serial.unwrap_or_default(),
        volume: drive.volume.unwrap_or_default(),
        state: state.into(),
        problem: drive.problem.unwrap_or_default(),
        wants_cleaning: drive.wants_cleaning,
        away_since: drive.away_since.map(|since| since.0),
    }
}

fn element(element: Element) -> proto::LibraryElement {
    let kind = match element.kind {
        ElementKind::Slot => Kind::Slot,
        ElementKind::Drive => Kind::Drive,
        ElementKind::ImportExport => Kind::ImportExport,
        ElementKind::Changer => Kind::Robot,
    };
    proto::LibraryElement {
        kind: kind.into(),
        address: element.address.into(),
        is_full: element.is_full,
        barcode: element.barcode.unwrap_or_default(),
    }
}

pub(crate) fn settings(request: &proto::PutLibraryRequest) -> LibrarySettings {
    let proto::PutLibraryRequest { drives_max, retain_secs, optimised_only, writers_max, .. } =
        *request;
    LibrarySettings { drives_max, retain_secs, optimised_only, writers_max }
}

/// Parses a request to make a library.
pub(crate) fn new_library(request: proto::PutLibraryRequest) -> Result<NewLibrary, StoreError> {
    let settings = settings(&request);
    let proto::PutLibraryRequest { name, changer, drive_addresses, folder, .. } = request;
    let devices = match (changer.is_empty(), folder.is_empty()) {
        (false, true) if drive_addresses.is_empty() => {
            return Err(StoreError::usage("give the drives of the changer too"));
        }
        (false, true) => Devices::Changer { address: changer, drives: drive_addresses },
        (true, false) => Devices::Folder { path: folder },
        _ => {
            let text = "give either a changer with its drives or a folder";
            return Err(StoreError::usage(text));
        }
    };
    Ok(NewLibrary { name, devices, capacity_bytes: request.capacity_bytes, settings })
}

pub(crate) fn work(work: Option<Work>) -> Result<LibraryWork, StoreError> {
    Ok(match work.ok_or_else(|| StoreError::malformed("the request names no work"))? {
        Work::CheckIn(_) => LibraryWork::CheckIn,
        Work::CheckInVolume(volume) => LibraryWork::CheckInVolume(volume_name(&volume)?),
        Work::CheckOut(volume) => LibraryWork::CheckOut(volume_name(&volume)?),
        Work::Clean(drive) => LibraryWork::Clean(address(drive)?),
        Work::RestoreDrive(drive) => LibraryWork::RestoreDrive(address(drive)?),
        Work::LookAgain(_) => LibraryWork::LookAgain,
    })
}

fn volume_name(volume: &str) -> Result<VolumeName, StoreError> {
    VolumeName::new(volume).map_err(|error| StoreError::usage(format!("{volume}: {error}")))
}

fn address(drive: u32) -> Result<u16, StoreError> {
    let absent = |_| StoreError::not_found(format!("there is no drive {drive} in the library"));
    u16::try_from(drive).map_err(absent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_either_a_changer_or_a_folder() {
        let check = |changer: &str, drives: &[&str], folder: &str, is_usable: bool| {
            let request = proto::PutLibraryRequest {
                changer: changer.to_owned(),
                drive_addresses: drives.iter().map(ToString::to_string).collect(),
                folder: folder.to_owned(),
                ..proto::PutLibraryRequest::default()
            };
            assert_eq!(new_library(request).is_ok(), is_usable, "{changer} {drives:?} {folder}");
        };
        check("/dev/sch0", &["/dev/nst0"], "", true);
        check("", &[], "/srv/vault", true);
        check("/dev/sch0", &[], "", false);
        check("/dev/sch0", &["/dev/nst0"], "/srv/vault", false);
        check("", &["/dev/nst0"], "", false);
    }

    #[test]
    fn work_names_volumes_and_drives_that_can_be() {
        assert_eq!(work(Some(Work::RestoreDrive(7))), Ok(LibraryWork::RestoreDrive(7)));
        assert!(work(Some(Work::RestoreDrive(70_000))).is_err());
        assert!(work(Some(Work::CheckOut("a volume".to_owned()))).is_err());
        assert!(work(Some(Work::CheckInVolume("a volume".to_owned()))).is_err());
        assert!(work(None).is_err());
    }
}
