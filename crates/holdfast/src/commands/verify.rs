//! `holdfast verify`: checks that versions can be restored.

use std::path::PathBuf;

use client::{VerifyOptions, VerifyReport};

use crate::context::Context;
use crate::error::CommandError;
use crate::path;
use crate::report::{self, VerifyDocument};
use crate::waiter::LinkArgs;

/// Check the versions of all ages that the server keeps for this node
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast verify --data
  holdfast verify /home/ann")]
pub(crate) struct Args {
    /// Directories or files, by the names that they had when they were backed up [default: all]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Read back and check every byte, not only the server's tables
    #[arg(long)]
    data: bool,
    #[command(flatten)]
    link: LinkArgs,
}

pub(super) fn run(args: Args, context: &mut Context) -> Result<u8, CommandError> {
    let options =
        VerifyOptions { paths: path::on_node(&args.paths)?, data: args.data, archive: None };
    let report = context.watch(&args.link, |client, progress| client.verify(&options, progress))?;
    show(&report, context);
    Ok(report.exit_code())
}

fn show(report: &VerifyReport, context: &mut Context) {
    context.keep_report(&VerifyDocument::new(report));
    if context.output.is_json() {
        context.output.json(&VerifyDocument::new(report));
        return;
    }
    let failures_max = context.failures_max();
    let text = report::verify_text(report, failures_max);
    let troubles = report::troubles(&report.failures, report.damaged, &[], failures_max);
    context.report(&text, &troubles);
}
