//! Archives and restores that no schedule has started, as the server keeps them.

use std::collections::BTreeMap;

use client::admin::{Admin, FinishedTransfer, ScheduledEvent};
use client::{ClientError, ErrorKind};
use dsm::admin::view::Value;
use model::{archive_number, is_space_filespace};

use super::backups::{is_part_of, known_since};
use super::bounds::{Bounds, ROWS_MAX};
use super::cell::time;
use crate::error::CommandError;

/// A finished archive or restore of a filespace of a node.
pub(super) struct Transfer {
    /// Kind of the work in TSM's words.
    activity: &'static str,
    of: FinishedTransfer,
}

impl Transfer {
    fn of_archive(finished: FinishedTransfer) -> Self {
        Self { activity: "ARCHIVE", of: finished }
    }

    fn of_restore(finished: FinishedTransfer) -> Self {
        let is_archived = archive_number(&finished.filespace).is_some();
        Self { activity: if is_archived { "RETRIEVE" } else { "RESTORE" }, of: finished }
    }

    /// Returns true if an event with this activity may have started the transfer.
    fn may_be_of(&self, activity: &str) -> bool {
        match self.activity {
            "ARCHIVE" => activity == "ARCHIVE",
            _ => matches!(activity, "RESTORE" | "VERIFY"),
        }
    }

    /// Returns the columns of SUMMARY. The server does not know what a restore could not write.
    pub(super) fn columns(self) -> [(&'static str, Value); 9] {
        let FinishedTransfer { node, started, ended, examined, objects, failed, bytes, .. } =
            self.of;
        let failed = (self.activity == "ARCHIVE").then_some(failed);
        [
            ("START_TIME", time(started)),
            ("END_TIME", time(ended)),
            ("ACTIVITY", self.activity.into()),
            ("ENTITY", node.into()),
            ("EXAMINED", examined.into()),
            ("AFFECTED", objects.into()),
            ("FAILED", failed.into()),
            ("BYTES", bytes.into()),
            // The server keeps those transfers that have come to their end.
            ("SUCCESSFUL", "YES".into()),
        ]
    }
}

/// Returns the list of a server; an empty one from an older server, and for somebody who may not
/// see all nodes.
fn listed(
    answer: Result<Vec<FinishedTransfer>, ClientError>,
) -> Result<Vec<FinishedTransfer>, CommandError> {
    match answer {
        Ok(listed) => Ok(listed),
        Err(error) if matches!(error.kind, ErrorKind::Usage | ErrorKind::Refused) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the newest archives and restores that none of the `events`, the newest ones with their
/// activities, has started. Those of space management are left out.
pub(super) fn by_hand(
    admin: &mut Admin,
    bounds: &Bounds,
    events: &[ScheduledEvent],
    activities: &[&'static str],
) -> Result<Vec<Transfer>, CommandError> {
    assert_eq!(events.len(), activities.len(), "each event has an activity");
    let mut events_of: BTreeMap<&str, Vec<(&ScheduledEvent, &str)>> = BTreeMap::new();
    for (event, activity) in events.iter().zip(activities) {
        if let Some(node) = &event.node {
            events_of.entry(node.as_str()).or_default().push((event, *activity));
        }
    }
    let (from, to) = bounds.times();
    let known_since = known_since(events, ROWS_MAX as usize);
    let archives = listed(admin.finished_archives(from, ROWS_MAX))?;
    let restores = listed(admin.finished_restores(from, ROWS_MAX))?;
    let archives = archives.into_iter().map(Transfer::of_archive);
    let mut transfers: Vec<Transfer> =
        archives.chain(restores.into_iter().map(Transfer::of_restore)).collect();
    transfers.retain(|transfer| {
        let FinishedTransfer { node, filespace, started, ended, .. } = &transfer.of;
        let own = events_of.get(node.as_str()).map(Vec::as_slice).unwrap_or_default();
        let is_started = |(event, activity): &(&ScheduledEvent, &str)| {
            transfer.may_be_of(activity) && is_part_of(event, (*started, *ended))
        };
        !is_space_filespace(filespace)
            && bounds.node.as_ref().is_none_or(|name| name.eq_ignore_ascii_case(node))
            && known_since.is_none_or(|since| *started >= since)
            && to.is_none_or(|to| *ended <= to)
            && !own.iter().any(is_started)
    });
    Ok(transfers)
}

#[cfg(test)]
mod tests {
    use model::{ServerTime, archive_filespace};

    use super::*;

    fn finished(filespace: &[u8]) -> FinishedTransfer {
        FinishedTransfer {
            node: "anna".to_owned(),
            filespace: filespace.to_vec(),
            started: ServerTime(0),
            ended: ServerTime(1),
            examined: 5,
            objects: 4,
            failed: 1,
            bytes: 70,
        }
    }

    #[test]
    fn transfers_have_tsm_s_words() {
        let archive = Transfer::of_archive(finished(&archive_filespace(3, b"/")));
        let retrieve = Transfer::of_restore(finished(&archive_filespace(3, b"/")));
        let restore = Transfer::of_restore(finished(b"/"));
        let words = [&archive, &retrieve, &restore].map(|transfer| transfer.activity);
        assert_eq!(words, ["ARCHIVE", "RETRIEVE", "RESTORE"]);
        assert!(archive.may_be_of("ARCHIVE") && !archive.may_be_of("RESTORE"));
        assert!(restore.may_be_of("RESTORE") && !restore.may_be_of("BACKUP"));
        let failed = |transfer: Transfer| transfer.columns()[6].clone();
        assert_eq!(failed(archive), ("FAILED", Value::Integer(1)));
        assert_eq!(failed(restore), ("FAILED", Value::Missing));
    }
}
