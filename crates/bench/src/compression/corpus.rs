//! A corpus: the bytes of real files, one file after the other, no content twice.
//!
//! When all files have been read, another pass over them begins. Later passes have a mark of 8
//! digits in every [`MARK_EVERY`] bytes. So no piece of a later pass equals a piece of an earlier
//! pass, and later passes compress almost as well.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hasher as _};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::random::Random;
use crate::trouble::{Context as _, Trouble};

/// Distance between two marks in later passes, in bytes.
const MARK_EVERY: usize = 1024;
const MARK_BYTES: usize = 8;

/// Maximum number of bytes that are taken of a file.
const FILE_BYTES_MAX: u64 = 32 << 20;

/// The files of some folders.
#[derive(Clone, Debug)]
pub(super) struct Corpus {
    files: Vec<PathBuf>,
}

impl Corpus {
    /// Lists the regular files below `tops`, sorted by path.
    pub(super) fn list(tops: &[PathBuf]) -> Result<Self, Trouble> {
        let mut files = Vec::new();
        for top in tops {
            list(top, &mut files).while_doing(|| format!("list {}", top.display()))?;
        }
        files.sort_unstable();
        Ok(Self { files })
    }

    /// Puts the folders into a pseudo-random order, so that the first bytes are a sample of all
    /// folders. The order is the same every time.
    pub(super) fn scattered(mut self) -> Self {
        self.files.sort_by_cached_key(|file| (hash(&file.parent()), file.clone()));
        self
    }

    pub(super) fn stream(&self) -> Stream<'_> {
        Stream {
            files: &self.files,
            at: 0,
            pass: 0,
            seen: HashSet::new(),
            left: Vec::new(),
            used: 0,
        }
    }
}

/// Adds the regular files below `folder` to `files`. Leaves out subfolders that cannot be listed.
fn list(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)?.flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            drop(list(&entry.path(), files));
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    Ok(())
}

fn hash(value: &impl std::hash::Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The bytes of a corpus, read in order.
#[derive(Debug)]
pub(super) struct Stream<'a> {
    files: &'a [PathBuf],
    at: usize,
    pass: u64,
    /// Hashes of the contents that were returned in this pass.
    seen: HashSet<u64>,
    /// Content of the present file.
    left: Vec<u8>,
    /// Number of bytes of the present file that were returned.
    used: usize,
}

impl Stream<'_> {
    /// Fills `buffer` with the next bytes of the corpus.
    pub(super) fn fill(&mut self, buffer: &mut [u8]) -> Result<(), Trouble> {
        let mut filled = 0;
        while filled < buffer.len() {
            if self.used == self.left.len() {
                self.advance()?;
            }
            let length = (buffer.len() - filled).min(self.left.len() - self.used);
            buffer[filled..filled + length]
                .copy_from_slice(&self.left[self.used..self.used + length]);
            filled += length;
            self.used += length;
        }
        Ok(())
    }

    /// Returns the content of the next file whose content is new in this pass; `None` after the
    /// last file.
    pub(super) fn next_file(&mut self) -> Option<Vec<u8>> {
        while let Some(path) = self.files.get(self.at) {
            self.at += 1;
            // Files that cannot be read are skipped.
            if let Some(content) = read(path)
                && self.seen.insert(hash(&content))
            {
                return Some(content);
            }
        }
        None
    }

    fn advance(&mut self) -> Result<(), Trouble> {
        let mut content = self.next_file();
        if content.is_none() && !self.seen.is_empty() {
            (self.at, self.pass) = (0, self.pass + 1);
            self.seen.clear();
            content = self.next_file();
        }
        let mut content = content.ok_or_else(|| {
            Trouble::new("the corpus has no file that can be read: name other folders")
        })?;
        if self.pass > 0 {
            mark(&mut content, (self.pass << 32) + hash(&self.at) % (1 << 32));
        }
        (self.left, self.used) = (content, 0);
        Ok(())
    }
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(FILE_BYTES_MAX).read_to_end(&mut content).ok()?;
    (!content.is_empty()).then_some(content)
}

fn mark(content: &mut [u8], seed: u64) {
    let mut random = Random::new(seed);
    for piece in content.chunks_mut(MARK_EVERY) {
        let digits = format!("{:08x}", random.below(1 << 32));
        let length = piece.len().min(MARK_BYTES);
        piece[..length].copy_from_slice(&digits.as_bytes()[..length]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &[u8])]) -> (tempfile::TempDir, Corpus) {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let corpus = Corpus::list(&[dir.path().to_path_buf()]).unwrap();
        (dir, corpus)
    }

    #[test]
    fn the_same_content_comes_once() {
        let (_dir, corpus) = folder(&[("a", b"one"), ("b/c", b"one"), ("d", b"two"), ("e", b"")]);
        let mut stream = corpus.stream();
        assert_eq!(stream.next_file(), Some(b"one".to_vec()));
        assert_eq!(stream.next_file(), Some(b"two".to_vec()));
        assert_eq!(stream.next_file(), None);
    }

    #[test]
    fn a_later_pass_repeats_no_piece() {
        let content: Vec<u8> = (0..5000_u32).map(|at| at.to_le_bytes()[0]).collect();
        let (_dir, corpus) = folder(&[("a", &content)]);
        let mut bytes = vec![0; 3 * content.len()];
        corpus.stream().fill(&mut bytes).unwrap();
        assert_eq!(bytes[..content.len()], content);
        let passes: Vec<&[u8]> = bytes.chunks(content.len()).collect();
        let pieces: HashSet<&[u8]> =
            passes.iter().flat_map(|pass| pass.chunks_exact(MARK_EVERY)).skip(4).collect();
        assert_eq!(pieces.len(), 8);
        let alike = passes[1].iter().zip(&content).filter(|(a, b)| a == b).count();
        assert!(alike > content.len() * 98 / 100, "{alike}");
    }

    #[test]
    fn nothing_to_read_is_said() {
        let (_dir, corpus) = folder(&[("a", b"")]);
        let expected = Trouble::new("the corpus has no file that can be read: name other folders");
        assert_eq!(corpus.stream().fill(&mut [0]), Err(expected));
    }

    #[test]
    fn scattering_loses_nothing_and_is_the_same_every_time() {
        let (_dir, corpus) = folder(&[("a/1", b"1"), ("a/2", b"2"), ("b/1", b"3"), ("c/1", b"4")]);
        let scattered = corpus.clone().scattered();
        assert_eq!(scattered.files, corpus.clone().scattered().files);
        let mut sorted = scattered.files;
        sorted.sort_unstable();
        assert_eq!(sorted, corpus.files);
    }
}
