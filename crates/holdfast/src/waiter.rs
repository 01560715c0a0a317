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
//! 4. Settings that a connection brings hold from then on: the time that the command waits, and its
//!    priority.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use client::{Client, Connector, LinkChoice, Patience, Progress, Rate, RateLimits, Standing};

use crate::error::CommandError;
use crate::options::{Global, Priority};
use crate::running::RunningCommand;
use crate::{home, moment, output, priority, quantity};

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
    /// Another node, whose data is read.
    #[arg(skip)]
    pub(crate) reading: Option<String>,
}

/// The node whose data a command reads
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct ReadingArgs {
    /// Read what this node has stored, as far as it lets this machine; see 'holdfast access'
    #[arg(long, value_name = "NODE")]
    from_node: Option<String>,
}

impl ReadingArgs {
    pub(crate) fn is_given(&self) -> bool {
        self.from_node.is_some()
    }

    /// Returns the options of a connection that reads the data of the node.
    pub(crate) fn link(&self, link: &LinkArgs) -> LinkArgs {
        LinkArgs { reading: self.from_node.clone(), ..link.clone() }
    }
}

/// Limits on the bytes of a command's connections
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Connection")]
pub(crate) struct LimitArgs {
    /// Maximum number of bytes that the command sends in a second, and that it receives, as in 10M
    #[arg(long, value_name = "RATE")]
    limit_rate: Option<Rate>,
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
    /// Returns true if one of the options is given.
    pub(crate) fn is_given(&self) -> bool {
        self.wait.is_some() || self.limits.is_given()
    }

    pub(crate) fn choice(&self) -> LinkChoice {
        let limits = self.limits.limits();
        let reading = self.reading.clone();
        LinkChoice { is_scheduled: home::is_scheduled(), wait: self.wait, limits, reading }
    }
}

impl LimitArgs {
    /// Returns true if one of the options is given.
    pub(crate) fn is_given(&self) -> bool {
        self.limits() != RateLimits::default()
    }

    pub(crate) fn limits(&self) -> RateLimits {
        RateLimits {
            send: self.limit_rate_send.or(self.limit_rate),
            receive: self.limit_rate_receive.or(self.limit_rate),
        }
    }
}

/// Interval between two looks whether the user has stopped a command that waits.
pub(crate) const STOP_INTERVAL: Duration = Duration::from_millis(50);

/// Returns the line that the server is away, for this reason; `None` if it is not.
pub(crate) fn away_line(reason: &str, progress: &Progress) -> Option<String> {
    let absence = progress.absence()?;
    Some(format!(
        "{reason}; the server is away since {}; waiting until {}; press Ctrl-C to stop",
        moment::time_of_day(absence.since),
        moment::shown_after(absence.until, absence.since),
    ))
}

/// Returns the line that a server is back that was away since `since`.
pub(crate) fn back_line(since: Instant) -> String {
    format!("the server is back after {}; going on", quantity::clock(since.elapsed()))
}

/// Returns the message of a command that has waited since `since` in vain.
pub(crate) fn given_up_after(reason: &str, since: Instant) -> String {
    format!("{reason}; waited {} for the server", quantity::clock(since.elapsed()))
}

/// Runner of work that needs a server.
pub(crate) struct Waiter {
    connector: Arc<Connector>,
    progress: Arc<Progress>,
    quiet: bool,
    /// Priority on the command line.
    priority: Option<Priority>,
    /// Record of the command for the status.
    running: Option<Arc<RunningCommand>>,
}

/// Wait of a command, over all its attempts.
struct Wait<'a> {
    waiter: &'a Waiter,
    patience: Patience,
    /// Begin of the present absence of the server.
    since: Option<Instant>,
    /// True while the absence counts as an interruption.
    is_absent: bool,
    /// True if the user was told of the absence.
    is_announced: bool,
}

impl Waiter {
    pub(crate) fn new(connector: Arc<Connector>, progress: Arc<Progress>, global: &Global) -> Self {
        let Global { quiet, priority, .. } = *global;
        Self { connector, progress, quiet, priority, running: None }
    }

    /// Notes in `running` when the command waits.
    pub(crate) fn recorded_in(self, running: Option<Arc<RunningCommand>>) -> Self {
        Self { running, ..self }
    }

    /// Returns the settings of the node. They are those of this moment if the server answers, and
    /// otherwise those that the node received last. The connection is kept for the work.
    pub(crate) fn standing(&self) -> Result<Standing, CommandError> {
        match self.connector.connect(&self.progress, Duration::ZERO) {
            Ok(client) => {
                self.heed_settings(&client);
                self.connector.keep(client);
            }
            Err(error) => {
                tracing::debug!(error = error.message, "the settings are those that came last");
            }
        }
        Ok(self.connector.standing()?)
    }

    /// Runs `question`, which comes before the work of the command, like [`Self::run`]. The
    /// connection is kept for the work.
    pub(crate) fn ask<T, E: Into<CommandError>>(
        &self,
        mut question: impl FnMut(&Client) -> Result<T, E>,
    ) -> Result<T, CommandError> {
        let (client, answer) = self.attempt(|client, _| question(client))?;
        self.connector.keep(client);
        Ok(answer)
    }

    /// Connects. Waits for a server that is away, but not for one that goes away later.
    pub(crate) fn client(&self) -> Result<Client, CommandError> {
        let mut wait = Wait::new(self);
        loop {
            match self.connect(&mut wait) {
                Err(error) => wait.pause(error, false)?,
                connected => return connected,
            }
        }
    }

    /// Runs `work` until it ends for another reason than the loss of the server.
    pub(crate) fn run<T, E: Into<CommandError>>(
        &self,
        work: impl FnMut(&Client, &Arc<Progress>) -> Result<T, E>,
    ) -> Result<T, CommandError> {
        self.attempt(work).map(|(_, done)| done)
    }

    /// Runs `work` like [`Self::run`]. Also returns the connection with which it has ended.
    fn attempt<T, E: Into<CommandError>>(
        &self,
        mut work: impl FnMut(&Client, &Arc<Progress>) -> Result<T, E>,
    ) -> Result<(Client, T), CommandError> {
        let mut wait = Wait::new(self);
        loop {
            match self.connect(&mut wait) {
                Err(error) => wait.pause(error, false)?,
                Ok(client) => match work(&client, &self.progress) {
                    Ok(done) => return Ok((client, done)),
                    Err(error) => wait.heed_loss(error.into())?,
                },
            }
        }
    }

    fn connect(&self, wait: &mut Wait<'_>) -> Result<Client, CommandError> {
        self.progress.hold();
        let began = sys::clock::monotonic();
        match self.connector.connect(&self.progress, wait.patience.left()) {
            Ok(client) => {
                wait.end();
                wait.patience.set_limit(self.connector.wait());
                self.heed_settings(&client);
                Ok(client)
            }
            Err(error) => {
                wait.since.get_or_insert(began);
                wait.patience.note_away(began.elapsed());
                Err(error.into())
            }
        }
    }

    /// Lowers the priority if settings that have come ask for that.
    fn heed_settings(&self, client: &Client) {
        priority::heed(self.priority, Some(client.standing()));
    }

    /// Records for the status whether the server is away.
    fn record(&self) {
        if let Some(running) = &self.running {
            running.note(&self.progress);
        }
    }

    /// Says that the server went away or is back, and records it for the status.
    fn note(&self, line: &str) {
        self.record();
        if !self.quiet {
            output::say(line);
        }
    }
}

impl<'a> Wait<'a> {
    fn new(waiter: &'a Waiter) -> Self {
        let patience = waiter.connector.patience();
        Self { waiter, patience, since: None, is_absent: false, is_announced: false }
    }

    /// Waits after a loss of the connection, and says so if another server may go on with the work.
    /// Returns an error that has another reason.
    fn heed_loss(&mut self, error: CommandError) -> Result<(), CommandError> {
        if !error.is_loss || self.waiter.progress.is_stopped() {
            return Err(error);
        }
        if self.waiter.connector.has_several_servers() {
            self.waiter.note(&format!("{}; continuing with another server", error.message));
        }
        self.pause(error, true)
    }

    /// Waits until the next attempt. Fails if there is to be none, because of `error`. `found` is
    /// true if a server had answered.
    fn pause(&mut self, error: CommandError, found: bool) -> Result<(), CommandError> {
        let progress = &self.waiter.progress;
        if !error.is_loss || progress.is_stopped() {
            return Err(error);
        }
        let Some(pause) = self.patience.next(progress.landmark(), found) else {
            return Err(self.give_up(error));
        };
        self.since.get_or_insert_with(sys::clock::monotonic);
        if self.patience.waits() {
            self.note_absence(&error, found);
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

    /// Begins an absence, and says so. After the loss of one of several servers nothing is said
    /// until none of the others answers.
    fn note_absence(&mut self, error: &CommandError, found: bool) {
        if !self.is_absent {
            self.is_absent = true;
            self.waiter.progress.begin_absence(self.patience.left());
        }
        if found && self.waiter.connector.has_several_servers() {
            self.waiter.record();
        } else if !self.is_announced {
            self.is_announced = true;
            self.announce(error);
        }
    }

    fn announce(&self, error: &CommandError) {
        if let Some(line) = away_line(&error.message, &self.waiter.progress) {
            self.waiter.note(&line);
        }
    }

    /// Takes note that a server has answered.
    fn end(&mut self) {
        let since = self.since.take();
        if !std::mem::take(&mut self.is_absent) {
            return;
        }
        self.waiter.progress.end_absence();
        if !std::mem::take(&mut self.is_announced) {
            return self.waiter.record();
        }
        let since = since.expect("an absence that was announced has a begin");
        self.waiter.note(&back_line(since));
    }

    fn interrupted(&self) -> String {
        format!("interrupted while the server was away{}", self.committed())
    }

    fn give_up(&self, error: CommandError) -> CommandError {
        let Some(since) = self.since.filter(|_| self.patience.waits()) else { return error };
        let message = format!("{}{}", given_up_after(&error.message, since), self.committed());
        CommandError { message, ..error }
    }

    /// Returns what a backup or an archive has committed, as the end of a message.
    fn committed(&self) -> String {
        let progress = &self.waiter.progress;
        let objects = progress.committed.load(Relaxed);
        let counted = quantity::counted(objects, "object");
        match progress.archive() {
            Some((number, true)) => format!("; archive {number} has all its objects"),
            Some((number, false)) => format!("; archive {number} is incomplete, with {counted}"),
            None if objects == 0 => String::new(),
            None => format!(
                "; {counted} {} committed, and the next run goes on from there",
                quantity::are(objects),
            ),
        }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if self.is_absent {
            self.waiter.progress.end_absence();
        }
    }
}
