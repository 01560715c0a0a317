//! The context of a command: output, progress, the node's home and its servers.

use std::cell::OnceCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use client::{Client, Progress};
use serde::Serialize;

use crate::error::CommandError;
use crate::meter::{Meter, Mode};
use crate::options::Global;
use crate::output::{self, Format, Output};
use crate::report::FAILURES_SHOWN;
use crate::{home, interrupt};

/// The context of a command: everything that it works with except its own arguments.
pub(crate) struct Context {
    pub(crate) global: Global,
    pub(crate) output: Output,
    progress: OnceCell<Arc<Progress>>,
}

/// Variable with the name of the file into which a command writes its report.
const REPORT_VARIABLE: &str = "HOLDFAST_REPORT_FILE";
/// Maximum number of servers that a command tries, one after the other.
const SERVERS_TRIED_MAX: u32 = 30;
/// Pause before the next server is tried.
const SERVER_PAUSE: Duration = Duration::from_secs(1);

impl Context {
    pub(crate) fn new(global: Global, format: Format) -> Self {
        Self { output: Output::new(format, global.quiet), global, progress: OnceCell::new() }
    }

    pub(crate) fn home(&self) -> Result<PathBuf, CommandError> {
        home::folder(self.global.home.as_ref())
    }

    pub(crate) fn client(&self) -> Result<Client, CommandError> {
        Ok(Client::open(&self.home()?)?)
    }

    /// Opens several connections, for work at the same time.
    pub(crate) fn clients(&self, count: usize) -> Result<Vec<Client>, CommandError> {
        let mut clients = vec![self.client()?];
        while clients.len() < count {
            let beside = clients[0].open_beside()?;
            clients.push(beside);
        }
        Ok(clients)
    }

    /// Runs `work` with a display of its progress. A signal stops the work.
    pub(crate) fn watch<T>(
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

    /// Runs `work` as [`Self::watch`] does. If the connection to the server is lost and other
    /// servers exist, runs `work` again with another server, which knows the part that is done.
    pub(crate) fn watch_at_any_server<T>(
        &self,
        work: impl Fn(&Client, &Arc<Progress>) -> Result<T, client::ClientError>,
    ) -> Result<T, CommandError> {
        sys::process::raise_open_files();
        let progress = self.progress()?;
        let _meter = self.meter(&progress);
        let mut servers = SERVERS_TRIED_MAX;
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
                    output::say(&format!("{}; continuing with another server", error.message));
                    // A server that has lost the catalogue may not have noticed yet.
                    sys::clock::sleep(SERVER_PAUSE);
                }
                result => return Ok(result?),
            }
        }
    }

    /// Shows `progress` until the meter is dropped.
    pub(crate) fn meter(&self, progress: &Arc<Progress>) -> Meter {
        Meter::start(progress, self.meter_mode())
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
        if let Some(progress) = self.progress.get() {
            return Ok(Arc::clone(progress));
        }
        let progress = Arc::new(Progress::default());
        if self.global.verbose {
            progress.narrate(|verb, path| {
                output::say(&format!("{verb:<10} {}", model::escaped(path)));
            });
        }
        interrupt::watch(&progress, self.global.quiet)?;
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
