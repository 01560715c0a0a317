//! End of named versions: active versions become inactive, as if a backup had found their objects
//! gone. Nothing on this machine is looked at, and no other version changes.

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
use super::{joined, keep, space};
use crate::error::{ClientError, ErrorKind};
use crate::link::Link;
use crate::link::pages::KeyedPage;
use crate::node::home::Home;
use crate::options::{BackupOptions, ExpireOptions};
use crate::path::{Place, normalise, only_named, places};
use crate::progress::{Phase, Progress};
use crate::report::{BackupReport, Failure};
use crate::rules::Rules;
use crate::tuning::Tuning;

/// Objects of one filespace whose versions end, by directory and by the first name of their page.
type Pages = BTreeMap<(DirPath, Vec<u8>), BTreeMap<Name, Kind>>;

/// Ends the active versions of the objects that `options` name. A name without an active version is
/// a failure in the report. An attempt that loses its connection leaves its report to the next one,
/// which ends what is still active.
pub(crate) fn run(
    link: &Link,
    home: &Home,
    options: &ExpireOptions,
    progress: &Arc<Progress>,
) -> Result<BackupReport, ClientError> {
    progress.attempts.begin(link.hello().now);
    let tally = Tally::new(Arc::clone(progress));
    let ended = attempt(link, home, options, &tally);
    tally.note_authentication(link.authentication);
    let filespaces = ended.inspect_err(|_| keep(&tally))?;
    progress.enter(Phase::Finishing);
    let mut report = joined(tally, progress);
    report.node = link.hello().node.clone();
    report.filespaces = filespaces;
    report.dry_run = options.dry_run;
    Ok(report)
}

/// Ends the versions, as far as the connection lasts. Returns the filespaces.
fn attempt(
    link: &Link,
    home: &Home,
    options: &ExpireOptions,
    tally: &Tally,
) -> Result<Vec<Vec<u8>>, ClientError> {
    tally.progress.enter(Phase::Running);
    let rules = Rules::load(home, link.hello(), None, &[], Operation::Backup)?;
    let found = find(link, options, tally)?;
    let seal_key = seal_key(link, &rules)?;
    let of_session = BackupOptions {
        dry_run: options.dry_run,
        is_partial: true,
        ..space::options(Tuning::default())
    };
    let rules = &rules;
    let run = Run { link, home, options: &of_session, rules, seal_key, tally };
    let mut filespaces = Vec::with_capacity(found.len());
    for (filespace, pages) in found {
        let scope = Scope { filespace: &filespace, root: b"/", reflinks: false, targets: &[] };
        in_session(run, &scope, |session, outbox| session.end_versions(outbox, pages))?;
        filespaces.push(filespace);
    }
    Ok(filespaces)
}

/// Returns the objects that the names stand for, by filespace.
fn find(
    link: &Link,
    options: &ExpireOptions,
    tally: &Tally,
) -> Result<BTreeMap<Vec<u8>, Pages>, ClientError> {
    let filespaces = only_named(link.filespaces_of(None)?, options.filespace.as_deref())?;
    // An earlier attempt has told which names stand for nothing, and has ended others.
    let is_first = tally.progress.attempts.continues_from().is_none();
    let mut found: BTreeMap<Vec<u8>, Pages> = BTreeMap::new();
    let mut search = Search { link, last: None };
    for path in &options.paths {
        if tally.progress.is_stopped() {
            return Err(ClientError::interrupted());
        }
        let path = normalise(path)?;
        let mut is_found = false;
        for place in places(filespaces.iter().map(Vec::as_slice), &path) {
            let Some((first, name, kind)) = search.active(&place)? else { continue };
            let pages = found.entry(place.filespace).or_default();
            pages.entry((place.directory, first)).or_default().insert(name, kind);
            is_found = true;
            break;
        }
        if !is_found && is_first {
            let error = "no active version is stored under this name".to_owned();
            tally.fail(Failure { path, error });
        }
    }
    found.values_mut().for_each(leave_out_content);
    Ok(found)
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

impl ReadPage {
    fn has(&self, place: &Place, name: &Name) -> bool {
        self.filespace == place.filespace
            && self.directory == place.directory
            && self.objects.contains_key(name)
    }
}

impl Search<'_> {
    /// Returns the first name of the page that has the active version at `place`, its name and its
    /// kind; `None` if there is no active version.
    fn active(&mut self, place: &Place) -> Result<Option<(Vec<u8>, Name, Kind)>, ClientError> {
        let Some(name) = &place.name else { return Err(whole(&place.filespace)) };
        let page = match self.last.take().filter(|page| page.has(place, name)) {
            Some(page) => page,
            None => self.read(place, name)?,
        };
        let found = page.objects.get(name).map(|kind| (page.first.clone(), name.clone(), *kind));
        self.last = Some(page);
        Ok(found)
    }

    fn read(&self, place: &Place, name: &Name) -> Result<ReadPage, ClientError> {
        let Place { filespace, directory, .. } = place.clone();
        let KeyedPage { first, page } =
            self.link.page_holding(&filespace, &directory, name.as_bytes())?;
        let objects = page.objects(&directory)?;
        let objects = objects.into_iter().map(|object| (object.name, object.stat.kind)).collect();
        Ok(ReadPage { filespace, directory, first, objects })
    }
}

fn whole(filespace: &[u8]) -> ClientError {
    let shown = model::escaped(filespace);
    let message = format!(
        "{shown} is a whole filespace; name what is in it, as in '{}/*'",
        shown.trim_end_matches('/')
    );
    ClientError::new(ErrorKind::Usage, message)
}

impl Session<'_> {
    /// Ends the versions of the objects of `pages`, and the session. The next backup examines their
    /// directories: an object that is still there gets a new version.
    fn end_versions(&self, mut outbox: Outbox<'_>, pages: Pages) -> Result<(), ClientError> {
        let before = self.tally().report();
        let named = pages.values().map(|objects| objects.len() as u64).sum();
        self.tally().inspect(named, 0);
        let expiries = Expiries {
            link: self.context.link,
            filespace: self.scope.filespace,
            targets: &[],
            tally: self.tally(),
            virtual_filespaces: &self.context.rules.virtual_filespaces,
            kept_before: 0,
            pages: pages.into_iter().map(expiry).collect(),
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
