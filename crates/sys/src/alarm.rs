//! An alarm by the wall clock. It goes off after the machine has slept, and when somebody sets the
//! clock.

use std::io;
use std::os::fd::OwnedFd;

use model::ServerTime;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::Timespec;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

/// An alarm.
#[derive(Debug)]
pub struct Alarm(OwnedFd);

impl Alarm {
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self(timerfd_create(TimerfdClockId::Realtime, flags)?))
    }

    /// Sets the alarm to a time by the system's clock. It also goes off if the clock is set.
    pub fn set(&self, at: ServerTime) -> io::Result<()> {
        // A time of 0 would disarm the alarm.
        let micros = at.0.max(1);
        let at = Timespec {
            tv_sec: micros.div_euclid(1_000_000),
            tv_nsec: micros.rem_euclid(1_000_000) * 1000,
        };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: at };
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        timerfd_settime(&self.0, flags, &once)?;
        Ok(())
    }

    /// Waits until the alarm has gone off, after which it is not set any more. Another thread may
    /// set the alarm meanwhile.
    pub fn wait(&self) -> io::Result<()> {
        loop {
            let mut wait = [PollFd::new(&self.0, PollFlags::IN)];
            match rustix::event::poll(&mut wait, None) {
                Ok(_) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // The read fails if the clock was set.
        rustix::io::read(&self.0, &mut [0; 8]).ok();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_alarm_in_the_past_goes_off_at_once_and_one_in_the_future_later() {
        let alarm = Arc::new(Alarm::new().expect("an alarm"));
        let (off, goes_off) = mpsc::channel();
        let waiting = Arc::clone(&alarm);
        std::thread::spawn(move || while waiting.wait().is_ok() && off.send(()).is_ok() {});
        let is_off = || goes_off.recv_timeout(Duration::from_millis(50)).is_ok();
        assert!(!is_off());
        alarm.set(ServerTime(0)).expect("is set");
        assert!(goes_off.recv_timeout(Duration::from_secs(20)).is_ok());
        assert!(!is_off());
        alarm.set(ServerTime(crate::clock::system().0 + 3_600_000_000)).expect("is set");
        assert!(!is_off());
        alarm.set(ServerTime(crate::clock::system().0 + 100_000)).expect("is set");
        assert!(goes_off.recv_timeout(Duration::from_secs(20)).is_ok());
    }
}
