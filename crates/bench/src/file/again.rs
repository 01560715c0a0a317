//! `bench again`: the time for writing a copy of a file, without the time for reading it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use super::stages::{BATCH_BYTES, data};
use std::path::PathBuf;

use crate::effort::Effort;
use crate::output;
use crate::trouble::{Context as _, Trouble};

/// Copy a file, and time only the writing
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The file to copy
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The file to make
    #[arg(value_name = "TARGET")]
    target: PathBuf,
    /// Wait until the copy is on the disk
    #[arg(long)]
    sync: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Trouble> {
    let Args { file: path, target, sync } = args;
    let what = || format!("copy {} to {}", path.display(), target.display());
    let from = File::open(path).while_doing(what)?;
    let to = File::create_new(target).while_doing(what)?;
    // Reading the file once brings it into the page cache, if it fits there.
    io::copy(&mut &from, &mut io::sink()).while_doing(what)?;
    let spent = duplicate(&from, &to, *sync).while_doing(what)?;
    output::result(&spent.json().to_string())
}

/// Copies the content of `from` to `to`, holes as holes. Returns the time that writing took.
fn duplicate(from: &File, to: &File, syncs: bool) -> io::Result<Effort> {
    let mut spent = Effort::default();
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
