//! `holdfast archives`: the node's archives, with their events and holds.

use client::{ArchiveFilter, ArchiveSummary};
use model::escaped;
use serde::Serialize;

use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::path::JsonPath;
use crate::table::{self, Align};
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
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast archives
  holdfast archives --event 3
  holdfast archives --hold 3")]
pub(crate) struct Args {
    /// Record that the event of this archive has happened, so that its retention begins
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["hold", "release"])]
    event: Option<u64>,
    /// Hold this archive: keep it until its release, even after the days of its class
    #[arg(long, value_name = "NUMBER", conflicts_with = "release")]
    hold: Option<u64>,
    /// Release this archive: end its hold, so that its class decides again
    #[arg(long, value_name = "NUMBER")]
    release: Option<u64>,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<u8, CommandError> {
    let client = context.client()?;
    let changed = match (args.event, args.hold, args.release) {
        (Some(number), _, _) => Some(client.set_archive(number, true, None)?),
        (_, Some(number), _) => Some(client.set_archive(number, false, Some(true))?),
        (_, _, Some(number)) => Some(client.set_archive(number, false, Some(false))?),
        _ => None,
    };
    let shown = match changed {
        Some(archive) => vec![archive],
        None => client.archives()?,
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

fn state(archive: &ArchiveSummary) -> &'static str {
    match (archive.complete, archive.held) {
        (false, _) => "incomplete",
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
            state(archive).to_owned(),
            places.join(" "),
            archive.description.clone(),
        ]
    };
    table::render(columns, &archives.iter().map(row).collect::<Vec<_>>())
}
