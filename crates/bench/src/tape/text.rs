//! The page `tape.md` and the JSON document.

use std::ops::RangeInclusive;

use serde_json::{Value, json};

use super::day::{self, Percentiles, Way};
use super::drives;
use super::emulation;
use super::orders;
use super::planning::{self, Cost};
use super::recalls;
use super::results::Results;
use crate::output;
use crate::page;
use crate::spread::Spread;

/// Target: maximum ratio of the time of opened files to the time of a list.
const OPEN_TARGET: f64 = 1.2;
/// Target: maximum ratio of the positioning time in the chosen order to the positioning time in the
/// order by block.
const ORDER_TARGET: f64 = 0.4;
/// Numbers of files for which the target of the order holds.
const ORDER_TARGET_FILES: RangeInclusive<u64> = 16..=256;

pub(super) fn page(results: &Results) -> String {
    let parts = [
        head(results),
        recalls(results),
        emulation(results),
        orders(results),
        drives(results),
        day(results),
        planning(results),
    ];
    parts.concat()
}

fn head(results: &Results) -> String {
    format!(
        "{}\n`cargo run --release -p bench -- tape` reproduces this page. Everything here is \
         **simulated**: the schedule is the code that serves real drives, but the drives are a \
         calibrated model of LTO-8 at 360 MB/s on a virtual clock. The model's positioning is the \
         formula that CERN publishes for CTA, with a shorter step back. That step, the time of a \
         mount, and the time of a file besides its transfer are fitted to the table below. So the \
         model reproduces the table, and does not predict it. Figures that depend on the \
         arrangement are the median of {}, with the least and the greatest value in brackets.\n",
        page::head("Recalls from tape"),
        output::counted(results.seeds, "arrangement"),
    )
}

fn recalls(results: &Results) -> String {
    let rows: Vec<Vec<String>> = results.recalls.iter().map(recall).collect();
    let table = page::table(
        &[
            "files",
            "list, published s",
            "list, s",
            "opened, published s",
            "opened one by one, s",
            "opened, s",
            "opened / list",
            "assumed first file, s",
        ],
        &rows,
    );
    let lists = results.recalls.iter().filter(|row| meets_list(row)).count();
    let opened = results.recalls.iter().filter(|row| meets_open(row)).count();
    let count = results.recalls.len();
    format!(
        "\n## A list and opened files\n\n{table}\nThe published columns are IBM's, for one drive. \
         *list* is one list of all files. *opened* are the same files, opened by groups of a \
         hundred programs, 20 ms apart and out of order by up to 47 places. The next group begins \
         a second after the last program of the group has its file. The 20 ms and the second are \
         assumptions. A file of a list and an opened file both need 18 ms besides their transfer; \
         this time was fitted to IBM's lists. *opened one by one* shows how well the model is \
         calibrated: it serves the same requests in the order in which they come, with the \
         additional times of IBM's server. The published table does not say where the data was on \
         the tape. The last column is the assumed time to locate the first file from the load \
         point. For 100 x 1 GB it must be 0, because 298 s of its 343 s are transfer at 360 MB/s, \
         which leaves 45 s for the mount and the files. Rounded to seconds, {lists} of {count} \
         lists take no longer than published, and {opened} of {count} rows of opened files take at \
         most {OPEN_TARGET} times as long as their list.\n"
    )
}

fn recall(row: &recalls::Row) -> Vec<String> {
    vec![
        row.published.label.to_owned(),
        row.published.list_secs.to_string(),
        format!("{:.0}", row.list_secs),
        row.published.open_secs.to_string(),
        page::cell(row.as_they_come_secs, 0),
        page::cell(row.open_secs, 0),
        format!("{:.2}", row.open_secs.median / row.list_secs),
        format!("{:.0}", row.first_secs),
    ]
}

fn emulation(results: &Results) -> String {
    let row = |row: &emulation::Row| {
        let ratio = |secs: f64, model: f64| format!("{secs:.1} ({:.3})", secs / model);
        vec![
            row.label.to_owned(),
            ratio(row.list_secs, row.list_model_secs),
            ratio(row.open_secs, row.open_model_secs),
            row.commands.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = results.emulation.iter().map(row).collect();
    let heads = ["files", "list, s (ratio to model)", "opened, s (ratio to model)", "commands"];
    let table = page::table(&heads, &rows);
    format!(
        "\n## The same through SCSI\n\n{table}\nHere the schedule commands an emulated changer and \
         an emulated drive, with the code that commands real devices. On the emulator's clock each \
         motion takes the time of the model. The last column is the number of commands of one \
         list. Rows of more than 16 GiB are left out, because the emulator makes every byte that \
         is read.\n"
    )
}

/// Returns true if a list takes no longer than published, rounded to seconds as the published times
/// are.
fn meets_list(row: &recalls::Row) -> bool {
    row.list_secs.round() <= f64::from(row.published.list_secs)
}

fn meets_open(row: &recalls::Row) -> bool {
    row.open_secs.most <= OPEN_TARGET * row.list_secs
}

fn orders(results: &Results) -> String {
    let row = |row: &orders::Row| {
        let cell = |spread: Spread| page::cell(spread, 1);
        vec![
            row.files.to_string(),
            cell(row.random),
            cell(row.by_block),
            cell(row.sweep),
            cell(row.greedy),
            row.improved.map_or_else(|| "-".to_owned(), cell),
            row.cheapest.map_or_else(|| "-".to_owned(), cell),
            cell(row.chosen),
            page::cell(row.part, 2),
        ]
    };
    let rows: Vec<Vec<String>> = results.orders.iter().map(row).collect();
    let table = page::table(
        &[
            "files",
            "as they come",
            "by block",
            "sweep",
            "greedy",
            "improved",
            "best of all",
            "chosen",
            "chosen / by block",
        ],
        &rows,
    );
    format!(
        "\n## The order of scattered files\n\n{table}\nPositioning time for each file in seconds, \
         for files of 200 MB at random places of a full volume. *sweep* reads all files of forward \
         wraps on the way to the end of the tape, and the others on the way back. *greedy* goes to \
         the nearest file by estimated time. *improved* takes the best of these orders and moves \
         files to cheaper places in it. *best of all* is the cheapest of all possible orders, \
         which is computed for up to 16 files. *chosen* is the order that is read: the cheapest \
         of *by block* to *improved*, with gaps read through where that is faster. The last column \
         is its ratio to *by block*. The target is {ORDER_TARGET} from {} to {} files; {}.\n",
        ORDER_TARGET_FILES.start(),
        ORDER_TARGET_FILES.end(),
        order_verdict(&results.orders),
    )
}

fn order_verdict(rows: &[orders::Row]) -> String {
    let aimed = rows.iter().filter(|row| ORDER_TARGET_FILES.contains(&row.files));
    let missed: Vec<String> = aimed
        .filter(|row| row.part.median > ORDER_TARGET)
        .map(|row| {
            let best = row.cheapest.map_or_else(String::new, |cheapest| {
                format!("; the best of all orders takes {:.1} s", cheapest.median)
            });
            format!("missed with {} files ({:.2}{best})", row.files, row.part.median)
        })
        .collect();
    if missed.is_empty() { "reached".to_owned() } else { missed.join(", ") + ", otherwise reached" }
}

fn drives(results: &Results) -> String {
    let first = results.drives.first().map_or(0.0, |row| row.secs);
    let row = |row: &drives::Row| {
        vec![
            row.drives.to_string(),
            format!("{:.0}", row.secs),
            format!("{:.2}", first / row.secs),
            row.mounts.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = results.drives.iter().map(row).collect();
    let table = page::table(&["drives", "s", "speed-up", "mounts"], &rows);
    format!(
        "\n## Several drives\n\n{table}\n64 scattered files of 200 MB on each of eight volumes are \
         requested at once. A volume can be in only one drive, so more than eight drives would not \
         help.\n"
    )
}

fn day(results: &Results) -> String {
    let row = |way: &Way| {
        let minutes = |secs: f64| format!("{:.1}", secs / 60.0);
        let Percentiles { p50, p90, p99, most } = way.opens;
        let mut row = vec![way.name.to_owned()];
        row.extend([p50, p90, p99, most, way.lists.p50, way.lists.most].map(minutes));
        row.extend([way.mounts.to_string(), format!("{:.1}", way.end_secs / 3600.0)]);
        row
    };
    let rows: Vec<Vec<String>> = results.day.ways.iter().map(row).collect();
    let table = page::table(
        &[
            "way",
            "opened, p50 min",
            "p90",
            "p99",
            "most",
            "lists, p50 min",
            "most",
            "mounts",
            "end, h",
        ],
        &rows,
    );
    let errors = results.day.errors;
    format!(
        "\n## A day\n\n{table}\n{} files of 100 MB are opened in the course of a day, most of them \
         in working hours, and {} lists of {} scattered files come at any time. There are {} \
         volumes, some of which are used more than others, and {} drives. The waits are those of \
         opened files, and of the files of lists. *one by one* serves requests in the order of \
         arrival. *by volume* mounts the volume of the request that has waited longest, and serves \
         all requests for it in the order of arrival. *queue* is the schedule. Programs got a \
         forecast of the time at which an opened file would be served, without knowledge of later \
         requests. Half of the forecasts were wrong by at most {:.0} s, nine in ten by at most \
         {:.0} s.\n",
        day::OPENS,
        day::LISTS,
        day::LIST_FILES,
        day::VOLUMES,
        day::DRIVES,
        errors.p50,
        errors.p90,
    )
}

fn planning(results: &Results) -> String {
    let row = |row: &planning::Row| {
        let mut cells = vec![row.files.to_string()];
        for cost in [row.through, row.never] {
            cells.push(format!("{:.1}", cost.cpu_secs * 1000.0));
            cells.push(format!("{:?}", cost.candidate));
            cells.push(format!("{:.2}", cost.positioning_secs_per_file));
        }
        cells
    };
    let rows: Vec<Vec<String>> = results.planning.iter().map(row).collect();
    let table = page::table(
        &["files", "CPU ms", "order", "s/file", "without gaps: CPU ms", "order", "s/file"],
        &rows,
    );
    format!(
        "\n## The cost of planning\n\n{table}\nProcessor time of one plan for files of 1 MB at \
         random places of a full volume, and the positioning time of the plan. The plans of the \
         last three columns never read through gaps, so that two files are never one run. The \
         processor times depend on the machine.\n"
    )
}

pub(super) fn document(results: &Results) -> Value {
    json!({
        "seeds": results.seeds,
        "recalls": results.recalls.iter().map(recall_json).collect::<Vec<_>>(),
        "through_scsi": results.emulation.iter().map(|row| json!({
            "files": row.label, "list_secs": row.list_secs, "open_secs": row.open_secs,
            "list_model_secs": row.list_model_secs, "open_model_secs": row.open_model_secs,
            "commands": row.commands,
        })).collect::<Vec<_>>(),
        "orders": results.orders.iter().map(order_json).collect::<Vec<_>>(),
        "drives": results.drives.iter().map(|row| json!({
            "drives": row.drives, "secs": row.secs, "mounts": row.mounts,
        })).collect::<Vec<_>>(),
        "day": results.day.ways.iter().map(|way| json!({
            "served": way.name,
            "opens": percentiles_json(way.opens),
            "lists": percentiles_json(way.lists),
            "mounts": way.mounts,
            "end_secs": way.end_secs,
        })).collect::<Vec<_>>(),
        "forecast_errors": percentiles_json(results.day.errors),
        "planning": results.planning.iter().map(|row| json!({
            "files": row.files, "through": cost_json(row.through), "never": cost_json(row.never),
        })).collect::<Vec<_>>(),
    })
}

fn recall_json(row: &recalls::Row) -> Value {
    json!({
        "files": row.published.label,
        "list_published_secs": row.published.list_secs,
        "list_secs": row.list_secs,
        "open_published_secs": row.published.open_secs,
        "as_they_come_secs": row.as_they_come_secs.json(),
        "open_secs": row.open_secs.json(),
        "first_secs": row.first_secs,
    })
}

fn order_json(row: &orders::Row) -> Value {
    json!({
        "files": row.files,
        "random": row.random.json(),
        "by_block": row.by_block.json(),
        "sweep": row.sweep.json(),
        "greedy": row.greedy.json(),
        "improved": row.improved.map(Spread::json),
        "cheapest": row.cheapest.map(Spread::json),
        "chosen": row.chosen.json(),
        "part_of_by_block": row.part.json(),
    })
}

fn percentiles_json(of: Percentiles) -> Value {
    json!({"p50": of.p50, "p90": of.p90, "p99": of.p99, "max": of.most})
}

fn cost_json(cost: Cost) -> Value {
    json!({
        "cpu_secs": cost.cpu_secs,
        "order": format!("{:?}", cost.candidate),
        "positioning_secs_per_file": cost.positioning_secs_per_file,
    })
}
