//! Work at libraries and with volumes.

use catalog::VolumeAccess;
use format::volume::VolumeName;
use schemars::JsonSchema;
use serde::Deserialize;
use store::nodes::note;
use store::volumes::{LibraryWork, VolumeChange};

use crate::call::{Answer, Call};
use crate::caller::Subject;
use crate::fields::Empty;
use crate::operation::Operation;
use crate::problem::Problem;
use crate::roles::{Area, Right};
use crate::routes::Routes;

/// Work at a library.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LibraryWorkBody {
    work: LibraryWorkName,
    /// Name of the volume to check out.
    volume: Option<String>,
    /// Address of the drive to clean, or to use again.
    drive: Option<u16>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum LibraryWorkName {
    /// Moves the volumes at the door into the library.
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

/// A change of a volume. One of the fields must be given.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct VolumeBody {
    access: Option<AccessName>,
    /// Place to which the volume was taken.
    offsite: Option<String>,
    /// True for a volume that came back.
    #[serde(default)]
    onsite: bool,
    /// True to forget a volume without data that anybody needs.
    #[serde(default)]
    remove: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum AccessName {
    ReadWrite,
    ReadOnly,
    Unavailable,
    /// Nobody will ever read the volume again.
    Destroyed,
}

#[derive(Deserialize, JsonSchema)]
struct LibraryPath {
    /// Name of the library.
    library: String,
}

#[derive(Deserialize, JsonSchema)]
struct VolumePath {
    /// Name of the library.
    library: String,
    /// Name of the volume.
    volume: String,
}

#[derive(Deserialize, JsonSchema)]
struct WaitPath {
    /// Number of the reader.
    wait: u64,
}

pub(super) fn add(routes: &mut Routes) {
    let area = Area::Storage;
    let summary = "Has a library check volumes in or out, clean a drive, or look again";
    let path = "/v1/libraries/{library}/work";
    routes.add(Operation::post("libraries.work", path, area, summary), work);
    let summary = "Changes the access or the place of a volume";
    let path = "/v1/libraries/{library}/volumes/{volume}";
    routes.add(Operation::patch("volumes.change", path, area, summary), change);
    let summary = "Takes a reader out of the recall queue; its work fails";
    let path = "/v1/recall-queue/{wait}";
    routes.add(Operation::delete("recall-queue.cancel", path, area, summary), cancel);
}

fn check<P, Q, B>(call: &Call<P, Q, B>) -> Answer<()> {
    call.caller.check(Area::Storage, Right::Write, Subject::Service)?;
    Ok(call.desk.store().check_keeps_house()?)
}

fn order(body: &LibraryWorkBody) -> Answer<LibraryWork> {
    let LibraryWorkBody { work, volume, drive } = body;
    match (work, volume, drive) {
        (LibraryWorkName::CheckIn, None, None) => Ok(LibraryWork::CheckIn),
        (LibraryWorkName::CheckOut, Some(volume), None) => {
            let wrong = |error| Problem::invalid(format!("{}: {error}", volume.escape_debug()));
            Ok(LibraryWork::CheckOut(VolumeName::new(volume).map_err(wrong)?))
        }
        (LibraryWorkName::Clean, None, Some(drive)) => Ok(LibraryWork::Clean(*drive)),
        (LibraryWorkName::RestoreDrive, None, Some(drive)) => Ok(LibraryWork::RestoreDrive(*drive)),
        (LibraryWorkName::LookAgain, None, None) => Ok(LibraryWork::LookAgain),
        _ => Err(Problem::invalid("check-out names a volume, clean and restore-drive a drive")),
    }
}

fn work(call: &mut Call<LibraryPath, Empty, LibraryWorkBody>) -> Answer<Empty> {
    check(call)?;
    let work = order(&call.body)?;
    let (store, library) = (call.desk.store(), &call.path.library);
    store.volumes.serve_library(library, &work)?;
    note(store, &call.caller.name, "work at a library", format!("{library}: {work:?}"))?;
    Ok(Empty {})
}

fn volume_change(body: &VolumeBody) -> Answer<VolumeChange> {
    let access = body.access.map(|access| match access {
        AccessName::ReadWrite => VolumeAccess::ReadWrite,
        AccessName::ReadOnly => VolumeAccess::ReadOnly,
        AccessName::Unavailable => VolumeAccess::Unavailable,
        AccessName::Destroyed => VolumeAccess::Destroyed,
    });
    match (access, &body.offsite, body.onsite, body.remove) {
        (Some(access), None, false, false) => Ok(VolumeChange::Access(access)),
        (None, Some(place), false, false) => Ok(VolumeChange::Offsite { location: place.clone() }),
        (None, None, true, false) => Ok(VolumeChange::Onsite),
        (None, None, false, true) => Ok(VolumeChange::Remove),
        _ => Err(Problem::invalid("give one of access, offsite, onsite and remove")),
    }
}

fn change(call: &mut Call<VolumePath, Empty, VolumeBody>) -> Answer<Empty> {
    check(call)?;
    let change = volume_change(&call.body)?;
    let (store, VolumePath { library, volume }) = (call.desk.store(), &call.path);
    store.volumes.set(Some(library), volume, &change)?;
    let details = format!("{volume} of library {library}: {change:?}");
    note(store, &call.caller.name, "volume changed", details)?;
    Ok(Empty {})
}

fn cancel(call: &mut Call<WaitPath, Empty, Empty>) -> Answer<Empty> {
    check(call)?;
    let store = call.desk.store();
    let number = call.path.wait;
    let is_waiting = store.volumes.queue(None)?.iter().any(|entry| entry.number == number);
    if !is_waiting {
        return Err(Problem::not_found("reader in the recall queue", &number.to_string()));
    }
    store.volumes.queue(Some(number))?;
    note(store, &call.caller.name, "recall cancelled", number.to_string())?;
    Ok(Empty {})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_names_what_it_needs() {
        let of = |json: &str| order(&serde_json::from_str(json).expect("a body"));
        assert_eq!(of(r#"{"work":"check-in"}"#), Ok(LibraryWork::CheckIn));
        assert_eq!(of(r#"{"work":"clean","drive":256}"#), Ok(LibraryWork::Clean(256)));
        for wrong in [
            r#"{"work":"check-out"}"#,
            r#"{"work":"check-out","volume":"a b"}"#,
            r#"{"work":"clean"}"#,
            r#"{"work":"look-again","drive":1}"#,
        ] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_change_of_a_volume_is_one_change() {
        let of = |json: &str| volume_change(&serde_json::from_str(json).expect("a body"));
        assert_eq!(of(r#"{"onsite":true}"#), Ok(VolumeChange::Onsite));
        let read_only = VolumeChange::Access(VolumeAccess::ReadOnly);
        assert_eq!(of(r#"{"access":"read-only"}"#), Ok(read_only));
        for wrong in ["{}", r#"{"onsite":true,"remove":true}"#, r#"{"offsite":"x","remove":true}"#]
        {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
