//! `bench mix`: makes the file that `bench file` measures. It is the same in every run.
//!
//! The file consists of runs of 1 to 4 MiB. Half of the runs are text, a quarter are random bytes,
//! and a quarter are zeros, either written or as holes. The text repeats, so every 4 KiB of it has
//! a line with a number: no two chunks are equal.

use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::arguments::size;
use crate::output;
use crate::random::Random;
use crate::trouble::{Context as _, Trouble};
use crate::workplace;

/// Make the file that `bench file` measures
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The file to make
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Size of the file
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = size)]
    bytes: u64,
    /// Folder whose files provide the text
    #[arg(long, value_name = "DIR", default_value = "")]
    text: PathBuf,
}

const SEED: u64 = 1;
const MIB: usize = 1 << 20;
const RUN_MIB_MAX: u64 = 4;
const TEXT_BYTES_MAX: usize = 32 << 20;
/// Distance between two numbered lines in the text, in bytes.
const MARK_EVERY_BYTES: usize = 4096;

pub(crate) fn run(args: &Args) -> Result<(), Trouble> {
    let Args { file: path, bytes, text: folder } = args;
    let bytes = *bytes;
    let mut mixer = Mixer::with_text_of(folder)?;
    let what = || format!("make {}", path.display());
    let mut file = File::create_new(path).while_doing(what)?;
    mixer.write(&mut file, bytes).while_doing(what)?;
    output::result(&json!({"bytes": bytes}).to_string())
}

/// Reads the files below `top` in the order of their names, until there is enough text.
fn collect(top: &Path) -> Vec<u8> {
    let (mut text, mut folders) = (Vec::new(), vec![top.to_owned()]);
    while let Some(folder) = folders.pop() {
        let mut paths: Vec<_> = fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|one| one.path())
            .collect();
        paths.sort();
        for path in paths {
            if text.len() >= TEXT_BYTES_MAX {
                return text;
            }
            match fs::symlink_metadata(&path) {
                Ok(metadata) if metadata.is_dir() => folders.push(path),
                Ok(metadata) if metadata.is_file() => {
                    text.extend(fs::read(&path).unwrap_or_default());
                }
                _ => {}
            }
        }
    }
    text
}

/// Maker of content that is the same in every run.
pub(crate) struct Mixer {
    pub(crate) random: Random,
    text: Vec<u8>,
    /// Start of the next run in `text`.
    text_begin: usize,
    marks: u64,
}

impl Mixer {
    /// Takes the text from the files in `folder`.
    pub(crate) fn with_text_of(folder: &Path) -> Result<Self, Trouble> {
        let text = collect(&workplace::resolve(folder)?);
        if text.len() < MIB {
            let folder = folder.display();
            let message = format!("{folder} has less than 1 MiB of text: name another folder");
            return Err(Trouble::new(message));
        }
        Ok(Self { random: Random::new(SEED), text, text_begin: 0, marks: 0 })
    }

    pub(crate) fn write(&mut self, file: &mut File, bytes: u64) -> std::io::Result<()> {
        let mut run = Vec::new();
        let mut left = bytes;
        while left > 0 {
            let mib = 1 + self.random.below(RUN_MIB_MAX);
            let size = left.min(mib << 20);
            run.clear();
            run.resize(usize::try_from(size).expect("a run is a few MiB"), 0);
            match self.random.below(8) {
                0..4 => self.fill_text(&mut run),
                4 | 5 => self.random.fill(&mut run),
                6 => {}
                _ => run.clear(),
            }
            if run.is_empty() {
                file.seek(SeekFrom::Start(bytes - left + size))?;
            } else {
                file.write_all(&run)?;
            }
            left -= size;
        }
        file.set_len(bytes)
    }

    /// Fills `run` with text that no other run has.
    pub(crate) fn fill_text(&mut self, run: &mut [u8]) {
        for part in run.chunks_mut(MARK_EVERY_BYTES) {
            for byte in part.iter_mut() {
                *byte = self.text[self.text_begin];
                self.text_begin = (self.text_begin + 1) % self.text.len();
            }
            let mark = format!("\n{:016x}\n", self.marks);
            let end = mark.len().min(part.len());
            part[..end].copy_from_slice(&mark.as_bytes()[..end]);
            self.marks += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    #[test]
    fn a_mixture_is_the_same_each_time_and_has_holes() {
        let dir = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = dir.path().join(name);
            let mut file = File::create_new(&path).unwrap();
            let text = b"some text to repeat\n".to_vec();
            let mut mixer = Mixer { random: Random::new(1), text, text_begin: 0, marks: 0 };
            mixer.write(&mut file, (40 << 20) + 5).unwrap();
            (fs::read(&path).unwrap(), file.metadata().unwrap())
        };
        let ((one, metadata), (two, _)) = (make("one"), make("two"));
        assert!(one == two && one.len() == (40 << 20) + 5);
        assert!(metadata.blocks() * 512 < metadata.len(), "it has a hole");
    }
}
