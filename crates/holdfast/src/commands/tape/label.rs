//! `holdfast tape label`.

use std::ffi::OsString;

use ::tape::library::Labelling;
use ::tape::volume::Overwrite;
use format::volume::{BLOCK_BYTES_DEFAULT, BLOCK_BYTES_MAX, Label, VolumeName};
use serde::Serialize;

use super::place::{self, Opened, Place};
use super::site::Site;
use super::trouble::{self, Failure, FailureDocument};
use crate::commands::Context;
use crate::error::CommandError;

/// Label volumes, so that they can be written; in a folder, make them
///
/// A tape is labelled with its barcode. Only blank volumes are labelled unless --overwrite is
/// given.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast tape label vault A00001L8 A00002L8
  holdfast tape label /srv/tapes T001 --pool OFFSITE
  holdfast tape label vault A00001L8 --overwrite")]
pub(super) struct Args {
    /// The library, a folder, or addresses
    #[arg(value_name = "LIB")]
    library: OsString,
    /// Their barcodes: 1 to 32 letters, digits, '.', '-' or '_'
    #[arg(value_name = "VOLUME", required = true, value_parser = super::volume_name)]
    volumes: Vec<VolumeName>,
    /// The pool that is written into the label
    #[arg(long, value_name = "NAME", default_value = "MANUAL", value_parser = pool)]
    pool: String,
    /// The number of the first one among the volumes of its pool
    #[arg(long, value_name = "N", default_value_t = 1)]
    number: u64,
    /// Destroy what this program has written; with '=anything' also what others have
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "ours")]
    overwrite: Option<What>,
}

/// What may be destroyed.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    /// Volumes of this program
    Ours,
    /// Volumes of others and what cannot be read, too
    Anything,
}

fn pool(name: &str) -> Result<String, String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if (1..=64).contains(&name.len()) && name.bytes().all(allowed) {
        return Ok(name.to_owned());
    }
    Err("a pool's name has 1 to 64 letters, digits, '.', '-' or '_'".to_owned())
}

/// `tape label --json`, one a line.
#[derive(Serialize)]
struct LabelDocument<'a> {
    volume: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pool: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block_bytes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<FailureDocument<'a>>,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<u8, CommandError> {
    let mut opened = Opened::open(&Site::of(&args.library, context)?)?;
    let mut failures = Vec::new();
    for (sequence, name) in (args.number..).zip(&args.volumes) {
        let labelling = Labelling {
            pool: args.pool.clone(),
            sequence,
            block_bytes: BLOCK_BYTES_DEFAULT,
            overwrite: match args.overwrite {
                None => Overwrite::Nothing,
                Some(What::Ours) => Overwrite::Ours,
                Some(What::Anything) => Overwrite::Anything,
            },
        };
        match label(&mut opened, name, &labelling) {
            Ok(label) => show(&label, context),
            Err(why) => failures.push(Failure::of_volume(name, why)),
        }
        opened.note_alerts();
    }
    if context.output.is_json() {
        for (failure, name) in failures.iter().map(|failure| (failure, &failure.what)) {
            let volume = std::str::from_utf8(name).unwrap_or_default();
            let failure = Some(failure.document());
            context
                .output
                .json(&LabelDocument { volume, pool: None, block_bytes: None, failure });
        }
    }
    let done = args.volumes.len() - failures.len();
    Ok(trouble::tell(&failures, &opened.warnings, done, context))
}

fn label(
    opened: &mut Opened,
    name: &VolumeName,
    labelling: &Labelling,
) -> Result<Label, CommandError> {
    match &mut opened.place {
        Place::Folder { volumes, .. } => {
            let label = labelling.label(name, BLOCK_BYTES_MAX);
            let labelled = volumes.label(&label, labelling.overwrite);
            labelled.map(|()| label).map_err(|error| trouble::of_volume(&error))
        }
        Place::Library { library, .. } => {
            place::prepare(library, name)?;
            library.label(name, labelling).map_err(|error| trouble::of_library(&error))
        }
    }
}

fn show(label: &Label, context: &mut Context) {
    if context.output.is_json() {
        let (pool, block_bytes) = (Some(label.pool.as_str()), Some(label.block_bytes));
        let volume = label.name.as_str();
        context.output.json(&LabelDocument { volume, pool, block_bytes, failure: None });
    } else if !context.global.quiet {
        let text = format!("Volume {} is labelled, for pool {}.\n", label.name, label.pool);
        context.output.text(&text);
    }
}
