//! `holdfast image verify`: reads and checks an image at the server.

use std::ffi::OsString;
use std::path::PathBuf;

use client::{ImageRestoration, ImageTarget};
use image::{Comparison, Differences};
use model::{ServerTime, escaped};

use super::named;
use crate::context::Context;
use crate::error::{CommandError, FAILED};
use crate::report::{self, ImageRestoreDocument};
use crate::waiter::LinkArgs;
use crate::{moment, quantity};

/// Read and check everything that a restore of an image would read, and write nothing
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast image verify /dev/sda
  holdfast image verify /dev/sda --against /dev/sdb")]
pub(crate) struct Args {
    /// Name of the image, as 'holdfast image list' shows it
    #[arg(value_name = "IMAGE")]
    name: OsString,
    /// Check the newest image that is not newer than this time
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    at: Option<ServerTime>,
    /// Compare the image with a disk or a file, too. If the image leaves out blocks that were not
    /// used, blocks of zeros are not compared
    #[arg(long, value_name = "TARGET")]
    against: Option<PathBuf>,
    #[command(flatten)]
    link: LinkArgs,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<u8, CommandError> {
    let waiter = context.watching_waiter(&args.link)?;
    let image = waiter.run(|client, _| named::find(client, &args.name, args.at))?;
    let against = args.against.as_deref();
    let comparison = against.map(|path| Comparison::with(path, &image.facts)).transpose();
    let comparison = comparison.map_err(|error| CommandError::new(error.to_string()))?;
    let progress = context.progress()?;
    let meter = context.meter(&progress);
    let target = comparison.as_ref().map(|comparison| comparison as &dyn ImageTarget);
    let restoration = ImageRestoration::default();
    let checked =
        waiter.run(|client, progress| client.restore_image(&image, target, &restoration, progress));
    drop(meter);
    let report = checked?;
    let differences = comparison.map(Comparison::differences);
    if context.output.is_json() {
        let mut document = ImageRestoreDocument::new("image verify", &image, &report);
        if let Some(found) = &differences {
            document.set_differences(found.bytes, &found.ranges());
        }
        context.output.json(&document);
    } else {
        let heading = format!("Checked {}", escaped(&image.name));
        context.output.text(&report::image_restore_text(&heading, &image, &report));
        if let (Some(found), Some(against)) = (&differences, &args.against) {
            context.output.text(&compared_text(&against.display().to_string(), found));
        }
    }
    let differs = differences.is_some_and(|found| found.bytes > 0);
    Ok(report.exit_code().max(if differs { FAILED } else { 0 }))
}

fn compared_text(against: &str, found: &Differences) -> String {
    if found.bytes == 0 {
        return format!("{against} has the same content.\n");
    }
    let ranges = found.ranges();
    let lines = ranges
        .iter()
        .map(|range| format!("  bytes {} to {}\n", range.start, range.end - 1));
    let lines: String = lines.collect();
    let rest = if found.is_cut { "  and more\n" } else { "" };
    format!("{against} differs in {}:\n{lines}{rest}", quantity::bytes_with_unit(found.bytes))
}
