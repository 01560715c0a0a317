//! How many threads do the same work: as many as processors while the caches are warm, more while
//! they wait for the disk and processors idle, because a disk answers many at once.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Measurements after which the size of the crew is thought over.
const WINDOW: u64 = 16;
/// One piece of work in so many is measured: asking the kernel costs as much as a stat.
const MEASURED: u64 = 4;
/// Of the measured, the share that waited from which more threads are wanted.
const GROW_PER_CENT: u64 = 12;
/// The share below which fewer are.
const SHRINK_PER_CENT: u64 = 3;
/// The size is thought over so often at most: the kernel counts idle time in steps of 10 ms.
const INTERVAL: Duration = Duration::from_millis(30);
/// Idle processors, in per cent of one, from which more threads find something to run on.
const IDLE_PER_CENT: u128 = 40;
/// And below which the threads that there are stand in each other's way.
const BUSY_PER_CENT: u128 = 5;
/// So many threads for each that works keep a processor busy while they wait: fewer idle it.
const WAITING_SHARE: usize = 8;

/// A crew of threads.
pub(super) struct Crew {
    least: usize,
    most: usize,
    at_work: AtomicUsize,
    wanted: AtomicUsize,
    pieces: AtomicU64,
    measured: AtomicU64,
    waited: AtomicU64,
    /// When the size was last thought over, and the machine's idle time then.
    last: Mutex<(Instant, Option<Duration>)>,
}

/// What a thread is to do after a piece of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    GoOn,
    /// Start another thread, which is counted already, and go on.
    Recruit,
    /// End: others are enough.
    Leave,
}

impl Crew {
    /// A crew that begins with `least` threads, which the caller starts.
    pub(super) fn new(least: usize, most: usize) -> Self {
        Self {
            least,
            most: most.max(least),
            at_work: AtomicUsize::new(least),
            wanted: AtomicUsize::new(least),
            pieces: AtomicU64::new(0),
            measured: AtomicU64::new(0),
            waited: AtomicU64::new(0),
            last: Mutex::new((sys::clock::monotonic(), sys::process::idle_time())),
        }
    }

    /// How many threads there are at the beginning.
    pub(super) fn least(&self) -> usize {
        self.least
    }

    /// Performs `work`; now and then notes whether the thread had to wait meanwhile.
    pub(super) fn measure<T>(&self, work: impl FnOnce() -> T) -> T {
        if self.least == self.most || !self.pieces.fetch_add(1, Relaxed).is_multiple_of(MEASURED) {
            return work();
        }
        let before = sys::process::waits_of_thread();
        let outcome = work();
        self.note(sys::process::waits_of_thread() != before);
        outcome
    }

    fn note(&self, waited: bool) {
        self.waited.fetch_add(u64::from(waited), Relaxed);
        if self.measured.fetch_add(1, Relaxed) + 1 >= WINDOW
            && let Some(idle) = self.idle_since_last()
        {
            // Two threads here at once only think it over twice.
            let measured = self.measured.swap(0, Relaxed).max(1);
            let share = self.waited.swap(0, Relaxed) * 100 / measured;
            self.resize(share, idle);
        }
    }

    fn resize(&self, waited_per_cent: u64, idle_per_cent: u128) {
        let at_work = self.at_work.load(Relaxed);
        let fewer = at_work.saturating_sub((at_work / 4).max(1));
        if waited_per_cent < SHRINK_PER_CENT {
            self.wanted.store(fewer.max(self.least), Relaxed);
        } else if idle_per_cent < BUSY_PER_CENT && at_work > self.least * WAITING_SHARE {
            self.wanted.store(fewer.max(self.least * WAITING_SHARE), Relaxed);
        } else if waited_per_cent > GROW_PER_CENT && idle_per_cent >= IDLE_PER_CENT {
            self.wanted.store((at_work * 2).min(self.most), Relaxed);
        }
    }

    /// How idle the processors have been since this was last answered, in per cent of one; `None`
    /// when that was just now.
    fn idle_since_last(&self) -> Option<u128> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = last.0.elapsed();
        if passed < INTERVAL {
            return None;
        }
        let idle = sys::process::idle_time();
        let per_cent = match (last.1, idle) {
            (Some(before), Some(now)) => {
                now.saturating_sub(before).as_micros() * 100 / passed.as_micros()
            }
            // Unknown: the threads' own waiting has to do.
            _ => IDLE_PER_CENT,
        };
        *last = (sys::clock::monotonic(), idle);
        Some(per_cent)
    }

    /// To be asked between two pieces of work.
    pub(super) fn next(&self) -> Next {
        let (at_work, wanted) = (self.at_work.load(Relaxed), self.wanted.load(Relaxed));
        let becomes = match at_work.cmp(&wanted) {
            std::cmp::Ordering::Equal => return Next::GoOn,
            std::cmp::Ordering::Less => at_work + 1,
            std::cmp::Ordering::Greater => at_work - 1,
        };
        match self.at_work.compare_exchange(at_work, becomes, Relaxed, Relaxed) {
            Ok(_) if becomes > at_work => Next::Recruit,
            Ok(_) => Next::Leave,
            // Another thread has just joined or left.
            Err(_) => Next::GoOn,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the threads of `crew` come to after many looks at how they wait.
    fn size_after(crew: &Crew, waited_per_cent: u64, idle_per_cent: u128) -> usize {
        for _ in 0..200 {
            crew.resize(waited_per_cent, idle_per_cent);
            crew.next();
        }
        crew.at_work.load(Relaxed)
    }

    #[test]
    fn waiting_makes_it_grow_and_work_makes_it_shrink() {
        let crew = Crew::new(2, 64);
        assert_eq!(size_after(&crew, 0, 100), 2);
        assert_eq!(size_after(&crew, 50, 20), 2);
        assert_eq!(size_after(&crew, 50, 100), 64);
        assert_eq!(size_after(&crew, 50, 20), 64);
        assert_eq!(size_after(&crew, 50, 0), 16);
        assert_eq!(size_after(&crew, 50, 100), 64);
        assert_eq!(size_after(&crew, 0, 100), 2);
    }

    #[test]
    fn a_thread_joins_or_leaves_at_a_time() {
        let crew = Crew::new(1, 3);
        crew.wanted.store(3, Relaxed);
        let all: Vec<Next> = (0..3).map(|_| crew.next()).collect();
        assert_eq!(all, [Next::Recruit, Next::Recruit, Next::GoOn]);
        crew.wanted.store(2, Relaxed);
        assert_eq!((crew.next(), crew.next()), (Next::Leave, Next::GoOn));
    }

    #[test]
    fn what_is_asked_is_done() {
        let crew = Crew::new(1, 8);
        assert_eq!((0..100).map(|n| crew.measure(|| n)).sum::<u32>(), 4950);
    }
}
