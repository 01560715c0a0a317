//! `holdfast tape read`: objects on volumes, listed or extracted without any catalogue.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use ::tape::address::Address;
use ::tape::depot::{self, Depot};
use ::tape::manual::{self, ExtractedFile, Extraction, ExtractionReport, Piece, Selection};
use ::tape::medium::Medium;
use ::tape::volume::{VolumeError, VolumeReader};
use client::{Phase, Progress};
use format::volume::{Label, VolumeName};
use serde::Serialize;
use sys::Dir;

use super::meter::ShownProgress;
use super::site;
use super::trouble::{self, Failure, FailureDocument};
use crate::context::Context;
use crate::error::CommandError;
use crate::path::JsonPath;
use crate::table::{self, Align};
use crate::{path, quantity};

/// List the objects on volumes, or extract them, without any catalogue
///
/// Every block is verified. If several objects have the same name, the newest is extracted;
/// --number chooses older ones. Existing files are left as they are. An object that continues on
/// another volume needs both volumes, in their order: T001,T002.
#[derive(clap::Args, Debug)]
#[command(
    override_usage = "holdfast tape read [OPTIONS] LIB VOLUME[,VOLUME...] [NAME]...\n       \
                      holdfast tape read [OPTIONS] --drive ADDR [NAME]..."
)]
#[command(after_help = "\
Example:
  holdfast tape read vault A00001L8 --list
  holdfast tape read vault A00001L8,A00002L8 --to /srv/restored
  holdfast tape read /srv/tapes T001 letters.tar --to /srv/restored
  holdfast tape read --drive /dev/sg3 --list")]
pub(super) struct Args {
    /// The library, a folder, or addresses; then the volumes; then the objects [default: all
    /// objects]. With --drive, only the objects
    #[arg(value_name = "LIB VOLUME NAME")]
    words: Vec<OsString>,
    /// Read the cartridge that is in this drive: /dev/sgN or iscsi://HOST[:PORT]/TARGET/LUN
    #[arg(long, value_name = "ADDR", value_parser = crate::values::address)]
    drive: Option<Address>,
    /// List the objects and write no files
    #[arg(long, conflicts_with = "to")]
    list: bool,
    /// Write the files into this folder [default: the working directory]
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Choose the object with this number on the volume; may be given several times
    #[arg(long = "number", value_name = "N")]
    numbers: Vec<u32>,
}

/// The volumes and objects that the command line names.
struct Request {
    source: Source,
    selection: Selection,
}

enum Source {
    Drive(Address),
    Volumes { depot: Box<Depot>, names: Vec<VolumeName> },
}

/// One piece of an object of `tape read --list --json`, one document per line.
#[derive(Serialize)]
struct PieceDocument<'a> {
    volume: &'a str,
    number: u32,
    name: Option<JsonPath<'a>>,
    object: String,
    position: u64,
    offset: u64,
    bytes: u64,
    state: &'a str,
}

/// `tape read --json`.
#[derive(Serialize)]
struct ReadDocument<'a> {
    objects: Vec<ObjectDocument<'a>>,
    read: usize,
    failed: usize,
    failures: Vec<FailureDocument<'a>>,
    warnings: &'a [String],
}

#[derive(Serialize)]
struct ObjectDocument<'a> {
    name: JsonPath<'a>,
    bytes: u64,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<u8, CommandError> {
    let mut request = request(args, context)?;
    if args.list {
        return Ok(list(&mut request, context));
    }
    let folder = args.to.clone().unwrap_or_else(|| ".".into());
    let opened = Dir::open(&path::absolute(&folder)?).and_then(|dir| {
        dir.check_writable()?;
        Ok(dir)
    });
    let folder = opened.map_err(|error| {
        CommandError::new(format!("cannot write to {}: {error}", folder.display()))
    })?;
    let progress = context.progress()?;
    progress.enter(Phase::Running);
    let meter = context.meter(&progress);
    let counter = ShownProgress(&progress);
    let mut extraction = Extraction::new(Arc::new(folder), &counter);
    let others = extract(&mut request, &mut extraction, &progress);
    drop(meter);
    let ExtractionReport { files, failures } = extraction.finish();
    let mut failures: Vec<Failure> = failures.into_iter().map(Failure::of_piece).collect();
    failures.extend(others);
    Ok(report(&files, &failures, &request.source.warnings(), context))
}

fn request(args: &Args, context: &Context) -> Result<Request, CommandError> {
    let (source, names) = match (&args.drive, args.words.as_slice()) {
        (Some(drive), names) => (Source::Drive(drive.clone()), names),
        (None, [library, volumes, names @ ..]) => {
            let volumes = volumes.to_string_lossy();
            let volumes = super::values::volume_list(&volumes)
                .map_err(|why| CommandError::new(format!("volume {volumes}: {why}")))?;
            let site = site::of_word(library, context)?;
            let depot = Depot::open(&site).map_err(|error| trouble::of_opening(&error))?;
            (Source::Volumes { depot: Box::new(depot), names: volumes.0 }, names)
        }
        (None, _) => {
            let message = "give a library and a volume, or --drive";
            return Err(CommandError::usage(message, "holdfast tape read"));
        }
    };
    let names = names.iter().map(|name| name.as_bytes().to_vec()).collect();
    let numbers = args.numbers.iter().copied().collect();
    Ok(Request { source, selection: Selection { names, numbers } })
}

/// Work on one volume. Its last argument is true if other volumes follow.
type Work<'a> = dyn FnMut(&mut dyn Medium, &Label, bool) -> Result<(), VolumeError> + 'a;

impl Source {
    /// Runs `work` on each volume. Returns the failures of whole volumes.
    fn for_each_volume(&mut self, work: &mut Work<'_>) -> Vec<Failure> {
        match self {
            Self::Volumes { depot, names } => {
                let mut failures = Vec::new();
                for (index, name) in names.iter().enumerate() {
                    let follows = index + 1 < names.len();
                    let done =
                        depot.with_volume(name, |medium, label| work(medium, label, follows));
                    let failed = done.err().map(|error| trouble::of_depot(&error));
                    failures.extend(failed.map(|why| Failure::of_volume(name, why)));
                }
                failures
            }
            Self::Drive(address) => {
                let done = depot::open_drive(address)
                    .map_err(|error| trouble::of_opening(&error))
                    .and_then(|drive| {
                        depot::with_drive(drive, |medium, label| work(medium, label, false))
                            .map_err(|error| trouble::of_volume(&error))
                    });
                let what = address.to_string().into_bytes();
                done.err().map(|why| Failure { what, why }).into_iter().collect()
            }
        }
    }

    fn warnings(&mut self) -> Vec<String> {
        match self {
            Self::Volumes { depot, .. } => trouble::warnings(depot),
            Self::Drive(_) => Vec::new(),
        }
    }
}

/// Extracts the selected objects. Returns the failures that do not concern a single piece.
fn extract(
    request: &mut Request,
    extraction: &mut Extraction<'_>,
    progress: &Progress,
) -> Vec<Failure> {
    let Request { source, selection } = request;
    let (mut names, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    let (mut failures, mut expected) = (Vec::new(), 0);
    let mut work = |medium: &mut dyn Medium, label: &Label, follows: bool| {
        let mut reader = VolumeReader::open(medium, None)?;
        let listing = reader.list()?;
        failures.extend(trouble::unreadable(&label.name, &listing.damaged));
        let pieces = manual::pieces(&listing);
        let chosen = selection.choose(&pieces, follows);
        expected += chosen.iter().map(|piece| piece.part.bytes).sum::<u64>();
        if !follows {
            // The total is known only after the last volume was listed.
            progress.bytes_expected.store(expected, Relaxed);
        }
        for piece in chosen {
            names.insert(piece.name.clone());
            numbers.insert(piece.part.object_sequence);
            extraction.take(&mut reader, piece)?;
        }
        Ok(())
    };
    let of_volumes = source.for_each_volume(&mut work);
    let missing = selection.names.iter().filter(|name| !names.contains(*name));
    failures.extend(missing.map(|name| Failure::new(name, "there is no object with this name")));
    let missing = selection.numbers.iter().filter(|number| !numbers.contains(*number));
    failures.extend(missing.map(|number| {
        Failure::new(format!("number {number}").as_bytes(), "there is no object with this number")
    }));
    failures.extend(of_volumes);
    failures
}

fn report(
    files: &[ExtractedFile],
    failures: &[Failure],
    warnings: &[String],
    context: &mut Context,
) -> u8 {
    if context.output.is_json() {
        let objects = files.iter().map(object_document);
        context.output.json(&ReadDocument {
            objects: objects.collect(),
            read: files.len(),
            failed: failures.len(),
            failures: trouble::documents(failures),
            warnings,
        });
    } else if !context.global.quiet {
        let bytes = files.iter().map(|file| file.bytes).sum();
        let count = quantity::count(files.len() as u64);
        let bytes = quantity::bytes_with_unit(bytes);
        context.output.text(&format!("Objects read: {count}, {bytes}.\n"));
    }
    trouble::tell(failures, warnings, files.len(), context)
}

fn object_document(file: &ExtractedFile) -> ObjectDocument<'_> {
    ObjectDocument { name: JsonPath(&file.name), bytes: file.bytes }
}

/// A piece, and the volume that it lies on.
struct Row {
    volume: VolumeName,
    piece: Piece,
}

fn list(request: &mut Request, context: &mut Context) -> u8 {
    let Request { source, selection } = request;
    let (mut rows, mut failures) = (Vec::new(), Vec::new());
    let mut work = |medium: &mut dyn Medium, label: &Label, _: bool| {
        let listing = VolumeReader::open(medium, None)?.list()?;
        failures.extend(trouble::unreadable(&label.name, &listing.damaged));
        let pieces = manual::pieces(&listing).into_iter();
        let pieces = pieces.filter(|piece| selection.lists(piece));
        rows.extend(pieces.map(|piece| Row { volume: label.name.clone(), piece }));
        Ok(())
    };
    let of_volumes = source.for_each_volume(&mut work);
    failures.extend(of_volumes);
    if context.output.is_json() {
        rows.iter().for_each(|row| context.output.json(&document(row)));
    } else if !rows.is_empty() {
        context.output.text(&text(&rows));
    } else if failures.is_empty() {
        context.output.note("The volumes hold no such object.");
    }
    trouble::tell(&failures, &source.warnings(), rows.len(), context)
}

fn document(Row { volume, piece }: &Row) -> PieceDocument<'_> {
    PieceDocument {
        volume: volume.as_str(),
        number: piece.part.object_sequence,
        name: piece.is_named.then_some(JsonPath(&piece.name)),
        object: piece.object(),
        position: piece.part.position,
        offset: piece.part.offset,
        bytes: piece.part.bytes,
        state: piece.state(),
    }
}

fn text(rows: &[Row]) -> String {
    let columns = [
        ("Volume", Align::Left),
        ("Number", Align::Right),
        ("Position", Align::Right),
        ("Bytes", Align::Right),
        ("Part", Align::Left),
        ("Name", Align::Left),
    ];
    let row = |Row { volume, piece }: &Row| {
        [
            volume.to_string(),
            piece.part.object_sequence.to_string(),
            quantity::count(piece.part.position),
            quantity::count(piece.part.bytes),
            piece.state().to_owned(),
            model::escaped(&piece.name),
        ]
    };
    table::render(columns, &rows.iter().map(row).collect::<Vec<_>>())
}
