//! The commands: one file each, and what they share.

mod admin;
mod archive;
mod archives;
mod backup;
mod completions;
mod delete;
mod enroll;
mod explain;
mod hsm;
mod key;
mod list;
mod preview;
mod restore;
mod retrieve;
mod server;
mod status;
mod tape;
mod undelete;
mod verify;

use std::cell::OnceCell;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use client::{Client, Progress};

use crate::arguments::{self, Arguments, Global, Stop};
use crate::error::{CommandError, NOT_DONE};
use crate::logging::{self, Level};
use crate::meter::{Meter, Mode};
use crate::output::{self, Format, Output};
use crate::report::FAILURES_SHOWN;
use crate::{home, interrupt};

/// The exit code of a command that did all.
pub(crate) const DONE: u8 = 0;

#[derive(clap::Subcommand, Debug)]
pub(crate) enum Command {
    Server(server::Args),
    Admin(admin::Args),
    Enroll(enroll::Args),
    Backup(backup::Args),
    Restore(restore::Args),
    Archive(Box<archive::Args>),
    Retrieve(retrieve::Args),
    Archives(archives::Args),
    Delete(delete::Args),
    Undelete(undelete::Args),
    List(list::Args),
    Key(key::Args),
    Hsm(hsm::Args),
    Tape(tape::Args),
    Explain(explain::Args),
    Preview(preview::Args),
    Verify(verify::Args),
    Status(status::Args),
    Completions(completions::Args),
}

/// Runs the command that the process was started with.
pub(crate) fn main() -> ExitCode {
    let done = match arguments::parse(std::env::args_os().collect()) {
        Ok(arguments) => run(arguments),
        Err(Stop::Help(help)) => {
            output::help(&help);
            Ok(DONE)
        }
        Err(Stop::Usage(error)) => Err(error),
    };
    ExitCode::from(done.unwrap_or_else(|error| {
        output::say_error(&error);
        NOT_DONE
    }))
}

fn run(arguments: Arguments) -> Result<u8, CommandError> {
    let Arguments { global, command } = arguments;
    let serves = matches!(command, Command::Server(_));
    logging::start(match (global.quiet, global.verbose, serves) {
        (true, _, _) => Level::Quiet,
        (false, true, _) => Level::Verbose,
        (false, false, true) => Level::Server,
        (false, false, false) => Level::Command,
    })?;
    let format = if global.json { Format::Json } else { Format::Text };
    let mut context =
        Context { output: Output::new(format, global.quiet), global, progress: OnceCell::new() };
    let done = match command {
        Command::Server(args) => server::run(args, &mut context),
        Command::Admin(args) => admin::run(args, &mut context),
        Command::Enroll(args) => enroll::run(args, &mut context),
        Command::Backup(args) => backup::run(args, &mut context),
        Command::Restore(args) => restore::run(args, &mut context),
        Command::Archive(args) => archive::run(*args, &mut context),
        Command::Retrieve(args) => retrieve::run(args, &mut context),
        Command::Archives(args) => archives::run(&args, &mut context),
        Command::Delete(args) => delete::run(args, &mut context),
        Command::Undelete(args) => undelete::run(&args, &mut context),
        Command::List(args) => list::run(args, &mut context),
        Command::Key(args) => key::run(args, &mut context),
        Command::Hsm(args) => hsm::run(args, &mut context),
        Command::Tape(args) => tape::run(args, &mut context),
        Command::Explain(args) => explain::run(args, &mut context),
        Command::Preview(args) => preview::run(args, &mut context),
        Command::Verify(args) => verify::run(args, &mut context),
        Command::Status(args) => status::run(args, &mut context),
        Command::Completions(args) => completions::run(args, &mut context),
    };
    // What was written before an error belongs on standard output too.
    let finished = context.output.finish();
    let code = done?;
    finished.map(|()| code)
}

/// What a command works with beside its own arguments.
pub(crate) struct Context {
    global: Global,
    output: Output,
    progress: OnceCell<Arc<Progress>>,
}

/// A command goes on at so many servers, one after the other,
const SERVERS_TRIED: u32 = 30;
/// after such a pause.
const SERVER_PAUSE: std::time::Duration = std::time::Duration::from_secs(1);

impl Context {
    fn home(&self) -> Result<PathBuf, CommandError> {
        home::folder(self.global.home.as_ref())
    }

    fn client(&self) -> Result<Client, CommandError> {
        Ok(Client::open(&self.home()?)?)
    }

    /// Runs `work`, which takes long: shows its progress, and stops it when a signal comes.
    fn watched<T>(
        &self,
        work: impl FnOnce(&Client, &Arc<Progress>) -> Result<T, client::ClientError>,
    ) -> Result<T, CommandError> {
        sys::process::raise_open_files();
        let client = self.client()?;
        let progress = self.progress()?;
        let meter = self.meter(&progress);
        let result = work(&client, &progress);
        drop(meter);
        Ok(result?)
    }

    /// As [`Self::watched`], and goes on at another server where there are several and the one that
    /// serves is lost: what was done is found there.
    fn carried_on<T>(
        &self,
        work: impl Fn(&Client, &Arc<Progress>) -> Result<T, client::ClientError>,
    ) -> Result<T, CommandError> {
        sys::process::raise_open_files();
        let progress = self.progress()?;
        let _meter = self.meter(&progress);
        let mut servers = SERVERS_TRIED;
        loop {
            let client = self.client()?;
            servers -= 1;
            match work(&client, &progress) {
                Err(error)
                    if error.kind == client::ErrorKind::Retry
                        && client.has_several_servers()
                        && servers > 0
                        && !progress.is_stopped() =>
                {
                    output::say(&format!("{}; going on with another server", error.message));
                    // One that has lost the catalogue may not have noticed yet.
                    sys::clock::sleep(SERVER_PAUSE);
                }
                result => return Ok(result?),
            }
        }
    }

    /// Shows `progress` until it is dropped.
    pub(crate) fn meter(&self, progress: &Arc<Progress>) -> Meter {
        let terminal = output::stderr_is_terminal();
        let mode = Mode::choose(self.global.progress, self.global.quiet, terminal);
        Meter::start(progress, mode)
    }

    /// The progress that a signal stops; signals are caught from the first call on.
    fn progress(&self) -> Result<Arc<Progress>, CommandError> {
        if let Some(progress) = self.progress.get() {
            return Ok(Arc::clone(progress));
        }
        let progress = Arc::new(Progress::default());
        interrupt::watch(&progress, self.global.quiet)?;
        Ok(Arc::clone(self.progress.get_or_init(|| progress)))
    }

    /// How many failures a text names.
    fn failures_max(&self) -> usize {
        if self.global.verbose { usize::MAX } else { FAILURES_SHOWN }
    }

    /// Writes `text`; when quiet only `troubles`, to standard error.
    fn report(&mut self, text: &str, troubles: &str) {
        if !self.global.quiet {
            self.output.text(text);
        } else if !troubles.is_empty() {
            output::say(troubles.trim_end());
        }
    }
}
