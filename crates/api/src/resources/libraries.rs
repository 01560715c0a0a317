//! Libraries with their drives: how they are, how the server uses them, and work at them.

use std::sync::Arc;

use format::volume::VolumeName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::changes::Changes;
use store::nodes::note;
use store::volumes::{
    Devices, DriveState, DriveSummary, Element, ElementKind, LibrarySettings, LibrarySummary,
    LibraryWork, NewLibrary,
};

use crate::call::{Answer, Call};
use crate::caller::{Caller, Subject};
use crate::cursor::ListQuery;
use crate::desk::Desk;
use crate::fields::{Empty, Page, Time};
use crate::operation::Operation;
use crate::patch::Patch;
use crate::problem::Problem;
use crate::roles::{Area, Right};
use crate::routes::Routes;

/// A library.
#[derive(Serialize, JsonSchema)]
struct LibraryDocument {
    name: String,
    /// Address of the changer; absent for a folder of files that stand for volumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    changer: Option<String>,
    /// Addresses of the changer's drives.
    drive_addresses: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    folder: Option<String>,
    /// Size of each volume in the folder; absent for no limit except the disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    capacity_bytes: Option<u64>,
    settings: SettingsDocument,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    away_since: Option<Time>,
    drives: Vec<DriveDocument>,
}

/// Settings by which the server uses a library.
#[derive(Serialize, JsonSchema)]
struct SettingsDocument {
    /// Maximum number of volumes that are mounted at once; 0 for one in each drive.
    mounts_max: u32,
    /// Time for which a volume stays mounted after its last use.
    retain_secs: u32,
    /// Maximum number of drives that write at once; 0 for all but one.
    writers_max: u32,
    /// True if files are recalled from volumes only by lists, and not by opening them.
    optimised_only: bool,
}

/// A library with the places in it.
#[derive(Serialize, JsonSchema)]
struct LibraryDetails {
    #[serde(flatten)]
    library: LibraryDocument,
    /// Places of a changer; none for a folder.
    elements: Vec<ElementDocument>,
}

/// A place in a library.
#[derive(Serialize, JsonSchema)]
struct ElementDocument {
    /// Kind of the place: slot, drive, door or robot.
    kind: &'static str,
    address: u16,
    is_full: bool,
    /// Barcode of the cartridge there.
    #[serde(skip_serializing_if = "Option::is_none")]
    barcode: Option<String>,
}

/// A drive of a library.
#[derive(Serialize, JsonSchema)]
struct DriveDocument {
    address: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    product: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    serial: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    volume: Option<String>,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    wants_cleaning: bool,
    /// Number of errors since the server opened the library: failures of the drive, and volumes
    /// that could not be read or written in it.
    errors: u64,
}

/// A new library: a changer with its drives, or a folder.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewLibraryBody {
    /// 1 to 64 letters, digits, '.', '-' or '_'.
    name: String,
    /// Address of the changer: /dev/sgN or iscsi://HOST[:PORT]/TARGET/LUN.
    changer: Option<String>,
    /// Addresses of the changer's drives, in the order of their elements.
    #[serde(default)]
    drives: Vec<String>,
    /// The folder, as a path from the root.
    folder: Option<String>,
    /// Size of each volume in the folder.
    capacity_bytes: Option<u64>,
    #[serde(default)]
    settings: SettingsBody,
}

/// Settings of a library. One that is absent stays as it is.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct SettingsBody {
    /// Maximum number of volumes that are mounted at once: at most 256; 0 for one in each drive.
    mounts_max: Patch<u32>,
    /// Time for which a volume stays mounted after its last use, at most a day.
    retain_secs: Patch<u32>,
    /// Maximum number of drives that write at once: at most 256; 0 for all but one.
    writers_max: Patch<u32>,
    /// True to recall files from volumes only by lists, and not by opening them.
    optimised_only: Patch<bool>,
}

/// A change of a library.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LibraryChangeBody {
    settings: SettingsBody,
}

/// Work at a library.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LibraryWorkBody {
    work: LibraryWorkName,
    /// Name of the volume to check out, or of the only one to check in.
    volume: Option<String>,
    /// Address of the drive to clean, or to use again.
    drive: Option<u16>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum LibraryWorkName {
    /// Moves the volumes at the door into the library, or the named one of them.
    CheckIn,
    /// Moves a volume to the door, so that a person can take it out.
    CheckOut,
    /// Cleans a drive.
    Clean,
    /// Uses a drive again that has failed.
    RestoreDrive,
    /// Makes the library look into every slot.
    LookAgain,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct LibraryPath {
    /// Name of the library.
    pub(super) library: String,
}

/// Fields that change while the library works.
const VOLATILE: &[&str] = &["problem", "away_since", "drives", "elements"];

pub(super) fn add(routes: &mut Routes) {
    let (all, one, area) = ("/v1/libraries", "/v1/libraries/{library}", Area::Storage);
    let summary = "Lists the libraries with their drives";
    routes.add(Operation::read("libraries.list", all, area, summary), list);
    let summary = "Adds a library; nothing on any volume changes";
    let folder = json!({
        "name": "TL",
        "folder": "/srv/tapes",
        "capacity_bytes": 100_000_000,
    });
    let changer = json!({
        "name": "VAULT",
        "changer": "iscsi://10.0.0.9/iqn.2026-11.example:vault/2",
        "drives": [
            "iscsi://10.0.0.9/iqn.2026-11.example:vault/0",
            "iscsi://10.0.0.9/iqn.2026-11.example:vault/1",
        ],
    });
    let operation = Operation::post("libraries.add", all, area, summary)
        .example("folder", folder)
        .example("changer", changer);
    routes.make(operation, make);
    let summary = "Describes a library with its drives and places";
    let operation = Operation::read("libraries.get", one, area, summary);
    routes.add(operation.volatile(VOLATILE), get);
    let summary = "Changes how the server uses a library";
    let operation = Operation::patch("libraries.change", one, area, summary)
        .example("mounts", json!({ "settings": { "mounts_max": 1, "retain_secs": 0 } }));
    routes.change(operation.volatile(VOLATILE).slow(), current, change);
    let summary = "Removes a library without volumes of any pool; nothing on any volume changes";
    let operation = Operation::delete("libraries.remove", one, area, summary);
    routes.change(operation.volatile(VOLATILE).slow(), current, remove);
    let summary = "Has a library check volumes in or out, clean a drive, or look again";
    let path = "/v1/libraries/{library}/work";
    let operation = Operation::post("libraries.work", path, area, summary)
        .value("library", "VAULT")
        .example("look", json!({ "work": "look-again" }))
        .example("out", json!({ "work": "check-out", "volume": "A00004L8" }))
        .example("in", json!({ "work": "check-in" }));
    routes.add(operation, work);
}

/// Fails unless the caller may read about pools, volumes and libraries.
pub(super) fn check_read<P, Q, B>(call: &Call<P, Q, B>) -> Answer<()> {
    call.caller.check(Area::Storage, Right::Read, Subject::Service)
}

/// Fails unless the caller may change pools, volumes and libraries, and this server may.
pub(super) fn check_change<P, Q, B>(call: &Call<P, Q, B>) -> Answer<()> {
    call.caller.check(Area::Storage, Right::Write, Subject::Service)?;
    Ok(call.desk.store().check_keeps_house()?)
}

fn drive(summary: DriveSummary) -> DriveDocument {
    let state = match summary.state {
        DriveState::Empty => "empty",
        DriveState::Mounting => "mounting",
        DriveState::Idle => "idle",
        DriveState::Reading => "reading",
        DriveState::Writing => "writing",
        DriveState::Failed => "failed",
        DriveState::Away => "away",
    };
    DriveDocument {
        address: summary.address,
        product: summary.product,
        serial: summary.serial,
        volume: summary.volume,
        state,
        problem: summary.problem,
        wants_cleaning: summary.wants_cleaning,
        errors: summary.errors,
    }
}

fn list(call: &mut Call<Empty, ListQuery, Empty>) -> Answer<Page<LibraryDocument>> {
    check_read(call)?;
    let portion = call.query.portion()?;
    let libraries = call.desk.store().volumes.libraries(None, false)?;
    let libraries = libraries.into_iter().map(describe).collect();
    Ok(portion.page_of(libraries, |one: &LibraryDocument| one.name.clone().into_bytes()))
}

fn describe(summary: LibrarySummary) -> LibraryDocument {
    let LibrarySummary { row, problem, away_since, drives, .. } = summary;
    LibraryDocument {
        name: row.name,
        changer: row.changer,
        drive_addresses: row.drives,
        folder: row.folder,
        capacity_bytes: row.capacity_bytes,
        settings: SettingsDocument {
            mounts_max: row.drives_max,
            retain_secs: row.retain_secs,
            writers_max: row.writers_max,
            optimised_only: row.optimised_only,
        },
        problem,
        away_since: away_since.map(Time),
        drives: drives.into_iter().map(drive).collect(),
    }
}

fn element(element: Element) -> ElementDocument {
    ElementDocument {
        kind: match element.kind {
            ElementKind::Slot => "slot",
            ElementKind::Drive => "drive",
            ElementKind::ImportExport => "door",
            ElementKind::Changer => "robot",
        },
        address: element.address,
        is_full: element.is_full,
        barcode: element.barcode,
    }
}

/// Finds a library; with its places only if `looks`, which waits for the robot.
fn find(desk: &Desk, name: &str, looks: bool) -> Answer<LibraryDetails> {
    let mut found = desk.store().volumes.libraries(Some(name), looks)?;
    let absent = || Problem::not_found("library", name);
    let mut summary = found.pop().ok_or_else(absent)?;
    let elements = std::mem::take(&mut summary.elements).into_iter().map(element).collect();
    Ok(LibraryDetails { library: describe(summary), elements })
}

fn get(call: &mut Call<LibraryPath, Empty, Empty>) -> Answer<LibraryDetails> {
    check_read(call)?;
    find(&call.desk, &call.path.library, true)
}

fn current(desk: &Arc<Desk>, caller: &Caller, path: &LibraryPath) -> Answer<Vec<u8>> {
    caller.check(Area::Storage, Right::Write, Subject::Service)?;
    Ok(crate::routes::document(&find(desk, &path.library, false)?))
}

fn settings(body: SettingsBody) -> Answer<LibrarySettings> {
    Ok(LibrarySettings {
        drives_max: body.mounts_max.required("mounts_max")?,
        retain_secs: body.retain_secs.required("retain_secs")?,
        optimised_only: body.optimised_only.required("optimised_only")?,
        writers_max: body.writers_max.required("writers_max")?,
    })
}

fn new_library(body: &NewLibraryBody) -> Answer<NewLibrary> {
    let NewLibraryBody { name, changer, drives, folder, capacity_bytes, .. } = body;
    let devices = match (changer, folder, drives.is_empty()) {
        (Some(address), None, false) if capacity_bytes.is_none() => {
            Devices::Changer { address: address.clone(), drives: drives.clone() }
        }
        (None, Some(path), true) => Devices::Folder { path: path.clone() },
        _ => return Err(Problem::invalid("give a changer with its drives, or a folder")),
    };
    let (name, settings) = (name.clone(), settings(body.settings)?);
    Ok(NewLibrary { name, devices, capacity_bytes: *capacity_bytes, settings })
}

fn make(call: &mut Call<Empty, Empty, NewLibraryBody>) -> Answer<LibraryDocument> {
    check_change(call)?;
    let (store, new) = (call.desk.store(), new_library(&call.body)?);
    let made = store.volumes.add_library(new)?;
    note(store, &call.caller.name, "library added by request", made.row.name.clone())?;
    Ok(describe(made))
}

fn change(call: &mut Call<LibraryPath, Empty, LibraryChangeBody>) -> Answer<LibraryDocument> {
    check_change(call)?;
    let (store, settings) = (call.desk.store(), settings(call.body.settings)?);
    let before = find(&call.desk, &call.path.library, false)?.library;
    let after = describe(store.volumes.change_library(&before.name, settings)?);
    let words = differences(&before.settings, &after.settings).of(&before.name);
    note(store, &call.caller.name, "library changed by request", words)?;
    Ok(after)
}

fn differences(before: &SettingsDocument, after: &SettingsDocument) -> Changes {
    let word = |settings: &SettingsDocument| if settings.optimised_only { "yes" } else { "no" };
    let mut changes = Changes::default();
    changes.compare("mounts at once", before.mounts_max, after.mounts_max);
    changes.compare("seconds mounted", before.retain_secs, after.retain_secs);
    changes.compare("writers at once", before.writers_max, after.writers_max);
    changes.compare("recalls by lists only", word(before), word(after));
    changes
}

fn remove(call: &mut Call<LibraryPath, Empty, Empty>) -> Answer<Empty> {
    check_change(call)?;
    let store = call.desk.store();
    let removed = store.volumes.remove_library(&call.path.library)?;
    note(store, &call.caller.name, "library removed by request", removed.row.name)?;
    Ok(Empty {})
}

fn volume_name(name: &str) -> Answer<VolumeName> {
    let wrong = |error| Problem::invalid(format!("{}: {error}", name.escape_debug()));
    VolumeName::new(name).map_err(wrong)
}

fn order(body: &LibraryWorkBody) -> Answer<LibraryWork> {
    let LibraryWorkBody { work, volume, drive } = body;
    match (work, volume, drive) {
        (LibraryWorkName::CheckIn, None, None) => Ok(LibraryWork::CheckIn),
        (LibraryWorkName::CheckIn, Some(volume), None) => {
            Ok(LibraryWork::CheckInVolume(volume_name(volume)?))
        }
        (LibraryWorkName::CheckOut, Some(volume), None) => {
            Ok(LibraryWork::CheckOut(volume_name(volume)?))
        }
        (LibraryWorkName::Clean, None, Some(drive)) => Ok(LibraryWork::Clean(*drive)),
        (LibraryWorkName::RestoreDrive, None, Some(drive)) => Ok(LibraryWork::RestoreDrive(*drive)),
        (LibraryWorkName::LookAgain, None, None) => Ok(LibraryWork::LookAgain),
        _ => Err(Problem::invalid("check-out names a volume, clean and restore-drive a drive")),
    }
}

fn work(call: &mut Call<LibraryPath, Empty, LibraryWorkBody>) -> Answer<Empty> {
    check_change(call)?;
    let work = order(&call.body)?;
    let (store, library) = (call.desk.store(), &call.path.library);
    store.volumes.serve_library(library, &work)?;
    note(store, &call.caller.name, "work at a library", format!("{library}: {work:?}"))?;
    Ok(Empty {})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_a_changer_or_a_folder() {
        let of = |json: &str| new_library(&serde_json::from_str(json).expect("a body"));
        let folder = of(r#"{"name":"A","folder":"/srv/a","capacity_bytes":9}"#).expect("is right");
        assert_eq!(folder.devices, Devices::Folder { path: "/srv/a".to_owned() });
        assert_eq!(folder.capacity_bytes, Some(9));
        assert!(of(r#"{"name":"A","changer":"/dev/sg1","drives":["/dev/sg2"]}"#).is_ok());
        for wrong in [
            r#"{"name":"A"}"#,
            r#"{"name":"A","changer":"/dev/sg1"}"#,
            r#"{"name":"A","folder":"/srv/a","drives":["/dev/sg2"]}"#,
            r#"{"name":"A","changer":"/dev/sg1","drives":["/dev/sg2"],"capacity_bytes":9}"#,
        ] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn work_names_what_it_needs() {
        let of = |json: &str| order(&serde_json::from_str(json).expect("a body"));
        assert_eq!(of(r#"{"work":"check-in"}"#), Ok(LibraryWork::CheckIn));
        let named = VolumeName::new("A00004L8").expect("a name");
        let one = of(r#"{"work":"check-in","volume":"A00004L8"}"#);
        assert_eq!(one, Ok(LibraryWork::CheckInVolume(named)));
        assert_eq!(of(r#"{"work":"clean","drive":256}"#), Ok(LibraryWork::Clean(256)));
        for wrong in [
            r#"{"work":"check-out"}"#,
            r#"{"work":"check-out","volume":"a b"}"#,
            r#"{"work":"check-in","volume":"a b"}"#,
            r#"{"work":"check-in","drive":1}"#,
            r#"{"work":"clean"}"#,
            r#"{"work":"look-again","drive":1}"#,
        ] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
