//! `holdfast tape inventory`: what is where.

use std::ffi::OsString;

use ::tape::file_volume::FileVolumes;
use ::tape::library::Library;
use ::tape::medium::Medium as _;
use ::tape::scsi::{Element, ElementKind};
use ::tape::volume::{self, Identified, VolumeError};
use format::volume::VolumeName;
use serde::Serialize;

use super::place::{Opened, Place};
use super::settings::Settings;
use super::site::Site;
use super::trouble::{self, Failure};
use crate::commands::Context;
use crate::error::CommandError;
use crate::table::{self, Align};
use crate::{moment, quantity};

/// Show the slots, drives and import/export elements of libraries, and the volumes in them
///
/// What is on a tape is not known before it is mounted; volumes in folders are looked at.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast tape inventory
  holdfast tape inventory vault --scan")]
pub(super) struct Args {
    /// The library, a folder, or addresses; all libraries of 'holdfast tape list' unless given
    #[arg(value_name = "LIB")]
    library: Option<OsString>,
    /// Have the robot look into every element first; takes minutes
    #[arg(long)]
    scan: bool,
}

/// What is known of one element, or of one volume in a folder.
#[derive(Serialize, Default)]
struct Row {
    library: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    element: Option<u16>,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    volume: Option<String>,
    state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    labelled: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    used_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    left_bytes: Option<u64>,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<u8, CommandError> {
    let sites = match &args.library {
        Some(word) => vec![(word.to_string_lossy().into_owned(), Site::of(word, context)?)],
        None => Settings::load(&context.home()?)?.sites(),
    };
    let (mut failures, mut warnings) = (Vec::new(), Vec::new());
    let mut shown = 0;
    for (name, site) in &sites {
        match take(name, site, args.scan) {
            Ok((rows, said)) => {
                show(&rows, shown > 0, context);
                warnings.extend(said);
                shown += 1;
            }
            Err(error) if sites.len() == 1 => return Err(error),
            Err(why) => failures.push(Failure { what: name.clone().into_bytes(), why }),
        }
    }
    if sites.is_empty() {
        context.output.note("No library has a name; 'holdfast tape add' gives it one.");
    }
    Ok(trouble::tell(&failures, &warnings, shown, context))
}

fn take(name: &str, site: &Site, scan: bool) -> Result<(Vec<Row>, Vec<String>), CommandError> {
    let mut opened = Opened::open(site)?;
    let rows = match &mut opened.place {
        Place::Folder { volumes, path } => {
            let names = volumes.names().map_err(|error| {
                CommandError::new(format!("cannot list {}: {error}", path.display()))
            })?;
            names.iter().map(|volume| in_folder(name, volumes, volume)).collect()
        }
        Place::Library { library, .. } => {
            if scan {
                library.look_again().map_err(|error| trouble::of_library(&error))?;
            }
            let row = |element: &Element| in_library(name, library, element);
            library.elements().iter().map(row).collect()
        }
    };
    Ok((rows, opened.warnings))
}

fn in_library(name: &str, library: &Library, element: &Element) -> Row {
    let barcode = element.barcode.clone();
    let volumes = library.volumes();
    let listed = volumes.iter().find(|listed| listed.address == element.address);
    let state = match (element.is_full, listed) {
        (false, _) => "empty",
        (true, Some(listed)) if listed.is_cleaning => "cleaning cartridge",
        (true, Some(_)) => "label unknown until mounted",
        (true, None) if barcode.is_some() => "a barcode that is no volume's name",
        (true, None) => "no barcode",
    };
    let trouble = element.exception.map_or_else(String::new, |exception| {
        format!(", trouble {:02x}h/{:02x}h", exception >> 8, exception & 0xff)
    });
    Row {
        library: name.to_owned(),
        element: Some(element.address),
        kind: kind(element.kind),
        volume: barcode,
        state: format!("{state}{trouble}"),
        ..Row::default()
    }
}

fn kind(kind: ElementKind) -> &'static str {
    match kind {
        ElementKind::Robot => "robot",
        ElementKind::Slot => "slot",
        ElementKind::ImportExport => "import/export",
        ElementKind::Drive => "drive",
    }
}

fn in_folder(library: &str, volumes: &FileVolumes, name: &VolumeName) -> Row {
    let mut row = look(volumes, name).unwrap_or_else(|error| Row {
        state: CommandError::chain(&error).message,
        ..Row::default()
    });
    (row.library, row.kind) = (library.to_owned(), "file");
    row.volume = Some(name.to_string());
    row
}

/// What the volume says of itself.
fn look(volumes: &FileVolumes, name: &VolumeName) -> Result<Row, VolumeError> {
    let mut row = Row::default();
    let mut medium = volumes.medium(name)?;
    let label = match volume::identify(&mut medium)? {
        Identified::Ours(label) => label,
        Identified::Blank => return Ok(Row { state: "unlabelled".to_owned(), ..row }),
        Identified::Foreign(foreign) => {
            return Ok(Row { state: format!("foreign: {foreign}"), ..row });
        }
        Identified::Damaged(damaged) => {
            return Ok(Row { state: format!("damaged: {damaged}"), ..row });
        }
    };
    let is_protected = medium.is_write_protected().unwrap_or(true);
    let state = if is_protected { "labelled, write-protected" } else { "labelled" };
    state.clone_into(&mut row.state);
    if label.name != *name {
        row.state = format!("labelled {}, which is not its name", label.name);
    }
    row.pool = Some(label.pool);
    row.labelled = Some(moment::rfc3339(label.labelled));
    row.used_bytes = medium.locate_end().and_then(|()| medium.position()).ok();
    let left = medium.remaining_bytes().ok().flatten();
    // Without a capacity it is the file system that ends.
    row.left_bytes = left.filter(|&left| left < u64::MAX >> 1);
    Ok(row)
}

fn show(rows: &[Row], behind_others: bool, context: &mut Context) {
    if context.output.is_json() {
        return rows.iter().for_each(|row| context.output.json(row));
    }
    if behind_others {
        context.output.text("\n");
    }
    let text =
        if rows.iter().any(|row| row.element.is_some()) { elements(rows) } else { files(rows) };
    context.output.text(&text);
}

fn elements(rows: &[Row]) -> String {
    let columns = [
        ("Library", Align::Left),
        ("Element", Align::Right),
        ("Kind", Align::Left),
        ("Volume", Align::Left),
        ("State", Align::Left),
    ];
    let cells = |row: &Row| {
        [
            row.library.clone(),
            row.element.map_or_else(String::new, |element| element.to_string()),
            row.kind.to_owned(),
            row.volume.clone().unwrap_or_default(),
            row.state.clone(),
        ]
    };
    table::render(columns, &rows.iter().map(cells).collect::<Vec<_>>())
}

fn files(rows: &[Row]) -> String {
    let columns = [
        ("Library", Align::Left),
        ("Volume", Align::Left),
        ("Pool", Align::Left),
        ("Used", Align::Right),
        ("Left", Align::Right),
        ("State", Align::Left),
    ];
    let bytes =
        |bytes: Option<u64>| bytes.map_or_else(|| "-".to_owned(), quantity::bytes_with_unit);
    let cells = |row: &Row| {
        [
            row.library.clone(),
            row.volume.clone().unwrap_or_default(),
            row.pool.clone().unwrap_or_else(|| "-".to_owned()),
            bytes(row.used_bytes),
            bytes(row.left_bytes),
            row.state.clone(),
        ]
    };
    table::render(columns, &rows.iter().map(cells).collect::<Vec<_>>())
}
