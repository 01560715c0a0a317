//! `holdfast completions`: the script with which a shell completes command lines.

mod fish;

use clap_complete::Shell;

use crate::context::Context;
use crate::error::{CommandError, DONE};

/// Write the completion script for a shell
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast completions bash > /etc/bash_completion.d/holdfast")]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

/// Writes the script for `definition`, the definition of the whole command line.
pub(super) fn run(
    args: &Args,
    definition: &mut clap::Command,
    context: &mut Context,
) -> Result<u8, CommandError> {
    let mut script = Vec::new();
    match args.shell {
        Shell::Fish => script.extend(fish::script(definition).into_bytes()),
        shell => clap_complete::generate(shell, definition, "holdfast", &mut script),
    }
    context.output.script(&script);
    Ok(DONE)
}
