//! A tree with everything that is hard to back up and to bring back.
//!
//! The same seed gives the same tree: content, names, attributes and times are derived from the
//! seed, and nothing depends on the clock. Parts that the file system or the caller's rights do not
//! allow are left out and listed; a test decides whether it can do without them.
//!
//! Objects are made first. Times follow, because making an object changes the time of its folder.
//! Modes follow the times, because an owner cannot enter a closed folder. Flags are last, because
//! nothing of an immutable file can be changed.

mod attributes;
mod kinds;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use rustix::fs::{FileType, IFlags, Timespec};

use crate::folder::Folder;

/// Number of files in the one large folder: several times as many as a directory page holds (512).
pub const MANY_FILES: usize = 3000;

/// Report of [`plant`].
#[derive(Debug, Default)]
pub struct PlantReport {
    pub refused: Vec<Refusal>,
    /// Number of sockets, which a backup skips and a manifest leaves out.
    pub sockets: u64,
}

/// A part of the tree that this file system or this user's rights do not allow.
#[derive(Debug)]
pub struct Refusal {
    pub what: String,
    pub error: io::Error,
}

/// Fills the existing folder `top` with the tree of `seed`.
pub fn plant(top: &Path, seed: u64) -> io::Result<PlantReport> {
    let mut planter = Planter {
        top: Folder::open(top)?,
        seed,
        planted: PlantReport::default(),
        times: BTreeMap::new(),
        modes: Vec::new(),
        flags: Vec::new(),
    };
    planter.sizes()?;
    planter.sparse_files()?;
    planter.hard_links()?;
    planter.symlinks()?;
    planter.special_files()?;
    planter.names()?;
    planter.deep_chain()?;
    planter.empty_and_large_folders()?;
    planter.modes()?;
    planter.owners()?;
    planter.times()?;
    planter.xattrs()?;
    planter.acls()?;
    planter.flags()?;
    planter.settle()?;
    Ok(planter.planted)
}

struct Planter {
    top: Folder,
    seed: u64,
    planted: PlantReport,
    /// Special times, by path. Other objects get a time that is derived from the seed.
    times: BTreeMap<Vec<u8>, Timespec>,
    modes: Vec<(&'static str, Vec<u8>, u32)>,
    flags: Vec<(&'static str, Vec<u8>, IFlags)>,
}

impl Planter {
    /// Makes a file of `content` in `folder`.
    fn write(folder: &Folder, name: &[u8], content: &[u8]) -> io::Result<()> {
        io::Write::write_all(&mut folder.create(name)?, content)
    }

    /// Notes the error of `result`, if it has one. The tree then lacks the part `what`.
    fn attempt(&mut self, what: impl Into<String>, result: io::Result<()>) {
        if let Err(error) = result {
            self.planted.refused.push(Refusal { what: what.into(), error });
        }
    }

    fn random(&self, purpose: &str) -> Random {
        Random::new(self.seed, purpose.as_bytes())
    }

    fn settle(&mut self) -> io::Result<()> {
        let top = self.top.child(b".")?;
        self.settle_times(&top, &[])?;
        self.set_time(&top, b".", &[])?;
        for (folder, name, mode) in std::mem::take(&mut self.modes) {
            self.top.child(folder.as_bytes())?.set_mode(&name, mode)?;
        }
        for (folder, name, flags) in std::mem::take(&mut self.flags) {
            let folder = self.top.child(folder.as_bytes())?;
            let result = folder.flags(&name).and_then(|present| match present {
                Some(present) => folder.set_flags(&name, present.union(flags)),
                None => Err(io::ErrorKind::Unsupported.into()),
            });
            self.attempt(format!("inode flags {flags:?}"), result);
        }
        Ok(())
    }

    fn settle_times(&mut self, folder: &Folder, prefix: &[u8]) -> io::Result<()> {
        for name in folder.names()? {
            let path =
                if prefix.is_empty() { name.clone() } else { [prefix, b"/", &name].concat() };
            let mode = folder.stat(&name)?.st_mode;
            if FileType::from_raw_mode(mode) == FileType::Directory {
                self.settle_times(&folder.child(&name)?, &path)?;
            }
            self.set_time(folder, &name, &path)?;
        }
        Ok(())
    }

    fn set_time(&mut self, folder: &Folder, name: &[u8], path: &[u8]) -> io::Result<()> {
        let mut random = Random::new(self.seed, path);
        let drawn = Timespec {
            tv_sec: 1_000_000_000 + i64::from(random.below(700_000_000)),
            tv_nsec: i64::from(random.below(1_000_000_000)),
        };
        let time = *self.times.get(path).unwrap_or(&drawn);
        folder.set_mtime(name, time)?;
        let stat = folder.stat(name)?;
        if (stat.st_mtime, i128::from(stat.st_mtime_nsec)) != (time.tv_sec, time.tv_nsec.into()) {
            let what = format!("mtime {}.{:09}", time.tv_sec, time.tv_nsec);
            self.attempt(what, Err(io::Error::other("the file system stored another time")));
        }
        Ok(())
    }
}

/// Generator of numbers that depend only on a seed and on a purpose (splitmix64).
pub struct Random {
    state: u64,
}

impl Random {
    pub fn new(seed: u64, purpose: &[u8]) -> Self {
        let digest = blake3::hash(purpose);
        let mut word = [0; 8];
        word.copy_from_slice(&digest.as_bytes()[..8]);
        Self { state: seed ^ u64::from_le_bytes(word) }
    }

    pub fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    pub fn below(&mut self, limit: u32) -> u32 {
        assert!(limit > 0, "the limit must be greater than 0");
        u32::try_from(self.word() % u64::from(limit)).expect("a remainder is below its divisor")
    }

    /// Returns bytes that no program can compress.
    pub fn bytes(&mut self, bytes: usize) -> Vec<u8> {
        let words = bytes.div_ceil(8);
        let mut data: Vec<u8> = (0..words).flat_map(|_| self.word().to_le_bytes()).collect();
        data.truncate(bytes);
        data
    }

    /// Returns bytes that compress as source code does.
    pub fn text(&mut self, bytes: usize) -> Vec<u8> {
        const WORDS: [&str; 12] = [
            "fn", "struct", "let", "mut", "return", "page", "pack", "(&self)", "{\n", "}\n", " = ",
            ";\n",
        ];
        let mut data = Vec::with_capacity(bytes + 16);
        while data.len() < bytes {
            let word = WORDS[self.below(12) as usize];
            data.extend_from_slice(word.as_bytes());
            data.push(b' ');
        }
        data.truncate(bytes);
        data
    }
}

#[cfg(test)]
mod tests;
