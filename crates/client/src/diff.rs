//! Differences between the states of two times.
//!
//! The server sends two streams: the versions that were active at the first time only, and those
//! that were active at the second time only, each in the order of paths. They are merged, so that
//! little memory is needed, whatever the number of objects.

use std::cmp::Ordering;
use std::collections::VecDeque;

use model::ServerTime;

use crate::error::ClientError;
use crate::link::Link;
use crate::link::list::{Condition, Listing};
use crate::link::versions::{Entry, Selection};
use crate::list::ListedVersion;
use crate::options::DiffOptions;
use crate::options::VersionChoice;
use crate::path::{absolute, normalise, places};
use crate::remains::{has_any, nothing_stored};

/// An object that differs between two times. It has a version of at least one of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    pub before: Option<ListedVersion>,
    pub after: Option<ListedVersion>,
}

/// Calls `visit` with each object that differs, until it returns false.
pub(crate) fn run(
    link: &Link,
    options: &DiffOptions,
    visit: &mut dyn FnMut(&Difference) -> bool,
) -> Result<(), ClientError> {
    for selection in selections(link, options)? {
        let mut before = Side::open(link, &selection, options.from, options.to)?;
        let mut after = Side::open(link, &selection, options.to, options.from)?;
        while let Some(difference) = next(&mut before, &mut after)? {
            if !visit(&difference) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Returns the parts of filespaces that are compared.
fn selections(link: &Link, options: &DiffOptions) -> Result<Vec<Selection>, ClientError> {
    let filespaces = link.filespaces_of(None)?;
    let Some(path) = &options.path else {
        return Ok(filespaces.iter().map(|name| Selection::of_filespace(name)).collect());
    };
    let path = normalise(path)?;
    for place in places(filespaces.iter().map(Vec::as_slice), &path) {
        let selection = Selection::of_subtree(&place);
        if has_any(link, &Selection { all_versions: true, ..selection.clone() })? {
            return Ok(vec![selection]);
        }
    }
    Err(nothing_stored(link, &filespaces, &path, &VersionChoice::default()).error())
}

/// Takes the next differing object from the two sides.
fn next(before: &mut Side<'_>, after: &mut Side<'_>) -> Result<Option<Difference>, ClientError> {
    let order = match (before.peek()?, after.peek()?) {
        (None, None) => return Ok(None),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (Some(one), Some(other)) => order(one, other),
    };
    let before = if order.is_le() { before.take() } else { None };
    let after = if order.is_ge() { after.take() } else { None };
    Ok(Some(Difference { before, after }))
}

/// Returns the order in which the server sends two objects.
fn order(one: &Entry, other: &Entry) -> Ordering {
    let by_directory = one.directory.cmp(&other.directory);
    by_directory.then_with(|| one.object.name.cmp(&other.object.name))
}

/// Versions that were active at one time and not at another, in the order of paths.
struct Side<'a> {
    link: &'a Link,
    filespace: Vec<u8>,
    listing: Listing<'a>,
    entries: VecDeque<Entry>,
}

impl<'a> Side<'a> {
    fn open(
        link: &'a Link,
        selection: &Selection,
        at: ServerTime,
        absent_at: ServerTime,
    ) -> Result<Self, ClientError> {
        let selection = Selection { at: Some(at), ..selection.clone() };
        let condition = Condition { pattern: None, absent_at: Some(absent_at) };
        let listing = link.list_if(&selection, condition)?;
        let filespace = selection.filespace;
        Ok(Self { link, filespace, listing, entries: VecDeque::new() })
    }

    fn peek(&mut self) -> Result<Option<&Entry>, ClientError> {
        while self.entries.is_empty() {
            match self.listing.next()? {
                Some(entries) => self.entries.extend(entries),
                None => return Ok(None),
            }
        }
        Ok(self.entries.front())
    }

    fn take(&mut self) -> Option<ListedVersion> {
        let entry = self.entries.pop_front()?;
        Some(ListedVersion {
            path: absolute(&self.filespace, &entry.directory.join(&entry.object.name)),
            class: self.link.hello().class_name(entry.object.class).to_owned(),
            object: entry.object,
            deactivated: entry.deactivated,
        })
    }
}
