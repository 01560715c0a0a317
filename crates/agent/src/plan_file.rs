//! The plan on disk: what the node goes on doing while the server is away.

use std::io;
use std::path::Path;

use client::{EventControl, EventName, Plan, PlannedSchedule, ReceivedSet};
use model::ServerTime;
use serde::{Deserialize, Serialize};
use sys::durable;

const PLAN_FILE: &str = "plan.json";

/// Content of `plan.json`.
#[derive(Serialize, Deserialize, Default)]
struct PlanDocument {
    digest: Vec<u8>,
    schedules: Vec<ScheduleDocument>,
    controls: Vec<ControlDocument>,
}

#[derive(Serialize, Deserialize)]
struct ScheduleDocument {
    name: String,
    definition: String,
    since: i64,
}

#[derive(Serialize, Deserialize)]
struct ControlDocument {
    schedule: String,
    planned: i64,
    control: ControlWord,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ControlWord {
    Pause,
    Resume,
    Cancel,
}

/// Reads the plan; an empty plan if there is none, or if it cannot be read: the server sends it
/// again.
pub(crate) fn load(agent_folder: &Path) -> Plan {
    let document = read(&agent_folder.join(PLAN_FILE)).unwrap_or_else(|error| {
        if error.kind() != io::ErrorKind::NotFound {
            let file = agent_folder.join(PLAN_FILE).display().to_string();
            tracing::error!(%error, file, "nothing begins until the server sends the plan again");
        }
        PlanDocument::default()
    });
    let schedule = |schedule: ScheduleDocument| PlannedSchedule {
        name: schedule.name,
        definition: schedule.definition,
        since: ServerTime(schedule.since),
    };
    let control = |document: ControlDocument| {
        let control = match document.control {
            ControlWord::Pause => EventControl::Pause,
            ControlWord::Resume => EventControl::Resume,
            ControlWord::Cancel => EventControl::Cancel,
        };
        let planned = ServerTime(document.planned);
        (EventName { schedule: document.schedule, planned }, control)
    };
    Plan {
        digest: document.digest,
        schedules: document.schedules.into_iter().map(schedule).collect(),
        controls: document.controls.into_iter().map(control).collect(),
        // The node's folder has it.
        option_set: ReceivedSet::default(),
    }
}

fn read(file: &Path) -> io::Result<PlanDocument> {
    serde_json::from_slice(&std::fs::read(file)?).map_err(io::Error::other)
}

pub(crate) fn store(agent_folder: &Path, plan: &Plan) -> io::Result<()> {
    let schedule = |schedule: &PlannedSchedule| ScheduleDocument {
        name: schedule.name.clone(),
        definition: schedule.definition.clone(),
        since: schedule.since.0,
    };
    let control = |(event, control): &(EventName, EventControl)| ControlDocument {
        schedule: event.schedule.clone(),
        planned: event.planned.0,
        control: match control {
            EventControl::Pause => ControlWord::Pause,
            EventControl::Resume => ControlWord::Resume,
            EventControl::Cancel => ControlWord::Cancel,
        },
    };
    let document = PlanDocument {
        digest: plan.digest.clone(),
        schedules: plan.schedules.iter().map(schedule).collect(),
        controls: plan.controls.iter().map(control).collect(),
    };
    let text = serde_json::to_vec(&document).map_err(io::Error::other)?;
    durable::create_dir_all(agent_folder, 0o700)?;
    durable::write(&agent_folder.join(PLAN_FILE), &text, 0o600)
}
