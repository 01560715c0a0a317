//! `holdfast stats` and `holdfast admin stats`: numbers of versions and the space of their data.

use client::admin::Admin;
use client::{ClientError, Usage};
use model::{archive_number, escaped, printable};
use serde::Serialize;

use crate::context::Context;
use crate::error::{CommandError, DONE, FAILED};
use crate::output;
use crate::path::JsonPath;
use crate::quantity;
use crate::report::{LastDrillsDocument, drills};
use crate::table::{self, Align};
use crate::waiter::LinkArgs;

/// Show numbers and sizes of the stored versions, by filespace and management class
///
/// The stored size is the space in one pool, after deduplication and compression. Data that occurs
/// several times in the versions of a line counts once; data that several lines share counts in
/// each of them.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast stats")]
pub(crate) struct Args {
    #[command(flatten)]
    link: LinkArgs,
}

/// Show numbers and sizes of the stored versions, by node, filespace and management class
///
/// The stored size is the space in one pool, after deduplication and compression. Data that occurs
/// several times in the versions of a line counts once; data that several lines share counts in
/// each of them.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin stats
  holdfast admin stats --node web-01")]
pub(crate) struct AdminArgs {
    /// This node only
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<u8, CommandError> {
    // An attempt that the loss of the server has ended leaves nothing behind.
    let all = context.waiter(&args.link)?.run(|client, _| {
        let mut all = Vec::new();
        client.usage(&mut |usage| {
            all.push(usage);
            true
        })?;
        Ok::<_, ClientError>(all)
    })?;
    let mut report = Report::new(context);
    for usage in all {
        if !report.take(usage) {
            break;
        }
    }
    Ok(report.end())
}

pub(super) fn of_nodes(
    args: &AdminArgs,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    let mut report = Report::new(context);
    admin.usage(args.node.as_deref(), &mut |usage| report.take(usage))?;
    Ok(report.end())
}

/// `stats --json`, one document per line.
#[derive(Serialize)]
struct UsageDocument<'a> {
    node: &'a str,
    filespace: JsonPath<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    archive: Option<u64>,
    class: &'a str,
    active_objects: u64,
    active_bytes: u64,
    inactive_versions: u64,
    inactive_bytes: u64,
    stored_bytes: u64,
    packs_unread: u64,
    #[serde(flatten)]
    drills: LastDrillsDocument<'a>,
}

/// Lines of the usage, which are shown as a table at the end.
struct Report<'a> {
    context: &'a mut Context,
    rows: Vec<[String; 8]>,
    packs_unread: u64,
    /// Last proof of each node, in the order of the table.
    proofs: Vec<String>,
    /// Node of the last line.
    node: String,
}

impl<'a> Report<'a> {
    fn new(context: &'a mut Context) -> Self {
        Self { context, rows: Vec::new(), packs_unread: 0, proofs: Vec::new(), node: String::new() }
    }

    fn take(&mut self, usage: Usage) -> bool {
        self.packs_unread += usage.packs_unread;
        if !self.context.output.is_json() {
            self.rows.push(row(&usage));
            if usage.node != self.node {
                let (node, proof) = (printable(&usage.node), drills::proof(usage.drills.as_ref()));
                self.proofs.push(format!("Node {node} was last proven restorable: {proof}\n"));
                self.node.clone_from(&usage.node);
            }
            return true;
        }
        self.context.output.json(&UsageDocument {
            node: &usage.node,
            filespace: JsonPath(usage.mount_point()),
            archive: archive_number(&usage.filespace),
            class: &usage.class,
            active_objects: usage.active_objects,
            active_bytes: usage.active_bytes,
            inactive_versions: usage.inactive_versions,
            inactive_bytes: usage.inactive_bytes,
            stored_bytes: usage.stored_bytes,
            packs_unread: usage.packs_unread,
            drills: LastDrillsDocument::new(usage.drills.as_ref()),
        });
        self.context.output.is_open()
    }

    fn end(self) -> u8 {
        let output = &mut self.context.output;
        if !output.is_json() {
            if self.rows.is_empty() {
                output.note("Nothing is stored yet.");
            } else {
                output.text(&format!("{}\n{}", table(&self.rows), self.proofs.concat()));
            }
        }
        if self.packs_unread == 0 {
            return DONE;
        }
        let packs = quantity::counted(self.packs_unread, "pack");
        output::say(&format!("{packs} could not be read, and did not count as stored"));
        FAILED
    }
}

fn row(usage: &Usage) -> [String; 8] {
    let place = escaped(usage.mount_point());
    let place = match archive_number(&usage.filespace) {
        Some(number) => format!("{place} (archive {number})"),
        None => place,
    };
    [
        usage.node.clone(),
        place,
        usage.class.clone(),
        quantity::count(usage.active_objects),
        quantity::bytes_with_unit(usage.active_bytes),
        quantity::count(usage.inactive_versions),
        quantity::bytes_with_unit(usage.inactive_bytes),
        quantity::bytes_with_unit(usage.stored_bytes),
    ]
}

fn table(rows: &[[String; 8]]) -> String {
    let columns = [
        ("Node", Align::Left),
        ("Filespace", Align::Left),
        ("Class", Align::Left),
        ("Active", Align::Right),
        ("Size", Align::Right),
        ("Inactive", Align::Right),
        ("Size", Align::Right),
        ("Stored", Align::Right),
    ];
    table::render(columns, rows)
}
