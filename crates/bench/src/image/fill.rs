//! The content of the disk. It is the same in every run with the same folder of text.
//!
//! Of the large files 5 of 8 are text, 2 are random bytes and 1 has zeros. No two blocks of text
//! are equal, although the text repeats.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::file::mix::Mixer;
use crate::process;
use crate::trouble::{Context as _, Trouble};

/// Size of a large file.
pub(super) const LARGE_BYTES: u64 = 64 << 20;
/// Number of bytes that are written at once.
const RUN_BYTES: usize = 1 << 20;
const SMALL_FILES: u64 = 4000;
const SMALL_BYTES_MAX: u64 = 16 << 10;
/// Number of small files in a directory.
const SMALL_IN_DIRECTORY: u64 = 200;
/// Number of the small file that is extracted.
const EXTRACTED: u64 = SMALL_FILES / 2;
const SPARSE_FILES: u64 = 8;
const SPARSE_BYTES: u64 = 256 << 20;
/// Distance between two runs of data in a sparse file.
const SPARSE_EVERY: u64 = 4 << 20;
const SPARSE_RUN_BYTES: usize = 64 << 10;

/// Files on the disk, and the maker of their content.
pub(super) struct Content {
    pub(super) mixer: Mixer,
    /// Large files with text or random bytes, from the root of the disk.
    pub(super) changeable: Vec<PathBuf>,
    /// A small file, from the root of the disk.
    pub(super) small: PathBuf,
    pub(super) small_content: Vec<u8>,
}

impl Content {
    /// Fills the file system at `root` with about `bytes`, with text from the folder `text`.
    pub(super) fn fill(root: &Path, bytes: u64, text: &Path) -> Result<Self, Trouble> {
        let mut content = Self {
            mixer: Mixer::with_text_of(text)?,
            changeable: Vec::new(),
            small: PathBuf::new(),
            small_content: Vec::new(),
        };
        let what = || format!("fill the disk at {}", root.display());
        let small_bytes = content.small_files(root).while_doing(what)?;
        let sparse_bytes = content.sparse_files(root).while_doing(what)?;
        fs::create_dir(root.join("large")).while_doing(what)?;
        let large_bytes = bytes.saturating_sub(small_bytes + sparse_bytes);
        for number in 0..large_bytes / LARGE_BYTES {
            process::check_interrupted()?;
            content.large_file(root, number).while_doing(what)?;
        }
        Ok(content)
    }

    fn small_files(&mut self, root: &Path) -> io::Result<u64> {
        let (mut written, mut run) = (0, Vec::new());
        for number in 0..SMALL_FILES {
            let directory = Path::new("small").join((number / SMALL_IN_DIRECTORY).to_string());
            fs::create_dir_all(root.join(&directory))?;
            let path = directory.join(number.to_string());
            let bytes = 1 + self.mixer.random.below(SMALL_BYTES_MAX);
            run.resize(usize::try_from(bytes).expect("a small number"), 0);
            self.mixer.fill_text(&mut run);
            fs::write(root.join(&path), &run)?;
            written += bytes;
            if number == EXTRACTED {
                (self.small, self.small_content) = (path, run.clone());
            }
        }
        Ok(written)
    }

    fn sparse_files(&mut self, root: &Path) -> io::Result<u64> {
        fs::create_dir(root.join("sparse"))?;
        let (mut written, mut run) = (0, vec![0; SPARSE_RUN_BYTES]);
        for number in 0..SPARSE_FILES {
            let file = File::create_new(root.join("sparse").join(number.to_string()))?;
            file.set_len(SPARSE_BYTES)?;
            for place in 0..SPARSE_BYTES / SPARSE_EVERY {
                self.mixer.fill_text(&mut run);
                file.write_all_at(&run, place * SPARSE_EVERY)?;
                written += run.len() as u64;
            }
        }
        Ok(written)
    }

    fn large_file(&mut self, root: &Path, number: u64) -> io::Result<()> {
        let path = Path::new("large").join(number.to_string());
        let mut file = File::create_new(root.join(&path))?;
        let mut run = vec![0; RUN_BYTES];
        let kind = number % 8;
        for _ in 0..LARGE_BYTES / RUN_BYTES as u64 {
            match kind {
                3 => {}
                1 | 5 => self.mixer.random.fill(&mut run),
                _ => self.mixer.fill_text(&mut run),
            }
            file.write_all(&run)?;
        }
        if kind != 3 {
            self.changeable.push(path);
        }
        Ok(())
    }
}
