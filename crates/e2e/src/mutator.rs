//! A program of its own that changes a tree at random, in every way that a program can.
//!
//! The same seed makes the same operations. An operation that the tree does not allow at its moment
//! is left out.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, RenameFlags, Timespec, Timestamps,
    XattrFlags,
};

use crate::nasty::Random;

/// Maximum number of objects; a larger tree only loses objects.
const OBJECTS_MAX: usize = 600;

/// Changes of one tree.
pub struct Mutator {
    top: PathBuf,
    random: Random,
    next_name: u64,
    /// Files that stay open for several rounds.
    open: Vec<File>,
}

impl Mutator {
    pub fn new(top: &Path, seed: u64) -> Self {
        let random = Random::new(seed, b"mutator");
        Self { top: top.to_owned(), random, next_name: 0, open: Vec::new() }
    }

    /// Performs `count` operations. Returns their names, for the message of a test that fails.
    pub fn run(&mut self, count: usize) -> Vec<&'static str> {
        let mut done = Vec::new();
        for _ in 0..count {
            let (folders, files) = self.objects();
            let is_large = folders.len() + files.len() > OBJECTS_MAX;
            let number = if is_large { 14 + self.random.below(3) } else { self.random.below(24) };
            if let Ok(name) = self.operation(number, &folders, &files) {
                done.push(name);
            }
        }
        done
    }

    /// Lists the folders, the top first, and all other objects.
    fn objects(&self) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let (mut folders, mut files) = (vec![self.top.clone()], Vec::new());
        let mut at = 0;
        while let Some(folder) = folders.get(at).cloned() {
            at += 1;
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            paths.sort();
            for path in paths {
                let is_folder = fs::symlink_metadata(&path).is_ok_and(|status| status.is_dir());
                if is_folder { folders.push(path) } else { files.push(path) }
            }
        }
        (folders, files)
    }

    fn pick(&mut self, of: &[PathBuf]) -> io::Result<PathBuf> {
        let count = u32::try_from(of.len()).expect("a small tree");
        if count == 0 {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(of[self.random.below(count) as usize].clone())
    }

    /// Returns a new path in one of the folders.
    fn new_path(&mut self, folders: &[PathBuf]) -> io::Result<PathBuf> {
        self.next_name += 1;
        Ok(self.pick(folders)?.join(format!("n{}", self.next_name)))
    }

    fn regular(&mut self, files: &[PathBuf]) -> io::Result<PathBuf> {
        let path = self.pick(files)?;
        match fs::symlink_metadata(&path)?.is_file() {
            true => Ok(path),
            false => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn operation(
        &mut self,
        number: u32,
        folders: &[PathBuf],
        files: &[PathBuf],
    ) -> io::Result<&'static str> {
        match number {
            0..6 => self.make(number, folders, files),
            6..14 => self.alter(number, folders, files),
            14..17 => self.remove(number, folders, files),
            _ => self.move_or_hold(number, folders, files),
        }
    }

    fn make(
        &mut self,
        number: u32,
        folders: &[PathBuf],
        files: &[PathBuf],
    ) -> io::Result<&'static str> {
        let path = self.new_path(folders)?;
        let size = self.random.below(20_000) as usize;
        match number {
            0 | 1 => fs::write(path, self.random.bytes(size)).map(|()| "create"),
            2 => {
                fs::create_dir(&path)?;
                fs::write(path.join("inner"), self.random.bytes(size)).map(|()| "mkdir")
            }
            3 => symlink("a/target", path).map(|()| "symlink"),
            4 => fs::hard_link(self.regular(files)?, path).map(|()| "link"),
            _ => {
                let flags = OFlags::TMPFILE | OFlags::WRONLY;
                let folder = path.parent().expect("it lies in a folder");
                let file: File =
                    rustix::fs::open(folder, flags, Mode::from_raw_mode(0o600))?.into();
                file.write_all_at(&self.random.bytes(size), 0)?;
                rustix::fs::linkat(&file, c"", CWD, &path, AtFlags::EMPTY_PATH)?;
                Ok("tmpfile")
            }
        }
    }

    fn alter(
        &mut self,
        number: u32,
        folders: &[PathBuf],
        files: &[PathBuf],
    ) -> io::Result<&'static str> {
        let size = u64::from(self.random.below(30_000));
        match number {
            6 => {
                let mut file = File::options().append(true).open(self.regular(files)?)?;
                file.write_all(&self.random.bytes(100)).map(|()| "append")
            }
            7 => {
                let file = File::options().write(true).open(self.regular(files)?)?;
                file.write_all_at(b"overwritten", size / 4).map(|()| "overwrite")
            }
            8 => {
                let file = File::options().write(true).open(self.regular(files)?)?;
                file.set_len(size).map(|()| "truncate")
            }
            9 => {
                let path = if size % 2 == 0 { self.regular(files)? } else { self.pick(folders)? };
                let mode = fs::Permissions::from_mode(0o700 | self.random.below(0o100));
                fs::set_permissions(path, mode).map(|()| "chmod")
            }
            10 => {
                let user = Some(rustix::fs::Uid::from_raw(self.random.below(5)));
                let path = if size % 2 == 0 { self.pick(files)? } else { self.pick(folders)? };
                rustix::fs::chownat(CWD, path, user, None, AtFlags::SYMLINK_NOFOLLOW)?;
                Ok("chown")
            }
            11 => {
                let path = if size % 2 == 0 { self.regular(files)? } else { self.pick(folders)? };
                let value = self.random.text(10);
                rustix::fs::setxattr(path, "user.mutator", &value, XattrFlags::empty())?;
                Ok("setxattr")
            }
            12 => {
                let time = Timespec {
                    tv_sec: 1_000_000 + i64::from(self.random.below(1 << 30)),
                    tv_nsec: 5,
                };
                let times = Timestamps { last_access: time, last_modification: time };
                let path = if size % 2 == 0 { self.pick(files)? } else { self.pick(folders)? };
                rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?;
                Ok("utimes")
            }
            _ => {
                let file = File::options().write(true).open(self.regular(files)?)?;
                rustix::fs::fallocate(&file, FallocateFlags::empty(), size, 4096)?;
                Ok("fallocate")
            }
        }
    }

    fn remove(
        &mut self,
        number: u32,
        folders: &[PathBuf],
        files: &[PathBuf],
    ) -> io::Result<&'static str> {
        match number {
            14 | 15 => fs::remove_file(self.pick(files)?).map(|()| "unlink"),
            _ => {
                let folder = self.pick(folders)?;
                if folder == self.top {
                    return Err(io::ErrorKind::InvalidInput.into());
                }
                fs::remove_dir_all(folder).map(|()| "remove a tree")
            }
        }
    }

    fn move_or_hold(
        &mut self,
        number: u32,
        folders: &[PathBuf],
        files: &[PathBuf],
    ) -> io::Result<&'static str> {
        match number {
            17 | 18 => {
                let (from, to) = (self.pick(files)?, self.new_path(folders)?);
                fs::rename(from, to).map(|()| "rename")
            }
            19 => fs::rename(self.pick(files)?, self.pick(files)?).map(|()| "rename over"),
            20 => {
                let (from, to) = (self.pick(folders)?, self.new_path(folders)?);
                fs::rename(from, to).map(|()| "rename a folder")
            }
            21 => {
                let (one, other) = (self.pick(folders)?, self.pick(folders)?);
                rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?;
                Ok("exchange")
            }
            22 => {
                let path = self.new_path(folders)?;
                rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o644), 0)?;
                Ok("mknod")
            }
            _ => {
                // The file is written while it is open, over several rounds.
                if self.open.len() < 3 {
                    let path = self.regular(files)?;
                    self.open.push(File::options().write(true).open(path)?);
                }
                let at = u64::from(self.random.below(9000));
                let file = self.open.first().expect("there is one");
                file.write_all_at(b"held open", at)?;
                if file.metadata()?.nlink() == 0 || at % 4 == 0 {
                    self.open.remove(0);
                }
                Ok("write an open file")
            }
        }
    }
}
