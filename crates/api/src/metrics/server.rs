//! Metrics of the server's process and of its tasks.

use std::collections::BTreeMap;

use catalog::TaskEnd;
use store::Hold;

use super::format::Text;
use crate::call::Answer;
use crate::desk::Desk;

pub(super) fn add(desk: &Desk, text: &mut Text) -> Answer<()> {
    let store = desk.store();
    let name = "holdfast_build_info";
    text.family(name, "gauge", "The program.");
    text.value(name, &[("version", env!("CARGO_PKG_VERSION"))], 1);
    let house = u8::from(store.keeps_house());
    text.gauge("holdfast_keeps_house", "1 if this server does the work of the fleet.", house);
    let help = "Servers of the installation.";
    text.gauge("holdfast_servers", help, store.servers().len());
    let hold = store.hold()?;
    let help = "1 if the server removes nothing that its catalogue does not name, for this reason.";
    let holds = [
        ("recovered", matches!(hold, Some(Hold::Recovered))),
        ("older-catalogue", matches!(hold, Some(Hold::Older { .. }))),
        ("parted-copies", matches!(hold, Some(Hold::Parted { .. }))),
    ];
    let holds = holds.map(|(reason, is_so)| (reason, u8::from(is_so)));
    text.labelled(("holdfast_server_held", "gauge", help), "reason", holds);
    tasks(desk, text)?;
    process(text);
    Ok(())
}

fn tasks(desk: &Desk, text: &mut Text) -> Answer<()> {
    let runs = desk.store().catalog.last_task_runs()?;
    let (mut ended, mut failed) = (BTreeMap::new(), BTreeMap::new());
    // The last run comes first. A cancelled run has neither failed nor succeeded.
    for run in runs.into_iter().map(|logged| logged.run) {
        let Some(end) = run.ended.filter(|end| end.code != TaskEnd::CANCELLED) else { continue };
        failed.entry(run.task.clone()).or_insert(u8::from(end.code >= TaskEnd::FAILED));
        if end.code < TaskEnd::FAILED {
            ended.entry(run.task).or_insert(end.at.0.div_euclid(1_000_000));
        }
    }
    let help = "1 if the last run of the task failed.";
    text.labelled(("holdfast_task_failed", "gauge", help), "task", failed);
    let help = "Time at which the task last succeeded, in seconds since 1970.";
    let name = "holdfast_task_success_timestamp_seconds";
    text.labelled((name, "gauge", help), "task", ended);
    Ok(())
}

fn process(text: &mut Text) {
    let memory = sys::process::resident_bytes();
    text.gauge("process_resident_memory_bytes", "Resident memory of the process.", memory);
    let open = sys::process::open_files();
    text.gauge("process_open_fds", "Files and connections that the process has open.", open);
    let cpu = sys::process::cpu_time().as_secs_f64();
    text.counter("process_cpu_seconds_total", "Processor time of the process.", cpu);
}
