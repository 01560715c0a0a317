//! End of named versions: active versions become inactive, as if a backup had found their objects
//! gone. Nothing on this machine is looked at, and no other version changes.
//!
//! The objects are found once, before the first attempt: where a name has versions in several
//! filespaces, a later attempt would otherwise take the next one for that which has ended already.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::{DirPath, Kind, Name};
use policy::Operation;

use super::expiry::{Expiries, Expiry, GoneObject};
use super::outbox::Outbox;
use super::scope::Scope;
use super::seal_key::seal_key;
use super::session::{Run, Session, in_session};
use super::tally::Tally;
use super::{concluded, keep, space};
use crate::error::ClientError;
use crate::link::Link;
use crate::link::pages::KeyedPage;
use crate::node::home::Home;
use crate::options::BackupOptions;
use crate::path::{Place, normalise, only_named, places};
use crate::progress::{Phase, Progress};
use crate::report::{BackupReport, Failure};
use crate::rules::Rules;
use crate::tuning::Tuning;

/// Objects with active versions, as a command has named them.
#[derive(Debug, Default)]
pub struct ActiveObjects {
    /// Directories and names, by filespace.
    places: BTreeMap<Vec<u8>, BTreeSet<(DirPath, Name)>>,
    /// Names that stand for none.
    pub absent: Vec<Failure>,
}

impl ActiveObjects {
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

/// Finds the objects with active versions at the absolute `paths`, in the filespace that is `named`
/// or in the innermost one that has each.
pub(crate) fn find(
    link: &Link,
    paths: &[Vec<u8>],
    named: Option<&[u8]>,
) -> Result<ActiveObjects, ClientError> {
    let filespaces = only_named(link.filespaces_of(None)?, named)?;
    let mut found = ActiveObjects::default();
    let mut search = Search { link, last: None };
    for path in paths {
        let path = normalise(path)?;
        let mut error = "no active version is stored under this name";
        let mut place = None;
        for Place { filespace, directory, name } in
            places(filespaces.iter().map(Vec::as_slice), &path)
        {
            let Some(name) = name else {
                error = "this is a whole filespace; name what is in it";
                break;
            };
            if search.active(&filespace, &directory, &name)?.is_some() {
                place = Some((filespace, directory, name));
                break;
            }
        }
        match place {
            Some((filespace, directory, name)) => {
                found.places.entry(filespace).or_default().insert((directory, name));
            }
            None => found.absent.push(Failure { path, error: error.to_owned() }),
        }
    }
    Ok(found)
}

/// Objects of one filespace whose versions end, by directory and by the first name of their page.
type Pages = BTreeMap<(DirPath, Vec<u8>), BTreeMap<Name, Kind>>;

/// Ends the versions of `objects`. An attempt that loses its connection leaves its report to the
/// next one, which ends what is still active.
pub(crate) fn run(
    link: &Link,
    home: &Home,
    objects: &ActiveObjects,
    dry_run: bool,
    progress: &Arc<Progress>,
) -> Result<BackupReport, ClientError> {
    progress.attempts.begin(link.hello().now);
    let tally = Tally::new(Arc::clone(progress));
    let ended = attempt(link, home, objects, dry_run, &tally);
    tally.note_authentication(link.authentication);
    ended.inspect_err(|_| keep(&tally))?;
    let filespaces = objects.places.keys().cloned().collect();
    Ok(BackupReport { dry_run, ..concluded(link, tally, filespaces) })
}

/// Ends the versions, as far as the connection lasts.
fn attempt(
    link: &Link,
    home: &Home,
    objects: &ActiveObjects,
    dry_run: bool,
    tally: &Tally,
) -> Result<(), ClientError> {
    tally.progress.enter(Phase::Running);
    let rules = Rules::load(home, link.hello(), None, &[], Operation::Backup)?;
    let seal_key = seal_key(link, &rules)?;
    let options = BackupOptions { dry_run, ..space::options(Tuning::default()) };
    let run = Run { link, home, options: &options, rules: &rules, seal_key, tally };
    for (filespace, names) in &objects.places {
        let scope = Scope { filespace, root: b"/", reflinks: false, targets: &[] };
        in_session(run, &scope, |session, outbox| session.end_versions(outbox, names))?;
    }
    Ok(())
}

/// Leaves out what is in a directory whose version ends: it ends with the directory.
fn leave_out_content(pages: &mut Pages) {
    let mut ended: BTreeSet<Vec<u8>> = BTreeSet::new();
    for ((directory, _), objects) in pages.iter() {
        let folders = objects.iter().filter(|(_, kind)| **kind == Kind::Directory);
        ended.extend(folders.map(|(name, _)| directory.child(name).as_bytes().to_vec()));
    }
    pages.retain(|(directory, _), _| !is_within(directory.as_bytes(), &ended));
}

/// Returns true if `directory`, which ends with a slash, is one of `folders` or below one.
fn is_within(directory: &[u8], folders: &BTreeSet<Vec<u8>>) -> bool {
    let slashes = directory.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    slashes.map(|(at, _)| &directory[..=at]).any(|above| folders.contains(above))
}

/// Search for active versions by name.
struct Search<'a> {
    link: &'a Link,
    /// The page that was read last. The names of a list often follow each other.
    last: Option<ReadPage>,
}

struct ReadPage {
    filespace: Vec<u8>,
    directory: DirPath,
    first: Vec<u8>,
    objects: BTreeMap<Name, Kind>,
}

impl Search<'_> {
    /// Returns the first name of the page that has the active version, and the object's kind;
    /// `None` if there is no active version.
    fn active(
        &mut self,
        filespace: &[u8],
        directory: &DirPath,
        name: &Name,
    ) -> Result<Option<(Vec<u8>, Kind)>, ClientError> {
        let has_it = |page: &ReadPage| {
            page.filespace == filespace
                && page.directory == *directory
                && page.objects.contains_key(name)
        };
        let page = match self.last.take().filter(has_it) {
            Some(page) => page,
            None => self.read(filespace, directory, name)?,
        };
        let found = page.objects.get(name).map(|kind| (page.first.clone(), *kind));
        self.last = Some(page);
        Ok(found)
    }

    fn read(
        &self,
        filespace: &[u8],
        directory: &DirPath,
        name: &Name,
    ) -> Result<ReadPage, ClientError> {
        let KeyedPage { first, page } =
            self.link.page_holding(filespace, directory, name.as_bytes())?;
        let objects = page.objects(directory)?;
        let objects = objects.into_iter().map(|object| (object.name, object.stat.kind)).collect();
        Ok(ReadPage { filespace: filespace.to_vec(), directory: directory.clone(), first, objects })
    }
}

impl Session<'_> {
    /// Ends the versions of the objects, and the session. The next backup examines their
    /// directories: an object that is still there gets a new version.
    fn end_versions(
        &self,
        mut outbox: Outbox<'_>,
        names: &BTreeSet<(DirPath, Name)>,
    ) -> Result<(), ClientError> {
        let before = self.tally().report();
        self.tally().inspect(names.len() as u64, 0);
        let expiries = Expiries {
            link: self.context.link,
            filespace: self.scope.filespace,
            targets: &[],
            tally: self.tally(),
            virtual_filespaces: &self.context.rules.virtual_filespaces,
            kept_before: 0,
            pages: self.pages(names)?.into_iter().map(expiry).collect(),
            is_by_journal: false,
        };
        if self.options.dry_run {
            return expiries.plan();
        }
        expiries.send(&mut outbox)?;
        self.settle(&mut outbox)?;
        let is_complete = false;
        outbox.close(is_complete, self.tally().report().summary_since(&before, None))
    }

    /// Returns the pages that have the objects. They stay as they are while this session has the
    /// filespace. What an earlier attempt has ended has no page any more.
    fn pages(&self, names: &BTreeSet<(DirPath, Name)>) -> Result<Pages, ClientError> {
        let mut search = Search { link: self.context.link, last: None };
        let mut pages = Pages::new();
        for (directory, name) in names {
            self.check()?;
            let found = search.active(self.scope.filespace, directory, name)?;
            if let Some((first, kind)) = found {
                let objects = pages.entry((directory.clone(), first)).or_default();
                objects.insert(name.clone(), kind);
            }
        }
        leave_out_content(&mut pages);
        Ok(pages)
    }
}

fn expiry(((path, first), objects): ((DirPath, Vec<u8>), BTreeMap<Name, Kind>)) -> Expiry {
    let gone = objects.into_iter().map(|(name, kind)| GoneObject { name, kind }).collect();
    Expiry { path, first, gone, digest: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(objects: &[(&str, &str, Kind)]) -> Pages {
        let mut pages = Pages::new();
        for (directory, name, kind) in objects {
            let directory = DirPath::new(directory.as_bytes()).expect("a directory");
            let name = Name::new(name.as_bytes()).expect("a name");
            pages.entry((directory, Vec::new())).or_default().insert(name, *kind);
        }
        pages
    }

    #[test]
    fn what_is_in_a_directory_ends_with_it() {
        let mut found = pages(&[
            ("/", "a", Kind::Directory),
            ("/", "ab", Kind::File),
            ("/a/", "x", Kind::File),
            ("/a/b/", "y", Kind::File),
            ("/ab/", "z", Kind::File),
        ]);
        leave_out_content(&mut found);
        let left = pages(&[
            ("/", "a", Kind::Directory),
            ("/", "ab", Kind::File),
            ("/ab/", "z", Kind::File),
        ]);
        assert_eq!(found, left);
    }
}
