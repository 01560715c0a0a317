//! Waiter: runs a command's work, and runs it again when its server has gone away and is back.
//!
//! ```text
//!   connect -> work -> result
//!      ^         | connection lost, or no server answers
//!      \- wait <-/   (as long as the patience of the command lasts)
//! ```
//!
//! 1. Only a server that is away is waited for. A refusal, an old protocol or a bad command ends
//!    the command at once.
//! 2. The work may begin again, so it must go on from what an earlier attempt has done.
//!    [`Waiter::client`] is for work that must not happen twice: it waits for a connection only.
//! 3. A stop by the user ends the wait at once.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use client::{Client, Connector, LinkChoice, Patience, Progress, Rate, RateLimits};

use crate::error::CommandError;
use crate::running::RunningCommand;
use crate::{moment, output, quantity};

/// Options of the commands that connect as this node
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Connection")]
pub(crate) struct LinkArgs {
    /// Time for which the command waits for a server that is away, as in 90s or 2h; 0 does not wait
    /// [default: wait in client.toml, otherwise 60m]
    #[arg(long, value_name = "LENGTH", value_parser = model::parse_length)]
    pub(crate) wait: Option<Duration>,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
}

/// Limits on the bytes of a command's connections
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Connection")]
pub(crate) struct LimitArgs {
    /// Maximum number of bytes that the command sends in a second, as in 10M [default: limits in
    /// client.toml]
    #[arg(long, value_name = "RATE")]
    limit_rate_send: Option<Rate>,
    /// Maximum number of bytes that the command receives in a second, as in 10M [default: limits in
    /// client.toml]
    #[arg(long, value_name = "RATE")]
    limit_rate_receive: Option<Rate>,
}

impl LinkArgs {
    pub(crate) fn choice(&self) -> LinkChoice {
        LinkChoice { wait: self.wait, limits: self.limits.limits() }
    }
}

impl LimitArgs {
    pub(crate) fn limits(&self) -> RateLimits {
        RateLimits { send: self.limit_rate_send, receive: self.limit_rate_receive }
    }
}

/// Interval between two looks whether the user has stopped a command that waits.
const STOP_INTERVAL: Duration = Duration::from_millis(50);

/// Runner of work that needs a server.
pub(crate) struct Waiter {
    connector: Connector,
    progress: Arc<Progress>,
    quiet: bool,
    /// Record of the command for the status.
    running: Option<Arc<RunningCommand>>,
}

/// Wait of a command, over all its attempts.
struct Wait<'a> {
    waiter: &'a Waiter,
    patience: Patience,
    /// Begin of the present absence of the server.
    since: Option<Instant>,
}

impl Waiter {
    pub(crate) fn new(connector: Connector, progress: Arc<Progress>, quiet: bool) -> Self {
        Self { connector, progress, quiet, running: None }
    }

    /// Notes in `running` when the command waits.
    pub(crate) fn recorded_in(self, running: Option<Arc<RunningCommand>>) -> Self {
        Self { running, ..self }
    }

    pub(crate) fn into_connector(self) -> Connector {
        self.connector
    }

    /// Connects. Waits for a server that is away, but not for one that goes away later.
    pub(crate) fn client(&self) -> Result<Client, CommandError> {
        let mut wait = Wait::new(self);
        loop {
            match self.connect(&mut wait) {
                Err(error) => wait.pause(error)?,
                connected => return connected,
            }
        }
    }

    /// Runs `work` until it ends for another reason than the loss of the server.
    pub(crate) fn run<T, E: Into<CommandError>>(
        &self,
        mut work: impl FnMut(&Client, &Arc<Progress>) -> Result<T, E>,
    ) -> Result<T, CommandError> {
        let mut wait = Wait::new(self);
        loop {
            let error = match self.connect(&mut wait) {
                Err(error) => error,
                Ok(client) => match work(&client, &self.progress) {
                    Ok(done) => return Ok(done),
                    Err(error) => wait.heed_loss(error.into())?,
                },
            };
            wait.pause(error)?;
        }
    }

    fn connect(&self, wait: &mut Wait<'_>) -> Result<Client, CommandError> {
        self.progress.hold();
        let client = self.connector.connect(&self.progress)?;
        wait.end();
        Ok(client)
    }

    /// Says that the server went away or is back, and records it for the status.
    fn note(&self, line: &str) {
        if let Some(running) = &self.running {
            running.note(&self.progress);
        }
        if !self.quiet {
            output::say(line);
        }
    }
}

impl<'a> Wait<'a> {
    fn new(waiter: &'a Waiter) -> Self {
        Self { waiter, patience: waiter.connector.patience(), since: None }
    }

    /// Says that the connection is lost, if another server may go on with the work. Returns an
    /// error that has another reason.
    fn heed_loss(&self, error: CommandError) -> Result<CommandError, CommandError> {
        if !error.is_loss || self.waiter.progress.is_stopped() {
            return Err(error);
        }
        if self.waiter.connector.has_several_servers() {
            self.waiter.note(&format!("{}; continuing with another server", error.message));
        }
        Ok(error)
    }

    /// Waits until the next attempt. Fails if there is to be none, because of `error`.
    fn pause(&mut self, error: CommandError) -> Result<(), CommandError> {
        let progress = &self.waiter.progress;
        if !error.is_loss || progress.is_stopped() {
            return Err(error);
        }
        let Some(pause) = self.patience.next(progress.landmark()) else {
            return Err(self.give_up(error));
        };
        if self.since.is_none() && self.patience.waits() {
            progress.begin_absence(self.patience.left());
            self.since = Some(sys::clock::monotonic());
            self.announce(&error);
        }
        let began = sys::clock::monotonic();
        while began.elapsed() < pause {
            if progress.is_stopped() {
                return Err(CommandError::new(self.interrupted()));
            }
            sys::clock::sleep(STOP_INTERVAL.min(pause));
        }
        self.patience.note_away(began.elapsed());
        Ok(())
    }

    fn announce(&self, error: &CommandError) {
        let Some(absence) = self.waiter.progress.absence() else { return };
        self.waiter.note(&format!(
            "{}; the server is away since {}; waiting until {}; press Ctrl-C to stop",
            error.message,
            moment::time_of_day(absence.since),
            moment::shown_after(absence.until, absence.since),
        ));
    }

    /// Takes note that a server has answered.
    fn end(&mut self) {
        let Some(since) = self.since.take() else { return };
        self.waiter.progress.end_absence();
        let away = quantity::clock(since.elapsed());
        self.waiter.note(&format!("the server is back after {away}; going on"));
    }

    fn interrupted(&self) -> String {
        format!("interrupted while the server was away{}", self.committed())
    }

    fn give_up(&self, error: CommandError) -> CommandError {
        let Some(since) = self.since else { return error };
        let (message, waited) = (&error.message, quantity::clock(since.elapsed()));
        let message = format!("{message}; waited {waited} for the server{}", self.committed());
        CommandError { message, ..error }
    }

    /// Returns what a backup has committed, as the end of a message.
    fn committed(&self) -> String {
        match self.waiter.progress.committed.load(Relaxed) {
            0 => String::new(),
            objects => format!(
                "; {} {} committed, and the next run goes on from there",
                quantity::counted(objects, "object"),
                if objects == 1 { "is" } else { "are" },
            ),
        }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if self.since.is_some() {
            self.waiter.progress.end_absence();
        }
    }
}
