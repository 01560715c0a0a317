//! The record of finished sessions of archives.

use catalog::{ArchivedRow, Filespace, TransferFigures};
use model::ServerTime;
use serde::Deserialize;

use crate::Store;

/// The report of an archive's session, as its node sends it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Report {
    inspected: u64,
    backed_up: u64,
    failed: u64,
    bytes_transferred: u64,
}

/// Records the session of an archive's `filespace` that began at `started` and has just ended, with
/// the report of its node. An archive does not fail because it cannot be recorded.
pub(super) fn note(store: &Store, filespace: &Filespace, started: ServerTime, report: &str) {
    let archived = ArchivedRow {
        node: filespace.node,
        filespace: filespace.name.clone(),
        started,
        ended: store.time_of_change().max(started),
        figures: figures(report),
    };
    if let Err(error) = store.catalog.add_archived(&archived) {
        tracing::warn!(error = model::chain(&error), "an archive cannot be recorded");
    }
}

/// Returns the figures of a report. One that cannot be read counts as empty, and a number that the
/// catalogue cannot hold as the largest that it can.
fn figures(report: &str) -> TransferFigures {
    let Report { inspected, backed_up, failed, bytes_transferred } =
        serde_json::from_str(report).unwrap_or_default();
    let bounded = |claimed: u64| claimed.min(i64::MAX.unsigned_abs());
    TransferFigures {
        examined: bounded(inspected),
        objects: bounded(backed_up),
        failed: bounded(failed),
        bytes: bounded(bytes_transferred),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_that_the_node_claims_if_they_can_be_kept() {
        let report = r#"{"inspected":9,"backed_up":7,"failed":1,"bytes_transferred":700}"#;
        let expected = TransferFigures { examined: 9, objects: 7, failed: 1, bytes: 700 };
        assert_eq!(figures(report), expected);
        assert_eq!(figures("[]"), TransferFigures::default());
        let most = figures(r#"{"inspected":18446744073709551615}"#).examined;
        assert_eq!(i64::try_from(most), Ok(i64::MAX));
    }
}
