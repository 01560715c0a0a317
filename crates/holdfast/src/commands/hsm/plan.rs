//! `holdfast hsm recall --dry-run`: shows the plan of a recall, and recalls nothing.

use std::time::Duration;

use ::hsm::{PathText, PlanState, PlannedVolume, Reply, Request};
use model::escaped;
use serde::Serialize;

use super::ask::ask;
use crate::context::Context;
use crate::error::{CommandError, DONE, FAILED};
use crate::output;
use crate::path::JsonPath;
use crate::quantity;
use crate::table::{self, Align};

/// `hsm recall --dry-run --json`.
#[derive(Serialize)]
struct PlanDocument<'a> {
    volumes: Vec<VolumeDocument<'a>>,
    disk_files: u64,
    disk_bytes: u64,
    mounts: u32,
    estimate_secs: f64,
    /// The files in the order of the recall.
    order: Vec<JsonPath<'a>>,
    unknown: Vec<JsonPath<'a>>,
}

#[derive(Serialize)]
struct VolumeDocument<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    library: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    volume: &'a str,
    is_mounted: bool,
    files: u64,
    bytes: u64,
    packs: u64,
    estimate_secs: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<&'a str>,
}

pub(super) fn preview(
    request: &Request,
    detail: bool,
    context: &mut Context,
) -> Result<u8, CommandError> {
    let mut plan = PlanState::default();
    let mut failed = 0_u64;
    let is_json = context.output.is_json();
    ask(context, request, &mut |reply| {
        match reply {
            Reply::Plan(told) => plan = told,
            Reply::File(outcome) => {
                if let Some(error) = outcome.error {
                    failed += 1;
                    output::say(&format!("{}: {error}", escaped(&outcome.path.0)));
                }
            }
            _ => {}
        }
        true
    })?;
    if is_json {
        context.output.json(&PlanDocument::new(&plan));
    } else {
        plan.unknown.iter().for_each(|path| {
            output::say(&format!("{}: the server has no copy of the file", escaped(&path.0)));
        });
        context.output.text(&text(&plan, detail));
    }
    let is_whole = failed == 0
        && plan.unknown.is_empty()
        && plan.volumes.iter().all(|volume| volume.problem.is_none());
    Ok(if is_whole { DONE } else { FAILED })
}

impl<'a> PlanDocument<'a> {
    fn new(plan: &'a PlanState) -> Self {
        let volume = |volume: &'a PlannedVolume| VolumeDocument {
            library: &volume.library,
            volume: &volume.volume,
            is_mounted: volume.is_mounted,
            files: volume.files,
            bytes: volume.bytes,
            packs: volume.packs,
            estimate_secs: volume.estimate_secs,
            problem: volume.problem.as_deref(),
        };
        let path = |path: &'a PathText| JsonPath(&path.0);
        Self {
            volumes: plan.volumes.iter().map(volume).collect(),
            disk_files: plan.disk_files,
            disk_bytes: plan.disk_bytes,
            mounts: plan.mounts,
            estimate_secs: plan.estimate_secs,
            order: plan.order.iter().map(path).collect(),
            unknown: plan.unknown.iter().map(path).collect(),
        }
    }
}

fn text(plan: &PlanState, detail: bool) -> String {
    let columns = [
        ("Volume", Align::Left),
        ("Library", Align::Left),
        ("State", Align::Left),
        ("Files", Align::Right),
        ("Size", Align::Right),
        ("Time", Align::Right),
    ];
    let row = |volume: &PlannedVolume| {
        let state = match (&volume.problem, volume.is_mounted) {
            (Some(problem), _) => problem.as_str(),
            (None, true) => "mounted",
            (None, false) => "to be mounted",
        };
        let is_there = volume.problem.is_none();
        [
            volume.volume.clone(),
            volume.library.clone(),
            state.to_owned(),
            quantity::count(volume.files),
            quantity::bytes_with_unit(volume.bytes),
            if is_there { duration(volume.estimate_secs) } else { String::new() },
        ]
    };
    let mut rows: Vec<[String; 6]> = plan.volumes.iter().map(row).collect();
    if plan.disk_files > 0 {
        rows.push([
            "(disk)".to_owned(),
            String::new(),
            String::new(),
            quantity::count(plan.disk_files),
            quantity::bytes_with_unit(plan.disk_bytes),
            String::new(),
        ]);
    }
    let mut text = if rows.is_empty() { String::new() } else { table::render(columns, &rows) };
    let mounts = quantity::count(plan.mounts.into());
    let time = duration(plan.estimate_secs);
    text.push_str(&["Mounts: ", &mounts, "; reading volumes takes about ", &time, ".\n"].concat());
    if detail {
        plan.order
            .iter()
            .for_each(|path| text.push_str(&[&escaped(&path.0), "\n"].concat()));
    }
    text
}

fn duration(secs: f64) -> String {
    quantity::clock(Duration::try_from_secs_f64(secs.ceil()).unwrap_or_default())
}
