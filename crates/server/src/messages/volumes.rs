//! Volumes.

use catalog::{VolumeAccess, VolumeState};
use store::pools::VolumeWork;
use store::volumes::{
    LabelChoice, LabelOrder, LabelReport, VolumeChange, VolumeFilter, VolumeSummary,
};
use store::{Store, StoreError};
use wire::proto;
use wire::proto::set_volume_request::Change;

use super::{filled, positive};

fn state(state: VolumeState) -> proto::VolumeState {
    match state {
        VolumeState::Scratch => proto::VolumeState::Scratch,
        VolumeState::Filling => proto::VolumeState::Filling,
        VolumeState::Full => proto::VolumeState::Full,
        VolumeState::Pending => proto::VolumeState::Pending,
    }
}

fn access(access: VolumeAccess) -> proto::VolumeAccess {
    match access {
        VolumeAccess::ReadWrite => proto::VolumeAccess::ReadWrite,
        VolumeAccess::ReadOnly => proto::VolumeAccess::ReadOnly,
        VolumeAccess::Offsite => proto::VolumeAccess::Offsite,
        VolumeAccess::Unavailable => proto::VolumeAccess::Unavailable,
        VolumeAccess::Destroyed => proto::VolumeAccess::Destroyed,
    }
}

pub(crate) fn volume(info: VolumeSummary) -> proto::VolumeInfo {
    let VolumeSummary { row, pool, live_bytes } = info;
    proto::VolumeInfo {
        library: row.library,
        name: row.name,
        pool: pool.unwrap_or_default(),
        group: row.group,
        state: state(row.state).into(),
        access: access(row.access).into(),
        location: row.location,
        written_bytes: row.written_bytes,
        live_bytes,
        errors: row.errors,
        changed: row.changed.0,
    }
}

pub(crate) fn filter(request: proto::VolumesRequest) -> VolumeFilter {
    let proto::VolumesRequest { library, pool, volume, .. } = request;
    VolumeFilter { library: filled(library), pool: filled(pool), volume: filled(volume) }
}

pub(crate) fn label_order(request: proto::LabelVolumesRequest) -> LabelOrder {
    let proto::LabelVolumesRequest { library, volumes, overwrite, block_bytes } = request;
    let choice = if volumes.is_empty() { LabelChoice::Blank } else { LabelChoice::Named(volumes) };
    LabelOrder { library, choice, overwrites: overwrite, block_bytes: positive(block_bytes) }
}

pub(crate) fn label_report(report: LabelReport) -> proto::LabelVolumesReply {
    let problem = report.result.err().map(|error| error.to_string()).unwrap_or_default();
    proto::LabelVolumesReply { volume: report.volume, problem }
}

pub(crate) fn change(change: Option<Change>) -> Result<VolumeChange, StoreError> {
    Ok(match change.ok_or_else(|| StoreError::malformed("the request names no change"))? {
        Change::Access(code) => VolumeChange::Access(parse_access(code)?),
        Change::Offsite(location) => VolumeChange::Offsite { location },
        Change::Onsite(_) => VolumeChange::Onsite,
        Change::Remove(_) => VolumeChange::Remove,
    })
}

/// Parses an access that needs no move of the volume.
fn parse_access(code: i32) -> Result<VolumeAccess, StoreError> {
    use proto::VolumeAccess as Access;
    match Access::try_from(code) {
        Ok(Access::ReadWrite) => Ok(VolumeAccess::ReadWrite),
        Ok(Access::ReadOnly) => Ok(VolumeAccess::ReadOnly),
        Ok(Access::Unavailable) => Ok(VolumeAccess::Unavailable),
        Ok(Access::Destroyed) => Ok(VolumeAccess::Destroyed),
        Ok(Access::Unspecified | Access::Offsite) | Err(_) => Err(StoreError::usage(
            "the access must be read-write, read-only, unavailable or destroyed",
        )),
    }
}

pub(crate) fn work(
    store: &Store,
    request: proto::TendVolumesRequest,
) -> Result<VolumeWork, StoreError> {
    use proto::tend_volumes_request::Work;
    let work = request.work();
    let proto::TendVolumesRequest { pool, volumes, dead_percent, library, .. } = request;
    if work == Work::Import {
        return Ok(VolumeWork::Import { library, volumes });
    }
    let rows = volumes.iter().map(|name| store.volumes.find(super::name(&library), name));
    let rows = rows.collect::<Result<_, _>>()?;
    Ok(match work {
        Work::Reclaim => VolumeWork::Reclaim {
            pool,
            volumes: rows,
            dead_percent: u8::try_from(dead_percent.min(100)).unwrap_or(100),
        },
        Work::Move => VolumeWork::Move(rows),
        Work::Audit | Work::Import => VolumeWork::Audit(rows),
        Work::Unspecified => return Err(StoreError::usage("the request names no work")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_sends_a_volume_offsite_by_its_access() {
        use proto::VolumeAccess as Access;
        let change = |code| change(Some(Change::Access(code)));
        let changed = change(Access::ReadOnly.into());
        assert_eq!(changed, Ok(VolumeChange::Access(VolumeAccess::ReadOnly)));
        for code in [Access::Offsite.into(), Access::Unspecified.into(), 99] {
            assert!(change(code).is_err(), "{code}");
        }
    }

    #[test]
    fn an_order_without_names_is_for_blank_volumes() {
        let order = label_order(proto::LabelVolumesRequest::default());
        assert_eq!((order.choice, order.block_bytes), (LabelChoice::Blank, None));
        let volumes = vec!["A00001".to_owned()];
        let named = proto::LabelVolumesRequest { volumes, ..Default::default() };
        assert_eq!(label_order(named).choice, LabelChoice::Named(vec!["A00001".to_owned()]));
    }
}
