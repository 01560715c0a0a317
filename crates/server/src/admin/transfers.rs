//! Finished archives and restores of all nodes.

use catalog::{FinishedTransfer, TransferFigures};
use store::{Store, StoreError};
use wire::proto;

use crate::messages::portions::{Portion, Section, number_key};

/// Maximum number of transfers in a portion.
const TRANSFERS_MAX: usize = 1000;

/// Lists a portion of the sessions of archives, newest first.
pub(super) fn archives(
    store: &Store,
    request: proto::FinishedTransfersRequest,
) -> Result<proto::FinishedTransfersReply, StoreError> {
    let portion = Portion::parse(request.portion).at_most(TRANSFERS_MAX);
    let found = store.catalog.finished_archives(portion.first_number()?, portion.read_max())?;
    Ok(reply(&portion, found, request.since))
}

/// Lists a portion of the restores, newest first.
pub(super) fn restores(
    store: &Store,
    request: proto::FinishedTransfersRequest,
) -> Result<proto::FinishedTransfersReply, StoreError> {
    let portion = Portion::parse(request.portion).at_most(TRANSFERS_MAX);
    let found = store.catalog.finished_restores(portion.first_number()?, portion.read_max())?;
    Ok(reply(&portion, found, request.since))
}

/// Makes the reply. The list ends before the first transfer that ended before `since`: transfers
/// are numbered as they end.
fn reply(
    portion: &Portion,
    found: Vec<FinishedTransfer>,
    since: i64,
) -> proto::FinishedTransfersReply {
    let wanted = found.into_iter().take_while(|transfer| transfer.ended.0 >= since);
    let wanted = wanted.map(message).collect();
    let Section { items, next } =
        portion.cut(wanted, |transfer: &proto::FinishedTransfer| number_key(transfer.number));
    proto::FinishedTransfersReply { transfers: items, next }
}

fn message(transfer: FinishedTransfer) -> proto::FinishedTransfer {
    let FinishedTransfer { number, node, filespace, started, ended, figures } = transfer;
    let TransferFigures { examined, objects, failed, bytes } = figures;
    proto::FinishedTransfer {
        number,
        node,
        filespace: filespace.into(),
        started: started.0,
        ended: ended.0,
        examined,
        objects,
        failed,
        bytes,
    }
}
