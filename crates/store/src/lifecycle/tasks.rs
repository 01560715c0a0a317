//! Tasks: work that the server starts by itself when it is due. The catalogue records each run.

use crate::error::StoreError;
use catalog::{Catalog, TaskEnd, Write};
use model::ServerTime;

/// A kind of task. The server that keeps house runs each task, one run at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Task {
    Expire,
    Reclaim,
    CopyCatalog,
    LockPacks,
}

impl Task {
    /// Returns the name of the task in the catalogue and in reports.
    fn name(self) -> &'static str {
        match self {
            Self::Expire => "expire",
            Self::Reclaim => "reclaim",
            Self::CopyCatalog => "copy the catalogue",
            Self::LockPacks => "lock packs",
        }
    }
}

/// Runs `work`, which was due at the time `due`, and records its beginning and its end. `warning`
/// returns a text about the work that a successful run has left undone, if there is any.
///
/// The work is done even if the run cannot be recorded in the catalogue.
pub fn run<T>(
    catalog: &dyn Catalog,
    task: Task,
    due: ServerTime,
    work: impl FnOnce() -> Result<T, StoreError>,
    warning: impl FnOnce(&T) -> Option<String>,
) -> Result<T, StoreError> {
    let name = task.name().to_owned();
    let _span = tracing::info_span!(target: model::TRACE, "task", name).entered();
    let started = sys::clock::now();
    record(catalog, Write::BeginTask { task: name.clone(), due: due.min(started), started });
    let outcome = work();
    let (code, reason) = match outcome.as_ref().map(warning) {
        Ok(None) => (0, String::new()),
        Ok(Some(warning)) => (TaskEnd::WARNED, warning),
        Err(error) => (TaskEnd::FAILED, error.to_string()),
    };
    let end = TaskEnd { at: sys::clock::now().max(started), code, reason };
    record(catalog, Write::EndTask { task: name, end });
    outcome
}

fn record(catalog: &dyn Catalog, write: Write) {
    if let Err(error) = catalog.commit(vec![write]) {
        tracing::warn!(error = model::chain(&error), "the run of a task cannot be recorded");
    }
}

#[cfg(test)]
mod tests {
    use catalog::{Tasks as _, sqlite::Sqlite};

    use super::*;

    #[test]
    fn each_run_is_recorded_with_its_outcome() {
        let folder = tempfile::tempdir().expect("a folder");
        let catalog = Sqlite::open(&folder.path().join("catalogue")).expect("opens");
        let due = ServerTime(7);
        let known = || catalog.task_runs(None, 9).expect("are listed");
        let half = |done: &u32| (*done < 2).then(|| format!("{done} of 2"));
        let done = run(&catalog, Task::Expire, due, || Ok(2), half);
        assert_eq!(done.expect("it is done"), 2);
        let watched = || {
            assert_eq!(known()[0].run.ended, None);
            Ok(1)
        };
        drop(run(&catalog, Task::LockPacks, due, watched, half));
        let full = || Err(StoreError::no_space("the disk is full"));
        let refused = run(&catalog, Task::Reclaim, ServerTime(i64::MAX), full, half);
        assert_eq!(refused.expect_err("it fails").to_string(), "the disk is full");
        let shown = |logged: catalog::LoggedRun| {
            let run = logged.run;
            let end = run.ended.expect("it is over");
            assert!(run.due <= run.started && run.started <= end.at);
            (run.task, end.code, end.reason)
        };
        let expected = [
            ("reclaim", TaskEnd::FAILED, "the disk is full"),
            ("lock packs", TaskEnd::WARNED, "1 of 2"),
            ("expire", 0, ""),
        ];
        let expected =
            expected.map(|(task, code, reason)| (task.to_owned(), code, reason.to_owned()));
        assert_eq!(known().into_iter().map(shown).collect::<Vec<_>>(), expected);
    }
}
