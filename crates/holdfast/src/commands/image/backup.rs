//! `holdfast image backup`: makes images of disks.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use client::{
    ClientError, CompressionChoice, ErrorKind, ImageOptions, ImageReport, ImageStillness, Standing,
    Tuning,
};
use image::{Source, SourceOptions, StillnessChoice};
use model::escaped;

use crate::commands::{baseline, status};
use crate::context::Context;
use crate::error::{CommandError, DONE, FAILED, NOT_DONE, WARNED};
use crate::report::{self, ImageReportDocument};
use crate::waiter::{LinkArgs, Waiter};
use crate::{output, settings, values};

const COMMAND: &str = "holdfast image backup";

/// Make images of disks: send the blocks that are in use and have changed
///
/// A SOURCE is a block device, the mount point of a block device, a file with a disk (raw, or
/// qcow2 and others by qemu-nbd), or the address of an NBD export. Several are read side by side.
/// An image that is interrupted is not kept, but what was sent is not sent again.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast image backup /dev/sda
  holdfast image backup /dev/vg0/db --freeze 'systemctl stop db' --thaw 'systemctl start db'
  holdfast image backup /var/lib/machines/web.qcow2 --rate 50M
  holdfast image backup nbd://backup1/disk0")]
pub(crate) struct Args {
    /// Block devices, mount points, files, or addresses such as nbd://HOST/EXPORT
    #[arg(value_name = "SOURCE", required = true)]
    sources: Vec<PathBuf>,
    /// Name of the image [default: the path of the device or file]
    #[arg(long, value_name = "NAME")]
    name: Option<OsString>,
    /// Read the disk as it is at one moment: auto (a snapshot if one can be made), off, lvm
    /// (snapshot of the logical volume), or reflink (of a file) [default: image_snapshot in
    /// client.toml, otherwise auto]
    #[arg(long, value_name = "HOW")]
    snapshot: Option<StillnessChoice>,
    /// Keep the snapshot of a thin volume until the next image, which then reads only what has
    /// changed. The snapshot takes room in the pool for what changes meanwhile
    #[arg(long)]
    keep_snapshot: bool,
    /// Run this shell command before the disk is read or its snapshot is made. Only for one source:
    /// the source that is read first would let the others go on
    #[arg(long, value_name = "COMMAND")]
    freeze: Option<String>,
    /// Run this shell command after the disk was read or its snapshot was made, even after a
    /// failure
    #[arg(long, value_name = "COMMAND")]
    thaw: Option<String>,
    /// Read blocks that the file system does not use, too
    #[arg(long)]
    all_blocks: bool,
    /// Format of a file, as qemu calls it: raw, qcow2, vmdk ... [default: recognised]
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,
    /// Read only what has changed by this dirty bitmap of a qcow2 file or an NBD export, which must
    /// have been kept since the last image
    #[arg(long, value_name = "NAME")]
    bitmap: Option<String>,
    /// Go on after an error of the disk. What cannot be read has zeros in the image
    #[arg(long)]
    skip_errors: bool,
    /// Maximum number of bytes to read in a second from each source, as in 50M
    #[arg(long, value_name = "RATE", value_parser = values::size)]
    rate: Option<u64>,
    /// Strength of compression: standard or threads, auto, gpu, none, or a level of zstd from -7 to
    /// 19
    #[arg(long, value_name = "HOW", allow_hyphen_values = true)]
    compression: Option<CompressionChoice>,
    #[command(flatten)]
    link: LinkArgs,
}

/// An image that was made, or the reason why it was not.
struct Outcome {
    name: Vec<u8>,
    made: Result<ImageReport, CommandError>,
    warnings: Vec<String>,
}

pub(super) fn run(args: Args, context: &mut Context) -> Result<u8, CommandError> {
    check(&args)?;
    let standing = context.standing(&args.link)?;
    // The node's settings are for all its disks, the command line is for these.
    let asks_to_keep = args.keep_snapshot;
    let args = settled(args, &standing)?;
    let waiter = context.watching_waiter(&args.link)?;
    let progress = context.progress()?;
    let meter = context.meter(&progress);
    let outcomes: Vec<Outcome> = std::thread::scope(|threads| {
        let started: Vec<_> = (0..)
            .zip(&args.sources)
            .map(|(number, source)| {
                let (waiter, args) = (&waiter, &args);
                threads.spawn(move || back_up(waiter, args, asks_to_keep, number, source))
            })
            .collect();
        started
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    drop(meter);
    finish(outcomes, predicted_source(&args), context)
}

/// Returns the source if a baseline predicts its image: a disk whose used blocks are read, alone,
/// and as fast as they come.
fn predicted_source(args: &Args) -> Option<&Path> {
    let knows_changes = args.bitmap.is_some() || args.keep_snapshot;
    let is_limited = args.rate.is_some() || args.link.limits.is_given();
    let is_plain = !is_limited && !args.all_blocks && !knows_changes;
    match args.sources.as_slice() {
        [source] if is_plain => Some(source.as_path()),
        _ => None,
    }
}

/// Returns the command line with the node's settings in place of options that it does not give, and
/// of those that an option set forces.
fn settled(args: Args, standing: &Standing) -> Result<Args, CommandError> {
    let text =
        |name: &str, given| settings::text(standing, name, given, |own| Some(own.to_owned()));
    let is_on = |name: &str, given: bool| {
        let chosen = settings::text(standing, name, given.then_some(true), settings::yes_or_no)?;
        Ok::<bool, CommandError>(chosen.unwrap_or(false))
    };
    let rate = |own: &str| own.parse().ok();
    let snapshot = |own: &str| own.parse().ok();
    // Commands of the node's settings are for one disk, as those of the command line are.
    let is_alone = args.sources.len() == 1;
    let freeze = text("freeze", args.freeze)?.filter(|_| is_alone);
    let thaw = text("thaw", args.thaw)?.filter(|_| is_alone);
    let snapshot = settings::text(standing, "image-snapshot", args.snapshot, snapshot)?;
    check_kept(args.keep_snapshot, snapshot)?;
    Ok(Args {
        snapshot,
        freeze,
        thaw,
        keep_snapshot: is_on("keep-snapshot", args.keep_snapshot)?,
        all_blocks: is_on("all-blocks", args.all_blocks)?,
        skip_errors: is_on("skip-errors", args.skip_errors)?,
        rate: settings::text(standing, "image-rate", args.rate, rate)?,
        ..args
    })
}

fn check(args: &Args) -> Result<(), CommandError> {
    if args.name.is_some() && args.sources.len() > 1 {
        return Err(CommandError::usage("--name names the image of one source", COMMAND));
    }
    check_kept(args.keep_snapshot, args.snapshot)?;
    let has_command = args.freeze.is_some() || args.thaw.is_some();
    if has_command && args.sources.len() > 1 {
        // The first source to end would thaw the others.
        return Err(CommandError::usage("--freeze and --thaw are for one source", COMMAND));
    }
    Ok(())
}

/// Fails if a snapshot is to be kept and `choice` makes none of LVM.
fn check_kept(keeps: bool, choice: Option<StillnessChoice>) -> Result<(), CommandError> {
    if keeps && matches!(choice, Some(StillnessChoice::Off | StillnessChoice::Reflink)) {
        let message = "--keep-snapshot needs a snapshot of LVM: leave out --snapshot, or use lvm";
        return Err(CommandError::usage(message, COMMAND));
    }
    Ok(())
}

fn back_up(waiter: &Waiter, args: &Args, asks_to_keep: bool, number: u32, path: &Path) -> Outcome {
    let options = SourceOptions {
        snapshot: args.snapshot.unwrap_or_default(),
        freeze: args.freeze.clone(),
        thaw: args.thaw.clone(),
        all_blocks: args.all_blocks,
        format: args.format.clone(),
        bitmap: args.bitmap.clone(),
        keeps_snapshot: args.keep_snapshot,
        number,
    };
    let mut warnings = Vec::new();
    let source = match open(path, &options) {
        Ok(source) => source,
        Err(error) => {
            return Outcome { name: crate::path::bytes(path), made: Err(error), warnings };
        }
    };
    let name = match &args.name {
        Some(name) => name.as_bytes().to_vec(),
        None => source.name().to_vec(),
    };
    if source.may_change() {
        output::say(&format!(
            "{} may change while it is read, so its image may be a mixture of several moments; a \
             snapshot or --freeze prevents this",
            escaped(&name)
        ));
    }
    if asks_to_keep && !source.keeps_snapshot() {
        output::say(&format!(
            "{} leaves no snapshot, and the next image reads everything: only a snapshot of a thin \
             volume of LVM stays",
            escaped(&name)
        ));
    }
    if let Some(reason) = source.doubt() {
        output::say(&format!(
            "{} is read as a whole, because nobody knows what has changed: {reason}",
            escaped(&name)
        ));
    }
    let options = ImageOptions {
        name: name.clone(),
        skips_errors: args.skip_errors,
        bytes_per_sec: args.rate,
        tuning: Tuning { compression: args.compression, ..Tuning::default() },
    };
    let made = waiter
        .run(|client, progress| client.back_up_image(&options, &source, progress).map_err(unmade));
    warnings.extend(source.end(made.is_ok()));
    if let Ok(report) = &made
        && report.facts.stillness == ImageStillness::Fuzzy
    {
        warnings.push(format!(
            "{} changed, or may have changed, while it was read: its image is a mixture of several \
             moments",
            escaped(&name)
        ));
    }
    Outcome { name, made, warnings }
}

/// Says what an interruption leaves.
fn unmade(error: ClientError) -> CommandError {
    let is_interrupted = error.kind == ErrorKind::Interrupted;
    let mut error = CommandError::from(error);
    if is_interrupted {
        let message = "interrupted; there is no new image, and the next run does not send again \
                       what the server has";
        message.clone_into(&mut error.message);
    }
    error
}

fn open(path: &Path, options: &SourceOptions) -> Result<Source, CommandError> {
    let is_address = path.as_os_str().as_bytes().windows(3).any(|part| part == b"://");
    let path = if is_address { Ok(path.to_owned()) } else { std::path::absolute(path) };
    let path = path.map_err(|error| CommandError::new(error.to_string()))?;
    let source = Source::open(&path, options);
    let source = source.map_err(|error| CommandError::new(error.to_string()))?;
    if source.lacks_bitmap(options) {
        let path = path.display();
        return Err(CommandError::new(format!("{path} does not have this dirty bitmap")));
    }
    Ok(source)
}

/// Shows what was made. One source that fails does not hide the others; the only one does.
fn finish(
    outcomes: Vec<Outcome>,
    predicted: Option<&Path>,
    context: &mut Context,
) -> Result<u8, CommandError> {
    let is_alone = outcomes.len() == 1;
    let mut code = DONE;
    for Outcome { name, made, warnings } in outcomes {
        match made {
            Err(error) if is_alone => {
                warnings.iter().for_each(|warning| context.output.note(warning));
                return Err(error);
            }
            Err(error) => {
                let hint = error.hint.map(|hint| format!("; {hint}")).unwrap_or_default();
                output::say(&format!("no image of {}: {}{hint}", escaped(&name), error.message));
                code = code.max(NOT_DONE);
            }
            Ok(mut report) => {
                report.backup.warnings.extend(warnings);
                code = code.max(exit_code(&report));
                show(&name, &report, context);
                status::keep_last("image backup", &report.backup, context);
                if let Some(source) = predicted {
                    baseline::compare_image(source, &report, context);
                }
            }
        }
    }
    Ok(code)
}

/// Returns 0 if the image is whole, 4 if some of the disk could not be read, 8 for warnings.
fn exit_code(report: &ImageReport) -> u8 {
    match (report.backup.warnings.is_empty(), report.facts.unreadable.is_empty()) {
        (false, _) => WARNED,
        (true, false) => FAILED,
        (true, true) => DONE,
    }
}

fn show(name: &[u8], report: &ImageReport, context: &mut Context) {
    if context.output.is_json() {
        let code = exit_code(report);
        context.output.json(&ImageReportDocument::new(name, report, code));
        report.backup.warnings.iter().for_each(|warning| context.output.note(warning));
        return;
    }
    let text = report::image_text(name, report);
    let troubles = report::troubles(&[], 0, &report.backup.warnings, 0);
    context.report(&text, &troubles);
}
