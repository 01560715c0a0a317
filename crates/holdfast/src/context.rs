//! The context of a command: output, progress, the node's home and its servers.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use client::{Client, Connector, Progress, Standing};
use serde::Serialize;

use crate::error::CommandError;
use crate::meter::{Meter, Mode};
use crate::options::{Global, LogFormat};
use crate::output::{self, Format, Output};
use crate::report::FAILURES_SHOWN;
use crate::running::RunningCommand;
use crate::waiter::{LinkArgs, Waiter};
use crate::{home, interrupt};

/// The context of a command: everything that it works with except its own arguments.
pub(crate) struct Context {
    pub(crate) global: Global,
    pub(crate) output: Output,
    progress: OnceCell<Arc<Progress>>,
    /// Name of the command, as in `holdfast image backup`.
    command: String,
    /// Record of the command for the status, from the first call of [`Self::progress`] on.
    running: OnceCell<Option<Arc<RunningCommand>>>,
    /// Maker of the command's connections, which all its steps share.
    connector: OnceCell<Arc<Connector>>,
}

/// Variable with the name of the file into which a command writes its report.
const REPORT_VARIABLE: &str = "HOLDFAST_REPORT_FILE";
/// Variable with the name of the file into which a command writes its progress.
const PROGRESS_VARIABLE: &str = "HOLDFAST_PROGRESS_FILE";
/// Variable with the name of a file that exists while the command is to pause.
const PAUSE_VARIABLE: &str = "HOLDFAST_PAUSE_FILE";

impl Context {
    pub(crate) fn new(global: Global, format: Format, command: String) -> Self {
        let output = Output::new(format, global.quiet);
        Self::with_output(global, output, command)
    }

    /// Makes the context of a command whose results go to `output`.
    pub(crate) fn with_output(global: Global, output: Output, command: String) -> Self {
        let (progress, running) = (OnceCell::new(), OnceCell::new());
        Self { global, output, progress, command, running, connector: OnceCell::new() }
    }

    pub(crate) fn home(&self) -> Result<PathBuf, CommandError> {
        home::folder(self.global.home.as_ref())
    }

    /// Connects, and does not wait for a server that is away.
    pub(crate) fn client(&self) -> Result<Client, CommandError> {
        Ok(Client::open(&self.home()?)?)
    }

    /// Returns the settings of the node: those of this moment if the server answers at once, and
    /// otherwise those that the node received last.
    pub(crate) fn standing(&self, link: &LinkArgs) -> Result<Standing, CommandError> {
        self.waiter(link)?.standing()
    }

    /// Name of the command without that of the program, as in `image backup`.
    pub(crate) fn command_name(&self) -> &str {
        self.command.split_once(' ').map_or("", |(_, name)| name)
    }

    /// Returns a waiter for work that a signal ends at once.
    pub(crate) fn waiter(&self, link: &LinkArgs) -> Result<Waiter, CommandError> {
        self.waiter_with(link, Arc::default(), None)
    }

    /// Returns a waiter for work that a signal stops in an orderly way.
    pub(crate) fn watching_waiter(&self, link: &LinkArgs) -> Result<Waiter, CommandError> {
        let progress = self.progress()?;
        self.waiter_with(link, progress, self.running())
    }

    fn waiter_with(
        &self,
        link: &LinkArgs,
        progress: Arc<Progress>,
        running: Option<Arc<RunningCommand>>,
    ) -> Result<Waiter, CommandError> {
        let connector = self.connector(link)?;
        Ok(Waiter::new(connector, progress, &self.global).recorded_in(running))
    }

    /// Returns the maker of the command's connections.
    fn connector(&self, link: &LinkArgs) -> Result<Arc<Connector>, CommandError> {
        if let Some(connector) = self.connector.get() {
            return Ok(Arc::clone(connector));
        }
        let connector = Arc::new(Connector::new(&self.home()?, link.choice())?);
        Ok(Arc::clone(self.connector.get_or_init(|| connector)))
    }

    /// Returns the record of the command for the status.
    pub(crate) fn running(&self) -> Option<Arc<RunningCommand>> {
        let begin = || Some(Arc::new(RunningCommand::begin(&self.home().ok()?, &self.command)?));
        self.running.get_or_init(begin).clone()
    }

    /// Runs `work` with a display of its progress. A signal stops the work. After the loss of the
    /// server, `work` runs again and goes on from what it has done.
    pub(crate) fn watch<T, E: Into<CommandError>>(
        &self,
        link: &LinkArgs,
        work: impl FnMut(&Client, &Arc<Progress>) -> Result<T, E>,
    ) -> Result<T, CommandError> {
        sys::process::raise_open_files();
        let waiter = self.watching_waiter(link)?;
        let _meter = self.meter(&self.progress()?);
        waiter.run(work)
    }

    /// Shows `progress` until the meter is dropped.
    pub(crate) fn meter(&self, progress: &Arc<Progress>) -> Meter {
        let meter = Meter::start(progress, self.meter_mode());
        match std::env::var_os(PROGRESS_VARIABLE) {
            Some(file) => meter.write(progress, file.into()),
            None => meter,
        }
    }

    /// Shows the line that `line` returns, until the meter is dropped.
    pub(crate) fn meter_of(&self, line: impl FnMut() -> String + Send + 'static) -> Meter {
        Meter::show(self.meter_mode(), line)
    }

    fn meter_mode(&self) -> Mode {
        let terminal = output::stderr_is_terminal();
        // A line for each object and a bar would disturb each other.
        let is_hidden = self.global.quiet || self.global.verbose;
        Mode::choose(self.global.progress, is_hidden, terminal)
    }

    /// Returns the progress of the command, which a signal stops. The first call begins to catch
    /// signals.
    pub(crate) fn progress(&self) -> Result<Arc<Progress>, CommandError> {
        self.progress_until(Some(interrupt::TRANSFERS_END))
    }

    /// Returns the progress of a command that only looks at work elsewhere, which a signal does not
    /// end.
    pub(crate) fn progress_of_look(&self) -> Result<Arc<Progress>, CommandError> {
        self.progress_until(None)
    }

    /// Returns the progress of the command. `stopping` is said after the first signal.
    fn progress_until(
        &self,
        stopping: Option<&'static str>,
    ) -> Result<Arc<Progress>, CommandError> {
        if let Some(progress) = self.progress.get() {
            return Ok(Arc::clone(progress));
        }
        let progress = Arc::new(Progress::default());
        if self.global.verbose {
            let log_format = self.global.log_format;
            progress.narrate(move |verb, path| {
                let path = model::escaped(path);
                match log_format {
                    LogFormat::Text => output::say(&format!("{verb:<10} {path}")),
                    LogFormat::Json => tracing::info!(path, "{verb}"),
                }
            });
        }
        // The thread of the signals never ends, so it must not keep the record.
        let running = self.running().map(|running| Arc::downgrade(&running));
        let paused = Arc::downgrade(&progress);
        let pauses = || {
            std::env::var_os(PAUSE_VARIABLE)
                .is_some_and(|file| Path::new(&file).try_exists().unwrap_or(false))
        };
        interrupt::watch(&progress, self.global.quiet, stopping, pauses, move || {
            let running = running.as_ref().and_then(Weak::upgrade);
            if let Some((running, progress)) = running.zip(paused.upgrade()) {
                running.note(&progress);
            }
        })?;
        Ok(Arc::clone(self.progress.get_or_init(|| progress)))
    }

    /// Returns true if the steps of long work are shown.
    pub(crate) fn shows_steps(&self) -> bool {
        !self.global.quiet && (self.global.progress || output::stderr_is_terminal())
    }

    /// Returns the maximum number of failures that a report names.
    pub(crate) fn failures_max(&self) -> usize {
        if self.global.verbose { usize::MAX } else { FAILURES_SHOWN }
    }

    /// Writes the report of a session into the file that the task keeper has named, if there is
    /// one.
    pub(crate) fn keep_report(&self, document: &impl Serialize) {
        let Some(file) = std::env::var_os(REPORT_VARIABLE) else { return };
        let Ok(text) = serde_json::to_vec(document) else { return };
        if let Err(error) = std::fs::write(&file, text) {
            tracing::warn!(%error, "the report of the session cannot be written");
        }
    }

    /// Writes `text`. A quiet command writes only `troubles`, to standard error.
    pub(crate) fn report(&mut self, text: &str, troubles: &str) {
        if !self.global.quiet {
            self.output.text(text);
        } else if !troubles.is_empty() {
            output::say_lines(troubles);
        }
    }
}
