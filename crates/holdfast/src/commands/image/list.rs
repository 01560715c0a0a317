//! `holdfast image list`: the images of this node.

use std::ffi::OsString;

use client::Image;
use model::escaped;

use super::named;
use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::report::{ImageDocument, stillness_words};
use crate::table::{self, Align};
use crate::waiter::LinkArgs;
use crate::{moment, quantity};

/// List the images of this node, the newest of each disk first
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast image list
  holdfast image list /dev/sda")]
pub(crate) struct Args {
    /// Name of the image [default: all]
    #[arg(value_name = "IMAGE")]
    name: Option<OsString>,
    #[command(flatten)]
    link: LinkArgs,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<u8, CommandError> {
    let images = context.waiter(&args.link)?.run(|client, _| {
        let Some(name) = &args.name else { return Ok::<_, CommandError>(client.images(None)?) };
        let found = named::find(client, name, None)?;
        Ok(client.images(Some(&found.name))?)
    })?;
    if context.output.is_json() {
        images.iter().for_each(|image| context.output.json(&ImageDocument::new(image)));
    } else if images.is_empty() {
        context.output.note("There is no image yet; 'holdfast image backup' makes one.");
    } else {
        context.output.text(&text(&images));
    }
    Ok(DONE)
}

fn text(images: &[Image]) -> String {
    let columns = [
        ("Image", Align::Left),
        ("Taken", Align::Left),
        ("Size", Align::Right),
        ("Data", Align::Right),
        ("State", Align::Left),
        ("Class", Align::Left),
        ("Holds", Align::Left),
    ];
    let row = |image: &Image| {
        let facts = &image.facts;
        let unreadable: u64 = facts.unreadable.iter().map(|range| range.bytes).sum();
        let state = match unreadable {
            0 => stillness_words(facts.stillness).to_owned(),
            bytes => format!(
                "{}, {} unreadable",
                stillness_words(facts.stillness),
                quantity::bytes_with_unit(bytes)
            ),
        };
        [
            escaped(&image.name),
            moment::shown(image.taken),
            quantity::bytes_with_unit(facts.layout.bytes),
            quantity::bytes_with_unit(facts.data_bytes),
            state,
            image.class.clone(),
            facts.holds.clone().unwrap_or_default(),
        ]
    };
    let rows: Vec<_> = images.iter().map(row).collect();
    table::render(columns, &rows)
}
