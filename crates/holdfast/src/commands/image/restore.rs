//! `holdfast image restore`: writes an image to a disk or a file.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use client::{ErrorKind, ImageRestoration};
use image::Target;
use model::{ServerTime, escaped};

use super::named;
use crate::context::Context;
use crate::error::CommandError;
use crate::moment;
use crate::report::{self, ImageRestoreDocument};
use crate::waiter::LinkArgs;

/// Write an image to a disk or a file
///
/// All content of the target is overwritten. A target that is in use or too small is refused.
/// Everything is checked before it is written. Blocks that the image does not have are freed
/// (discarded) or become zeros.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast image restore /dev/sda /dev/sdb --confirm
  holdfast image restore /dev/sda old.img --at '2026-11-01'

A larger disk keeps the table of partitions of the smaller one. For a table of type gpt, 'sgdisk
--move-second-header' then moves its copy to the new end of the disk.")]
pub(crate) struct Args {
    /// Name of the image, as 'holdfast image list' shows it
    #[arg(value_name = "IMAGE")]
    name: OsString,
    /// Block device, or file
    #[arg(value_name = "TARGET")]
    target: PathBuf,
    /// Restore the newest image that is not newer than this time
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    at: Option<ServerTime>,
    /// Overwrite what the target holds
    #[arg(long)]
    confirm: bool,
    #[command(flatten)]
    link: LinkArgs,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<u8, CommandError> {
    let waiter = context.watching_waiter(&args.link)?;
    let image = waiter.run(|client, _| named::find(client, &args.name, args.at))?;
    named::note_mixture(&image, &context.output);
    let bytes = image.facts.layout.bytes;
    let target = Target::open(&args.target, bytes, args.confirm)
        .map_err(|error| CommandError::new(error.to_string()))?;
    let progress = context.progress()?;
    let meter = context.meter(&progress);
    let restoration = ImageRestoration::default();
    let restored = waiter.run(|client, progress| {
        let restored = client.restore_image(&image, Some(&target), &restoration, progress);
        restored.map_err(|error| match error.kind {
            ErrorKind::Interrupted => CommandError::new("interrupted"),
            _ => error.into(),
        })
    });
    drop(meter);
    let report = restored.map_err(|error| unfinished(error, &target, &args.target))?;
    target.finish().map_err(|error| CommandError::new(error.to_string()))?;
    if context.output.is_json() {
        context
            .output
            .json(&ImageRestoreDocument::new("image restore", &image, &report));
    } else {
        let done = format!("{} to {}", escaped(&image.name), args.target.display());
        context.output.text(&report::image_restore_text(
            &format!("Restored {done}"),
            &image,
            &report,
        ));
    }
    Ok(report.exit_code())
}

/// Says what an error leaves of the target.
fn unfinished(mut error: CommandError, target: &Target, path: &Path) -> CommandError {
    if target.keeps_parts() {
        let (why, path) = (&error.message, path.display());
        error.message = format!("{why}; {path} is overwritten in part and of no use");
    }
    error
}
