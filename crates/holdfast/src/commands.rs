//! The commands: one file each.

mod access;
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
mod dsmadmc;
mod enroll;
mod expire;
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

use std::ffi::OsString;

use client::admin::Admin;

use self::dsmadmc::{LineError, LineOutcome};
use crate::arguments::{self, Arguments, Stop};
use crate::context::Context;
use crate::error::CommandError;
use crate::logging::{self, Level};
use crate::output::{self, Format, Output};
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
    Access(access::Args),
    Expire(expire::Args),
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
    #[command(hide = true)]
    Dsmadmc(dsmadmc::Args),
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
    };
    let format = if global.json { Format::Json } else { Format::Text };
    // TSM's commands have messages of their own form.
    if !matches!(command, Command::Dsm(_) | Command::Dsmadmc(_)) {
        output::say_as(format);
    }
    // Spans that wait are sent when the command has ended.
    let _traces = logging::start(level, global.log_format, global.traces.as_deref())?;
    // The work of a server or an agent has spans of its own.
    let span = (!serves).then(|| tracing::info_span!(target: model::TRACE, "command", name));
    let _entered = span.as_ref().map(tracing::Span::enter);
    let is_of_node = !matches!(
        command,
        Command::Server(_)
            | Command::Admin(_)
            | Command::Agent(_)
            | Command::Tape(_)
            | Command::Enroll(_)
            | Command::Dsm(_)
            | Command::Completions(_)
            | Command::Dsmadmc(_)
    );
    let standing = if is_of_node { settings::last_received(&global) } else { None };
    priority::heed(global.priority, standing.as_ref());
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
        Command::Access(args) => access::run(&args, &mut context),
        Command::Expire(args) => expire::run(&args, &mut context),
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
        Command::Dsmadmc(args) => dsmadmc::run(&args, &mut context, run_line),
    };
    if is_of_node && !flags.is_empty() {
        settings::say_unheeded(&context, &flags);
    }
    // Results that were written before an error belong on standard output too.
    let finished = context.output.finish();
    let code = done?;
    finished.map(|()| code)
}

/// Runs a command line of `holdfast admin` over the connection of another command, with its output
/// in memory.
fn run_line(words: &[String], is_quiet: bool, admin: &mut Admin) -> Result<LineOutcome, LineError> {
    let program = std::iter::once("holdfast").chain(words.iter().map(String::as_str));
    let arguments = arguments::parse(program.map(OsString::from).collect());
    let arguments = arguments.map_err(|stop| match stop {
        Stop::Usage(error) => LineError::Usage(error),
        Stop::Help(help) => LineError::Usage(CommandError::new(help.to_string())),
    })?;
    let Arguments { mut global, command: Command::Admin(args), name, .. } = arguments else {
        let message = "the command line is not of 'holdfast admin'";
        return Err(LineError::Usage(CommandError::new(message)));
    };
    global.quiet = is_quiet;
    let output = Output::in_memory(is_quiet);
    let mut context = Context::with_output(global, output, name);
    let done = admin::run_connected(args, admin, &mut context);
    let text = context.output.into_text();
    done.map(|code| LineOutcome { code, text }).map_err(LineError::Failure)
}
