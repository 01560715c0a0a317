//! The page `tape.md` and the JSON document.

use std::ops::RangeInclusive;

use serde_json::{Value, json};

use super::day::{self, Percentiles, Way};
use super::driven;
use super::drives;
use super::orders;
use super::planning::{self, Cost};
use super::recalls;
use super::results::Results;
use crate::page;
use crate::spread::Spread;

/// Maximum ratio of the time of opened files to that of a list.
const OPEN_TARGET: f64 = 1.2;
/// Maximum ratio of positioning to that of the order by block, for some number of files.
const ORDER_TARGET: f64 = 0.4;
const ORDER_TARGET_FILES: RangeInclusive<u64> = 16..=256;

pub(super) fn page(results: &Results) -> String {
    let parts = [
        head(results),
        recalls(results),
        driven(results),
        orders(results),
        drives(results),
        day(results),
        planning(results),
    ];
    parts.concat()
}

fn head(results: &Results) -> String {
    format!(
        "{}\nReproduced by `cargo run --release -p bench -- tape`. Everything here is \
         **simulated**: the schedule is the one that serves real drives, the drives are a \
         calibrated model of LTO-8 at 360 MB/s on a virtual clock. The model's positioning is the \
         formula that CERN publishes for CTA with a shorter step back; that step, the times of a \
         mount and of a file besides its transfer are fitted to the table below, so that the model \
         reproduces it and predicts nothing. Where figures differ by arrangement, they are the \
         median of {} and, in brackets, the least and the most.\n",
        page::head("Recalls from tape"),
        results.seeds,
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
            "first file taken to be, s",
        ],
        &rows,
    );
    let lists = results.recalls.iter().filter(|row| meets_list(row)).count();
    let opened = results.recalls.iter().filter(|row| meets_open(row)).count();
    let count = results.recalls.len();
    format!(
        "\n## A list and opened files\n\n{table}\nThe published columns are IBM's, for one drive. \
         *list* is one list of all files. *opened* are the same files opened by a hundred programs \
         together, 20 ms apart and out of order by up to 47 places, the next hundred a second \
         after the last one has its file. Files of a list and opened ones are taken to need the \
         same 18 ms each besides their transfer, which was fitted to IBM's lists; 20 ms and the \
         second are assumed. *opened one by one* is the model serving those in the order in which \
         they come, with what IBM's server takes for each: how well it is calibrated. The \
         published table does not say where the data lay. The last column says how many seconds of \
         locating from the load point each row is taken to begin with; for 100 x 1 GB that must be \
         none, since 298 s of its 343 s are transfer at 360 MB/s and 45 s are left for mount and \
         files. To the second, {lists} of {count} lists take no longer than published, and \
         {opened} of {count} rows of opened files at most {OPEN_TARGET} times their list.\n"
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

fn driven(results: &Results) -> String {
    let row = |row: &driven::Row| {
        let ratio = |driven: f64, model: f64| format!("{driven:.1} ({:.3})", driven / model);
        vec![
            row.label.to_owned(),
            ratio(row.list_secs, row.list_model_secs),
            ratio(row.open_secs, row.open_model_secs),
            row.commands.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = results.driven.iter().map(row).collect();
    let heads = ["files", "list, s (of the model's)", "opened, s (of the model's)", "commands"];
    let table = page::table(&heads, &rows);
    format!(
        "\n## The same through SCSI\n\n{table}\nHere the schedule commands an emulated changer and \
         drive with the code that commands real ones, on the emulator's clock, which takes for \
         each motion what the model says. The last column counts the commands of one list. Rows of \
         more than 16 GiB are left to the model: the emulator makes every byte that is read.\n"
    )
}

/// Returns true if a list takes no longer than published. The published time has whole seconds.
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
            "of by block",
        ],
        &rows,
    );
    format!(
        "\n## The order of scattered files\n\n{table}\nSeconds to get to a file, of files of 200 \
         MB anywhere on a full volume. *sweep* reads all forward wraps on the way to the end and \
         the rest on the way back, *greedy* goes to the nearest by estimated time, *improved* \
         moves files of the best of these to where they cost less. *best of all* is the cheapest \
         of all orders that there are, found for up to 16 files. *chosen* is what is read: the \
         cheapest of them, with gaps read through where that is faster; the last column compares \
         it with the order by block of the same files. The aim is {ORDER_TARGET} of that from {} \
         to {} files; {}.\n",
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
                format!(", where the best of all orders takes {:.1} s", cheapest.median)
            });
            format!("missed with {} ({:.2}{best})", row.files, row.part.median)
        })
        .collect();
    if missed.is_empty() { "reached".to_owned() } else { missed.join(", ") + ", else reached" }
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
    let table = page::table(&["drives", "s", "times as fast", "mounts"], &rows);
    format!(
        "\n## Several drives\n\n{table}\nEight volumes, of each of which 64 scattered files of 200 \
         MB are wanted at once. A volume is in one drive at a time, so eight drives are as many \
         as help.\n"
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
            "served",
            "opened, p50 min",
            "p90",
            "p99",
            "most",
            "of lists, p50 min",
            "most",
            "mounts",
            "ends, h",
        ],
        &rows,
    );
    let errors = results.day.errors;
    format!(
        "\n## A day\n\n{table}\n{} files of 100 MB are opened in the course of a day, most of them \
         in working hours, and {} lists of {} scattered files come at any time; {} volumes, some \
         with more in use than others, and {} drives. The waits are those of the opened files and \
         of the files of lists. *one by one* serves whatever came first, *by volume* mounts the \
         volume of whoever waits longest and reads all that waits for it in the order in which it \
         came, *queue* is the schedule. Opened files were told when they would be served, without \
         knowledge of what was still to come: half of them within {:.0} s of the truth, nine in \
         ten within {:.0} s.\n",
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
        &[
            "files",
            "CPU ms",
            "order",
            "s to a file",
            "never through: CPU ms",
            "order",
            "s to a file",
        ],
        &rows,
    );
    format!(
        "\n## What planning costs\n\n{table}\nProcessor time for one plan of files of 1 MB \
         anywhere on a full volume, as it is, and where gaps are never read through, so that no \
         two files are one run. These figures depend on the machine.\n"
    )
}

pub(super) fn document(results: &Results) -> Value {
    json!({
        "seeds": results.seeds,
        "recalls": results.recalls.iter().map(recall_json).collect::<Vec<_>>(),
        "through_scsi": results.driven.iter().map(|row| json!({
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
