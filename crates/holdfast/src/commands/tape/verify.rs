//! `holdfast tape verify`: every block of volumes, read and compared with its checksum.

use std::ffi::OsString;
use std::sync::atomic::Ordering::Relaxed;

use ::tape::medium::Medium;
use ::tape::volume::{VolumeError, VolumeReader};
use client::{Phase, Progress};
use format::volume::{Label, VolumeName};
use serde::Serialize;

use super::VolumeList;
use super::objects::{self, STOPPED, Sink};
use super::place::Opened;
use super::site::Site;
use super::trouble::{self, Failure, FailureDocument};
use crate::commands::Context;
use crate::error::CommandError;
use crate::quantity;

/// Read every block of volumes, and compare it with its checksum
///
/// Older objects of a name are read too, and what is on a volume of objects that go on elsewhere.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast tape verify vault A00001L8,A00002L8")]
pub(super) struct Args {
    /// The library, a folder, or addresses
    #[arg(value_name = "LIB")]
    library: OsString,
    /// The volumes, with commas between them
    #[arg(value_name = "VOLUME[,VOLUME...]", value_parser = super::volume_list)]
    volumes: VolumeList,
}

/// `tape verify --json`, one a line.
#[derive(Serialize)]
struct VerifyDocument<'a> {
    volume: &'a str,
    objects: u64,
    bytes: u64,
    failed: usize,
    failures: Vec<FailureDocument<'a>>,
}

/// What was found on a volume.
#[derive(Default)]
struct Verified {
    objects: u64,
    bytes: u64,
    failures: Vec<Failure>,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<u8, CommandError> {
    let mut opened = Opened::open(&Site::of(&args.library, context)?)?;
    let progress = context.progress()?;
    progress.enter(Phase::Running);
    let (mut failures, mut whole) = (Vec::new(), 0);
    for name in &args.volumes.0 {
        let meter = context.meter(&progress);
        let mut verified = Verified::default();
        let done =
            opened.with_volume(name, |medium, label| verified.read_all(medium, label, &progress));
        drop(meter);
        verified.failures.extend(done.err().map(|why| Failure::of_volume(name, why)));
        show(name, &verified, context);
        failures.append(&mut verified.failures);
        whole += verified.objects;
    }
    let whole = usize::try_from(whole).unwrap_or(usize::MAX);
    Ok(trouble::tell(&failures, &opened.warnings, whole, context))
}

impl Verified {
    fn read_all(
        &mut self,
        medium: &mut dyn Medium,
        label: &Label,
        progress: &Progress,
    ) -> Result<(), VolumeError> {
        let mut reader = VolumeReader::open(medium, None)?;
        let listing = reader.list()?;
        for position in &listing.damaged {
            let why = format!("what lies at position {position} cannot be read");
            self.failures.push(Failure::new(label.name.as_str().as_bytes(), why));
        }
        let pieces = objects::pieces(&listing);
        let expected = pieces.iter().map(|piece| piece.part.bytes).sum();
        progress.bytes_expected.store(expected, Relaxed);
        progress.bytes.store(0, Relaxed);
        for piece in &pieces {
            if progress.is_stopped() {
                self.failures.push(Failure::new(&piece.name, STOPPED));
                continue;
            }
            let mut sink = Sink { file: None, offset: 0, progress };
            match reader.read(&piece.part, &mut sink) {
                Ok(()) => {
                    self.objects += 1;
                    self.bytes += piece.part.bytes;
                    progress.objects.fetch_add(1, Relaxed);
                }
                Err(error) => {
                    progress.failed.fetch_add(1, Relaxed);
                    self.failures.push(objects::failure(piece, &error, progress));
                    if objects::ends_the_volume(&error) {
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }
}

fn show(name: &VolumeName, verified: &Verified, context: &mut Context) {
    let Verified { objects, bytes, failures } = verified;
    if context.output.is_json() {
        return context.output.json(&VerifyDocument {
            volume: name.as_str(),
            objects: *objects,
            bytes: *bytes,
            failed: failures.len(),
            failures: trouble::documents(failures),
        });
    }
    if !context.global.quiet {
        let objects = quantity::count(*objects);
        let bytes = quantity::bytes_with_unit(*bytes);
        let failed = quantity::count(failures.len() as u64);
        let whole = format!("{objects} objects or parts of them are whole, {bytes}");
        let text = format!("Volume {name}: {whole}; {failed} failed.\n");
        context.output.text(&text);
    }
}
