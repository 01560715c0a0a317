//! Archives and deletions.

use bytes::Bytes;
use store::StoreError;
use store::lifecycle::archive::{
    ArchiveOrder, ArchiveSummary, ChosenVersions, Deletion, DeletionOrder, DeletionReport,
    DeletionResult, NamedObjects, States,
};
use wire::{NAMED_OBJECTS_MAX, proto};

use super::changes::directory;
use super::selection;

pub(crate) fn archive(info: ArchiveSummary) -> proto::Archive {
    let ArchiveSummary { row, filespaces } = info;
    proto::Archive {
        number: row.number,
        description: row.description,
        created: row.created.0,
        event: row.event.map_or(0, |event| event.0),
        held: row.held,
        complete: row.complete,
        objects: row.objects,
        bytes: row.bytes,
        filespaces: filespaces.into_iter().map(Into::into).collect(),
    }
}

pub(crate) fn order(request: &proto::SetArchiveRequest) -> ArchiveOrder {
    let proto::SetArchiveRequest { number, complete, event, held } = *request;
    ArchiveOrder { number, completes: complete, activates_event: event, held }
}

pub(crate) fn deletion_order(
    request: &proto::DeleteRequest,
    filespace: model::FilespaceId,
) -> Result<DeletionOrder, StoreError> {
    let selection = request.selection.clone().unwrap_or_default();
    let states = States { active: request.active, inactive: request.inactive };
    Ok(DeletionOrder {
        selection: selection::parse(&selection, filespace)?,
        chosen: ChosenVersions::States(states),
        is_dry: request.dry_run,
    })
}

pub(crate) fn objects_deletion_order(
    request: &proto::DeleteObjectsRequest,
    filespace: model::FilespaceId,
) -> Result<DeletionOrder, StoreError> {
    let number: usize = request.objects.iter().map(|named| named.names.len()).sum();
    if number > NAMED_OBJECTS_MAX || request.objects.len() > NAMED_OBJECTS_MAX {
        return Err(StoreError::malformed("too many objects"));
    }
    let mut objects = NamedObjects::new();
    for named in &request.objects {
        let directory = directory(&named.directory)?;
        let names: Result<Vec<_>, _> =
            named.names.iter().map(|name| directory.name(name)).collect();
        let names = names.map_err(StoreError::malformed)?;
        objects.entry(directory).or_default().extend(names);
    }
    let states = States { active: request.active, inactive: request.inactive };
    Ok(DeletionOrder::of_objects(filespace, objects, states, request.dry_run))
}

pub(crate) fn objects_deletion_result(report: DeletionReport) -> proto::DeleteObjectsReply {
    let named = report.found.iter().map(|(directory, names)| proto::NamedObjects {
        directory: Bytes::copy_from_slice(directory.as_bytes()),
        names: names.iter().map(|name| Bytes::copy_from_slice(name.as_bytes())).collect(),
    });
    let found = named.collect();
    proto::DeleteObjectsReply { deletion: Some(deletion_result(report)), found }
}

pub(crate) fn image_deletion_order(
    request: &proto::DeleteImagesRequest,
    filespace: model::FilespaceId,
) -> DeletionOrder {
    let taken = request.taken.iter().copied().map(model::ServerTime).collect();
    DeletionOrder::of_images(filespace, taken, request.dry_run)
}

pub(crate) fn deletion(deletion: Deletion) -> proto::Deletion {
    let Deletion { row, until } = deletion;
    proto::Deletion {
        number: row.number,
        time: row.time.0,
        versions: row.versions,
        details: row.details,
        until: until.0,
        damage: String::new(),
    }
}

pub(crate) fn deletion_result(report: DeletionReport) -> proto::Deletion {
    let done = match report.result {
        DeletionResult::Counted { versions } => {
            proto::Deletion { versions, ..proto::Deletion::default() }
        }
        DeletionResult::Done(done) => deletion(done),
    };
    let damage = report.unreadable.map(|damage| StoreError::from(damage).to_string());
    proto::Deletion { damage: damage.unwrap_or_default(), ..done }
}
