//! `bench expiry`: dropping versions from a catalogue that holds millions, and freeing the space of
//! what nothing names any more.
//!
//! ```text
//!   one server; a node that backs up DIR; two nodes with a past, written into the catalogue
//!   backups of DIR alone
//!   expiration of the first past:   counting only, then for real
//!   expiration of the second past:  while DIR is backed up again and again
//!   random files are backed up, and half of them changed and expired
//!   reclamation alone; the same again, and reclamation while DIR is backed up again and again
//!   the catalogue is copied to the pool, DIR backed up once more, the catalogue copied again
//! ```
//!
//! 1. The past is what years of backups leave: each file of it has an active version and four
//!    inactive ones, two of which are older than the 30 days that a new server keeps.
//! 2. A backup reads everything again (`backup --full`): it competes for disk, processors and
//!    catalogue, and lasts long enough to be measured.

mod past;
mod space;
mod text;
mod trial;

use crate::arguments::{Grammar, Line};
use crate::output;
use crate::page;
use crate::trouble::Trouble;

pub(crate) const USAGE: &str = "\
bench expiry DIR [--versions N] [--json] [--out DIR] [--work DIR]
  Fills a server's catalogue with inactive versions and expires half of them, then backs up 1 GiB of
  random files, changes half of them and reclaims the space: alone, and while the tree DIR is backed
  up. DIR is only read.

  --versions N  So many inactive versions [default: 5000000]
  --json        Write one JSON document
  --out DIR     Where expiry.md goes [default: docs/performance]
  --work DIR    Where the server and the nodes go [default: TMPDIR]
";

pub(crate) const GRAMMAR: Grammar =
    Grammar { flags: &["--json"], options: &["--versions", "--out", "--work"] };

const VERSIONS_DEFAULT: usize = 5_000_000;
const VERSIONS_MAX: usize = 1_000_000_000;

pub(crate) fn run(line: &Line) -> Result<(), Trouble> {
    let [tree] = line.paths(["tree to back up, as in: bench expiry /usr/share"])?;
    let versions = line.number("--versions", VERSIONS_DEFAULT, 1000..=VERSIONS_MAX)?;
    let work = line.path("--work").unwrap_or_else(std::env::temp_dir);
    let out = line.path("--out").unwrap_or_else(|| page::FOLDER.into());
    let results = trial::measure(&tree, &work, versions)?;
    let text = text::page(&results);
    page::write(&out, "expiry.md", &text)?;
    let document = || text::document(&results).to_string();
    output::result(&if line.flag("--json") { document() } else { text })
}
