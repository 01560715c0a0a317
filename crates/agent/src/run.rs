//! The agent's work: it keeps the plan, starts what is due, and reports.

mod obstacles;
mod reports;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{
    AgentConfig, ClientError, EventControl, EventName, EventProgress, Order, Plan, agent_config,
    agent_config_heard,
};
use model::ServerTime;
use policy::schedule::agenda::{Duty, LastEvent, Start, look};
use policy::schedule::event::FAILED_CODE;
use policy::schedule::{Definition, ONCE_PREFIX};
use sys::alarm::Alarm;
use tokio::sync::mpsc;

use self::obstacles::Obstacles;
use self::reports::Reports;
use crate::command_line::{self, Rights};
use crate::instance::{self, Verdict};
use crate::line::{self, Line, Message, News};
use crate::plan_file;
use crate::record::{self, AttemptState, BEGUN_FILE, LOCK_FILE, Outcome, Record};
use crate::server_clock::ServerClock;
use crate::slot::Slot;

/// Interval between two signs of life of a task.
const SIGN_PAUSE: Duration = Duration::from_secs(600);
/// Time after which a task that has begun gives the first sign of life.
const FIRST_SIGN_PAUSE: Duration = Duration::from_secs(10);
/// Interval between two messages about the progress of a task at which somebody looks.
const PROGRESS_PAUSE: Duration = Duration::from_secs(1);
/// Maximum time for which one order makes the agent tell the progress of tasks.
const WATCH_MAX: Duration = Duration::from_secs(60);
const DAY_MICROS: i64 = 86_400_000_000;
/// Time without work after which the agent gives back the memory that its start has taken.
const REST_PAUSE: Duration = Duration::from_secs(30);
/// Time for which the agent waits for the first answer of the server, or its absence, before it
/// begins events: the node's own clock may be wrong.
const FIRST_ANSWER_MAX: Duration = Duration::from_secs(30);
/// Pause before the agent tries again what has failed on this machine, such as a write to a full
/// disk.
const TROUBLE_PAUSE_MICROS: i64 = 60_000_000;
/// Pause before reports are sent that had to wait.
const REPORT_PAUSE: Duration = Duration::from_secs(1);
/// Interval between two removals of old records.
const PRUNE_PAUSE: Duration = Duration::from_secs(3600);

/// Reason why the agent does not run.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error(transparent)]
    Home(#[from] ClientError),
    #[error("another agent of this node is running")]
    Twice,
    #[error("the agent's folder {folder} cannot be used")]
    Folder { folder: PathBuf, source: io::Error },
    #[error("the agent cannot go on")]
    System(#[from] io::Error),
}

/// Runs the agent of the node in the folder `home` until `stop` ends. `program` is this program,
/// and starts the tasks.
pub fn run(home: &Path, program: &Path, stop: impl Future<Output = ()>) -> Result<(), AgentError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        let AgentConfig { settings, sources, node, warnings } = agent_config(home)?;
        warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        let folder = home.join(crate::FOLDER);
        let failed = |source| AgentError::Folder { folder: folder.clone(), source };
        sys::durable::create_dir_all(&folder, 0o700).map_err(failed)?;
        let lock = sys::durable::Lock::try_exclusive(&folder.join(LOCK_FILE)).map_err(failed)?;
        let _lock = lock.ok_or(AgentError::Twice)?;
        let plan = plan_file::load(&folder);
        let identity = instance::identity(&folder).map_err(failed)?;
        let line = line::open(home.to_owned(), identity, settings.clone(), plan.digest.clone());
        let (ended_in, ended) = mpsc::unbounded_channel();
        let mut agent = Agent {
            home: home.to_owned(),
            program: program.to_owned(),
            records: record::load_all(&folder).map_err(failed)?,
            verdict: Verdict::load(&folder).map_err(failed)?,
            folder: folder.clone(),
            rights: Rights { settings, sources, fault: None },
            node,
            plan: Plan::default(),
            duties: BTreeMap::new(),
            definitions: BTreeMap::new(),
            running: BTreeMap::new(),
            wishes: BTreeMap::new(),
            pauses: BTreeMap::new(),
            settled: BTreeSet::new(),
            pruned: None,
            ended: ended_in,
            reports: Reports::default(),
            obstacles: Obstacles::default(),
            audience: Audience::default(),
            clock: ServerClock::default(),
            is_answered: false,
            is_in_trouble: false,
            gaps: PlanGaps::default(),
        };
        agent.follow(plan);
        let taken_over = agent.take_over();
        agent.heed(taken_over);
        Ok(agent.work(line, ended, stop).await?)
    });
    // The threads that wait for tasks end with the process. The tasks go on.
    runtime.shutdown_background();
    ended
}

/// Starts the thread that waits for the alarm. Each time that the alarm goes off, the result gets a
/// message.
fn rings(alarm: &Arc<Alarm>) -> mpsc::Receiver<()> {
    let (ring, rings) = mpsc::channel(1);
    let alarm = Arc::clone(alarm);
    std::thread::spawn(move || while alarm.wait().is_ok() && ring.blocking_send(()).is_ok() {});
    rings
}

/// Parts of the last plan that could not be stored.
#[derive(Default)]
struct PlanGaps {
    lacks_plan: bool,
    lacks_option_set: bool,
}

/// The agent of a node.
struct Agent {
    home: PathBuf,
    program: PathBuf,
    /// The agent's folder.
    folder: PathBuf,
    rights: Rights,
    /// Name of the node.
    node: String,
    plan: Plan,
    duties: BTreeMap<String, Duty>,
    definitions: BTreeMap<String, String>,
    /// Records of events, oldest first.
    records: Vec<Record>,
    /// Events whose tasks run, with their slots.
    running: BTreeMap<EventName, Slot>,
    /// Wishes that were passed on to tasks.
    wishes: BTreeMap<EventName, EventControl>,
    /// Pauses of tasks that the server was told.
    pauses: BTreeMap<EventName, ServerTime>,
    /// Events that have ended, and whose end the server has confirmed.
    settled: BTreeSet<EventName>,
    /// Time of the last removal of old records.
    pruned: Option<Instant>,
    /// Takes the names of events whose keepers have ended.
    ended: mpsc::UnboundedSender<EventName>,
    reports: Reports,
    obstacles: Obstacles,
    audience: Audience,
    clock: ServerClock,
    verdict: Verdict,
    /// True if the server has answered, or is known to be away.
    is_answered: bool,
    /// True if something has failed on this machine.
    is_in_trouble: bool,
    gaps: PlanGaps,
}

/// Events at which somebody looks.
#[derive(Default)]
struct Audience {
    events: BTreeSet<EventName>,
    until: Option<Instant>,
    /// The last progress that was sent of each event.
    told: BTreeMap<EventName, String>,
}

impl Audience {
    fn is_here(&self) -> bool {
        self.until.is_some_and(|until| sys::clock::monotonic() < until)
    }
}

impl Agent {
    async fn work(
        &mut self,
        mut line: Line,
        mut ended: mpsc::UnboundedReceiver<EventName>,
        stop: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let alarm = Arc::new(Alarm::new()?);
        let mut rings = rings(&alarm);
        tokio::pin!(stop);
        let mut sign = None;
        let mut rests = false;
        loop {
            let next = self.look_around(&line);
            alarm.set(ServerTime(next.0.saturating_sub(self.clock.lead_micros())))?;
            sign = match (self.running.is_empty(), sign) {
                (true, _) => None,
                (false, None) => Some(tokio::time::Instant::now() + FIRST_SIGN_PAUSE),
                (false, known) => known,
            };
            let is_idle = self.running.is_empty();
            let tells = self.audience.is_here()
                && self.audience.events.iter().any(|name| self.running.contains_key(name));
            let waits_for_keepers = self.has_wishes_to_pass();
            let awaits = waits_for_keepers || self.awaits_pauses();
            let sign_at = sign.unwrap_or_else(|| tokio::time::Instant::now() + SIGN_PAUSE);
            tokio::select! {
                () = &mut stop => return Ok(()),
                news = line.news.recv() => match news {
                    Some(news) => {
                        let heard = self.hear(news, &line);
                        self.heed(heard);
                    }
                    None => return Ok(()),
                },
                name = ended.recv() => {
                    if let Some(name) = name {
                        let noted = self.end(&name, &line);
                        self.heed(noted);
                    }
                }
                _ = rings.recv() => {}
                () = tokio::time::sleep(FIRST_ANSWER_MAX), if !self.is_answered => {
                    self.is_answered = true;
                }
                () = tokio::time::sleep(REPORT_PAUSE), if self.reports.has_more => {
                    self.report_all(&line);
                }
                () = tokio::time::sleep(PROGRESS_PAUSE), if tells || awaits => {
                    if tells {
                        self.tell_progress(&line);
                    }
                    if waits_for_keepers {
                        let passed = self.pass_wishes();
                        self.heed(passed);
                    }
                    self.tell_pauses(&line);
                }
                () = tokio::time::sleep_until(sign_at), if sign.is_some() => {
                    self.give_signs(&line);
                    sign = Some(tokio::time::Instant::now() + SIGN_PAUSE);
                }
                () = tokio::time::sleep(REST_PAUSE), if is_idle && !rests => {
                    // A failure costs memory only.
                    drop(sys::program::rest());
                    rests = true;
                    continue;
                }
            }
            rests = false;
        }
    }

    /// Takes note that something on this machine has failed. One event must not end the agent.
    fn heed(&mut self, done: io::Result<()>) {
        if let Err(error) = done {
            tracing::error!(%error, "this machine has failed the agent; trying again in a minute");
            self.is_in_trouble = true;
        }
    }

    /// Starts what is due. Returns the time at which to look again.
    fn look_around(&mut self, line: &Line) -> ServerTime {
        if std::mem::take(&mut self.is_in_trouble) {
            if self.gaps.lacks_plan {
                let stored = self.store_plan();
                self.heed(stored);
            }
            self.take_settings(line);
            let taken_over = self.take_over();
            self.heed(taken_over);
            self.report_all(line);
        }
        let looked = self.start_due(line);
        let retry = ServerTime(self.clock.now().0 + TROUBLE_PAUSE_MICROS);
        match looked {
            Ok(next) if self.is_in_trouble => next.min(retry),
            Ok(next) => next,
            Err(error) => {
                self.heed(Err(error));
                retry
            }
        }
    }

    /// Takes a plan over. A schedule that this program does not understand is left out.
    fn follow(&mut self, plan: Plan) {
        self.duties.clear();
        self.definitions.clear();
        for schedule in &plan.schedules {
            if !is_schedule_name(&schedule.name) {
                tracing::warn!(schedule = schedule.name, "this is no name of a schedule");
                continue;
            }
            let definition = match serde_json::from_str::<Definition>(&schedule.definition) {
                Ok(definition) => definition,
                Err(error) => {
                    tracing::warn!(
                        schedule = schedule.name,
                        %error,
                        "this schedule needs a newer program"
                    );
                    continue;
                }
            };
            let Ok(duty) = Duty::new(&definition, schedule.since) else {
                tracing::warn!(schedule = schedule.name, zone = definition.zone, "unknown zone");
                continue;
            };
            if definition.is_suspended {
                continue;
            }
            self.duties.insert(schedule.name.clone(), duty);
            self.definitions.insert(schedule.name.clone(), schedule.definition.clone());
        }
        self.plan = plan;
    }

    /// Takes over the tasks that an earlier agent has started, and those whose start has failed.
    /// Fails with the last failure.
    fn take_over(&mut self) -> io::Result<()> {
        let mut done = Ok(());
        for record in self.records.clone() {
            if !self.running.contains_key(&record.name()) {
                done = self.take_task_over(&record).and(done);
            }
        }
        done
    }

    fn take_task_over(&mut self, record: &Record) -> io::Result<()> {
        match record.state()? {
            AttemptState::Running => {
                self.watch(record);
                Ok(())
            }
            AttemptState::Claimed => self.start(record),
            AttemptState::CutOff => record.end(&Outcome {
                ended: sys::clock::now().0,
                code: None,
                reason: "the machine or the task keeper was stopped".to_owned(),
            }),
            AttemptState::Ended(_) => Ok(()),
        }
    }

    /// Starts what is due. Returns the time at which to look again.
    fn start_due(&mut self, line: &Line) -> io::Result<ServerTime> {
        loop {
            let now = self.clock.now();
            if !self.is_answered || self.verdict.is_refused() {
                return Ok(ServerTime(now.0 + DAY_MICROS));
            }
            let last_events = self.last_events(now);
            let agenda = look(&self.duties, &last_events, &self.node, now);
            let is_free = |start: &Start| !self.is_held(start) && self.may_start(start);
            let due: Vec<Start> = agenda.due.into_iter().filter(is_free).collect();
            let Some(start) = due.first() else {
                return Ok(agenda.next_look.unwrap_or(ServerTime(now.0 + DAY_MICROS)));
            };
            // The node's file may have changed.
            self.take_settings(line);
            let begun = self.begin(start);
            if let Err(error) = &begun
                && !self.is_recorded(start)
            {
                let name_of = |start: &Start| EventName {
                    schedule: start.schedule.clone(),
                    planned: start.planned,
                };
                let unrecorded = due.iter().filter(|start| !self.is_recorded(start));
                let events = unrecorded.map(name_of).collect();
                self.obstacles.tell(events, error, self.reports.is_connected, line);
            }
            begun?;
            self.report_all(line);
        }
    }

    /// Returns the last event of each schedule. An event whose record cannot be read counts as
    /// under way: nothing of its schedule begins, and the other schedules go on.
    fn last_events(&mut self, now: ServerTime) -> BTreeMap<String, LastEvent> {
        let mut done = Ok(());
        let mut last_events = BTreeMap::new();
        for (schedule, record) in record::last_of_each(&self.records, now) {
            let event = record.last_event().unwrap_or_else(|error| {
                done = Err(error);
                record.under_way()
            });
            last_events.insert(schedule.to_owned(), event);
        }
        self.heed(done);
        last_events
    }

    /// Returns true if another task may run beside those that do.
    fn may_start(&self, start: &Start) -> bool {
        let slot = match self.record_of(start) {
            Some(known) => known.slot(),
            None => Slot::of(&start.schedule, &self.definitions[&start.schedule]),
        };
        slot.is_free(self.running.values().copied())
    }

    /// Returns the record of the event, if an attempt of it has begun.
    ///
    /// The schedule may have changed since the first attempt, which has claimed the event.
    fn record_of(&self, start: &Start) -> Option<&Record> {
        self.records.iter().find(|record| {
            record.claim.schedule == start.schedule && record.claim.planned == start.planned.0
        })
    }

    /// Returns true if the attempt is recorded, and so has begun.
    fn is_recorded(&self, start: &Start) -> bool {
        self.record_of(start).is_some_and(|record| record.attempt >= start.attempt)
    }

    /// Returns true if an administrator has paused the event. It begins once it is resumed.
    fn is_held(&self, start: &Start) -> bool {
        let is_of =
            |event: &EventName| event.schedule == start.schedule && event.planned == start.planned;
        let wish = self.plan.controls.iter().find(|(event, _)| is_of(event));
        wish.is_some_and(|(_, control)| *control == EventControl::Pause)
    }

    /// Records an attempt and starts its task.
    fn begin(&mut self, start: &Start) -> io::Result<()> {
        let record = match self.record_of(start) {
            Some(known) => known.begin_again(start.attempt)?,
            None => {
                let duty = &self.duties[&start.schedule];
                let before = ServerTime(start.planned.0 - 1);
                let occurrence = duty.timing.occurrences(&duty.zone, before).next();
                let occurrence = occurrence.expect("a first attempt is of a planned occurrence");
                let definition = &self.definitions[&start.schedule];
                Record::claim(&self.folder, start, occurrence, definition)?
            }
        };
        self.settled.remove(&record.name());
        self.records.retain(|known| known.folder != record.folder);
        self.records.push(record.clone());
        self.records
            .sort_by_key(|record| (record.claim.planned, record.claim.schedule.clone()));
        tracing::info!(schedule = start.schedule, attempt = start.attempt, "event begins");
        let is_cancelled = |(event, control): &(EventName, EventControl)| {
            *event == record.name() && *control == EventControl::Cancel
        };
        if self.plan.controls.iter().any(is_cancelled) {
            record.mark_cancelled()?;
            return refuse(&record, "cancelled by an administrator");
        }
        self.start(&record)
    }

    /// Returns true if the window of an event is over that is not made up for.
    fn is_too_late(&self, record: &Record, definition: &Definition) -> bool {
        !definition.runs_late && self.clock.now().0 >= record.claim.closes
    }

    /// Starts the keeper of the last attempt of `record`.
    fn start(&mut self, record: &Record) -> io::Result<()> {
        let definition: Result<Definition, _> = serde_json::from_str(&record.claim.definition);
        let definition = match definition {
            Ok(definition) => definition,
            Err(error) => return refuse(record, &error.to_string()),
        };
        let line = match command_line::of_action(&definition.action, &self.rights) {
            Ok(line) => line,
            Err(refusal) => return refuse(record, &refusal.to_string()),
        };
        if self.is_too_late(record, &definition) {
            return refuse(record, "the agent was stopped until the window was over");
        }
        // The agent may have been killed before it had made the folder.
        sys::durable::create_dir_all(&record.attempt_folder(), 0o700)?;
        let mut home = OsString::from("--home=");
        home.push(&self.home);
        let own = self.program.clone().into_os_string();
        let (program, arguments) = line.program(own, vec![home]);
        let mut command = std::process::Command::new(&self.program);
        // The task inherits the priority of its keeper, shell commands too.
        if self.rights.settings.low_priority {
            command.arg("--priority=low");
        }
        command.args(["agent", "keep"]);
        if let Some(minutes) = definition.duration_max_minutes {
            command.arg(format!("--minutes-max={minutes}"));
        }
        command
            .arg(record.attempt_folder())
            .arg("--")
            .arg(program)
            .args(arguments)
            .env("HOLDFAST_NODE", &self.node)
            .env("HOLDFAST_SCHEDULE", &record.claim.schedule)
            .env("HOLDFAST_PLANNED", record.claim.planned.to_string())
            .process_group(0)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        match command.spawn() {
            Ok(child) => {
                self.running.insert(record.name(), record.slot());
                let (name, ended) = (record.name(), self.ended.clone());
                tokio::task::spawn_blocking(move || {
                    let mut child = child;
                    drop(child.wait());
                    // The agent is ending if nobody takes the name.
                    drop(ended.send(name));
                });
                Ok(())
            }
            Err(error) => refuse(record, &format!("cannot start the task: {error}")),
        }
    }

    /// Waits for the end of a task whose keeper was started by an earlier agent.
    fn watch(&mut self, record: &Record) {
        self.running.insert(record.name(), record.slot());
        let (name, ended) = (record.name(), self.ended.clone());
        let lock = record.attempt_folder().join(LOCK_FILE);
        tokio::task::spawn_blocking(move || {
            drop(sys::durable::Lock::exclusive(&lock));
            drop(ended.send(name));
        });
    }

    /// Takes note that the keeper of an event has ended.
    fn end(&mut self, name: &EventName, line: &Line) -> io::Result<()> {
        self.running.remove(name);
        let known = self.records.iter().find(|record| record.name() == *name).cloned();
        let Some(record) = known else { return Ok(()) };
        match record.state()? {
            // Another keeper has the attempt.
            AttemptState::Running => {
                self.watch(&record);
                return Ok(());
            }
            AttemptState::CutOff => record.end(&Outcome {
                ended: sys::clock::now().0,
                code: None,
                reason: "the task keeper was killed".to_owned(),
            })?,
            AttemptState::Claimed => refuse(&record, "the task keeper could not begin")?,
            AttemptState::Ended(_) => {}
        }
        self.wishes.remove(name);
        self.pauses.remove(name);
        self.report_all(line);
        self.prune()
    }

    fn prune(&mut self) -> io::Result<()> {
        if self.pruned.is_some_and(|at| at.elapsed() < PRUNE_PAUSE) {
            return Ok(());
        }
        self.pruned = Some(sys::clock::monotonic());
        let days = i64::from(self.rights.settings.log_days);
        let before = ServerTime(sys::clock::now().0 - days * DAY_MICROS);
        record::prune(&self.records, |name| self.definitions.contains_key(name), before)?;
        self.records = record::load_all(&self.folder)?;
        Ok(())
    }

    fn hear(&mut self, news: News, line: &Line) -> io::Result<()> {
        match news {
            News::Connected { server_time } => {
                self.clock.set(server_time);
                self.is_answered = true;
                self.reports.is_connected = true;
                self.take_settings(line);
                self.reports.sent.clear();
                self.obstacles.reset();
                self.report_all(line);
                self.give_signs(line);
                self.verdict.admit()
            }
            News::Rival { reason } => self.verdict.refuse(&reason),
            News::Lost => {
                self.is_answered = true;
                self.reports.is_connected = false;
                self.reports.has_more = false;
                Ok(())
            }
            News::Order(Order::Confirmed(number)) => self.confirm(number, line),
            News::Order(Order::Refused { number, reason }) => {
                // It would be refused again, and others wait behind it.
                tracing::warn!(reason, "the server refuses the report of an event for good");
                self.confirm(number, line)
            }
            News::Order(Order::Probe) => {
                // To the server, a line that stays busy is as good as dead.
                line.messages.try_send(Message::Alive).ok();
                Ok(())
            }
            News::Order(Order::Watch { events, time }) => {
                let until = sys::clock::monotonic() + time.min(WATCH_MAX);
                self.audience.told.retain(|event, _| events.contains(event));
                self.audience.events = events.into_iter().collect();
                self.audience.until = Some(until);
                Ok(())
            }
            News::Order(Order::Plan(plan)) => {
                tracing::info!(schedules = plan.schedules.len(), "new plan");
                // Without its files, the plan holds until the agent ends.
                line.digest.send_replace(plan.digest.clone());
                self.follow(plan);
                self.gaps.lacks_option_set = true;
                let stored = self.store_plan();
                self.take_settings(line);
                self.pass_wishes().and(stored)
            }
        }
    }

    /// Stores the plan that was received last.
    fn store_plan(&mut self) -> io::Result<()> {
        self.gaps.lacks_plan = true;
        // The option set first: an agent that has the plan on disk is not sent the set again. It is
        // stored once, because a backup may have stored a newer one since.
        if self.gaps.lacks_option_set {
            client::keep_option_set(&self.home, &self.plan.option_set)?;
            self.gaps.lacks_option_set = false;
        }
        plan_file::store(&self.folder, &self.plan)?;
        self.gaps.lacks_plan = false;
        Ok(())
    }

    /// Takes over the settings that the option set and the node's file have now.
    fn take_settings(&mut self, line: &Line) {
        let config = match self.gaps.lacks_option_set {
            true => agent_config_heard(&self.home, &self.plan.option_set),
            false => agent_config(&self.home),
        };
        match config {
            Ok(AgentConfig { settings, sources, warnings, .. }) => {
                if settings != self.rights.settings {
                    tracing::info!(mode = %settings.mode.name(), "new settings");
                    warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
                    line.settings.send_replace(settings.clone());
                }
                self.rights = Rights { settings, sources, fault: None };
            }
            // The agent goes on with the settings that it has, but the rights of the server rest.
            Err(error) => {
                tracing::warn!(error = error.message, "the settings cannot be read");
                self.rights.fault = Some(error.message);
            }
        }
    }

    /// Returns true while a task that is to pause, or to go on, has not confirmed it to the server.
    fn awaits_pauses(&self) -> bool {
        self.reports.is_connected
            && self.wishes.iter().any(|(event, wish)| match wish {
                EventControl::Pause => !self.pauses.contains_key(event),
                EventControl::Resume => self.pauses.contains_key(event),
                EventControl::Cancel => false,
            })
    }

    /// Tells the server which tasks have begun or ended a pause.
    fn tell_pauses(&mut self, line: &Line) {
        for record in self.records.clone() {
            let name = record.name();
            if self.running.contains_key(&name)
                && record.paused().is_some() != self.pauses.contains_key(&name)
            {
                self.give_sign(&record, line);
            }
        }
    }

    /// Tells the server how far the tasks have come at which somebody looks. A line that is busy
    /// gets it later.
    fn tell_progress(&mut self, line: &Line) {
        for record in &self.records {
            let name = record.name();
            if !self.running.contains_key(&name) || !self.audience.events.contains(&name) {
                continue;
            }
            let document = record.progress();
            if document.is_empty() || self.audience.told.get(&name) == Some(&document) {
                continue;
            }
            let (event, attempt) = (name.clone(), record.attempt);
            let progress = EventProgress { event, attempt, document: document.clone() };
            if line.messages.try_send(Message::Progress(progress)).is_ok() {
                self.audience.told.insert(name, document);
            }
        }
    }

    /// Returns the wishes of administrators about tasks that run, without those that were passed
    /// on.
    fn new_wishes(&self) -> impl Iterator<Item = &(EventName, EventControl)> {
        self.plan.controls.iter().filter(|(name, control)| {
            self.running.contains_key(name) && self.wishes.get(name) != Some(control)
        })
    }

    /// Returns true if the keeper of a task has not begun to take signals while there is a wish
    /// about the task.
    fn has_wishes_to_pass(&self) -> bool {
        self.new_wishes().next().is_some()
    }

    /// Passes the wishes of administrators on to the tasks that run.
    fn pass_wishes(&mut self) -> io::Result<()> {
        for (name, control) in self.new_wishes().cloned().collect::<Vec<_>>() {
            let signal = match control {
                EventControl::Pause => sys::process::Signal::USR1,
                EventControl::Resume => sys::process::Signal::USR2,
                EventControl::Cancel => sys::process::Signal::TERM,
            };
            let record = self.records.iter().find(|record| record.name() == name);
            if let Some((record, keeper)) = record.and_then(|one| Some((one, keeper_of(one)?))) {
                if control == EventControl::Cancel {
                    record.mark_cancelled()?;
                }
                sys::process::signal(keeper, signal)?;
                self.wishes.insert(name, control);
            }
        }
        Ok(())
    }
}

/// Returns true for a name that may be part of the name of a folder.
fn is_schedule_name(name: &str) -> bool {
    policy::is_name(name.strip_prefix(ONCE_PREFIX).unwrap_or(name))
}

/// Ends an attempt that does not run.
fn refuse(record: &Record, reason: &str) -> io::Result<()> {
    tracing::warn!(schedule = record.claim.schedule, reason, "event refused");
    let ended = sys::clock::now().0;
    record.end(&Outcome { ended, code: Some(FAILED_CODE), reason: reason.to_owned() })
}

/// Returns the process of the keeper of the last attempt, if it lives.
fn keeper_of(record: &Record) -> Option<u32> {
    let text = std::fs::read_to_string(record.attempt_folder().join(BEGUN_FILE)).ok()?;
    let (pid, began) = text.trim().split_once(' ')?;
    let (pid, began) = (pid.parse().ok()?, began.parse().ok()?);
    (sys::process::began(pid) == Some(began)).then_some(pid)
}
