//! `holdfast admin volume label`: writes the labels of volumes.

use client::admin::{Admin, Labelling, LabellingRequest};
use format::volume::{BLOCK_BYTES_MAX, BLOCK_BYTES_MIN, VolumeName};
use serde::Serialize;

use super::{exit_code, say_failure};
use crate::context::Context;
use crate::error::CommandError;
use crate::values::{self, ValueError};

/// Label volumes, so that the server can write them; in a folder, make their files
///
/// The label of a tape is its barcode. Without --overwrite only blank volumes are labelled. Volumes
/// that the server knows are never labelled again.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast volume label vault
  holdfast admin --server /srv/holdfast volume label vault A00001L8 --overwrite
  holdfast admin --server /srv/holdfast volume label files T001 T002")]
pub(super) struct Args {
    /// The library
    #[arg(value_name = "LIBRARY")]
    library: String,
    /// The barcodes of the volumes [default: all blank volumes of the library]
    #[arg(value_name = "VOLUME", value_parser = crate::values::volume_name)]
    volumes: Vec<VolumeName>,
    /// Also label volumes that this program has written, for another server or by hand, as
    /// 'holdfast tape label --overwrite' does; their data is lost. It takes no value: what other
    /// programs have written stays, unless 'holdfast tape label --overwrite=anything' destroys it
    /// while the server is stopped
    #[arg(long, requires = "volumes")]
    overwrite: bool,
    /// Size of the largest block, as in 1M [default: 512K, which all drives take]
    #[arg(long, value_name = "SIZE", value_parser = block_bytes)]
    block: Option<u32>,
}

fn block_bytes(text: &str) -> Result<u32, ValueError> {
    let bytes = values::size(text)?;
    let fits = |bytes: &u32| (BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(bytes);
    let bytes = u32::try_from(bytes).ok().filter(fits);
    bytes.ok_or(ValueError::Rule("the block size must be 4K to 16383K"))
}

/// `volume label --json`, one document per line.
#[derive(Serialize)]
struct LabelDocument<'a> {
    volume: &'a str,
    labelled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<&'a str>,
}

pub(super) fn run(
    args: Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    let request = LabellingRequest {
        library: args.library,
        volumes: args.volumes.iter().map(ToString::to_string).collect(),
        overwrite: args.overwrite,
        block_bytes: args.block,
    };
    let (mut done, mut failed) = (0, 0);
    admin.label_volumes(request, &mut |labelling| {
        let count = if labelling.problem.is_none() { &mut done } else { &mut failed };
        *count += 1;
        tell(labelling, context);
    })?;
    if done + failed == 0 {
        context.output.note("The library has no blank volume.");
    }
    Ok(exit_code(done, failed))
}

fn tell(labelling: &Labelling, context: &mut Context) {
    let Labelling { volume, problem } = labelling;
    let problem = problem.as_deref().map(|problem| without_name(volume, problem));
    if context.output.is_json() {
        let labelled = problem.is_none();
        context.output.json(&LabelDocument { volume, labelled, problem });
    } else if problem.is_none() && !context.output.quiet {
        context.output.text(&format!("Volume {volume} is labelled."));
    }
    if let Some(problem) = problem {
        say_failure(volume, problem, context);
    }
    // The next volume takes a minute, so the flush shows this result now.
    context.output.flush();
}

/// Returns the problem without the name of its volume at the beginning, which is shown beside it.
fn without_name<'p>(volume: &str, problem: &'p str) -> &'p str {
    let rest = problem.strip_prefix(volume).and_then(|rest| rest.strip_prefix(": "));
    rest.unwrap_or(problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_limits() {
        assert_eq!(block_bytes("4K"), Ok(BLOCK_BYTES_MIN));
        assert_eq!(block_bytes("1M"), Ok(1 << 20));
        for bad in ["4095", "16M", "8G", "big"] {
            assert!(block_bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_name_of_a_volume_is_told_once() {
        assert_eq!(without_name("SPARE1", "SPARE1: the volume is full"), "the volume is full");
        assert_eq!(without_name("SPARE1", "SPARE10: it is full"), "SPARE10: it is full");
        assert_eq!(without_name("SPARE1", "SPARE1 is full"), "SPARE1 is full");
    }
}
