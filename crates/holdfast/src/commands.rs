//! The commands: one file each.

mod admin;
mod agent;
mod archive;
mod archives;
mod backup;
mod baseline;
mod completions;
mod delete;
mod diff;
pub(crate) mod dsm;
mod enroll;
mod explain;
mod find;
mod hsm;
mod image;
mod journal;
mod key;
mod list;
mod man;
mod mount;
mod preview;
mod restore;
mod resumption;
mod retrieve;
mod server;
mod stats;
mod status;
mod tape;
mod undelete;
mod verify;

use crate::arguments::Arguments;
use crate::context::Context;
use crate::error::CommandError;
use crate::logging::{self, Level};
use crate::output::{Format, Output};
use crate::{priority, settings};

#[derive(clap::Subcommand, Debug)]
pub(crate) enum Command {
    Server(server::Args),
    Admin(admin::Args),
    Agent(agent::Args),
    Enroll(enroll::Args),
    Backup(backup::Args),
    Restore(restore::Args),
    Archive(Box<archive::Args>),
    Retrieve(retrieve::Args),
    Archives(archives::Args),
    Delete(delete::Args),
    Undelete(undelete::Args),
    List(list::Args),
    Find(find::Args),
    Diff(diff::Args),
    Stats(stats::Args),
    Key(key::Args),
    Hsm(hsm::Args),
    Journal(journal::Args),
    Tape(tape::Args),
    Explain(explain::Args),
    Preview(preview::Args),
    Verify(verify::Args),
    Image(image::Args),
    Mount(mount::Args),
    Baseline(baseline::Args),
    Status(status::Args),
    Dsm(dsm::Args),
    Completions(completions::Args),
    #[command(hide = true)]
    Man(man::Args),
}

/// Runs a command. `definition` returns the definition of the whole command line.
pub(crate) fn run(
    Arguments { global, command, name, flags }: Arguments,
    definition: fn() -> clap::Command,
) -> Result<u8, CommandError> {
    let serves = matches!(command, Command::Server(_) | Command::Agent(_));
    let level = match (global.quiet, global.verbose, serves) {
        (true, _, _) => Level::Quiet,
        (false, true, _) => Level::Verbose,
        (false, false, true) => Level::Server,
        (false, false, false) => Level::Command,
    })?;
    if global.priority == Priority::Low
        && let Err(error) = sys::priority::lower()
    {
        output::say(&format!("cannot lower the priority: {error}; going on with the usual one"));
    }
    let format = if global.json { Format::Json } else { Format::Text };
    let mut context = Context::new(global, format, name);
    let done = match command {
        Command::Server(args) => server::run(args, &mut context),
        Command::Admin(args) => admin::run(args, &mut context),
        Command::Agent(args) => agent::run(args, &mut context),
        Command::Enroll(args) => enroll::run(args, &mut context),
        Command::Backup(args) => backup::run(args, &mut context),
        Command::Restore(args) => restore::run(args, &mut context),
        Command::Archive(args) => archive::run(*args, &mut context),
        Command::Retrieve(args) => retrieve::run(args, &mut context),
        Command::Archives(args) => archives::run(&args, &mut context),
        Command::Delete(args) => delete::run(args, &mut context),
        Command::Undelete(args) => undelete::run(&args, &mut context),
        Command::List(args) => list::run(args, &mut context),
        Command::Find(args) => find::run(&args, &mut context),
        Command::Diff(args) => diff::run(&args, &mut context),
        Command::Stats(args) => stats::run(&args, &mut context),
        Command::Key(args) => key::run(args, &mut context),
        Command::Hsm(args) => hsm::run(args, &mut context),
        Command::Journal(args) => journal::run(&args, &mut context),
        Command::Tape(args) => tape::run(args, &mut context),
        Command::Explain(args) => explain::run(args, &mut context),
        Command::Preview(args) => preview::run(args, &mut context),
        Command::Verify(args) => verify::run(args, &mut context),
        Command::Image(args) => image::run(args, &mut context),
        Command::Mount(args) => mount::run(&args, &context),
        Command::Baseline(args) => baseline::run(&args, &mut context),
        Command::Status(args) => status::run(args, &mut context),
        Command::Dsm(args) => dsm::run(args, &mut context),
        Command::Completions(args) => completions::run(&args, &mut definition(), &mut context),
        Command::Man(args) => man::run(&args, &definition(), &context),
    };
    if is_of_node && !flags.is_empty() {
        settings::say_unheeded(&context, &flags);
    }
    // Results that were written before an error belong on standard output too.
    let finished = context.output.finish();
    let code = done?;
    finished.map(|()| code)
}

