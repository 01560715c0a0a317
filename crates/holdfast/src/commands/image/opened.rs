//! Opening the file system in an image, for the commands that look into it.

use std::ffi::OsStr;

use image::{OpenError, OpenImage, PartName};
use model::ServerTime;

use super::named;
use crate::context::Context;
use crate::error::CommandError;
use crate::waiter::LinkArgs;

/// Opens the file system in the image `name` of the time `at`, or in one of its parts.
pub(super) fn open(
    context: &Context,
    link: &LinkArgs,
    name: &OsStr,
    at: Option<ServerTime>,
    part: Option<&PartName>,
) -> Result<OpenImage, CommandError> {
    let client = context.waiter(link)?.client()?;
    let image = named::find(&client, name, at)?;
    named::note_mixture(&image, &context.output);
    let opened = OpenImage::open(client.image_reader(image), part);
    let opened = opened.map_err(|error| match error {
        OpenError::Server(error) => CommandError::from(error),
        other => CommandError::new(other.to_string()),
    })?;
    if opened.leaves_out_journal {
        context.output.note(
            "the file system was in use when the image was made; the last changes, which are only \
             in its journal, are not seen",
        );
    }
    Ok(opened)
}
