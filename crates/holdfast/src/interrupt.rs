//! SIGINT and SIGTERM: the first asks for an orderly end, the second ends the process at once.

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
        let catch = |kind| {
            signal(kind)
                .map_err(|error| CommandError::new(format!("cannot catch signals: {error}")))
        };
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

    /// Waits for the next signal and ends the process at once.
    pub(crate) async fn end_at_once(mut self) -> ! {
        self.next().await;
        std::process::exit(i32::from(NOT_DONE))
    }
}

/// Stops the command of `progress` when a signal comes. The watch lasts as long as the process.
pub(crate) fn watch(progress: &Arc<Progress>, quiet: bool) -> Result<(), CommandError> {
    let failed = |error| CommandError::new(format!("cannot wait for signals: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(failed)?;
    let mut signals = {
        let _entered = runtime.enter();
        Signals::catch()?
    };
    let progress = Arc::clone(progress);
    let watch = move || {
        runtime.block_on(async move {
            signals.next().await;
            progress.stop();
            if !quiet {
                output::say(
                    "stopping after the transfers under way; interrupt again to stop at once",
                );
            }
            signals.end_at_once().await
        })
    };
    let thread = std::thread::Builder::new().name("signals".to_owned());
    // No thread joins the signal thread, which has nothing to finish.
    drop(thread.spawn(watch).map_err(failed)?);
    Ok(())
}
