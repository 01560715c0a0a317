//! Commands and statements of TSM's administrative command line.

use dsm::admin::command::{self, Noun};
use dsm::admin::grammar::{self, LineReader};
use dsm::admin::message::Message;
use dsm::admin::view::{self, Table};
use dsm::admin::{database, dialect};
use jiff::civil::date;

use crate::seeds::texts;
use crate::{PLAIN_BYTES_MAX, Target};

/// Limit for a statement and its translation.
const SELECT_ALLOCATION_BYTES_MAX: u64 = 64 << 20;
/// Maximum length of a message, in bytes. One message lists all tables.
const MESSAGE_BYTES_MAX: usize = 1000;

pub(super) const ADMIN_COMMAND: Target = Target {
    name: "admin_command",
    allocation_bytes_max: PLAIN_BYTES_MAX,
    seeds: || {
        texts(&[
            "q ev * * begind=today-7 endd=+4 ex=y f=d > /tmp/x",
            "def sched standard nightly objects='/home \"/my data\"' -\n starttime=22:00 day=mon",
            "upd co standard ps c vere=nol rete=30 /* a comment */",
            "def sched standard x scheds=e month=jan,jul dayofm=1,-1 startt=03:00",
            "upd v v* acc=of lo=cellar",
        ])
    },
    check: check_command,
};

pub(super) const SELECT_STATEMENT: Target = Target {
    name: "select_statement",
    allocation_bytes_max: SELECT_ALLOCATION_BYTES_MAX,
    seeds: || {
        texts(&[
            "select entity, cast(float(sum(bytes))/1024 as dec(8,2)) as gb from summary where \
             end_time>current_timestamp - 24 hours group by entity fetch first 3 rows only",
            "select timestampdiff(4, char(end_time-start_time)) from summary with ur",
            "select x.entity from summary x where x.start_time > {ts '2011-09-21 00:00:00'} or \
             days(current date)-days(end_time) > 3",
        ])
    },
    check: check_select,
};

fn expect_one_line(message: &Message) {
    let text = message.to_string();
    assert!(!text.contains('\n') && text.len() <= MESSAGE_BYTES_MAX, "{text:?}");
}

fn planned(command: &str) -> Result<(), Message> {
    let statement = grammar::parse(command)?;
    let (found, words) = command::find(&statement)?;
    let mut request = command::read(found, words, date(2026, 11, 26).at(15, 20, 30, 0))?;
    request.resolve(|noun| {
        let name = match noun {
            Noun::Node => "anna",
            Noun::Volume => "V00001",
            _ => "STANDARD",
        };
        Ok::<_, Message>(vec![name.to_owned()])
    })?;
    command::plan(&request).map(drop)
}

fn check_command(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let mut reader = LineReader::default();
    let mut commands: Vec<String> = text.lines().filter_map(|line| reader.take(line)).collect();
    commands.extend(reader.finish());
    for command in commands {
        if let Err(message) = planned(&command) {
            expect_one_line(&message);
        }
    }
}

fn check_select(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let selected =
        dialect::translate(&text, "2026-11-26 15:20:30.000000").and_then(|translation| {
            let mut summary = Table::new(&view::SUMMARY);
            summary.add([("ENTITY", "anna".into()), ("BYTES", 5_u64.into())]);
            // A statement may go on for some thousand steps.
            let mut questions = 0;
            database::select(&translation, &[summary], move || {
                questions += 1;
                questions < 10
            })
        });
    if let Err(message) = selected {
        expect_one_line(&message);
    }
}
