//! Selecting versions: which objects of a filespace, and which state of each.
//!
//! Directories come in path order, page by page, so that a filespace of any size takes little
//! memory; only where inactive versions count are those of the directory at hand read too.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use catalog::{Catalog, CatalogError, PageKey, PageRow, PageSpan, VersionRow};
use format::page;
use model::{DirPath, FilespaceId, Kind, Name, Object, ServerTime, Version};
use tonic::Status;
use wire::proto;

use crate::backup::decode_page;
use crate::refusal;

/// Pages read from the catalogue at once.
const PAGES_BATCH: usize = 64;

/// Which state of each object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Which {
    Active,
    /// As it was then.
    At(ServerTime),
    /// The active one, or the newest inactive one.
    Newest,
    All,
}

/// Versions of objects of one directory: a page of it, or what its lost pages left.
pub(crate) struct Found {
    pub(crate) directory: DirPath,
    /// By name; of one name newest first.
    pub(crate) versions: Vec<Version>,
}

/// Walks a span of a filespace.
pub(crate) struct Walk<'a> {
    catalog: &'a dyn Catalog,
    filespace: FilespaceId,
    span: PageSpan,
    which: Which,
    pages: VecDeque<PageRow>,
    pages_after: Option<PageKey>,
    pages_end: bool,
    /// The next directory with inactive versions, once it has been asked for.
    directories: VecDeque<DirPath>,
    directories_after: Option<DirPath>,
    directories_end: bool,
    /// Inactive versions of the directory at hand, by name.
    versions: BTreeMap<Name, Vec<VersionRow>>,
    versions_of: Option<DirPath>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(
        catalog: &'a dyn Catalog,
        filespace: FilespaceId,
        span: PageSpan,
        which: Which,
    ) -> Self {
        Self {
            catalog,
            filespace,
            span,
            which,
            pages: VecDeque::new(),
            pages_after: None,
            pages_end: false,
            directories: VecDeque::new(),
            directories_after: None,
            directories_end: which == Which::Active,
            versions: BTreeMap::new(),
            versions_of: None,
        }
    }

    /// The next page's worth of selected versions; it may be empty. `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Found>, Status> {
        self.fill().map_err(|error| refusal::catalog(&error))?;
        let page_directory = self.pages.front().map(|page| &page.key.directory);
        let gone = match (self.directories.front(), page_directory) {
            (Some(directory), Some(of_page)) if directory < of_page => true,
            (Some(_), None) => true,
            (None, None) => return Ok(None),
            _ => false,
        };
        if gone {
            let directory = self.directories.pop_front().expect("just seen");
            if self.which == Which::Newest && self.is_shadowed(&directory)? {
                return Ok(Some(Found { directory, versions: Vec::new() }));
            }
            self.load_versions(&directory)?;
            return self.found(directory, Vec::new(), None).map(Some);
        }
        let page = self.pages.pop_front().expect("just seen");
        let directory = page.key.directory.clone();
        if self.directories.front() == Some(&directory) {
            self.directories.pop_front();
            self.load_versions(&directory)?;
        }
        let objects = decode_page(&page)?;
        self.fill().map_err(|error| refusal::catalog(&error))?;
        let next = self.pages.front().filter(|next| next.key.directory == directory);
        let next_first = next.and_then(|next| Name::new(&next.key.first).ok());
        self.found(directory, objects, next_first).map(Some)
    }

    /// Whether something else than a directory is active where `directory` or one above it was:
    /// then what was in it cannot be had together with what is there.
    fn is_shadowed(&self, directory: &DirPath) -> Result<bool, Status> {
        let mut below = directory.clone();
        while let Some((parent, name)) = below.parent() {
            let found = active(self.catalog, self.filespace, &parent, &name)?;
            if let Some(object) = found {
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
            let found =
                self.catalog
                    .version_directories(self.filespace, &self.span, after, PAGES_BATCH)?;
            self.directories_end = found.len() < PAGES_BATCH;
            self.directories_after = found.last().cloned().or(self.directories_after.take());
            self.directories.extend(found);
        }
        Ok(())
    }

    fn load_versions(&mut self, directory: &DirPath) -> Result<(), Status> {
        let rows = self
            .catalog
            .versions(self.filespace, directory)
            .map_err(|error| refusal::catalog(&error))?;
        self.versions.clear();
        for row in rows {
            self.versions.entry(row.name.clone()).or_default().push(row);
        }
        self.versions_of = Some(directory.clone());
        Ok(())
    }

    /// Joins `objects` with the inactive versions of names below `next_first`.
    fn found(
        &mut self,
        directory: DirPath,
        objects: Vec<Object>,
        next_first: Option<Name>,
    ) -> Result<Found, Status> {
        let mut inactive = if self.versions_of.as_ref() == Some(&directory) {
            let later = next_first.map(|first| self.versions.split_off(&first)).unwrap_or_default();
            std::mem::replace(&mut self.versions, later)
        } else {
            BTreeMap::new()
        };
        let mut versions = Vec::with_capacity(objects.len());
        for object in objects {
            let rows = inactive.remove(&object.name).unwrap_or_default();
            pick(self.which, Some(object), &rows, &mut versions)?;
        }
        for rows in inactive.values() {
            pick(self.which, None, rows, &mut versions)?;
        }
        versions.sort_by(|a, b| a.object.name.cmp(&b.object.name));
        Ok(Found { directory, versions })
    }
}

/// The active object `name` of `directory`, if there is one.
fn active(
    catalog: &dyn Catalog,
    filespace: FilespaceId,
    directory: &DirPath,
    name: &Name,
) -> Result<Option<Object>, Status> {
    let span = PageSpan::Directory(directory.clone());
    let mut after = None;
    loop {
        let pages = catalog.pages(filespace, &span, after.as_ref(), PAGES_BATCH);
        let pages = pages.map_err(|error| refusal::catalog(&error))?;
        for page in &pages {
            let found = decode_page(page)?.into_iter().find(|object| object.name == *name);
            if found.is_some() {
                return Ok(found);
            }
        }
        match pages.last() {
            Some(last) => after = Some(last.key.clone()),
            None => return Ok(None),
        }
    }
}

/// Adds those versions of one object that are selected, newest first.
fn pick(
    which: Which,
    active: Option<Object>,
    inactive: &[VersionRow],
    picked: &mut Vec<Version>,
) -> Result<(), Status> {
    let active = active.map(|object| Version { object, deactivated: None });
    match which {
        Which::Active => picked.extend(active),
        Which::Newest if active.is_some() => picked.extend(active),
        Which::Newest => {
            picked.extend(inactive.first().map(decode).transpose()?);
        }
        Which::All => {
            picked.extend(active);
            picked.extend(inactive.iter().map(decode).collect::<Result<Vec<_>, _>>()?);
        }
        Which::At(time) => match active.filter(|version| version.stood_at(time)) {
            Some(version) => picked.push(version),
            None => {
                let stood = |row: &&VersionRow| row.inserted <= time && row.deactivated > time;
                picked.extend(inactive.iter().find(stood).map(decode).transpose()?);
            }
        },
    }
    Ok(())
}

fn decode(row: &VersionRow) -> Result<Version, Status> {
    let damaged = || {
        let path = model::escaped(&row.directory.join(&row.name));
        Status::data_loss(format!("the catalogue's version of {path} is damaged"))
    };
    let objects: Vec<Object> = page::decode(&row.body).map_err(|_| damaged())?;
    let [object] = <[Object; 1]>::try_from(objects).map_err(|_| damaged())?;
    Ok(Version { object, deactivated: Some(row.deactivated) })
}

/// What a client asked for: parts to walk one behind the other.
pub(crate) struct Selection {
    pub(crate) filespace: FilespaceId,
    pub(crate) which: Which,
    pub(crate) parts: Vec<Part>,
    /// Of each file, what a restore wants.
    pub(crate) range: Range<u64>,
}

pub(crate) struct Part {
    pub(crate) span: PageSpan,
    /// Only the object of this name.
    pub(crate) name: Option<Name>,
}

impl Selection {
    /// Parses `message`; the filespace has been looked up.
    pub(crate) fn parse(
        message: &proto::Selection,
        filespace: FilespaceId,
    ) -> Result<Self, Status> {
        let malformed = |error: model::NameError| refusal::malformed(&error.to_string());
        let directory = DirPath::new(&message.directory).map_err(malformed)?;
        let which = match (message.all_versions, message.at, message.inactive) {
            (true, ..) => Which::All,
            (false, 0, false) => Which::Active,
            (false, 0, true) => Which::Newest,
            (false, at, _) => Which::At(ServerTime(at)),
        };
        let parts = if message.name.is_empty() {
            let span = if message.one_directory {
                PageSpan::Directory(directory)
            } else {
                PageSpan::Subtree(directory)
            };
            vec![Part { span, name: None }]
        } else {
            let name = Name::new(&message.name).map_err(malformed)?;
            let below = PageSpan::Subtree(directory.child(&name));
            let own = Part { span: PageSpan::Directory(directory), name: Some(name) };
            let below = message.recursive.then_some(Part { span: below, name: None });
            std::iter::once(own).chain(below).collect()
        };
        let end = match message.bytes {
            0 => u64::MAX,
            bytes => message.from.saturating_add(bytes),
        };
        Ok(Self { filespace, which, parts, range: message.from..end })
    }

    /// Calls `visit` with everything selected, in path order.
    pub(crate) fn walk(
        &self,
        catalog: &dyn Catalog,
        mut visit: impl FnMut(Found) -> Result<(), Status>,
    ) -> Result<(), Status> {
        for part in &self.parts {
            let mut walk = Walk::new(catalog, self.filespace, part.span.clone(), self.which);
            while let Some(mut found) = walk.next()? {
                if let Some(name) = &part.name {
                    found.versions.retain(|version| version.object.name == *name);
                }
                if !found.versions.is_empty() {
                    visit(found)?;
                }
            }
        }
        Ok(())
    }
}

/// The versions as messages: of one name only one a message, and no more than a page each.
pub(crate) fn messages(found: Found) -> Vec<(DirPath, Vec<Version>)> {
    let mut rounds: Vec<Vec<Version>> = Vec::new();
    let mut round = 0;
    let mut before: Option<Name> = None;
    for version in found.versions {
        round = if before.as_ref() == Some(&version.object.name) { round + 1 } else { 0 };
        before = Some(version.object.name.clone());
        if rounds.len() == round {
            rounds.push(Vec::new());
        }
        rounds[round].push(version);
    }
    rounds.into_iter().map(|versions| (found.directory.clone(), versions)).collect()
}

/// Whether the object's data is in packs.
pub(crate) fn has_data(object: &Object) -> bool {
    object.stat.kind == Kind::File && object.stat.size > 0
}
