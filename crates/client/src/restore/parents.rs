//! Parents: directories above a restored object that are missing at its old place.
//!
//! 1. A directory that exists keeps its attributes.
//! 2. A new parent gets the attributes that it has in the selected state. If the server does not
//!    have it, only the user of the restore may use it.
//! 3. A parent gets its attributes after all receptions of the restore: until then, objects come
//!    into it, and its mode or its flags may forbid that. An interrupted restore leaves it
//!    unfinished, and the next one goes on with it.

use std::collections::BTreeMap;
use std::io;

use model::{DirPath, Kind};
use sys::Dir;
use sys::lock::Mutex;

use super::attributes::note_refusals;
use super::layout::{Base, above};
use super::tally::Tally;
use super::tree::DirState;
use crate::error::{ClientError, ErrorKind};
use crate::link::Link;
use crate::link::versions::{Entry, Selection};
use crate::options::RestoreOptions;
use crate::path::{Place, absolute_dir};

/// Place in the target where a reception begins.
pub(super) struct Start {
    pub(super) filespace: Vec<u8>,
    pub(super) base: Base,
    /// Directory of the filespace that `base` stands for.
    pub(super) above: DirPath,
    /// Parents between `above` and the objects of the reception.
    pub(super) parents: Vec<(DirPath, DirState)>,
}

impl Start {
    /// Returns the start for a `base` that stands for the directory of `place`.
    pub(super) fn of(place: &Place, base: &Base) -> Self {
        let (filespace, base) = (place.filespace.clone(), base.clone());
        Self { filespace, base, above: above(place), parents: Vec::new() }
    }
}

/// Filespace and path of a directory.
type Key = (Vec<u8>, DirPath);

/// Parents that a restore has to make. The value is `None` for a parent that the server does not
/// have.
#[derive(Default)]
pub(super) struct Parents(Mutex<BTreeMap<Key, Option<DirState>>>);

impl Parents {
    /// Returns the start for `place`, to which `base` belongs. At the old place, it is the
    /// innermost directory that exists.
    pub(super) fn start(
        &self,
        link: &Link,
        options: &RestoreOptions,
        place: &Place,
        base: &Base,
    ) -> Result<Start, ClientError> {
        let mut start = Start::of(place, base);
        if options.to.is_some() {
            return Ok(start);
        }
        while let Some((directory, name)) = start.above.parent()
            && directory != DirPath::above_root()
            && self.is_to_be_made(&start.filespace, &start.above)
        {
            let filespace = start.filespace.clone();
            let parent = Place { filespace, directory, name: Some(name) };
            let state = self.state(link, options, &parent)?;
            let path = std::mem::replace(&mut start.above, parent.directory);
            start.parents.extend(state.map(|state| (path, state)));
        }
        start.base = Base::at_old_place(&start.filespace, &start.above);
        Ok(start)
    }

    /// Returns true if the restore makes `directory`, or has made it.
    fn is_to_be_made(&self, filespace: &[u8], directory: &DirPath) -> bool {
        if self.0.lock().contains_key(&(filespace.to_vec(), directory.clone())) {
            return true;
        }
        match Base::at_old_place(filespace, directory).opened() {
            // An interrupted restore has made it.
            Ok(dir) => dir.is_unfinished() || is_below_unfinished(filespace, directory),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }

    /// Sets the attributes of the parents that the restore has made, innermost first.
    pub(super) fn finish(&self, tally: &Tally) {
        let owner = sys::process::is_root();
        for ((filespace, directory), state) in self.0.lock().iter().rev() {
            let (Some(state), Some((above, name))) = (state, directory.parent()) else { continue };
            let above = Base::at_old_place(filespace, &above).open().ok().flatten();
            let dir = above.and_then(|above| above.open_dir(name.as_bytes()).ok());
            // A directory that another program has made keeps its attributes.
            if let Some(dir) = dir.filter(Dir::is_unfinished) {
                let applied = dir.apply(&state.stat, &state.attributes, owner);
                let path = || absolute_dir(filespace, directory);
                note_refusals(tally, path, &applied, owner);
            }
        }
    }

    /// Returns the stored state of the directory at `place`.
    fn state(
        &self,
        link: &Link,
        options: &RestoreOptions,
        place: &Place,
    ) -> Result<Option<DirState>, ClientError> {
        let key = (place.filespace.clone(), place.below());
        if let Some(known) = self.0.lock().get(&key) {
            return Ok(known.clone());
        }
        let selection = Selection::of_object(place).with_versions(&options.which);
        let state = match stored_directory(link, &selection) {
            // Another node may let this one read an object, but not its directory.
            Err(error) if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Damaged) => None,
            state => state?,
        };
        self.0.lock().insert(key, state.clone());
        Ok(state)
    }
}

/// Returns true if an interrupted restore has made a directory that holds `directory`.
fn is_below_unfinished(filespace: &[u8], directory: &DirPath) -> bool {
    let parent = |directory: &DirPath| directory.parent().map(|(parent, _)| parent);
    std::iter::successors(parent(directory), parent)
        .take_while(|above| *above != DirPath::above_root())
        .map(|above| Base::at_old_place(filespace, &above).opened())
        .any(|opened| opened.is_ok_and(|dir| dir.is_unfinished()))
}

/// Returns the stored state of the directory that `selection` has; `None` if there is none.
pub(super) fn stored_directory(
    link: &Link,
    selection: &Selection,
) -> Result<Option<DirState>, ClientError> {
    let mut listing = link.list(selection)?;
    let mut found = None;
    // An error after the directory is about other records.
    while found.is_none()
        && let Some(entries) = listing.next()?
    {
        let mut entries = entries.into_iter();
        let directory = entries.find(|entry| entry.object.stat.kind == Kind::Directory);
        let state = |Entry { object, .. }| DirState {
            stat: object.stat,
            attributes: object.attributes,
            is_parent: true,
        };
        found = directory.map(state);
    }
    Ok(found)
}
