//! Obstacles that keep this machine from beginning events and further attempts of them, such as a
//! full disk. The server is told of them.
//!
//! An obstacle is no report: an attempt that does not begin has no record, and the state of its
//! event is the server's to tell. The server shows the obstacle as the reason, also of an event
//! that is missed, and after the reason of an attempt that has failed.

use std::io;
use std::time::{Duration, Instant};

use client::EventName;

use crate::line::{Line, Message};

/// Interval between two messages about the same event. The agent tries again each minute.
const TELL_PAUSE: Duration = Duration::from_secs(50);

/// The event that the server was told of last.
#[derive(Default)]
pub(super) struct Obstacles(Option<(EventName, Instant)>);

impl Obstacles {
    /// Takes note of a new connection, over which the server is told anew.
    pub(super) fn reset(&mut self) {
        self.0 = None;
    }

    /// Tells the server that no attempt at these events can be recorded. A polling agent connects
    /// once for this.
    pub(super) fn tell(
        &mut self,
        events: Vec<EventName>,
        error: &io::Error,
        is_connected: bool,
        line: &Line,
    ) {
        let Some(first) = events.first().cloned() else { return };
        let now = sys::clock::monotonic();
        let told = self.0.as_ref().filter(|(event, _)| *event == first);
        let is_told =
            told.is_some_and(|(_, at)| !is_connected || now.duration_since(*at) < TELL_PAUSE);
        if is_told {
            return;
        }
        self.0 = Some((first, now));
        if !is_connected {
            line.wake.try_send(()).ok();
            return;
        }
        let reason = format!("the agent cannot record that the event begins: {error}");
        for event in events {
            // A line that is busy drops it. The agent tells the first events again in a minute.
            let message = Message::Obstacle { event, reason: reason.clone() };
            line.messages.try_send(message).ok();
        }
    }
}
