//! Tasks: work that the server starts by itself when it is due. The catalogue records each run.
//!
//! ```text
//!   run          work that is due now and then:  begin --> record --> work --> record the end
//!   run_often    work that is due all the time:  begin --> work --(a minute)--> record --> ...
//!                                                           |   (or it fails, or works again)
//!                                     each second: is it cancelled? how far has it come?
//! ```
//!
//! The wish to cancel a run is a mark of the catalogue, because a person may be connected to
//! another server than the one that does the work. How far a run has come is known only at the
//! server that does it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::error::StoreError;
use catalog::{Catalog, EventRow, LoggedRun, TaskEnd, Write};
use model::ServerTime;
use serde_json::Value;
use sys::lock::Mutex;

/// Interval between two looks at the catalogue whether the run under way is cancelled.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// Duration from which a run of work that is due all the time is recorded.
const LONG: Duration = Duration::from_secs(60);
/// Time for which a task does not begin by itself after a person has cancelled it.
const REST: Duration = Duration::from_secs(3600);
/// Reason of a run that a person has cancelled.
const CANCELLED: &str = "a person has cancelled it; it rests for an hour";

/// A kind of task. The server that keeps house runs each task, one run at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Task {
    Expire,
    Reclaim,
    CopyCatalog,
    LockPacks,
    Drain,
    CopyPacks,
    ReclaimVolumes,
}

impl Task {
    const ALL: [Self; 7] = [
        Self::Expire,
        Self::Reclaim,
        Self::CopyCatalog,
        Self::LockPacks,
        Self::Drain,
        Self::CopyPacks,
        Self::ReclaimVolumes,
    ];

    /// Returns the name of the task in the catalogue and in reports.
    fn name(self) -> &'static str {
        match self {
            Self::Expire => "expire",
            Self::Reclaim => "reclaim",
            Self::CopyCatalog => "copy the catalogue",
            Self::LockPacks => "lock packs",
            Self::Drain => "drain",
            Self::CopyPacks => "copy packs",
            Self::ReclaimVolumes => "reclaim volumes",
        }
    }

    fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|task| task.name() == name)
    }

    /// Returns the mark with the number of the run that a person has cancelled last.
    fn mark(self) -> &'static str {
        match self {
            Self::Expire => "cancelled expire",
            Self::Reclaim => "cancelled reclaim",
            Self::CopyCatalog => "cancelled copy the catalogue",
            Self::LockPacks => "cancelled lock packs",
            Self::Drain => "cancelled drain",
            Self::CopyPacks => "cancelled copy packs",
            Self::ReclaimVolumes => "cancelled reclaim volumes",
        }
    }
}

/// The tasks of this server: how far they have come, and which ones a person has cancelled.
#[derive(Default)]
pub struct Tasks(Mutex<BTreeMap<Task, TaskState>>);

#[derive(Default)]
struct TaskState {
    /// Number of the recorded run under way, and how far it has come; `None` without one.
    numbers: Option<(u64, Value)>,
    /// Time at which a cancelled run noticed that.
    cancelled: Option<Instant>,
}

impl Tasks {
    /// Returns how far this run has come; `None` if it is not under way at this server.
    fn numbers(&self, task: Task, run: u64) -> Option<Value> {
        let states = self.0.lock();
        let (number, numbers) = states.get(&task)?.numbers.as_ref()?;
        (*number == run).then(|| numbers.clone())
    }

    /// Returns true if the task may begin by itself: nobody has cancelled it lately.
    pub(crate) fn may_begin(&self, task: Task) -> bool {
        let cancelled = self.0.lock().get(&task).and_then(|state| state.cancelled);
        cancelled.is_none_or(|at| at.elapsed() >= REST)
    }

    fn note(&self, task: Task, numbers: Option<(u64, Value)>) {
        self.0.lock().entry(task).or_default().numbers = numbers;
    }

    /// Notes that a run of the task has been cancelled: the task does not begin again for a while.
    pub(crate) fn note_cancelled(&self, task: Task) {
        self.0.lock().entry(task).or_default().cancelled = Some(sys::clock::monotonic());
    }
}

/// A run under way.
pub struct OpenRun<'a> {
    catalog: &'a dyn Catalog,
    tasks: &'a Tasks,
    task: Task,
    due: ServerTime,
    started: ServerTime,
    began: Instant,
    looked: Option<Instant>,
    is_recorded: bool,
    /// Number of the run; `None` for a run that is not recorded, and so cannot be cancelled.
    number: Option<u64>,
    is_cancelled: bool,
}

impl<'a> OpenRun<'a> {
    fn new(catalog: &'a dyn Catalog, tasks: &'a Tasks, task: Task, due: ServerTime) -> Self {
        let started = sys::clock::now();
        Self {
            catalog,
            tasks,
            task,
            due: due.min(started),
            started,
            began: sys::clock::monotonic(),
            looked: None,
            is_recorded: false,
            number: None,
            is_cancelled: false,
        }
    }

    /// Returns false if a person has cancelled the run. Notes how far it has come.
    pub fn goes_on(&mut self, numbers: impl FnOnce() -> Value) -> bool {
        if self.looked.is_none_or(|looked| looked.elapsed() >= LOOK_PAUSE) {
            self.looked = Some(sys::clock::monotonic());
            self.look(numbers());
        }
        !self.is_cancelled
    }

    fn look(&mut self, numbers: Value) {
        if self.began.elapsed() >= LONG {
            self.record();
        }
        if self.is_recorded && self.number.is_none() {
            self.number = self.own_number();
        }
        let Some(number) = self.number else { return };
        self.tasks.note(self.task, Some((number, numbers)));
        // A wish that cannot be read now is read at the next look.
        let wish = self.catalog.mark(self.task.mark()).ok().flatten();
        let cancelled = wish.and_then(|wish| u64::try_from(wish).ok());
        if cancelled == Some(number) && !self.is_cancelled {
            self.is_cancelled = true;
            self.tasks.note_cancelled(self.task);
        }
    }

    fn record(&mut self) {
        if self.is_recorded {
            return;
        }
        self.is_recorded = true;
        let (task, due, started) = (self.task.name().to_owned(), self.due, self.started);
        record(self.catalog, Write::BeginTask { task, due, started });
        self.number = self.own_number();
    }

    /// Returns the number of this run, which is recorded.
    fn own_number(&self) -> Option<u64> {
        let runs = self.catalog.last_task_runs();
        let runs = runs.inspect_err(|error| {
            tracing::warn!(%error, "the run of a task cannot be cancelled yet");
        });
        let is_own = |one: &LoggedRun| one.run.task == self.task.name() && one.run.ended.is_none();
        runs.ok()?.into_iter().find(is_own).map(|one| one.number)
    }

    /// Records a short run, too, if the run that is recorded last ended otherwise or has no end:
    /// nobody would see a failure that comes soon, and an old one would be shown until a run lasts
    /// again.
    fn record_change(&mut self, has_failed: bool) {
        if self.is_recorded {
            return;
        }
        let runs = self.catalog.last_task_runs().unwrap_or_default();
        let last = runs.into_iter().find(|one| one.run.task == self.task.name());
        let is_same = |end: &TaskEnd| (end.code >= TaskEnd::FAILED) == has_failed;
        let is_known = match last {
            Some(one) => one.run.ended.as_ref().is_some_and(is_same),
            None => !has_failed,
        };
        if !is_known {
            self.record();
        }
    }

    fn end(&self, code: u8, reason: String) {
        let is_closed =
            |number| find(self.catalog, number).is_ok_and(|logged| logged.run.ended.is_some());
        // Another server has taken over meanwhile: the open run is its own.
        let is_lost = self.number.is_some_and(is_closed);
        if self.is_recorded && !is_lost {
            let end = TaskEnd { at: sys::clock::now().max(self.started), code, reason };
            record(self.catalog, Write::EndTask { task: self.task.name().to_owned(), end });
        }
    }
}

impl Drop for OpenRun<'_> {
    fn drop(&mut self) {
        self.tasks.note(self.task, None);
    }
}

/// Runs `work`, which was due at the time `due`, and records its beginning and its end. `warning`
/// returns a text about the work that a successful run has left undone, if there is any.
///
/// The work is done even if the run cannot be recorded in the catalogue.
pub fn run<T>(
    catalog: &dyn Catalog,
    tasks: &Tasks,
    (task, due): (Task, ServerTime),
    work: impl FnOnce(&mut OpenRun<'_>) -> Result<T, StoreError>,
    warning: impl FnOnce(&T) -> Option<String>,
) -> Result<T, StoreError> {
    let _span = tracing::info_span!(target: model::TRACE, "task", name = task.name()).entered();
    let mut open = OpenRun::new(catalog, tasks, task, due);
    open.record();
    carry_out(open, work, warning)
}

/// Runs `work`, which is due all the time and mostly ends soon. A run that lasts is recorded, and
/// so is the first run that fails, and the first that succeeds after that.
pub(crate) fn run_often<T>(
    catalog: &dyn Catalog,
    tasks: &Tasks,
    task: Task,
    work: impl FnOnce(&mut OpenRun<'_>) -> Result<T, StoreError>,
    warning: impl FnOnce(&T) -> Option<String>,
) -> Result<T, StoreError> {
    carry_out(OpenRun::new(catalog, tasks, task, sys::clock::now()), work, warning)
}

fn carry_out<T>(
    mut open: OpenRun<'_>,
    work: impl FnOnce(&mut OpenRun<'_>) -> Result<T, StoreError>,
    warning: impl FnOnce(&T) -> Option<String>,
) -> Result<T, StoreError> {
    let outcome = work(&mut open);
    let (code, reason) = match outcome.as_ref().map(warning) {
        Ok(None) => (0, String::new()),
        Ok(Some(warning)) => (TaskEnd::WARNED, warning),
        Err(StoreError::Cancelled(_)) if open.is_cancelled => {
            (TaskEnd::CANCELLED, CANCELLED.to_owned())
        }
        Err(error) => (TaskEnd::FAILED, error.to_string()),
    };
    // A run that others kept out, or that was cancelled, says nothing about the work.
    if !matches!(outcome, Err(StoreError::Busy(_) | StoreError::Cancelled(_))) {
        open.record_change(code >= TaskEnd::FAILED);
    }
    open.end(code, reason);
    outcome
}

fn record(catalog: &dyn Catalog, write: Write) {
    if let Err(error) = catalog.commit(vec![write]) {
        tracing::warn!(error = model::chain(&error), "the run of a task cannot be recorded");
    }
}

/// A run as people see it.
#[derive(Clone, PartialEq, Debug)]
pub struct RunSight {
    pub logged: LoggedRun,
    /// How far the run has come; `None` for one that is over, and at another server than its own.
    pub progress: Option<Value>,
    /// True if a person has cancelled the run, and it has not ended yet.
    pub is_cancelled: bool,
}

/// Describes a run from the catalogue.
pub fn see(
    catalog: &dyn Catalog,
    tasks: &Tasks,
    logged: LoggedRun,
) -> Result<RunSight, StoreError> {
    let task = Task::of_name(&logged.run.task).filter(|_| logged.run.ended.is_none());
    let Some(task) = task else {
        return Ok(RunSight { logged, progress: None, is_cancelled: false });
    };
    let wish = catalog.mark(task.mark())?.and_then(|wish| u64::try_from(wish).ok());
    let is_cancelled = wish == Some(logged.number);
    let progress = tasks.numbers(task, logged.number);
    Ok(RunSight { logged, progress, is_cancelled })
}

/// Finds the run with this number.
pub fn find(catalog: &dyn Catalog, number: u64) -> Result<LoggedRun, StoreError> {
    let runs = catalog.task_runs(Some(number), 1)?;
    let found = runs.into_iter().find(|one| one.number == number);
    found.ok_or_else(|| StoreError::not_found(format!("no run of a task has the number {number}")))
}

/// Notes that `author` wants the run with this number to end. It ends after what it does at the
/// moment, and the task does not begin again for an hour.
pub fn cancel(catalog: &dyn Catalog, number: u64, author: &str) -> Result<(), StoreError> {
    let LoggedRun { run, .. } = find(catalog, number)?;
    if run.ended.is_some() {
        return Err(StoreError::conflict(format!("run {number} of '{}' has ended", run.task)));
    }
    let unknown = || StoreError::conflict(format!("this server does not know '{}'", run.task));
    let task = Task::of_name(&run.task).ok_or_else(unknown)?;
    let value = i64::try_from(number).expect("the catalogue counts so far");
    if catalog.mark(task.mark())? == Some(value) {
        return Err(StoreError::conflict(format!(
            "run {number} of '{}' is cancelled already; it ends after what it does at the moment",
            run.task
        )));
    }
    let (actor, what) = (author.to_owned(), "task cancelled".to_owned());
    let event = EventRow { time: sys::clock::now(), actor, what, details: task.name().to_owned() };
    let wish = Write::SetMark { name: task.mark(), value };
    Ok(catalog.commit(vec![wish, Write::AddEvent(event)])?)
}

#[cfg(test)]
mod tests {
    use catalog::{Tasks as _, sqlite::Sqlite};
    use serde_json::json;

    use super::*;

    fn catalog() -> (tempfile::TempDir, Sqlite) {
        let folder = tempfile::tempdir().expect("a folder");
        let catalog = Sqlite::open(&folder.path().join("catalogue")).expect("opens");
        (folder, catalog)
    }

    #[test]
    fn each_run_is_recorded_with_its_outcome() {
        let (_folder, catalog) = catalog();
        let tasks = Tasks::default();
        let due = ServerTime(7);
        let known = || catalog.task_runs(None, 9).expect("are listed");
        let half = |done: &u32| (*done < 2).then(|| format!("{done} of 2"));
        let done = run(&catalog, &tasks, (Task::Expire, due), |_| Ok(2), half);
        assert_eq!(done.expect("it is done"), 2);
        let watched = |_: &mut OpenRun<'_>| {
            assert_eq!(known()[0].run.ended, None);
            Ok(1)
        };
        drop(run(&catalog, &tasks, (Task::LockPacks, due), watched, half));
        let full = |_: &mut OpenRun<'_>| Err(StoreError::no_space("the disk is full"));
        let late = (Task::Reclaim, ServerTime(i64::MAX));
        let refused = run(&catalog, &tasks, late, full, half);
        assert_eq!(refused.expect_err("it fails").to_string(), "the disk is full");
        let shown = |logged: LoggedRun| {
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

    #[test]
    fn a_run_tells_how_far_it_has_come_and_ends_when_it_is_cancelled() {
        let (_folder, catalog) = catalog();
        let tasks = Tasks::default();
        let sight = || {
            let logged = catalog.task_runs(None, 1).expect("are listed").remove(0);
            see(&catalog, &tasks, logged).expect("is described")
        };
        let work = |open: &mut OpenRun<'_>| {
            assert!(open.goes_on(|| json!({ "done": 7 })));
            let seen = sight();
            assert_eq!((seen.progress, seen.is_cancelled), (Some(json!({ "done": 7 })), false));
            cancel(&catalog, seen.logged.number, "anna").expect("is noted");
            assert!(sight().is_cancelled);
            let again = cancel(&catalog, seen.logged.number, "anna").expect_err("is refused");
            assert!(again.to_string().contains("is cancelled already"), "{again}");
            open.looked = None;
            assert!(!open.goes_on(|| json!({ "done": 8 })));
            Err::<(), _>(StoreError::cancelled("the run was cancelled"))
        };
        assert!(tasks.may_begin(Task::Drain));
        drop(run(&catalog, &tasks, (Task::Drain, ServerTime(7)), work, |()| None));
        assert!(!tasks.may_begin(Task::Drain) && tasks.may_begin(Task::Expire));
        let seen = sight();
        assert_eq!((seen.progress, seen.is_cancelled), (None, false), "it is over");
        let end = seen.logged.run.ended.expect("it is over");
        assert_eq!((end.code, &end.reason[..]), (TaskEnd::CANCELLED, CANCELLED));
        let again = cancel(&catalog, seen.logged.number, "anna");
        assert!(matches!(again, Err(StoreError::Conflict(_))), "{again:?}");
        let unknown = cancel(&catalog, seen.logged.number + 1, "anna");
        assert!(matches!(unknown, Err(StoreError::NotFound(_))), "{unknown:?}");
        // The wish was about that run alone.
        let next = |open: &mut OpenRun<'_>| Ok(open.goes_on(|| Value::Null));
        let goes_on = run(&catalog, &tasks, (Task::Drain, ServerTime(7)), next, |_| None);
        assert_eq!(goes_on, Ok(true));
    }

    #[test]
    fn work_that_is_due_all_the_time_is_recorded_when_it_lasts() {
        let (_folder, catalog) = catalog();
        let tasks = Tasks::default();
        let names = || {
            let runs = catalog.task_runs(None, 9).expect("are listed");
            runs.into_iter().map(|one| one.run.task).collect::<Vec<_>>()
        };
        let soon = |open: &mut OpenRun<'_>| Ok(open.goes_on(|| Value::Null));
        let none = |_: &bool| None;
        assert_eq!(run_often(&catalog, &tasks, Task::CopyPacks, soon, none), Ok(true));
        assert_eq!(names(), [""; 0]);
        let lasting = |open: &mut OpenRun<'_>| {
            let long_ago = open.began.checked_sub(LONG);
            open.began = long_ago.expect("the machine has been up for a minute");
            assert!(open.goes_on(|| Value::Null));
            assert_eq!(names(), ["copy packs"]);
            Ok(())
        };
        let often = |work: &dyn Fn(&mut OpenRun<'_>) -> Result<(), StoreError>| {
            run_often(&catalog, &tasks, Task::CopyPacks, work, |()| None)
        };
        assert_eq!(often(&lasting), Ok(()));
        let codes = || -> Vec<Option<u8>> {
            let runs = catalog.task_runs(None, 9).expect("are listed");
            runs.into_iter().map(|one| one.run.ended.map(|end| end.code)).collect()
        };
        assert_eq!(codes(), [Some(0)]);
        assert!(often(&|_| Err(StoreError::busy("another run"))).is_err());
        assert_eq!(codes(), [Some(0)]);
        // A failure is shown once, and until a run, be it short, has ended well.
        for _ in 0..2 {
            assert!(often(&|_| Err(StoreError::no_space("the disk is full"))).is_err());
            assert_eq!(codes(), [Some(TaskEnd::FAILED), Some(0)]);
        }
        for _ in 0..2 {
            assert_eq!(often(&|_| Ok(())), Ok(()));
            assert_eq!(codes(), [Some(0), Some(TaskEnd::FAILED), Some(0)]);
        }
    }

    #[test]
    fn each_task_has_a_name_and_a_mark_of_its_own() {
        for task in Task::ALL {
            assert_eq!(Task::of_name(task.name()), Some(task));
            assert_eq!(task.mark(), format!("cancelled {}", task.name()));
        }
        assert_eq!(Task::of_name("nap"), None);
    }
}
