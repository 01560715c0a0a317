//! `holdfast list`: the versions that the server keeps.

use std::path::PathBuf;

use client::{ArchiveFilter, ListContent, ListOptions, ListedVersion, Origin, VersionChoice};
use model::{Extent, Kind, Payload, ServerTime, escaped};
use serde::Serialize;

use super::resumption::resumable;
use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::output::Output;
use crate::path::{self, JsonPath};
use crate::table::{self, Align};
use crate::waiter::{LinkArgs, ReadingArgs};
use crate::{moment, quantity};

/// List versions: size, backup time, management class, A for active or I for inactive, path
///
/// Without a path it lists the filespaces. A path may have the wildcards of patterns, in quotes: it
/// then stands for all stored paths that match, and --recursive lists what is in them.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast list /home/ann --recursive
  holdfast list /home/ann/letters --inactive
  holdfast list /home/ann --at 2026-11-20
  holdfast list '/home/*/letters/*.txt'")]
pub(crate) struct Args {
    /// A directory or file, by the name that it had when it was backed up
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,
    /// List all versions, not only the active ones
    #[arg(long, requires = "path")]
    inactive: bool,
    /// List the versions that were active at this time
    #[arg(long, value_name = "TIME", value_parser = moment::parse, requires = "path")]
    at: Option<ServerTime>,
    /// List from this filespace only, in place of the innermost one that has PATH
    #[arg(long, value_name = "FS", requires = "path", conflicts_with = "archive")]
    filespace: Option<PathBuf>,
    /// Also list everything below the directories in PATH
    #[arg(long, short, requires = "path")]
    recursive: bool,
    /// List the objects in this archive; 'holdfast archives' shows the numbers
    #[arg(long, value_name = "NUMBER", requires = "path", conflicts_with_all = ["inactive", "at"])]
    archive: Option<u64>,
    #[command(flatten)]
    reading: ReadingArgs,
    #[command(flatten)]
    link: LinkArgs,
}

pub(super) fn run(args: Args, context: &mut Context) -> Result<u8, CommandError> {
    let args = Args { link: args.reading.link(&args.link), ..args };
    match &args.path {
        Some(path) => {
            let paths = path::patterns(std::slice::from_ref(path))?;
            list_versions(&args, &paths[0], context)
        }
        None => list_filespaces(&args.link, context),
    }
}

fn list_versions(args: &Args, path: &[u8], context: &mut Context) -> Result<u8, CommandError> {
    let which = VersionChoice { at: args.at, inactive: args.inactive };
    let filespace = path::filespace(args.filespace.as_deref())?;
    let origin = match (args.archive, &filespace) {
        (None, None) => Origin::Backups,
        (None, Some(name)) => Origin::Filespace(name.clone()),
        (Some(_), _) => {
            Origin::Archives(ArchiveFilter { number: args.archive, ..ArchiveFilter::default() })
        }
    };
    // The heading is written with the first version, so that no error stands below a heading.
    let mut headed = context.output.is_json() || context.output.quiet;
    let waiter = context.waiter(&args.link)?;
    let output = &mut context.output;
    let mut show = |version: &ListedVersion| {
        if !headed {
            output.line(&heading());
            headed = true;
        }
        write(version, output);
        output.is_open()
    };
    let literal = match path {
        [start @ .., b'/'] if !start.is_empty() => start,
        path => path,
    };
    let mut others = Vec::new();
    resumable(&waiter, |client, shown| {
        let paths = client.expand(path, &which, &origin)?;
        let is_literal = paths.iter().all(|found| found == literal);
        // A pattern names objects, and not their contents.
        let content = match (args.recursive, is_literal) {
            (true, _) => ListContent::Everything,
            (false, true) => ListContent::Direct,
            (false, false) => ListContent::None,
        };
        let paths = if args.recursive { client::topmost(paths) } else { paths };
        for path in paths {
            let options = ListOptions {
                path: Some(path),
                which: which.clone(),
                content,
                all_versions: args.inactive,
                archive: args.archive,
                filespace: filespace.clone(),
            };
            client.list(&options, &mut |version| shown.visit(version, || show(version)))?;
            if shown.is_ended() {
                break;
            }
            if is_literal {
                // A server that cannot answer has no effect on the list.
                others = client.elsewhere(&options).unwrap_or_default();
            }
        }
        Ok(())
    })?;
    let (path, options) = (escaped(literal), options_again(args));
    for name in others.iter().map(|name| escaped(name)) {
        context.output.note(&format!(
            "the filespace {name} has versions of {path}, too: 'holdfast list {path}{options} \
             --filespace {name}' shows them"
        ));
    }
    Ok(DONE)
}

/// Returns the options that choose what of a path is listed, for a command in a hint.
fn options_again(args: &Args) -> String {
    let flags = [(args.recursive, " --recursive"), (args.inactive, " --inactive")];
    let given = flags.iter().filter(|(is_given, _)| *is_given);
    let mut options: String = given.map(|(_, flag)| *flag).collect();
    options.extend(args.at.map(|at| format!(" --at \"{}\"", moment::shown(at))));
    options
}

/// Returns the heading of the lines of [`write`].
pub(super) fn heading() -> String {
    text_line("Size", "Backup time", "Class", "A/I", "Path")
}

pub(super) fn write(version: &ListedVersion, output: &mut Output) {
    if output.is_json() {
        output.json(&VersionDocument::new(version));
        return;
    }
    let line = text_line(
        &quantity::count(version.object.stat.size),
        &moment::shown(version.object.inserted),
        &version.class,
        state(version),
        &escaped(&version.path),
    );
    output.line(&line);
}

/// Formats one line. The columns have fixed widths, because each line is written before the next is
/// known.
fn text_line(size: &str, time: &str, class: &str, state: &str, path: &str) -> String {
    format!("{size:>15}  {time:<19}  {class:<12}  {state:<3}  {path}")
}

/// Returns TSM's letter for an active or an inactive version.
fn state(version: &ListedVersion) -> &'static str {
    if version.deactivated.is_none() { "A" } else { "I" }
}

/// `list --json`, one document per line.
#[derive(Serialize)]
struct VersionDocument<'a> {
    path: JsonPath<'a>,
    kind: &'static str,
    size: u64,
    backup_time: String,
    mgmt_class: &'a str,
    active: bool,
    state: &'static str,
    deactivated: Option<String>,
    mtime: String,
    mode: String,
    uid: u32,
    gid: u32,
    encrypted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<JsonPath<'a>>,
}

impl<'a> VersionDocument<'a> {
    fn new(version: &'a ListedVersion) -> Self {
        let stat = &version.object.stat;
        Self {
            path: JsonPath(&version.path),
            kind: kind_name(stat.kind),
            size: stat.size,
            backup_time: moment::rfc3339(version.object.inserted),
            mgmt_class: &version.class,
            active: version.deactivated.is_none(),
            state: state(version),
            deactivated: version.deactivated.map(moment::rfc3339),
            mtime: moment::file_time(stat.mtime),
            mode: format!("{:04o}", stat.mode),
            uid: stat.uid,
            gid: stat.gid,
            encrypted: is_encrypted(&version.object.payload),
            target: match &version.object.payload {
                Payload::Target(target) => Some(JsonPath(target)),
                Payload::Nothing | Payload::Extents(_) => None,
            },
        }
    }
}

fn is_encrypted(payload: &Payload) -> bool {
    match payload {
        Payload::Extents(extents) => {
            extents.iter().any(|extent| matches!(extent, Extent::Sealed { .. }))
        }
        Payload::Nothing | Payload::Target(_) => false,
    }
}

pub(super) fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink => "symlink",
        Kind::Fifo => "fifo",
        Kind::CharDevice => "char_device",
        Kind::BlockDevice => "block_device",
    }
}

/// `list --json` without a path, one document per line.
#[derive(Serialize)]
struct FilespaceDocument<'a> {
    filespace: JsonPath<'a>,
    active_objects: u64,
    last_backup: Option<String>,
}

fn list_filespaces(link: &LinkArgs, context: &mut Context) -> Result<u8, CommandError> {
    let filespaces = context.waiter(link)?.run(|client, _| client.filespaces())?;
    if context.output.is_json() {
        for filespace in &filespaces {
            context.output.json(&FilespaceDocument {
                filespace: JsonPath(&filespace.name),
                active_objects: filespace.active_objects,
                last_backup: filespace.last_backup.map(moment::rfc3339),
            });
        }
        return Ok(DONE);
    }
    if filespaces.is_empty() {
        context.output.note("Nothing is backed up yet.");
        return Ok(DONE);
    }
    let columns = [
        ("Filespace", Align::Left),
        ("Active objects", Align::Right),
        ("Last backup", Align::Left),
    ];
    let row = |filespace: &client::FilespaceSummary| {
        [
            escaped(&filespace.name),
            quantity::count(filespace.active_objects),
            moment::shown_or_never(filespace.last_backup),
        ]
    };
    let rows: Vec<_> = filespaces.iter().map(row).collect();
    context.output.text(&table::render(columns, &rows));
    Ok(DONE)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::{ClassId, Name, Object, Stat, Timestamp};

    use super::*;

    fn version(deactivated: Option<ServerTime>) -> ListedVersion {
        let stat = Stat {
            kind: Kind::Symlink,
            mode: 0o4755,
            uid: 1000,
            gid: 100,
            size: 12_345_678,
            mtime: Timestamp { secs: 1_700_000_000, nanos: 123_456_789 },
            ctime: Timestamp::default(),
            inode: 7,
            linked: false,
            device: 0,
        };
        let object = Object {
            name: Name::new(b"b\xff").expect("a name"),
            stat,
            attributes: Arc::default(),
            class: ClassId(1),
            inserted: ServerTime(1_700_000_100_500_000),
            payload: Payload::Target(b"../a".to_vec()),
        };
        ListedVersion {
            path: b"/srv/b\xff".to_vec(),
            object,
            class: "STANDARD".to_owned(),
            deactivated,
        }
    }

    #[test]
    fn a_document_tells_all_of_a_version() {
        let version = version(Some(ServerTime::from_secs(1_700_000_200)));
        let document = serde_json::to_string_pretty(&VersionDocument::new(&version));
        insta::assert_snapshot!(document.expect("a document"));
    }

    #[test]
    fn an_active_version_has_no_end() {
        let document = serde_json::to_value(VersionDocument::new(&version(None))).expect("JSON");
        assert_eq!(document["active"], true);
        assert_eq!(document["state"], "A");
        assert_eq!(document["deactivated"], serde_json::Value::Null);
    }

    #[test]
    fn a_line_ends_with_the_path() {
        let line = text_line("12,345", "2026-11-20 18:00:00", "STANDARD", "A", "/x");
        let expected = "         12,345  2026-11-20 18:00:00  STANDARD      A    /x";
        assert_eq!(line, expected);
    }
}
