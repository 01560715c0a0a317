//! Compression by what is the bottleneck: while the network keeps quanta waiting and processors
//! idle, it presses harder; while processors are the bottleneck, less.

use std::time::{Duration, Instant};

use chunk::Compression;

/// From least work to most.
const LADDER: [Compression; 8] = [
    Compression::Stored,
    Compression::Level(-5),
    Compression::Level(-1),
    Compression::Level(1),
    Compression::Standard,
    Compression::Level(3),
    Compression::Level(6),
    Compression::Level(9),
];
/// Where it starts on [`LADDER`]: the default of those who do not tune.
const START: usize = 4;

/// How long a strength is tried before it is judged, at least.
const WINDOW: Duration = Duration::from_millis(100);
/// Quanta in a window at least.
const WINDOW_QUANTA: u32 = 2;
/// Windows after which a strength that turned out worse is tried again; doubled each time.
const PATIENCE: u32 = 8;
const PATIENCE_MAX: u32 = 256;
/// A step is taken back when the strength before came to so many times as much.
const WORSE: f64 = 1.04;

/// What one window showed.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// Of the time, the share that a quantum waited to be handed on.
    waited: f64,
    /// Of all processors' time, the share that none used.
    idle: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Harder,
    Lighter,
    Stay,
}

impl Window {
    /// Quanta wait and processors idle: the network, or what is behind it, is the bottleneck.
    /// Processors are busy and nothing waits: they are.
    fn step(self) -> Step {
        match self {
            Self { waited, idle } if waited > 0.2 && idle > 0.15 => Step::Harder,
            Self { idle, .. } if idle < 0.08 => Step::Lighter,
            _ => Step::Stay,
        }
    }
}

/// Chooses a strength of compression while quanta are being pressed.
pub(super) struct Tuner {
    at: usize,
    window: Began,
    quanta: u32,
    bytes: usize,
    waited: Duration,
    last: Step,
    /// Bytes a second that each strength has come to lately, before compression.
    rates: [Option<f64>; LADDER.len()],
    /// A step that turned out worse, and for how many windows it is not tried again.
    held: Step,
    hold: u32,
    patience: u32,
}

#[derive(Clone, Copy)]
struct Began {
    at: Instant,
    idle: Option<Duration>,
}

impl Began {
    fn now() -> Self {
        Self { at: sys::clock::monotonic(), idle: sys::process::idle_time() }
    }
}

impl Tuner {
    pub(super) fn start() -> Self {
        Self {
            at: START,
            window: Began::now(),
            quanta: 0,
            bytes: 0,
            waited: Duration::ZERO,
            last: Step::Stay,
            rates: [None; LADDER.len()],
            held: Step::Stay,
            hold: 0,
            patience: PATIENCE,
        }
    }

    pub(super) fn compression(&self) -> Compression {
        LADDER[self.at]
    }

    /// A quantum of so many `bytes`, not compressed, was handed on after it had `waited`.
    pub(super) fn note(&mut self, bytes: usize, waited: Duration) {
        self.quanta += 1;
        self.bytes += bytes;
        self.waited += waited;
        if self.quanta < WINDOW_QUANTA || self.window.at.elapsed() < WINDOW {
            return;
        }
        let (began, now) = (self.window, Began::now());
        let wall = now.at.duration_since(began.at).as_secs_f64();
        let processors = sys::process::processors();
        let idle = match (began.idle, now.idle) {
            (Some(before), Some(after)) => after.saturating_sub(before).as_secs_f64(),
            // Unknown: as if there were enough.
            _ => wall,
        };
        let window = Window {
            waited: self.waited.as_secs_f64() / wall,
            idle: idle / (wall * processors as f64),
        };
        let rate = self.bytes as f64 / wall;
        (self.window, self.quanta, self.bytes, self.waited) = (now, 0, 0, Duration::ZERO);
        self.turn(window.step(), rate);
    }

    /// Takes a step, or takes the last one back if it came to less. Between two strengths with one
    /// bottleneck each, the better one stays.
    fn turn(&mut self, step: Step, rate: f64) {
        let rate = f64::midpoint(self.rates[self.at].unwrap_or(rate), rate);
        self.rates[self.at] = Some(rate);
        self.hold = self.hold.saturating_sub(1);
        let opposite = match self.last {
            Step::Harder => Step::Lighter,
            Step::Lighter => Step::Harder,
            Step::Stay => Step::Stay,
        };
        let before = self.after(opposite);
        if before != self.at && self.rates[before].is_some_and(|known| known > rate * WORSE) {
            self.hold_back(self.last, self.at);
            self.at = before;
            self.last = Step::Stay;
            return;
        }
        let target = self.after(step);
        if target == self.at || (self.hold > 0 && step == self.held) {
            return;
        }
        if step == opposite && self.rates[target].is_some_and(|known| known < rate) {
            return self.hold_back(step, target);
        }
        self.last = step;
        self.at = target;
    }

    /// Where `step` leads to.
    fn after(&self, step: Step) -> usize {
        match step {
            Step::Harder => (self.at + 1).min(LADDER.len() - 1),
            Step::Lighter => self.at.saturating_sub(1),
            Step::Stay => self.at,
        }
    }

    /// Does not try `step` for a while, which leads to the strength `worse`. What follows may be
    /// other data: then it is tried again as if it had never been.
    fn hold_back(&mut self, step: Step, worse: usize) {
        self.rates[worse] = None;
        self.held = step;
        self.hold = self.patience;
        self.patience = (self.patience * 2).min(PATIENCE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(waited: f64, idle: f64) -> Step {
        Window { waited, idle }.step()
    }

    #[test]
    fn the_bottleneck_decides() {
        assert_eq!(step(0.9, 0.5), Step::Harder);
        assert_eq!(step(0.0, 0.0), Step::Lighter);
        // Whatever is behind the network takes the processors: pressing harder takes more.
        assert_eq!(step(0.9, 0.0), Step::Lighter);
        // The disk that is read from is the bottleneck: nothing is won by pressing less.
        assert_eq!(step(0.0, 0.7), Step::Stay);
    }

    #[test]
    fn it_goes_to_the_ends() {
        let mut tuner = Tuner::start();
        (0..20).for_each(|_| tuner.turn(Step::Harder, 1.0));
        assert_eq!(tuner.compression(), Compression::Level(9));
        let mut tuner = Tuner::start();
        (0..20).for_each(|_| tuner.turn(Step::Lighter, 1.0));
        assert_eq!(tuner.compression(), Compression::Stored);
    }

    /// Below `border` the network is the bottleneck, from there on the processors; `best` comes to
    /// most.
    #[track_caller]
    fn check_settles(border: usize, best: usize) {
        let mut tuner = Tuner::start();
        let mut at_best = 0;
        for _ in 0..400 {
            let step = if tuner.at < border { Step::Harder } else { Step::Lighter };
            let rate = 100.0 - 2.0 * tuner.at.abs_diff(best) as f64;
            tuner.turn(step, rate);
            at_best += u32::from(tuner.at == best);
        }
        assert!(at_best > 340, "{at_best} of 400");
    }

    #[test]
    fn it_settles_on_the_better_side_of_the_border() {
        check_settles(2, 1);
        check_settles(2, 2);
        check_settles(5, 4);
        check_settles(5, 5);
    }

    /// Harder looks right at every strength, and nothing says lighter.
    #[test]
    fn a_step_that_comes_to_less_is_taken_back() {
        let mut tuner = Tuner::start();
        let mut at_best = 0;
        for _ in 0..400 {
            let step = if tuner.at < 6 { Step::Harder } else { Step::Stay };
            tuner.turn(step, if tuner.at == START { 100.0 } else { 80.0 });
            at_best += u32::from(tuner.at == START);
        }
        assert!(at_best > 360, "{at_best} of 400");
    }
}
