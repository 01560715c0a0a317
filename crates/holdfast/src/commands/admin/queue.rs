//! `holdfast admin queue`: who waits for packs on volumes.

use std::time::Duration;

use client::admin::{Admin, TapeWait};
use model::{ServerTime, escaped};
use serde::Serialize;

use crate::commands::{Context, DONE};
use crate::error::CommandError;
use crate::table::{self, Align};
use crate::{moment, quantity};

/// List who waits for packs on volumes, and how long that may take; send one away
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast queue
  holdfast admin --server /srv/holdfast queue --cancel 17

The estimate is the time until the last pack comes, as hours, minutes and seconds.")]
pub(crate) struct Args {
    /// Send away who waits under this number; what is on its way still comes
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    cancel: Option<u64>,
}

/// `queue --json`, one a line.
#[derive(Serialize)]
struct WaitDocument<'a> {
    number: u64,
    kind: &'a str,
    node: Option<&'a str>,
    uid: Option<u32>,
    program: Option<&'a str>,
    since: String,
    volume: Option<&'a str>,
    packs: u32,
    packs_done: u32,
    ahead: u32,
    estimate_secs: Option<u64>,
}

fn given(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

impl<'a> WaitDocument<'a> {
    fn new(wait: &'a TapeWait) -> Self {
        let node = given(&wait.node);
        Self {
            number: wait.number,
            kind: &wait.kind,
            node,
            // The server waits for itself.
            uid: node.map(|_| wait.user),
            program: given(&wait.program),
            since: moment::rfc3339(ServerTime(wait.since)),
            volume: given(&wait.volume),
            packs: wait.packs,
            packs_done: wait.packs_done,
            ahead: wait.ahead,
            estimate_secs: wait.estimate_secs,
        }
    }
}

pub(super) fn run(
    args: &Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    let waits = admin.tape_queue(args.cancel)?;
    if context.output.is_json() {
        waits.iter().for_each(|wait| context.output.json(&WaitDocument::new(wait)));
    } else if let Some(number) = args.cancel {
        if !context.output.quiet {
            context.output.text(&format!("Number {number} does not wait any more."));
        }
    } else if waits.is_empty() {
        context.output.note("Nobody waits for a volume.");
    } else {
        context.output.text(&waits_table(&waits));
    }
    Ok(DONE)
}

fn waits_table(waits: &[TapeWait]) -> String {
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
    let row = |wait: &TapeWait| {
        let document = WaitDocument::new(wait);
        let estimate = wait.estimate_secs.map(|secs| quantity::clock(Duration::from_secs(secs)));
        let packs = [wait.packs_done, wait.packs].map(|packs| quantity::count(packs.into()));
        [
            wait.number.to_string(),
            wait.kind.clone(),
            cell(document.node),
            cell(document.uid.map(|uid| uid.to_string()).as_deref()),
            // A node says what it is called.
            cell(document.program.map(|program| escaped(program.as_bytes())).as_deref()),
            moment::shown(ServerTime(wait.since)),
            cell(document.volume),
            packs.join(" of "),
            quantity::count(wait.ahead.into()),
            cell(estimate.as_deref()),
        ]
    };
    table::render(columns, &waits.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_a_dash() {
        let wait = TapeWait {
            number: 17,
            kind: "server".to_owned(),
            packs: 1_200,
            packs_done: 30,
            ahead: 2,
            ..TapeWait::default()
        };
        let open = TapeWait {
            kind: "open".to_owned(),
            node: "anna".to_owned(),
            user: 1000,
            program: "c\np".to_owned(),
            volume: "A00001L8".to_owned(),
            estimate_secs: Some(3_725),
            ..wait
        };
        let table = waits_table(&[wait, open]);
        let cells: Vec<Vec<_>> =
            table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(cells[1][..5], ["17", "server", "-", "-", "-"]);
        assert_eq!(cells[1][7..], ["-", "30", "of", "1,200", "2", "-"]);
        assert_eq!(cells[2][..4], ["17", "open", "anna", "1000"]);
        assert_eq!(cells[2][7..], ["A00001L8", "30", "of", "1,200", "2", "01:02:05"]);
        assert!(table.lines().count() == 3, "{table}");
    }
}
