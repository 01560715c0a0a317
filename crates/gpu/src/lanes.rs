//! Lanes, made when they are needed and kept for the next batch.

use std::io;
use std::sync::{Condvar, Mutex};

/// At most so many lanes as [`Lanes::new`] says.
#[derive(Debug)]
pub(crate) struct Lanes<L> {
    state: Mutex<State<L>>,
    /// Announces each change of the state.
    changed: Condvar,
    most: usize,
}

#[derive(Debug)]
struct State<L> {
    idle: Vec<L>,
    /// Number of lanes that are there, idle or in use.
    there: usize,
    /// Number of lanes that are being made.
    in_making: usize,
}

const POISONED: &str = "no thread panics with the lock";

impl<L> Lanes<L> {
    pub(crate) fn new(most: usize) -> Self {
        assert!(most > 0, "somebody does the work");
        let state = Mutex::new(State { idle: Vec::new(), there: 0, in_making: 0 });
        Self { state, changed: Condvar::new(), most }
    }

    /// Takes a lane. If all are in use, waits for one, unless there may be more: then `make` makes
    /// one. If it cannot be made for want of memory, fewer lanes do the work.
    ///
    /// Nobody waits unless a lane is there or is being made, and whatever becomes of it is
    /// announced.
    pub(crate) fn take(&self, make: impl Fn() -> io::Result<L>) -> io::Result<L> {
        let mut state = self.state.lock().expect(POISONED);
        let mut shortage = None;
        loop {
            if let Some(lane) = state.idle.pop() {
                return Ok(lane);
            }
            if shortage.is_none() && state.there + state.in_making < self.most {
                state.in_making += 1;
                drop(state);
                let made = make();
                state = self.state.lock().expect(POISONED);
                state.in_making -= 1;
                state.there += usize::from(made.is_ok());
                self.changed.notify_all();
                match made {
                    Ok(lane) => return Ok(lane),
                    Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                        shortage = Some(error);
                        continue;
                    }
                    Err(error) => return Err(error),
                }
            }
            if state.there + state.in_making == 0 {
                // The lanes for which this thread has waited are gone.
                match shortage.take() {
                    Some(error) => return Err(error),
                    None => continue,
                }
            }
            state = self.changed.wait(state).expect(POISONED);
        }
    }

    fn give_back(&self, lane: L) {
        self.state.lock().expect(POISONED).idle.push(lane);
        self.changed.notify_all();
    }

    /// Notes that a lane has failed and is not used again.
    fn lose(&self) {
        self.state.lock().expect(POISONED).there -= 1;
        self.changed.notify_all();
    }
}

/// Lane that a thread uses. If the use does not end in order, the lane is not used again.
pub(crate) struct Loan<'a, L>(pub(crate) &'a Lanes<L>);

impl<L> Loan<'_, L> {
    /// Gives the lane back.
    pub(crate) fn end(self, lane: L) {
        self.0.give_back(lane);
        std::mem::forget(self);
    }
}

impl<L> Drop for Loan<'_, L> {
    fn drop(&mut self) {
        self.0.lose();
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

    /// Regression: a thread waited for ever for a lane that another one could not make either.
    #[test]
    fn without_memory_for_any_lane_nobody_waits() {
        for _ in 0..50 {
            let (lanes, all_make) = (Lanes::<u8>::new(4), std::sync::Barrier::new(4));
            let make = || {
                all_make.wait();
                Err(short())
            };
            std::thread::scope(|threads| {
                let all: Vec<_> = (0..4).map(|_| threads.spawn(|| lanes.take(make))).collect();
                assert!(all.into_iter().all(|one| one.join().expect("no panic").is_err()));
            });
        }
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
