//! Commands that change schedules and associations, and start work now.
//!
//! A schedule of Holdfast belongs to no domain, and its name is unique at the server. The domain of
//! a command must exist; otherwise it is not needed.

mod timing;

use self::timing::{TIMES, times};
use super::definition::{Command, Request, command};
use super::parameter::{Noun, Parameter, ValueKind, may, need};
use super::plan::{Line, Plan, Work};
use crate::admin::abbreviation::stands_for;
use crate::admin::grammar;
use crate::admin::message::{Message, ReturnCode};

const DOMAIN: Parameter = need("domain_name", ValueKind::Text);
const SCHEDULE: Parameter = need("schedule_name", ValueKind::One(Noun::Schedule));
const ACTIONS: ValueKind = ValueKind::Word(&[
    "Incremental",
    "Selective",
    "Archive",
    "Backup",
    "REStore",
    "IMAGEBACkup",
    "Command",
    "Macro",
    "RETrieve",
    "IMAGEREStore",
    "Deploy",
]);
const KIND: Parameter = may("Type", ValueKind::Word(&["Client", "Administrative"]));

/// Parameters of a schedule, without those of its times.
const RULES: [Parameter; 10] = [
    KIND,
    may("DESCription", ValueKind::Text),
    may("ACTion", ACTIONS),
    may("SUBACTion", ValueKind::Text)
        .refused("'holdfast hsm' and 'holdfast image' have schedules of their own kinds"),
    may("OPTions", ValueKind::Text),
    may("OBJects", ValueKind::Text),
    may("PRIority", ValueKind::Number),
    may("CMD", ValueKind::Text),
    may("ACTIVE", ValueKind::YesNo),
    may("MAXRUNtime", ValueKind::Text).accepted("a window is for starting only"),
];

/// The first two parameters of a schedule that is defined, and of one that is changed.
const NEW: [Parameter; 2] = [DOMAIN, may("schedule_name", ValueKind::New(Noun::Schedule))];
const CHANGED: [Parameter; 2] = [DOMAIN, may("schedule_name", ValueKind::Text)];

const DEFINE: [Parameter; 12 + TIMES.len()] = joined(NEW);
const UPDATE: [Parameter; 12 + TIMES.len()] = joined(CHANGED);

/// Joins the parameters by place with all others.
const fn joined(first: [Parameter; 2]) -> [Parameter; 12 + TIMES.len()] {
    let mut all = [first[0]; 12 + TIMES.len()];
    all[1] = first[1];
    let mut index = 0;
    while index < RULES.len() {
        all[2 + index] = RULES[index];
        index += 1;
    }
    let mut index = 0;
    while index < TIMES.len() {
        all[12 + index] = TIMES[index];
        index += 1;
    }
    all
}

pub(super) static COMMANDS: &[Command] = &[
    command(
        "DEFine",
        "SCHedule",
        &DEFINE,
        |request| schedule(request, true),
        "`admin schedule define`",
    ),
    command(
        "UPDate",
        "SCHedule",
        &UPDATE,
        |request| schedule(request, false),
        "`admin schedule update`",
    ),
    Command {
        question: "Do you want to delete the schedule?",
        ..command(
            "DELete",
            "SCHedule",
            &[DOMAIN, may("schedule_name", ValueKind::Text), KIND],
            delete,
            "`admin schedule delete`",
        )
    },
    command(
        "COPy",
        "SCHedule",
        &[
            DOMAIN,
            SCHEDULE,
            need("new_domain_name", ValueKind::Text),
            may("new_schedule_name", ValueKind::New(Noun::Schedule)),
            may("REPlace", ValueKind::Word(&["No"])).accepted("a schedule is never replaced"),
        ],
        |request| {
            let from = request.required("schedule_name");
            match request.text("new_schedule_name") {
                Some(to) => Ok(Plan::Work(Work::CopySchedule { from, to: to.to_owned() })),
                None => Err(Message::missing_parameter("COPY SCHEDULE", "NEW_SCHEDULE_NAME")),
            }
        },
        "`admin schedule define`",
    ),
    command(
        "DEFine",
        "ASSOCiation",
        &[DOMAIN, SCHEDULE, need("node_name", ValueKind::Several(Noun::Node))],
        |request| associations(request, "associate", "ANR2510I", "associated with"),
        "`admin schedule associate`",
    ),
    command(
        "DELete",
        "ASSOCiation",
        &[DOMAIN, SCHEDULE, need("node_name", ValueKind::Several(Noun::Node))],
        |request| associations(request, "dissociate", "ANR2511I", "disassociated from"),
        "`admin schedule dissociate`",
    ),
    command(
        "DEFine",
        "CLIENTAction",
        &[
            need("node_name", ValueKind::Several(Noun::Node)),
            may("DOmain", ValueKind::Text).accepted("nodes are given by name or pattern"),
            may("ACTion", ACTIONS),
            may("OPTions", ValueKind::Text),
            may("OBJects", ValueKind::Text),
            may("Wait", ValueKind::YesNo),
        ],
        client_action,
        "`admin run`",
    ),
];

/// Refuses a value that has no counterpart.
fn refused(request: &Request, reason: &str) -> Message {
    let text = format!("{}: {reason}.", request.command.name());
    Message::refusal("ANR2020E", ReturnCode::Syntax, text)
}

/// Returns the name of the schedule. One of the server has no domain before its name.
fn name(request: &Request) -> Result<String, Message> {
    let first = request.required("domain_name");
    match (request.text("schedule_name"), is_of_server(request)) {
        (Some(name), false) => Ok(name.to_owned()),
        (None, true) => Ok(first),
        (None, false) => Err(Message::missing_parameter(&request.command.name(), "SCHEDULE_NAME")),
        (Some(name), true) => Err(Message::extra_parameter(&request.command.name(), name)),
    }
}

fn is_of_server(request: &Request) -> bool {
    request.text("Type") == Some("ADMINISTRATIVE")
}

fn schedule(request: &Request, is_new: bool) -> Result<Plan, Message> {
    let name = name(request)?;
    let verb = if is_new { "define" } else { "update" };
    let (number, done) = if is_new { ("ANR2500I", "defined") } else { ("ANR2502I", "updated") };
    let text = if is_of_server(request) {
        format!("Schedule {name} {done}.")
    } else {
        let domain = request.required("domain_name");
        format!("Schedule {name} {done} in policy domain {domain}.")
    };
    let mut line = Line::admin(["schedule", verb, &name], Message::done(number, text))
        .option("--description", request.text("DESCription"))
        .option("--order", order(request)?);
    line = if is_of_server(request) {
        of_server(request, line, is_new)?
    } else {
        of_nodes(request, line, is_new)?
    };
    Ok(times(request, line, is_new)?.plan())
}

/// TSM counts priorities as Holdfast counts the order: 1 comes first.
fn order(request: &Request) -> Result<Option<String>, Message> {
    match request.number("PRIority") {
        None => Ok(None),
        Some(number @ 1..=10) => Ok(Some(number.to_string())),
        Some(number) => {
            let name = request.command.name();
            Err(Message::invalid_value(&name, "PRIORITY", &number.to_string(), "1 to 10"))
        }
    }
}

/// Word by which `schedule update` removes all objects or all options.
const NONE: &str = "none";

fn of_nodes(request: &Request, line: Line, is_new: bool) -> Result<Line, Message> {
    if request.has("CMD") {
        return Err(refused(request, "CMD is for TYPE=ADMINISTRATIVE; give ACTION and OBJECTS"));
    }
    let action = request.text("ACTion");
    if action.is_none() && !is_new && !request.has("OPTions") && !request.has("OBJects") {
        return Ok(line);
    }
    let work =
        NodeWork::of(action.unwrap_or("INCREMENTAL")).map_err(|why| refused(request, why))?;
    let objects = grammar::quoted_words(request.text("OBJects").unwrap_or_default())?;
    // An empty text takes the objects or the options away, as it does with TSM.
    let is_emptied = |name: &str| !is_new && request.text(name).is_some_and(str::is_empty);
    let options = match is_emptied("OPTions") {
        true => vec![NONE.to_owned()],
        false => options(request, work)?,
    };
    let full = options.iter().any(|option| option == "--full");
    let named = if full { "full" } else { work.name };
    let names_action = is_new || action.is_some();
    let mut line = line.option("--action", names_action.then_some(named));
    let objects = match work.name {
        _ if is_emptied("OBJects") => vec![NONE.to_owned()],
        // The text of a command is one word for the shell.
        "command" => request.text("OBJects").into_iter().map(str::to_owned).collect(),
        _ => objects,
    };
    for object in objects {
        line = line.option("--object", Some(object));
    }
    for option in options.into_iter().filter(|option| option != "--full") {
        line = line.option("--option", Some(option));
    }
    Ok(line)
}

/// Work of a node.
#[derive(Clone, Copy)]
struct NodeWork {
    name: &'static str,
}

impl NodeWork {
    fn of(action: &str) -> Result<Self, &'static str> {
        let name = match action {
            "INCREMENTAL" | "BACKUP" => "incremental",
            "SELECTIVE" => "selective",
            "ARCHIVE" => "archive",
            "RESTORE" => "restore",
            "IMAGEBACKUP" => "image",
            "COMMAND" => "command",
            "MACRO" => return Err("give ACTION=COMMAND, with the commands as its object"),
            "RETRIEVE" => {
                return Err("an archive is brought back at the node: 'holdfast retrieve'");
            }
            "IMAGERESTORE" => {
                return Err("an image is written at the node: 'holdfast image restore'");
            }
            _ => return Err("packages are deployed by the system's own tools"),
        };
        Ok(Self { name })
    }
}

/// Translates the options of TSM's client that a schedule gives.
fn options(request: &Request, work: NodeWork) -> Result<Vec<String>, Message> {
    let given = grammar::quoted_words(request.text("OPTions").unwrap_or_default())?;
    let mut translated = Vec::new();
    for option in given {
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name.to_lowercase(), Some(value)),
            None => (option.to_lowercase(), None),
        };
        let found = match (name.as_str(), value) {
            // Holdfast takes what is below a directory always, and asks nothing.
            ("-subdir" | "-su", Some("yes" | "y"))
            | ("-quiet" | "-noprompt" | "-verbose", None) => {
                continue;
            }
            ("-absolute" | "-abs", None) => "--full".to_owned(),
            ("-archmc" | "-archm", Some(class)) if work.name == "archive" => {
                format!("--class={class}")
            }
            ("-description" | "-desc", Some(text)) if work.name == "archive" => {
                format!("--description={text}")
            }
            ("-replace" | "-rep", Some("yes" | "all")) if work.name == "restore" => {
                "--replace=all".to_owned()
            }
            ("-replace" | "-rep", Some("no")) if work.name == "restore" => {
                "--replace=no".to_owned()
            }
            ("-resourceutilization" | "-resource", Some(number)) => {
                format!("--resourceutilization={number}")
            }
            _ => {
                let option = model::printable(&option).into_owned();
                let reason = format!("the option {option} of OPTIONS has no counterpart here");
                return Err(refused(request, &reason));
            }
        };
        translated.push(found);
    }
    Ok(translated)
}

/// Work that the server does by schedule.
struct ServerWork {
    verb: &'static str,
    noun: &'static str,
    action: &'static str,
    takes_pool: bool,
}

const fn server_work(verb: &'static str, noun: &'static str, action: &'static str) -> ServerWork {
    ServerWork { verb, noun, action, takes_pool: false }
}

const SERVER_WORK: [ServerWork; 4] = [
    server_work("EXPIre", "Inventory", "expire"),
    server_work("RECLaim", "STGpool", "reclaim"),
    server_work("BAckup", "DB", "copy-catalog"),
    ServerWork { takes_pool: true, ..server_work("MIGrate", "STGpool", "drain") },
];

/// Translates the command of a schedule of the server.
fn of_server(request: &Request, line: Line, is_new: bool) -> Result<Line, Message> {
    if request.has("ACTion") || request.has("OBJects") || request.has("OPTions") {
        return Err(refused(request, "a schedule of the server has CMD and no ACTION"));
    }
    let active = request.text("ACTIVE");
    // TSM makes a schedule that is not active unless it says so.
    let is_suspended = match active {
        Some("yes") => Some("no"),
        Some(_) => Some("yes"),
        None => is_new.then_some("yes"),
    };
    let line = line.option("--suspended", is_suspended);
    let Some(command) = request.text("CMD") else {
        return match is_new {
            true => Err(Message::missing_parameter(&request.command.name(), "CMD")),
            false => Ok(line),
        };
    };
    let words = grammar::parse(command)?.words;
    let word = |index: usize| words.get(index).map_or("", |word| word.value.as_str());
    let is_meant =
        |work: &&ServerWork| stands_for(word(0), work.verb) && stands_for(word(1), work.noun);
    let work = SERVER_WORK.iter().find(is_meant).ok_or_else(|| {
        let reason = "the server runs no such CMD by itself; let cron call dsmadmc, or give EXPIRE \
                      INVENTORY, RECLAIM STGPOOL, MIGRATE STGPOOL or BACKUP DB";
        refused(request, reason)
    })?;
    let object = if work.takes_pool { Some(word(2)) } else { None };
    let action = work.action;
    Ok(line.option("--action", Some(action)).option("--object", object))
}

fn delete(request: &Request) -> Result<Plan, Message> {
    let name = name(request)?;
    let text = match is_of_server(request) {
        true => format!("Schedule {name} deleted."),
        false => {
            let domain = request.required("domain_name");
            format!("Schedule {name} deleted from policy domain {domain}.")
        }
    };
    let done = Message::done("ANR2501I", text);
    Ok(Line::admin(["schedule", "delete", &name], done).plan())
}

fn associations(
    request: &Request,
    verb: &str,
    number: &'static str,
    done: &str,
) -> Result<Plan, Message> {
    let schedule = request.required("schedule_name");
    let domain = request.required("domain_name");
    let line = |node: &String| {
        let text = format!("Node {node} {done} schedule {schedule} in policy domain {domain}.");
        Line::admin(["schedule", verb, &schedule], Message::done(number, text))
            .option("--node", Some(node.as_str()))
    };
    Ok(Plan::Lines(request.list("node_name").iter().map(line).collect()))
}

fn client_action(request: &Request) -> Result<Plan, Message> {
    let action = request.text("ACTion").unwrap_or("INCREMENTAL");
    let work = NodeWork::of(action).map_err(|why| refused(request, why))?;
    let nodes = request.list("node_name");
    let text = format!("The action is started at {}.", nodes.join(", "));
    let mut line = Line::admin(["run"], Message::done("ANR2513I", text))
        .switch("--detach", !request.is_yes("Wait"));
    line.words.extend(nodes.iter().cloned());
    line.words.push("--".to_owned());
    let (words, objects): (&[&str], Vec<String>) = match work.name {
        "incremental" => (&["backup"], objects(request)?),
        "selective" => (&["backup", "--selective"], objects(request)?),
        "image" => (&["image", "backup"], objects(request)?),
        "command" => (&["command"], vec![request.text("OBJects").unwrap_or_default().to_owned()]),
        "archive" => (&["archive"], objects(request)?),
        _ => (&["restore"], objects(request)?),
    };
    line.words.extend(words.iter().map(|word| (*word).to_owned()));
    line.words.extend(options(request, work)?);
    line.words.extend(objects);
    Ok(line.plan())
}

fn objects(request: &Request) -> Result<Vec<String>, Message> {
    grammar::quoted_words(request.text("OBJects").unwrap_or_default())
}
