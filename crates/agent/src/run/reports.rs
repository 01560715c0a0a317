//! Reports of events to the server, which the agent sends until the server has confirmed them.

use std::collections::BTreeMap;
use std::io;

use client::EventReport;
use policy::schedule::event::Phase;

use super::Agent;
use crate::line::{Line, Message};
use crate::record::Record;

/// Maximum number of reports that the server has not answered.
const REPORTS_MAX: usize = 16;

/// Reports that the server has not confirmed.
#[derive(Default)]
pub(super) struct Reports {
    pub(super) is_connected: bool,
    last_number: u64,
    pub(super) sent: BTreeMap<u64, EventReport>,
    /// True if there are reports that have to wait for answers to others.
    pub(super) has_more: bool,
}

impl Agent {
    /// Takes note that the server has confirmed a report.
    pub(super) fn confirm(&mut self, number: u64, line: &Line) -> io::Result<()> {
        let Some(report) = self.reports.sent.remove(&number) else { return Ok(()) };
        let record = self.records.iter().find(|record| record.name() == report.event);
        let noted = record.map_or(Ok(()), |record| record.confirm(&report));
        if self.reports.has_more && self.reports.sent.len() <= REPORTS_MAX / 2 {
            self.report_all(line);
        }
        noted
    }

    /// Reports events whose state the server has not confirmed, as many as may be under way.
    pub(super) fn report_all(&mut self, line: &Line) {
        self.reports.has_more = false;
        let open = self.records.iter().filter(|record| !self.settled.contains(&record.name()));
        for record in open.cloned().collect::<Vec<_>>() {
            let report = match record.report(self.clock.lead_micros()) {
                Ok(report) => report,
                Err(error) => {
                    let folder = record.folder.display().to_string();
                    tracing::error!(%error, folder, "the record of an event cannot be read");
                    continue;
                }
            };
            let is_confirmed = record.is_confirmed(&report);
            if is_confirmed && report.is_over() {
                self.settled.insert(report.event);
                continue;
            }
            let is_sent = self.reports.sent.values().any(|sent| {
                sent.event == report.event
                    && sent.attempt == report.attempt
                    && sent.phase == report.phase
            });
            if !is_sent && !is_confirmed && !self.send(report, line) {
                self.reports.has_more = self.reports.is_connected;
                return;
            }
        }
    }

    /// Tells the server that the tasks still run.
    pub(super) fn give_signs(&mut self, line: &Line) {
        for record in self.records.clone() {
            if self.running.contains_key(&record.name()) {
                self.give_sign(&record, line);
            }
        }
    }

    /// Tells the server that a task still runs, and since when it pauses.
    pub(super) fn give_sign(&mut self, record: &Record, line: &Line) {
        let Ok(report) = record.report(self.clock.lead_micros()) else { return };
        if report.phase != Phase::Began {
            return;
        }
        let (at, paused) = (self.clock.now(), report.paused);
        if self.send(EventReport { phase: Phase::Working, at, ..report }, line) {
            match paused {
                Some(since) => self.pauses.insert(record.name(), since),
                None => self.pauses.remove(&record.name()),
            };
        }
    }

    /// Sends a report unless the line is closed or busy. It never waits: the line may be waiting
    /// for this agent.
    fn send(&mut self, report: EventReport, line: &Line) -> bool {
        let Reports { is_connected, last_number, sent, .. } = &mut self.reports;
        if !*is_connected {
            // A polling agent connects when there is something to say.
            line.wake.try_send(()).ok();
            return false;
        }
        let number = *last_number + 1;
        let message = Message::Report { number, report: report.clone() };
        if sent.len() >= REPORTS_MAX || line.messages.try_send(message).is_err() {
            return false;
        }
        *last_number = number;
        if report.phase != Phase::Working {
            sent.insert(number, report);
        }
        true
    }
}
