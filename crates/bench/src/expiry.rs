//! `bench expiry`: expiration in a catalogue with millions of versions, and reclamation of the
//! space of dead chunks.
//!
//! ```text
//!   one server; a node that backs up DIR; two nodes with a past, written into the catalogue
//!   backups of DIR alone
//!   expiration of the first past:   counting only, then for real
//!   expiration of the second past:  while DIR is backed up again and again
//!   random files are backed up; half of them get new content, and the old content expires
//!   reclamation alone; the same again, with reclamation while DIR is backed up again and again
//!   copies of the catalogue: the first, one after an incremental, one after a full backup of DIR
//! ```
//!
//! 1. A past stands for years of backups. Each of its files has an active version and four inactive
//!    versions. Two of these are older than 30 days, the time for which a new server keeps them.
//! 2. A backup reads everything again (`backup --full`). So it competes for disk, processors and
//!    catalogue, and lasts long enough to be measured.

mod past;
mod space;
mod text;
mod trial;

use std::path::PathBuf;

use crate::arguments::{PageArgs, WorkArgs, number};
use crate::output;
use crate::page;
use crate::trouble::Trouble;

/// Expire versions and reclaim space, alone and during a backup
///
/// Fills a catalogue with inactive versions, and expires half of them. Then backs up 1 GiB of
/// random files, changes half of them, and reclaims the space of the old content.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The tree that is backed up at the same time; it is only read
    #[arg(value_name = "DIR")]
    tree: PathBuf,
    /// Number of inactive versions
    #[arg(long, value_name = "N")]
    #[arg(default_value_t = VERSIONS_DEFAULT, value_parser = number(1000..=VERSIONS_MAX))]
    versions: usize,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    work: WorkArgs,
}

const VERSIONS_DEFAULT: usize = 5_000_000;
const VERSIONS_MAX: usize = 1_000_000_000;

pub(crate) fn run(args: &Args) -> Result<(), Trouble> {
    let work = args.work.folder();
    let results = trial::measure(&args.tree, &work, args.versions)?;
    let text = text::page(&results);
    page::write(&args.page.out, "expiry.md", &text)?;
    let document = || text::document(&results).to_string();
    output::result(&if args.page.json { document() } else { text })
}
