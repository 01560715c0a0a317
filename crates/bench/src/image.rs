//! `bench image`: images of a disk, against the limits of the disk and of the processors.
//!
//! ```text
//!   a file of N GiB with an ext4 file system, half full
//!   each round, with a new server and node:
//!     parts alone, read alone -> first image -> read alone
//!     change 1 % of the used blocks, by a mount
//!     read alone              -> second image -> read alone
//!     write alone             -> restore to a new file -> compare
//!                                extract one small file -> compare
//! ```
//!
//! 1. The caches are dropped before each measurement. The loop device reads past the page cache.
//! 2. The *limit* of a work is the time of stages that overlap perfectly: the larger of the time in
//!    which the disk reads or writes the data, and the processor time of the parts divided by the
//!    number of cores. A limit is measured in the same round as the work.
//! 3. Nothing is mounted while an image is made, so the disk is still.
//!
//! The limits include neither the start of a process, the catalogue and the network, nor that the
//! pool of the server is on the same disk.

mod change;
mod disk;
mod fill;
mod limits;
mod parts;
mod rounds;
mod text;
mod windows;

use std::path::PathBuf;

use crate::arguments::{PageArgs, WorkArgs, number};
use crate::machine;
use crate::output;
use crate::page;
use crate::process::{self, Runner};
use crate::trouble::Trouble;
use crate::workplace::{self, Workplace};

use self::disk::Disk;
use self::fill::Content;

/// Time images of a disk, and compare them with the limits of the disk and the processors
///
/// The disk is a loop device on a file that this command makes, with text, noise, zeros, small
/// files and sparse files. Needs root.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Folder whose files provide the text
    #[arg(value_name = "DIR", default_value = "/usr/include")]
    text: PathBuf,
    /// Size of the disk in GiB; half of it is filled
    #[arg(long, value_name = "N")]
    #[arg(default_value_t = GIB_DEFAULT, value_parser = number(1..=GIB_MAX))]
    gib: usize,
    /// Number of rounds, each with a new server
    #[arg(long, value_name = "N")]
    #[arg(default_value_t = ROUNDS_DEFAULT, value_parser = number(1..=ROUNDS_MAX))]
    rounds: usize,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    work: WorkArgs,
}

const GIB_DEFAULT: usize = 20;
/// The kernel's limit for a file on ext4.
const GIB_MAX: usize = 16 << 10;
const ROUNDS_DEFAULT: usize = 3;
const ROUNDS_MAX: usize = 100;

/// Maximum number of copies of the content at the same time: the disk, the pool, and a file that is
/// restored or written for comparison.
const COPIES: u64 = 3;

pub(crate) fn run(args: &Args) -> Result<(), Trouble> {
    if !sys::process::is_root() {
        let message = "bench image must be run as root, because it makes loop devices, mounts them \
                       and drops the caches of the kernel";
        return Err(Trouble::new(message));
    }
    let text = workplace::resolve(&args.text)?;
    let program = process::find_program()?;
    let workplace = Workplace::below(&args.work.folder(), &text)?;
    let disk_bytes = u64::try_from(args.gib).unwrap_or(u64::MAX) << 30;
    let content_bytes = disk_bytes / 2;
    workplace.check_bytes(content_bytes.saturating_mul(COPIES), "the disk and its copies")?;
    let runner = Runner::new(program, workplace.folder("outputs")?);
    let load_before = machine::load();
    output::progress(&format!("filling a disk of {} GiB", args.gib));
    let disk = Disk::make(&workplace.folder("disk")?, disk_bytes)?;
    let mut content = Content::fill(disk.root(), content_bytes, &text)?;
    disk.unmount()?;
    let mut all = Vec::new();
    for number in 1..=args.rounds {
        output::progress(&format!("round {number} of {}", args.rounds));
        let folder = workplace.folder(&format!("round-{number}"))?;
        all.push(rounds::run(&disk, &mut content, &folder, &runner)?);
        // Deleting a few large files does not slow down later work.
        rounds::remove(&folder)?;
    }
    let load_after = machine::load();
    let cores = sys::process::processors();
    let results = text::Results { disk_bytes, cores, load_before, load_after, rounds: all };
    let text = results.page();
    page::write(&args.page.out, "image.md", &text)?;
    let document = || results.document().to_string();
    output::result(&if args.page.json { document() } else { text })
}
