//! Compression by what is the bottleneck: the strength with which most gets through.
//!
//! ```text
//!   comes to (strength) = min(processors (strength), link / ratio (strength))
//! ```
//!
//! What processors come to and the ratio are seen of the strengths that were at work lately, and
//! reckoned of the others. What the link carries shows only while more is on its way to the server
//! than the way itself holds: the server tells what has arrived. Until then a lighter strength may
//! be too much for the link, which the buffers on the way hide for a while; so what is sent at most
//! doubles from step to step.

use std::time::{Duration, Instant};

use chunk::Compression;

/// A strength with what it is reckoned to come to beside the others until it has been seen.
struct Rung {
    compression: Compression,
    /// Bytes a second, all processors, both ends.
    speed: f64,
    /// Bytes after compression for one before.
    ratio: f64,
}

const fn rung(compression: Compression, speed: f64, ratio: f64) -> Rung {
    Rung { compression, speed, ratio }
}

/// From least work to most. Ratios are those of 1.4 GB of sources, programs and libraries, speeds
/// about those of backing them up over loopback; how they stand to each other is what counts.
const LADDER: [Rung; 8] = [
    rung(Compression::Stored, 850e6, 1.0),
    rung(Compression::Level(-5), 700e6, 0.45),
    rung(Compression::Level(-1), 620e6, 0.36),
    rung(Compression::Level(1), 590e6, 0.31),
    rung(Compression::Standard, 460e6, 0.283),
    rung(Compression::Level(3), 420e6, 0.279),
    rung(Compression::Level(6), 210e6, 0.26),
    rung(Compression::Level(9), 145e6, 0.255),
];
/// Where it starts on [`LADDER`]: the default of those who do not tune.
const START: usize = 4;

/// How long a strength is tried before it is judged, at least.
const WINDOW: Duration = Duration::from_millis(100);
/// Quanta in a window at least.
const WINDOW_QUANTA: u32 = 2;
/// Windows after which what was seen of the link counts no more.
const REMEMBERED: u32 = 32;
/// The weight of what a window shows against what was seen before.
const WEIGHT: f64 = 0.3;
/// The first windows, often of a strength each, show what the host comes to.
const FIRST: u32 = 3;
/// The last window after a step that shows what the strength alone comes to.
const SETTLED: u32 = 5;
/// This share of what is known of a strength alone is forgotten with each window.
const FORGOTTEN: f64 = 0.02;
/// A strength is left for one that comes to so many times as much.
const BETTER: f64 = 1.05;
/// Without a link that is known, what is sent grows by no more than this from step to step, unless
/// it is the next one.
const GROWTH_MAX: f64 = 2.0;
/// More is on its way than the way holds when it takes so much longer than the least that was seen.
const QUEUED: Duration = Duration::from_millis(50);
/// No way takes longer than this by itself, there and the news of it back.
const WAY_MAX: Duration = Duration::from_millis(500);
/// What is on its way grows when no more than this of what was handed on has arrived.
const GROWING: f64 = 0.85;
/// By less than a quantum, in bytes, it grows by chance.
const GROWN_MIN: f64 = 2e6;
/// What is known of a link that is not full is forgotten when it carries this much of it.
const CARRIED: f64 = 0.9;
/// Processors have time for more when this share of it is left.
const IDLE: f64 = 0.15;

/// What one window showed. Rates are bytes a second.
#[derive(Clone, Copy, Debug)]
struct Window {
    seconds: f64,
    /// Before compression.
    rate: f64,
    /// After compression: handed on, and arrived at the server.
    handed: f64,
    arrived: f64,
    /// Whether the link was busy all the time.
    is_full: bool,
    /// Of all processors' time, the share that none used.
    idle: f64,
}

/// Chooses a strength of compression while quanta are being pressed.
pub(super) struct Tuner {
    at: usize,
    judge: Judge,
    window: Began,
    quanta: u32,
    bytes: u64,
    handed: u64,
    /// Handed on since the beginning.
    handed_ever: u64,
    /// The least time that bytes were on their way, in seconds.
    way: f64,
    /// Whether more was on its way when the window began than the way holds.
    was_full: bool,
}

#[derive(Clone, Copy)]
struct Began {
    at: Instant,
    idle: Option<Duration>,
    arrived: u64,
}

impl Began {
    fn now(arrived: u64) -> Self {
        Self { at: sys::clock::monotonic(), idle: sys::process::idle_time(), arrived }
    }
}

impl Tuner {
    /// Of what was sent before, `arrived` has come to the server.
    pub(super) fn start(arrived: u64) -> Self {
        Self {
            at: START,
            judge: Judge::new(),
            window: Began::now(arrived),
            quanta: 0,
            bytes: 0,
            handed: 0,
            handed_ever: arrived,
            way: WAY_MAX.as_secs_f64(),
            was_full: false,
        }
    }

    pub(super) fn compression(&self) -> Compression {
        LADDER[self.at].compression
    }

    /// A quantum of so many `bytes` was handed on, compressed to `handed`; of all that was handed
    /// on since the beginning, `arrived` has come to the server as far as it has told.
    pub(super) fn note(&mut self, bytes: usize, handed: usize, arrived: u64) {
        self.quanta += 1;
        self.bytes += bytes as u64;
        self.handed += handed as u64;
        self.handed_ever += handed as u64;
        let has_arrived = arrived > self.window.arrived;
        if self.quanta < WINDOW_QUANTA || !has_arrived || self.window.at.elapsed() < WINDOW {
            return;
        }
        let window = self.end_window(arrived);
        self.at = self.judge.turn(self.at, window);
    }

    fn end_window(&mut self, arrived: u64) -> Window {
        let (began, now) = (self.window, Began::now(arrived));
        let wall = now.at.duration_since(began.at).as_secs_f64();
        let processors = sys::process::processors();
        let idle = match (began.idle, now.idle) {
            (Some(before), Some(after)) => after.saturating_sub(before).as_secs_f64(),
            // Unknown: as if there were enough.
            _ => wall,
        };
        let arrived_rate = (arrived - began.arrived) as f64 / wall;
        let under_way = self.handed_ever.saturating_sub(arrived) as f64 / arrived_rate;
        self.way = self.way.min(under_way);
        let is_full = under_way > self.way + QUEUED.as_secs_f64();
        let window = Window {
            seconds: wall,
            rate: self.bytes as f64 / wall,
            handed: self.handed as f64 / wall,
            arrived: arrived_rate,
            is_full: is_full && self.was_full,
            idle: idle / (wall * processors as f64),
        };
        (self.was_full, self.window) = (is_full, now);
        (self.quanta, self.bytes, self.handed) = (0, 0, 0);
        window
    }
}

/// What has been seen, and what follows from it.
///
/// What changes with a step to another strength is the strength's; what changes while one stays is
/// the data's, and so that of all strengths.
struct Judge {
    windows: u32,
    /// Windows since the last step.
    stayed: u32,
    /// How many times as fast as on [`LADDER`] the host is, and as large its data becomes.
    speed: f64,
    ratio: f64,
    /// How many times as fast each strength is as that says.
    corrections: [f64; LADDER.len()],
    /// Bytes a second that the link carries, and the last window that showed it.
    link: Option<(f64, u32)>,
}

impl Judge {
    fn new() -> Self {
        Self {
            windows: 0,
            stayed: 0,
            speed: 1.0,
            ratio: 1.0,
            corrections: [1.0; LADDER.len()],
            link: None,
        }
    }

    /// Returns the strength to go on with after a window with the strength `at`.
    fn turn(&mut self, at: usize, window: Window) -> usize {
        (self.windows, self.stayed) = (self.windows + 1, self.stayed + 1);
        self.learn(at, window);
        self.learn_of_link(window);
        let to = self.target(at, window);
        if to != at {
            self.stayed = 0;
        }
        to
    }

    fn target(&self, at: usize, window: Window) -> usize {
        let has_time = window.idle > IDLE;
        let shows_link = self.link.is_some_and(|(_, window)| window == self.windows);
        if has_time && !shows_link {
            // The disk that is read from is the bottleneck, or the link and buffers hide it still.
            return at;
        }
        let may_be = |to: &usize| match () {
            () if has_time => *to >= at,
            // More steps at a time are risked only where processors have time for it.
            () if *to > at => *to <= at + 2,
            () if self.link.is_some() || *to + 1 >= at => true,
            () => self.processors(*to) * self.ratio(*to) <= window.handed * GROWTH_MAX,
        };
        let best = (0..LADDER.len()).filter(may_be).map(|to| (to, self.comes_to(to)));
        match best.max_by(|one, other| one.1.total_cmp(&other.1)) {
            Some((best, rate)) if rate > self.comes_to(at) * BETTER => best,
            _ => at,
        }
    }

    fn learn(&mut self, at: usize, window: Window) {
        for (of, correction) in self.corrections.iter_mut().enumerate() {
            *correction += if of == at { 0.0 } else { (1.0 - *correction) * FORGOTTEN };
        }
        let speed = window.rate / (1.0 - window.idle).max(0.01) / LADDER[at].speed;
        let ratio = (window.handed / window.rate).min(1.0) / LADDER[at].ratio;
        let mix = |old: &mut f64, new: f64, weight: f64| *old += (new - *old) * weight;
        let weight = WEIGHT.max(1.0 / f64::from(self.windows));
        match self.stayed {
            // Quanta of the strength before are in it.
            1 if self.windows > FIRST => return,
            2..=SETTLED if self.windows > FIRST => {
                let weight = 1.0 / f64::from(self.stayed - 1);
                mix(&mut self.corrections[at], speed / self.speed, weight);
            }
            _ => mix(&mut self.speed, speed / self.corrections[at], weight),
        }
        if at != 0 {
            mix(&mut self.ratio, ratio, weight);
        }
    }

    fn learn_of_link(&mut self, window: Window) {
        let grown = (window.handed - window.arrived) * window.seconds;
        self.link = match self.link {
            known if window.is_full => {
                let before = known.map_or(window.arrived, |(link, _)| link);
                Some((f64::midpoint(before, window.arrived), self.windows))
            }
            // What is on its way grows: at the next window's end it is known better.
            None if window.arrived < GROWING * window.handed && grown > GROWN_MIN => {
                Some((window.arrived, self.windows))
            }
            // It carries that and is not full: how much more is not known.
            Some((link, _)) if window.handed > CARRIED * link => None,
            known => known.filter(|(_, at)| self.windows - at < REMEMBERED),
        };
    }

    /// Bytes a second before compression that come of a strength.
    fn comes_to(&self, of: usize) -> f64 {
        let carried = self.link.map_or(f64::INFINITY, |(link, _)| link / self.ratio(of));
        self.processors(of).min(carried)
    }

    fn processors(&self, of: usize) -> f64 {
        LADDER[of].speed * self.speed * self.corrections[of]
    }

    fn ratio(&self, of: usize) -> f64 {
        if of == 0 { 1.0 } else { (LADDER[of].ratio * self.ratio).min(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL: f64 = 0.1;
    /// What the buffers on the way hold.
    const BUFFERS: f64 = 34e6;

    /// A link and processors on which backups are run.
    struct Host {
        link: f64,
        /// How fast it is beside the host that [`LADDER`] knows.
        speed: f64,
        /// How much smaller the data becomes than what [`LADDER`] knows.
        ratio: f64,
        /// By how much speed and ratio go up and down.
        noise: f64,
        /// How fast it is with what is not compressed beside the rest.
        stored: f64,
    }

    impl Host {
        const FAIR: Self =
            Self { link: f64::INFINITY, speed: 1.0, ratio: 1.0, noise: 0.0, stored: 1.0 };

        /// Bytes a second and ratio of a strength in one window.
        fn strength(&self, at: usize, window: u32) -> (f64, f64) {
            // The golden ratio's multiples fill a unit evenly, in no order.
            let chance = |step: f64| 2.0 * (f64::from(window) * step).fract() - 1.0;
            let speed = self.speed * (1.0 + self.noise * chance(0.618_034));
            let ratio = self.ratio * (1.0 + self.noise * chance(0.381_966));
            let rung = &LADDER[at];
            match at {
                0 => (rung.speed * speed * self.stored, 1.0),
                _ => (rung.speed * speed, (rung.ratio * ratio).min(1.0)),
            }
        }

        /// Bytes that `windows` take in, as `choose` says what follows on each.
        fn run(&self, windows: u32, mut choose: impl FnMut(usize, Window) -> usize) -> f64 {
            let (mut at, mut under_way, mut was_full, mut bytes) = (START, 0.0, false, 0.0);
            for window in 0..windows {
                let (processors, ratio) = self.strength(at, window);
                let room = (BUFFERS - under_way) / WALL + self.link;
                let rate = processors.min(room / ratio);
                let arrived = self.link.min(under_way / WALL + rate * ratio);
                under_way += (rate * ratio - arrived) * WALL;
                bytes += rate * WALL;
                let is_full = under_way / arrived > QUEUED.as_secs_f64();
                let idle = 1.0 - rate / processors;
                let handed = rate * ratio;
                let is_full = std::mem::replace(&mut was_full, is_full) && was_full;
                at = choose(at, Window { seconds: WALL, rate, handed, arrived, is_full, idle });
            }
            // What is on its way still has to arrive.
            bytes / (f64::from(windows) * WALL + under_way / self.link)
        }

        /// Checks that it comes to `share` of the best strength alone, with the finding of it.
        #[track_caller]
        fn check(&self, windows: u32, share: f64) {
            let mut judge = Judge::new();
            let tuned = self.run(windows, |at, window| judge.turn(at, window));
            let fixed = (0..LADDER.len()).map(|fixed| (self.run(windows, |_, _| fixed), fixed));
            let (best, at) = fixed.max_by(|one, other| one.0.total_cmp(&other.0)).expect("many");
            assert!(tuned > best * share, "{} of strength {at}", tuned / best);
        }
    }

    #[test]
    fn without_a_bottleneck_behind_processors_decide() {
        Host::FAIR.check(30, 0.95);
        Host { noise: 0.2, ..Host::FAIR }.check(30, 0.95);
        Host { speed: 0.2, ratio: 2.0, ..Host::FAIR }.check(30, 0.95);
    }

    /// What is not compressed gives the server, on the same processors, more to do than is saved.
    #[test]
    fn work_that_is_saved_here_may_be_made_elsewhere() {
        for stored in [0.3, 0.5, 0.7] {
            Host { stored, ..Host::FAIR }.check(60, 0.95);
            Host { stored, noise: 0.2, ..Host::FAIR }.check(60, 0.9);
        }
    }

    #[test]
    fn a_link_that_is_slower_than_its_buffers_look_is_found() {
        for link in [1.2e6, 12e6, 50e6, 119e6, 200e6, 300e6, 600e6] {
            for (noise, share) in [(0.0, 0.92), (0.2, 0.88)] {
                Host { link, noise, ..Host::FAIR }.check(30, share);
                Host { link, noise, ratio: 2.0, ..Host::FAIR }.check(30, share);
                Host { link, noise, speed: 0.4, ..Host::FAIR }.check(30, share);
            }
        }
    }

    /// The disk that is read from is the bottleneck: nothing is won by pressing less, or more.
    #[test]
    fn where_neither_is_busy_nothing_changes() {
        let mut judge = Judge::new();
        let window = Window {
            seconds: WALL,
            rate: 50e6,
            handed: 12e6,
            arrived: 12e6,
            is_full: false,
            idle: 0.8,
        };
        for _ in 0..100 {
            assert_eq!(judge.turn(START, window), START);
        }
    }

    /// The link gets faster, and slower again.
    #[test]
    fn a_link_that_changes_is_followed() {
        let mut judge = Judge::new();
        let mut at = START;
        for link in [20e6, 2e9, 20e6] {
            let host = Host { link, ..Host::FAIR };
            let tuned = host.run(100, |was, window| {
                at = judge.turn(was, window);
                at
            });
            let best = (0..LADDER.len()).map(|fixed| host.run(100, |_, _| fixed));
            let best = best.fold(0.0, f64::max);
            assert!(tuned > 0.9 * best, "{} at {link}", tuned / best);
        }
    }
}
