//! Volumes of libraries.

use catalog::VolumeAccess;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::nodes::note;
use store::volumes::{VolumeChange, VolumeFilter, VolumeKey, VolumeSummary};

use super::libraries::{check_change, check_read};
use crate::call::{Answer, Call};
use crate::cursor::Portion;
use crate::fields::{Empty, Page, Time};
use crate::operation::Operation;
use crate::problem::Problem;
use crate::roles::Area;
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
    state: String,
    access: String,
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
struct VolumePath {
    /// Name of the library.
    library: String,
    /// Name of the volume.
    volume: String,
}

#[derive(Deserialize, JsonSchema)]
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

pub(super) fn add(routes: &mut Routes) {
    let area = Area::Storage;
    let summary = "Lists the volumes";
    routes.add(Operation::read("volumes.list", "/v1/volumes", area, summary), list);
    let summary = "Changes the access or the place of a volume";
    let path = "/v1/libraries/{library}/volumes/{volume}";
    routes.add(Operation::patch("volumes.change", path, area, summary), change);
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
    let describe = |VolumeSummary { row, pool, live_bytes }| VolumeDocument {
        library: row.library,
        name: row.name,
        pool,
        state: format!("{:?}", row.state).to_lowercase(),
        access: format!("{:?}", row.access).to_lowercase(),
        location: row.location,
        written_bytes: row.written_bytes,
        live_bytes,
        errors: row.errors,
        changed: Time(row.changed),
    };
    Ok(Page { items: page.items.into_iter().map(describe).collect(), next: page.next })
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
    check_change(call)?;
    let change = volume_change(&call.body)?;
    let (store, VolumePath { library, volume }) = (call.desk.store(), &call.path);
    store.volumes.set(Some(library), volume, &change)?;
    let details = format!("{volume} of library {library}: {change:?}");
    note(store, &call.caller.name, "volume changed", details)?;
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
        for wrong in ["{}", r#"{"onsite":true,"remove":true}"#, r#"{"offsite":"x","remove":true}"#]
        {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
