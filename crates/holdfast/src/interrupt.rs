//! Signals: the first SIGINT or SIGTERM asks for an orderly end, the second ends the process at
//! once. SIGUSR1 pauses the command, and SIGUSR2 lets it go on.

use std::sync::Arc;

use client::Progress;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::{CommandError, NOT_DONE};
use crate::output;

/// The signals that ask this process to end.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Catches the signals. The caller must be inside a tokio runtime.
    pub(crate) fn catch() -> Result<Self, CommandError> {
        let interrupt = catch(SignalKind::interrupt())?;
        Ok(Self { interrupt, terminate: catch(SignalKind::terminate())? })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// Waits for the next signal. Returns true if it is the signal of the terminal.
    pub(crate) async fn next_is_interrupt(&mut self) -> bool {
        tokio::select! {
            _ = self.interrupt.recv() => true,
            _ = self.terminate.recv() => false,
        }
    }

    /// Waits for the next signal and ends the process at once.
    pub(crate) async fn end_at_once(mut self) -> ! {
        self.next().await;
        std::process::exit(i32::from(NOT_DONE))
    }
}

/// Catches signals of `kind`. The caller must be inside a tokio runtime.
fn catch(kind: SignalKind) -> Result<Signal, CommandError> {
    signal(kind).map_err(|error| CommandError::new(format!("cannot catch signals: {error}")))
}

/// Signals that pause a command and let it go on.
struct PauseSignals {
    pause: Signal,
    resume: Signal,
}

impl PauseSignals {
    fn catch() -> Result<Self, CommandError> {
        let pause = catch(SignalKind::user_defined1())?;
        Ok(Self { pause, resume: catch(SignalKind::user_defined2())? })
    }

    /// Waits for the next signal. Returns true if it pauses the command.
    async fn next(&mut self) -> bool {
        tokio::select! {
            _ = self.pause.recv() => true,
            _ = self.resume.recv() => false,
        }
    }
}

/// Text about a command that has transfers, after the first signal that ends it.
pub(crate) const TRANSFERS_END: &str =
    "stopping after the transfers under way; interrupt again to stop at once";

/// Stops the command of `progress`, pauses it and lets it go on when signals come. Calls `changed`
/// after a pause has begun or ended. The watch lasts as long as the process. `stopping` is said
/// after the first signal that ends the command.
///
/// `is_paused` tells whether a signal to pause came before the watch. It is called when signals are
/// caught already, so that no signal is lost in between.
pub(crate) fn watch(
    progress: &Arc<Progress>,
    quiet: bool,
    stopping: Option<&'static str>,
    is_paused: impl FnOnce() -> bool,
    changed: impl Fn() + Send + 'static,
) -> Result<(), CommandError> {
    let failed = |error| CommandError::new(format!("cannot wait for signals: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(failed)?;
    let (mut signals, mut pauses) = {
        let _entered = runtime.enter();
        (Signals::catch()?, PauseSignals::catch()?)
    };
    if is_paused() {
        turn(progress, true, quiet);
        changed();
    }
    let progress = Arc::clone(progress);
    let watch = move || {
        runtime.block_on(async move {
            loop {
                let pauses = tokio::select! {
                    () = signals.next() => break,
                    pauses = pauses.next() => pauses,
                };
                turn(&progress, pauses, quiet);
                changed();
            }
            progress.stop();
            if let Some(stopping) = stopping.filter(|_| !quiet) {
                output::say(stopping);
            }
            signals.next().await;
            if !quiet {
                output::say(stopped_text(&progress));
            }
            std::process::exit(i32::from(NOT_DONE))
        })
    };
    let thread = std::thread::Builder::new().name("signals".to_owned());
    // No thread joins the signal thread, which has nothing to finish.
    drop(thread.spawn(watch).map_err(failed)?);
    Ok(())
}

/// Returns what is left of a command that ends at once.
fn stopped_text(progress: &Progress) -> &'static str {
    match progress.committed_so_far() {
        Some(_) => {
            "stopped at once; what the server has committed is kept, and is not sent again when \
             the same command is run again"
        }
        None => "stopped at once",
    }
}

/// Pauses the command of `progress`, or lets it go on.
fn turn(progress: &Progress, pauses: bool, quiet: bool) {
    let was_paused = progress.is_paused();
    if pauses {
        progress.pause();
    } else {
        progress.resume();
    };
    if quiet || was_paused == pauses {
        return;
    }
    output::say(if pauses {
        "paused; SIGUSR2 lets the command go on, as in 'kill -USR2 PID'"
    } else {
        "going on after the pause"
    });
}
