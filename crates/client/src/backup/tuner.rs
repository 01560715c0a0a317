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
    waited: Duration,
    last: Step,
    /// Windows left in which the step before the last is not taken again.
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
            waited: Duration::ZERO,
            last: Step::Stay,
            hold: 0,
            patience: PATIENCE,
        }
    }

    pub(super) fn compression(&self) -> Compression {
        LADDER[self.at]
    }

    /// A quantum was handed on after it had `waited`.
    pub(super) fn note(&mut self, waited: Duration) {
        self.quanta += 1;
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
        (self.window, self.quanta, self.waited) = (now, 0, Duration::ZERO);
        self.turn(window.step());
    }

    /// Takes a step, unless it would only undo the last one for the next to undo it again.
    fn turn(&mut self, step: Step) {
        self.hold = self.hold.saturating_sub(1);
        if step == Step::Stay {
            return;
        }
        let turns_back = self.last != Step::Stay && step != self.last;
        if turns_back {
            if self.hold > 0 {
                return;
            }
            self.hold = self.patience;
            self.patience = (self.patience * 2).min(PATIENCE_MAX);
        }
        let at = match step {
            Step::Harder => (self.at + 1).min(LADDER.len() - 1),
            Step::Lighter => self.at.saturating_sub(1),
            Step::Stay => self.at,
        };
        if at != self.at {
            self.last = step;
            self.at = at;
        }
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
    fn it_goes_to_the_ends_and_settles_between() {
        let mut tuner = Tuner::start();
        (0..20).for_each(|_| tuner.turn(Step::Harder));
        assert_eq!(tuner.compression(), Compression::Level(9));
        let mut tuner = Tuner::start();
        (0..20).for_each(|_| tuner.turn(Step::Lighter));
        assert_eq!(tuner.compression(), Compression::Stored);
        // Just below here the network is the bottleneck, from here on the processors.
        let mut turns = 0;
        for _ in 0..200 {
            let before = tuner.at;
            tuner.turn(if tuner.at < 2 { Step::Harder } else { Step::Lighter });
            turns += u32::from(before != tuner.at);
        }
        assert!(turns < 16, "{turns} turns");
    }
}
