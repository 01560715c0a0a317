//! The identity of a server's folder.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use pool::Owner;
use serde::{Deserialize, Serialize};
use sys::durable::FileIdentity;

use super::folder_lock::FolderLock;
use crate::folder::error::OpenError;

const FILE: &str = "instance.toml";

/// The identity of a server's folder, as it is stored in a file of the folder.
///
/// Invariant: `id` is not in `former`.
pub(super) struct Instance {
    path: PathBuf,
    pub(super) id: Owner,
    /// Identity of the file that is locked. A copy of the folder has another file.
    lock: FileIdentity,
    /// Identities of folders that are lost. This folder may take their pools.
    former: BTreeSet<Owner>,
}

/// Content of `instance.toml`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Identity in hexadecimal digits.
    id: String,
    /// Inode of the file that is locked, and the time of its creation in nanoseconds.
    lock: [String; 2],
    former: Vec<String>,
}

impl Instance {
    /// Returns the identity of `folder`. A folder without an identity gets a new identity. Fails if
    /// the folder is a copy.
    pub(super) fn of(folder: &Path, lock: &FolderLock) -> Result<Self, OpenError> {
        match Self::read(folder)? {
            Some(found) if found.lock == lock.identity => Ok(found),
            Some(_) => Err(OpenError::Copied { folder: folder.to_owned() }),
            None => Self::new(folder, lock, BTreeSet::new()),
        }
    }

    /// Gives `folder` a new identity. The folder may take the pools of its old identities and of
    /// `owners`.
    pub(super) fn renewed(
        folder: &Path,
        lock: &FolderLock,
        owners: BTreeSet<Owner>,
    ) -> Result<Self, OpenError> {
        let mut former = owners;
        if let Some(old) = Self::read(folder)? {
            former.extend(old.former);
            former.insert(old.id);
        }
        Self::new(folder, lock, former)
    }

    fn new(folder: &Path, lock: &FolderLock, former: BTreeSet<Owner>) -> Result<Self, OpenError> {
        let (path, id) = (folder.join(FILE), Owner(sys::entropy::bytes()));
        let new = Self { path, id, lock: lock.identity, former };
        new.write()?;
        Ok(new)
    }

    /// Returns true if this folder may take the pools of `owner`.
    pub(super) fn may_succeed(&self, owner: Owner) -> bool {
        self.former.contains(&owner)
    }

    fn read(folder: &Path) -> Result<Option<Self>, OpenError> {
        let path = folder.join(FILE);
        let unusable = |source| OpenError::File { path: path.clone(), source };
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(unusable)?,
        };
        let damaged = || unusable(io::Error::other("the identity of the folder is damaged"));
        let file: File = toml::from_str(&text).map_err(|_| damaged())?;
        let parse = |text: &String| {
            let bytes = HEXLOWER.decode(text.as_bytes()).ok()?;
            bytes.try_into().ok().map(Owner)
        };
        let former = file.former.iter().map(parse).collect::<Option<_>>().ok_or_else(damaged)?;
        let id = parse(&file.id).ok_or_else(damaged)?;
        let [inode, born_nanos] = file.lock.map(|number| number.parse().ok());
        let (inode, born_nanos) = inode.zip(born_nanos).ok_or_else(damaged)?;
        let lock = FileIdentity { inode, born_nanos };
        Ok(Some(Self { path, id, lock, former }))
    }

    fn write(&self) -> Result<(), OpenError> {
        assert!(!self.former.contains(&self.id), "a folder does not succeed itself");
        let text = |owner: &Owner| HEXLOWER.encode(&owner.0);
        let former = self.former.iter().map(text).collect();
        let lock = [self.lock.inode, self.lock.born_nanos].map(|number| number.to_string());
        let file = File { id: text(&self.id), lock, former };
        let unusable = |source| OpenError::File { path: self.path.clone(), source };
        let body = toml::to_string(&file).map_err(|error| unusable(io::Error::other(error)))?;
        let body = format!("# Identity of this server's folder. Do not change it.\n{body}");
        sys::durable::write(&self.path, body.as_bytes(), 0o600).map_err(unusable)
    }
}
