//! Pauses of a command, which a person or a program orders. The connection stays: the keep-alive of
//! the network edge goes on.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use model::ServerTime;
use sys::lock::{Condvar, Mutex};

/// Interval between two looks whether a command that is paused was stopped.
const STOP_INTERVAL: Duration = Duration::from_millis(100);

/// Pauses of a command so far.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    /// True while the command is paused. The flag lies outside the lock, because walkers read it
    /// for each directory.
    is_paused: AtomicBool,
    state: Mutex<State>,
    resumed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Begin of the present pause, by the clock of this machine, and for measuring.
    since: Option<(ServerTime, Instant)>,
    count: u64,
    /// Time of the pauses that have ended.
    time: Duration,
}

impl Pauses {
    /// Begins a pause, unless the command is paused.
    pub(crate) fn begin(&self) {
        let mut state = self.state.lock();
        if state.since.is_none() {
            state.since = Some((sys::clock::system(), sys::clock::monotonic()));
            state.count += 1;
            self.is_paused.store(true, Relaxed);
        }
    }

    /// Ends the pause.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
        if let Some((_, since)) = state.since.take() {
            state.time += since.elapsed();
            self.is_paused.store(false, Relaxed);
            self.resumed.notify_all();
        }
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused.load(Relaxed)
    }

    /// Waits until the command is not paused, or `is_stopped`.
    pub(crate) fn hold(&self, is_stopped: impl Fn() -> bool) {
        if !self.is_paused() {
            return;
        }
        let mut state = self.state.lock();
        while state.since.is_some() && !is_stopped() {
            state = self.resumed.wait_timeout(state, STOP_INTERVAL);
        }
    }

    /// Returns the begin of the present pause, by the clock of this machine.
    pub(crate) fn since(&self) -> Option<ServerTime> {
        self.state.lock().since.map(|(since, _)| since)
    }

    /// Returns the number of pauses, and their time.
    pub(crate) fn sum(&self) -> (u64, Duration) {
        let state = self.state.lock();
        let present = state.since.map_or(Duration::ZERO, |(_, since)| since.elapsed());
        (state.count, state.time + present)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn work_is_held_until_the_pause_ends() {
        let pauses = Arc::new(Pauses::default());
        pauses.hold(|| panic!("nobody asks for a stop without a pause"));
        pauses.begin();
        pauses.begin();
        assert!(pauses.is_paused() && pauses.since().is_some());
        let held = {
            let pauses = Arc::clone(&pauses);
            std::thread::spawn(move || pauses.hold(|| false))
        };
        pauses.end();
        held.join().expect("it goes on");
        let (count, time) = pauses.sum();
        assert!(count == 1 && !time.is_zero());
        assert_eq!((pauses.is_paused(), pauses.since()), (false, None));
        pauses.end();
        assert_eq!(pauses.sum(), (count, time), "nothing is paused");
    }

    #[test]
    fn a_stop_ends_the_wait_of_a_command_that_is_paused() {
        let pauses = Pauses::default();
        pauses.begin();
        pauses.hold(|| true);
        assert!(pauses.is_paused());
    }
}
