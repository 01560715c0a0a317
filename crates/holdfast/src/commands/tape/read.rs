//! `holdfast tape read`: what is on volumes, listed and extracted without any catalogue.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use ::tape::medium::Medium;
use ::tape::transport::Address;
use ::tape::volume::{VolumeError, VolumeReader};
use client::{Phase, Progress};
use format::volume::{Label, VolumeName};
use serde::Serialize;
use sys::Dir;

use super::objects::{self, Extraction, Piece, STOPPED, Wanted};
use super::place::{self, Opened};
use super::site::{self, Site};
use super::trouble::{self, Failure, FailureDocument};
use crate::commands::Context;
use crate::error::CommandError;
use crate::path::JsonPath;
use crate::table::{self, Align};
use crate::{path, quantity};

/// List what is on volumes, or extract it, without any catalogue
///
/// Every block is verified. Of several objects of one name the newest is extracted; --number names
/// older ones. Files that are there already are left as they are. An object that goes on on another
/// volume needs both, in their order: T001,T002.
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
    /// The library, a folder, or addresses; the volumes; the objects, all unless named. After
    /// --drive the objects alone
    #[arg(value_name = "LIB VOLUME NAME")]
    words: Vec<OsString>,
    /// Read the cartridge that is in this drive: /dev/sgN or iscsi://HOST[:PORT]/TARGET/LUN
    #[arg(long, value_name = "ADDR", value_parser = site::address)]
    drive: Option<Address>,
    /// List the objects and write no files
    #[arg(long, conflicts_with = "to")]
    list: bool,
    /// Write the files into this folder [default: the working directory]
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Take the object with this number on the volume; may be given several times
    #[arg(long = "number", value_name = "N")]
    numbers: Vec<u32>,
}

/// What the words mean.
struct Request {
    source: Source,
    wanted: Wanted,
}

enum Source {
    Drive(Address),
    Volumes { opened: Box<Opened>, names: Vec<VolumeName> },
}

/// One object of `tape read --list --json`, one a line.
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
    let request = request(args, context)?;
    if args.list {
        return list(request, context);
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
    let mut extraction = Extraction::new(Arc::new(folder), &progress);
    let (seen, warnings) = extract(request, &mut extraction, &progress);
    drop(meter);
    extraction.finish();
    extraction.failures.extend(seen);
    Ok(report(&extraction, &warnings, context))
}

fn request(args: &Args, context: &Context) -> Result<Request, CommandError> {
    let (source, names) = match (&args.drive, args.words.as_slice()) {
        (Some(drive), names) => (Source::Drive(drive.clone()), names),
        (None, [library, volumes, names @ ..]) => {
            let volumes = volumes.to_string_lossy();
            let volumes = super::volume_list(&volumes)
                .map_err(|why| CommandError::new(format!("volume {volumes}: {why}")))?;
            let opened = Opened::open(&Site::of(library, context)?)?;
            (Source::Volumes { opened: Box::new(opened), names: volumes.0 }, names)
        }
        (None, _) => {
            let message = "name a library and a volume, or a --drive";
            return Err(CommandError::usage(message, "holdfast tape read"));
        }
    };
    let names = names.iter().map(|name| name.as_bytes().to_vec()).collect();
    let numbers = args.numbers.iter().copied().collect();
    Ok(Request { source, wanted: Wanted { names, numbers } })
}

type Work<'a> = dyn FnMut(&mut dyn Medium, &Label, bool) -> Result<(), VolumeError> + 'a;

/// Has `work` done on each volume; it is told whether others follow. Returns what failed as a
/// whole, and warnings.
fn for_each_volume(source: Source, work: &mut Work<'_>) -> (Vec<Failure>, Vec<String>) {
    let (mut opened, names) = match source {
        Source::Volumes { opened, names } => (opened, names),
        Source::Drive(address) => {
            let done = place::with_drive(&address, |medium, label| work(medium, label, false));
            let failed = done.err().map(|why| Failure { what: address.to_string().into(), why });
            return (failed.into_iter().collect(), Vec::new());
        }
    };
    let mut failures = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let follows = index + 1 < names.len();
        let done = opened.with_volume(name, |medium, label| work(medium, label, follows));
        failures.extend(done.err().map(|why| Failure::of_volume(name, why)));
    }
    (failures, opened.warnings)
}

fn unreadable(label: &Label, positions: &[u64]) -> Vec<Failure> {
    let said = |position: &u64| {
        let why = format!("what lies at position {position} cannot be read");
        Failure::new(label.name.as_str().as_bytes(), why)
    };
    positions.iter().map(said).collect()
}

/// Extracts what is wanted; returns what else has failed, and warnings.
fn extract(
    request: Request,
    extraction: &mut Extraction<'_>,
    progress: &Progress,
) -> (Vec<Failure>, Vec<String>) {
    let Request { source, wanted } = request;
    let (mut found, mut seen): (BTreeSet<Vec<u8>>, _) = (BTreeSet::new(), Vec::new());
    let (mut found_numbers, mut expected) = (BTreeSet::new(), 0);
    let mut work = |medium: &mut dyn Medium, label: &Label, follows: bool| {
        let mut reader = VolumeReader::open(medium, None)?;
        let listing = reader.list()?;
        seen.extend(unreadable(label, &listing.damaged));
        let pieces = objects::pieces(&listing);
        let chosen = wanted.choose(&pieces, follows);
        expected += chosen.iter().map(|piece| piece.part.bytes).sum::<u64>();
        if !follows {
            // Before the last volume is listed nobody knows how much there will be.
            progress.bytes_expected.store(expected, Relaxed);
        }
        for piece in chosen {
            found.insert(piece.name.clone());
            found_numbers.insert(piece.part.object_sequence);
            if progress.is_stopped() {
                seen.push(Failure::new(&piece.name, STOPPED));
            } else {
                extraction.take(&mut reader, piece)?;
            }
        }
        Ok(())
    };
    let (failed, warnings) = for_each_volume(source, &mut work);
    let missing = wanted.names.iter().filter(|name| !found.contains(*name));
    seen.extend(missing.map(|name| Failure::new(name, "there is no object of this name")));
    let missing = wanted.numbers.iter().filter(|number| !found_numbers.contains(*number));
    seen.extend(missing.map(|number| {
        Failure::new(format!("number {number}").as_bytes(), "there is no object of this number")
    }));
    seen.extend(failed);
    (seen, warnings)
}

fn report(extraction: &Extraction<'_>, warnings: &[String], context: &mut Context) -> u8 {
    let Extraction { done, failures, .. } = extraction;
    if context.output.is_json() {
        let document = |object: &objects::Extracted| (object.name.clone(), object.bytes);
        let objects: Vec<_> = done.iter().map(document).collect();
        let objects = objects
            .iter()
            .map(|(name, bytes)| ObjectDocument { name: JsonPath(name), bytes: *bytes });
        context.output.json(&ReadDocument {
            objects: objects.collect(),
            read: done.len(),
            failed: failures.len(),
            failures: trouble::documents(failures),
            warnings,
        });
    } else if !context.global.quiet {
        let bytes = done.iter().map(|object| object.bytes).sum();
        let count = quantity::count(done.len() as u64);
        let bytes = quantity::bytes_with_unit(bytes);
        context.output.text(&format!("Objects read: {count}, {bytes}.\n"));
    }
    trouble::tell(failures, warnings, done.len(), context)
}

fn list(request: Request, context: &mut Context) -> Result<u8, CommandError> {
    let Request { source, wanted } = request;
    let (mut rows, mut seen) = (Vec::new(), Vec::new());
    let is_asked = |piece: &Piece| {
        let (names, numbers) = (&wanted.names, &wanted.numbers);
        (names.is_empty() || names.contains(&piece.name))
            && (numbers.is_empty() || numbers.contains(&piece.part.object_sequence))
    };
    let mut work = |medium: &mut dyn Medium, label: &Label, _: bool| {
        let listing = VolumeReader::open(medium, None)?.list()?;
        seen.extend(unreadable(label, &listing.damaged));
        let pieces = objects::pieces(&listing).into_iter().filter(&is_asked);
        rows.extend(pieces.map(|piece| (label.name.clone(), piece)));
        Ok(())
    };
    let (failed, warnings) = for_each_volume(source, &mut work);
    seen.extend(failed);
    if context.output.is_json() {
        rows.iter()
            .for_each(|(volume, piece)| context.output.json(&document(volume, piece)));
    } else if !rows.is_empty() {
        context.output.text(&text(&rows));
    } else if seen.is_empty() {
        context.output.note("There is no such object on it.");
    }
    Ok(trouble::tell(&seen, &warnings, rows.len(), context))
}

fn document<'a>(volume: &'a VolumeName, piece: &'a Piece) -> PieceDocument<'a> {
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

fn text(rows: &[(VolumeName, Piece)]) -> String {
    let columns = [
        ("Volume", Align::Left),
        ("Number", Align::Right),
        ("Position", Align::Right),
        ("Bytes", Align::Right),
        ("Part", Align::Left),
        ("Name", Align::Left),
    ];
    let row = |(volume, piece): &(VolumeName, Piece)| {
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
