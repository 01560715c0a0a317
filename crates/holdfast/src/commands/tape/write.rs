//! `holdfast tape write`: files as objects, on one volume after the other.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

use ::tape::depot::Depot;
use ::tape::manual::{OutgoingFile, VolumeUse, WritingReport, WritingSession};
use client::Phase;
use serde::Serialize;

use super::meter::ShownProgress;
use super::site;
use super::trouble::{self, Failure, FailureDocument};
use super::values::VolumeList;
use crate::context::Context;
use crate::error::CommandError;
use crate::path::{self, JsonPath};
use crate::quantity;
use crate::table::{self, Align};
use crate::values;

/// Write files as objects to volumes, after the existing objects
///
/// An object has the content of a file, and the last part of the file's path as its name. The
/// file's owner, mode and times are not kept: write tar archives if they matter. An object that
/// does not fit on a volume continues on the next volume of the list.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast tape write vault A00001L8 /srv/export/letters.tar
  holdfast tape write /srv/tapes T001,T002 /srv/export/*.tar")]
pub(super) struct Args {
    /// The library, a folder, or addresses
    #[arg(value_name = "LIB")]
    library: OsString,
    /// The volumes in the order in which they are filled, separated by commas
    #[arg(value_name = "VOLUME[,VOLUME...]", value_parser = super::values::volume_list)]
    volumes: VolumeList,
    /// The files to write
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Write a filemark, which makes objects durable, after this number of bytes; each costs
    /// seconds on tape
    #[arg(long, value_name = "SIZE", value_parser = values::size, default_value = "4G")]
    sync: u64,
}

/// `tape write --json`.
#[derive(Serialize)]
struct WriteDocument<'a> {
    volumes: Vec<VolumeDocument<'a>>,
    objects: Vec<ObjectDocument<'a>>,
    written: usize,
    failed: usize,
    failures: Vec<FailureDocument<'a>>,
    warnings: &'a [String],
}

#[derive(Serialize)]
struct VolumeDocument<'a> {
    volume: &'a str,
    objects: u64,
    bytes: u64,
    is_full: bool,
}

#[derive(Serialize)]
struct ObjectDocument<'a> {
    name: JsonPath<'a>,
    path: JsonPath<'a>,
    bytes: u64,
    /// Volumes that hold a part of the object, in the order of its parts.
    volumes: Vec<&'a str>,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<u8, CommandError> {
    let progress = context.progress()?;
    let counter = ShownProgress(&progress);
    let mut session = WritingSession::new(&args.files, args.sync, &counter);
    progress.bytes_expected.store(session.waiting_bytes(), Relaxed);
    progress.objects_expected.store(session.waiting_count() as u64, Relaxed);
    let site = site::of_word(&args.library, context)?;
    let mut depot = Depot::open(&site).map_err(|error| trouble::of_opening(&error))?;
    let meter = context.meter(&progress);
    progress.enter(Phase::Running);
    let mut of_volumes = Vec::new();
    for name in &args.volumes.0 {
        if session.is_done() || progress.is_stopped() {
            break;
        }
        progress.bytes.store(session.written_bytes(), Relaxed);
        let done = depot.with_volume(name, |medium, label| session.fill(medium, label));
        let failed = done.err().map(|error| trouble::of_depot(&error));
        of_volumes.extend(failed.map(|why| Failure::of_volume(name, why)));
    }
    drop(meter);
    let report = session.finish();
    let mut failures = of_volumes;
    failures.extend(report.failures.iter().map(Failure::of_file));
    let changed = |path: &PathBuf| {
        format!("{} changed while it was written", model::escaped(&path::bytes(path)))
    };
    let mut warnings: Vec<String> = report.changed.iter().map(changed).collect();
    warnings.extend(trouble::warnings(&mut depot));
    Ok(show(&report, &failures, &warnings, context))
}

fn show(
    report: &WritingReport,
    failures: &[Failure],
    warnings: &[String],
    context: &mut Context,
) -> u8 {
    if context.output.is_json() {
        context.output.json(&document(report, failures, warnings));
    } else if !context.global.quiet && !report.uses.is_empty() {
        context.output.text(&text(&report.uses));
    }
    trouble::tell(failures, warnings, report.written.len(), context)
}

fn document<'a>(
    report: &'a WritingReport,
    failures: &'a [Failure],
    warnings: &'a [String],
) -> WriteDocument<'a> {
    let volume = |used: &'a VolumeUse| VolumeDocument {
        volume: used.volume.as_str(),
        objects: used.objects,
        bytes: used.bytes,
        is_full: used.is_full,
    };
    let object = |file: &'a OutgoingFile| ObjectDocument {
        name: JsonPath(file.name.as_bytes()),
        path: JsonPath(file.path.as_os_str().as_encoded_bytes()),
        bytes: file.bytes,
        volumes: file.volumes.iter().map(|volume| volume.as_str()).collect(),
    };
    WriteDocument {
        volumes: report.uses.iter().map(volume).collect(),
        objects: report.written.iter().map(object).collect(),
        written: report.written.len(),
        failed: failures.len(),
        failures: trouble::documents(failures),
        warnings,
    }
}

fn text(uses: &[VolumeUse]) -> String {
    let columns = [
        ("Volume", Align::Left),
        ("Objects", Align::Right),
        ("Written", Align::Right),
        ("State", Align::Left),
    ];
    let row = |used: &VolumeUse| {
        [
            used.volume.to_string(),
            quantity::count(used.objects),
            quantity::bytes_with_unit(used.bytes),
            if used.is_full { "full" } else { "has room" }.to_owned(),
        ]
    };
    table::render(columns, &uses.iter().map(row).collect::<Vec<_>>())
}
