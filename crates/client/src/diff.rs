//! Differences between the states of two times.
//!
//! The server sends two streams: the versions that were active at the first time only, and those
//! that were active at the second time only, each in the order of paths. They are merged, so that
//! little memory is needed, whatever the number of objects.
//!
//! A path may have been in another filespace at the first time, because its directory became a
//! filespace of its own. Then the streams have all versions of their times, and objects that are
//! equal are passed over.

use std::collections::{BTreeSet, VecDeque};

use model::{Kind, Object, ServerTime, mount_point};
use sys::mount::is_below;

use crate::error::ClientError;
use crate::link::Link;
use crate::link::list::{Condition, Listing};
use crate::link::versions::{Entry, Selection};
use crate::list::ListedVersion;
use crate::options::DiffOptions;
use crate::options::VersionChoice;
use crate::path::{Place, absolute, normalise, places};
use crate::remains::{has_any, nothing_stored};

/// An object that differs between two times. It has a version of at least one of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    pub before: Option<ListedVersion>,
    pub after: Option<ListedVersion>,
}

impl Difference {
    /// Returns true if both versions have the same content.
    fn is_equal(&self) -> bool {
        let (Some(before), Some(after)) = (&self.before, &self.after) else { return false };
        has_same_content(&before.object, &after.object)
    }

    /// Returns the path of an object that has a version of one time only.
    fn only_path(&self) -> Option<&[u8]> {
        match (&self.before, &self.after) {
            (Some(only), None) | (None, Some(only)) => Some(&only.path),
            _ => None,
        }
    }
}

/// Returns true if the objects, which have one path, do not differ as far as a comparison tells.
fn has_same_content(one: &Object, other: &Object) -> bool {
    let (stat, of_other) = (&one.stat, &other.stat);
    stat.kind == of_other.kind
        && match stat.kind {
            Kind::Directory => true,
            Kind::File => (stat.size, stat.mtime) == (of_other.size, of_other.mtime),
            _ => stat.device == of_other.device && one.payload == other.payload,
        }
}

/// Calls `visit` with each object that differs, until it returns false. Returns the filespaces
/// within those that were compared that have, or had, a part of the objects that came or went.
pub(crate) fn run(
    link: &Link,
    options: &DiffOptions,
    visit: &mut dyn FnMut(&Difference) -> bool,
) -> Result<BTreeSet<Vec<u8>>, ClientError> {
    let filespaces = link.filespaces_of(None)?;
    let mut parts = BTreeSet::new();
    for (from, to) in pairs(link, &filespaces, options)? {
        let is_one = from == to;
        let absent = |at| is_one.then_some(at);
        let mut before = Side::open(link, &from, options.from, absent(options.to))?;
        let mut after = Side::open(link, &to, options.to, absent(options.from))?;
        let own = mount_point(&to.filespace);
        let within: Vec<_> = filespaces.iter().filter(|name| is_below(own, name)).collect();
        while let Some(difference) = next(&mut before, &mut after)? {
            if !is_one && difference.is_equal() {
                continue;
            }
            if let Some(path) = difference.only_path() {
                let holds = |name: &&&Vec<u8>| is_below(name, path);
                parts.extend(within.iter().filter(holds).map(|name| (*name).clone()));
            }
            if !visit(&difference) {
                return Ok(parts);
            }
        }
    }
    Ok(parts)
}

/// Returns the places that are compared: where the path was at the first time, and at the second.
fn pairs(
    link: &Link,
    filespaces: &[Vec<u8>],
    options: &DiffOptions,
) -> Result<Vec<(Place, Place)>, ClientError> {
    let Some(path) = &options.path else {
        let whole = |name: &Vec<u8>| Place::of_filespace(name);
        return Ok(filespaces.iter().map(|name| (whole(name), whole(name))).collect());
    };
    let path = normalise(path)?;
    let places = places(filespaces.iter().map(Vec::as_slice), &path);
    let first = |select: &dyn Fn(Selection) -> Selection| {
        for place in &places {
            if has_any(link, &select(Selection::of_subtree(place)))? {
                return Ok(Some(place.clone()));
            }
        }
        Ok::<_, ClientError>(None)
    };
    let at = |time| first(&|selection| Selection { at: Some(time), ..selection });
    let (from, to) = (at(options.from)?, at(options.to)?);
    if let (Some(from), Some(to)) = (from.clone().or(to.clone()), to.or(from)) {
        return Ok(vec![(from, to)]);
    }
    // The path was there at other times only.
    match first(&|selection| Selection { all_versions: true, ..selection })? {
        Some(_) => Ok(Vec::new()),
        None => Err(nothing_stored(link, filespaces, &path, &VersionChoice::default()).error()),
    }
}

/// Takes the next differing object from the two sides.
fn next(before: &mut Side<'_>, after: &mut Side<'_>) -> Result<Option<Difference>, ClientError> {
    before.fill()?;
    after.fill()?;
    // The end of a side comes after all of its objects.
    let (takes_before, takes_after) = match (before.first(), after.first()) {
        (None, None) => return Ok(None),
        (Some(_), None) => (true, false),
        (None, Some(_)) => (false, true),
        (Some(one), Some(other)) => (one <= other, other <= one),
    };
    let before = if takes_before { before.take() } else { None };
    let after = if takes_after { after.take() } else { None };
    Ok(Some(Difference { before, after }))
}

/// Place of an entry below the place that is compared, in the order in which the server sends them:
/// true if it is below, its directory, and its name. The object at the place itself comes first.
type Key<'e> = (bool, &'e [u8], &'e [u8]);

fn key<'e>(place: &Place, entry: &'e Entry) -> Key<'e> {
    if *entry.directory == place.directory {
        return (false, b"", b"");
    }
    let directory = entry.directory.as_bytes();
    let below = directory.strip_prefix(place.below().as_bytes()).unwrap_or(directory);
    (true, below, entry.object.name.as_bytes())
}

/// Versions that were active at one time, in the order of paths: all of them, or those that were
/// not active at another time.
struct Side<'a> {
    link: &'a Link,
    place: Place,
    listing: Listing<'a>,
    entries: VecDeque<Entry>,
}

impl<'a> Side<'a> {
    /// Begins the list of the versions that were active at the time `at`, and not at `absent_at`.
    fn open(
        link: &'a Link,
        place: &Place,
        at: ServerTime,
        absent_at: Option<ServerTime>,
    ) -> Result<Self, ClientError> {
        let selection = Selection { at: Some(at), ..Selection::of_subtree(place) };
        let listing = link.list_if(&selection, Condition { pattern: None, absent_at })?;
        Ok(Self { link, place: place.clone(), listing, entries: VecDeque::new() })
    }

    /// Receives entries, unless there are some or the list has ended.
    fn fill(&mut self) -> Result<(), ClientError> {
        while self.entries.is_empty() {
            match self.listing.next()? {
                Some(entries) => self.entries.extend(entries),
                None => break,
            }
        }
        Ok(())
    }

    fn first(&self) -> Option<Key<'_>> {
        self.entries.front().map(|entry| key(&self.place, entry))
    }

    fn take(&mut self) -> Option<ListedVersion> {
        let entry = self.entries.pop_front()?;
        Some(ListedVersion {
            path: absolute(&self.place.filespace, &entry.directory.join(&entry.object.name)),
            class: self.link.hello().class_name(entry.object.class).to_owned(),
            object: entry.object,
            deactivated: entry.deactivated,
        })
    }
}
