//! Crews of threads that do the same work. A crew has as many threads as processors while the
//! caches are warm. It grows while threads wait for the disk and processors are idle, because a
//! disk serves many requests at once.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use sys::lock::Mutex;
/// Number of measurements after which the size of the crew is decided again.
const WINDOW: u64 = 16;
/// Number of pieces of work from one measured piece to the next. A measurement takes as long as a
/// stat.
const MEASURED: u64 = 4;
/// Percentage of measured pieces of work that had to wait, above which the crew grows.
const GROW_PER_CENT: u64 = 12;
/// Percentage of measured pieces of work that had to wait, below which the crew shrinks.
const SHRINK_PER_CENT: u64 = 3;
/// Minimum time between two decisions: the kernel counts idle time in steps of 10 ms.
const INTERVAL: Duration = Duration::from_millis(30);
/// Minimum idle time of the processors, in per cent of one processor, at which the crew grows.
const IDLE_PER_CENT: u128 = 40;
/// Idle time, in per cent of one processor, below which the threads of a large crew hinder each
/// other.
const BUSY_PER_CENT: u128 = 5;
/// Number of threads that keep a processor busy although most of them wait.
const WAITING_SHARE: usize = 8;

/// Size of a crew of threads, and the measurements that decide it.
pub(super) struct Crew {
    least: usize,
    most: usize,
    at_work: AtomicUsize,
    /// Size that the crew moves to, one thread at a time.
    target: AtomicUsize,
    pieces: AtomicU64,
    measured: AtomicU64,
    waited: AtomicU64,
    /// Time of the last decision, and the machine's idle time at that moment.
    last: Mutex<(Instant, Option<Duration>)>,
}

/// Next step of a thread after a piece of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NextStep {
    GoOn,
    /// Start another thread, which the crew already counts, and go on.
    Recruit,
    /// End: the crew is large enough without this thread.
    Leave,
}

impl Crew {
    /// Makes a crew of `least` threads, which the caller starts.
    pub(super) fn new(least: usize, most: usize) -> Self {
        assert!(least > 0, "a crew has at least one thread");
        Self {
            least,
            most: most.max(least),
            at_work: AtomicUsize::new(least),
            target: AtomicUsize::new(least),
            pieces: AtomicU64::new(0),
            measured: AtomicU64::new(0),
            waited: AtomicU64::new(0),
            last: Mutex::new((sys::clock::monotonic(), sys::process::idle_time())),
        }
    }

    /// Returns the number of threads at the beginning.
    pub(super) fn least(&self) -> usize {
        self.least
    }

    /// Runs `work`. For some pieces of work, notes whether the thread had to wait meanwhile.
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
            // Two threads may decide at the same time, which does no harm.
            let measured = self.measured.swap(0, Relaxed).max(1);
            let share = self.waited.swap(0, Relaxed) * 100 / measured;
            self.resize(share, idle);
        }
    }

    fn resize(&self, waited_per_cent: u64, idle_per_cent: u128) {
        let at_work = self.at_work.load(Relaxed);
        let fewer = at_work.saturating_sub((at_work / 4).max(1));
        if waited_per_cent < SHRINK_PER_CENT {
            self.target.store(fewer.max(self.least), Relaxed);
        } else if idle_per_cent < BUSY_PER_CENT && at_work > self.least * WAITING_SHARE {
            self.target.store(fewer.max(self.least * WAITING_SHARE), Relaxed);
        } else if waited_per_cent > GROW_PER_CENT && idle_per_cent >= IDLE_PER_CENT {
            self.target.store((at_work * 2).min(self.most), Relaxed);
        }
    }

    /// Returns the idle time of the processors since the last decision, in per cent of one
    /// processor; `None` if that decision was less than [`INTERVAL`] ago.
    fn idle_since_last(&self) -> Option<u128> {
        let mut last = self.last.lock();
        let passed = last.0.elapsed();
        if passed < INTERVAL {
            return None;
        }
        let idle = sys::process::idle_time();
        let per_cent = match (last.1, idle) {
            (Some(before), Some(now)) => {
                now.saturating_sub(before).as_micros() * 100 / passed.as_micros()
            }
            // If the system does not report idle times, only the waits of the threads decide.
            _ => IDLE_PER_CENT,
        };
        *last = (sys::clock::monotonic(), idle);
        Some(per_cent)
    }

    /// Returns the next step of the calling thread, which is between two pieces of work.
    pub(super) fn next(&self) -> NextStep {
        let (at_work, target) = (self.at_work.load(Relaxed), self.target.load(Relaxed));
        let becomes = match at_work.cmp(&target) {
            std::cmp::Ordering::Equal => return NextStep::GoOn,
            std::cmp::Ordering::Less => at_work + 1,
            std::cmp::Ordering::Greater => at_work - 1,
        };
        match self.at_work.compare_exchange(at_work, becomes, Relaxed, Relaxed) {
            Ok(_) if becomes > at_work => NextStep::Recruit,
            Ok(_) => NextStep::Leave,
            // Another thread has just joined or left.
            Err(_) => NextStep::GoOn,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the size of `crew` after many decisions.
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
        crew.target.store(3, Relaxed);
        let all: Vec<NextStep> = (0..3).map(|_| crew.next()).collect();
        assert_eq!(all, [NextStep::Recruit, NextStep::Recruit, NextStep::GoOn]);
        crew.target.store(2, Relaxed);
        assert_eq!((crew.next(), crew.next()), (NextStep::Leave, NextStep::GoOn));
    }

    #[test]
    fn what_is_asked_is_done() {
        let crew = Crew::new(1, 8);
        assert_eq!((0..100).map(|n| crew.measure(|| n)).sum::<u32>(), 4950);
    }
}
