//! The directories of the target, made as they are needed and finished when all in them is made.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Attributes, DirPath, Stat};
use sys::Dir;

use super::Tally;
use crate::Replace;

/// A directory's state, to be set when everything in it has been made.
#[derive(Clone)]
pub(super) struct State {
    pub(super) stat: Stat,
    pub(super) attributes: Arc<Attributes>,
}

/// A directory that things are made in. Whoever still makes something in it holds it; when the last
/// one lets go, it gets its attributes, and then its parent may.
pub(super) struct Site<'a> {
    pub(super) dir: Arc<Dir>,
    /// On the node, as it was backed up: for messages.
    path: Vec<u8>,
    finish: Option<State>,
    /// Made by this restore.
    pub(super) is_new: bool,
    tally: &'a Tally,
    owner: bool,
    _parent: Option<Arc<Self>>,
}

impl Drop for Site<'_> {
    fn drop(&mut self) {
        if let Some(state) = self.finish.take()
            // One that was right and had nothing made in it still is; it may refuse to be touched.
            && !is_right(&self.dir, &state, self.owner)
        {
            let applied = self.dir.apply(&state.stat, &state.attributes, self.owner);
            super::make::note_refusals(self.tally, &self.path, &applied, self.owner);
        }
    }
}

/// How the directories of the selection map to the target.
pub(super) struct Tree<'a> {
    base: Arc<Dir>,
    /// What is cut off the front of directory paths: the directory that holds the selected object.
    above: DirPath,
    filespace: Vec<u8>,
    tally: &'a Tally,
    replace: Replace,
    owner: bool,
    /// Directories that were announced and not made yet, in path order.
    announced: BTreeMap<DirPath, State>,
    /// The way from the base to the current directory.
    open: Vec<(DirPath, Arc<Site<'a>>)>,
    /// A directory that could not be made: nothing below it can be.
    broken: Option<DirPath>,
}

impl<'a> Tree<'a> {
    pub(super) fn new(
        base: Dir,
        above: DirPath,
        filespace: Vec<u8>,
        tally: &'a Tally,
        replace: Replace,
    ) -> Self {
        Self {
            base: Arc::new(base),
            above,
            filespace,
            tally,
            replace,
            owner: sys::process::is_root(),
            announced: BTreeMap::new(),
            open: Vec::new(),
            broken: None,
        }
    }

    pub(super) fn owner(&self) -> bool {
        self.owner
    }

    /// The path on the node of what lies at `path` in the filespace.
    pub(super) fn node_path(&self, path: &[u8]) -> Vec<u8> {
        crate::backup::absolute(&self.filespace, path)
    }

    /// Notes that the directory `path` is to be made.
    pub(super) fn announce(&mut self, path: DirPath, state: State) {
        self.announced.insert(path, state);
    }

    /// The site of `directory`, made if need be with all above it. `None` when that failed; then
    /// the failure of the directory itself has been counted.
    pub(super) fn site(&mut self, directory: &DirPath) -> Option<Arc<Site<'a>>> {
        if self.open.last().is_some_and(|(path, _)| path == directory) {
            return self.open.last().map(|(_, site)| Arc::clone(site));
        }
        if self.broken.as_ref().is_some_and(|broken| broken.contains(directory)) {
            return None;
        }
        // Directories on the way that hold nothing of their own: in path order, so that each is
        // entered before what is in it, and left when the next one is not.
        while let Some((path, _)) = self.announced.first_key_value()
            && path < directory
            && !path.contains(directory)
        {
            let path = path.clone();
            if self.enter(&path).is_none() {
                self.announced.remove(&path);
            }
        }
        self.enter(directory)
    }

    /// Closes the sites that do not lead to `directory`.
    fn leave(&mut self, directory: &DirPath) {
        while self.open.last().is_some_and(|(path, _)| !path.contains(directory)) {
            self.open.pop();
        }
    }

    /// Opens the way to `directory`, from the innermost directory that is open.
    fn enter(&mut self, directory: &DirPath) -> Option<Arc<Site<'a>>> {
        self.leave(directory);
        let from = self.open.last().map_or_else(|| self.above.clone(), |(path, _)| path.clone());
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
                _parent: None,
            };
            self.open.push((path.clone(), Arc::new(site)));
        }
        for part in rest.split(|&byte| byte == b'/').filter(|part| !part.is_empty()) {
            let name = model::Name::new(part).ok()?;
            path = path.child(&name);
            let state = self.announced.remove(&path);
            let parent = Arc::clone(&self.open.last()?.1);
            match self.make(&parent, &path, part, state) {
                Ok(site) => self.open.push((path.clone(), Arc::new(site))),
                Err(error) => {
                    let shown = path.as_bytes();
                    let shown = shown.strip_suffix(b"/").unwrap_or(shown);
                    self.tally.fail(self.node_path(shown), error.to_string());
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
        state: Option<State>,
    ) -> std::io::Result<Site<'a>> {
        let existed = matches!(parent.dir.stat(name), Ok(Some(_)));
        let make = || match &state {
            Some(_) => parent.dir.make_unfinished_dir(name),
            None => parent.dir.make_dir(name),
        };
        let made = match make() {
            Err(_) if existed && self.replace == Replace::All && state.is_some() => {
                parent.dir.remove(name, false).and_then(|()| make())
            }
            other => other,
        };
        let dir = made?;
        let finish = state.filter(|state| self.is_to_be_set(&dir, state, existed));
        let shown = path.as_bytes().strip_suffix(b"/").unwrap_or_default();
        Ok(Site {
            dir: Arc::new(dir),
            path: self.node_path(shown),
            finish,
            is_new: !existed,
            tally: self.tally,
            owner: self.owner,
            _parent: Some(Arc::clone(parent)),
        })
    }

    /// Counts the directory, and decides whether it gets its attributes: a new one does, and one
    /// that an interrupted restore left unfinished; one that was there is a matter of the option.
    fn is_to_be_set(&self, dir: &Dir, state: &State, existed: bool) -> bool {
        let unfinished = !existed || dir.is_unfinished();
        if existed && is_right(dir, state, self.owner) {
            self.tally.skipped(false);
            // What is made in it moves its mtime.
            return true;
        }
        let newer = || dir.stat_self().is_ok_and(|found| found.stat.mtime < state.stat.mtime);
        let replaces = match self.replace {
            Replace::All => true,
            Replace::IfNewer => newer(),
            Replace::No => false,
        };
        if unfinished || replaces {
            if unfinished {
                dir.mark_unfinished();
            }
            self.tally.restored(0);
            return true;
        }
        // What is put into a directory moves its times: that it differs is no news.
        self.tally.skipped(false);
        false
    }

    /// Makes the directories that hold nothing and closes all.
    pub(super) fn finish(&mut self) {
        while let Some((path, _)) = self.announced.first_key_value() {
            let path = path.clone();
            if self.enter(&path).is_none() {
                self.announced.remove(&path);
            }
        }
        self.open.clear();
    }
}

fn is_right(dir: &Dir, state: &State, owner: bool) -> bool {
    let Ok(found) = dir.stat_self() else { return false };
    super::make::same_stat(&found.stat, &state.stat, owner)
        && dir.own_attributes().is_ok_and(|attributes| attributes == *state.attributes)
}
