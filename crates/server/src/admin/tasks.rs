//! Runs of tasks.

use store::{Store, StoreError};
use wire::proto;

use crate::messages;
use crate::messages::portions::{Portion, Section, number_key};

/// Lists a portion of the runs, the latest start first.
pub(super) fn runs(store: &Store, portion: &Portion) -> Result<proto::TaskRunsReply, StoreError> {
    let runs = store.catalog.task_runs(portion.first_number()?, portion.read_max())?;
    let runs = runs.into_iter().map(messages::log::task_run).collect();
    let Section { items, next } = portion.cut(runs, |run: &proto::TaskRun| number_key(run.number));
    Ok(proto::TaskRunsReply { runs: items, next })
}
