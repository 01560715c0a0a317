//! `bench scale`: many millions of objects, in a file system that is made for this bench.
//!
//! ```text
//!   make the tree in an image -> first backup -> server again
//!     many directories:  bare walk -> incremental, nothing changed -> bare walk
//!     one directory:     incremental, nothing changed -> incremental after each of three changes
//! ```
//!
//! 1. The image is a file next to the files of the server. The tree is in the file system in the
//!    image.
//! 2. The client reaches its server through a relay in the process of the bench, which counts all
//!    bytes in both directions. The relay is idle while nothing is sent.
//! 3. The bench drops the page cache only with `--cold`. Objects that do not fit into memory are
//!    read from the disk in any case.
//! 4. Sections of the page are written by hand, and the bench keeps them.

pub(crate) mod fill;
pub(crate) mod image;
mod measure;
mod options;
mod report;
pub(crate) mod shape;

use std::path::{Path, PathBuf};

use crate::arguments::{PageArgs, WorkArgs};
use crate::output;
use crate::page;
use crate::trouble::{Context as _, Trouble};
use options::{Options, SEED, Tree};
use shape::Plan;

/// Time a first backup and an incremental of many millions of objects, as root
///
/// The tree is in a file system in a sparse file, which takes about 25 GB for 28M objects. With
/// --one-directory all files are in one directory, and incrementals after single changes are also
/// timed.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Number of files and directories [default: 28M]
    #[arg(long, value_name = "N", value_parser = count)]
    objects: Option<u64>,
    /// Number of directories among them [default: 1 of 11.2 objects, such as 2.5M of 28M]
    #[arg(long, value_name = "N", value_parser = count)]
    directories: Option<u64>,
    /// Number of files in one directory
    #[arg(long, value_name = "N")]
    #[arg(value_parser = count, conflicts_with_all = ["objects", "directories"])]
    one_directory: Option<u64>,
    /// Image file of the file system; an image that exists is used and kept
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// Keep the image after it was made
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    work: WorkArgs,
    /// Drop the caches of the kernel before each measurement
    #[arg(long)]
    cold: bool,
    #[command(flatten)]
    page: PageArgs,
}

const OBJECTS_DEFAULT: u64 = 28_000_000;
const OBJECTS_MAX: u64 = 1_000_000_000;

pub(crate) fn run(args: &Args) -> Result<(), Trouble> {
    let options = options_of(args)?;
    if !sys::process::is_root() {
        return Err(Trouble::new(
            "bench scale must be run as root, because it mounts a file system",
        ));
    }
    let out = &args.page.out;
    // The measurement takes long, so the folder for its result is made before it.
    std::fs::create_dir_all(out).while_doing(|| format!("make {}", out.display()))?;
    let results = measure::measure(&options)?;
    let text = report::text(&results);
    page::write_above_sections(out, results.supplement.file_name(), &text)?;
    if args.page.json {
        return output::result(&report::document(&results).to_string());
    }
    output::result(&text)
}

fn options_of(args: &Args) -> Result<Options, Trouble> {
    let tree = match args.one_directory {
        Some(files) => Tree::OneDirectory(files),
        None => Tree::Many(plan(args)?),
    };
    let work = args.work.folder();
    let work = work.canonicalize().while_doing(|| format!("find {}", work.display()))?;
    let image = match &args.image {
        Some(image) => {
            std::path::absolute(image).while_doing(|| format!("find {}", image.display()))?
        }
        None => new_image(&work)?,
    };
    let (keeps, is_cold) = (args.keep, args.cold);
    Ok(Options { tree, image, keeps, work, is_cold })
}

fn plan(args: &Args) -> Result<Plan, Trouble> {
    let objects = args.objects.unwrap_or(OBJECTS_DEFAULT);
    let directories = args.directories.unwrap_or((objects * 10 / 112).max(1));
    if directories > objects {
        return Err(Trouble::new("--directories must not be more than --objects"));
    }
    Ok(Plan { directories, files: objects - directories, seed: SEED })
}

/// Returns the path of the default image. It must not exist, because it could have another tree.
fn new_image(work: &Path) -> Result<PathBuf, Trouble> {
    let image = work.join("holdfast-scale.image");
    let message =
        || format!("{} exists already: use it with --image, or remove it", image.display());
    if image.is_file() { Err(Trouble::new(message())) } else { Ok(image) }
}

/// Reason why a value is refused: it is no number of objects.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the value must be a number such as 300k or 2.5M")]
pub(crate) struct CountError;

/// Parses a number of objects.
pub(crate) fn count(text: &str) -> Result<u64, CountError> {
    let count = parse_count(text).filter(|count| (1..=OBJECTS_MAX).contains(count));
    count.ok_or(CountError)
}

/// Parses a number as `27000`, `300k`, `2.5M`: units are powers of 1000.
fn parse_count(text: &str) -> Option<u64> {
    let (number, unit) = match text.as_bytes().last()? {
        b'k' => (&text[..text.len() - 1], 1000),
        b'M' => (&text[..text.len() - 1], 1_000_000),
        _ => (text, 1),
    };
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    if !is_digits(whole) || !is_digits(part) {
        return None;
    }
    let scale = 10_u64.checked_pow(u32::try_from(part.len()).ok()?)?;
    let whole = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    let part = part.parse::<u64>().ok()?.checked_mul(unit)?;
    if !part.is_multiple_of(scale) {
        return None;
    }
    whole.checked_add(part / scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn parse(text: &str) -> Result<Args, clap::Error> {
        let words = std::iter::once("scale").chain(text.split_whitespace());
        Line::try_parse_from(words).map(|line| line.args)
    }

    fn line(text: &str) -> Args {
        parse(text).unwrap()
    }

    #[track_caller]
    fn refused(text: &str, expected: &str) {
        let message = parse(text).unwrap_err().to_string();
        assert!(message.contains(expected), "{text}: {message}");
    }

    #[test]
    fn counts_have_units_of_1000() {
        for (text, count) in [
            ("27000", Some(27_000)),
            ("300k", Some(300_000)),
            ("28M", Some(28_000_000)),
            ("2.5M", Some(2_500_000)),
            ("0.001k", Some(1)),
            ("2.0005k", None),
            ("1.5", None),
            ("M", None),
            ("", None),
            ("-1", None),
            ("1.M", None),
            ("99999999999999M", None),
        ] {
            assert_eq!(parse_count(text), count, "{text}");
        }
    }

    #[test]
    fn default_tree_is_that_of_the_usage() {
        let plan = Plan { directories: 2_500_000, files: 25_500_000, seed: SEED };
        assert_eq!(options_of(&line("--image /none --work /")).unwrap().tree, Tree::Many(plan));
        let small = options_of(&line("--objects 112 --image i --work /")).unwrap();
        assert_eq!(small.plan(), Plan { directories: 10, files: 102, seed: SEED });
        assert!(small.image.is_absolute());
    }

    #[test]
    fn one_directory_has_all_the_files() {
        let options = options_of(&line("--one-directory 2M --image /none --work /")).unwrap();
        assert_eq!(options.plan(), Plan { directories: 1, files: 2_000_000, seed: SEED });
    }

    #[test]
    fn wrong_lines_are_refused_by_name() {
        for text in ["--objects x", "--objects 0"] {
            refused(text, "--objects");
            refused(text, "the value must be a number such as 300k or 2.5M");
        }
        refused("--objects 5 --one-directory 6", "cannot be used with '--one-directory");
        refused("/usr", "unexpected argument '/usr'");
        let error = options_of(&line("--objects 5 --directories 6")).unwrap_err();
        assert_eq!(error, Trouble::new("--directories must not be more than --objects"));
    }
}
