//! The page and the document of `bench space`.

use serde_json::{Value, json};

use super::Results;
use crate::page;
use crate::spread::{Spread, float};

pub(super) fn page(results: &Results) -> String {
    let head = page::head("Space management");
    let Results { alone, managed, files, migrating, small, recall, copy, ratio } = results;
    let micros = |spread: &Spread| format!("{:.2}", spread.median);
    let row = |what: &str, alone: &Spread, managed: &Spread| {
        let more = managed.median - alone.median;
        vec![what.to_owned(), micros(alone), micros(managed), format!("{more:.2}")]
    };
    let calls = page::table(
        &["call, microseconds", "not managed", "managed", "difference"],
        &[
            row("read 4 KiB from the page cache", &alone.read, &managed.read),
            row("open and close", &alone.open, &managed.open),
        ],
    );
    let speeds = page::table(
        &["512 MiB, MiB/s", "median", "least", "most"],
        &[row_of("recalled", recall), row_of("copied with copy_file_range", copy)],
    );
    let small_files = page::table(
        &["files of 4 KiB per second", "median", "least", "most"],
        &[
            row_of(
                &format!("recalled by {} readers that open them", super::READERS),
                &small.opened,
            ),
            row_of("recalled by one command", &small.listed),
            row_of("copied with cp -r, for comparison", &small.copied),
        ],
    );
    let per_second = float(*files as u64) / migrating.as_secs_f64();
    format!(
        "{head}\nServer, node and file system (ext4 in an image) share the machine and its \
         disk.\n\n## A question of the kernel\n\nThe kernel asks once about a file that is no \
         stub. Medians of several rounds.\n\n{calls}\n## Small files\n\n{files} files of 4 KiB \
         were migrated at {per_second:.0} files/s.\n\n{small_files}\n\
         ## A large file\n\n\
         {speeds}\nA recall has {:.2} ({:.2} to {:.2}) of the speed of the copy in its round. The \
         data of a recall passes TLS, is decompressed, and is checked against its digests.\n",
        ratio.median, ratio.least, ratio.most,
    )
}

fn row_of(what: &str, spread: &Spread) -> Vec<String> {
    let figure = |value: f64| format!("{value:.0}");
    vec![what.to_owned(), figure(spread.median), figure(spread.least), figure(spread.most)]
}

pub(super) fn document(results: &Results) -> Value {
    json!({
        "micros": {
            "read": {"alone": results.alone.read.json(), "managed": results.managed.read.json()},
            "open": {"alone": results.alone.open.json(), "managed": results.managed.open.json()},
        },
        "small_files": results.files,
        "migrating_secs": results.migrating.as_secs_f64(),
        "small_files_per_sec": {
            "opened": results.small.opened.json(),
            "listed": results.small.listed.json(),
            "copied": results.small.copied.json(),
        },
        "recall_mib_per_sec": results.recall.json(),
        "copy_mib_per_sec": results.copy.json(),
        "recall_per_copy": results.ratio.json(),
    })
}
