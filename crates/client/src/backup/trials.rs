//! Trials: a strength of compression is used for a few windows, and what was handed on meanwhile is
//! compared with the rate before.
//!
//! ```text
//!   begin --lighter--> clearly better: stay, and try on at once
//!                      better:         stay, and try on at once
//!                      equal:          back; the next trial leaves out a strength
//!                      worse:          back; fewer sent bytes may be worth more: try heavier
//!         --heavier--> better, or equal up to the usual strength: stay
//!                      worse:          back
//! ```
//!
//! The time between trials doubles after each trial without success, so that a backup that cannot
//! gain loses little. For equal rates the heavier strength is preferred, because space at the
//! server counts too.

/// Windows of a trial, without its first window, which still has data of the strength before.
const LENGTH: u32 = 2;
/// Additional windows for a heavier strength that may stay if it costs nothing: noise should not
/// decide.
const LENGTH_GRADUAL: u32 = 2;
/// Number of windows between two trials, at first and at most.
const WAIT_MIN: u32 = 8;
const WAIT_MAX: u32 = 256;
/// Number of windows before a trial that follows from the result of another trial.
const WAIT_NEXT: u32 = 2;
/// Factors between the rates during and before a trial.
const CLEARLY_BETTER: f64 = 1.25;
const BETTER: f64 = 1.05;
const NO_WORSE: f64 = 0.97;
const NO_WORSE_GRADUAL: f64 = 0.98;

/// A trial of another strength. Strengths are indices; the greater, the heavier.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    /// Strength before the trial.
    pub(super) from: usize,
    /// Rate with that strength, in bytes per second before compression.
    pub(super) rate: f64,
    /// True if that strength is lighter than the usual one. A heavier one may then stay although it
    /// gains nothing.
    pub(super) is_gradual: bool,
}

/// Result of a trial so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// The trial goes on.
    Open,
    ClearlyBetter,
    Better,
    Equal,
    Worse,
    /// The link has become the bottleneck, so rates say nothing.
    Moot,
}

impl Trial {
    pub(super) fn is_lighter(&self, tried: usize) -> bool {
        tried < self.from
    }

    /// Judges the trial of the strength `tried` after `windows` windows. `rates` are those of the
    /// last window and of all settled windows. `swing` is the mean deviation of a window's rate, as
    /// a share: where rates vary, more is needed to show a gain.
    pub(super) fn judge(
        &self,
        tried: usize,
        windows: u32,
        rates: [f64; 2],
        swing: f64,
        is_moot: bool,
    ) -> Verdict {
        let [last, all] = rates.map(|rate| rate / self.rate);
        let is_lighter = self.is_lighter(tried);
        let (length, enough) = match self.is_gradual && !is_lighter {
            true => (LENGTH + LENGTH_GRADUAL, NO_WORSE_GRADUAL - 0.5 * swing),
            false => (LENGTH, BETTER + 1.5 * swing),
        };
        if is_moot {
            Verdict::Moot
        } else if is_lighter && last >= CLEARLY_BETTER + 3.0 * swing {
            Verdict::ClearlyBetter
        } else if windows < 1 + length {
            Verdict::Open
        } else if all >= enough {
            Verdict::Better
        } else if all >= NO_WORSE - 1.5 * swing {
            Verdict::Equal
        } else {
            Verdict::Worse
        }
    }
}

/// Trials of one session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trials {
    current: Option<Trial>,
    /// Window from which on the next trial may begin.
    due: u32,
    /// Number of windows until the next trial after a trial without success.
    wait: u32,
    /// Number of strengths that the next trial of a lighter strength leaves out.
    skipped: usize,
    /// True if the last trial of a lighter strength has shown that sent bytes are the bottleneck.
    wishes_heavier: bool,
    /// True if the last trial was that of a lighter strength.
    was_lighter: bool,
}

impl Trials {
    /// Makes a state in which a trial may begin in the window `due`.
    pub(super) fn new(due: u32) -> Self {
        Self {
            current: None,
            due,
            wait: WAIT_MIN,
            skipped: 0,
            wishes_heavier: false,
            was_lighter: true,
        }
    }

    pub(super) fn current(&self) -> Option<Trial> {
        self.current
    }

    pub(super) fn cancel(&mut self) {
        self.current = None;
    }

    pub(super) fn is_due(&self, window: u32) -> bool {
        window >= self.due
    }

    pub(super) fn begin(&mut self, trial: Trial, to: usize) {
        assert_ne!(trial.from, to, "another strength is tried");
        if to < trial.from || trial.is_gradual {
            self.was_lighter = to < trial.from;
        }
        self.current = Some(trial);
    }

    /// Returns true once if a heavier strength should be tried.
    pub(super) fn take_wish(&mut self) -> bool {
        std::mem::take(&mut self.wishes_heavier)
    }

    /// Returns true if it is the turn of a heavier strength, back towards the usual strength, after
    /// trials without success. `may_gain` tells whether a lighter strength may gain anything.
    pub(super) fn goes_back(&self, may_gain: bool) -> bool {
        self.wait > WAIT_MIN && (self.was_lighter || !may_gain)
    }

    /// Returns the number of strengths to leave out, of which there are `lighter`.
    pub(super) fn skipped(&mut self, lighter: usize) -> usize {
        if self.skipped >= lighter {
            self.skipped = 0;
        }
        self.skipped
    }

    /// Ends the trial of the strength `tried`, unless it is open, in the window `window`.
    pub(super) fn settle(&mut self, window: u32, tried: usize, verdict: Verdict) {
        if verdict == Verdict::Open {
            return;
        }
        let Some(trial) = self.current.take() else { return };
        let is_lighter = trial.is_lighter(tried);
        if matches!(verdict, Verdict::Better | Verdict::ClearlyBetter) {
            self.wait = WAIT_MIN;
            self.skipped = 0;
            let goes_back = trial.is_gradual && !is_lighter;
            self.due = if goes_back { window + self.wait } else { window };
            return;
        }
        self.due = window + self.wait;
        self.wait = (self.wait * 2).min(WAIT_MAX);
        match verdict {
            Verdict::Equal if is_lighter => {
                self.skipped += 1;
                if self.skipped == 1 {
                    self.due = window + WAIT_NEXT;
                }
            }
            Verdict::Worse if is_lighter => {
                self.skipped = 0;
                if !trial.is_gradual {
                    self.wishes_heavier = true;
                    self.due = window + WAIT_NEXT;
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: usize = 5;

    fn trial(is_gradual: bool) -> Trial {
        Trial { from: FROM, rate: 100.0, is_gradual }
    }

    #[track_caller]
    fn check(tried: usize, is_gradual: bool, windows: u32, rates: [f64; 2], expected: Verdict) {
        assert_eq!(trial(is_gradual).judge(tried, windows, rates, 0.0, false), expected);
    }

    #[test]
    fn a_trial_lasts_until_its_rate_is_known() {
        check(3, false, 1, [120.0, 120.0], Verdict::Open);
        check(3, false, 1, [130.0, 130.0], Verdict::ClearlyBetter);
        check(3, false, 3, [120.0, 110.0], Verdict::Better);
        check(3, false, 3, [120.0, 101.0], Verdict::Equal);
        check(3, false, 3, [120.0, 90.0], Verdict::Worse);
        assert_eq!(trial(false).judge(3, 3, [130.0, 130.0], 0.0, true), Verdict::Moot);
    }

    #[test]
    fn a_heavier_strength_may_stay_if_it_costs_nothing() {
        check(6, true, 3, [99.0, 99.0], Verdict::Open);
        check(6, true, 5, [99.0, 99.0], Verdict::Better);
        check(6, true, 5, [90.0, 90.0], Verdict::Worse);
        check(6, false, 3, [99.0, 99.0], Verdict::Equal);
    }

    #[test]
    fn trials_without_success_get_rare() {
        let mut trials = Trials::new(3);
        let (mut window, mut gaps) = (3, Vec::new());
        for _ in 0..5 {
            assert!(trials.is_due(window) && !trials.is_due(window - 1));
            trials.begin(trial(true), 3);
            trials.settle(window, 3, Verdict::Open);
            assert!(trials.current().is_some());
            trials.settle(window, 3, Verdict::Worse);
            gaps.push(trials.due - window);
            window = trials.due;
        }
        assert_eq!(gaps, [8, 16, 32, 64, 128]);
        trials.begin(trial(true), 3);
        trials.settle(window, 3, Verdict::ClearlyBetter);
        assert!(trials.is_due(window), "a success is followed by the next trial at once");
    }

    #[test]
    fn a_trial_decides_what_is_tried_next() {
        let mut trials = Trials::new(3);
        trials.begin(trial(false), 4);
        trials.settle(3, 4, Verdict::Equal);
        assert!(trials.is_due(5));
        assert_eq!((trials.skipped(4), trials.take_wish()), (1, false));
        trials.begin(trial(false), 3);
        trials.settle(5, 3, Verdict::Worse);
        assert_eq!((trials.skipped(4), trials.take_wish()), (0, true));
        assert!(!trials.take_wish(), "once");
    }
}
