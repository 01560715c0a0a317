//! `holdfast completions`: what a shell needs to complete a command line.

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::{Context, DONE};
use crate::arguments::Arguments;
use crate::error::CommandError;

/// Write the completions for a shell
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast completions bash > /etc/bash_completion.d/holdfast")]
pub(crate) struct Args {
    /// Which shell
    shell: Shell,
}

#[expect(clippy::needless_pass_by_value, reason = "all commands take their arguments")]
pub(super) fn run(args: Args, context: &mut Context) -> Result<u8, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Arguments::command(), "holdfast", &mut script);
    context.output.bytes(&script);
    Ok(DONE)
}
