//! Which file system holds a path.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// Symbolic links followed in one path at most, as in the kernel.
const LINKS_MAX: usize = 40;

const HANDLE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Splits `path` into the root of the file system that holds it and the rest; both start with `/`.
///
/// The symbolic links in `path` are resolved, but for the last component: a backup of a link is a
/// backup of the link, unless a slash follows it. The root is the highest directory that is reached
/// from the object's directory (from the object, if it is one) without a change of `st_dev`: a bind
/// mount of the same file system is not seen, a btrfs subvolume is a root. `path` may have any
/// length; a relative one starts at the working directory.
pub fn filespace_root(path: &[u8]) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut walk = Walk::new()?;
    if path.is_empty() {
        return Err(Errno::NOENT.into());
    }
    if path[0] != b'/' {
        walk.go(std::env::current_dir()?.as_os_str().as_bytes())?;
        assert!(walk.leaf.is_none(), "the working directory is a directory");
    }
    walk.go(path)?;
    Ok(walk.split())
}

/// What is mounted somewhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mounted {
    /// What of the file system is mounted there: `/` for all of it.
    pub root: Vec<u8>,
    /// The type of the file system, as the kernel calls it.
    pub kind: String,
    /// Mostly a device.
    pub source: Vec<u8>,
}

/// The type of the file system that is mounted at `path`, as the kernel calls it; `None` where
/// nothing is mounted there.
pub fn filesystem_type(path: &[u8]) -> io::Result<Option<String>> {
    Ok(mounted(path)?.map(|mounted| mounted.kind))
}

/// What is mounted at `path`; `None` where nothing is.
pub fn mounted(path: &[u8]) -> io::Result<Option<Mounted>> {
    let mounts = std::fs::read("/proc/self/mountinfo")?;
    Ok(mounted_at(&mounts, path))
}

/// Source: proc(5), `/proc/pid/mountinfo`. What is mounted last at a path hides the others.
fn mounted_at(mountinfo: &[u8], path: &[u8]) -> Option<Mounted> {
    let of_line = |line: &[u8]| {
        let mut fields = line.split(|&byte| byte == b' ');
        let root = unescaped(fields.nth(3)?);
        if unescaped(fields.next()?) != path {
            return None;
        }
        fields.find(|field| *field == b"-")?;
        let kind = String::from_utf8_lossy(fields.next()?).into_owned();
        Some(Mounted { root, kind, source: unescaped(fields.next()?) })
    };
    mountinfo.split(|&byte| byte == b'\n').rev().find_map(of_line)
}

/// Undoes the kernel's octal escapes, such as `\040`.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, behind)) = rest.split_first() {
        let octal = behind.get(..3).and_then(|digits| str::from_utf8(digits).ok());
        let code = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code.filter(|_| first == b'\\') {
            Some(code) => {
                bytes.push(code);
                rest = &behind[3..];
            }
            None => {
                bytes.push(first);
                rest = behind;
            }
        }
    }
    bytes
}

/// A walk from `/` to the object, one component at a time.
///
/// Invariant: `here` is the directory that `steps` lead to, and none of them is a symbolic link.
struct Walk {
    here: OwnedFd,
    root_device: u64,
    steps: Vec<Step>,
    /// The object, if it is not a directory.
    leaf: Option<Vec<u8>>,
    link_count: usize,
}

struct Step {
    name: Vec<u8>,
    device: u64,
}

impl Walk {
    fn new() -> io::Result<Self> {
        let here = open_root()?;
        let root_device = rustix::fs::fstat(&here)?.st_dev;
        Ok(Self { here, root_device, steps: Vec::new(), leaf: None, link_count: 0 })
    }

    fn go(&mut self, path: &[u8]) -> io::Result<()> {
        // What is still to go, the next component last; links push their targets.
        let mut ahead = Vec::new();
        self.push(&mut ahead, path)?;
        while let Some(name) = ahead.pop() {
            if self.leaf.is_some() {
                return Err(Errno::NOTDIR.into());
            }
            match &name[..] {
                b"" | b"." => {}
                b".." => self.climb()?,
                _ => {
                    let last = ahead.is_empty();
                    if let Some(target) = self.descend(name, last)? {
                        self.push(&mut ahead, &target)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn push(&mut self, ahead: &mut Vec<Vec<u8>>, path: &[u8]) -> io::Result<()> {
        if path.first() == Some(&b'/') {
            self.here = open_root()?;
            self.steps.clear();
        }
        // An empty part stays: a slash at the end asks for a directory.
        ahead.extend(path.split(|&byte| byte == b'/').rev().map(<[u8]>::to_vec));
        Ok(())
    }

    fn climb(&mut self) -> io::Result<()> {
        if self.steps.pop().is_some() {
            self.here = rustix::fs::openat(&self.here, c"..", HANDLE, Mode::empty())?;
        }
        Ok(())
    }

    /// Enters the directory `name`; returns the target if it is a link to be followed.
    fn descend(&mut self, name: Vec<u8>, last: bool) -> io::Result<Option<Vec<u8>>> {
        let stat = self.stat(&name)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                // O_DIRECTORY makes an automount point mount what belongs there.
                let flags = HANDLE | OFlags::DIRECTORY;
                self.here = rustix::fs::openat(&self.here, &name[..], flags, Mode::empty())?;
                let device = rustix::fs::fstat(&self.here)?.st_dev;
                self.steps.push(Step { name, device });
                Ok(None)
            }
            FileType::Symlink if !last => {
                self.link_count += 1;
                if self.link_count > LINKS_MAX {
                    return Err(Errno::LOOP.into());
                }
                let target = rustix::fs::readlinkat(&self.here, &name[..], Vec::new())?;
                Ok(Some(target.into_bytes()))
            }
            _ => {
                self.leaf = Some(name);
                Ok(None)
            }
        }
    }

    fn stat(&self, name: &[u8]) -> io::Result<Stat> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        Ok(rustix::fs::statat(&self.here, name, flags)?)
    }

    fn split(self) -> (Vec<u8>, Vec<u8>) {
        let device = self.steps.last().map_or(self.root_device, |step| step.device);
        let outside = self.steps.iter().rposition(|step| step.device != device);
        let root_steps = match outside {
            Some(index) => index + 2,
            None if self.root_device == device => 0,
            None => 1,
        };
        let (root, rest) = self.steps.split_at(root_steps);
        let names = |steps: &[Step], leaf: Option<Vec<u8>>| {
            let names = steps.iter().map(|step| &step.name[..]).chain(leaf.as_deref());
            let path = names.flat_map(|name| [b"/", name].concat()).collect::<Vec<u8>>();
            if path.is_empty() { b"/".to_vec() } else { path }
        };
        (names(root, None), names(rest, self.leaf))
    }
}

fn open_root() -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(c"/", HANDLE | OFlags::DIRECTORY, Mode::empty())?)
}

#[cfg(test)]
mod tests;
