//! Tuner: chooses the means of compression with the highest throughput: a strength on threads, or
//! the GPU.
//!
//! ```text
//!   throughput (strength) = min(processors (strength), link / ratio (strength))
//! ```
//!
//! The speed of the processors and the ratio are measured for the strengths that were in use
//! recently, and estimated for the others. The capacity of the link shows only while data queues on
//! the way to the server; the server reports arrivals. Before that, a lighter strength may send
//! more than the link carries, and buffers on the way hide this for a while. So the rate of sent
//! data at most doubles from step to step.
//!
//! Idle processors do not show that compression costs no time: a backup may have fewer threads than
//! processors, and each thread reads and compresses in turn. So the tuner also tries other
//! strengths for a few windows and compares the rates; see [`Trials`].

use std::time::{Duration, Instant};

use chunk::{Compression, Estimate};

use super::trials::{Trial, Trials, Verdict};

/// Means of compressing a quantum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Means {
    Gpu,
    Threads(Compression),
}

/// Means of compression, with estimates relative to the estimates of the other means.
struct Rung {
    means: Means,
    /// Throughput of all processors of client and server together, in bytes per second.
    speed: f64,
    /// Bytes after compression for one byte before.
    ratio: f64,
}

const fn rung(compression: Compression, speed: f64, ratio: f64) -> Rung {
    Rung { means: Means::Threads(compression), speed, ratio }
}

/// Means from the least work of the processors to the most. The ratios were measured on 1.4 GB of
/// sources, programs and libraries, and the speeds, roughly, in a backup of this data over
/// loopback. Only the relations between the means count.
///
/// The speed with a GPU is that of level 1 without the time that level 1 takes by itself.
const LADDER: [Rung; 9] = [
    Rung { means: Means::Gpu, speed: 1000e6, ratio: 0.31 },
    rung(Compression::Stored, 850e6, 1.0),
    rung(Compression::Level(-5), 700e6, 0.45),
    rung(Compression::Level(-1), 620e6, 0.36),
    rung(Compression::Level(1), 590e6, 0.31),
    rung(Compression::Standard, 460e6, 0.283),
    rung(Compression::Level(3), 420e6, 0.279),
    rung(Compression::Level(6), 210e6, 0.26),
    rung(Compression::Level(9), 145e6, 0.255),
];
const GPU: usize = 0;
const STORED: usize = 1;
/// Index in [`LADDER`] of the first strength, which a backup without a tuner has too.
const START: usize = 5;

/// Minimum duration of a window of measurement.
const WINDOW: Duration = Duration::from_millis(100);
/// Minimum number of quanta in a window.
const WINDOW_QUANTA: u32 = 2;
/// Number of windows after which a measurement of the link is forgotten.
const REMEMBERED: u32 = 32;
/// Weight of a window in the mean with the windows before.
const WEIGHT: f64 = 0.3;
/// Number of windows at the start, which measure the host. They often have different strengths.
const FIRST: u32 = 3;
/// Number of windows after a step. The speed in these windows is attributed to the strength alone.
const SETTLED: u32 = 5;
/// Share of a strength's own measurement that is forgotten with each window.
const FORGOTTEN: f64 = 0.02;
/// Factor by which the throughput must grow to change the strength.
const BETTER: f64 = 1.05;
/// Maximum factor by which the sent rate grows in a step, while the link is not known. The step to
/// the next lighter strength may exceed it.
const GROWTH_MAX: f64 = 2.0;
/// Excess of a delay over the shortest delay. A greater excess shows that data queues on its way.
const QUEUED: Duration = Duration::from_millis(50);
/// Maximum delay without a queue, including the report of the arrival.
const WAY_MAX: Duration = Duration::from_millis(500);
/// Share of the sent data that has arrived. Below this share, the data under way counts as growing.
const GROWING: f64 = 0.85;
/// Minimum growth of the data under way, in bytes, that is not chance: about a quantum.
const GROWN_MIN: f64 = 2e6;
/// Share of the known capacity. A link that carries more than this share without a queue may have a
/// larger capacity.
const CARRIED: f64 = 0.9;
/// Weight of a window in the mean rate with a strength.
const RATE_WEIGHT: f64 = 0.2;
/// Minimum number of threads that are busy with compression, on average, if a lighter strength is
/// to be tried. If compression takes less, a backup gains nothing without it.
const PRESSING_MIN: f64 = 0.05;
/// Factor between measured and estimated speed without compression. Below it, no trial leaves out
/// compression until the measurement is forgotten.
const HOPELESS: f64 = 0.8;
/// Index in [`LADDER`] of the strength that is tried if sent bytes seem to be the bottleneck, and
/// that is used while the link seems to be slow before anything is known.
const STRONG: usize = 7;
/// Time from the first quantum to the server's first report. A later report shows a slow link.
const FIRST_REPORT: Duration = Duration::from_millis(20);
/// Number of quanta that are handed on before the first report. Over a slow link, all of a small
/// backup would be handed on otherwise before the report is late.
const BEFORE_REPORT: u32 = 2;
/// Idle share of the processors' time. Above this share they have time for more work.
const IDLE: f64 = 0.15;

/// Measurements of one window. Rates are in bytes per second.
#[derive(Clone, Copy, Debug)]
struct Window {
    seconds: f64,
    /// Rate before compression.
    rate: f64,
    /// Rate after compression, to the outbox.
    handed: f64,
    /// Rate of arrival at the server.
    arrived: f64,
    /// True if the link was busy all the time.
    is_full: bool,
    /// Idle share of the time of all processors.
    idle: f64,
    /// Number of threads that were busy with compression, on average.
    pressing: f64,
}

/// Tuner of one session.
pub(super) struct Tuner {
    /// Current rung of [`LADDER`].
    at: usize,
    judge: Judge,
    window: WindowStart,
    quanta: u32,
    bytes: u64,
    handed: u64,
    /// Time that threads have spent on compression in the window.
    pressed: Duration,
    /// When the first quantum was handed to the outbox.
    first_at: Option<Instant>,
    /// Bytes handed to the outbox before the window.
    handed_ever: u64,
    /// Shortest delay between outbox and server, in seconds.
    way: f64,
    /// True if data queued on its way when the window began.
    is_full: bool,
    processors: usize,
}

/// Readings at the beginning of a window.
#[derive(Clone, Copy)]
struct WindowStart {
    at: Instant,
    idle: Option<Duration>,
    arrived: u64,
}

impl WindowStart {
    fn now(arrived: u64) -> Self {
        Self { at: sys::clock::monotonic(), idle: sys::process::idle_time(), arrived }
    }
}

impl Tuner {
    /// Starts a tuner. `arrived` bytes of earlier data are at the server.
    pub(super) fn start(arrived: u64) -> Self {
        Self {
            at: START,
            judge: Judge::new(),
            window: WindowStart::now(arrived),
            quanta: 0,
            bytes: 0,
            handed: 0,
            pressed: Duration::ZERO,
            first_at: None,
            handed_ever: arrived,
            way: WAY_MAX.as_secs_f64(),
            is_full: false,
            processors: sys::process::processors(),
        }
    }

    pub(super) fn means(&self) -> Means {
        LADDER[self.at].means
    }

    /// Returns the means for a quantum before which `waiting` messages wait to be sent, in a queue
    /// with room for `room`.
    ///
    /// Over a slow link much data is compressed before the first report of the server shows how
    /// slow the link is. Until then, a full queue or a report that is late shows that more
    /// compression costs no time. `arrived` is as in [`Self::note`].
    pub(super) fn means_behind(&self, waiting: usize, room: usize, arrived: u64) -> Means {
        let is_full = room > 0 && waiting >= room;
        let is_late = self.lacks_report(arrived)
            && self.first_at.is_some_and(|first| first.elapsed() >= FIRST_REPORT);
        let knows_nothing = self.judge.windows == 0;
        let at = if knows_nothing && (is_full || is_late) { STRONG } else { self.at };
        LADDER[at].means
    }

    /// Returns true if the next quantum should wait: enough is on its way to show how fast the link
    /// is, and the first report is not late yet. `arrived` is as in [`Self::note`].
    pub(super) fn awaits_report(&self, arrived: u64) -> bool {
        self.lacks_report(arrived)
            && self.quanta >= BEFORE_REPORT
            && self.first_at.is_some_and(|first| first.elapsed() < FIRST_REPORT)
    }

    /// Returns true if the server has reported nothing yet.
    fn lacks_report(&self, arrived: u64) -> bool {
        self.judge.windows == 0 && arrived == self.window.arrived
    }

    /// Notes that there is a GPU with this estimate, or that there is none any more.
    pub(super) fn set_gpu(&mut self, gpu: Option<Estimate>) {
        self.judge.gpu = gpu;
        if gpu.is_none() && self.at == GPU {
            self.at = START;
            self.judge.trials.cancel();
        }
    }

    /// Notes that a quantum of `bytes` was handed to the outbox as `handed` bytes. Its compression
    /// took `time`. `arrived` is the number of bytes that the server has reported since the
    /// beginning.
    pub(super) fn note(&mut self, bytes: u64, handed: u64, time: Duration, arrived: u64) {
        self.first_at.get_or_insert_with(sys::clock::monotonic);
        self.quanta += 1;
        self.bytes += bytes;
        self.handed += handed;
        self.pressed += time;
        let has_arrived = arrived > self.window.arrived;
        if self.quanta >= WINDOW_QUANTA && has_arrived && self.window.at.elapsed() >= WINDOW {
            self.end_window(WindowStart::now(arrived));
        }
    }

    /// Ends a window in which data has arrived, and chooses the next strength.
    fn end_window(&mut self, now: WindowStart) {
        let began = std::mem::replace(&mut self.window, now);
        let wall = now.at.duration_since(began.at).as_secs_f64();
        let idle = match (began.idle, now.idle) {
            (Some(before), Some(after)) => after.saturating_sub(before).as_secs_f64(),
            // Without measured idle times the processors count as idle.
            _ => wall,
        };
        self.handed_ever += self.handed;
        let arrived = (now.arrived - began.arrived) as f64 / wall;
        let under_way = self.handed_ever.saturating_sub(now.arrived) as f64 / arrived;
        self.way = self.way.min(under_way);
        let is_full = under_way > self.way + QUEUED.as_secs_f64();
        let was_full = std::mem::replace(&mut self.is_full, is_full);
        let window = Window {
            seconds: wall,
            rate: self.bytes as f64 / wall,
            handed: self.handed as f64 / wall,
            arrived,
            is_full: is_full && was_full,
            idle: idle / (wall * self.processors as f64),
            pressing: self.pressed.as_secs_f64() / wall,
        };
        (self.quanta, self.bytes, self.handed) = (0, 0, 0);
        self.pressed = Duration::ZERO;
        self.at = self.judge.decide(self.at, window);
    }
}

/// Capacity of the link, as one window has shown it.
#[derive(Clone, Copy, Debug)]
struct LinkRate {
    /// Capacity, in bytes per second.
    rate: f64,
    window: u32,
}

/// Estimates of speeds and ratios, and the choice of strengths by them.
///
/// If the measurements change with a step to another strength, the change is attributed to that
/// strength. If they change while the strength stays, the change is attributed to the data, and so
/// to all strengths.
struct Judge {
    windows: u32,
    /// Number of windows since the last step.
    stayed: u32,
    /// Factor between the host's speed and the speed in [`LADDER`].
    speed: f64,
    /// Rate with the current strength before compression, in bytes per second.
    rate: f64,
    /// Mean deviation of a window's rate from `rate`, as a share of it.
    swing: f64,
    /// Maximum busy share of the processors, with as many threads as the backup has.
    reach: f64,
    /// Factor between the data's ratio and the ratio in [`LADDER`].
    ratio: f64,
    /// Factor between the measured speed of each strength and its estimate.
    corrections: [f64; LADDER.len()],
    /// Capacity of the link, once it is known.
    link: Option<LinkRate>,
    /// Estimate for the GPU, once there is one.
    gpu: Option<Estimate>,
    trials: Trials,
}

impl Judge {
    fn new() -> Self {
        Self {
            windows: 0,
            stayed: 0,
            speed: 1.0,
            rate: 0.0,
            swing: 0.0,
            reach: 1.0,
            ratio: 1.0,
            corrections: [1.0; LADDER.len()],
            link: None,
            gpu: None,
            trials: Trials::new(FIRST),
        }
    }

    /// Returns the strength that follows a window with the strength `at`.
    fn decide(&mut self, at: usize, window: Window) -> usize {
        (self.windows, self.stayed) = (self.windows + 1, self.stayed + 1);
        self.learn(at, window);
        self.learn_of_link(window);
        let to = match self.end_trial(at, window) {
            Some(to) => to,
            None => self.step(at, window).or_else(|| self.begin_trial(at, window)).unwrap_or(at),
        };
        if to != at {
            self.stayed = 0;
        }
        to
    }

    /// Judges the trial of `at`, if there is one. Returns the next strength, unless the trial has
    /// ended and leaves the choice open.
    fn end_trial(&mut self, at: usize, window: Window) -> Option<usize> {
        let trial = self.trials.current()?;
        let is_moot = window.is_full || self.is_link_bound(at);
        let rates = [window.rate, self.rate];
        let verdict = trial.judge(at, self.stayed, rates, self.swing, is_moot);
        self.trials.settle(self.windows, at, verdict);
        match verdict {
            Verdict::Open => return Some(at),
            Verdict::Moot => return None,
            Verdict::Equal | Verdict::Worse => {
                if trial.is_lighter(at) {
                    // Compression is not the bottleneck, so processors may do more of it.
                    self.reach = 1.0;
                }
                return Some(trial.from);
            }
            Verdict::Better | Verdict::ClearlyBetter => {}
        }
        if trial.is_lighter(at) && window.idle > IDLE {
            // All threads were busy with less than all processors.
            self.reach = 1.0 - window.idle;
        }
        if verdict == Verdict::ClearlyBetter {
            // The gain is clear after one window, where other trials need several.
            self.rate = window.rate;
            self.corrections[at] = window.rate / LADDER[at].speed / self.speed;
            self.stayed = 2;
        }
        None
    }

    /// Returns the strength that the estimates show to be better than `at`, if there is one.
    fn step(&self, at: usize, window: Window) -> Option<usize> {
        // Without a trial, less work gains nothing while processors have time.
        let best = self.best(at, window, window.idle <= IDLE);
        (self.throughput(best) > self.throughput(at) * BETTER).then_some(best)
    }

    /// Begins a trial, if one is due. Returns the strength to try.
    fn begin_trial(&mut self, at: usize, window: Window) -> Option<usize> {
        let is_link_full = window.is_full || self.is_link_bound(at);
        if is_link_full || self.stayed < 2 || !self.trials.is_due(self.windows) {
            return None;
        }
        let has_time = window.idle > IDLE;
        let may_gain = at > STORED && window.pressing >= PRESSING_MIN;
        let heaviest = LADDER.len() - 1;
        let to = if self.trials.take_wish() && has_time && (START..heaviest).contains(&at) {
            if at < STRONG { STRONG } else { heaviest }
        } else if has_time && (STORED..START).contains(&at) && self.trials.goes_back(may_gain) {
            at + 1
        } else if may_gain {
            let best = self.best(at, window, true);
            let is_estimated = self.throughput(best) > self.throughput(at) * BETTER;
            let to = match self.trials.skipped(at - STORED) {
                0 if is_estimated => best,
                skipped => at - 1 - skipped,
            };
            if to == STORED && self.corrections[STORED] < HOPELESS {
                return None;
            }
            to
        } else {
            return None;
        };
        self.trials
            .begin(Trial { from: at, rate: self.rate, is_gradual: at < START }, to);
        Some(to)
    }

    /// Returns the strength with the highest estimated throughput among `at`, the heavier ones and,
    /// if `allows_lighter`, the lighter ones that do not send too much.
    fn best(&self, at: usize, window: Window, allows_lighter: bool) -> usize {
        let sent = |to: usize| self.processors(to) * self.ratio(to);
        let may_be = |to: &usize| {
            if *to == GPU && self.gpu.is_none() {
                return false;
            }
            let is_next = *to + 1 == at;
            let is_risked =
                self.link.is_some() || is_next || sent(*to) <= window.handed * GROWTH_MAX;
            *to >= at || (allows_lighter && is_risked)
        };
        let rated = (0..LADDER.len()).filter(may_be).map(|to| (to, self.throughput(to)));
        rated
            .max_by(|one, other| one.1.total_cmp(&other.1))
            .map_or(at, |(best, _)| best)
    }

    /// Returns true if the link is the bottleneck with this strength, as far as it is known.
    fn is_link_bound(&self, at: usize) -> bool {
        self.throughput(at) < self.processors(at)
    }

    fn learn(&mut self, at: usize, window: Window) {
        for (of, correction) in self.corrections.iter_mut().enumerate() {
            *correction += if of == at { 0.0 } else { (1.0 - *correction) * FORGOTTEN };
        }
        let is_limited =
            window.is_full || self.link.is_some_and(|link| window.handed > CARRIED * link.rate);
        // While the link limits the rate, the processors could do more.
        let unused = (self.reach / (1.0 - window.idle).max(0.01)).max(1.0);
        let possible = if is_limited { window.rate * unused } else { window.rate };
        let speed = possible / LADDER[at].speed;
        let ratio = (window.handed / window.rate).min(1.0) / LADDER[at].ratio;
        let mix = |old: &mut f64, new: f64, weight: f64| *old += (new - *old) * weight;
        if self.stayed == 1 && self.windows > FIRST {
            // The window still has quanta of the strength before the step.
            return;
        }
        if self.stayed <= 2 {
            self.rate = window.rate;
        } else {
            mix(&mut self.swing, (window.rate / self.rate - 1.0).abs(), RATE_WEIGHT);
            let weight = RATE_WEIGHT.max(1.0 / f64::from(self.stayed - 1));
            mix(&mut self.rate, window.rate, weight);
        }
        let weight = WEIGHT.max(1.0 / f64::from(self.windows));
        match self.stayed {
            2..=SETTLED if self.windows > FIRST => {
                let weight = 1.0 / f64::from(self.stayed - 1);
                mix(&mut self.corrections[at], speed / self.speed, weight);
            }
            _ => mix(&mut self.speed, speed / self.corrections[at], weight),
        }
        if at != STORED {
            mix(&mut self.ratio, ratio, weight);
        }
    }

    fn learn_of_link(&mut self, window: Window) {
        let grown = (window.handed - window.arrived) * window.seconds;
        self.link = match self.link {
            known if window.is_full => {
                let before = known.map_or(window.arrived, |link| link.rate);
                let rate = f64::midpoint(before, window.arrived);
                Some(LinkRate { rate, window: self.windows })
            }
            // The data under way grows. The next window will show the capacity better.
            None if window.arrived < GROWING * window.handed && grown > GROWN_MIN => {
                Some(LinkRate { rate: window.arrived, window: self.windows })
            }
            // The link carries this rate without a queue, so its capacity is larger, but not known.
            Some(link) if window.handed > CARRIED * link.rate => None,
            known => known.filter(|link| self.windows - link.window < REMEMBERED),
        };
    }

    /// Returns the estimated throughput with a strength of compression, in bytes per second before
    /// compression.
    fn throughput(&self, of: usize) -> f64 {
        let carried = self.link.map_or(f64::INFINITY, |link| link.rate / self.ratio(of));
        self.processors(of).min(carried)
    }

    fn processors(&self, of: usize) -> f64 {
        let speed = LADDER[of].speed * self.speed * self.corrections[of];
        match self.gpu {
            Some(gpu) if of == GPU => speed.min(gpu.bytes_per_sec),
            _ => speed,
        }
    }

    fn ratio(&self, of: usize) -> f64 {
        let ratio = match self.gpu {
            Some(gpu) if of == GPU => gpu.ratio,
            _ => LADDER[of].ratio,
        };
        if of == STORED { 1.0 } else { (ratio * self.ratio).min(1.0) }
    }
}

#[cfg(test)]
mod models;

#[cfg(test)]
mod tests {
    use super::*;

    const WALL: f64 = 0.1;
    /// Number of bytes that the simulated buffers on the way to the server hold.
    const BUFFERS: f64 = 34e6;

    /// Simulated link and processors.
    #[derive(Debug)]
    struct Host {
        link: f64,
        /// Factor between the host's speed and the speed in [`LADDER`].
        speed: f64,
        /// Factor between the ratio of the host's data and the ratio in [`LADDER`].
        ratio: f64,
        /// Share by which speed and ratio vary.
        noise: f64,
        /// Factor between the host's speed with data that is not compressed and the speed in
        /// [`LADDER`].
        stored: f64,
        gpu: Option<Estimate>,
    }

    impl Host {
        const FAIR: Self = Self {
            link: f64::INFINITY,
            speed: 1.0,
            ratio: 1.0,
            noise: 0.0,
            stored: 1.0,
            gpu: None,
        };

        /// Returns the speed and the ratio of a strength in one window.
        fn strength(&self, at: usize, window: u32) -> (f64, f64) {
            // The fractions of multiples of the golden ratio are spread evenly from 0 to 1, in an
            // irregular order.
            let chance = |step: f64| 2.0 * (f64::from(window) * step).fract() - 1.0;
            let speed = self.speed * (1.0 + self.noise * chance(0.618_034));
            let ratio = self.ratio * (1.0 + self.noise * chance(0.381_966));
            let rung = &LADDER[at];
            match at {
                STORED => (rung.speed * speed * self.stored, 1.0),
                GPU => {
                    let most = self.gpu.map_or(0.0, |gpu| gpu.bytes_per_sec);
                    ((rung.speed * speed).min(most), (rung.ratio * ratio).min(1.0))
                }
                _ => (rung.speed * speed, (rung.ratio * ratio).min(1.0)),
            }
        }

        /// Simulates `windows` windows from `start` on. Returns their throughput in bytes per
        /// second. After each window, `choose` gets its bytes before and after compression and the
        /// readings at its end, and returns the next strength.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "bytes of a simulated window: positive, and far below 2^53"
        )]
        fn run(
            &self,
            windows: u32,
            start: Instant,
            mut choose: impl FnMut(u64, u64, WindowStart) -> usize,
        ) -> f64 {
            let (mut at, mut bytes, mut handed, mut arrived) = (START, 0.0, 0.0, 0.0_f64);
            let mut idle = 0.0;
            for window in 1..=windows {
                let (processors, ratio) = self.strength(at, window);
                let room = BUFFERS - (handed - arrived) + self.link * WALL;
                let taken = (processors * WALL).min(room / ratio);
                bytes += taken;
                handed += taken * ratio;
                arrived = handed.min(arrived + self.link * WALL);
                idle += (WALL - taken / processors).max(0.0);
                let now = WindowStart {
                    at: start + Duration::from_secs_f64(WALL) * window,
                    idle: Some(Duration::from_secs_f64(idle)),
                    arrived: arrived as u64,
                };
                at = choose(taken as u64, (taken * ratio) as u64, now);
            }
            // The data under way still has to arrive.
            bytes / (f64::from(windows) * WALL + (handed - arrived) / self.link)
        }

        fn run_tuned(&self, windows: u32, tuner: &mut Tuner) -> f64 {
            let start = sys::clock::monotonic();
            let judge = std::mem::replace(&mut tuner.judge, Judge::new());
            let judge = Judge { gpu: self.gpu, ..judge };
            let window = WindowStart { at: start, idle: Some(Duration::ZERO), arrived: 0 };
            // The host's processors count as one processor.
            *tuner = Tuner { judge, window, processors: 1, ..Tuner::start(0) };
            self.run(windows, start, |bytes, handed, now| {
                (tuner.bytes, tuner.handed) = (bytes, handed);
                tuner.pressed = Duration::from_secs_f64(WALL);
                tuner.end_window(now);
                tuner.at
            })
        }

        /// Checks that the tuner reaches `share` of the throughput of the best strength.
        #[track_caller]
        fn check_with(&self, tuner: &mut Tuner, windows: u32, share: f64) {
            let tuned = self.run_tuned(windows, tuner);
            let fixed = |at| self.run(windows, sys::clock::monotonic(), |_, _, _| at);
            let first = if self.gpu.is_some() { GPU } else { STORED };
            let best = (first..LADDER.len()).map(fixed).fold(0.0, f64::max);
            assert!(tuned > best * share, "{} with {self:?}", tuned / best);
        }

        #[track_caller]
        fn check(&self, windows: u32, share: f64) {
            self.check_with(&mut Tuner::start(0), windows, share);
        }
    }

    #[test]
    fn without_a_bottleneck_behind_processors_decide() {
        Host::FAIR.check(30, 0.95);
        Host { noise: 0.2, ..Host::FAIR }.check(30, 0.95);
        Host { speed: 0.2, ratio: 2.0, ..Host::FAIR }.check(30, 0.95);
    }

    /// Data that is not compressed costs the server more time, on the same processors, than the
    /// client saves.
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

    #[test]
    fn a_gpu_is_weighed_like_any_strength() {
        for bytes_per_sec in [10e9, 800e6, 300e6, 20e6] {
            let gpu = Some(Estimate { bytes_per_sec, ratio: 0.31 });
            Host { gpu, ..Host::FAIR }.check(60, 0.92);
            Host { gpu, noise: 0.2, ..Host::FAIR }.check(60, 0.85);
            for link in [1.2e6, 119e6, 600e6] {
                Host { gpu, link, ..Host::FAIR }.check(60, 0.9);
            }
        }
    }

    #[test]
    fn a_queue_that_is_full_at_first_gets_more_compression() {
        let mut tuner = Tuner::start(0);
        let strong = Means::Threads(Compression::Level(6));
        let standard = Means::Threads(Compression::Standard);
        for (waiting, means) in [(0, standard), (2, standard), (3, standard), (4, strong)] {
            assert_eq!(tuner.means_behind(waiting, 4, 0), means, "{waiting}");
        }
        assert_eq!(tuner.means_behind(0, 0, 0), standard, "no queue");
        tuner.judge.windows = 1;
        assert_eq!(tuner.means_behind(4, 4, 0), standard, "the link is measured");
    }

    #[test]
    fn a_first_report_that_is_late_gets_more_compression() {
        let mut tuner = Tuner::start(0);
        let strong = Means::Threads(Compression::Level(6));
        let standard = Means::Threads(Compression::Standard);
        tuner.first_at = Some(sys::clock::monotonic() + FIRST_REPORT);
        assert_eq!(tuner.means_behind(0, 4, 0), standard, "the report is not due");
        tuner.first_at = Some(sys::clock::monotonic() - 2 * FIRST_REPORT);
        assert_eq!(tuner.means_behind(0, 4, 0), strong, "no report yet");
        assert_eq!(tuner.means_behind(0, 4, 1), standard, "the report has come");
        tuner.judge.windows = 1;
        assert_eq!(tuner.means_behind(0, 4, 0), standard, "the link is measured");
    }

    #[test]
    fn what_comes_after_the_first_quanta_waits_for_the_report() {
        let mut tuner = Tuner::start(0);
        assert!(!tuner.awaits_report(0), "nothing is on its way");
        tuner.first_at = Some(sys::clock::monotonic() + FIRST_REPORT);
        tuner.quanta = BEFORE_REPORT - 1;
        assert!(!tuner.awaits_report(0), "too little is on its way");
        tuner.quanta = BEFORE_REPORT;
        assert!(tuner.awaits_report(0));
        assert!(!tuner.awaits_report(1), "the report has come");
        tuner.first_at = Some(sys::clock::monotonic() - FIRST_REPORT);
        assert!(!tuner.awaits_report(0), "the report is late");
    }

    #[test]
    fn a_gpu_that_has_failed_is_left() {
        let mut tuner = Tuner::start(0);
        tuner.set_gpu(Some(Estimate { bytes_per_sec: 10e9, ratio: 0.31 }));
        tuner.at = GPU;
        assert_eq!(tuner.means(), Means::Gpu);
        tuner.set_gpu(None);
        assert_eq!(tuner.means(), Means::Threads(Compression::Standard));
    }

    /// Returns the number of 100 windows with another strength than the first, if the disk that is
    /// read is the bottleneck and `pressing` threads compress on average.
    fn windows_elsewhere(pressing: f64) -> usize {
        let mut judge = Judge::new();
        let window = Window {
            seconds: WALL,
            rate: 50e6,
            handed: 12e6,
            arrived: 12e6,
            is_full: false,
            idle: 0.8,
            pressing,
        };
        let mut at = START;
        let mut next = || {
            at = judge.decide(at, window);
            at
        };
        (0..100).filter(|_| next() != START).count()
    }

    #[test]
    fn where_compression_takes_no_time_nothing_changes() {
        assert_eq!(windows_elsewhere(0.03), 0);
    }

    /// Less compression might help, which is tried, and rarely tried again.
    #[test]
    fn where_trials_gain_nothing_they_are_rare() {
        let windows = windows_elsewhere(0.1);
        assert!((3..=15).contains(&windows), "{windows}");
    }

    /// The link gets faster, and slower again. In the second case only data that is not compressed
    /// would show that the link is faster.
    #[test]
    fn a_link_that_changes_is_followed() {
        for links in [[20e6, 2e9, 20e6], [500e6, 2e9, 500e6]] {
            let mut tuner = Tuner::start(0);
            for link in links {
                Host { link, ..Host::FAIR }.check_with(&mut tuner, 300, 0.95);
            }
        }
    }

    /// Another program uses the server's processors for a while.
    #[test]
    fn a_strength_that_came_to_little_is_tried_again() {
        let mut tuner = Tuner::start(0);
        for stored in [0.3, 1.0] {
            Host { stored, ..Host::FAIR }.check_with(&mut tuner, 300, 0.92);
        }
    }

    #[test]
    fn what_a_full_link_carries_is_known() {
        for link in [1.2e6, 12e6, 40e6] {
            let mut tuner = Tuner::start(0);
            Host { link, speed: 2.0, ratio: 3.0, ..Host::FAIR }.run_tuned(30, &mut tuner);
            let known = tuner.judge.link.map(|known| known.rate / link);
            assert!(known.is_some_and(|share| (share - 1.0).abs() < 0.1), "{known:?} of {link}");
        }
    }
}
