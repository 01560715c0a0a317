//! Pace: the limits on the bytes that a process sends and receives, over all its connections.
//!
//! The limits come from the options of a command, and otherwise from the timetable in
//! `client.toml`. Beside a timetable that an option set forces, the smaller limit counts. Limits
//! hold for the bytes of the TLS connections, without the headers of TCP. A limit changes in the
//! middle of a transfer, when a window of the timetable begins or ends.

mod bucket;
mod timetable;

use std::str::FromStr;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sys::clock::LocalTime;
use sys::lock::Mutex;

use self::bucket::Bucket;
pub(crate) use self::timetable::LimitWindow;
use self::timetable::{limit_at, smallest};

/// Minimum limit, in bytes per second.
const RATE_MIN: u64 = policy::settings::RATE_BYTES_MIN;
/// Interval between two looks at the timetable.
const LOOK: Duration = Duration::from_secs(1);
/// Time for which data that was received may be on its way. Probes of the connection wait for it.
const IN_FLIGHT: u64 = 4;

/// Direction of bytes, as the node sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    Send,
    Receive,
}

/// Limit in bytes per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rate(u64);

/// Reason why a limit is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RateError {
    #[error(transparent)]
    Size(#[from] model::SizeError),
    #[error("a limit must be at least 128K bytes a second")]
    TooSmall,
}

impl Rate {
    pub fn new(bytes_per_sec: u64) -> Result<Self, RateError> {
        if bytes_per_sec < RATE_MIN { Err(RateError::TooSmall) } else { Ok(Self(bytes_per_sec)) }
    }

    /// Returns the number of bytes in a second.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        Self::new(model::parse_bytes(text, 1)?)
    }
}

impl TryFrom<String> for Rate {
    type Error = RateError;

    fn try_from(text: String) -> Result<Self, RateError> {
        text.parse()
    }
}

impl From<Rate> for String {
    fn from(Rate(bytes): Rate) -> Self {
        bytes.to_string()
    }
}

/// Limits that hold at any time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RateLimits {
    pub send: Option<Rate>,
    pub receive: Option<Rate>,
}

impl RateLimits {
    fn of(&self, direction: Direction) -> Option<Rate> {
        match direction {
            Direction::Send => self.send,
            Direction::Receive => self.receive,
        }
    }
}

/// Limits that hold at any time, and how they stand to the timetable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct StandingLimits {
    /// Limits that override the timetable.
    pub(crate) before: RateLimits,
    /// Limits beside the timetable: the smallest one counts.
    pub(crate) beside: RateLimits,
}

impl StandingLimits {
    /// Returns the limit of `direction` where the timetable says `timed`.
    fn with(&self, direction: Direction, timed: Option<Rate>) -> Option<Rate> {
        let beside = self.beside.of(direction);
        self.before.of(direction).or_else(|| timed.into_iter().chain(beside).min())
    }
}

/// Returns the limits of the timetable at this time.
pub(crate) fn limits_now(windows: &[LimitWindow]) -> RateLimits {
    let time = sys::clock::local();
    let limit = |direction| limit_at(windows, direction, time);
    RateLimits { send: limit(Direction::Send), receive: limit(Direction::Receive) }
}

/// Pace of a process.
#[derive(Debug)]
pub(crate) struct Pace {
    standing: StandingLimits,
    windows: Vec<LimitWindow>,
    began: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    send: Bucket,
    receive: Bucket,
    /// Time of the next look at the timetable.
    look_at: Duration,
}

impl Pace {
    /// Makes the pace of a process; `None` if nothing limits it.
    pub(crate) fn new(standing: StandingLimits, windows: &[LimitWindow]) -> Option<Self> {
        if standing == StandingLimits::default() && windows.is_empty() {
            return None;
        }
        let began = sys::clock::monotonic();
        let bucket = || Bucket::new(None, Duration::ZERO);
        let state = State { send: bucket(), receive: bucket(), look_at: Duration::ZERO };
        Some(Self { standing, windows: windows.to_vec(), began, state: Mutex::new(state) })
    }

    /// Returns the time until bytes may pass in `direction`.
    pub(crate) fn wait(&self, direction: Direction) -> Duration {
        self.wait_at(direction, self.began.elapsed(), sys::clock::local)
    }

    /// Returns the same for the time `now` since the beginning, at which the clocks on the wall
    /// show `time`.
    fn wait_at(
        &self,
        direction: Direction,
        now: Duration,
        time: impl FnOnce() -> LocalTime,
    ) -> Duration {
        let mut state = self.state.lock();
        if now >= state.look_at {
            state.look_at = now + LOOK;
            self.look(&mut state, now, time());
        }
        let until_look = state.look_at - now;
        // A longer wait would miss the end of a limit.
        state.bucket(direction).wait(now).min(until_look)
    }

    fn look(&self, state: &mut State, now: Duration, time: LocalTime) {
        for direction in [Direction::Send, Direction::Receive] {
            let timed = limit_at(&self.windows, direction, time);
            let rate = self.standing.with(direction, timed).map(Rate::get);
            state.bucket(direction).set_rate(rate, now);
        }
    }

    /// Charges bytes that have passed in `direction`.
    pub(crate) fn charge(&self, direction: Direction, bytes: usize) {
        let now = self.began.elapsed();
        self.state.lock().bucket(direction).charge(bytes, now);
    }

    /// Returns the window of a connection, of `bytes` if nothing limits it. With a small limit, a
    /// large window would keep probes of the connection behind data for too long.
    pub(crate) fn window_bytes(&self, bytes: u32) -> u32 {
        let timed = smallest(&self.windows, Direction::Receive);
        let limit = self.standing.with(Direction::Receive, timed);
        let most = limit.map_or(u64::MAX, |Rate(rate)| rate * IN_FLIGHT);
        u32::try_from(most).unwrap_or(u32::MAX).min(bytes)
    }
}

impl State {
    fn bucket(&mut self, direction: Direction) -> &mut Bucket {
        match direction {
            Direction::Send => &mut self.send,
            Direction::Receive => &mut self.receive,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(send: u64) -> StandingLimits {
        let before = RateLimits { send: Some(Rate(send)), receive: None };
        StandingLimits { before, ..StandingLimits::default() }
    }

    #[test]
    fn nothing_is_limited_unless_somebody_asks_for_it() {
        assert!(Pace::new(StandingLimits::default(), &[]).is_none());
        let pace = Pace::new(limits(1 << 20), &[]).expect("a limit");
        pace.charge(Direction::Receive, 1 << 30);
        assert_eq!(pace.wait(Direction::Receive), Duration::ZERO);
        assert_eq!(pace.window_bytes(1 << 20), 1 << 20);
    }

    #[test]
    fn all_users_of_a_pace_share_its_limit() {
        let pace = Pace::new(limits(1 << 20), &[]).expect("a limit");
        assert_eq!(pace.wait(Direction::Send), Duration::ZERO);
        pace.charge(Direction::Send, 1 << 20);
        let wait = pace.wait(Direction::Send);
        assert!(wait > Duration::from_millis(500), "{wait:?}");
    }

    #[test]
    fn a_limit_begins_and_ends_in_the_middle_of_a_transfer() {
        let window = r#"{"from": "08:00", "to": "18:00", "days": "mon-fri", "send": "1M"}"#;
        let windows: Vec<LimitWindow> = vec![serde_json::from_str(window).expect("a window")];
        let pace = Pace::new(StandingLimits::default(), &windows).expect("a limit");
        let at = |secs: u64, minute: u16| {
            let time = LocalTime { weekday: 0, minute };
            pace.wait_at(Direction::Send, Duration::from_secs(secs), || time)
        };
        let send = |bytes, secs: u64| {
            let now = Duration::from_secs(secs);
            pace.state.lock().bucket(Direction::Send).charge(bytes, now);
        };
        assert_eq!(at(0, 479), Duration::ZERO);
        send(1 << 30, 0);
        assert_eq!(at(1, 479), Duration::ZERO, "before the window nothing is limited");
        assert_eq!(at(60, 480), Duration::ZERO, "what was sent before it is no debt");
        send(100 << 20, 60);
        assert_eq!(at(61, 481), LOOK, "a long wait looks at the timetable again");
        assert_eq!(at(62, 1080), Duration::ZERO, "the end of the window ends the wait");
    }

    #[test]
    fn a_small_limit_makes_small_windows() {
        let receive = Some(Rate(RATE_MIN));
        let limits = RateLimits { send: None, receive };
        let before = StandingLimits { before: limits, ..StandingLimits::default() };
        let pace = Pace::new(before, &[]).expect("a limit");
        assert_eq!(pace.window_bytes(8 << 20), 512 << 10);
        let window = r#"{"receive": "1M"}"#;
        let windows: Vec<LimitWindow> = vec![serde_json::from_str(window).expect("a window")];
        let beside = StandingLimits { beside: limits, ..StandingLimits::default() };
        let pace = Pace::new(beside, &windows).expect("a limit");
        assert_eq!(pace.window_bytes(8 << 20), 512 << 10);
    }

    #[test]
    fn the_smallest_limit_beside_the_timetable_counts() {
        let rate = |mebibytes: u64| Some(Rate(mebibytes << 20));
        let sending = |send: u64| RateLimits { send: rate(send), receive: None };
        let beside = StandingLimits { beside: sending(5), ..StandingLimits::default() };
        assert_eq!(beside.with(Direction::Send, rate(9)), rate(5));
        assert_eq!(beside.with(Direction::Send, rate(2)), rate(2));
        assert_eq!(beside.with(Direction::Send, None), rate(5), "it holds outside of the windows");
        assert_eq!(beside.with(Direction::Receive, rate(9)), rate(9));
        let before = StandingLimits { before: sending(5), ..StandingLimits::default() };
        assert_eq!(before.with(Direction::Send, rate(2)), rate(5));
        assert_eq!(before.with(Direction::Receive, rate(2)), rate(2));
    }

    #[test]
    fn a_limit_that_would_stop_everything_is_refused() {
        assert_eq!("128K".parse(), Ok(Rate(RATE_MIN)));
        assert_eq!("127K".parse::<Rate>(), Err(RateError::TooSmall));
        assert_eq!("0".parse::<Rate>(), Err(RateError::TooSmall));
        assert!(matches!("fast".parse::<Rate>(), Err(RateError::Size(_))));
    }
}
