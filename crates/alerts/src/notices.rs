//! Notices about alerts: when one is due, and its words (pure).

use std::fmt::Write as _;

use catalog::AlertRow;
use model::ServerTime;
use serde::Serialize;
use store::folder::AlertSettings;

use crate::kind::Kind;
use crate::outbox::PATIENCE_MICROS;
use crate::words::{count, counted, plain};

const MINUTE_MICROS: i64 = 60_000_000;
/// Maximum number of alerts of a kind that a mail lists, and of all alerts that a webhook gets.
const LISTED_MAX: usize = 20;
const SENT_MAX: usize = 100;
/// Maximum length of a subject, in characters.
const SUBJECT_MAX: usize = 160;

/// The alerts of which a notice tells.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct News<'a> {
    pub(crate) opened: Vec<&'a AlertRow>,
    pub(crate) ended: Vec<&'a AlertRow>,
}

/// A notice before it is addressed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Notice {
    pub(crate) subject: String,
    pub(crate) text: String,
    /// The same for programs, in JSON.
    pub(crate) document: String,
}

/// How far the people of a domain, or an owner of nodes, have heard: of all that began or ended up
/// to a moment, and of what is urgent up to another one, which is later in quiet hours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Heard {
    pub(crate) all: ServerTime,
    pub(crate) urgent: ServerTime,
}

impl Heard {
    pub(crate) fn up_to(at: ServerTime) -> Self {
        Self { all: at, urgent: at }
    }

    /// Returns the moments with none after `now`. After a clock was set back, people may be told
    /// of an alert twice, but they miss none.
    pub(crate) fn set_back(self, now: ServerTime) -> Self {
        let before = ServerTime(now.0 - 1);
        let set = |at: ServerTime| if at > now { before } else { at };
        Self { all: set(self.all), urgent: set(self.urgent) }
    }

    /// Returns what they have heard of after a notice.
    pub(crate) fn with_notice(self, settings: &AlertSettings, now: ServerTime) -> Self {
        if is_quiet(settings, now) { Self { urgent: now, ..self } } else { Self::up_to(now) }
    }

    fn of(self, alert: &AlertRow) -> ServerTime {
        if alert.is_urgent { self.urgent } else { self.all }
    }

    fn is_untold(self, alert: &AlertRow) -> bool {
        let is_known = alert.ended.is_some() || alert.acknowledged.is_some();
        !is_known && alert.opened > self.of(alert)
    }

    /// Returns true if they have heard of the alert, but not of its end. What has ended long ago is
    /// no news for people who are back.
    fn is_end_untold(self, alert: &AlertRow, now: ServerTime) -> bool {
        let since = self.all.max(ServerTime(now.0 - PATIENCE_MICROS));
        // An alert that was acknowledged before its notice was told to nobody.
        let was_told = alert.acknowledged.is_none() || alert.told.is_some();
        let is_new = alert.ended.is_some_and(|ended| ended > since);
        is_new && was_told && alert.opened <= self.of(alert)
    }
}

fn is_quiet(settings: &AlertSettings, now: ServerTime) -> bool {
    settings
        .quiet
        .is_some_and(|hours| hours.contain(settings.zone.wall(now).time()))
}

/// Returns what has to be told now to those who run the service. `last` is the time of their last
/// notice.
pub(crate) fn due<'a>(
    pending: &'a [AlertRow],
    settings: &AlertSettings,
    now: ServerTime,
    last: Option<ServerTime>,
) -> Option<News<'a>> {
    let news = News {
        opened: pending.iter().filter(|alert| is_untold(alert)).collect(),
        ended: pending.iter().filter(|alert| is_end_untold(alert)).collect(),
    };
    ripe(news, settings, now, last)
}

/// Returns what has to be told now to people who hear of some alerts only. Their notices have a
/// pause of their own: those to others do not hold them up.
pub(crate) fn due_of<'a>(
    alerts: &'a [AlertRow],
    hears: impl Fn(&AlertRow) -> bool,
    settings: &AlertSettings,
    now: ServerTime,
    heard: Heard,
) -> Option<News<'a>> {
    let own: Vec<&AlertRow> = alerts.iter().filter(|alert| hears(alert)).collect();
    let news = News {
        opened: own.iter().copied().filter(|alert| heard.is_untold(alert)).collect(),
        ended: own.iter().copied().filter(|alert| heard.is_end_untold(alert, now)).collect(),
    };
    ripe(news, settings, now, Some(heard.urgent))
}

/// Returns the part of the news that is told now. `last` is the time of the last notice.
///
/// A notice waits for more alerts after the first one, and for the end of quiet hours. What is
/// urgent waits for neither, but takes nothing else with it in quiet hours.
fn ripe<'a>(
    mut news: News<'a>,
    settings: &AlertSettings,
    now: ServerTime,
    last: Option<ServerTime>,
) -> Option<News<'a>> {
    let is_urgent = news.opened.iter().any(|alert| alert.is_urgent);
    if is_quiet(settings, now) {
        news.opened.retain(|alert| alert.is_urgent);
        news.ended.clear();
    }
    let began = news.opened.iter().map(|alert| alert.opened);
    let oldest = began.chain(news.ended.iter().filter_map(|alert| alert.ended)).min()?;
    let minutes = |since: ServerTime| (now.0 - since.0).div_euclid(MINUTE_MICROS);
    let is_ripe = is_urgent || minutes(oldest) >= i64::from(settings.group_minutes);
    let has_paused = last.is_none_or(|last| minutes(last) >= i64::from(settings.pause_minutes));
    (is_ripe && has_paused).then_some(news)
}

/// Returns true if nobody was told of the alert, and somebody should be.
fn is_untold(alert: &AlertRow) -> bool {
    alert.ended.is_none() && alert.told.is_none() && alert.acknowledged.is_none()
}

fn is_end_untold(alert: &AlertRow) -> bool {
    alert.ended.is_some() && alert.told.is_some() && alert.end_told.is_none()
}

impl News<'_> {
    /// Puts the news into words. `host` is the name of the server.
    pub(crate) fn notice(&self, host: &str) -> Notice {
        Notice { subject: self.subject(host), text: self.text(), document: self.document(host) }
    }

    fn subject(&self, host: &str) -> String {
        let ended = self.ended.len() as u64;
        if self.opened.is_empty() {
            let are = if ended == 1 { "is" } else { "are" };
            return subject(host, &format!("all clear: {} {are} over", counted(ended, "alert")));
        }
        let headings = headings(&self.opened).into_iter().map(|(heading, _)| heading);
        subject(host, &headings.collect::<Vec<_>>().join(", "))
    }

    fn text(&self) -> String {
        let mut text = String::new();
        if !self.opened.is_empty() {
            text.push_str("New:\n\n");
            list(&mut text, &self.opened);
        }
        if !self.ended.is_empty() {
            text.push_str("Over:\n\n");
            list(&mut text, &self.ended);
        }
        text.push_str("All alerts: 'holdfast admin alert list', or GET /v1/alerts.\n");
        text
    }

    fn document(&self, host: &str) -> String {
        let all = self.opened.iter().chain(&self.ended).take(SENT_MAX);
        let document = Document {
            kind: "alerts",
            server: host,
            subject: self.subject(host),
            text: self.text(),
            opened: self.opened.len(),
            ended: self.ended.len(),
            alerts: all.map(|alert| AlertDocument::new(alert)).collect(),
        };
        serde_json::to_string(&document).expect("the document is text")
    }
}

/// Returns a subject of bounded length.
pub(crate) fn subject(host: &str, words: &str) -> String {
    let text = plain(&format!("[Holdfast {host}] {words}"));
    match text.char_indices().nth(SUBJECT_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// Groups alerts by their kinds, the most urgent kind first, with the words for each group.
pub(crate) fn headings<'a>(alerts: &[&'a AlertRow]) -> Vec<(String, Vec<&'a AlertRow>)> {
    let groups = Kind::ALL.iter().filter_map(|kind| {
        let own: Vec<&AlertRow> =
            alerts.iter().copied().filter(|alert| alert.kind == kind.name()).collect();
        (!own.is_empty()).then(|| (kind.heading(own.len()), own))
    });
    let mut groups: Vec<_> = groups.collect();
    let is_known = |alert: &AlertRow| Kind::of_name(&alert.kind).is_some();
    let others: Vec<&AlertRow> = alerts.iter().copied().filter(|alert| !is_known(alert)).collect();
    if !others.is_empty() {
        groups.push((format!("{} of other kinds", count(others.len() as u64)), others));
    }
    groups
}

/// Adds the groups with their alerts, a bounded number of each.
pub(crate) fn list(text: &mut String, alerts: &[&AlertRow]) {
    for (heading, group) in headings(alerts) {
        let mut first = heading.chars();
        let capital: String = first.next().into_iter().flat_map(char::to_uppercase).collect();
        writeln!(text, "{capital}{}:", first.as_str()).expect("is text");
        for alert in group.iter().take(LISTED_MAX) {
            writeln!(text, "- {}", plain(&alert.text)).expect("is text");
        }
        if let Some(more @ 1..) = group.len().checked_sub(LISTED_MAX) {
            writeln!(text, "and {} more", count(more as u64)).expect("is text");
        }
        text.push('\n');
    }
}

/// A notice as a webhook gets it.
#[derive(Serialize)]
struct Document<'a> {
    kind: &'static str,
    /// Name of the server.
    server: &'a str,
    subject: String,
    text: String,
    /// Number of alerts that have begun, and of those that are over.
    opened: usize,
    ended: usize,
    /// The first of them, at most 100.
    alerts: Vec<AlertDocument<'a>>,
}

#[derive(Serialize)]
struct AlertDocument<'a> {
    number: u64,
    kind: &'a str,
    object: &'a str,
    state: &'static str,
    urgent: bool,
    text: &'a str,
}

impl<'a> AlertDocument<'a> {
    fn new(alert: &'a AlertRow) -> Self {
        Self {
            number: alert.number,
            kind: &alert.kind,
            object: &alert.object,
            state: if alert.ended.is_none() { "open" } else { "over" },
            urgent: alert.is_urgent,
            text: &alert.text,
        }
    }
}

#[cfg(test)]
mod tests;
