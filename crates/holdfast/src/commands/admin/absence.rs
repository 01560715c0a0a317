//! Absence of the server, while a command looks at work that goes on without it: the command waits
//! and looks again. It only asks, so nothing is done twice.

use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{Patience, Progress};

use crate::context::Context;
use crate::error::CommandError;
use crate::waiter::{STOP_INTERVAL, away_line, back_line, given_up_after};

/// Time for which a command waits unless the user sets another.
const WAIT: Duration = Duration::from_secs(3600);

/// Server of a command, which may go away and come back several times.
pub(super) struct AbsentServer {
    patience: Patience,
    progress: Arc<Progress>,
    /// Begin of the present absence.
    since: Option<Instant>,
    /// Number of absences that have ended.
    returns: u64,
}

impl AbsentServer {
    /// `wait` is the time for which the user wants to wait.
    pub(super) fn new(wait: Option<Duration>, progress: Arc<Progress>) -> Self {
        let patience = Patience::new(wait.unwrap_or(WAIT), false);
        Self { patience, progress, since: None, returns: 0 }
    }

    /// Waits a moment after a look has failed with `error`. Fails with it if it has another reason
    /// than an absence of the server, or if the absence has lasted too long.
    pub(super) fn wait(
        &mut self,
        error: CommandError,
        context: &Context,
    ) -> Result<(), CommandError> {
        if !error.is_loss {
            return Err(error);
        }
        let Some(pause) = self.patience.next(self.returns, false) else {
            return Err(self.given_up(error));
        };
        if self.since.is_none() {
            self.since = Some(sys::clock::monotonic());
            self.announce(&error, context);
        }
        let began = sys::clock::monotonic();
        while began.elapsed() < pause && !self.progress.is_stopped() {
            sys::clock::sleep(STOP_INTERVAL.min(pause));
        }
        self.patience.note_away(began.elapsed());
        Ok(())
    }

    fn announce(&self, error: &CommandError, context: &Context) {
        self.progress.begin_absence(self.patience.left());
        if let Some(line) = away_line(&error.message, &self.progress) {
            context.output.note(&line);
        }
    }

    fn given_up(&self, error: CommandError) -> CommandError {
        let Some(since) = self.since else { return error };
        let message = given_up_after(&error.message, since);
        CommandError { message, ..error }
    }

    /// Takes note that the server has answered.
    pub(super) fn end(&mut self, context: &Context) {
        let Some(since) = self.since.take() else { return };
        self.progress.end_absence();
        self.returns += 1;
        context.output.note(&back_line(since));
    }
}
