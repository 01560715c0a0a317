//! `holdfast admin volume label`.

use client::admin::{Admin, LabelVolumesReply, LabelVolumesRequest};
use format::volume::{BLOCK_BYTES_MAX, BLOCK_BYTES_MIN, VolumeName};
use serde::Serialize;

use super::{exit_code, say_failure};
use crate::commands::{Context, tape};
use crate::error::CommandError;
use crate::quantity;

/// Label volumes, so that the server can write them; in a folder, make them
///
/// A tape is labelled with its barcode. Only blank volumes are labelled unless --overwrite is
/// given, and never one that the server knows.
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
    /// Their barcodes; every blank volume of the library unless given
    #[arg(value_name = "VOLUME", value_parser = tape::volume_name)]
    volumes: Vec<VolumeName>,
    /// Destroy what this program has written for another server or by hand
    #[arg(long, requires = "volumes")]
    overwrite: bool,
    /// The largest block, as in 1M [default: 512K, which all drives take]
    #[arg(long, value_name = "SIZE", value_parser = block_bytes)]
    block: Option<u32>,
}

fn block_bytes(text: &str) -> Result<u32, String> {
    let bytes = quantity::parse_bytes(text, 1)?;
    let fits = |bytes: &u32| (BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(bytes);
    let bytes = u32::try_from(bytes).ok().filter(fits);
    bytes.ok_or_else(|| "a block has 4K to 16383K".to_owned())
}

/// `volume label --json`, one a line.
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
    let request = LabelVolumesRequest {
        library: args.library,
        volumes: args.volumes.iter().map(ToString::to_string).collect(),
        overwrite: args.overwrite,
        block_bytes: args.block.unwrap_or(0),
    };
    let (mut done, mut failed) = (0, 0);
    admin.label_volumes(request, &mut |reply| {
        let count = if reply.problem.is_empty() { &mut done } else { &mut failed };
        *count += 1;
        tell(reply, context);
    })?;
    if done + failed == 0 {
        context.output.note("The library has no blank volume.");
    }
    Ok(exit_code(done, failed))
}

fn tell(reply: &LabelVolumesReply, context: &mut Context) {
    let problem = Some(reply.problem.as_str()).filter(|problem| !problem.is_empty());
    if context.output.is_json() {
        let labelled = problem.is_none();
        context.output.json(&LabelDocument { volume: &reply.volume, labelled, problem });
    } else if problem.is_none() && !context.output.quiet {
        context.output.text(&format!("Volume {} is labelled.", reply.volume));
    }
    if let Some(problem) = problem {
        say_failure(&reply.volume, problem, context);
    }
    // The next one takes a minute.
    context.output.flush();
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
}
