//! What the server does by itself when it is due: when that was, and how it went.

use catalog::{Catalog, TaskEnd, Write};
use model::ServerTime;
use tonic::Status;

/// What is due now and then. Each runs at one server at a time, the one that keeps house.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Task {
    Expire,
    Reclaim,
    CopyCatalog,
    LockPacks,
}

impl Task {
    /// As the catalogue and the user call it.
    fn name(self) -> &'static str {
        match self {
            Self::Expire => "expire",
            Self::Reclaim => "reclaim",
            Self::CopyCatalog => "copy the catalogue",
            Self::LockPacks => "lock packs",
        }
    }
}

/// Has `work` do what was `due`, and writes down how it went; `trouble` says what it has left
/// undone. That the catalogue does not take it in keeps nobody from working.
pub(crate) fn run<T>(
    catalog: &dyn Catalog,
    (task, due): (Task, ServerTime),
    work: impl FnOnce() -> Result<T, Status>,
    trouble: impl FnOnce(&T) -> Option<String>,
) -> Result<T, Status> {
    let name = task.name().to_owned();
    let started = sys::clock::now();
    write_down(catalog, Write::BeginTask { task: name.clone(), due: due.min(started), started });
    let outcome = work();
    let (code, reason) = match outcome.as_ref().map(trouble) {
        Ok(None) => (0, String::new()),
        Ok(Some(trouble)) => (TaskEnd::WARNED, trouble),
        Err(status) => (TaskEnd::FAILED, status.message().to_owned()),
    };
    let end = TaskEnd { at: sys::clock::now(), code, reason };
    write_down(catalog, Write::EndTask { task: name, end });
    outcome
}

fn write_down(catalog: &dyn Catalog, write: Write) {
    if let Err(error) = catalog.commit(vec![write]) {
        tracing::warn!(error = model::chain(&error), "a task's run was not written down");
    }
}

#[cfg(test)]
mod tests {
    use catalog::sqlite::Sqlite;

    use super::*;

    #[test]
    fn how_it_went_is_written_down() {
        let folder = tempfile::tempdir().expect("a folder");
        let catalog = Sqlite::open(&folder.path().join("catalogue")).expect("opens");
        let due = ServerTime(7);
        let known = || catalog.task_runs(9).expect("are listed");
        let half = |done: &u32| (*done < 2).then(|| format!("{done} of 2"));
        let done = run(&catalog, (Task::Expire, due), || Ok(2), half);
        assert_eq!(done.expect("it is done"), 2);
        let watched = || {
            assert_eq!(known()[0].ended, None);
            Ok(1)
        };
        drop(run(&catalog, (Task::LockPacks, due), watched, half));
        let full = || Err(Status::resource_exhausted("the disk is full"));
        let refused = run(&catalog, (Task::Reclaim, ServerTime(i64::MAX)), full, half);
        assert_eq!(refused.expect_err("it fails").message(), "the disk is full");
        let told = |run: catalog::TaskRun| {
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
        assert_eq!(known().into_iter().map(told).collect::<Vec<_>>(), expected);
    }
}
