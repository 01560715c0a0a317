//! The page and the document of `bench api`.

use serde_json::{Value, json};

use super::{Args, Results};
use crate::machine::Machine;
use crate::output;
use crate::page;
use crate::spread::MiddleHalf;

/// Time in milliseconds that 99 of 100 requests of a list have to keep.
const LIST_MAX_MILLIS: f64 = 200.0;
/// Share of its rate that a backup may lose beside readers, in percent.
const LOSS_MAX_PERCENT: f64 = 5.0;

pub(super) fn page(args: &Args, results: &[Results]) -> String {
    let head = page::head("The lists of the REST API");
    let mut rows = Vec::new();
    for (number, times) in results.first().map_or(&[][..], |one| &one.lists).iter().enumerate() {
        let mut row = vec![times.list.to_owned()];
        for result in results {
            let times = &result.lists[number];
            let figure = |percent| format!("{:.0}", times.percentile(percent));
            row.extend([figure(50), figure(99), figure(100)]);
        }
        rows.push(row);
    }
    let mut columns = vec!["list".to_owned()];
    for result in results {
        let name = result.database.name();
        columns.extend(["median", "p99", "most"].map(|figure| format!("{name} {figure}, ms")));
    }
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let losses: Vec<Vec<String>> = results
        .iter()
        .map(|result| vec![result.database.name().to_owned(), cell(loss(result))])
        .collect();
    format!(
        "{head}\n{} and {} are in the catalogue, a tenth of the events with reports, and as many \
         entries of the log; there are no archives, restores, approvals and volumes. The node that \
         is searched has {}. Each list is asked for {} by one caller over one connection, the \
         lists in turns, with random nodes, times and pages. 99 of 100 requests should take at \
         most {LIST_MAX_MILLIS:.0} ms.\n\n{}\n\
         First backups of {} without data, alone and beside readers of all lists with {} in a \
         second, in turns; {}. A backup should lose at most {LOSS_MAX_PERCENT:.0} %. The loss is \
         the median of the pairs, with the range of the middle half of them.\n\n{}",
        output::counted(args.nodes, "node"),
        output::counted(args.events, "event"),
        output::counted(args.objects, "object"),
        output::counted(args.requests, "time"),
        page::table(&columns, &rows),
        output::counted(args.objects, "object"),
        output::counted(args.readers, "request"),
        output::counted(args.rounds, "pair"),
        page::table(&["catalogue", "loss of a backup beside readers, %"], &losses),
    )
}

/// Returns the share of their rate that the backups lost, in percent.
fn loss(result: &Results) -> MiddleHalf {
    let loss = |(alone, beside): &(std::time::Duration, std::time::Duration)| {
        (1.0 - alone.as_secs_f64() / beside.as_secs_f64()) * 100.0
    };
    MiddleHalf::of(result.backups.iter().map(loss))
}

fn cell(MiddleHalf { median, lower, upper }: MiddleHalf) -> String {
    format!("{median:.1} ({lower:.1} .. {upper:.1})")
}

pub(super) fn document(args: &Args, results: &[Results], loads: &(String, String)) -> Value {
    let one = |result: &Results| {
        let lists: serde_json::Map<String, Value> = result
            .lists
            .iter()
            .map(|one| (one.list.to_owned(), json!(one.millis)))
            .collect();
        let backups: Vec<Value> = result
            .backups
            .iter()
            .map(|(alone, beside)| json!([alone.as_secs_f64(), beside.as_secs_f64()]))
            .collect();
        json!({
            "database": result.database.name(),
            "lists_millis": lists,
            "backups_alone_and_beside_secs": backups,
            "loss_percent": loss(result).json(),
        })
    };
    json!({
        "machine": Machine::read().document(&loads.0, &loads.1),
        "nodes": args.nodes,
        "events": args.events,
        "results": results.iter().map(one).collect::<Vec<_>>(),
    })
}
