//! Obstacles that keep this machine from beginning events and further attempts of them, such as a
//! full disk. The server is told of them.
//!
//! An obstacle is no report: an attempt that does not begin has no record, and the state of its
//! event is the server's to tell. The server shows the obstacle as the reason, also of an event
//! that is missed, and after the reason of an attempt that has failed.

use std::io;
use std::time::{Duration, Instant};

use client::EventName;
use policy::schedule::agenda::Start;

use super::Agent;
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
}

impl Agent {
    /// Tells the server that none of these attempts, which are due, can be recorded.
    pub(super) fn tell_obstacle(&mut self, due: &[Start], error: &io::Error, line: &Line) {
        let new = due.iter().filter(|start| !self.is_recorded(start));
        let events: Vec<EventName> = new
            .map(|start| EventName { schedule: start.schedule.clone(), planned: start.planned })
            .collect();
        let Some(first) = events.first().cloned() else { return };
        let now = sys::clock::monotonic();
        let told = self.obstacles.0.as_ref().filter(|(event, _)| *event == first);
        let is_told = match self.reports.is_connected {
            true => told.is_some_and(|(_, at)| now.duration_since(*at) < TELL_PAUSE),
            // A polling agent connects once for this.
            false => told.is_some(),
        };
        if is_told {
            return;
        }
        self.obstacles.0 = Some((first, now));
        if !self.reports.is_connected {
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
