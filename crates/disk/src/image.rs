//! The state of a disk: all that is durable, and the changes that are not. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::choice::{Choice, Fate, Loss};
use crate::journal::{Change, Edit, Entry, NodeId, ROOT};

/// Size of the unit that a disk writes as a whole, in bytes.
const SECTOR_BYTES: usize = 512;

/// State of a disk.
///
/// Invariant: the changes in `renames` and in each file ascend by number.
#[derive(Clone, Default)]
pub(crate) struct Image {
    folders: BTreeSet<NodeId>,
    files: BTreeMap<NodeId, Content>,
    /// Durable names.
    names: BTreeMap<Entry, Name>,
    /// Changes of names that are not durable.
    renames: Vec<Rename>,
    /// Number of the next change.
    next: u64,
}

/// Meaning of a durable name; `None` if it was removed.
#[derive(Clone, Copy)]
struct Name {
    node: Option<NodeId>,
    /// Number of the change that gave the name its meaning.
    number: u64,
}

/// A change of one or two names as one step.
#[derive(Clone)]
struct Rename {
    number: u64,
    names: Vec<(Entry, Option<NodeId>)>,
}

/// Content of a file.
#[derive(Clone, Default)]
struct Content {
    durable: Vec<u8>,
    edits: Vec<Written>,
}

/// An edit that came after the durable content.
#[derive(Clone)]
struct Written {
    number: u64,
    edit: Edit,
    standing: Durability,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Durability {
    /// The next sync makes the edit durable.
    Open,
    /// A sync has failed: no sync makes the edit durable.
    Doomed,
    /// A sync has made the edit durable. It is not part of the durable content yet, because a
    /// doomed edit comes before it.
    Durable,
}

/// All that is left after a power cut.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Remains {
    pub(crate) names: BTreeMap<Entry, NodeId>,
    pub(crate) contents: BTreeMap<NodeId, Vec<u8>>,
}

impl Remains {
    /// Gives the files at `paths`, which are relative to the root, the content that they have in
    /// `then`. A file that `then` lacks is removed. Returns false and changes nothing if the first
    /// file is another one in `then`, or is absent.
    pub(crate) fn put_back(&mut self, paths: &[PathBuf], then: &Self) -> bool {
        let entries: Vec<Entry> = paths.iter().filter_map(|path| self.entry(path)).collect();
        let first = entries.first().and_then(|entry| self.names.get(entry));
        if first.is_none() || first != then.names.get(&entries[0]) {
            return false;
        }
        for entry in entries {
            match then.names.get(&entry) {
                Some(node) => {
                    self.contents.insert(*node, then.contents[node].clone());
                    self.names.insert(entry, *node);
                }
                None => drop(self.names.remove(&entry)),
            }
        }
        true
    }

    /// Returns the entry of a path that is relative to the root; `None` if its folder is absent.
    fn entry(&self, path: &Path) -> Option<Entry> {
        let mut folder = ROOT;
        for name in path.parent()? {
            folder = *self.names.get(&Entry { folder, name: name.as_bytes().to_vec() })?;
        }
        Some(Entry { folder, name: path.file_name()?.as_bytes().to_vec() })
    }
}

impl Image {
    /// Returns the state of a disk that starts with `remains`.
    pub(crate) fn of(remains: &Remains) -> Self {
        let mut image = Self::default();
        for (entry, node) in &remains.names {
            image.names.insert(entry.clone(), Name { node: Some(*node), number: 0 });
            match remains.contents.get(node) {
                Some(durable) => {
                    let content = Content { durable: durable.clone(), edits: Vec::new() };
                    image.files.insert(*node, content);
                }
                None => drop(image.folders.insert(*node)),
            }
        }
        image.next = 1;
        image
    }

    /// Performs a change.
    pub(crate) fn advance(&mut self, change: &Change) {
        let number = self.next;
        self.next += 1;
        match change {
            Change::Make { at, node, is_folder } => {
                if *is_folder {
                    self.folders.insert(*node);
                } else {
                    self.files.insert(*node, Content::default());
                }
                self.rename(number, vec![(at.clone(), Some(*node))]);
            }
            Change::Link { at, node } => self.rename(number, vec![(at.clone(), Some(*node))]),
            Change::Move { from, to, node } => {
                self.rename(number, vec![(from.clone(), None), (to.clone(), Some(*node))]);
            }
            Change::Remove { at } => self.rename(number, vec![(at.clone(), None)]),
            Change::Edit { node, edit } => {
                let edit = edit.clone();
                let written = Written { number, edit, standing: Durability::Open };
                if let Some(content) = self.files.get_mut(node) {
                    content.edits.push(written);
                }
            }
            Change::Sync { node, has_failed } => self.sync(*node, *has_failed),
        }
    }

    fn rename(&mut self, number: u64, names: Vec<(Entry, Option<NodeId>)>) {
        self.renames.push(Rename { number, names });
    }

    fn sync(&mut self, node: NodeId, has_failed: bool) {
        if let Some(content) = self.files.get_mut(&node) {
            return content.sync(has_failed);
        }
        let concerns = |rename: &Rename| rename.names.iter().any(|(entry, _)| entry.folder == node);
        if has_failed {
            // A file system keeps changes of names in its log until they are on the disk.
            return;
        }
        let (durable, rest) = std::mem::take(&mut self.renames).into_iter().partition(concerns);
        self.renames = rest;
        let durable: Vec<Rename> = durable;
        durable.iter().for_each(|rename| apply(&mut self.names, rename));
    }

    /// Chooses what a power cut leaves.
    pub(crate) fn remains(&self, loss: Loss) -> Remains {
        let mut choice = Choice::new(loss, self.first_open(), self.next);
        let mut names = self.names.clone();
        for rename in &self.renames {
            if choice.fate(rename.number) == Fate::Kept {
                apply(&mut names, rename);
            }
        }
        let mut remains = Remains::default();
        self.collect(ROOT, &names, &mut remains);
        for (node, content) in &self.files {
            // The choice is made for each file, so that it does not depend on the names.
            let left = content.left(&mut choice);
            if remains.names.values().any(|named| named == node) {
                remains.contents.insert(*node, left);
            }
        }
        remains
    }

    /// Returns the number of the first change that is not durable.
    fn first_open(&self) -> u64 {
        let renames = self.renames.iter().map(|rename| rename.number);
        let edits = self.files.values().flat_map(|content| &content.edits);
        renames.chain(edits.map(|written| written.number)).min().unwrap_or(self.next)
    }

    /// Adds all names below `folder`.
    fn collect(&self, folder: NodeId, names: &BTreeMap<Entry, Name>, remains: &mut Remains) {
        let first = Entry { folder, name: Vec::new() };
        let below = names.range(first..).take_while(|(entry, _)| entry.folder == folder);
        for (entry, name) in below {
            let Some(node) = name.node else { continue };
            let is_new = !remains.names.values().any(|named| *named == node);
            remains.names.insert(entry.clone(), node);
            if self.folders.contains(&node) {
                assert!(is_new, "a folder has one name");
                self.collect(node, names, remains);
            }
        }
    }
}

/// Gives the names of `rename` their meaning, unless a later change has done so.
fn apply(names: &mut BTreeMap<Entry, Name>, rename: &Rename) {
    for (entry, node) in &rename.names {
        let is_later = names.get(entry).is_none_or(|name| name.number < rename.number);
        if is_later {
            names.insert(entry.clone(), Name { node: *node, number: rename.number });
        }
    }
}

impl Content {
    fn sync(&mut self, has_failed: bool) {
        let standing = if has_failed { Durability::Doomed } else { Durability::Durable };
        let open = self.edits.iter_mut().filter(|edit| edit.standing == Durability::Open);
        open.for_each(|edit| edit.standing = standing);
        let first = self.edits.iter().position(|edit| edit.standing != Durability::Durable);
        let durable: Vec<Written> = self.edits.drain(..first.unwrap_or(self.edits.len())).collect();
        durable.iter().for_each(|written| perform(&mut self.durable, &written.edit));
    }

    /// Chooses which edits are left.
    fn left(&self, choice: &mut Choice) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        for Written { number, edit, standing } in &self.edits {
            let is_durable = *standing == Durability::Durable;
            match if is_durable { Fate::Kept } else { choice.fate(*number) } {
                Fate::Kept => perform(&mut bytes, edit),
                Fate::Torn => tear(&mut bytes, edit, choice),
                Fate::Dropped => {
                    if let Edit::Write { offset, bytes: written } = edit
                        && choice.leaves_zeros()
                    {
                        grow(&mut bytes, offset + written.len());
                    }
                }
            }
        }
        bytes
    }
}

fn perform(bytes: &mut Vec<u8>, edit: &Edit) {
    match edit {
        Edit::Resize { length } => bytes.resize(*length, 0),
        Edit::Write { offset, bytes: written } => {
            grow(bytes, offset + written.len());
            bytes[*offset..][..written.len()].copy_from_slice(written);
        }
    }
}

/// Performs some sectors of a write.
fn tear(bytes: &mut Vec<u8>, edit: &Edit, choice: &mut Choice) {
    let Edit::Write { offset, bytes: written } = edit else { return };
    let mut at = 0;
    while at < written.len() {
        let end = ((offset + at) / SECTOR_BYTES + 1) * SECTOR_BYTES - offset;
        let part = at..end.min(written.len());
        if choice.keeps_sector() {
            let sector = written[part.clone()].to_vec();
            perform(bytes, &Edit::Write { offset: offset + at, bytes: sector });
        }
        at = part.end;
    }
}

fn grow(bytes: &mut Vec<u8>, length: usize) {
    bytes.resize(bytes.len().max(length), 0);
}

#[cfg(test)]
mod tests;
