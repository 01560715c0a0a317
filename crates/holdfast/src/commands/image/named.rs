//! The image that the user names.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use client::{Client, ErrorKind, Image, ImageStillness};
use model::{ServerTime, escaped};

use crate::error::CommandError;
use crate::output::Output;
use crate::{moment, path};

/// Finds an image by its name. Images are called after the paths of devices, so a relative path is
/// tried as it is, and then from the working directory.
pub(in crate::commands) fn find(
    client: &Client,
    name: &OsStr,
    at: Option<ServerTime>,
) -> Result<Image, CommandError> {
    match client.image(name.as_bytes(), at) {
        Err(error) if error.kind == ErrorKind::NotFound => {
            let absolute = path::absolute(name.as_ref())?;
            if absolute == name.as_bytes() {
                return Err(error.into());
            }
            client.image(&absolute, at).map_err(|of_absolute| {
                let has_images = client.image(&absolute, None).is_ok();
                if has_images { of_absolute.into() } else { error.into() }
            })
        }
        found => Ok(found?),
    }
}

/// Notes that the content of an image is of several moments, before it is used.
pub(super) fn note_mixture(image: &Image, output: &Output) {
    if image.facts.stillness == ImageStillness::Fuzzy {
        output.note(&format!(
            "{} changed while its image of {} was made: files in it may be inconsistent",
            escaped(&image.name),
            moment::shown(image.taken)
        ));
    }
}
