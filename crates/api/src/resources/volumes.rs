//! Volumes of libraries: labelled, changed and removed.

use std::sync::Arc;

use catalog::VolumeAccess;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::nodes::note;
use store::volumes::{VolumeChange, VolumeFilter, VolumeKey, VolumeSummary};
use store::{Store, StoreError};

use super::libraries::{LibraryPath, check_change, check_read};
use super::orders::VolumeLabel;
use crate::approval;
use crate::call::{Answer, Call};
use crate::caller::{Caller, Subject};
use crate::cursor::Portion;
use crate::desk::Desk;
use crate::fields::{Empty, Page, Time};
use crate::operation::Operation;
use crate::patch::Patch;
use crate::problem::Problem;
use crate::roles::{Area, Right};
use crate::routes::Routes;

/// Character between library and volume in a cursor. No name has it.
const SEPARATOR: char = '\u{1}';

/// A volume.
#[derive(Serialize, JsonSchema)]
struct VolumeDocument {
    library: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pool: Option<String>,
    /// Use of the volume: scratch, filling, full or pending.
    state: &'static str,
    /// Access to the volume: read-write, read-only, offsite, unavailable or destroyed.
    access: &'static str,
    location: String,
    written_bytes: u64,
    live_bytes: u64,
    errors: u32,
    changed: Time,
}

/// A change of a volume. One of the fields must be given.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct VolumeBody {
    #[serde(default)]
    access: Patch<AccessName>,
    /// Place to which the volume was taken.
    #[serde(default)]
    offsite: Patch<String>,
    /// True for a volume that came back.
    #[serde(default)]
    onsite: bool,
}

/// A volume that gets a label. In a folder it is made.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewVolumeBody {
    name: String,
    /// True to write a label over one of this program, and so over the data after it. The server
    /// must not know the volume.
    #[serde(default)]
    overwrite: bool,
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
struct VolumePath {
    /// Name of the library.
    library: String,
    /// Name of the volume.
    volume: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct VolumesQuery {
    /// Only volumes of this library.
    library: Option<String>,
    /// Only volumes of this pool.
    pool: Option<String>,
    /// Maximum number of items: 1 to 1000.
    limit: Option<u32>,
    /// Cursor that an earlier page gave.
    cursor: Option<String>,
}

/// Fields that change while volumes are written and read.
const VOLATILE: &[&str] = &["pool", "state", "written_bytes", "live_bytes", "errors", "changed"];

pub(super) fn add(routes: &mut Routes) {
    let area = Area::Storage;
    let summary = "Lists the volumes";
    routes.add(Operation::read("volumes.list", "/v1/volumes", area, summary), list);
    let summary = "Labels a volume of a library; over data this needs the approval of a second \
                   person where that is switched on";
    let path = "/v1/libraries/{library}/volumes";
    let operation = Operation::post("volumes.label", path, area, summary);
    let operation = operation.example("new", json!({ "name": "A00001" })).answer(json!({
        "library": "TL",
        "name": "A00001",
        "state": "scratch",
        "access": "read-write",
        "location": "",
        "written_bytes": 0,
        "live_bytes": 0,
        "errors": 0,
        "changed": "2026-11-20T18:00:00Z",
    }));
    routes.make(operation, label);
    let one = "/v1/libraries/{library}/volumes/{volume}";
    let summary = "Describes a volume";
    let operation = Operation::read("volumes.get", one, area, summary);
    routes.add(operation.volatile(VOLATILE), get);
    let summary = "Changes the access or the place of a volume";
    let operation = Operation::patch("volumes.change", one, area, summary)
        .example("access", json!({ "access": "read-only" }))
        .example("offsite", json!({ "offsite": "safe 3" }))
        .example("onsite", json!({ "onsite": true }));
    routes.change(operation.volatile(VOLATILE).slow(), current, change);
    let summary = "Removes a volume without data that anybody needs; nothing on it changes";
    let operation = Operation::delete("volumes.remove", one, area, summary);
    routes.change(operation.volatile(VOLATILE).slow(), current, remove);
}

fn list(call: &mut Call<Empty, VolumesQuery, Empty>) -> Answer<Page<VolumeDocument>> {
    check_read(call)?;
    let VolumesQuery { library, pool, limit, cursor } = &call.query;
    let portion = Portion::parse(*limit, cursor.as_deref())?;
    let filter = VolumeFilter { library: library.clone(), pool: pool.clone(), volume: None };
    let (library, name) = portion.first_text()?.split_once(SEPARATOR).unwrap_or_default();
    let from = VolumeKey { library: library.to_owned(), name: name.to_owned() };
    let store = call.desk.store();
    let volumes = store.volumes.list(&filter, &from, portion.read_max())?;
    let key = |one: &VolumeSummary| {
        format!("{}{SEPARATOR}{}", one.row.library, one.row.name).into_bytes()
    };
    let page = portion.page(volumes, key);
    Ok(Page { items: page.items.into_iter().map(describe).collect(), next: page.next })
}

fn describe(summary: VolumeSummary) -> VolumeDocument {
    let VolumeSummary { row, pool, live_bytes } = summary;
    VolumeDocument {
        library: row.library,
        name: row.name,
        pool,
        state: row.state.name(),
        access: match row.access {
            VolumeAccess::ReadWrite => "read-write",
            VolumeAccess::ReadOnly => "read-only",
            VolumeAccess::Offsite => "offsite",
            VolumeAccess::Unavailable => "unavailable",
            VolumeAccess::Destroyed => "destroyed",
        },
        location: row.location,
        written_bytes: row.written_bytes,
        live_bytes,
        errors: row.errors,
        changed: Time(row.changed),
    }
}

/// Finds a volume of a library.
fn find(store: &Store, library: &str, name: &str) -> Answer<VolumeSummary> {
    let (library, volume) = (Some(library.to_owned()), Some(name.to_owned()));
    let filter = VolumeFilter { library, pool: None, volume };
    match store.volumes.list(&filter, &VolumeKey::default(), 1) {
        Ok(mut found) => found.pop().ok_or_else(|| Problem::not_found("volume", name)),
        Err(StoreError::NotFound(_)) => Err(Problem::not_found("volume", name)),
        Err(error) => Err(error.into()),
    }
}

fn get(call: &mut Call<VolumePath, Empty, Empty>) -> Answer<VolumeDocument> {
    check_read(call)?;
    Ok(describe(find(call.desk.store(), &call.path.library, &call.path.volume)?))
}

fn current(desk: &Arc<Desk>, caller: &Caller, path: &VolumePath) -> Answer<Vec<u8>> {
    caller.check(Area::Storage, Right::Write, Subject::Service)?;
    Ok(crate::routes::document(&describe(find(desk.store(), &path.library, &path.volume)?)))
}

fn label(call: &mut Call<LibraryPath, Empty, NewVolumeBody>) -> Answer<VolumeDocument> {
    check_change(call)?;
    let (store, library) = (call.desk.store(), &call.path.library);
    let NewVolumeBody { name, overwrite } = &call.body;
    store.volumes.libraries(Some(library), false)?;
    let order = VolumeLabel::new(library, name, None);
    if *overwrite {
        approval::guard(&call.desk, &call.caller, &order)?;
    }
    order.write(store, *overwrite, &call.caller.name)?;
    Ok(describe(find(store, library, name)?))
}

fn volume_change(body: &VolumeBody) -> Answer<VolumeChange> {
    let access = body.access.required("access")?.map(|access| match access {
        AccessName::ReadWrite => VolumeAccess::ReadWrite,
        AccessName::ReadOnly => VolumeAccess::ReadOnly,
        AccessName::Unavailable => VolumeAccess::Unavailable,
        AccessName::Destroyed => VolumeAccess::Destroyed,
    });
    match (access, body.offsite.as_ref().required("offsite")?, body.onsite) {
        (Some(access), None, false) => Ok(VolumeChange::Access(access)),
        (None, Some(place), false) => Ok(VolumeChange::Offsite { location: place.clone() }),
        (None, None, true) => Ok(VolumeChange::Onsite),
        _ => Err(Problem::invalid("give one of access, offsite and onsite")),
    }
}

fn change(call: &mut Call<VolumePath, Empty, VolumeBody>) -> Answer<Empty> {
    check_change(call)?;
    let change = volume_change(&call.body)?;
    let (store, VolumePath { library, volume }) = (call.desk.store(), &call.path);
    store.volumes.set(Some(library), volume, &change)?;
    let details = format!("{volume} of library {library}: {change:?}");
    note(store, &call.caller.name, "volume changed", details)?;
    Ok(Empty {})
}

fn remove(call: &mut Call<VolumePath, Empty, Empty>) -> Answer<Empty> {
    check_change(call)?;
    let (store, VolumePath { library, volume }) = (call.desk.store(), &call.path);
    store.volumes.set(Some(library), volume, &VolumeChange::Remove)?;
    let details = format!("{volume} of library {library}");
    note(store, &call.caller.name, "volume removed by request", details)?;
    Ok(Empty {})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_a_volume_is_one_change() {
        let of = |json: &str| volume_change(&serde_json::from_str(json).expect("a body"));
        assert_eq!(of(r#"{"onsite":true}"#), Ok(VolumeChange::Onsite));
        let read_only = VolumeChange::Access(VolumeAccess::ReadOnly);
        assert_eq!(of(r#"{"access":"read-only"}"#), Ok(read_only));
        let two = r#"{"onsite":true,"access":"read-only"}"#;
        for wrong in ["{}", two, r#"{"offsite":"x","onsite":true}"#, r#"{"offsite":null}"#] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
