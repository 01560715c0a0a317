//! `bench scale`: many millions of objects, in a file system made for it.
//!
//! ```text
//!   make the tree in an image -> first backup -> server again
//!     many directories:  bare walk -> incremental, nothing changed -> bare walk
//!     one directory:     incremental, nothing changed -> incremental after each of three changes
//! ```
//!
//! 1. The image lies beside the server's files, on another file system than its own tree.
//! 2. The client reaches its server through a relay in this process, which counts all bytes of both
//!    directions. It has nothing to do while nothing is sent.
//! 3. The page cache is left alone unless `--cold` is given: what does not fit in memory is cold
//!    anyway.

mod fill;
mod image;
mod measure;
mod report;
mod shape;

use std::path::{Path, PathBuf};

use crate::arguments::{Grammar, Line};
use crate::output;
use crate::page;
use crate::trouble::{Trouble, While as _};
use shape::Plan;

pub(crate) const USAGE: &str = "\
bench scale [--objects 28M] [--directories 2.5M] [--image FILE] [--keep] [--work DIR] [--cold]
            [--json] [--out DIR]
bench scale --one-directory 2M ...
  Makes a tree of so many objects in a file system in a sparse file, and times a first backup and
  an incremental next to bare walks. With --one-directory all files are in one directory, and
  incrementals after one change each are timed. Takes root, and some 25 GB for 28M objects.

  --objects N        Files and directories together [default: 28M]
  --directories N    How many of them are directories [default: one in 11.2, as 2.5M of 28M]
  --one-directory N  One directory with N files
  --image FILE       Use the tree in FILE, and leave it; make it there if there is none
  --keep             Leave an image that was made
  --work DIR         Where the image and the server lie [default: TMPDIR]
  --cold             Drop the caches of the kernel before each measurement
  --json             Write one JSON document instead of tables
  --out DIR          Where to write scale.md, or scale-one-directory.md [default: docs/performance]
";

pub(crate) const GRAMMAR: Grammar = Grammar {
    flags: &["--keep", "--cold", "--json"],
    options: &["--objects", "--directories", "--one-directory", "--image", "--work", "--out"],
};

const OBJECTS_DEFAULT: u64 = 28_000_000;
const OBJECTS_MAX: u64 = 1_000_000_000;

/// Every tree of the same numbers is the same tree.
const SEED: u64 = 1;

/// What is made and measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Tree {
    Many(Plan),
    /// So many files.
    OneDirectory(u64),
}

/// What the command line asks for.
#[derive(PartialEq, Eq, Debug)]
struct Options {
    tree: Tree,
    /// Made when it is not there.
    image: PathBuf,
    keeps: bool,
    work: PathBuf,
    is_cold: bool,
}

pub(crate) fn run(line: &Line) -> Result<(), Trouble> {
    let options = options(line)?;
    if !sys::process::is_root() {
        return Err(Trouble::new("a file system can be mounted by root only"));
    }
    let out = line.path("--out").unwrap_or_else(|| page::FOLDER.into());
    // Before the measurement: it takes long, and its result must have a place.
    std::fs::create_dir_all(&out).while_doing(|| format!("make {}", out.display()))?;
    let results = measure::measure(&options)?;
    let text = report::text(&results);
    page::write(&out, results.further.file_name(), &text)?;
    if line.flag("--json") {
        return output::result(&report::document(&results).to_string());
    }
    output::result(&text)
}

fn options(line: &Line) -> Result<Options, Trouble> {
    let [] = line.paths([])?;
    let tree = match line.value("--one-directory") {
        Some(_) if line.value("--objects").is_some() || line.value("--directories").is_some() => {
            return Err(Trouble::new("--one-directory says all about the tree"));
        }
        Some(_) => Tree::OneDirectory(count(line, "--one-directory", 0)?),
        None => Tree::Many(plan(line)?),
    };
    let work = line.path("--work").unwrap_or_else(std::env::temp_dir);
    let work = work.canonicalize().while_doing(|| format!("find {}", work.display()))?;
    let image = match line.path("--image") {
        Some(image) => {
            std::path::absolute(&image).while_doing(|| format!("find {}", image.display()))?
        }
        None => new_image(&work)?,
    };
    let (keeps, is_cold) = (line.flag("--keep"), line.flag("--cold"));
    Ok(Options { tree, image, keeps, work, is_cold })
}

fn plan(line: &Line) -> Result<Plan, Trouble> {
    let objects = count(line, "--objects", OBJECTS_DEFAULT)?;
    let directories = count(line, "--directories", (objects * 10 / 112).max(1))?;
    if directories > objects {
        return Err(Trouble::new("more --directories than --objects"));
    }
    Ok(Plan { directories, files: objects - directories, seed: SEED })
}

/// An image that nobody has named must not be there: it could be of another tree.
fn new_image(work: &Path) -> Result<PathBuf, Trouble> {
    let image = work.join("holdfast-scale.image");
    let message = || format!("{} is there: name it as --image, or remove it", image.display());
    if image.is_file() { Err(Trouble::new(message())) } else { Ok(image) }
}

/// Returns the number of objects that an option gives.
fn count(line: &Line, name: &str, default: u64) -> Result<u64, Trouble> {
    let Some(value) = line.value(name) else { return Ok(default) };
    let text = value.to_string_lossy();
    let count = parse_count(&text).filter(|count| (1..=OBJECTS_MAX).contains(count));
    let message = || format!("{name} takes a number as 300k or 2.5M, not '{text}'");
    count.ok_or_else(|| Trouble::new(message()))
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
    use std::ffi::OsString;

    fn line(text: &str) -> Line {
        let words = text.split_whitespace().map(OsString::from);
        Line::parse(words, GRAMMAR).unwrap().unwrap()
    }

    #[track_caller]
    fn refused(text: &str, expected: &str) {
        assert_eq!(options(&line(text)).unwrap_err(), Trouble::new(expected), "{text}");
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
        assert_eq!(options(&line("--image /none --work /")).unwrap().tree, Tree::Many(plan));
        let small = options(&line("--objects 112 --image i --work /")).unwrap();
        assert_eq!(small.plan(), Plan { directories: 10, files: 102, seed: SEED });
        assert!(small.image.is_absolute());
    }

    #[test]
    fn one_directory_has_all_the_files() {
        let options = options(&line("--one-directory 2M --image /none --work /")).unwrap();
        assert_eq!(options.plan(), Plan { directories: 1, files: 2_000_000, seed: SEED });
    }

    #[test]
    fn wrong_lines_are_refused_by_name() {
        refused("--objects x", "--objects takes a number as 300k or 2.5M, not 'x'");
        refused("--objects 0", "--objects takes a number as 300k or 2.5M, not '0'");
        refused("--objects 5 --directories 6", "more --directories than --objects");
        refused("--objects 5 --one-directory 6", "--one-directory says all about the tree");
        refused("/usr", "/usr is a word too much");
    }
}
