//! Time. All other crates take the time from this module, so that one place decides on the clock.
#![expect(clippy::disallowed_methods, reason = "this module is where the clock is read")]

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use model::ServerTime;

/// Lead of [`now`] over the system's clock, in microseconds.
static AHEAD_MICROS: AtomicI64 = AtomicI64::new(0);

/// The wall clock, in microseconds. It can jump in both directions.
pub fn now() -> ServerTime {
    ServerTime(system().0.saturating_add(AHEAD_MICROS.load(Ordering::Relaxed)))
}

/// Reads the system's clock, without the lead that this process may have: for data that other
/// machines compare with their clocks, such as certificates.
pub fn system() -> ServerTime {
    let micros = |duration: Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
    ServerTime(match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => micros(since),
        Err(before) => -micros(before.duration()),
    })
}

/// Time as a clock on the wall shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalTime {
    /// Day of the week; 0 is Monday.
    pub weekday: u8,
    /// Minute of the day.
    pub minute: u16,
}

/// Returns the time in the system's time zone, by the system's clock.
pub fn local() -> LocalTime {
    local_at(system().secs())
}

fn local_at(secs: i64) -> LocalTime {
    let mut parts = MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both pointers are valid during the call, which writes only to `parts`.
    let converted = unsafe { libc::localtime_r(&raw const secs, parts.as_mut_ptr()) };
    // A year that does not fit is refused; then the zeroed time stays.
    let _year_fits = !converted.is_null();
    // SAFETY: every field of `tm` may be zero, and a null pointer for its zone is valid.
    let parts = unsafe { parts.assume_init() };
    let number = |part: i32| u16::try_from(part).unwrap_or(0);
    let weekday = u8::try_from((number(parts.tm_wday) + 6) % 7).expect("below 7");
    LocalTime { weekday, minute: number(parts.tm_hour) * 60 + number(parts.tm_min) }
}

/// Puts this process's wall clock ahead of the system's, to try out what happens at a later time.
pub fn put_ahead(by: Duration) {
    let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
    AHEAD_MICROS.store(micros, Ordering::Relaxed);
}

/// Returns the time since the machine was started, the time in which it slept included. Nobody can
/// set this clock.
pub fn uptime() -> Duration {
    let uptime = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    Duration::from_secs(part(uptime.tv_sec)) + Duration::from_nanos(part(uptime.tv_nsec))
}

/// A clock that never goes back, for measuring and for deadlines.
pub fn monotonic() -> Instant {
    Instant::now()
}

/// Waits at least `duration`.
pub fn sleep(duration: Duration) {
    std::thread::sleep(duration);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wall_clock_is_in_microseconds_and_agrees_with_the_file_system() {
        let before = now();
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let modified = file.as_file().metadata().expect("stat").modified().expect("mtime");
        let modified = modified.duration_since(UNIX_EPOCH).expect("after 1970");
        // File systems stamp with the tick clock, which lags by up to 10 ms.
        assert!((before.secs() - 1..=now().secs()).contains(&(modified.as_secs() as i64)));
    }

    #[test]
    fn the_local_time_goes_on_by_the_minute() {
        let start = system().secs();
        let first = local_at(start);
        assert!(first.weekday < 7 && first.minute < 24 * 60, "{first:?}");
        // No zone changes its clock within a week by more than it does for daylight saving.
        let week = local_at(start + 7 * 86_400);
        let minutes = |time: LocalTime| i32::from(time.weekday) * 1440 + i32::from(time.minute);
        let moved = (minutes(week) - minutes(first)).rem_euclid(7 * 1440);
        assert!(moved <= 120 || moved >= 7 * 1440 - 120, "{first:?} {week:?}");
        let next = local_at(start + 60);
        assert_eq!((minutes(next) - minutes(first)).rem_euclid(60), 1, "{first:?} {next:?}");
    }

    #[test]
    fn the_uptime_goes_on_as_the_kernel_reports_it() {
        let before = uptime();
        let reported = std::fs::read_to_string("/proc/uptime").expect("the kernel reports it");
        let reported: f64 = reported.split(' ').next().expect("a field").parse().expect("seconds");
        assert!(before.as_secs_f64() - 0.011 <= reported, "{before:?} {reported}");
        assert!(reported <= uptime().as_secs_f64(), "{before:?} {reported}");
    }

    #[test]
    fn sleeping_takes_at_least_the_time_asked_for() {
        let start = monotonic();
        sleep(Duration::from_millis(3));
        assert!(monotonic() - start >= Duration::from_millis(3));
    }
}
