//! Series: the backups of a node by day, for charts.

use std::collections::BTreeMap;

use catalog::SessionRow;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use model::ServerTime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::found_node::find_node;
use super::nodes::NodePath;
use crate::call::{Answer, Call};
use crate::fields::Empty;
use crate::operation::Operation;
use crate::problem::Problem;
use crate::roles::{Area, Right};
use crate::routes::Routes;

/// Number of days that are shown by default, and at most.
const DAYS: u32 = 30;
const DAYS_MAX: u32 = 400;
const DAY_MICROS: i64 = 86_400_000_000;
/// Maximum number of finished backups that are looked at.
const BACKUPS_MAX: usize = 50_000;

/// The backups of a node, day by day.
#[derive(Serialize, JsonSchema)]
struct SeriesDocument {
    node: String,
    /// Days with backups, in their order.
    days: Vec<DayDocument>,
}

/// The backups of a node that began on a day.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
struct DayDocument {
    /// The day, as in 2026-11-26.
    day: String,
    /// Number of finished backups of filespaces.
    backups: u64,
    /// Number of those that did not examine everything.
    incomplete: u64,
    /// Number of objects that the backups examined.
    inspected: u64,
    /// Number of new versions.
    backed_up: u64,
    updated: u64,
    expired: u64,
    failed: u64,
    /// Sizes of the examined objects.
    bytes_inspected: u64,
    /// Bytes on the wire.
    bytes_sent: u64,
    /// Share of the examined bytes that was not sent, in per cent; absent if nothing was examined.
    #[serde(skip_serializing_if = "Option::is_none")]
    reduction_percent: Option<f64>,
}

/// The counters in the report of a backup, as clients send them.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Counters {
    inspected: u64,
    backed_up: u64,
    updated: u64,
    expired: u64,
    failed: u64,
    bytes_inspected: u64,
    bytes_transferred: u64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SeriesQuery {
    /// Number of days up to the present: 1 to 400; 30 by default.
    days: Option<u32>,
    /// Name of the time zone of the days, as in Europe/Berlin; UTC by default.
    zone: Option<String>,
}

pub(super) fn add(routes: &mut Routes) {
    let summary = "Counts what the backups of a node did, day by day";
    let path = "/v1/nodes/{node}/series";
    let operation = Operation::read("nodes.series", path, Area::Work, summary);
    routes.add(operation.value("zone", "Europe/Berlin"), series);
}

fn series(call: &mut Call<NodePath, SeriesQuery, Empty>) -> Answer<SeriesDocument> {
    let days = match call.query.days {
        None => DAYS,
        Some(days @ 1..=DAYS_MAX) => days,
        Some(_) => return Err(Problem::invalid(format!("give 1 to {DAYS_MAX} days"))),
    };
    let zone = call.query.zone.as_deref().unwrap_or("UTC");
    let zone = TimeZone::get(zone).map_err(|_| {
        Problem::invalid("the time zone is unknown; give one such as Europe/Berlin")
    })?;
    let rights = (Area::Work, Right::Read);
    let found = find_node(&call.desk, &call.caller, &call.path.node, rights)?;
    let since = ServerTime(sys::clock::now().0 - i64::from(days) * DAY_MICROS);
    let catalog = &call.desk.store().catalog;
    let rows = catalog.sessions_since(found.node.id, since, BACKUPS_MAX)?;
    Ok(SeriesDocument { node: found.node.name.to_string(), days: by_day(&rows, &zone) })
}

/// Adds up the backups of each day.
fn by_day(rows: &[SessionRow], zone: &TimeZone) -> Vec<DayDocument> {
    let mut days: BTreeMap<Date, DayDocument> = BTreeMap::new();
    for row in rows {
        let time = Timestamp::from_microsecond(row.started.0).unwrap_or(Timestamp::UNIX_EPOCH);
        let day = time.to_zoned(zone.clone()).date();
        days.entry(day).or_insert_with(|| DayDocument::new(day)).count(row);
    }
    days.into_values().map(DayDocument::with_reduction).collect()
}

impl DayDocument {
    fn new(day: Date) -> Self {
        Self {
            day: day.to_string(),
            backups: 0,
            incomplete: 0,
            inspected: 0,
            backed_up: 0,
            updated: 0,
            expired: 0,
            failed: 0,
            bytes_inspected: 0,
            bytes_sent: 0,
            reduction_percent: None,
        }
    }

    fn count(&mut self, row: &SessionRow) {
        let counters: Counters = serde_json::from_str(&row.report).unwrap_or_default();
        self.backups += 1;
        self.incomplete += u64::from(!row.complete);
        let sums = [
            (&mut self.inspected, counters.inspected),
            (&mut self.backed_up, counters.backed_up),
            (&mut self.updated, counters.updated),
            (&mut self.expired, counters.expired),
            (&mut self.failed, counters.failed),
            (&mut self.bytes_inspected, counters.bytes_inspected),
            (&mut self.bytes_sent, counters.bytes_transferred),
        ];
        for (sum, count) in sums {
            *sum = sum.saturating_add(count);
        }
    }

    fn with_reduction(mut self) -> Self {
        if self.bytes_inspected > 0 {
            let sent = self.bytes_sent.min(self.bytes_inspected);
            // In hundredths of a per cent: a chart shows no more.
            let kept = u128::from(sent) * 10_000 / u128::from(self.bytes_inspected);
            let kept = u32::try_from(kept).expect("a part is at most the whole");
            self.reduction_percent = Some(f64::from(10_000 - kept) / 100.0);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use model::{FilespaceId, NodeId};

    use super::*;

    fn row(hours: i64, complete: bool, report: &str) -> SessionRow {
        let started = ServerTime(1_700_006_400_000_000 + hours * 3_600_000_000);
        let (node, filespace) = (NodeId(1), FilespaceId(1));
        SessionRow { node, filespace, started, ended: started, complete, report: report.to_owned() }
    }

    #[test]
    fn days_are_those_of_the_zone() {
        let report = r#"{"inspected":10,"failed":1,"bytes_inspected":1000,"bytes_transferred":15}"#;
        // 1,700,006,400 is midnight between 14 and 15 November 2023 in UTC.
        let rows = [row(1, true, report), row(-1, false, report), row(0, true, "nonsense")];
        let days = by_day(&rows, &TimeZone::UTC);
        let shown = days
            .iter()
            .map(|day| (&day.day[..], day.backups, day.inspected))
            .collect::<Vec<_>>();
        assert_eq!(shown, [("2023-11-14", 1, 10), ("2023-11-15", 2, 10)]);
        assert_eq!((days[0].incomplete, days[0].failed, days[0].bytes_sent), (1, 1, 15));
        assert_eq!(days[0].reduction_percent, Some(98.5));
        let tokyo = TimeZone::get("Asia/Tokyo").expect("a zone");
        assert_eq!(by_day(&rows, &tokyo).len(), 1);
        assert_eq!(by_day(&[], &TimeZone::UTC), []);
        assert_eq!(by_day(&[row(0, true, "")], &TimeZone::UTC)[0].reduction_percent, None);
    }
}
