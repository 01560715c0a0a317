//! Selection of objects in a filespace, and of the versions of each object.
//!
//! Directories come in path order, page by page, so that a filespace of any size takes little
//! memory. Inactive versions are read only if the choice needs them, for one directory at a time.
//!
//! A damaged record is noted and passed over: it costs its own objects only.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::slice::from_ref;

use crate::error::StoreError;
use catalog::{Catalog, CatalogError, PageKey, PageRow, PageSpan, VersionRow};
use format::page;
use model::{
    DirPath, Extent, FilespaceId, Kind, Name, Object, PAGE_OBJECTS_MAX, Payload, ServerTime,
    Version,
};

use crate::pages::decode_page;
use crate::store::drills::Sample;

/// Number of pages that are read from the catalogue at once.
const PAGES_BATCH: usize = 64;

/// Maximum weight of the objects of a page that a client gets, in bytes, unless it has one object.
const PART_WEIGHT_MAX: usize = 8 << 20;
/// Maximum length of the encoded length of a chunk, in bytes.
const CHUNK_LENGTH_BYTES: usize = 3;

/// Choice among the versions of each object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    Active,
    /// The version that was active at this time.
    At(ServerTime),
    /// The active version or, if there is no active version, the newest inactive version.
    Newest,
    All,
}

/// Selected versions of objects of one directory: the versions of one page, or the inactive
/// versions of a directory that has no page any more.
pub struct VersionBatch {
    pub directory: DirPath,
    /// Versions, sorted by name. The newest version of an object comes first.
    pub versions: Vec<Version>,
}

/// Records that a walk could not read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unreadable {
    /// Number of pages and versions.
    pub count: u64,
    /// Fault of the first of them.
    pub first: String,
}

impl From<Unreadable> for StoreError {
    fn from(Unreadable { count, first }: Unreadable) -> Self {
        let rows = crate::counts::counted(count, "row");
        Self::damaged(format!(
            "{rows} of the catalogue cannot be read, all others are complete: {first}; \
             'holdfast admin audit' says what to do"
        ))
    }
}

/// A walk through a span of a filespace.
pub(super) struct Walk<'a> {
    catalog: &'a dyn Catalog,
    filespace: FilespaceId,
    span: PageSpan,
    choice: Choice,
    pages: VecDeque<PageRow>,
    pages_after: Option<PageKey>,
    pages_end: bool,
    /// The next directories with inactive versions.
    directories: VecDeque<DirPath>,
    directories_after: Option<DirPath>,
    directories_end: bool,
    /// Inactive versions of `versions_of` by name.
    versions: BTreeMap<Name, Vec<VersionRow>>,
    /// The directory whose inactive versions were read last.
    versions_of: Option<DirPath>,
    /// Damaged records that were passed over.
    unreadable: Option<Unreadable>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        catalog: &'a dyn Catalog,
        filespace: FilespaceId,
        span: PageSpan,
        choice: Choice,
    ) -> Self {
        Self {
            catalog,
            filespace,
            span,
            choice,
            pages: VecDeque::new(),
            pages_after: None,
            pages_end: false,
            directories: VecDeque::new(),
            directories_after: None,
            directories_end: choice == Choice::Active,
            versions: BTreeMap::new(),
            versions_of: None,
            unreadable: None,
        }
    }

    /// Returns the default of `T` in place of a damaged record, which is noted.
    fn or_note<T: Default>(&mut self, read: Result<T, StoreError>) -> Result<T, StoreError> {
        match read {
            Err(StoreError::Damaged(first)) => {
                let none = Unreadable { count: 0, first };
                self.unreadable.get_or_insert(none).count += 1;
                Ok(T::default())
            }
            read => read,
        }
    }

    /// Returns the next batch, which may be empty. Returns `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<VersionBatch>, StoreError> {
        self.fill()?;
        let page_directory = self.pages.front().map(|page| &page.key.directory);
        let has_no_page = match (self.directories.front(), page_directory) {
            (Some(directory), Some(of_page)) if directory < of_page => true,
            (Some(_), None) => true,
            (None, None) => return Ok(None),
            _ => false,
        };
        if has_no_page {
            let directory = self.directories.pop_front().expect("the queue has a front");
            if self.choice == Choice::Newest {
                let is_shadowed = self.is_shadowed(&directory);
                if self.or_note(is_shadowed)? {
                    return Ok(Some(VersionBatch { directory, versions: Vec::new() }));
                }
            }
            let loaded = self.load_versions(&directory);
            self.or_note(loaded)?;
            return self.choose(directory, Vec::new(), None).map(Some);
        }
        let page = self.pages.pop_front().expect("the queue has a front");
        let directory = page.key.directory.clone();
        if self.directories.front() == Some(&directory) {
            self.directories.pop_front();
            let loaded = self.load_versions(&directory);
            self.or_note(loaded)?;
        }
        let objects = self.or_note(decode_page(&page))?;
        self.fill()?;
        let next = self.pages.front().filter(|next| next.key.directory == directory);
        let next_first = next.and_then(|next| Name::new(&next.key.first).ok());
        self.choose(directory, objects, next_first).map(Some)
    }

    /// Returns true if an active object that is not a directory has the path of `directory`, or the
    /// path of a directory above it. Such an object and the content of `directory` cannot both be
    /// restored.
    fn is_shadowed(&self, directory: &DirPath) -> Result<bool, StoreError> {
        let mut below = directory.clone();
        while let Some((parent, name)) = below.parent() {
            if let Some(object) = active(self.catalog, self.filespace, &parent, &name)? {
                return Ok(object.stat.kind != Kind::Directory);
            }
            below = parent;
        }
        Ok(false)
    }

    fn fill(&mut self) -> Result<(), CatalogError> {
        if self.pages.is_empty() && !self.pages_end {
            let after = self.pages_after.as_ref();
            let pages = self.catalog.pages(self.filespace, &self.span, after, PAGES_BATCH)?;
            self.pages_end = pages.len() < PAGES_BATCH;
            self.pages_after =
                pages.last().map(|page| page.key.clone()).or(self.pages_after.take());
            self.pages.extend(pages);
        }
        if self.directories.is_empty() && !self.directories_end {
            let after = self.directories_after.as_ref();
            let directories =
                self.catalog
                    .version_directories(self.filespace, &self.span, after, PAGES_BATCH)?;
            debug_assert!(directories.is_sorted_by(|a, b| a < b), "directories come in order");
            self.directories_end = directories.len() < PAGES_BATCH;
            self.directories_after = directories.last().cloned().or(self.directories_after.take());
            self.directories.extend(directories);
        }
        Ok(())
    }

    fn load_versions(&mut self, directory: &DirPath) -> Result<(), StoreError> {
        let rows = self.catalog.versions(self.filespace, directory)?;
        self.versions.clear();
        for row in rows {
            self.versions.entry(row.name.clone()).or_default().push(row);
        }
        self.versions_of = Some(directory.clone());
        Ok(())
    }

    /// Chooses among the active `objects` and the inactive versions. Inactive versions from the
    /// name `next_first` on are left for the next page.
    fn choose(
        &mut self,
        directory: DirPath,
        objects: Vec<Object>,
        next_first: Option<Name>,
    ) -> Result<VersionBatch, StoreError> {
        let mut inactive = if self.versions_of.as_ref() == Some(&directory) {
            let later = next_first.map(|first| self.versions.split_off(&first)).unwrap_or_default();
            std::mem::replace(&mut self.versions, later)
        } else {
            BTreeMap::new()
        };
        let mut versions = Vec::with_capacity(objects.len());
        for object in objects {
            let rows = inactive.remove(&object.name).unwrap_or_default();
            self.or_note(pick(self.choice, Some(object), &rows, &mut versions))?;
        }
        for rows in inactive.values() {
            self.or_note(pick(self.choice, None, rows, &mut versions))?;
        }
        versions.sort_by(|a, b| a.object.name.cmp(&b.object.name));
        let is_before = |a: &Version, b: &Version| {
            a.object.name != b.object.name || a.object.inserted >= b.object.inserted
        };
        debug_assert!(versions.is_sorted_by(is_before), "the newest version of an object is first");
        Ok(VersionBatch { directory, versions })
    }
}

/// Returns the active object `name` of `directory`.
pub(crate) fn active(
    catalog: &dyn Catalog,
    filespace: FilespaceId,
    directory: &DirPath,
    name: &Name,
) -> Result<Option<Object>, StoreError> {
    let span = PageSpan::Directory(directory.clone());
    let mut after = None;
    loop {
        let pages = catalog.pages(filespace, &span, after.as_ref(), PAGES_BATCH);
        let pages = pages?;
        for page in &pages {
            let object = decode_page(page)?.into_iter().find(|object| object.name == *name);
            if object.is_some() {
                return Ok(object);
            }
        }
        match pages.last() {
            Some(last) => after = Some(last.key.clone()),
            None => return Ok(None),
        }
    }
}

/// Adds the chosen versions of one object to `picked`, the newest first.
fn pick(
    choice: Choice,
    active: Option<Object>,
    inactive: &[VersionRow],
    picked: &mut Vec<Version>,
) -> Result<(), StoreError> {
    let is_sorted = inactive.is_sorted_by(|a, b| a.deactivated >= b.deactivated);
    debug_assert!(is_sorted, "the version that ended last comes first");
    let active = active.map(|object| Version { object, deactivated: None });
    match choice {
        Choice::Active => picked.extend(active),
        Choice::Newest if active.is_some() => picked.extend(active),
        Choice::Newest => {
            picked.extend(inactive.first().map(decode).transpose()?);
        }
        Choice::All => {
            picked.extend(active);
            picked.extend(inactive.iter().map(decode).collect::<Result<Vec<_>, _>>()?);
        }
        Choice::At(time) => match active.filter(|version| version.stood_at(time)) {
            Some(version) => picked.push(version),
            None => {
                let stood = |row: &&VersionRow| row.inserted <= time && row.deactivated > time;
                picked.extend(inactive.iter().find(stood).map(decode).transpose()?);
            }
        },
    }
    Ok(())
}

fn decode(row: &VersionRow) -> Result<Version, StoreError> {
    let damaged = || {
        let path = model::escaped(&row.directory.join(&row.name));
        StoreError::damaged(format!("the catalogue's version of {path} is damaged"))
    };
    let objects: Vec<Object> = page::decode(&row.body).map_err(|_| damaged())?;
    let [object] = <[Object; 1]>::try_from(objects).map_err(|_| damaged())?;
    Ok(Version { object, deactivated: Some(row.deactivated) })
}

/// The versions that a request names.
pub struct Selection {
    pub filespace: FilespaceId,
    pub choice: Choice,
    /// Parts of the filespace, which are walked one after the other.
    pub parts: Vec<Part>,
    /// Range of bytes that a restore sends of each file.
    pub range: Range<u64>,
    /// Sample whose versions are selected; `None` for all versions of the choice.
    pub sample: Option<Sample>,
}

/// A span of directories, or one object of a directory.
pub struct Part {
    pub span: PageSpan,
    /// Name of the object; `None` for all objects of the span.
    pub name: Option<Name>,
}

impl Selection {
    /// Returns the path at which the selection begins, for messages.
    pub fn path(&self) -> Vec<u8> {
        let Some(part) = self.parts.first() else { return Vec::new() };
        let (PageSpan::Directory(directory) | PageSpan::Subtree(directory)) = &part.span;
        let name = part.name.as_ref().map(Name::as_bytes).unwrap_or_default();
        [directory.as_bytes(), name].concat()
    }

    /// Calls `visit` with all selected versions that can be read, in path order. Returns the damage
    /// that was passed over.
    pub fn walk_readable(
        &self,
        catalog: &dyn Catalog,
        mut visit: impl FnMut(VersionBatch) -> Result<(), StoreError>,
    ) -> Result<Option<Unreadable>, StoreError> {
        let mut unreadable: Option<Unreadable> = None;
        for part in &self.parts {
            let mut walk = Walk::new(catalog, self.filespace, part.span.clone(), self.choice);
            while let Some(mut batch) = walk.next()? {
                if let Some(name) = &part.name {
                    batch.versions.retain(|version| version.object.name == *name);
                }
                if let Some(sample) = &self.sample {
                    let VersionBatch { directory, versions } = &mut batch;
                    versions
                        .retain(|version| sample.has(self.filespace, directory, &version.object));
                }
                if !batch.versions.is_empty() {
                    visit(batch)?;
                }
            }
            unreadable = match (unreadable, walk.unreadable) {
                (Some(before), Some(later)) => {
                    Some(Unreadable { count: before.count + later.count, ..before })
                }
                (before, later) => before.or(later),
            };
        }
        Ok(unreadable)
    }
}

/// Splits a batch so that no object occurs twice in one of the results, no result has more objects
/// than a page, and each result fits into a message. A directory that lost its objects may have any
/// number of versions in one batch.
pub fn split(batch: VersionBatch) -> Vec<VersionBatch> {
    let count = batch.versions.len();
    let mut rounds: Vec<Vec<Version>> = Vec::new();
    let mut round = 0;
    let mut before: Option<Name> = None;
    for version in batch.versions {
        round = if before.as_ref() == Some(&version.object.name) { round + 1 } else { 0 };
        before = Some(version.object.name.clone());
        if rounds.len() == round {
            rounds.push(Vec::new());
        }
        rounds[round].push(version);
    }
    assert_eq!(rounds.iter().map(Vec::len).sum::<usize>(), count, "no version is left out");
    let directory = batch.directory;
    let of_part = |versions| VersionBatch { directory: directory.clone(), versions };
    rounds.into_iter().flat_map(divide).map(of_part).collect()
}

/// Divides versions into parts that each have at most as many objects as a page, and fit into a
/// message.
fn divide(versions: Vec<Version>) -> Vec<Vec<Version>> {
    let mut parts = Vec::new();
    let (mut part, mut part_weight) = (Vec::new(), 0);
    for version in versions {
        let weight = weight(&version.object);
        let is_full = part.len() == PAGE_OBJECTS_MAX || part_weight + weight > PART_WEIGHT_MAX;
        if is_full && !part.is_empty() {
            parts.push(std::mem::take(&mut part));
            part_weight = 0;
        }
        part_weight += weight;
        part.push(version);
    }
    parts.push(part);
    parts
}

/// Returns an upper bound of the bytes of the object and of the lengths of its chunks in a message.
fn weight(object: &Object) -> usize {
    let Payload::Extents(extents) = &object.payload else { return page::weight(from_ref(object)) };
    let chunks = extents.iter().filter_map(Extent::chunks).map(|run| run.count as usize);
    page::weight(from_ref(object)) + chunks.sum::<usize>() * CHUNK_LENGTH_BYTES
}

/// Returns true if the object's data is in packs.
pub(super) fn has_data(object: &Object) -> bool {
    object.stat.kind == Kind::File && object.stat.size > 0
}

#[cfg(test)]
mod tests;
