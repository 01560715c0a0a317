//! Schedules, and the nodes that follow them.

use std::collections::BTreeSet;

use client::admin::{Admin, Node, Schedule};
use dsm::admin::view::{Table, Value};
use policy::schedule::{Days, Definition, Every, Place, Starts};

use super::cell::{shown_time, time};
use crate::error::CommandError;

/// A node that follows a schedule.
fn followers<'a>(schedule: &Schedule, nodes: &'a [Node]) -> Vec<&'a Node> {
    nodes.iter().filter(|node| schedule.is_followed_by(node)).collect()
}

pub(super) fn associations(table: &mut Table, admin: &mut Admin) -> Result<(), CommandError> {
    let nodes = admin.nodes(None)?;
    for schedule in admin.schedules(None)? {
        for node in followers(&schedule, &nodes) {
            table.add([
                ("DOMAIN_NAME", node.domain.as_str().into()),
                ("SCHEDULE_NAME", schedule.name.as_str().into()),
                ("NODE_NAME", node.name.as_str().into()),
                ("CHG_TIME", time(schedule.changed)),
                ("CHG_ADMIN", schedule.changed_by.as_str().into()),
            ]);
        }
    }
    Ok(())
}

/// Adds a row for each domain whose nodes follow the schedule, or one without a domain.
pub(super) fn of_nodes(table: &mut Table, admin: &mut Admin) -> Result<(), CommandError> {
    let nodes = admin.nodes(None)?;
    for schedule in admin.schedules(None)? {
        if schedule.definition.place() != Place::Node {
            continue;
        }
        let following = followers(&schedule, &nodes);
        let mut domains: BTreeSet<Option<&str>> =
            following.iter().map(|node| Some(node.domain.as_str())).collect();
        if domains.is_empty() {
            domains.insert(None);
        }
        for domain in domains {
            let action = &schedule.definition.action;
            let objects: Vec<String> =
                action.objects.iter().map(|word| model::escaped(&word.0)).collect();
            let mut row = times(&schedule, table);
            let own_nodes = following.iter().filter(|node| Some(node.domain.as_str()) == domain);
            let names: Vec<String> = own_nodes.map(|node| node.name.to_ascii_uppercase()).collect();
            let own = [
                ("DOMAIN_NAME", Value::from(domain)),
                ("FOLLOWERS", names.join(" ").into()),
                ("SCHEDULE_NAME", schedule.name.as_str().into()),
                ("ACTION", action.work.name().to_uppercase().into()),
                ("OPTIONS", action.options.join(" ").into()),
                ("OBJECTS", objects.join(" ").into()),
            ];
            for (column, value) in own {
                row[table.view.index(column)] = value;
            }
            table.rows.push(row);
        }
    }
    Ok(())
}

pub(super) fn of_server(table: &mut Table, admin: &mut Admin) -> Result<(), CommandError> {
    for schedule in admin.schedules(None)? {
        if schedule.definition.place() != Place::Server {
            continue;
        }
        let action = &schedule.definition.action;
        let objects = action.objects.iter().map(|word| model::escaped(&word.0));
        let command: Vec<String> =
            std::iter::once(action.work.name().to_owned()).chain(objects).collect();
        let mut row = times(&schedule, table);
        row[table.view.index("SCHEDULE_NAME")] = schedule.name.as_str().into();
        row[table.view.index("ACTION")] = "COMMAND".into();
        row[table.view.index("CMD")] = command.join(" ").into();
        table.rows.push(row);
    }
    Ok(())
}

/// Times of a schedule in TSM's words.
#[derive(Default)]
struct Times {
    date: Option<String>,
    time: String,
    period: Option<u64>,
    units: &'static str,
    days: String,
    months: String,
    month_days: String,
    weeks: String,
    is_enhanced: bool,
}

fn of_definition(definition: &Definition) -> Times {
    match &definition.timing.starts {
        Starts::Calendar(calendar) => {
            let mut times = Times {
                time: calendar.times.to_string(),
                months: match calendar.months.is_all() {
                    true => String::new(),
                    false => calendar.months.to_string(),
                },
                ..Times::default()
            };
            match &calendar.days {
                Days::OfWeek { weekdays, weeks } => {
                    let all = (weekdays.is_all(), weeks.is_all());
                    times.days = if all.0 { String::new() } else { weekdays.to_string() };
                    times.weeks = if all.1 { String::new() } else { weeks.to_string() };
                }
                Days::OfMonth { month_days } => times.month_days = month_days.to_string(),
            }
            times.is_enhanced = !times.month_days.is_empty() || !times.weeks.is_empty();
            if !times.is_enhanced {
                (times.period, times.units) = (Some(1), "DAYS");
            }
            times
        }
        Starts::Interval(interval) => {
            let (number, units) = match interval.every {
                Every::Minutes(number) if number % 60 == 0 => (number / 60, "HOURS"),
                Every::Minutes(number) => (number, "MINUTES"),
                Every::Days(number) if number % 7 == 0 => (number / 7, "WEEKS"),
                Every::Days(number) => (number, "DAYS"),
                Every::Months(number) => (number, "MONTHS"),
            };
            Times {
                date: Some(interval.first.date().to_string()),
                time: interval.first.strftime("%H:%M:%S").to_string(),
                period: Some(number.into()),
                units,
                ..Times::default()
            }
        }
        Starts::Once(micros) => {
            let shown = shown_time(model::ServerTime(*micros));
            Times {
                date: Some(shown[..10].to_owned()),
                time: shown[11..19].to_owned(),
                units: "ONETIME",
                ..Times::default()
            }
        }
    }
}

/// Makes a row with the times of a schedule.
fn times(schedule: &Schedule, table: &Table) -> Vec<Value> {
    let definition = &schedule.definition;
    let times = of_definition(definition);
    let minutes = definition.timing.window_minutes;
    let (duration, units) = match minutes {
        minutes if minutes % (24 * 60) == 0 => (minutes / (24 * 60), "DAYS"),
        minutes if minutes % 60 == 0 => (minutes / 60, "HOURS"),
        minutes => (minutes, "MINUTES"),
    };
    let any = |text: String| -> Value { if text.is_empty() { "Any".into() } else { text.into() } };
    let last = definition.timing.last_day.map(|day| day.to_string());
    table.view.row([
        (
            "DESCRIPTION",
            Value::from(Some(definition.description.clone()).filter(|text| !text.is_empty())),
        ),
        ("PRIORITY", u64::from(definition.priority).into()),
        ("STARTDATE", times.date.into()),
        ("STARTTIME", times.time.into()),
        ("DURATION", u64::from(duration).into()),
        ("DURUNITS", units.into()),
        ("PERIOD", times.period.into()),
        ("PERUNITS", times.units.into()),
        ("DAYOFWEEK", any(times.days)),
        ("EXPIRATION", last.into()),
        ("CHG_TIME", time(schedule.changed)),
        ("CHG_ADMIN", schedule.changed_by.as_str().into()),
        ("SCHED_STYLE", (if times.is_enhanced { "ENHANCED" } else { "CLASSIC" }).into()),
        ("ENH_MONTH", any(times.months)),
        ("DAYOFMONTH", any(times.month_days)),
        ("WEEKOFMONTH", any(times.weeks)),
        ("ACTIVE", (if definition.is_suspended { "No" } else { "Yes" }).into()),
        ("TIME_ZONE", definition.zone.as_str().into()),
    ])
}
