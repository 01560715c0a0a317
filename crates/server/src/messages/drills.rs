//! Restore drills.

use catalog::DrillRow;
use model::SampleAmount;
use store::StoreError;
use store::selection::drill::Confirmation;
use wire::proto;

/// Parses the amount of a sample.
pub(crate) fn amount(request: &proto::BeginDrillRequest) -> Result<SampleAmount, StoreError> {
    use proto::begin_drill_request::Amount;
    match request.amount {
        Some(Amount::Versions(number)) => Ok(SampleAmount::Files(number)),
        Some(Amount::Bytes(bytes)) => Ok(SampleAmount::Bytes(bytes)),
        Some(Amount::Millionths(share)) => Ok(SampleAmount::Millionths(share)),
        None => Err(StoreError::malformed("a sample without an amount")),
    }
}

pub(crate) fn confirmation(request: proto::EndDrillRequest) -> Confirmation {
    let proto::EndDrillRequest { checked, damaged, reason, .. } = request;
    Confirmation { checked, damaged, reason }
}

pub(crate) fn result(row: DrillRow) -> proto::DrillResult {
    proto::DrillResult {
        is_good: row.is_good,
        at: row.at.0,
        objects: row.objects,
        bytes: row.bytes,
        damaged: row.damaged,
        reason: row.reason,
    }
}

/// Describes the last drills of one node.
pub(crate) fn last(rows: Vec<DrillRow>) -> proto::LastDrills {
    let (good, failed): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.is_good);
    let only = |rows: Vec<DrillRow>| rows.into_iter().next().map(result);
    proto::LastDrills { good: only(good), failed: only(failed) }
}
