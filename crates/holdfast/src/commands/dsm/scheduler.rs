//! `dsmcad` and `dsmc schedule`: the agent of the node, and the log of what schedules did.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use agent::EventSummary;
use dsm::client::{options_of, parse};
use dsm::configuration::identity;
use dsm::forms::Forms;
use dsm::lines::of_report;
use dsm::options::{Entry, Options};

use super::child::{self, Child, Event, Outcome};
use super::clock;
use super::files::{self, Places};
use super::folders;
use super::following::FollowedFiles;
use super::joining;
use super::logs::{ErrorLog, Log};
use super::session::Session;
use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::output;

/// Interval between two looks at the events of the agent.
const LOOK: Duration = Duration::from_secs(5);
/// Interval between two looks whether the agent has ended.
const STEP: Duration = Duration::from_millis(200);

/// Time within which an agent ends that cannot run.
const BEGINNING: Duration = Duration::from_secs(3);

/// Variable of the process that stays in the background.
const BACKGROUND_VARIABLE: &str = "HOLDFAST_DSMCAD";

/// `dsmcad`: runs what MANAGEDSERVICES names, in the background, as TSM's program does.
pub(super) fn acceptor(words: &[Vec<u8>], context: &mut Context) -> Result<u8, CommandError> {
    let line = acceptor_options(words)?;
    let places = Places::of_command(&line)?;
    let site = files::load(&places, &line)?;
    let services = site.options.text("MANAGEDSERVICES").unwrap_or_default().to_lowercase();
    let has = |service: &str| services.split([' ', ',']).any(|word| word == service);
    let forms = Forms::of(&site.options);
    if has("webclient") {
        output::say("MANAGEDSERVICES webclient: the server's own page takes its place.");
    }
    if !services.is_empty() && !has("schedule") {
        output::say("MANAGEDSERVICES does not name schedule, so no schedule runs here.");
        return Ok(DONE);
    }
    let home = folders::folder(&site, context)?;
    let followed = FollowedFiles::new(places, line, &site)?;
    let node = folders::node_in(&home).ok_or_else(|| {
        CommandError::new(format!("ANS2050E there is no node in {}", home.display()))
            .with_hint("a command of dsmc with -password=TOKEN makes this machine a node")
    })?;
    folders::check_server(&home, identity(&site.options).server.as_deref())?;
    if std::env::var_os(BACKGROUND_VARIABLE).is_none() {
        let process = leave(words)?;
        context
            .output
            .line(&format!("The agent of node {node} runs as process {process}."));
        return Ok(DONE);
    }
    sys::process::ignore_hangup();
    serve(&home, followed, &Logs::open(&site.options, forms))
}

/// Returns the options of a command line of `dsmcad`: those of `dsmc schedule`, which does the same
/// in the foreground.
fn acceptor_options(words: &[Vec<u8>]) -> Result<Vec<Entry>, CommandError> {
    let wrong = |message: String| {
        CommandError::new(message)
            .with_hint("dsmcad takes the options of 'dsmc schedule', as in 'dsmcad -optfile=FILE'")
    };
    let refused =
        |error: dsm::client::CommandError| wrong(format!("{} dsmcad: {error}", error.number()));
    let (_, others) = options_of(words).map_err(refused)?;
    if let Some(other) = others.first() {
        return Err(wrong(format!("ANS1107E '{}' is no option of dsmcad", model::escaped(other))));
    }
    let schedule = [&[b"schedule".to_vec()][..], words].concat();
    Ok(parse(&schedule).map_err(refused)?.options)
}

/// Starts this command anew in the background, and returns its process. Fails if it ends at once.
fn leave(words: &[Vec<u8>]) -> Result<u32, CommandError> {
    let failed = |error| CommandError::new(format!("cannot start the agent: {error}"));
    let program = std::env::current_exe().map_err(failed)?;
    let words = words.iter().map(|word| OsString::from_vec(word.clone()));
    let mut command = Command::new(program);
    command
        .arg0("holdfast")
        .args(["dsm", "run", "dsmcad"])
        .args(words)
        .env(BACKGROUND_VARIABLE, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Signals of the terminal are for the processes that a person sees.
        .process_group(0);
    let mut agent = command.spawn().map_err(failed)?;
    let mut waited = Duration::ZERO;
    while waited < BEGINNING {
        if let Some(status) = agent.try_wait().map_err(failed)? {
            let message = format!("the agent has ended at once, with {status}");
            let hint = "the logs tell why, and so does 'dsmc schedule', which runs the agent in \
                        the foreground";
            return Err(CommandError::new(message).with_hint(hint));
        }
        sys::clock::sleep(STEP);
        waited += STEP;
    }
    Ok(agent.id())
}

/// `dsmc schedule`: the same in the foreground, after the machine has become a node.
pub(super) fn schedule(session: &mut Session<'_>) -> Result<u8, CommandError> {
    session.heading();
    joining::connect(session)?;
    session.context.output.flush();
    let line = session.command.options.clone();
    let followed = FollowedFiles::new(Places::of_command(&line)?, line, &session.site)?;
    serve(&session.home, followed, &Logs::open(session.options(), session.forms))
}

/// The logs that the events of schedules are written to.
struct Logs {
    schedules: Option<Log>,
    errors: ErrorLog,
    forms: Forms,
}

impl Logs {
    fn open(options: &Options, forms: Forms) -> Self {
        let errors = ErrorLog::open(options, forms);
        Self { schedules: Log::of_schedules(options, forms), errors, forms }
    }

    fn add(&self, line: &str) {
        if let Some(log) = &self.schedules {
            log.add(line);
        }
    }

    /// Removes old lines. The program runs for months.
    fn prune(&self) {
        if let Some(log) = &self.schedules {
            log.prune();
        }
        self.errors.prune();
    }
}

/// Runs the agent until it ends, writes the logs, and follows the option files.
fn serve(home: &Path, followed: Option<FollowedFiles>, logs: &Logs) -> Result<u8, CommandError> {
    // The agent and its backups read the folder of the node, and no option files.
    if let Some(followed) = &followed
        && let Err(error) = followed.write(home)
    {
        logs.add(&error.message);
        logs.errors.add(&error.message);
        return Err(error);
    }
    let ended = AtomicBool::new(false);
    let line = ["agent", "run", "--json"].map(OsString::from);
    std::thread::scope(|scope| {
        logs.add("Scheduler has started: the agent of the node runs.");
        if logs.schedules.is_some() || logs.errors.is_there() || followed.is_some() {
            scope.spawn(|| follow(home, followed, logs, &ended));
        }
        let child = Child { home, words: &line, input: Vec::new(), tells_objects: false };
        let outcome = child::run(child, &mut |event| {
            if let Event::Note { line: note, .. } = event {
                output::say(&note);
            }
        });
        ended.store(true, Relaxed);
        let done = outcome.and_then(Outcome::checked);
        if let Err(error) = &done {
            logs.add(&error.message);
            logs.errors.add(&error.message);
        }
        done
    })
}

/// Writes each event that ends, and what the option files say, until the agent has ended.
fn follow(home: &Path, mut followed: Option<FollowedFiles>, logs: &Logs, ended: &AtomicBool) {
    let name = |event: &EventSummary| (event.schedule.clone(), event.planned, event.attempt);
    let events = || agent::events(home).unwrap_or_default();
    // Events that ended before are in the log.
    let mut told: BTreeSet<_> =
        events().iter().filter(|event| event.ended.is_some()).map(name).collect();
    loop {
        let is_last = ended.load(Relaxed);
        for event in events().iter().filter(|event| event.ended.is_some()) {
            if told.insert(name(event)) {
                write_event(logs, event);
                logs.prune();
            }
        }
        if is_last {
            return;
        }
        if let Some(followed) = &mut followed {
            heed_files(followed, home, logs);
        }
        let mut waited = Duration::ZERO;
        while waited < LOOK && !ended.load(Relaxed) {
            sys::clock::sleep(STEP);
            waited += STEP;
        }
    }
}

/// Takes over what has changed in the option files.
fn heed_files(followed: &mut FollowedFiles, home: &Path, logs: &Logs) {
    match followed.look(home) {
        Ok(is_changed) => {
            if is_changed {
                logs.add("The option files have changed, and count from the next event on.");
            }
        }
        Err(lines) => {
            for line in lines {
                output::say(&line);
                logs.add(&line);
                logs.errors.add(&line);
            }
        }
    }
}

/// Writes an event as the log of TSM's scheduler has it.
fn write_event(logs: &Logs, event: &EventSummary) {
    let code = event.code.unwrap_or(12);
    let (forms, schedule) = (logs.forms, event.schedule.to_uppercase());
    let planned = forms.stamp(clock::moment(event.planned));
    logs.add(&format!("--- SCHEDULEREC OBJECT BEGIN {schedule} {planned}"));
    let text = std::fs::read(&event.log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let (report, others): (Vec<&str>, Vec<&str>) = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .partition(|line| is_of_report(line));
    others.iter().for_each(|line| logs.add(line));
    logs.add("--- SCHEDULEREC STATUS BEGIN");
    // Scripts look for the lines that dsmc writes.
    report.iter().for_each(|line| logs.add(&of_report(line, forms)));
    logs.add("--- SCHEDULEREC STATUS END");
    logs.add(&format!("--- SCHEDULEREC OBJECT END {schedule} {planned}"));
    match code {
        0..=8 => {
            logs.add(&format!("Scheduled event '{schedule}' completed successfully."));
        }
        _ => {
            let failed =
                format!("ANS1512E Scheduled event '{schedule}' failed. Return code = {code}.");
            let reason = Some(format!("  {}", event.reason)).filter(|_| !event.reason.is_empty());
            for line in std::iter::once(failed).chain(reason) {
                logs.add(&line);
                logs.errors.add(&line);
            }
        }
    }
}

/// Returns true for a line of the report of a session, which scripts look for.
fn is_of_report(line: &str) -> bool {
    let labels = [
        "Total ",
        "Data transfer time:",
        "Network data transfer rate:",
        "Aggregate data transfer rate:",
        "Objects compressed by:",
        "Deduplication reduction:",
        "Elapsed processing time:",
    ];
    labels.iter().any(|label| line.starts_with(label))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_written_and_old_lines_go_while_the_program_runs() {
        let folder = tempfile::tempdir().expect("a folder");
        let [schedules, errors] = ["s.log", "e.log"].map(|name| folder.path().join(name));
        let text = format!(
            "schedlogname {}\nschedlogretention 7 s\nerrorlogname {}\nerrorlogretention 7",
            schedules.display(),
            errors.display()
        );
        let (user, faults) = dsm::options::parse("dsm.sys", text.as_bytes());
        assert_eq!(faults, []);
        let options = Options::new(&dsm::options::System::default(), None, &user, &[]);
        let logs = Logs::open(&options, Forms::default());
        for log in [&schedules, &errors] {
            std::fs::write(log, "01/02/2020 10:00:00 old\n").expect("written");
        }
        let event = EventSummary {
            schedule: "nightly".to_owned(),
            planned: model::ServerTime(0),
            attempt: 1,
            begun: None,
            ended: Some(model::ServerTime(0)),
            code: Some(12),
            is_running: false,
            reason: "no space left on device".to_owned(),
            log: folder.path().join("absent"),
        };
        write_event(&logs, &event);
        logs.prune();
        let read = |path: &Path| std::fs::read_to_string(path).expect("there");
        let written = read(&schedules);
        assert!(!written.contains("old") && written.contains("ANS1512E"), "{written}");
        // Both lines of an event have its name, in capitals, and its time.
        for line in ["OBJECT BEGIN NIGHTLY ", "OBJECT END NIGHTLY "] {
            let after = written.split_once(line).expect("the line is there").1;
            assert!(after.starts_with("01/01/1970") || after.starts_with("12/31/1969"), "{after}");
        }
        assert!(!read(&errors).contains("old") && read(&errors).contains("ANS1512E"));
        assert!(written.contains("no space left") && read(&errors).contains("no space left"));
        assert!(read(&folder.path().join("dsmsched.pru")).ends_with("old\n"));
    }

    #[test]
    fn the_acceptor_refuses_what_it_does_not_take() {
        let options = |word: &str| acceptor_options(&[word.as_bytes().to_vec()]);
        for word in ["-optfile=/etc/dsm.opt", "-quiet", "-se=tsm1"] {
            assert_eq!(options(word).expect("is taken").len(), 1, "{word}");
        }
        for (word, expected) in [
            ("-nonsense", "ANS1107E dsmcad: '-nonsense' is no option;"),
            ("--optfile=/x", "ANS1107E dsmcad: '--optfile=/x' has one dash too many"),
            ("nonsense", "ANS1107E 'nonsense' is no option of dsmcad"),
            ("-pick", "ANS1108E dsmcad: -PICK is no option of 'schedule'"),
        ] {
            let error = options(word).expect_err("is refused");
            assert!(error.message.starts_with(expected), "{}", error.message);
            assert!(error.hint.is_some_and(|hint| hint.contains("'dsmcad -optfile=FILE'")));
        }
    }

    #[test]
    fn the_status_of_an_event_has_the_lines_of_its_report() {
        assert!(is_of_report("Total number of objects inspected:               5"));
        assert!(is_of_report("Elapsed processing time:                  00:00:00"));
        assert!(!is_of_report("authenticate     0.01           0.01"));
        assert!(!is_of_report("Journal of /: everything was walked"));
    }
}
