//! The digest of the day: the state of the server in plain words (pure).

use std::fmt::Write as _;

use catalog::AlertRow;
use jiff::civil::Time;
use model::ServerTime;
use policy::schedule::event::EventState;
use serde::Serialize;
use store::folder::{AlertSettings, Zone};

use crate::facts::{CopyFacts, Facts, PoolFacts};
use crate::notices::{Notice, list, subject};
use crate::rules::DAY_MICROS;
use crate::words::{bytes, count, counted, time};

/// Returns true if a digest is due. `last` is the time of the last one.
pub(crate) fn is_due(settings: &AlertSettings, now: ServerTime, last: ServerTime) -> bool {
    settings.digest_at.is_some_and(|at| last < moment(&settings.zone, at.0, now))
}

/// Returns the last moment, up to `now`, at which clocks in the zone show `at`.
fn moment(zone: &Zone, at: Time, now: ServerTime) -> ServerTime {
    let today = zone.wall(now).date();
    let on = |day: jiff::civil::Date| {
        let zoned = zone.time_zone().to_ambiguous_zoned(day.to_datetime(at)).compatible();
        zoned.map(|zoned| ServerTime(zoned.timestamp().as_microsecond()))
    };
    let days = [Ok(today), today.yesterday()];
    let moments = days.into_iter().filter_map(|day| on(day.ok()?).ok());
    moments.filter(|moment| *moment <= now).max().unwrap_or(now)
}

/// Content of a digest, for one audience.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Digest<'a> {
    pub(crate) facts: &'a Facts,
    /// Alerts that are open, and those that are over since the last digest.
    pub(crate) open: &'a [&'a AlertRow],
    pub(crate) over: &'a [&'a AlertRow],
    /// False for the people of a domain, who hear nothing of the server itself.
    pub(crate) has_server: bool,
}

/// Numbers of a digest for programs.
#[derive(Serialize)]
struct Document<'a> {
    kind: &'static str,
    server: &'a str,
    subject: &'a str,
    text: &'a str,
    nodes: usize,
    nodes_with_good_backup: usize,
    alerts_open: usize,
}

impl Digest<'_> {
    /// Puts the digest into words. `host` is the name of the server.
    pub(crate) fn notice(&self, settings: &AlertSettings, host: &str) -> Notice {
        let (subject, text) = (self.subject(settings, host), self.text(settings));
        let document = Document {
            kind: "digest",
            server: host,
            subject: &subject,
            text: &text,
            nodes: self.facts.nodes.len(),
            nodes_with_good_backup: self.good(settings),
            alerts_open: self.open.len(),
        };
        let document = serde_json::to_string(&document).expect("the document is text");
        Notice { subject, text, document }
    }

    /// Returns the number of nodes whose last good backup is not too old.
    fn good(&self, settings: &AlertSettings) -> usize {
        let hours = i64::from(settings.backup_hours.max(1));
        let oldest = ServerTime(self.facts.now.0 - hours * DAY_MICROS / 24);
        let nodes = self.facts.nodes.iter();
        nodes.filter(|node| node.last_backup.is_some_and(|last| last >= oldest)).count()
    }

    fn subject(&self, settings: &AlertSettings, host: &str) -> String {
        let (all, good) = (self.facts.nodes.len() as u64, self.good(settings) as u64);
        let state = match self.open.len() as u64 {
            0 => "nothing is wrong".to_owned(),
            1 => "1 alert is open".to_owned(),
            open => format!("{} alerts are open", count(open)),
        };
        let have = if good == 1 { "has" } else { "have" };
        let words =
            format!("{state}; {} of {} {have} a good backup", count(good), counted(all, "node"));
        subject(host, &words)
    }

    fn text(&self, settings: &AlertSettings) -> String {
        let mut text = String::new();
        self.nodes(&mut text, settings);
        self.events(&mut text);
        if self.has_server {
            self.server(&mut text, settings);
        }
        text.push('\n');
        self.alerts(&mut text);
        text
    }

    fn nodes(&self, text: &mut String, settings: &AlertSettings) {
        let (all, good) = (self.facts.nodes.len() as u64, self.good(settings) as u64);
        let hours = counted(u64::from(settings.backup_hours.max(1)), "hour");
        let locked = self.facts.nodes.iter().filter(|node| node.is_locked).count() as u64;
        let have = if good == 1 { "has" } else { "have" };
        writeln!(
            text,
            "{} of {} {have} a good backup of the last {hours}. Locked: {}.",
            count(good),
            counted(all, "node"),
            count(locked),
        )
        .expect("is text");
    }

    fn events(&self, text: &mut String) {
        let from = ServerTime(self.facts.now.0 - DAY_MICROS);
        let of = |state: EventState| {
            let outcomes = self.facts.outcomes.iter();
            let own = outcomes.filter(|one| one.planned >= from && one.state == state);
            count(own.count() as u64)
        };
        writeln!(
            text,
            "Events of the last day: {} completed, {} failed, {} missed.",
            of(EventState::Completed),
            of(EventState::Failed),
            of(EventState::Missed),
        )
        .expect("is text");
    }

    fn server(&self, text: &mut String, settings: &AlertSettings) {
        for pool in &self.facts.pools {
            writeln!(text, "{}", pool_words(pool)).expect("is text");
        }
        if let CopyFacts::Taken(taken) = self.facts.copy {
            let taken = time(&settings.zone, taken);
            writeln!(text, "The newest copy of the catalogue is of {taken}.").expect("is text");
        }
    }

    fn alerts(&self, text: &mut String) {
        let unknown: Vec<&AlertRow> =
            self.open.iter().copied().filter(|alert| alert.acknowledged.is_none()).collect();
        let known = self.open.len() - unknown.len();
        if self.open.is_empty() {
            text.push_str("No alert is open.\n\n");
        }
        if !unknown.is_empty() {
            text.push_str("Open:\n\n");
            list(text, &unknown);
        }
        if known > 0 {
            writeln!(text, "Acknowledged, and still open: {}.\n", count(known as u64))
                .expect("is text");
        }
        if !self.over.is_empty() {
            text.push_str("Over since the last digest:\n\n");
            list(text, self.over);
        }
    }
}

fn pool_words(pool: &PoolFacts) -> String {
    let name = &pool.name;
    match pool.bytes_max {
        _ if !pool.is_there => format!("Pool {name} is not available."),
        0 => format!("Pool {name} has {}.", bytes(pool.bytes)),
        max => {
            let percent = u128::from(pool.bytes) * 100 / u128::from(max);
            let [used, max] = [pool.bytes, max].map(bytes);
            format!("Pool {name} is full by {percent} %: {used} of {max}.")
        }
    }
}

#[cfg(test)]
mod tests;
