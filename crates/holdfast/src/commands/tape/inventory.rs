//! `holdfast tape inventory`: the elements of libraries, and the volumes in them.

use std::ffi::OsString;

use ::tape::depot::{Depot, DepotVolumes};
use ::tape::inventory::{self, ElementContent, ElementEntry, FileContent, FileEntry};
use ::tape::scsi::ElementKind;
use ::tape::settings::NamedSite;
use serde::Serialize;

use super::site;
use super::trouble::{self, Failure};
use crate::context::Context;
use crate::error::CommandError;
use crate::table::{self, Align};
use crate::{moment, quantity};

/// Show the slots, drives and import/export elements of libraries, and the volumes in them
///
/// The content of a tape is unknown until the tape is mounted. Volumes in folders are opened.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast tape inventory
  holdfast tape inventory vault --scan")]
pub(super) struct Args {
    /// The library, a folder, or addresses [default: all libraries of 'holdfast tape list']
    #[arg(value_name = "LIB")]
    library: Option<OsString>,
    /// Make the changer inspect every element first; takes minutes
    #[arg(long)]
    scan: bool,
}

/// One element, or one volume in a folder.
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

/// The rows of one library, and the warnings about it.
struct Table {
    rows: Vec<Row>,
    warnings: Vec<String>,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<u8, CommandError> {
    let sites = match &args.library {
        Some(word) => {
            let name = word.to_string_lossy().into_owned();
            vec![NamedSite { name, site: site::of_word(word, context)? }]
        }
        None => site::settings(&context.home()?)?.libraries().to_vec(),
    };
    let (mut failures, mut warnings) = (Vec::new(), Vec::new());
    let mut shown = 0;
    for library in &sites {
        match take(library, args.scan) {
            Ok(table) => {
                show(&table.rows, shown == 0, context);
                warnings.extend(table.warnings);
                shown += 1;
            }
            Err(error) if sites.len() == 1 => return Err(error),
            Err(why) => failures.push(Failure { what: library.name.clone().into_bytes(), why }),
        }
    }
    if sites.is_empty() {
        context
            .output
            .note("No library has a name; 'holdfast tape add' names a library.");
    }
    Ok(trouble::tell(&failures, &warnings, shown, context))
}

fn take(library: &NamedSite, scan: bool) -> Result<Table, CommandError> {
    let mut depot = Depot::open(&library.site).map_err(|error| trouble::of_opening(&error))?;
    let rows = match depot.volumes() {
        DepotVolumes::Folder { volumes, path } => {
            let entries = inventory::of_folder(volumes).map_err(|error| {
                CommandError::new(format!("cannot list {}: {error}", path.display()))
            })?;
            entries.into_iter().map(|entry| file_row(&library.name, entry)).collect()
        }
        DepotVolumes::Library { library: opened, .. } => {
            if scan {
                opened.look_again().map_err(|error| trouble::of_library(&error))?;
            }
            let entries = inventory::of_library(opened);
            entries.into_iter().map(|entry| element_row(&library.name, entry)).collect()
        }
    };
    Ok(Table { rows, warnings: trouble::warnings(&mut depot) })
}

fn element_row(library: &str, entry: ElementEntry) -> Row {
    let state = match entry.content {
        ElementContent::Empty => "empty",
        ElementContent::CleaningCartridge => "cleaning cartridge",
        ElementContent::Volume => "label unknown until mounted",
        ElementContent::OtherBarcode => "a barcode that is not the name of a volume",
        ElementContent::NoBarcode => "no barcode",
    };
    let exception = entry.exception.map_or_else(String::new, |exception| {
        format!(", trouble {:02x}h/{:02x}h", exception >> 8, exception & 0xff)
    });
    Row {
        library: library.to_owned(),
        element: Some(entry.address),
        kind: kind(entry.kind),
        volume: entry.barcode,
        state: format!("{state}{exception}"),
        ..Row::default()
    }
}

fn kind(kind: ElementKind) -> &'static str {
    match kind {
        ElementKind::Changer => "changer",
        ElementKind::Slot => "slot",
        ElementKind::ImportExport => "import/export",
        ElementKind::Drive => "drive",
    }
}

fn file_row(library: &str, entry: FileEntry) -> Row {
    let FileEntry { name, content } = entry;
    let mut row = Row {
        library: library.to_owned(),
        kind: "file",
        volume: Some(name.to_string()),
        ..Row::default()
    };
    row.state = match content {
        FileContent::Labelled { label, is_protected, used_bytes, left_bytes } => {
            let state = match (label.name == name, is_protected) {
                (false, _) => format!("labelled {}, which differs from its name", label.name),
                (true, true) => "labelled, write-protected".to_owned(),
                (true, false) => "labelled".to_owned(),
            };
            row.pool = Some(label.pool);
            row.labelled = Some(moment::rfc3339(label.labelled));
            (row.used_bytes, row.left_bytes) = (used_bytes, left_bytes);
            state
        }
        FileContent::Unlabelled => "unlabelled".to_owned(),
        FileContent::Foreign(foreign) => format!("foreign: {foreign}"),
        FileContent::Damaged(damaged) => format!("damaged: {damaged}"),
        FileContent::Unreadable(error) => CommandError::chain(&error).message,
    };
    row
}

fn show(rows: &[Row], is_first: bool, context: &mut Context) {
    if context.output.is_json() {
        return rows.iter().for_each(|row| context.output.json(row));
    }
    if !is_first {
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
