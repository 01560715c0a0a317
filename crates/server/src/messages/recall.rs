//! Recalls of copies, and the readers of packs.

use catalog::Node;
use model::{BatchId, CopyId};
use store::StoreError;
use store::selection::{PlannedVolume, RecallMessage, RecallOrder, RecallPlan, UnavailableCopies};
use store::volumes::{ReadKind, Reader};
use wire::proto;
use wire::proto::purpose::Kind as PurposeKind;
use wire::proto::stage_reply::Message;

/// Length of a copy in a request, in bytes: its batch, and its index in the batch.
const COPY_BYTES: usize = 10;

/// Maximum number of characters of a program's name, as the queue shows it.
const PROGRAM_CHARS_MAX: usize = 255;

/// The reader that a node names in its request.
pub(crate) fn reader(node: &Node, purpose: Option<proto::Purpose>) -> Reader {
    let purpose = purpose.unwrap_or_default();
    let kind = match purpose.kind() {
        PurposeKind::Unspecified | PurposeKind::Restore | PurposeKind::Read => ReadKind::Restore,
        PurposeKind::Open => ReadKind::Open,
        PurposeKind::List => ReadKind::List,
    };
    let program = purpose.program.chars().take(PROGRAM_CHARS_MAX).collect();
    let reader = Reader::of_node(node, kind, purpose.user, program);
    Reader { reference: purpose.reference, ..reader }
}

/// Returns true if files are restored for this purpose. Otherwise they are recalled, checked or
/// shown, and the record of restores has nothing of it.
pub(crate) fn is_restore(purpose: Option<&proto::Purpose>) -> bool {
    let kind = purpose.map_or(PurposeKind::Unspecified, proto::Purpose::kind);
    matches!(kind, PurposeKind::Unspecified | PurposeKind::Restore)
}

pub(crate) fn order(request: &proto::StageRequest) -> Result<RecallOrder, StoreError> {
    Ok(RecallOrder { copies: copies(&request.copies)?, is_preview: request.preview })
}

fn copies(bytes: &[u8]) -> Result<Vec<CopyId>, StoreError> {
    let (copies, rest) = bytes.as_chunks::<COPY_BYTES>();
    if !rest.is_empty() {
        return Err(StoreError::malformed("a list of copies ends within a copy"));
    }
    let copy = |bytes: &[u8; COPY_BYTES]| {
        let [batch @ .., low, high] = *bytes;
        CopyId { batch: BatchId(u64::from_le_bytes(batch)), index: u16::from_le_bytes([low, high]) }
    };
    Ok(copies.iter().map(copy).collect())
}

pub(crate) fn message(message: RecallMessage) -> Message {
    match message {
        RecallMessage::Plan(recall) => Message::Plan(plan(recall)),
        RecallMessage::Progress { packs, packs_done } => {
            Message::Progress(proto::StageProgress { packs, packs_done })
        }
    }
}

fn plan(plan: RecallPlan) -> proto::RecallPlan {
    let volumes = plan.volumes.into_iter().map(planned_volume);
    let unavailable =
        plan.unavailable.into_iter().map(|UnavailableCopies { reason, files, bytes }| {
            proto::PlannedVolume {
                problem: reason,
                files,
                bytes,
                ..proto::PlannedVolume::default()
            }
        });
    proto::RecallPlan {
        order: plan.order,
        volumes: volumes.chain(unavailable).collect(),
        disk_files: plan.disk_files,
        disk_bytes: plan.disk_bytes,
        unknown: plan.unknown,
        mounts: plan.mounts,
        estimate_secs: plan.estimate_secs,
    }
}

fn planned_volume(volume: PlannedVolume) -> proto::PlannedVolume {
    proto::PlannedVolume {
        library: volume.library,
        volume: volume.volume,
        is_mounted: volume.is_mounted,
        files: volume.files,
        bytes: volume.bytes,
        packs: volume.packs,
        estimate_secs: volume.estimate_secs,
        problem: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recalled_or_checked_is_no_restore() {
        let of = |kind: PurposeKind| {
            let purpose = proto::Purpose { kind: kind.into(), ..proto::Purpose::default() };
            is_restore(Some(&purpose))
        };
        assert!(of(PurposeKind::Unspecified) && of(PurposeKind::Restore) && is_restore(None));
        assert!(!of(PurposeKind::Open) && !of(PurposeKind::List) && !of(PurposeKind::Read));
    }

    #[test]
    fn copies_are_whole() {
        let bytes = [1, 0, 0, 0, 0, 0, 0, 0, 2, 1, 255, 255, 255, 255, 255, 255, 255, 255, 3, 0];
        let expected = [(1, 258), (u64::MAX, 3)];
        let expected = expected.map(|(batch, index)| CopyId { batch: BatchId(batch), index });
        assert_eq!(copies(&bytes), Ok(expected.to_vec()));
        assert_eq!(copies(&[]), Ok(Vec::new()));
        assert!(copies(&bytes[..19]).is_err());
    }
}
