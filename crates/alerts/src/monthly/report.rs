//! A month, and the figures of its report.

use std::str::FromStr;

use jiff::civil::Date;
use model::ServerTime;
use store::folder::Zone;

/// A month of a year.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Month(pub(super) Date);

/// The text is no month.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a month has the form 2026-11")]
pub struct MonthError;

impl FromStr for Month {
    type Err = MonthError;

    fn from_str(text: &str) -> Result<Self, MonthError> {
        let is_plain =
            text.len() == 7 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        let parsed = Date::strptime("%Y-%m-%d", format!("{text}-01"));
        parsed.ok().filter(|_| is_plain).map(Self).ok_or(MonthError)
    }
}

impl std::fmt::Display for Month {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0.strftime("%Y-%m"))
    }
}

impl Month {
    /// Returns the month in which `time` is in the zone.
    pub fn of(time: ServerTime, zone: &Zone) -> Self {
        Self(zone.wall(time).date().first_of_month())
    }

    /// Returns the month before.
    pub fn before(self) -> Self {
        let last = self.0.yesterday().unwrap_or(self.0);
        Self(last.first_of_month())
    }

    /// Returns the beginning of the month, and of the next one.
    pub fn span(self, zone: &Zone) -> (ServerTime, ServerTime) {
        let next = self.0.last_of_month().tomorrow().unwrap_or(Date::MAX);
        (start(zone, self.0), start(zone, next))
    }

    /// Returns a number that is larger for a later month.
    pub(crate) fn number(self) -> i64 {
        i64::from(self.0.year()) * 12 + i64::from(self.0.month())
    }

    pub(super) fn days(self) -> i8 {
        self.0.days_in_month()
    }
}

/// Returns the beginning of a day in the zone.
pub(super) fn start(zone: &Zone, day: Date) -> ServerTime {
    let midnight = day.to_datetime(jiff::civil::Time::midnight());
    let zoned = zone.time_zone().to_ambiguous_zoned(midnight).compatible();
    zoned.map_or(ServerTime::MAX, |zoned| ServerTime(zoned.timestamp().as_microsecond()))
}

/// The report of a month.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MonthlyReport {
    pub domain: String,
    pub month: Month,
    pub zone: Zone,
    /// Name of the server.
    pub server: String,
    pub made: ServerTime,
    /// Number of days of the month that have begun.
    pub days: u32,
    /// Number of nodes with a good backup on each of these days.
    pub good_nodes: Vec<u32>,
    /// Number of nodes that were registered on each of these days.
    pub registered_nodes: Vec<u32>,
    pub nodes: Vec<NodeMonth>,
}

/// A node in a month.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeMonth {
    pub node: String,
    /// Number of days on which the node was registered, and of those with a good backup.
    pub days: u32,
    pub days_good: u32,
    /// Backups of filespaces that examined everything, and those that did not.
    pub backups_complete: u64,
    pub backups_partial: u64,
    pub events_completed: u64,
    pub events_failed: u64,
    pub events_missed: u64,
    pub last_good: Option<ServerTime>,
    /// Objects and bytes that the node has stored when the report is made, with older versions and
    /// archives.
    pub objects: u64,
    pub bytes: u64,
    /// Bytes that its backups sent.
    pub bytes_sent: u64,
    pub restores: u64,
    pub restored_objects: u64,
    pub restored_bytes: u64,
}

impl MonthlyReport {
    /// Returns the sums over all nodes.
    pub(super) fn total(&self) -> NodeMonth {
        let mut total = NodeMonth { node: "all".to_owned(), ..NodeMonth::default() };
        for node in &self.nodes {
            total.days += node.days;
            total.days_good += node.days_good;
            total.backups_complete += node.backups_complete;
            total.backups_partial += node.backups_partial;
            total.events_completed += node.events_completed;
            total.events_failed += node.events_failed;
            total.events_missed += node.events_missed;
            total.objects = total.objects.saturating_add(node.objects);
            total.bytes = total.bytes.saturating_add(node.bytes);
            total.bytes_sent = total.bytes_sent.saturating_add(node.bytes_sent);
            total.restores += node.restores;
            total.restored_objects += node.restored_objects;
            total.restored_bytes = total.restored_bytes.saturating_add(node.restored_bytes);
        }
        total
    }
}

/// Returns a share in per cent with one decimal, rounded down; a share of nothing is "-".
pub(super) fn percent(part: u64, whole: u64) -> String {
    match (u128::from(part) * 1_000).checked_div(u128::from(whole)) {
        None => "-".to_owned(),
        Some(tenths) => format!("{}.{} %", tenths / 10, tenths % 10),
    }
}
