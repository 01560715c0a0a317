//! `holdfast tape verify`: every block of volumes, read and compared with its checksum.

use std::ffi::OsString;
use std::sync::atomic::Ordering::Relaxed;

use ::tape::depot::Depot;
use ::tape::manual::Verification;
use client::Phase;
use format::volume::VolumeName;
use serde::Serialize;

use super::meter::ShownProgress;
use super::site;
use super::trouble::{self, Failure, FailureDocument};
use super::values::VolumeList;
use crate::context::Context;
use crate::error::CommandError;
use crate::quantity;

/// Read every block of volumes, and compare it with its checksum
///
/// The command also reads older objects with the same names, and parts of objects that continue on
/// other volumes.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast tape verify vault A00001L8,A00002L8")]
pub(super) struct Args {
    /// The library, a folder, or addresses
    #[arg(value_name = "LIB")]
    library: OsString,
    /// The volumes, separated by commas
    #[arg(value_name = "VOLUME[,VOLUME...]", value_parser = super::values::volume_list)]
    volumes: VolumeList,
}

/// `tape verify --json`, one document per line.
#[derive(Serialize)]
struct VerifyDocument<'a> {
    volume: &'a str,
    objects: u64,
    bytes: u64,
    failed: usize,
    failures: Vec<FailureDocument<'a>>,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<u8, CommandError> {
    let site = site::of_word(&args.library, context)?;
    let mut depot = Depot::open(&site).map_err(|error| trouble::of_opening(&error))?;
    let progress = context.progress()?;
    progress.enter(Phase::Running);
    let (mut failures, mut whole) = (Vec::new(), 0);
    for name in &args.volumes.0 {
        let meter = context.meter(&progress);
        let mut verification = Verification::default();
        let expect = |bytes| {
            progress.bytes_expected.store(bytes, Relaxed);
            progress.bytes.store(0, Relaxed);
        };
        let done = depot.with_volume(name, |medium, _| {
            verification.read_all(medium, &ShownProgress(&progress), expect)
        });
        drop(meter);
        let Verification { objects, bytes, failures: pieces, unreadable } = verification;
        let mut of_volume = trouble::unreadable(name, &unreadable);
        of_volume.extend(pieces.into_iter().map(Failure::of_piece));
        of_volume.extend(done.err().map(|why| Failure::of_volume(name, trouble::of_depot(&why))));
        let report = Report { name, objects, bytes, failures: &of_volume };
        show(&report, context);
        failures.append(&mut of_volume);
        whole += objects;
    }
    let whole = usize::try_from(whole).unwrap_or(usize::MAX);
    Ok(trouble::tell(&failures, &trouble::warnings(&mut depot), whole, context))
}

/// Findings on one volume.
struct Report<'a> {
    name: &'a VolumeName,
    objects: u64,
    bytes: u64,
    failures: &'a [Failure],
}

fn show(report: &Report<'_>, context: &mut Context) {
    let Report { name, objects, bytes, failures } = *report;
    if context.output.is_json() {
        return context.output.json(&VerifyDocument {
            volume: name.as_str(),
            objects,
            bytes,
            failed: failures.len(),
            failures: trouble::documents(failures),
        });
    }
    if !context.global.quiet {
        let count = quantity::count(objects);
        let bytes = quantity::bytes_with_unit(bytes);
        let failed = quantity::count(failures.len() as u64);
        let whole = if objects == 1 {
            format!("{count} object or part of an object is whole, {bytes}")
        } else {
            format!("{count} objects or parts of objects are whole, {bytes}")
        };
        context.output.text(&format!("Volume {name}: {whole}; {failed} failed.\n"));
    }
}
