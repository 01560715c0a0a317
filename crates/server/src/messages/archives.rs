//! Archives and deletions.

use store::StoreError;
use store::lifecycle::archive::{
    ArchiveOrder, ArchiveSummary, ChosenVersions, Deletion, DeletionOrder, DeletionReport,
    DeletionResult, States,
};
use wire::proto;

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
