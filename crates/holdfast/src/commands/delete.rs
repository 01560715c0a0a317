//! `holdfast delete`: deletes versions and archived objects of this node at the server.

use std::path::PathBuf;

use client::{Client, DeleteOptions, DeletionScope, DeletionSummary, ListOptions, PathDeletion};
use model::escaped;
use serde::Serialize;

use crate::context::Context;
use crate::error::{CommandError, DONE, FAILED};
use crate::path::JsonPath;
use crate::waiter::LinkArgs;
use crate::{moment, output, path, quantity};

/// Delete versions or archived objects at the server
///
/// The node must have the right to delete, which the administrator gives. A deletion can be undone
/// for some days.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast delete /home/ann/secret --dry-run
  holdfast delete /home/ann/old --inactive
  holdfast delete /srv/project-17 --archive 3")]
pub(crate) struct Args {
    /// A directory with everything in it, or a file, by the name that it had when it was backed up
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// Delete from this archive, not from backups
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["active", "inactive"])]
    archive: Option<u64>,
    /// Delete from this filespace, in place of the innermost one that has PATH
    #[arg(long, value_name = "FS", conflicts_with = "archive")]
    filespace: Option<PathBuf>,
    /// Delete active versions only
    #[arg(long, conflicts_with = "inactive")]
    active: bool,
    /// Delete inactive versions only
    #[arg(long)]
    inactive: bool,
    /// Count what would be deleted, and delete nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    link: LinkArgs,
}

pub(super) fn run(args: Args, context: &mut Context) -> Result<u8, CommandError> {
    let mut paths = path::on_node(std::slice::from_ref(&args.path))?;
    let options = DeleteOptions {
        path: paths.pop().unwrap_or_default(),
        scope: DeletionScope::Subtree,
        filespace: path::filespace(args.filespace.as_deref())?,
        archive: args.archive,
        active: !args.inactive,
        inactive: !args.active,
        dry_run: args.dry_run,
    };
    let client = context.waiter(&args.link)?.client()?;
    // Afterwards this filespace may have nothing that the others have, too.
    let mut others = others(&client, &options);
    let deleted = client.delete(&options).map_err(|error| {
        let error = CommandError::from(error);
        if args.dry_run { error } else { error.of_order("'holdfast undelete' lists deletions") }
    });
    let PathDeletion { filespace, summary } = deleted?;
    others.retain(|other| *other != filespace);
    let versions = quantity::counted(summary.versions, "version");
    let planned = format!("{versions} would be deleted.\n");
    let code = report(context, (&summary, Some(filespace.as_slice())), "version", &planned);
    let path = escaped(&options.path);
    let part = match (args.active, args.inactive) {
        (true, _) => " --active",
        (_, true) => " --inactive",
        _ => "",
    };
    for other in others.iter().map(|other| escaped(other)) {
        context.output.note(&format!(
            "the filespace {other} has versions of {path}, too: 'holdfast delete {path}{part} \
             --filespace {other}' deletes those"
        ));
    }
    Ok(code)
}

/// Returns the filespaces that have versions of the path beside the one to delete from.
fn others(client: &Client, options: &DeleteOptions) -> Vec<Vec<u8>> {
    let options = ListOptions {
        path: Some(options.path.clone()),
        all_versions: options.inactive,
        archive: options.archive,
        filespace: options.filespace.clone(),
        ..ListOptions::default()
    };
    // A server that cannot answer has no effect on the deletion.
    client.elsewhere(&options).unwrap_or_default()
}

/// Reports a deletion of objects called `noun`, from one filespace if it has a path, and returns
/// the exit code. `otherwise` is said if nothing was deleted.
pub(crate) fn report(
    context: &mut Context,
    (deletion, filespace): (&DeletionSummary, Option<&[u8]>),
    noun: &str,
    otherwise: &str,
) -> u8 {
    let code = match &deletion.damage {
        Some(damage) => {
            output::say(&format!("Not all {noun}s could be deleted: {damage}"));
            FAILED
        }
        None => DONE,
    };
    if context.output.is_json() {
        let filespace = filespace.map(JsonPath);
        context
            .output
            .json(&DeletionDocument { filespace, ..DeletionDocument::new(deletion) });
        return code;
    }
    if let Some(filespace) = filespace {
        context.output.text(&format!("Filespace: {}\n", escaped(filespace)));
    }
    let deleted = quantity::counted(deletion.versions, noun);
    let are = quantity::are(deletion.versions);
    match (deletion.number, deletion.until) {
        (Some(number), Some(until)) => context.output.text(&format!(
            "{deleted} {are} deleted. You can undo this until {} with:\n\n  holdfast undelete \
             {number}\n",
            moment::shown(until)
        )),
        _ => context.output.text(otherwise),
    }
    code
}

/// `delete --json`, and `undelete --json`, one document per line.
#[derive(Serialize)]
pub(crate) struct DeletionDocument<'a> {
    deletion: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    filespace: Option<JsonPath<'a>>,
    versions: u64,
    details: &'a str,
    time: Option<String>,
    until: Option<String>,
}

impl<'a> DeletionDocument<'a> {
    pub(crate) fn new(deletion: &'a DeletionSummary) -> Self {
        Self {
            deletion: deletion.number,
            filespace: None,
            versions: deletion.versions,
            details: &deletion.details,
            time: deletion.time.map(moment::rfc3339),
            until: deletion.until.map(moment::rfc3339),
        }
    }
}
