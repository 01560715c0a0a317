//! `holdfast image delete`: deletes images of this node at the server.

use std::ffi::OsString;

use client::Image;
use model::{ServerTime, escaped};

use super::named;
use crate::commands::delete;
use crate::context::Context;
use crate::error::CommandError;
use crate::waiter::LinkArgs;
use crate::{moment, quantity};

/// Delete images at the server
///
/// The newest image is deleted, unless --at or --all is given. Other images keep everything that
/// they need. The node must have the right to delete, which the administrator gives. A deletion can
/// be undone for some days; the next expiration and reclamation after them free the space.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast image delete /dev/sda --at '2026-11-01' --confirm
  holdfast image delete /dev/sdb --all --confirm")]
pub(crate) struct Args {
    /// Name of the image, as 'holdfast image list' shows it
    #[arg(value_name = "IMAGE")]
    name: OsString,
    /// Delete the newest image that is not newer than this time
    #[arg(long, value_name = "TIME", value_parser = moment::parse, conflicts_with = "all")]
    at: Option<ServerTime>,
    /// Delete all images of this name
    #[arg(long)]
    all: bool,
    /// Delete, instead of saying what would be deleted
    #[arg(long)]
    confirm: bool,
    #[command(flatten)]
    link: LinkArgs,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<u8, CommandError> {
    let client = context.waiter(&args.link)?.client()?;
    let found = named::find(&client, &args.name, args.at)?;
    let images = if args.all { client.images(Some(&found.name))? } else { vec![found] };
    let deletion = client.delete_images(&images, !args.confirm).map_err(|error| {
        let error = CommandError::from(error);
        let look = "'holdfast image list' shows the images that are left";
        if args.confirm { error.of_order(look) } else { error }
    })?;
    if !args.confirm {
        return Err(CommandError::new(unconfirmed(&images)));
    }
    Ok(delete::report(context, (&deletion, None), "image", "There is no such image any more.\n"))
}

/// Says which images the user has not confirmed.
fn unconfirmed(images: &[Image]) -> String {
    let count = quantity::counted(images.len() as u64, "image");
    let name = images.first().map(|image| escaped(&image.name)).unwrap_or_default();
    let taken: Vec<String> = images.iter().map(|image| moment::shown(image.taken)).collect();
    format!(
        "{count} of {name} would be deleted, taken {}; if that is meant, add --confirm",
        taken.join(", ")
    )
}
