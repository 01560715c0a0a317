//! `holdfast tape write`: files as objects, on one volume after the other.
//!
//! A file counts as written when a filemark is behind it: what a volume that ended, or a drive that
//! failed, has not confirmed is written again on the next one.

mod session;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

use client::Phase;
use serde::Serialize;

use self::session::{Session, Used, WrittenFile};
use super::VolumeList;
use super::place::Opened;
use super::site::Site;
use super::trouble::{self, Failure, FailureDocument};
use crate::commands::Context;
use crate::error::CommandError;
use crate::path::JsonPath;
use crate::quantity;
use crate::table::{self, Align};

/// Write files as objects to volumes, behind what is on them
///
/// An object has the content of a file and the last part of its path as its name; of its owner,
/// mode and times nothing is kept: write archives (tar) where they matter. What does not fit on a
/// volume goes on on the next one that is named.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast tape write vault A00001L8 /srv/export/letters.tar
  holdfast tape write /srv/tapes T001,T002 /srv/export/*.tar")]
pub(super) struct Args {
    /// The library, a folder, or addresses
    #[arg(value_name = "LIB")]
    library: OsString,
    /// The volumes, with commas between them, in the order in which they are filled
    #[arg(value_name = "VOLUME[,VOLUME...]", value_parser = super::volume_list)]
    volumes: VolumeList,
    /// The files
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Make what was written durable after so much; on tape each time costs seconds
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "4G")]
    sync: u64,
}

fn size(text: &str) -> Result<u64, String> {
    quantity::parse_bytes(text, 1)
}

/// `tape write --json`.
#[derive(Serialize)]
struct WriteDocument<'a> {
    volumes: Vec<UsedDocument<'a>>,
    objects: Vec<ObjectDocument<'a>>,
    written: usize,
    failed: usize,
    failures: Vec<FailureDocument<'a>>,
    warnings: &'a [String],
}

#[derive(Serialize)]
struct UsedDocument<'a> {
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
    /// On which it lies, in order.
    volumes: Vec<&'a str>,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<u8, CommandError> {
    let progress = context.progress()?;
    let mut session = Session::new(&args.files, args.sync, &progress);
    let mut opened = Opened::open(&Site::of(&args.library, context)?)?;
    let meter = context.meter(&progress);
    progress.enter(Phase::Running);
    for name in &args.volumes.0 {
        if session.is_done() || progress.is_stopped() {
            break;
        }
        progress.bytes.store(session.written_bytes(), Relaxed);
        let done = opened.with_volume(name, |medium, label| session.fill(medium, label));
        let failed = done.err().map(|why| Failure::of_volume(name, why));
        session.failures.extend(failed);
    }
    drop(meter);
    session.finish();
    session.warnings.append(&mut opened.warnings);
    Ok(report(&session, context))
}

fn report(session: &Session<'_>, context: &mut Context) -> u8 {
    if context.output.is_json() {
        context.output.json(&document(session));
    } else if !context.global.quiet && !session.used.is_empty() {
        context.output.text(&text(&session.used));
    }
    let done = session.written.len();
    trouble::tell(&session.failures, &session.warnings, done, context)
}

fn document<'a>(session: &'a Session<'_>) -> WriteDocument<'a> {
    let used = |used: &'a Used| UsedDocument {
        volume: used.volume.as_str(),
        objects: used.objects,
        bytes: used.bytes,
        is_full: used.is_full,
    };
    let object = |file: &'a WrittenFile| ObjectDocument {
        name: JsonPath(file.name.as_bytes()),
        path: JsonPath(file.path.as_os_str().as_encoded_bytes()),
        bytes: file.bytes,
        volumes: file.volumes.iter().map(|volume| volume.as_str()).collect(),
    };
    WriteDocument {
        volumes: session.used.iter().map(used).collect(),
        objects: session.written.iter().map(object).collect(),
        written: session.written.len(),
        failed: session.failures.len(),
        failures: trouble::documents(&session.failures),
        warnings: &session.warnings,
    }
}

fn text(used: &[Used]) -> String {
    let columns = [
        ("Volume", Align::Left),
        ("Objects", Align::Right),
        ("Written", Align::Right),
        ("State", Align::Left),
    ];
    let row = |used: &Used| {
        [
            used.volume.to_string(),
            quantity::count(used.objects),
            quantity::bytes_with_unit(used.bytes),
            if used.is_full { "full" } else { "has room" }.to_owned(),
        ]
    };
    table::render(columns, &used.iter().map(row).collect::<Vec<_>>())
}
