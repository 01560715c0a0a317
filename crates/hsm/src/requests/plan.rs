//! The plan of a recall: the server's order of the files, and the volumes and the time that the
//! recall needs.

use std::collections::BTreeMap;

use client::{ClientError, ErrorKind, PurposeKind, RecallPlan, StageMode};
use model::CopyId;

use super::entry::Entry;
use crate::control::{PathText, PlanState, PlannedVolume};
use crate::desk::Desk;

/// A plan, and the files in the order of the plan.
pub(super) struct Plan<'a> {
    /// The files, grouped by file system. Files without a copy come last.
    pub(super) entries: Vec<Entry<'a>>,
    pub(super) state: PlanState,
    /// The stagings of the plan. The server reads volumes for the recall while they live.
    _staging: Vec<client::Staging>,
}

/// Asks the server to plan the recall. Unless it is a preview, the server reads volumes for it
/// while the plan lives, and the recall continues even if the server gives no plan.
pub(super) fn plan<'a>(
    desk: &Desk<'_>,
    entries: Vec<Entry<'a>>,
    is_preview: bool,
) -> Result<Plan<'a>, ClientError> {
    let purpose = desk.caller.requester.purpose(PurposeKind::List);
    let mut by_mount: BTreeMap<Vec<u8>, Vec<Entry<'a>>> = BTreeMap::new();
    let (with_copy, without): (Vec<_>, Vec<_>) =
        entries.into_iter().partition(|entry| entry.copy.is_some());
    for entry in with_copy {
        by_mount.entry(entry.mount.mount_point().to_vec()).or_default().push(entry);
    }
    let (mut ordered, mut state, mut staging) = (Vec::new(), PlanState::default(), Vec::new());
    for (mount_point, of_mount) in by_mount {
        let copies: Vec<CopyId> = of_mount.iter().filter_map(|entry| entry.copy).collect();
        assert_eq!(copies.len(), of_mount.len(), "the plan has the indexes of the files");
        let stage = || {
            let mode = if is_preview { StageMode::Preview } else { StageMode::Read };
            desk.connection.client()?.stage(&mount_point, &copies, mode, purpose.clone())
        };
        let staged = stage().or_else(|error| match error.kind {
            // The server may have restarted since the connection was opened.
            ErrorKind::Retry => {
                desk.connection.disconnect();
                stage()
            }
            _ => Err(error),
        });
        let of_server = match staged {
            Ok((of_server, stage)) => {
                staging.push(stage);
                of_server
            }
            Err(error) => {
                desk.connection.disconnect();
                if is_preview {
                    return Err(error);
                }
                // The recall itself tries again, and reports the error.
                tracing::warn!(error = error.message, "the server gives no plan for a recall");
                in_order_of_copies(&copies)
            }
        };
        let paths: Vec<Vec<u8>> = of_mount.iter().map(Entry::path).collect();
        state.add(plan_state(&of_server, &paths));
        ordered.extend(in_order(&of_server, of_mount));
    }
    ordered.extend(without);
    Ok(Plan { entries: ordered, state, _staging: staging })
}

/// The plan if the server gives no plan: copies that were made together come one after the other.
fn in_order_of_copies(copies: &[CopyId]) -> RecallPlan {
    let mut order: Vec<u32> = (0..).zip(copies).map(|(index, _)| index).collect();
    order.sort_by_key(|index| copies[*index as usize]);
    RecallPlan { order, ..RecallPlan::default() }
}

/// All `items`: in the plan's order, then the items that the server does not know, then the others.
/// Indexes without an item are ignored, because they come from the server.
fn in_order<T>(plan: &RecallPlan, items: Vec<T>) -> Vec<T> {
    let count = items.len();
    let mut left: Vec<Option<T>> = items.into_iter().map(Some).collect();
    let known = plan.order.iter().chain(&plan.unknown);
    let mut ordered: Vec<T> =
        known.filter_map(|index| left.get_mut(*index as usize)?.take()).collect();
    ordered.extend(left.into_iter().flatten());
    assert_eq!(ordered.len(), count, "a plan loses no file");
    ordered
}

fn plan_state(plan: &RecallPlan, paths: &[Vec<u8>]) -> PlanState {
    let path = |index: &u32| paths.get(*index as usize).cloned().map(PathText);
    let volume = |volume: &client::PlannedVolume| PlannedVolume {
        library: volume.library.clone(),
        volume: volume.volume.clone(),
        is_mounted: volume.is_mounted,
        files: volume.files,
        bytes: volume.bytes,
        packs: volume.packs,
        estimate_secs: volume.estimate_secs,
        problem: Some(volume.problem.clone()).filter(|problem| !problem.is_empty()),
    };
    PlanState {
        order: plan.order.iter().filter_map(path).collect(),
        volumes: plan.volumes.iter().map(volume).collect(),
        disk_files: plan.disk_files,
        disk_bytes: plan.disk_bytes,
        unknown: plan.unknown.iter().filter_map(path).collect(),
        mounts: plan.mounts,
        estimate_secs: plan.estimate_secs,
    }
}

#[cfg(test)]
mod tests {
    use model::BatchId;

    use super::*;

    #[test]
    fn a_plan_loses_no_file_whatever_the_server_says() {
        #[track_caller]
        fn check(order: &[u32], unknown: &[u32], expected: &str) {
            let plan = RecallPlan {
                order: order.to_vec(),
                unknown: unknown.to_vec(),
                ..RecallPlan::default()
            };
            assert_eq!(in_order(&plan, vec!["a", "b", "c", "d"]).concat(), expected);
        }
        check(&[3, 1, 0, 2], &[], "dbac");
        check(&[2], &[0], "cabd");
        check(&[], &[], "abcd");
        check(&[1, 1, 9, u32::MAX], &[1], "bacd");
    }

    #[test]
    fn without_a_server_copies_of_one_batch_come_together() {
        let copy = |batch, index| CopyId { batch: BatchId(batch), index };
        let copies = [copy(2, 0), copy(1, 5), copy(2, 1), copy(1, 4)];
        assert_eq!(in_order_of_copies(&copies).order, [3, 1, 0, 2]);
    }

    #[test]
    fn a_plan_shows_paths_and_problems() {
        let volume = |problem: &str| client::PlannedVolume {
            volume: "A1".to_owned(),
            problem: problem.to_owned(),
            ..client::PlannedVolume::default()
        };
        let plan = RecallPlan {
            order: vec![1, 7],
            unknown: vec![0],
            volumes: vec![volume(""), volume("offsite")],
            ..RecallPlan::default()
        };
        let state = plan_state(&plan, &[b"/a".to_vec(), b"/b".to_vec()]);
        assert_eq!(state.order, [PathText(b"/b".to_vec())]);
        assert_eq!(state.unknown, [PathText(b"/a".to_vec())]);
        assert_eq!(state.volumes[0].problem, None);
        assert_eq!(state.volumes[1].problem.as_deref(), Some("offsite"));
    }
}
