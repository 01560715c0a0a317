//! `holdfast status`: the node, its server, the filespaces at risk, and the stages of the last
//! backup.

use baseline::{Comparison, History, Work};
use client::{
    BackupReport, Client, FilespaceSummary, Hello, LastBackup, LastDrills, LibraryOutage,
    VirtualFilespaces,
};
use model::{ServerTime, escaped, printable};
use serde::Serialize;

use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::path::JsonPath;
use crate::report::{LastBackupDocument, LastDrillsDocument, drills, last_backup_text};
use crate::running::{self, Record, State};
use crate::table::{self, Align};
use crate::{moment, quantity};

/// Age of the last backup, in days, after which a filespace is at risk.
const RISK_DAYS: i64 = 2;

/// Show the node, its server, the last backups and the filespaces at risk
///
/// A filespace is at risk if it has no complete backup within the last two days. A table shows
/// which stage limited the last backup that was made with this node's folder.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast status
  holdfast status --json")]
pub(crate) struct Args {}

/// `status --json`.
#[derive(Serialize)]
struct StatusDocument<'a> {
    node: &'a str,
    server: &'a str,
    server_version: &'a str,
    client_version: &'static str,
    server_time: String,
    default_class: &'a str,
    filespaces: Vec<FilespaceDocument<'a>>,
    at_risk: Vec<JsonPath<'a>>,
    libraries_away: Vec<OutageDocument<'a>>,
    #[serde(flatten)]
    drills: LastDrillsDocument<'a>,
    /// Commands that run with this node's folder.
    running: Vec<RunningDocument<'a>>,
    /// The last backup, archive or image that was made with this node's folder.
    last_backup: Option<LastBackupDocument<'a>>,
    /// The last run of each kind beside its prediction.
    predictions: &'a [Comparison],
}

#[derive(Serialize)]
struct RunningDocument<'a> {
    pid: u32,
    command: &'a str,
    began: String,
    state: State,
    since: String,
}

#[derive(Serialize)]
struct OutageDocument<'a> {
    library: &'a str,
    drive: Option<u32>,
    since: String,
}

#[derive(Serialize)]
struct FilespaceDocument<'a> {
    filespace: JsonPath<'a>,
    active_objects: u64,
    last_backup: Option<String>,
    at_risk: bool,
}

pub(super) fn run(_: Args, context: &mut Context) -> Result<u8, CommandError> {
    let client: Client = context.client()?;
    let filespaces = client.filespaces()?;
    let drills = client.last_drills()?;
    let last = last_backup(&client.hello().node, context)?;
    let predictions = predictions(context)?;
    let running = running::commands(&context.home()?);
    if context.output.is_json() {
        let document = StatusDocument {
            last_backup: last.as_ref().map(LastBackupDocument::new),
            predictions: &predictions,
            running: running.iter().map(running_document).collect(),
            drills: LastDrillsDocument::new(drills.as_ref()),
            ..document(client.hello(), client.server(), &filespaces)
        };
        context.output.json(&document);
    } else {
        let last = last.as_ref().map(|last| format!("\n{}", last_backup_text(last)));
        let text = [
            text(client.hello(), client.server(), &filespaces),
            proof_text(drills.as_ref()),
            running_text(&running),
            last.unwrap_or_default(),
            predicted(&predictions),
        ];
        context.output.text(&text.concat());
    }
    tell_abandoned(&client, &filespaces, context);
    Ok(DONE)
}

/// Names the filespaces that no backup looks at any more, although their directories have content.
fn tell_abandoned(client: &Client, filespaces: &[FilespaceSummary], context: &Context) {
    // A setting that cannot be read is told by the commands that need it.
    let Ok(own) = VirtualFilespaces::of(client.standing()) else { return };
    let is_stale =
        |known: &&FilespaceSummary| known.active_objects > 0 && own.is_abandoned(&known.name);
    for name in filespaces.iter().filter(is_stale).map(|known| escaped(&known.name)) {
        context.output.note(&format!(
            "the filespace {name} is no longer backed up on its own, and a restore still takes its \
             old versions first: no file system is mounted there, and virtual_filespaces does not \
             name it; mount its file system, or name it in virtual_filespaces again. Only if \
             nobody needs its versions any more: 'holdfast help delete' says how they end"
        ));
    }
}

/// Keeps the facts about a backup that the status shows. Nothing that fails here makes the backup
/// fail.
pub(super) fn keep_last(command: &str, report: &BackupReport, context: &Context) {
    // A backup that has run has a node's home.
    let Ok(home) = context.home() else { return };
    if let Err(error) = LastBackup::new(command, report).keep(&home) {
        context
            .output
            .note(&format!("'holdfast status' will not show the stages of this backup: {error}"));
    }
}

/// Returns the last backup of `node`. Another node may have been enrolled here before.
fn last_backup(node: &str, context: &Context) -> Result<Option<LastBackup>, CommandError> {
    let last = match LastBackup::load(&context.home()?) {
        Ok(last) => last,
        Err(error) => {
            context.output.note(&format!(
                "the stages of the last backup are lost, until the next backup: {error}"
            ));
            None
        }
    };
    Ok(last.filter(|last| last.node == node))
}

/// Returns the last run of each kind of work that a baseline has predicted.
fn predictions(context: &Context) -> Result<Vec<Comparison>, CommandError> {
    let history = match History::load(&context.home()?) {
        Ok(history) => history,
        Err(error) => {
            context
                .output
                .note(&format!("the comparisons with predictions are lost: {error}"));
            History::default()
        }
    };
    let last =
        Work::ALL.map(|work| history.comparisons.iter().rfind(|one| one.work == work).cloned());
    Ok(last.into_iter().flatten().collect())
}

/// Returns a table of runs beside their predictions.
fn predicted(predictions: &[Comparison]) -> String {
    if predictions.is_empty() {
        return String::new();
    }
    let columns = [
        ("Last of its kind", Align::Left),
        ("Ended", Align::Left),
        ("Predicted, s", Align::Right),
        ("Took, s", Align::Right),
        ("Ratio", Align::Right),
    ];
    let row = |one: &Comparison| {
        [
            one.work.title().to_owned(),
            moment::shown(ServerTime(one.at_micros)),
            format!("{:.2}", one.predicted_secs),
            format!("{:.2}", one.elapsed_secs),
            format!("{:.2}", one.ratio()),
        ]
    };
    let rows: Vec<_> = predictions.iter().map(row).collect();
    format!("\n{}", table::render(columns, &rows))
}

fn is_at_risk(filespace: &FilespaceSummary, now: ServerTime) -> bool {
    filespace.last_backup.is_none_or(|last| moment::is_older(last, now, RISK_DAYS))
}

fn document<'a>(
    hello: &'a Hello,
    server: &'a str,
    filespaces: &'a [FilespaceSummary],
) -> StatusDocument<'a> {
    let at_risk = filespaces.iter().filter(|filespace| is_at_risk(filespace, hello.now));
    StatusDocument {
        node: &hello.node,
        server,
        server_version: &hello.server_version,
        client_version: env!("CARGO_PKG_VERSION"),
        server_time: moment::rfc3339(hello.now),
        default_class: hello.class_name(hello.default_class),
        at_risk: at_risk.map(|filespace| JsonPath(&filespace.name)).collect(),
        libraries_away: hello.outages.iter().map(outage).collect(),
        drills: LastDrillsDocument::new(None),
        running: Vec::new(),
        last_backup: None,
        predictions: &[],
        filespaces: filespaces
            .iter()
            .map(|filespace| FilespaceDocument {
                filespace: JsonPath(&filespace.name),
                active_objects: filespace.active_objects,
                last_backup: filespace.last_backup.map(moment::rfc3339),
                at_risk: is_at_risk(filespace, hello.now),
            })
            .collect(),
    }
}

fn outage(outage: &LibraryOutage) -> OutageDocument<'_> {
    let LibraryOutage { library, drive, since } = outage;
    OutageDocument { library, drive: *drive, since: moment::rfc3339(*since) }
}

fn running_document(record: &Record) -> RunningDocument<'_> {
    RunningDocument {
        pid: record.pid,
        command: &record.command,
        began: moment::rfc3339(record.began()),
        state: record.state,
        since: moment::rfc3339(record.since()),
    }
}

/// Returns a line for each command that runs.
fn running_text(running: &[Record]) -> String {
    let line = |record: &Record| {
        let (pid, command) = (record.pid, printable(&record.command));
        let (began, since) = (moment::shown(record.began()), moment::shown(record.since()));
        let state = match record.state {
            State::Running => String::new(),
            State::Paused => format!(", paused since {since}"),
            State::Waiting => format!(", waiting for the server since {since}"),
        };
        format!("\nRunning: {command} (process {pid}), since {began}{state}\n")
    };
    running.iter().map(line).collect()
}

/// Lines about libraries and drives that do not answer.
fn away(outages: &[LibraryOutage]) -> String {
    let line = |outage: &LibraryOutage| {
        let drive = outage.drive.map_or_else(String::new, |drive| format!("drive {drive} of "));
        let (library, since) = (printable(&outage.library), moment::shown(outage.since));
        format!("Away:    {drive}library {library}, since {since}; files on its volumes may wait\n")
    };
    outages.iter().map(line).collect()
}

/// Lines about restore drills.
fn proof_text(last: Option<&LastDrills>) -> String {
    let failure = drills::failure(last).map(|failure| format!("Failed drill: {failure}\n"));
    let proof = drills::proof(last);
    format!("\nLast proven restorable: {proof}\n{}", failure.unwrap_or_default())
}

fn text(hello: &Hello, server: &str, filespaces: &[FilespaceSummary]) -> String {
    let mut head = format!(
        "Node:    {}\nServer:  {} (version {})\nClient:  version {}\n",
        printable(&hello.node),
        printable(server),
        printable(&hello.server_version),
        env!("CARGO_PKG_VERSION")
    );
    head.push_str(&away(&hello.outages));
    if filespaces.is_empty() {
        return format!("{head}\nNothing is backed up yet: all of this node is at risk.\n");
    }
    let columns = [
        ("Filespace", Align::Left),
        ("Active objects", Align::Right),
        ("Last backup", Align::Left),
        ("At risk", Align::Left),
    ];
    let row = |filespace: &FilespaceSummary| {
        let at_risk = if is_at_risk(filespace, hello.now) { "yes" } else { "no" };
        [
            escaped(&filespace.name),
            quantity::count(filespace.active_objects),
            moment::shown_or_never(filespace.last_backup),
            at_risk.to_owned(),
        ]
    };
    let rows: Vec<_> = filespaces.iter().map(row).collect();
    format!("{head}\n{}", table::render(columns, &rows))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use client::Class;
    use model::ClassId;

    use super::*;

    const DAY_SECS: i64 = 86_400;

    fn hello() -> Hello {
        let standard = Class { name: "STANDARD".to_owned(), backup: None, archive: None };
        Hello {
            node: "anna".to_owned(),
            server_version: "0.1.0".to_owned(),
            now: ServerTime::from_secs(20_000 * DAY_SECS),
            default_class: ClassId(1),
            directory_class: ClassId(1),
            classes: BTreeMap::from([(ClassId(1), standard)]),
            option_set: None,
            outages: Vec::new(),
        }
    }

    fn filespace(name: &[u8], days_ago: Option<i64>) -> FilespaceSummary {
        let last = days_ago.map(|days| ServerTime::from_secs((20_000 - days) * DAY_SECS));
        FilespaceSummary { name: name.to_vec(), active_objects: 1_234, last_backup: last, id: None }
    }

    #[test]
    fn what_was_never_backed_up_or_long_ago_is_at_risk() {
        let (hello, filespaces) = (
            hello(),
            [filespace(b"/", Some(1)), filespace(b"/home", Some(3)), filespace(b"/data\xff", None)],
        );
        let document = document(&hello, "backup.example.org:1500", &filespaces);
        let document = serde_json::to_string_pretty(&document).expect("a document");
        assert!(document.contains("\"client_version\": \""));
        let document = document.replace(env!("CARGO_PKG_VERSION"), "VERSION");
        insta::assert_snapshot!(document);
    }

    #[test]
    fn a_new_node_is_all_at_risk() {
        let text = text(&hello(), "backup.example.org:1500", &[]);
        assert!(text.contains("all of this node is at risk"), "{text}");
    }

    #[test]
    fn a_library_that_does_not_answer_is_named_with_its_time() {
        let since = ServerTime::from_secs(20_000 * DAY_SECS);
        let of = |drive| LibraryOutage { library: "vault".to_owned(), drive, since };
        let hello = Hello { outages: vec![of(None), of(Some(500))], ..hello() };
        let text = text(&hello, "backup.example.org:1500", &[]);
        let shown = moment::shown(since);
        assert!(text.contains(&format!("Away:    library vault, since {shown};")), "{text}");
        assert!(text.contains(&format!("drive 500 of library vault, since {shown};")), "{text}");
        let document = document(&hello, "backup.example.org:1500", &[]);
        let document = serde_json::to_value(document).expect("a document");
        assert_eq!(document["libraries_away"][1]["drive"], 500);
        assert_eq!(document["libraries_away"][0]["drive"], serde_json::Value::Null);
    }

    #[test]
    fn filespaces_stand_in_a_table() {
        let filespaces = [filespace(b"/home\n", None)];
        let text = text(&hello(), "backup.example.org:1500", &filespaces);
        let row = text.lines().last().expect("a row");
        assert_eq!(row, "/home\\x0a           1,234  never        yes");
    }
}
