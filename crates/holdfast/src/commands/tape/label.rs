//! `holdfast tape label`: writes the labels of volumes.

use std::ffi::OsString;

use ::tape::depot::Depot;
use ::tape::library::Labelling;
use ::tape::volume::Overwrite;
use format::volume::{BLOCK_BYTES_DEFAULT, Label, VolumeName};
use serde::Serialize;

use super::site;
use super::trouble::{self, Failure, FailureDocument};
use crate::context::Context;
use crate::error::CommandError;

/// Label volumes, so that they can be written; in a folder, make their files
///
/// A tape is labelled with its barcode. Only blank volumes are labelled, unless --overwrite is
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
    /// The barcodes: 1 to 32 letters, digits, '.', '-' or '_'
    #[arg(value_name = "VOLUME", required = true, value_parser = crate::values::volume_name)]
    volumes: Vec<VolumeName>,
    /// The pool that is written into the label
    #[arg(long, value_name = "NAME", default_value = "MANUAL", value_parser = pool)]
    pool: String,
    /// The number of the first volume among the volumes of its pool
    #[arg(long, value_name = "N", default_value_t = 1)]
    number: u64,
    /// Also label volumes of this program, and destroy their content; with '=anything' also volumes
    /// of other programs, and volumes that cannot be read
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "ours")]
    overwrite: Option<OverwriteScope>,
}

/// The volumes whose content may be destroyed.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum OverwriteScope {
    /// Volumes of this program
    Ours,
    /// Also volumes of other programs, and volumes that cannot be read
    Anything,
}

fn pool(name: &str) -> Result<String, &'static str> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if (1..=64).contains(&name.len()) && name.bytes().all(allowed) {
        return Ok(name.to_owned());
    }
    Err("a pool's name must have 1 to 64 letters, digits, '.', '-' or '_'")
}

/// `tape label --json`, one document per line.
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
    let site = site::of_word(&args.library, context)?;
    let mut depot = Depot::open(&site).map_err(|error| trouble::of_opening(&error))?;
    let mut failures = Vec::new();
    for (sequence, name) in (args.number..).zip(&args.volumes) {
        let labelling = Labelling {
            pool: args.pool.clone(),
            sequence,
            block_bytes: BLOCK_BYTES_DEFAULT,
            overwrite: match args.overwrite {
                None => Overwrite::Nothing,
                Some(OverwriteScope::Ours) => Overwrite::Ours,
                Some(OverwriteScope::Anything) => Overwrite::Anything,
            },
        };
        match depot.label(name, &labelling) {
            Ok(label) => show(&label, context),
            Err(error) => failures.push(Failure::of_volume(name, trouble::of_depot(&error))),
        }
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
    Ok(trouble::tell(&failures, &trouble::warnings(&mut depot), done, context))
}

fn show(label: &Label, context: &mut Context) {
    if context.output.is_json() {
        let (pool, block_bytes) = (Some(label.pool.as_str()), Some(label.block_bytes));
        let volume = label.name.as_str();
        context.output.json(&LabelDocument { volume, pool, block_bytes, failure: None });
    } else if !context.global.quiet {
        let text = format!("Volume {} is labelled for pool {}.\n", label.name, label.pool);
        context.output.text(&text);
    }
}
