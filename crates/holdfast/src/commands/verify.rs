//! `holdfast verify`: checks that versions can be restored.

use std::path::PathBuf;

use client::{Sample, VerifyOptions, VerifyReport};
use model::SampleAmount;

use crate::context::Context;
use crate::error::{CommandError, DONE, NOT_DONE};
use crate::path;
use crate::report::{self, VerifyDocument};
use crate::waiter::LinkArgs;

/// Check the versions of all ages that the server keeps for this node
///
/// With --sample this is a restore drill: the server draws a random sample of all files of this
/// node, of all ages, filespaces and archives. Each file with content has the same chance, whatever
/// its size. The sample is restored to nowhere and every byte is checked. If all of it is sound,
/// the server keeps the time as the date at which the node was last proven restorable.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast verify --data
  holdfast verify /home/ann
  holdfast verify --sample 2G")]
pub(crate) struct Args {
    /// Directories or files, by the names that they had when they were backed up [default: all]
    #[arg(value_name = "PATH", conflicts_with = "sample")]
    paths: Vec<PathBuf>,
    /// Read back and check every byte, not only the server's tables
    #[arg(long)]
    data: bool,
    /// Restore a random sample to nowhere: a number of files, as in 500; a size, as in 2G, which
    /// the last file of the sample may exceed; or a share of the files, as in 5%
    #[arg(long, value_name = "COUNT|SIZE|PERCENT")]
    sample: Option<SampleAmount>,
    /// The seed of the sample, to draw the same files again [default: random]
    #[arg(long, value_name = "NUMBER", requires = "sample")]
    seed: Option<u64>,
    /// End with exit code 12, and not 4, if the sample cannot be restored as a whole
    #[arg(long, requires = "sample")]
    drill: bool,
    #[command(flatten)]
    link: LinkArgs,
}

pub(super) fn run(args: Args, context: &mut Context) -> Result<u8, CommandError> {
    let seed = args.seed.unwrap_or_else(random_seed);
    let options = VerifyOptions {
        paths: path::on_node(&args.paths)?,
        data: args.data,
        archive: None,
        sample: args.sample.map(|amount| Sample { amount, seed }),
    };
    let report = context.watch(&args.link, |client, progress| {
        let done = client.verify(&options, progress);
        let next = "nothing was changed";
        done.map_err(|error| report::interrupted_reading(error, progress, next))
    })?;
    let code = match report.exit_code() {
        DONE => DONE,
        _ if args.drill => NOT_DONE,
        code => code,
    };
    show(&report, code, context);
    Ok(code)
}

/// Returns a seed that is easy to type.
fn random_seed() -> u64 {
    u64::from(u32::from_le_bytes(sys::entropy::bytes()))
}

fn show(report: &VerifyReport, code: u8, context: &mut Context) {
    context.keep_report(&VerifyDocument::new(report, code));
    if context.output.is_json() {
        context.output.json(&VerifyDocument::new(report, code));
        return;
    }
    let failures_max = context.failures_max();
    let text = report::verify_text(report, failures_max);
    let troubles = report::troubles(&report.failures, report.failed(), &[], failures_max);
    context.report(&text, &troubles);
}
