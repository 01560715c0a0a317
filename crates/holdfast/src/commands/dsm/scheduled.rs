//! `dsmc query schedule`: the schedules of the node, and when each starts next.

use client::PlannedSchedule;
use policy::schedule::Definition;
use policy::schedule::agenda::next_start;
use serde_json::json;

use super::clock;
use super::errors::numbered;
use super::folders::node_in;
use super::joining;
use super::session::Session;
use crate::error::{CommandError, DONE, WARNED};
use crate::moment;

/// Schedules that a node follows.
struct FollowedSchedules {
    node: String,
    schedules: Vec<PlannedSchedule>,
    /// True if the server has said so just now.
    is_current: bool,
}

pub(super) fn query(session: &mut Session<'_>) -> Result<u8, CommandError> {
    let FollowedSchedules { node, schedules, is_current } = followed(session)?;
    if schedules.is_empty() {
        session.complain(match is_current {
            true => "ANS1092W This node follows no schedule",
            false => "ANS1092W The agent of this node has received no schedule; dsmcad runs it",
        });
        return Ok(WARNED);
    }
    let now = sys::clock::now();
    for schedule in &schedules {
        let definition: Option<Definition> = serde_json::from_str(&schedule.definition).ok();
        let next = definition.as_ref().and_then(|one| next_start(one, schedule.since, &node, now));
        if session.is_json() {
            let definition: serde_json::Value =
                serde_json::from_str(&schedule.definition).unwrap_or_default();
            session.context.output.json(&json!({
                "schedule": schedule.name,
                "definition": definition,
                "next_start": next.map(moment::rfc3339),
            }));
            continue;
        }
        let mut lines =
            vec![line("Schedule Name", &model::printable(&schedule.name).to_uppercase())];
        match &definition {
            Some(definition) => lines.extend(lines_of(definition)),
            None => lines.push(line("Action", "of a kind that only a newer version knows")),
        }
        let until = next.map(|next| time_until(next.secs() - now.secs()));
        lines.push(line("Next Execution", until.as_deref().unwrap_or("Never")));
        if let Some(next) = next {
            lines.push(line("Next Start", &session.forms.stamp(clock::moment(next))));
        }
        lines.push(String::new());
        session.say_all(lines);
    }
    Ok(if is_current { DONE } else { WARNED })
}

/// Returns the schedules of the node. While the server is away, they are those that the node's
/// agent has received last, and a line says so.
fn followed(session: &mut Session<'_>) -> Result<FollowedSchedules, CommandError> {
    let (node, reason) = match ask(session) {
        Ok((node, Some(schedules))) => {
            return Ok(FollowedSchedules { node, schedules, is_current: true });
        }
        Ok((node, None)) => {
            (node, "ANS1092W The server is too old to list the schedules of a node".to_owned())
        }
        Err(error) => match node_in(&session.home) {
            Some(node) if error.is_loss => (node, numbered(&error)),
            _ => return Err(error),
        },
    };
    session.complain(&format!("{reason}; this is what the node has received last"));
    Ok(FollowedSchedules { node, schedules: agent::schedules(&session.home), is_current: false })
}

/// Asks the server for the name of the node and its schedules; `None` from an older server.
fn ask(session: &mut Session<'_>) -> Result<(String, Option<Vec<PlannedSchedule>>), CommandError> {
    let client = joining::connect_at_once(session)?;
    let schedules = client.schedules()?;
    Ok((client.hello().node.clone(), schedules))
}

fn line(label: &str, value: &str) -> String {
    format!("{label:>17}: {value}")
}

fn lines_of(definition: &Definition) -> Vec<String> {
    let action = &definition.action;
    let mut name = action.work.name().to_owned();
    name[..1].make_ascii_uppercase();
    let objects: Vec<String> = action.objects.iter().map(|word| model::escaped(&word.0)).collect();
    let last_day = definition.timing.last_day.map(|day| day.to_string());
    vec![
        line("Description", &model::printable(&definition.description)),
        line("Action", &name),
        line("Options", &model::printable(&action.options.join(" "))),
        line("Objects", &objects.join(" ")),
        line("Priority", &definition.priority.to_string()),
        line("Duration", &time_until(i64::from(definition.timing.window_minutes) * 60)),
        line("Time Zone", &model::printable(&definition.zone)),
        line("Expire", last_day.as_deref().unwrap_or("Never")),
    ]
}

/// Returns a length of time as TSM writes it.
fn time_until(secs: i64) -> String {
    let minutes = secs.max(0).cast_unsigned().div_ceil(60);
    let (hours, rest) = (minutes / 60, minutes % 60);
    let counted =
        |count: u64, unit: &str| format!("{count} {unit}{}", if count == 1 { "" } else { "s" });
    match (hours, rest) {
        (0, rest) => counted(rest, "Minute"),
        (hours, 0) => counted(hours, "Hour"),
        (hours, rest) => format!("{} and {}", counted(hours, "Hour"), counted(rest, "Minute")),
    }
}

#[cfg(test)]
mod tests {
    use model::ServerTime;

    use super::*;

    fn definition() -> Definition {
        let document = json!({
            "description": "each night",
            "action": {"work": "incremental", "objects": ["/home", "/srv/a b"],
                "options": ["--quiet"]},
            "timing": {"starts": {"calendar": {"times": "22:00"}}, "window_minutes": 90,
                "spread_percent": 0},
            "zone": "UTC",
            "priority": 5,
            "retries": 2,
            "retry_pause_minutes": 20,
        });
        serde_json::from_value(document).expect("a definition")
    }

    #[test]
    fn a_schedule_has_the_lines_that_scripts_look_for() {
        let lines = lines_of(&definition());
        for expected in [
            "           Action: Incremental",
            "          Objects: /home /srv/a b",
            "         Duration: 1 Hour and 30 Minutes",
            "           Expire: Never",
        ] {
            assert!(lines.iter().any(|line| line == expected), "{expected}: {lines:?}");
        }
        assert_eq!(line("Schedule Name", "NIGHTLY"), "    Schedule Name: NIGHTLY");
    }

    #[test]
    fn the_next_start_is_the_first_that_is_not_over() {
        let hour = |hour: i64| ServerTime::from_secs(hour * 3600);
        let mut definition = definition();
        let next = |definition: &Definition, since, now| next_start(definition, since, "anna", now);
        assert_eq!(next(&definition, hour(0), hour(20)), Some(hour(22)));
        assert_eq!(next(&definition, hour(0), hour(22)), Some(hour(46)));
        assert_eq!(next(&definition, hour(30), hour(20)), Some(hour(46)), "it is new to the node");
        definition.timing.spread_percent = 100;
        let spread = next(&definition, hour(0), hour(22)).expect("a start");
        assert!(spread > hour(22) && spread < hour(24), "the window is open");
        definition.is_suspended = true;
        assert_eq!(next(&definition, hour(0), hour(20)), None);
    }

    #[test]
    fn times_until_a_start_are_in_hours_and_minutes() {
        for (secs, expected) in [
            (-5, "0 Minutes"),
            (60, "1 Minute"),
            (3_601, "1 Hour and 1 Minute"),
            (7_200, "2 Hours"),
            (90_000, "25 Hours"),
        ] {
            assert_eq!(time_until(secs), expected);
        }
    }
}
