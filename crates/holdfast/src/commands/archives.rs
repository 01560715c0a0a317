//! `holdfast archives`: the node's archives, with their events and holds.

use client::{ArchiveFilter, ArchiveSummary};
use model::escaped;
use serde::Serialize;

use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::path::JsonPath;
use crate::table::{self, Align};
use crate::waiter::{LinkArgs, ReadingArgs};
use crate::{moment, quantity};

/// The archives to use
#[derive(clap::Args, Debug)]
pub(super) struct ArchiveArgs {
    /// The archive with this number
    #[arg(long, value_name = "NUMBER")]
    archive: Option<u64>,
    /// The archives with this description; * and ? stand for any characters
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
}

impl From<ArchiveArgs> for ArchiveFilter {
    fn from(args: ArchiveArgs) -> Self {
        Self { number: args.archive, description: args.description }
    }
}

/// List, hold and release this node's archives, and record their events
///
/// Without a command it lists the archives.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast archives
  holdfast archives event 3
  holdfast archives hold 3")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<ArchivesCommand>,
    #[command(flatten)]
    reading: ReadingArgs,
    #[command(flatten)]
    link: LinkArgs,
}

#[derive(clap::Subcommand, Debug)]
enum ArchivesCommand {
    /// Record that the event of an archive has happened, so that its retention begins
    #[command(after_help = "Example:\n  holdfast archives event 3")]
    Event(ChangeArgs),
    /// Hold an archive: keep it until its release, even after the days of its class
    #[command(after_help = "Example:\n  holdfast archives hold 3")]
    Hold(ChangeArgs),
    /// Release an archive: end its hold, so that its class decides again
    #[command(after_help = "Example:\n  holdfast archives release 3")]
    Release(ChangeArgs),
}

#[derive(clap::Args, Debug)]
struct ChangeArgs {
    /// The number of the archive; 'holdfast archives' shows it
    #[arg(value_name = "NUMBER")]
    number: u64,
    #[command(flatten)]
    link: LinkArgs,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<u8, CommandError> {
    if args.command.is_some() && args.link.is_given() {
        let message = "options of the connection, such as --wait, stand after the command";
        return Err(CommandError::usage(message, "holdfast archives"));
    }
    if args.command.is_some() && args.reading.is_given() {
        let message = "another node's archives are listed and not changed: --from-node takes no \
                       command";
        return Err(CommandError::usage(message, "holdfast archives"));
    }
    let change = |args: &ChangeArgs, event, held| {
        let client = context.waiter(&args.link)?.client()?;
        let changed = client.set_archive(args.number, event, held);
        let look = "'holdfast archives' shows it";
        let changed = changed.map_err(|error| CommandError::from(error).of_order(look))?;
        Ok::<_, CommandError>(vec![changed])
    };
    let shown = match &args.command {
        None => {
            let link = args.reading.link(&args.link);
            context.waiter(&link)?.run(|client, _| client.archives())?
        }
        Some(ArchivesCommand::Event(args)) => change(args, true, None)?,
        Some(ArchivesCommand::Hold(args)) => change(args, false, Some(true))?,
        Some(ArchivesCommand::Release(args)) => change(args, false, Some(false))?,
    };
    if context.output.is_json() {
        shown
            .iter()
            .for_each(|archive| context.output.json(&ArchiveDocument::new(archive)));
    } else if shown.is_empty() {
        context.output.note("Nothing is archived yet.");
    } else {
        context.output.text(&text(&shown));
    }
    Ok(DONE)
}

/// `archives --json`, one document per line.
#[derive(Serialize)]
struct ArchiveDocument<'a> {
    archive: u64,
    description: &'a str,
    created: String,
    event: Option<String>,
    held: bool,
    complete: bool,
    objects: u64,
    bytes: u64,
    filespaces: Vec<JsonPath<'a>>,
}

impl<'a> ArchiveDocument<'a> {
    fn new(archive: &'a ArchiveSummary) -> Self {
        Self {
            archive: archive.number,
            description: &archive.description,
            created: moment::rfc3339(archive.created),
            event: archive.event.map(moment::rfc3339),
            held: archive.held,
            complete: archive.complete,
            objects: archive.objects,
            bytes: archive.bytes,
            filespaces: archive.mount_points.iter().map(|name| JsonPath(name)).collect(),
        }
    }
}

/// Returns what is unusual about an archive.
fn state(is_complete: bool, is_held: bool) -> &'static str {
    match (is_complete, is_held) {
        (false, false) => "incomplete",
        (false, true) => "incomplete, held",
        (true, true) => "held",
        (true, false) => "",
    }
}

fn text(archives: &[ArchiveSummary]) -> String {
    let columns = [
        ("Archive", Align::Right),
        ("Created", Align::Left),
        ("Objects", Align::Right),
        ("Size", Align::Right),
        ("State", Align::Left),
        ("Filespaces", Align::Left),
        ("Description", Align::Left),
    ];
    let row = |archive: &ArchiveSummary| {
        let places: Vec<String> = archive.mount_points.iter().map(|name| escaped(name)).collect();
        [
            archive.number.to_string(),
            moment::shown(archive.created),
            quantity::count(archive.objects),
            quantity::bytes_with_unit(archive.bytes),
            state(archive.complete, archive.held).to_owned(),
            places.join(" "),
            archive.description.clone(),
        ]
    };
    table::render(columns, &archives.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An incomplete archive that was held was shown as one that is not.
    #[test]
    fn the_state_says_all_that_is_unusual() {
        let states = [(true, false), (true, true), (false, false), (false, true)];
        let states = states.map(|(is_complete, is_held)| state(is_complete, is_held));
        assert_eq!(states, ["", "held", "incomplete", "incomplete, held"]);
    }
}
