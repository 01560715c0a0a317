//! Directories of the target. Each is made when it is needed, and finished when everything in it
//! has been made.
//!
//! Only directories of the selection get here, with paths that consist of names. So no step leaves
//! the target, and each step makes an announced directory or passes over it.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Attributes, DirPath, Stat};
use sys::Dir;

use super::attributes::{note_refusals, same_stat};
use super::tally::Tally;
use crate::options::ReplaceRule;
use crate::path::{absolute, absolute_dir, components};

/// Maximum number of bytes of directories that wait until they are made.
const ANNOUNCED_BYTES_MAX: usize = 256 << 20;
/// Bytes of a directory that waits, besides its path.
const ANNOUNCED_BYTES: usize = 256;
/// Maximum length of a path times its number of levels. Each level has its path while it is open,
/// so this bounds the memory of the open levels: about 5,000 levels with names of one byte, 500
/// with the longest names.
const LEVELS_BYTES_MAX: usize = 64 << 20;
/// Length of a path, in bytes, that is never too deep.
const SHALLOW_BYTES: usize = 8000;

const _: () = assert!(SHALLOW_BYTES * SHALLOW_BYTES / 2 < LEVELS_BYTES_MAX, "few levels");

/// State of a directory, which is set when everything in it has been made.
#[derive(Clone)]
pub(super) struct DirState {
    pub(super) stat: Stat,
    pub(super) attributes: Arc<Attributes>,
    /// True for a directory above the selected objects. It counts as no object, and gets its
    /// attributes at the end of the restore, if the restore has made it.
    pub(super) is_parent: bool,
}

/// Directory of the target. Objects hold their directory while they are made. After the last
/// object, the directory gets its attributes, and then its parent may get its own.
pub(super) struct Site<'a> {
    pub(super) dir: Arc<Dir>,
    /// Path of the directory on the node when it was backed up, for messages.
    path: Vec<u8>,
    finish: Option<DirState>,
    /// True if this restore has made the directory.
    pub(super) is_new: bool,
    tally: &'a Tally,
    owner: bool,
    parent: Option<Arc<Self>>,
}

impl Drop for Site<'_> {
    fn drop(&mut self) {
        if let Some(state) = self.finish.take()
            // A new directory has yet to get its attributes. Another that is still right is not
            // changed, because it may refuse every change.
            && (self.is_new || !is_right(&self.dir, &state, self.owner))
        {
            let applied = self.dir.apply(&state.stat, &state.attributes, self.owner);
            note_refusals(self.tally, || self.path.clone(), &applied, self.owner);
        }
        // The directories above end one after the other, and not one within the other: the last
        // object of a deep tree would need a deep stack.
        let mut parent = self.parent.take();
        while let Some(mut site) = parent.and_then(Arc::into_inner) {
            parent = site.parent.take();
        }
    }
}

/// Map from the directories of the selection to the target.
pub(super) struct Tree<'a> {
    base: Arc<Dir>,
    /// Directory above the selected objects. `base` stands for it.
    above: DirPath,
    filespace: Vec<u8>,
    tally: &'a Tally,
    replace: ReplaceRule,
    owner: bool,
    /// Directories that were announced and have not been made, in path order.
    announced: BTreeMap<DirPath, DirState>,
    /// Bytes of the announced directories.
    announced_bytes: usize,
    /// Chain of open directories from the base to the current directory.
    open: Vec<(DirPath, Arc<Site<'a>>)>,
    /// Directory that could not be made. Nothing below it can be made.
    broken: Option<DirPath>,
}

impl<'a> Tree<'a> {
    pub(super) fn new(
        base: Dir,
        above: DirPath,
        filespace: Vec<u8>,
        tally: &'a Tally,
        replace: ReplaceRule,
    ) -> Self {
        Self {
            base: Arc::new(base),
            above,
            filespace,
            tally,
            replace,
            owner: sys::process::is_root(),
            announced: BTreeMap::new(),
            announced_bytes: 0,
            open: Vec::new(),
            broken: None,
        }
    }

    pub(super) fn owner(&self) -> bool {
        self.owner
    }

    pub(super) fn filespace(&self) -> &[u8] {
        &self.filespace
    }

    /// Returns the path that `path` in the filespace has on the node.
    pub(super) fn node_path(&self, path: &[u8]) -> Vec<u8> {
        absolute(&self.filespace, path)
    }

    /// Notes that the directory `path` has to be made. If very many directories wait, the first of
    /// them are made at once. If objects come into them later, they keep the times of these
    /// objects.
    pub(super) fn announce(&mut self, path: DirPath, state: DirState) {
        let bytes = announced_bytes(&path);
        if self.announced.insert(path, state).is_none() {
            self.announced_bytes += bytes;
        }
        while self.announced_bytes > ANNOUNCED_BYTES_MAX
            && let Some((first, _)) = self.announced.first_key_value()
        {
            let first = first.clone();
            self.make_announced(&first);
        }
    }

    /// Makes the announced directory `path`. Whatever becomes of it, it is announced no more.
    fn make_announced(&mut self, path: &DirPath) {
        // A failure is counted.
        let _site = self.enter(path);
        self.take_announced(path);
    }

    fn take_announced(&mut self, path: &DirPath) -> Option<DirState> {
        let state = self.announced.remove(path)?;
        self.announced_bytes -= announced_bytes(path);
        Some(state)
    }

    /// Returns the site of `directory`. Makes the directory, and all directories above it, if
    /// necessary. Returns `None` if that failed; the failure is then counted.
    pub(super) fn site(&mut self, directory: &DirPath) -> Option<Arc<Site<'a>>> {
        if self.open.last().is_some_and(|(path, _)| path == directory) {
            return self.open.last().map(|(_, site)| Arc::clone(site));
        }
        if self.broken.as_ref().is_some_and(|broken| broken.contains(directory)) {
            return None;
        }
        // Announced directories before this directory hold no objects. They are made in path order,
        // so that each is entered before its content and left after it.
        while let Some((path, _)) = self.announced.first_key_value()
            && path < directory
            && !path.contains(directory)
        {
            let path = path.clone();
            self.make_announced(&path);
        }
        self.enter(directory)
    }

    /// Closes the sites that do not lead to `directory`.
    fn leave(&mut self, directory: &DirPath) {
        while self.open.last().is_some_and(|(path, _)| !path.contains(directory)) {
            self.open.pop();
        }
    }

    /// Opens the directories from the innermost open directory down to `directory`.
    fn enter(&mut self, directory: &DirPath) -> Option<Arc<Site<'a>>> {
        self.leave(directory);
        let from = self.open.last().map_or_else(|| self.above.clone(), |(path, _)| path.clone());
        assert!(from.contains(directory), "only objects of the selection are restored");
        let rest = directory.as_bytes().strip_prefix(from.as_bytes()).unwrap_or_default();
        let mut path = from;
        if self.open.is_empty() {
            let site = Site {
                dir: Arc::clone(&self.base),
                path: Vec::new(),
                finish: None,
                is_new: false,
                tally: self.tally,
                owner: self.owner,
                parent: None,
            };
            self.open.push((path.clone(), Arc::new(site)));
        }
        assert!(!self.open.is_empty(), "the base is open while a directory below it is entered");
        for part in components(rest) {
            let name = model::Name::new(part).ok()?;
            path = path.child(&name);
            let state = self.take_announced(&path);
            let parent = Arc::clone(&self.open.last()?.1);
            match self.make(&parent, &path, part, state) {
                Ok(site) => self.open.push((path.clone(), Arc::new(site))),
                Err(error) => {
                    let shown = absolute_dir(&self.filespace, &path);
                    self.tally.fail(shown, error.to_string());
                    self.broken = Some(path);
                    return None;
                }
            }
        }
        self.open.last().map(|(_, site)| Arc::clone(site))
    }

    fn make(
        &self,
        parent: &Arc<Site<'a>>,
        path: &DirPath,
        name: &[u8],
        state: Option<DirState>,
    ) -> std::io::Result<Site<'a>> {
        let is_selected = state.as_ref().is_some_and(|state| !state.is_parent);
        let add = || parent.dir.add_dir(name, state.is_some());
        let existed = !add()?;
        let dir = match parent.dir.open_dir(name) {
            Err(_) if existed && self.replace == ReplaceRule::All && is_selected => {
                parent.dir.remove(name, false)?;
                let _is_new = add()?;
                parent.dir.open_dir(name)?
            }
            opened => opened?,
        };
        let finish = state.filter(|state| self.is_to_be_set(&dir, state, existed));
        Ok(Site {
            dir: Arc::new(dir),
            path: absolute_dir(&self.filespace, path),
            finish,
            is_new: !existed,
            tally: self.tally,
            owner: self.owner,
            parent: Some(Arc::clone(parent)),
        })
    }

    /// Counts the directory. Returns true if it gets its stored attributes: a new directory does,
    /// and a directory that an interrupted restore has left unfinished. For other directories the
    /// option decides.
    fn is_to_be_set(&self, dir: &Dir, state: &DirState, existed: bool) -> bool {
        let unfinished = !existed || dir.is_unfinished();
        if state.is_parent {
            // The next receptions may make objects in it. `Parents::finish` sets it after all of
            // them.
            if unfinished {
                dir.mark_unfinished();
            }
            return false;
        }
        if existed && is_right(dir, state, self.owner) {
            self.tally.skipped(false);
            // Objects that are made in the directory change its mtime, which is then set again.
            return true;
        }
        let newer = || dir.stat_self().is_ok_and(|found| found.stat.mtime < state.stat.mtime);
        let replaces = match self.replace {
            ReplaceRule::All => true,
            ReplaceRule::IfNewer => newer(),
            ReplaceRule::No => false,
        };
        if unfinished || replaces {
            if unfinished {
                dir.mark_unfinished();
            }
            self.tally.restored(0);
            return true;
        }
        // Objects that were put into a directory have changed its times, so a difference does not
        // count.
        self.tally.skipped(false);
        false
    }

    /// Makes the announced directories that hold no objects, and closes all directories.
    pub(super) fn finish(&mut self) {
        while let Some((path, _)) = self.announced.first_key_value() {
            let path = path.clone();
            self.make_announced(&path);
        }
        // From the innermost directory outwards, because each holds its parent.
        while self.open.pop().is_some() {}
    }
}

/// Returns true if objects of `directory` cannot be restored, because too many directories would be
/// open at once.
pub(super) fn is_too_deep(directory: &DirPath) -> bool {
    let path = directory.as_bytes();
    path.len() > SHALLOW_BYTES && components(path).count() * path.len() > LEVELS_BYTES_MAX
}

fn announced_bytes(path: &DirPath) -> usize {
    path.as_bytes().len() + ANNOUNCED_BYTES
}

fn is_right(dir: &Dir, state: &DirState, owner: bool) -> bool {
    let Ok(found) = dir.stat_self() else { return false };
    same_stat(&found.stat, &state.stat, owner)
        && dir.own_attributes().is_ok_and(|attributes| attributes == *state.attributes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Progress;

    /// The stack of a thread that has the last object of a tree of several thousand levels was too
    /// small.
    #[test]
    fn a_deep_tree_ends_with_a_small_stack() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().as_os_str().as_encoded_bytes();
        let dir = Arc::new(Dir::open(path).expect("it is there"));
        let tally = Tally::new(Arc::new(Progress::default()));
        let site = |parent| Site {
            dir: Arc::clone(&dir),
            path: Vec::new(),
            finish: None,
            is_new: false,
            tally: &tally,
            owner: false,
            parent,
        };
        let make = || {
            let mut last = None;
            for _ in 0..100_000 {
                last = Some(Arc::new(site(last)));
            }
            drop(last);
        };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(256 << 10);
            let ended = thread.spawn_scoped(scope, make).expect("a thread").join();
            ended.expect("it ends");
        });
        assert_eq!(Arc::strong_count(&dir), 1, "all have ended");
    }
}
