//! Libraries with their drives, and work at them.

use format::volume::VolumeName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::nodes::note;
use store::volumes::{DriveState, DriveSummary, LibrarySummary, LibraryWork};

use crate::call::{Answer, Call};
use crate::caller::Subject;
use crate::cursor::Portion;
use crate::fields::{Empty, Page, Time};
use crate::operation::Operation;
use crate::problem::Problem;
use crate::roles::{Area, Right};
use crate::routes::Routes;

/// A library.
#[derive(Serialize, JsonSchema)]
struct LibraryDocument {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    away_since: Option<Time>,
    drives: Vec<DriveDocument>,
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
}

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

#[derive(Deserialize, JsonSchema)]
struct ListQuery {
    /// Maximum number of items: 1 to 1000.
    limit: Option<u32>,
    /// Cursor that an earlier page gave.
    cursor: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct LibraryPath {
    /// Name of the library.
    library: String,
}

pub(super) fn add(routes: &mut Routes) {
    let area = Area::Storage;
    let summary = "Lists the libraries with their drives";
    routes.add(Operation::read("libraries.list", "/v1/libraries", area, summary), list);
    let summary = "Has a library check volumes in or out, clean a drive, or look again";
    let path = "/v1/libraries/{library}/work";
    routes.add(Operation::post("libraries.work", path, area, summary), work);
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
    }
}

fn list(call: &mut Call<Empty, ListQuery, Empty>) -> Answer<Page<LibraryDocument>> {
    check_read(call)?;
    let portion = Portion::parse(call.query.limit, call.query.cursor.as_deref())?;
    let libraries = call.desk.store().volumes.libraries(None, false)?;
    let describe = |LibrarySummary { row, problem, away_since, drives, .. }| LibraryDocument {
        name: row.name,
        problem,
        away_since: away_since.map(Time),
        drives: drives.into_iter().map(drive).collect(),
    };
    let libraries = libraries.into_iter().map(describe).collect();
    Ok(portion.page_of(libraries, |one: &LibraryDocument| one.name.clone().into_bytes()))
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
}
