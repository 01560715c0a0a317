//! `bench again`: what writing a file anew takes, and nothing else.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use super::stages::{BATCH_BYTES, data};
use crate::arguments::{Grammar, Line};
use crate::output;
use crate::spent::Spent;
use crate::trouble::{Trouble, While as _};

pub(crate) const USAGE: &str = "\
bench again FILE TARGET [--sync]
  Writes what FILE has to the new file TARGET, and what the writing alone takes as a JSON document.

  --sync  Wait until the disk has it
";

pub(crate) const GRAMMAR: Grammar = Grammar { flags: &["--sync"], options: &[] };

pub(crate) fn run(line: &Line) -> Result<(), Trouble> {
    let [path, target] = line.paths(["file to write again", "file to make"])?;
    let what = || format!("write {} again as {}", path.display(), target.display());
    let from = File::open(&path).while_doing(what)?;
    let to = File::create_new(&target).while_doing(what)?;
    // Into the page cache, where it fits.
    io::copy(&mut &from, &mut io::sink()).while_doing(what)?;
    let spent = duplicate(&from, &to, line.flag("--sync")).while_doing(what)?;
    output::result(&spent.json().to_string())
}

/// Writes what `from` has to `to`, holes as holes.
fn duplicate(from: &File, to: &File, syncs: bool) -> io::Result<Spent> {
    let mut spent = Spent::default();
    let (bytes, mut offset) = (from.metadata()?.len(), 0);
    let mut batch = Vec::new();
    while let Some((begin, end)) = data(from, offset)? {
        offset = begin;
        while offset < end {
            batch.resize(usize::try_from(BATCH_BYTES.min(end - offset)).unwrap_or(0), 0);
            from.read_exact_at(&mut batch, offset)?;
            spent.timed(|| to.write_all_at(&batch, offset))?;
            offset += batch.len() as u64;
        }
    }
    spent.timed(|| to.set_len(bytes))?;
    if syncs {
        spent.timed(|| to.sync_all())?;
    }
    Ok(spent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_again_with_its_holes() {
        use std::os::unix::fs::MetadataExt as _;
        let dir = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| dir.path().join(name));
        let from = File::create_new(&one).unwrap();
        from.write_all_at(b"begin", 0).unwrap();
        from.write_all_at(b"end", 8 << 20).unwrap();
        let from = File::open(&one).unwrap();
        let to = File::create_new(&other).unwrap();
        duplicate(&from, &to, true).unwrap();
        assert_eq!(std::fs::read(&one).unwrap(), std::fs::read(&other).unwrap());
        assert!(to.metadata().unwrap().blocks() * 512 < 1 << 20);
    }
}
