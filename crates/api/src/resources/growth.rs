//! Growth: the space that pools have taken, and the size of what domains have stored, day by day.

use std::cmp::Reverse;

use catalog::{Day, UsageDay, UsageSubject};
use jiff::civil::Date;
use jiff::{Timestamp, tz::TimeZone};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::call::{Answer, Call};
use crate::caller::Subject;
use crate::fields::Empty;
use crate::operation::Operation;
use crate::problem::Problem;
use crate::roles::{Area, Right};
use crate::routes::Routes;

/// Number of days that are shown by default, and at most.
const DAYS: u32 = 90;
const DAYS_MAX: u32 = 400;
const DAY_SECS: i64 = 86_400;
/// Maximum number of domains in an answer.
const DOMAINS_MAX: usize = 100;

/// Pools and domains that the caller may see, day by day.
#[derive(Serialize, JsonSchema)]
struct GrowthDocument {
    /// Pools, for those who may read about storage, the largest first.
    pools: Vec<GrowthItem>,
    /// The domains that have stored most, at most 100, the largest first.
    domains: Vec<GrowthItem>,
}

/// A pool with the space that it has taken, or a domain with the size of its stored versions.
#[derive(Serialize, JsonSchema)]
struct GrowthItem {
    name: String,
    /// Days on which the size was noted, in their order.
    days: Vec<GrowthDay>,
}

/// The size on a day.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
struct GrowthDay {
    /// The day in UTC, as in 2026-11-26.
    day: String,
    bytes: u64,
    /// Number of bytes that fit; absent if nobody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_max: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GrowthQuery {
    /// Number of days up to the present: 1 to 400; 90 by default.
    days: Option<u32>,
}

pub(super) fn add(routes: &mut Routes) {
    let summary =
        "Shows the space that pools have taken, and the size of what domains have stored, by day";
    let operation = Operation::read("reports.growth", "/v1/growth", Area::Reports, summary);
    routes.add(operation, growth);
}

fn growth(call: &mut Call<Empty, GrowthQuery, Empty>) -> Answer<GrowthDocument> {
    let days = match call.query.days {
        None => DAYS,
        Some(days @ 1..=DAYS_MAX) => days,
        Some(_) => return Err(Problem::invalid(format!("give 1 to {DAYS_MAX} days"))),
    };
    let today = Day::of(sys::clock::now());
    let span = (Day(today.0 - i64::from(days) + 1), today);
    let catalog = &call.desk.store().catalog;
    let item = |name: String, subject| -> Answer<GrowthItem> {
        let days = catalog.usage_days(subject, span)?;
        Ok(GrowthItem { name, days: days.iter().map(describe).collect() })
    };
    let (mut pools, mut domains) = (Vec::new(), Vec::new());
    if call.caller.may(Area::Storage, Right::Read, Subject::Service) {
        for pool in catalog.pools()? {
            pools.push(item(pool.name, UsageSubject::Pool(pool.id))?);
        }
    }
    for domain in catalog.domains()? {
        if call.caller.may(Area::Reports, Right::Read, Subject::Domain(domain.id)) {
            call.attention.check()?;
            domains.push(item(domain.name, UsageSubject::Domain(domain.id))?);
        }
    }
    for items in [&mut pools, &mut domains] {
        items.sort_by_key(|item| Reverse(item.days.last().map(|day| day.bytes)));
    }
    domains.truncate(DOMAINS_MAX);
    Ok(GrowthDocument { pools, domains })
}

fn describe(usage: &UsageDay) -> GrowthDay {
    GrowthDay {
        day: date_of(usage.day).to_string(),
        bytes: usage.bytes,
        bytes_max: (usage.bytes_max > 0).then_some(usage.bytes_max),
    }
}

fn date_of(day: Day) -> Date {
    let begin = Timestamp::from_second(day.0.saturating_mul(DAY_SECS));
    begin.unwrap_or(Timestamp::UNIX_EPOCH).to_zoned(TimeZone::UTC).date()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_named_by_its_date() {
        let subject = UsageSubject::Domain(model::DomainId(1));
        let usage = UsageDay { subject, day: Day(20_783), bytes: 7, bytes_max: 0 };
        let day = GrowthDay { day: "2026-11-26".to_owned(), bytes: 7, bytes_max: None };
        assert_eq!(describe(&usage), day);
    }
}
