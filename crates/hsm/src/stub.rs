//! Making a stub where there is no file.

use std::io;
use std::sync::Arc;

use client::ListedCopy;
use format::stub::{STUB_ATTRIBUTE, State, Stub};
use model::{Attributes, Name};
use sys::{Dir, NewFile};

use crate::recall::{Mount, emptied};

/// Makes a stub of `copy` where its file was; missing directories above it are made.
/// `AlreadyExists` if something is there.
///
/// Only the worker may do this: it has its record before it has a name, and nobody puts a mark on
/// what the worker uses.
pub(crate) fn make(mount: &Mount, copy: &ListedCopy, attributes: &Attributes) -> io::Result<()> {
    let within = match &mount.settings.mount_point[..] {
        b"/" => Some(&copy.path[..]),
        mount_point => copy.path.strip_prefix(mount_point),
    };
    let elsewhere = || io::Error::other("it was in another file system");
    let mut parts: Vec<&[u8]> = within
        .ok_or_else(elsewhere)?
        .split(|&byte| byte == b'/')
        .filter(|p| !p.is_empty())
        .collect();
    let name = parts.pop().ok_or_else(elsewhere)?;
    let name = Name::new(name).map_err(io::Error::other)?;
    let mut directory = Arc::clone(&mount.root);
    for part in parts {
        directory = Arc::new(below(&directory, part)?);
    }
    let mut file = NewFile::create(&directory, name.as_bytes())?;
    file.set_len(copy.stat.size)?;
    let stub = Stub {
        state: State::Premigrated,
        was_recalled: false,
        copy: copy.id,
        size: copy.stat.size,
        mtime: copy.stat.mtime,
        // Not known: it is found to differ when the file is migrated again, and sent once more.
        content: [0; 16],
        unsynced: None,
    };
    file.set_attribute(STUB_ATTRIBUTE, &emptied(stub).encode())?;
    let applied = file.apply(&copy.stat, attributes, true);
    if let Some(refusal) = applied.refused.into_iter().next() {
        return Err(refusal.error);
    }
    file.publish(false).map(drop)
}

fn below(directory: &Dir, name: &[u8]) -> io::Result<Dir> {
    match directory.open_dir(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => directory.make_dir(name),
        other => other,
    }
}
