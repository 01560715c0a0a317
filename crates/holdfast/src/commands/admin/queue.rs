//! `holdfast admin queue`: the requests that wait for packs on volumes.

use client::admin::{Admin, QueuedRequest};
use model::escaped;
use serde::Serialize;

use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::table::{self, Align};
use crate::{moment, quantity};

/// List the requests that wait for packs on volumes, with their estimates, or cancel one of them
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast queue
  holdfast admin --server /srv/holdfast queue cancel 17

The estimate is the time until the last pack arrives, as hours, minutes and seconds.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<QueueCommand>,
}

#[derive(clap::Subcommand, Debug)]
enum QueueCommand {
    /// Cancel a request; packs that are being read still arrive
    #[command(after_help = "Example:\n  holdfast admin --server /srv/holdfast queue cancel 17")]
    Cancel {
        /// The number of the request; 'holdfast admin queue' shows it
        #[arg(value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
        number: u64,
    },
}

/// `queue --json`, one document per line.
#[derive(Serialize)]
struct RequestDocument<'a> {
    number: u64,
    kind: &'a str,
    node: Option<&'a str>,
    uid: Option<u32>,
    program: Option<&'a str>,
    since: String,
    volume: Option<&'a str>,
    packs: u64,
    packs_done: u64,
    ahead: u64,
    estimate_secs: Option<u64>,
}

impl<'a> RequestDocument<'a> {
    fn new(request: &'a QueuedRequest) -> Self {
        let requester = request.requester.as_ref();
        Self {
            number: request.number,
            kind: request.kind.word(),
            node: requester.map(|requester| requester.node.as_str()),
            uid: requester.map(|requester| requester.uid),
            program: request.program.as_deref(),
            since: moment::rfc3339(request.since),
            volume: request.volume.as_deref(),
            packs: request.packs,
            packs_done: request.packs_done,
            ahead: request.ahead,
            estimate_secs: request.estimate.map(|estimate| estimate.as_secs()),
        }
    }
}

pub(super) fn run(
    args: &Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    let cancelled = args.command.as_ref().map(|QueueCommand::Cancel { number }| *number);
    let queue = admin.tape_queue(cancelled)?;
    if context.output.is_json() {
        queue
            .iter()
            .for_each(|request| context.output.json(&RequestDocument::new(request)));
    } else if let Some(number) = cancelled {
        if !context.output.quiet {
            context.output.text(&format!("Request {number} is cancelled."));
        }
    } else if queue.is_empty() {
        context.output.note("No request waits for a volume.");
    } else {
        context.output.text(&queue_table(&queue));
    }
    Ok(DONE)
}

fn queue_table(queue: &[QueuedRequest]) -> String {
    let columns = [
        ("Number", Align::Right),
        ("Kind", Align::Left),
        ("Node", Align::Left),
        ("User", Align::Right),
        ("Program", Align::Left),
        ("Since", Align::Left),
        ("Volume", Align::Left),
        ("Packs", Align::Right),
        ("Ahead", Align::Right),
        ("Estimate", Align::Right),
    ];
    let cell = |text: Option<&str>| text.unwrap_or("-").to_owned();
    let row = |request: &QueuedRequest| {
        let document = RequestDocument::new(request);
        let estimate = request.estimate.map(quantity::clock);
        let packs = [request.packs_done, request.packs].map(quantity::count);
        [
            request.number.to_string(),
            request.kind.word().to_owned(),
            cell(document.node),
            cell(document.uid.map(|uid| uid.to_string()).as_deref()),
            // The node chooses the name of the program, so the name may hold any characters.
            cell(document.program.map(|program| escaped(program.as_bytes())).as_deref()),
            moment::shown(request.since),
            cell(document.volume),
            packs.join(" of "),
            quantity::count(request.ahead),
            cell(estimate.as_deref()),
        ]
    };
    table::render(columns, &queue.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use client::admin::{RequestKind, Requester};
    use model::ServerTime;

    use super::*;

    #[test]
    fn an_unknown_value_is_a_dash() {
        let own = QueuedRequest {
            number: 17,
            kind: RequestKind::Server,
            requester: None,
            program: None,
            since: ServerTime(0),
            volume: None,
            packs: 1_200,
            packs_done: 30,
            ahead: 2,
            estimate: None,
        };
        let open = QueuedRequest {
            kind: RequestKind::Open,
            requester: Some(Requester { node: "anna".to_owned(), uid: 1000 }),
            program: Some("c\np".to_owned()),
            volume: Some("A00001L8".to_owned()),
            estimate: Some(Duration::from_secs(3_725)),
            ..own
        };
        let table = queue_table(&[own, open]);
        let cells: Vec<Vec<_>> =
            table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(cells[1][..5], ["17", "server", "-", "-", "-"]);
        assert_eq!(cells[1][7..], ["-", "30", "of", "1,200", "2", "-"]);
        assert_eq!(cells[2][..4], ["17", "open", "anna", "1000"]);
        assert_eq!(cells[2][7..], ["A00001L8", "30", "of", "1,200", "2", "01:02:05"]);
        assert!(table.lines().count() == 3, "{table}");
    }
}
