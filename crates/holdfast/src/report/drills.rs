//! The last restore drills of a node, as several commands show them.

use client::{Drill, LastDrills};
use model::printable;
use serde::Serialize;

use crate::{moment, quantity};

/// A good restore drill.
#[derive(Serialize)]
pub(crate) struct ProofDocument {
    time: String,
    objects: u64,
    bytes: u64,
}

/// A restore drill that failed.
#[derive(Serialize)]
pub(crate) struct FailedDrillDocument<'a> {
    time: String,
    objects: u64,
    bytes: u64,
    damaged: u64,
    reason: &'a str,
}

/// The last drills of a node in its document.
#[derive(Serialize)]
pub(crate) struct LastDrillsDocument<'a> {
    last_proven_restorable: Option<ProofDocument>,
    last_failed_drill: Option<FailedDrillDocument<'a>>,
}

impl<'a> LastDrillsDocument<'a> {
    pub(crate) fn new(drills: Option<&'a LastDrills>) -> Self {
        let good = drills.and_then(|drills| drills.good.as_ref());
        let failed = drills.and_then(|drills| drills.failed.as_ref());
        Self {
            last_proven_restorable: good.map(|drill| ProofDocument {
                time: moment::rfc3339(drill.at),
                objects: drill.objects,
                bytes: drill.bytes,
            }),
            last_failed_drill: failed.map(|drill| FailedDrillDocument {
                time: moment::rfc3339(drill.at),
                objects: drill.objects,
                bytes: drill.bytes,
                damaged: drill.damaged,
                reason: &drill.reason,
            }),
        }
    }
}

/// Returns the time of the last proof, for a table.
pub(crate) fn proven(drills: Option<&LastDrills>) -> String {
    match drills {
        None => "unknown".to_owned(),
        Some(drills) => moment::shown_or_never(drills.good.as_ref().map(|drill| drill.at)),
    }
}

/// Returns the last proof with its amount.
pub(crate) fn proof(drills: Option<&LastDrills>) -> String {
    let shown = proven(drills);
    match drills.and_then(|drills| drills.good.as_ref()) {
        Some(drill) => format!("{shown} ({})", amount(drill)),
        None => shown,
    }
}

/// Returns the last failed drill with its reason, if it is newer than the last proof.
pub(crate) fn failure(drills: Option<&LastDrills>) -> Option<String> {
    let LastDrills { good, failed } = drills?;
    let failed = failed.as_ref()?;
    let is_newer = good.as_ref().is_none_or(|good| good.at < failed.at);
    is_newer.then(|| format!("{}: {}", moment::shown(failed.at), printable(&failed.reason)))
}

/// Returns the amount of a drill: `12 files, 3.00 MB`.
pub(crate) fn amount(drill: &Drill) -> String {
    let files = quantity::counted(drill.objects, "file");
    format!("{files}, {}", quantity::bytes_with_unit(drill.bytes))
}

#[cfg(test)]
mod tests {
    use model::ServerTime;

    use super::*;

    fn drill(is_good: bool, secs: i64) -> Drill {
        let reason = if is_good { String::new() } else { "1 file is\u{1b}lost".to_owned() };
        let damaged = u64::from(!is_good);
        Drill { is_good, at: ServerTime::from_secs(secs), objects: 2, bytes: 3, damaged, reason }
    }

    #[test]
    fn a_failure_is_shown_until_a_newer_proof() {
        let drills = |good: Option<i64>, failed: Option<i64>| {
            let of = |is_good, at: Option<i64>| at.map(|secs| drill(is_good, secs));
            LastDrills { good: of(true, good), failed: of(false, failed) }
        };
        let is_shown = |good, failed| failure(Some(&drills(good, failed))).is_some();
        assert!(is_shown(None, Some(7)) && is_shown(Some(6), Some(7)));
        assert!(!is_shown(Some(8), Some(7)) && !is_shown(Some(8), None) && !is_shown(None, None));
        let shown = failure(Some(&drills(None, Some(7)))).expect("is shown");
        assert!(!shown.contains('\u{1b}'), "{shown:?}");
        assert_eq!(
            (proven(None), proof(Some(&drills(None, None)))),
            ("unknown".into(), "never".into())
        );
        assert!(proof(Some(&drills(Some(7), None))).ends_with("(2 files, 3 B)"));
    }
}
