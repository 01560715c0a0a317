//! Finished backups of all nodes.

use catalog::FinishedBackup;
use store::{Store, StoreError};
use wire::proto;

use crate::messages::portions::{Portion, Section, number_key};

/// Maximum length of a report in the list, in bytes. A client's report is much shorter, and a list
/// of many must not grow by what a single node sends.
const REPORT_BYTES_MAX: usize = 4096;
/// Maximum number of backups in a portion.
const BACKUPS_MAX: usize = 1000;

/// Lists a portion of the backups, newest first. The list ends before the first backup that ended
/// before `since`: backups are numbered as they end.
pub(super) fn finished(
    store: &Store,
    request: proto::FinishedBackupsRequest,
) -> Result<proto::FinishedBackupsReply, StoreError> {
    let since = request.since;
    let portion = Portion::parse(request.portion).at_most(BACKUPS_MAX);
    let backups = store.catalog.finished_backups(portion.first_number()?, portion.read_max())?;
    let wanted = backups.into_iter().take_while(|backup| backup.ended.0 >= since);
    let wanted = wanted.map(message).collect();
    let Section { items, next } =
        portion.cut(wanted, |backup: &proto::FinishedBackup| number_key(backup.number));
    Ok(proto::FinishedBackupsReply { backups: items, next })
}

fn message(backup: FinishedBackup) -> proto::FinishedBackup {
    let FinishedBackup { number, node, filespace, started, ended, report } = backup;
    let report = Some(report).filter(|report| report.len() <= REPORT_BYTES_MAX);
    proto::FinishedBackup {
        number,
        node,
        filespace: filespace.into(),
        started: started.0,
        ended: ended.0,
        report: report.unwrap_or_default(),
    }
}
