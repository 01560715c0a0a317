//! The server's time, as the node knows it.
//!
//! Once a server has answered, its time is counted on by the clock of the machine's uptime, which
//! nobody can set: neither a wrong clock of the node nor its correction moves an event. Before that
//! the system's clock has to do.

use std::time::Duration;

use model::ServerTime;

/// The server's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ServerClock {
    /// The server's time at the start of the machine, in microseconds since 1970.
    started: Option<i64>,
}

impl ServerClock {
    /// Takes the server's time over.
    pub(crate) fn set(&mut self, server_time: ServerTime) {
        self.started = Some(server_time.0.saturating_sub(micros(sys::clock::uptime())));
    }

    pub(crate) fn now(&self) -> ServerTime {
        match self.started {
            Some(started) => ServerTime(started.saturating_add(micros(sys::clock::uptime()))),
            None => sys::clock::system(),
        }
    }

    /// Returns the lead of the server's clock over the system's, in microseconds.
    pub(crate) fn lead_micros(&self) -> i64 {
        match self.started {
            Some(_) => self.now().0.saturating_sub(sys::clock::system().0),
            None => 0,
        }
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MICROS: i64 = 86_400_000_000;

    #[test]
    fn the_server_s_time_takes_precedence() {
        let mut clock = ServerClock::default();
        assert_eq!(clock.lead_micros(), 0);
        let system = sys::clock::system().0;
        clock.set(ServerTime(system + DAY_MICROS));
        let ahead = clock.now().0 - system;
        assert!((DAY_MICROS..DAY_MICROS + DAY_MICROS / 24).contains(&ahead), "{ahead}");
        assert!((clock.lead_micros() - DAY_MICROS).abs() < DAY_MICROS / 24);
    }
}
