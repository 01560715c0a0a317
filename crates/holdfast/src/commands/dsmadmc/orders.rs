//! Orders: command lines of `holdfast admin`, and work by the same calls of the server.

use client::admin::{
    Admin, ArchiveGroupChange, BackupGroupChange, ClassChange, EventFilter, ManagementClass,
    OptionSetChange, PolicyEdit, ScheduledEvent,
};
use client::{ErrorKind, EventControl, FilespaceSummary};
use dsm::admin::command::{Condition, Line, Work};
use dsm::admin::message::{Message, ReturnCode};

use super::link::{LineError, LineOutcome, Link};
use super::refusal::{Refusal, refusal, sentence};
use crate::error::{CommandError, DONE, NOT_DONE, WARNED};
use crate::{path, servers};

/// Maximum number of events that are searched for one that is under way.
const EVENTS_MAX: u32 = 10_000;

/// Runs a command line of `holdfast admin` over the connection of the session. Returns its output.
pub(super) fn run_line(line: &Line, command: &str, link: &mut Link) -> Result<String, Refusal> {
    if let Some(condition) = &line.condition {
        check(condition, command, link)?;
    }
    match (link.runner)(&line.words, !line.is_report, &mut link.admin) {
        Ok(LineOutcome { code: DONE | WARNED, text }) => Ok(text),
        Ok(LineOutcome { code, .. }) => {
            let end = match code {
                // The code of a run is that of its worst node.
                NOT_DONE if !is_run(line) => "failed: standard error says why",
                _ => "failed in part: not everything was done; standard error says what failed",
            };
            let text = format!("{command}: The command {end}.");
            Err(Message::refusal("ANR2032E", ReturnCode::Failure, text))
        }
        Err(LineError::Usage(error)) => {
            let text = format!("{command}: {}", sentence(&error));
            Err(Message::refusal("ANR2020E", ReturnCode::Syntax, text))
        }
        Err(LineError::Failure(error)) => Err(refusal(command, &error)),
    }
}

/// Returns true if the command line starts an action at nodes.
fn is_run(line: &Line) -> bool {
    line.words.iter().take_while(|word| *word != "--").any(|word| word == "run")
}

/// Fails if the condition of a command line does not hold.
fn check(condition: &Condition, command: &str, link: &mut Link) -> Result<(), Refusal> {
    let failed = |error: CommandError| refusal(command, &error);
    match condition {
        Condition::NewClass { domain: name, class } => {
            let domain = domain(&mut link.admin, name).map_err(failed)?;
            let set = domain.draft.unwrap_or(domain.active);
            match set.classes.iter().find(|known| known.name.eq_ignore_ascii_case(class)) {
                Some(known) => {
                    let name = model::printable(&known.name);
                    let text = format!("{command}: The management class {name} exists already.");
                    Err(Message::refusal("ANR2032E", ReturnCode::Exists, text))
                }
                None => Ok(()),
            }
        }
        Condition::Activatable { domain } => {
            let review = link.admin.review_policy(domain);
            match review.map_err(|error| failed(error.into()))?.problem {
                Some(problem) => Err(failed(CommandError::new(problem))),
                None => Ok(()),
            }
        }
    }
}

/// Does work by calls of the server. Returns the message about its end.
pub(super) fn work(work: &Work, command: &str, link: &mut Link) -> Result<Message, Refusal> {
    let done = match work {
        Work::CopySchedule { from, to } => copy_schedule(&mut link.admin, from, to),
        Work::CopyDomain { from, to } => copy_domain(&mut link.admin, from, to),
        Work::CopyClass { domain, from, to } => {
            let is_new = Condition::NewClass { domain: domain.clone(), class: to.clone() };
            check(&is_new, command, link)?;
            copy_class(&mut link.admin, domain, from, to)
        }
        Work::CopyOptionSet { from, to } => copy_option_set(&mut link.admin, from, to),
        Work::AddStatements { set, statements } => add_statements(&mut link.admin, set, statements),
        Work::CancelSession { number } => cancel(&mut link.admin, *number, true),
        Work::CancelSessions => cancel_all(&mut link.admin),
        Work::CancelProcess { number } => cancel(&mut link.admin, *number, false),
        Work::CancelRequests => cancel_requests(&mut link.admin),
        Work::RemoveFilespaces { node, names, are_numbers } => {
            return remove_filespaces(node, names, *are_numbers, command, link);
        }
        Work::ActivateSet { domain, set } => return activate(domain, set, command, link),
        Work::Reclaim { pool, dead_percent } => {
            return reclaim(pool, *dead_percent, command, link);
        }
        Work::Halt => halt(link),
    };
    done.map_err(|error| refusal(command, &error))
}

fn missing(what: &str) -> CommandError {
    let error = client::ClientError::new(ErrorKind::NotFound, what.to_owned());
    error.into()
}

fn copy_schedule(admin: &mut Admin, from: &str, to: &str) -> Result<Message, CommandError> {
    let found = admin.schedules(Some(from))?.pop();
    let schedule = found.ok_or_else(|| missing(&format!("there is no schedule {from}")))?;
    if let Some(domain) = &schedule.domain {
        // The copy would be a schedule of the service, which nodes of all domains can follow.
        let text =
            format!("schedule {from} belongs to domain {domain}: its administrators copy it");
        return Err(client::ClientError::new(ErrorKind::Refused, text).into());
    }
    admin.put_schedule(to, &schedule.definition, true)?;
    Ok(Message::done("ANR2503I", format!("Schedule {from} copied to schedule {to}.")))
}

/// Returns the change that makes a class like `class`, with the name `name`.
fn like(class: &ManagementClass, name: &str) -> ClassChange {
    let backup = class.backup.as_ref().map(|group| BackupGroupChange {
        versions_existing: Some(group.versions_existing_max),
        versions_deleted: Some(group.versions_deleted_max),
        extra_days: Some(group.extra_days),
        only_days: Some(group.only_days),
        mode: Some(group.mode),
        frequency_days: Some(group.frequency_days.into()),
        serialization: Some(group.serialization),
    });
    let archive = class.archive.as_ref().map(|group| ArchiveGroupChange {
        keep_days: Some(group.keep_days),
        starts: Some(group.starts),
        minimum_days: Some(group.minimum_days.into()),
    });
    ClassChange {
        name: name.to_owned(),
        backup: backup.unwrap_or_default(),
        archive: archive.unwrap_or_default(),
        locked_until: None,
    }
}

fn domain(admin: &mut Admin, name: &str) -> Result<client::admin::Domain, CommandError> {
    let found = admin.domains(Some(name))?.pop();
    found.ok_or_else(|| missing(&format!("there is no policy domain {name}")))
}

fn copy_domain(admin: &mut Admin, from: &str, to: &str) -> Result<Message, CommandError> {
    let source = domain(admin, from)?;
    admin.add_domain(to)?;
    for class in &source.active.classes {
        admin.edit_policy(to, PolicyEdit::PutClass(like(class, &class.name)))?;
    }
    let class = source.active.default_class.clone();
    admin.edit_policy(to, PolicyEdit::DefaultClass { class })?;
    let grace = PolicyEdit::Grace {
        backup_days: Some(source.active.backup_grace_days),
        archive_days: Some(source.active.archive_grace_days),
    };
    let review = admin.edit_policy(to, grace)?;
    if review.differences.is_empty() {
        // The new domain has begun with the same policy.
        admin.edit_policy(to, PolicyEdit::Discard)?;
    } else {
        // The new domain has no nodes, so that nothing can expire by it.
        admin.activate_policy(to, false)?;
    }
    Ok(Message::done("ANR1503I", format!("Policy domain {from} copied to domain {to}.")))
}

/// Makes the draft of a domain its active set. Without changes it is the active set already: TSM
/// activates a set again without complaint, and scripts do so.
fn activate(domain: &str, set: &str, command: &str, link: &mut Link) -> Result<Message, Refusal> {
    let text = format!("Policy set {set} activated in policy domain {domain}.");
    let line = Line::activate(domain, Message::done("ANR1514I", text));
    let Err(refused) = run_line(&line, command, link) else { return Ok(line.done) };
    if refused.code != ReturnCode::Failure {
        return Err(refused);
    }
    let review = link.admin.review_policy(domain);
    let review = review.map_err(|error| refusal(command, &error.into()))?;
    if !review.differences.is_empty() || review.problem.is_some() {
        return Err(refused);
    }
    let text = format!(
        "Policy set {set} activated in policy domain {domain}. It has no changes: the active set \
         stays as it is."
    );
    Ok(Message::done("ANR1514I", text))
}

fn copy_class(
    admin: &mut Admin,
    name: &str,
    from: &str,
    to: &str,
) -> Result<Message, CommandError> {
    let domain = domain(admin, name)?;
    let set = domain.draft.unwrap_or(domain.active);
    let class = set.classes.iter().find(|class| class.name.eq_ignore_ascii_case(from));
    let class = class.ok_or_else(|| missing(&format!("there is no class {from}")))?;
    admin.edit_policy(name, PolicyEdit::PutClass(like(class, to)))?;
    let text = format!("Management class {from} copied to class {to} in policy domain {name}.");
    Ok(Message::done("ANR1523I", text))
}

fn copy_option_set(admin: &mut Admin, from: &str, to: &str) -> Result<Message, CommandError> {
    let found = admin.option_sets(Some(from))?.pop();
    let set = found.ok_or_else(|| missing(&format!("there is no option set {from}")))?;
    admin.change_option_set(OptionSetChange {
        name: to.to_owned(),
        is_new: true,
        set: set.current.options,
        text: Some(set.current.text),
        comment: format!("copy of {from}"),
        ..OptionSetChange::default()
    })?;
    Ok(Message::done("ANR2055I", format!("Option set {from} copied to option set {to}.")))
}

/// Adds statements after those of an option set.
fn add_statements(
    admin: &mut Admin,
    name: &str,
    statements: &[u8],
) -> Result<Message, CommandError> {
    let found = admin.option_sets(Some(name))?.pop();
    let set = found.ok_or_else(|| missing(&format!("there is no option set {name}")))?;
    let mut text = set.current.text;
    if !text.is_empty() && !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    text.extend_from_slice(statements);
    let name = name.to_owned();
    let done = format!("Option INCLEXCL defined in option set {name}.");
    admin.change_option_set(OptionSetChange {
        name,
        text: Some(text),
        ..OptionSetChange::default()
    })?;
    Ok(Message::done("ANR2053I", done))
}

/// Cancels the work of an event that has not ended.
fn cancel(admin: &mut Admin, number: u64, at_node: bool) -> Result<Message, CommandError> {
    let filter = EventFilter::default();
    let events = admin.scheduled_events(&filter, EVENTS_MAX, false)?;
    let is_meant = |event: &&ScheduledEvent| {
        event.number == number && event.is_open() && event.node.is_some() == at_node
    };
    let (what, numbers) = if at_node { ("session", "ANR0490I") } else { ("process", "ANR0940I") };
    let event = events
        .iter()
        .find(is_meant)
        .ok_or_else(|| missing(&format!("there is no {what} {number} under way")))?;
    admin.control_events(&event.schedule, event.node.as_deref(), EventControl::Cancel)?;
    let node = event.node.as_ref().map_or_else(String::new, |node| format!(" of node {node}"));
    let text = format!("Canceling {what} {number}{node}: schedule {}.", event.schedule);
    Ok(Message::done(numbers, text))
}

/// Cancels the work of all events that run at nodes.
fn cancel_all(admin: &mut Admin) -> Result<Message, CommandError> {
    let events = admin.scheduled_events(&EventFilter::default(), EVENTS_MAX, false)?;
    let is_session = |event: &&ScheduledEvent| event.is_running() && event.node.is_some();
    let running: Vec<&ScheduledEvent> = events.iter().filter(is_session).collect();
    for event in &running {
        let node = event.node.as_deref();
        match admin.control_events(&event.schedule, node, EventControl::Cancel) {
            // It has ended meanwhile.
            Err(error) if error.kind == ErrorKind::NotFound => {}
            done => {
                done?;
            }
        }
    }
    let text = match running.len() {
        0 => return Err(missing("there is no session under way")),
        1 => "Canceling 1 session.".to_owned(),
        count => format!("Canceling {count} sessions."),
    };
    Ok(Message::done("ANR0490I", text))
}

/// Cancels all requests for packs on volumes.
fn cancel_requests(admin: &mut Admin) -> Result<Message, CommandError> {
    let waiting = admin.tape_queue(None)?;
    for request in &waiting {
        match admin.tape_queue(Some(request.number)) {
            // It has ended meanwhile.
            Err(error) if error.kind == ErrorKind::NotFound => {}
            done => {
                done?;
            }
        }
    }
    let text = match waiting.len() {
        0 => return Err(missing("no request waits for a volume")),
        1 => "1 request canceled.".to_owned(),
        count => format!("{count} requests canceled."),
    };
    Ok(Message::done("ANR8348I", text))
}

fn reclaim(
    name: &str,
    dead_percent: Option<u32>,
    command: &str,
    link: &mut Link,
) -> Result<Message, Refusal> {
    let pools = link.admin.pools(Some(name));
    let pool = pools.map_err(|error| refusal(command, &error.into()))?.pop();
    let on_volumes = pool.is_some_and(|pool| pool.volume_use.is_some());
    let text = match on_volumes {
        true => format!("Reclamation of storage pool {name} completed."),
        false => "Reclamation of all pools outside of libraries completed.".to_owned(),
    };
    let line =
        Line::reclaim(on_volumes.then_some(name), dead_percent, Message::done("ANR4931I", text));
    run_line(&line, command, link)?;
    Ok(line.done)
}

/// Returns true if `name` stands for the filespace: `*` for any, its name, or its number.
fn is_named(filespace: &FilespaceSummary, name: &str, is_number: bool) -> bool {
    match is_number {
        _ if name == "*" => true,
        true => filespace.id.is_some_and(|id| id.to_string() == name),
        false => model::escaped(&filespace.name) == name,
    }
}

/// Removes filespaces with their backups, if there is one for each of `names`.
fn remove_filespaces(
    node: &str,
    names: &[String],
    are_numbers: bool,
    command: &str,
    link: &mut Link,
) -> Result<Message, Refusal> {
    let failed = |error: CommandError| refusal(command, &error);
    let found = link.admin.nodes(Some(node)).map_err(|error| failed(error.into()))?.pop();
    let filespaces = found.map(|found| found.filespaces).unwrap_or_default();
    let is_meant =
        |filespace: &FilespaceSummary, name: &String| is_named(filespace, name, are_numbers);
    let is_absent = |name: &&String| !filespaces.iter().any(|one| is_meant(one, name));
    if let Some(absent) = names.iter().find(is_absent) {
        let absent = model::printable(absent);
        return Err(failed(missing(&format!("node {node} has no filespace {absent}"))));
    }
    let mut removed = Vec::new();
    for filespace in filespaces.iter().filter(|one| names.iter().any(|name| is_meant(one, name))) {
        let name = path::name_text(&filespace.name);
        let done = Message::done("ANR0806I", format!("Filespace {name} of node {node} deleted."));
        run_line(&Line::remove_filespace(node, &name, done), command, link)?;
        removed.push(name);
    }
    let removed = removed.join(", ");
    let text = format!(
        "Backups of {removed} of node {node} deleted; its archives stay. 'query filespace' lists \
         what is left."
    );
    Ok(Message::done("ANR0806I", text))
}

/// Asks the server's process to stop, as its service manager does.
fn halt(link: &Link) -> Result<Message, CommandError> {
    let id = servers::process(&link.folder).ok_or_else(|| {
        let folder = link.folder.display();
        CommandError::new(format!("the process of the server in {folder} is not known"))
            .with_hint("stop it with its service manager, as in 'systemctl stop holdfast-server'")
    })?;
    sys::process::terminate(id)
        .map_err(|error| CommandError::new(format!("the server cannot be stopped: {error}")))?;
    Ok(Message::done("ANR0991I", "The server stops in an orderly way."))
}
