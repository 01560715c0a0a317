//! The agent's work: it keeps the plan, starts what is due, and reports.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{
    AgentSettings, ClientError, EventControl, EventName, EventReport, Order, Plan, agent_settings,
};
use model::ServerTime;
use policy::schedule::Definition;
use policy::schedule::agenda::{Duty, Start, look};
use policy::schedule::event::{FAILED_CODE, Phase};
use sys::alarm::Alarm;
use tokio::sync::mpsc;

use crate::command_line;
use crate::line::{self, Line, News, NumberedReport};
use crate::plan_file;
use crate::record::{self, AttemptState, BEGUN_FILE, LOCK_FILE, Outcome, Record};

/// Prefix of schedules that an administrator has made for one action.
const ONCE_PREFIX: char = '@';
/// Maximum number of such actions that run at once, beside one task of the other schedules.
const ONCE_MAX: usize = 4;
/// Interval between two signs of life of a task.
const SIGN_PAUSE: Duration = Duration::from_secs(600);
/// Time after which a task that has begun gives the first sign of life.
const FIRST_SIGN_PAUSE: Duration = Duration::from_secs(10);
const DAY_MICROS: i64 = 86_400_000_000;
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
        let (settings, node) = agent_settings(home)?;
        let folder = home.join(crate::FOLDER);
        let failed = |source| AgentError::Folder { folder: folder.clone(), source };
        sys::durable::create_dir_all(&folder, 0o700).map_err(failed)?;
        let lock = sys::durable::Lock::try_exclusive(&folder.join(LOCK_FILE)).map_err(failed)?;
        let _lock = lock.ok_or(AgentError::Twice)?;
        let plan = plan_file::load(&folder);
        let line = line::open(home.to_owned(), settings.clone(), plan.digest.clone());
        let (ended_in, ended) = mpsc::unbounded_channel();
        let mut agent = Agent {
            home: home.to_owned(),
            program: program.to_owned(),
            records: record::load_all(&folder).map_err(failed)?,
            folder: folder.clone(),
            settings,
            node,
            plan: Plan::default(),
            duties: BTreeMap::new(),
            definitions: BTreeMap::new(),
            running: BTreeSet::new(),
            wishes: BTreeMap::new(),
            settled: BTreeSet::new(),
            pruned: None,
            ended: ended_in,
            reports: Reports::default(),
            clock_lead_micros: 0,
        };
        agent.follow(plan);
        agent.take_over()?;
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

/// The agent of a node.
struct Agent {
    home: PathBuf,
    program: PathBuf,
    /// The agent's folder.
    folder: PathBuf,
    settings: AgentSettings,
    /// Name of the node.
    node: String,
    plan: Plan,
    duties: BTreeMap<String, Duty>,
    definitions: BTreeMap<String, String>,
    /// Records of events, oldest first.
    records: Vec<Record>,
    /// Events whose tasks run.
    running: BTreeSet<EventName>,
    /// Wishes that were passed on to tasks.
    wishes: BTreeMap<EventName, EventControl>,
    /// Events that have ended, and whose end the server has confirmed.
    settled: BTreeSet<EventName>,
    /// Time of the last removal of old records.
    pruned: Option<Instant>,
    /// Takes the names of events whose keepers have ended.
    ended: mpsc::UnboundedSender<EventName>,
    reports: Reports,
    clock_lead_micros: i64,
}

/// Reports that the server has not confirmed.
#[derive(Default)]
struct Reports {
    is_connected: bool,
    last_number: u64,
    sent: BTreeMap<u64, EventReport>,
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
        loop {
            let next = self.start_due(&line).await?;
            alarm.set(ServerTime(next.0.saturating_sub(self.clock_lead_micros)))?;
            sign = match (self.running.is_empty(), sign) {
                (true, _) => None,
                (false, None) => Some(tokio::time::Instant::now() + FIRST_SIGN_PAUSE),
                (false, known) => known,
            };
            let sign_at = sign.unwrap_or_else(|| tokio::time::Instant::now() + SIGN_PAUSE);
            tokio::select! {
                () = &mut stop => return Ok(()),
                news = line.news.recv() => match news {
                    Some(news) => self.hear(news, &line).await?,
                    None => return Ok(()),
                },
                name = ended.recv() => {
                    if let Some(name) = name {
                        self.end(&name, &line).await?;
                    }
                }
                _ = rings.recv() => {}
                () = tokio::time::sleep_until(sign_at), if sign.is_some() => {
                    self.give_signs(&line).await?;
                    sign = Some(tokio::time::Instant::now() + SIGN_PAUSE);
                }
            }
        }
    }

    /// The time by the server's clock.
    fn now(&self) -> ServerTime {
        ServerTime(sys::clock::system().0.saturating_add(self.clock_lead_micros))
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
            let Ok(zone) = definition.time_zone() else {
                tracing::warn!(schedule = schedule.name, zone = definition.zone, "unknown zone");
                continue;
            };
            if definition.is_suspended {
                continue;
            }
            let duty = Duty {
                zone,
                since: schedule.since,
                priority: definition.priority,
                retries: definition.retries,
                retry_pause_minutes: definition.retry_pause_minutes,
                runs_late: definition.runs_late,
                is_repeatable: definition.action.work.is_repeatable(),
                timing: definition.timing,
            };
            self.duties.insert(schedule.name.clone(), duty);
            self.definitions.insert(schedule.name.clone(), schedule.definition.clone());
        }
        self.plan = plan;
    }

    /// Takes over the tasks that an earlier agent has started.
    fn take_over(&mut self) -> io::Result<()> {
        for record in self.records.clone() {
            match record.state()? {
                AttemptState::Running => self.watch(&record),
                AttemptState::Claimed => self.start(&record)?,
                AttemptState::CutOff => record.end(&Outcome {
                    ended: sys::clock::now().0,
                    code: None,
                    reason: "the machine or the task keeper was stopped".to_owned(),
                })?,
                AttemptState::Ended(_) => {}
            }
        }
        Ok(())
    }

    /// Starts what is due. Returns the time at which to look again.
    async fn start_due(&mut self, line: &Line) -> io::Result<ServerTime> {
        loop {
            let now = self.now();
            let last_events = record::last_of_each(&self.records)
                .into_iter()
                .map(|(schedule, record)| Ok((schedule.to_owned(), record.last_event()?)))
                .collect::<io::Result<BTreeMap<_, _>>>()?;
            let agenda = look(&self.duties, &last_events, &self.node, now);
            let start = agenda.due.into_iter().find(|start| self.may_start(&start.schedule));
            let Some(start) = start else {
                return Ok(agenda.next_look.unwrap_or(ServerTime(now.0 + DAY_MICROS)));
            };
            self.begin(&start)?;
            self.report_all(line).await?;
        }
    }

    /// Returns true if another task may run beside those that do.
    fn may_start(&self, schedule: &str) -> bool {
        let is_once = |schedule: &str| schedule.starts_with(ONCE_PREFIX);
        let alike = self.running.iter().filter(|name| is_once(&name.schedule) == is_once(schedule));
        alike.count() < if is_once(schedule) { ONCE_MAX } else { 1 }
    }

    /// Records an attempt and starts its task.
    fn begin(&mut self, start: &Start) -> io::Result<()> {
        let is_same = |record: &&Record| {
            record.claim.schedule == start.schedule && record.claim.planned == start.planned.0
        };
        // The schedule may have changed since the first attempt, which has claimed the event.
        let record = match self.records.iter().find(is_same) {
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
            return refuse(&record, "cancelled by an administrator");
        }
        self.start(&record)
    }

    /// Starts the keeper of the last attempt of `record`.
    fn start(&mut self, record: &Record) -> io::Result<()> {
        let definition: Result<Definition, _> = serde_json::from_str(&record.claim.definition);
        let definition = match definition {
            Ok(definition) => definition,
            Err(error) => return refuse(record, &error.to_string()),
        };
        let line = match command_line::of_action(&definition.action, &self.settings) {
            Ok(line) => line,
            Err(refusal) => return refuse(record, &refusal.to_string()),
        };
        let mut home = OsString::from("--home=");
        home.push(&self.home);
        let own = self.program.clone().into_os_string();
        let (program, arguments) = line.program(own, vec![home]);
        let mut command = std::process::Command::new(&self.program);
        // The task inherits the priority of its keeper, shell commands too.
        if self.settings.low_priority {
            command.arg("--priority=low");
        }
        command
            .args(["agent", "keep"])
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
                self.running.insert(record.name());
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
        self.running.insert(record.name());
        let (name, ended) = (record.name(), self.ended.clone());
        let lock = record.attempt_folder().join(LOCK_FILE);
        tokio::task::spawn_blocking(move || {
            drop(sys::durable::Lock::exclusive(&lock));
            drop(ended.send(name));
        });
    }

    /// Takes note that the keeper of an event has ended.
    async fn end(&mut self, name: &EventName, line: &Line) -> io::Result<()> {
        self.running.remove(name);
        self.wishes.remove(name);
        let Some(record) = self.records.iter().find(|record| record.name() == *name) else {
            return Ok(());
        };
        match record.state()? {
            AttemptState::CutOff => record.end(&Outcome {
                ended: sys::clock::now().0,
                code: None,
                reason: "the task keeper was killed".to_owned(),
            })?,
            AttemptState::Claimed => {
                refuse(record, "the task keeper could not begin")?;
            }
            _ => {}
        }
        self.report_all(line).await?;
        self.prune()
    }

    fn prune(&mut self) -> io::Result<()> {
        if self.pruned.is_some_and(|at| at.elapsed() < PRUNE_PAUSE) {
            return Ok(());
        }
        self.pruned = Some(sys::clock::monotonic());
        let days = i64::from(self.settings.log_days);
        let before = ServerTime(sys::clock::now().0 - days * DAY_MICROS);
        record::prune(&self.records, |name| self.definitions.contains_key(name), before)?;
        self.records = record::load_all(&self.folder)?;
        Ok(())
    }

    async fn hear(&mut self, news: News, line: &Line) -> io::Result<()> {
        match news {
            News::Connected { clock_lead_micros } => {
                self.clock_lead_micros = clock_lead_micros;
                self.reports.is_connected = true;
                self.reports.sent.clear();
                self.report_all(line).await?;
                self.give_signs(line).await
            }
            News::Lost => {
                self.reports.is_connected = false;
                Ok(())
            }
            News::Order(Order::Confirmed(number)) => self.confirm(number),
            News::Order(Order::Plan(plan)) => {
                tracing::info!(schedules = plan.schedules.len(), "new plan");
                plan_file::store(&self.folder, &plan)?;
                line.digest.send_replace(plan.digest.clone());
                self.follow(plan);
                self.pass_wishes()
            }
        }
    }

    fn confirm(&mut self, number: u64) -> io::Result<()> {
        let Some(report) = self.reports.sent.remove(&number) else { return Ok(()) };
        let record = self.records.iter().find(|record| record.name() == report.event);
        record.map_or(Ok(()), |record| record.confirm(&report))
    }

    /// Reports all events whose state the server has not confirmed.
    async fn report_all(&mut self, line: &Line) -> io::Result<()> {
        let open = self.records.iter().filter(|record| !self.settled.contains(&record.name()));
        for record in open.cloned().collect::<Vec<_>>() {
            let report = record.report(self.clock_lead_micros)?;
            let is_confirmed = record.is_confirmed(&report);
            if is_confirmed && report.is_over() {
                self.settled.insert(report.event);
                continue;
            }
            let is_sent = self.reports.sent.values().any(|sent| {
                sent.event == report.event
                    && sent.attempt == report.attempt
                    && sent.phase == report.phase
            });
            if !is_sent && !is_confirmed {
                self.send(report, line).await;
            }
        }
        Ok(())
    }

    /// Tells the server that the tasks still run.
    async fn give_signs(&mut self, line: &Line) -> io::Result<()> {
        for record in self.records.clone() {
            if self.running.contains(&record.name()) {
                let report = record.report(self.clock_lead_micros)?;
                if report.phase == Phase::Began {
                    self.send(EventReport { phase: Phase::Working, ..report }, line).await;
                }
            }
        }
        Ok(())
    }

    async fn send(&mut self, report: EventReport, line: &Line) {
        if !self.reports.is_connected {
            // A polling agent connects when there is something to say.
            line.wake.try_send(()).ok();
            return;
        }
        self.reports.last_number += 1;
        let number = self.reports.last_number;
        if report.phase != Phase::Working {
            self.reports.sent.insert(number, report.clone());
        }
        // A report that is lost with the line is made again after the next connection.
        drop(line.reports.send(NumberedReport { number, report }).await);
    }

    /// Passes the wishes of administrators on to the tasks that run.
    fn pass_wishes(&mut self) -> io::Result<()> {
        for (name, control) in self.plan.controls.clone() {
            if !self.running.contains(&name) || self.wishes.get(&name) == Some(&control) {
                continue;
            }
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
