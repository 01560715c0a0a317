//! Lanes, made when they are needed and kept for the next batch.

use std::io;
use std::sync::{Condvar, Mutex};

/// At most so many lanes as [`Lanes::new`] says.
#[derive(Debug)]
pub(crate) struct Lanes<L> {
    state: Mutex<State<L>>,
    given_back: Condvar,
    most: usize,
}

#[derive(Debug)]
struct State<L> {
    idle: Vec<L>,
    /// Number of lanes, idle or in use.
    made: usize,
}

const POISONED: &str = "no thread panics with the lock";

impl<L> Lanes<L> {
    pub(crate) fn new(most: usize) -> Self {
        assert!(most > 0, "somebody does the work");
        let state = Mutex::new(State { idle: Vec::new(), made: 0 });
        Self { state, given_back: Condvar::new(), most }
    }

    /// Takes a lane. If all are in use, waits for one, unless there may be more: then `make` makes
    /// one. If it cannot be made for want of memory, fewer lanes do the work.
    pub(crate) fn take(&self, make: impl Fn() -> io::Result<L>) -> io::Result<L> {
        let mut state = self.state.lock().expect(POISONED);
        loop {
            if let Some(lane) = state.idle.pop() {
                return Ok(lane);
            }
            if state.made < self.most {
                state.made += 1;
                drop(state);
                let made = make();
                state = self.state.lock().expect(POISONED);
                match made {
                    Ok(lane) => return Ok(lane),
                    Err(error) => {
                        state.made -= 1;
                        let is_short = error.kind() == io::ErrorKind::OutOfMemory;
                        if !is_short || (state.made == 0 && state.idle.is_empty()) {
                            return Err(error);
                        }
                    }
                }
                if !state.idle.is_empty() {
                    continue;
                }
            }
            state = self.given_back.wait(state).expect(POISONED);
        }
    }

    pub(crate) fn give_back(&self, lane: L) {
        self.state.lock().expect(POISONED).idle.push(lane);
        self.given_back.notify_one();
    }

    /// Leaks the lanes that are not in use.
    pub(crate) fn leak(&self) {
        let idle = std::mem::take(&mut self.state.lock().expect(POISONED).idle);
        idle.into_iter().for_each(std::mem::forget);
    }

    /// Notes that a lane has failed and is not used again.
    pub(crate) fn lose(&self) {
        self.state.lock().expect(POISONED).made -= 1;
        self.given_back.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    fn short() -> io::Error {
        io::Error::new(io::ErrorKind::OutOfMemory, "no memory")
    }

    #[test]
    fn lanes_are_used_again() {
        let (lanes, made) = (Lanes::new(2), AtomicUsize::new(0));
        let make = || Ok(made.fetch_add(1, Relaxed));
        let (one, _) = (lanes.take(make).expect("made"), lanes.take(make).expect("made"));
        assert_eq!((one, made.load(Relaxed)), (0, 2));
        lanes.give_back(one);
        assert_eq!(lanes.take(make).expect("there"), 0);
        lanes.lose();
        assert_eq!(lanes.take(make).expect("made"), 2);
    }

    #[test]
    fn without_memory_for_more_the_first_lane_does_the_work() {
        let lanes = Lanes::new(3);
        assert!(lanes.take(|| Err::<u8, _>(short())).is_err(), "not even one");
        let only = lanes.take(|| Ok(1)).expect("made");
        std::thread::scope(|threads| {
            let waiting = threads.spawn(|| lanes.take(|| Err(short())));
            lanes.give_back(only);
            assert_eq!(waiting.join().expect("no panic").expect("the first lane"), 1);
        });
    }

    #[test]
    fn lanes_serve_more_threads_than_there_are_lanes() {
        let (lanes, in_use) = (Lanes::new(2), AtomicUsize::new(0));
        std::thread::scope(|threads| {
            for _ in 0..8 {
                threads.spawn(|| {
                    for _ in 0..100 {
                        let lane = lanes.take(|| Ok(1)).expect("made");
                        assert!(in_use.fetch_add(1, Relaxed) < 2);
                        in_use.fetch_sub(1, Relaxed);
                        lanes.give_back(lane);
                    }
                });
            }
        });
    }
}
