//! From the changes of a transaction to what the catalogue is to write.
//!
//! All processors take part, a share of the changes at a time: directories do not depend on each
//! other. Changes of one directory are in one share, in their order, so that each meets the page
//! that the one before it left. What is below a directory that is gone no node has walked, so no
//! share changes pages there while another one removes them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use catalog::change::{Change, Changed, apply, deactivate};
use catalog::{ArchiveChange, PageKey, PageRow, PageSpan, Write};
use model::{ClassId, DirPath, Kind, Name, Object, PackNumber, ServerTime};
use pool::Hold;
use tonic::Status;
use wire::proto;

use super::{Session, decode_page, writes};
use crate::archive;
use crate::core::Uncommitted;
use crate::refusal;
use crate::resolve::Resolved;

/// A share has so many changes at least: their pages are read at once.
const SHARE_CHANGES: usize = 32;
/// Threads that apply the changes of one transaction at most: one writes what they come to.
const THREADS_MAX: usize = 4;
/// Pages of a subtree that is gone which are removed in one batch.
const SUBTREE_PAGES: usize = 64;

/// What changes came to before it is durable.
#[derive(Default)]
pub(super) struct Prepared {
    pub(super) writes: Vec<Write>,
    pub(super) rejected: Vec<proto::Rejected>,
    /// Their directories.
    pub(super) lacking: BTreeSet<DirPath>,
    pub(super) expired_objects: u64,
    /// For how long stores must keep what is named.
    pub(super) holds: BTreeMap<PackNumber, Hold>,
    /// What an archive grows by.
    pub(super) archived: ArchiveChange,
}

impl Prepared {
    fn add(&mut self, other: Self) {
        self.writes.extend(other.writes);
        self.rejected.extend(other.rejected);
        self.lacking.extend(other.lacking);
        self.expired_objects += other.expired_objects;
        for (pack, hold) in other.holds {
            let held = self.holds.entry(pack).or_insert(hold);
            *held = held.and(hold);
        }
        self.archived.objects_added += other.archived.objects_added;
        self.archived.bytes_added += other.archived.bytes_added;
    }
}

/// Pages that changes are about, as those before them have left them; `None` where there is none.
type Pages = HashMap<PageKey, Option<PageRow>>;

impl Session {
    /// Applies `changes` to the pages that they are about.
    pub(super) fn prepare(
        &self,
        changes: Vec<Resolved>,
        at: (ServerTime, u64),
    ) -> Result<Prepared, Uncommitted> {
        let shares = shares(changes);
        let threads = sys::process::processors().min(THREADS_MAX).min(shares.len());
        let waiting = Mutex::new(shares.into_iter());
        let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
        let work = || {
            let mut prepared = Prepared::default();
            while let Some(share) = next() {
                self.share(share, at, &mut prepared)?;
            }
            Ok(prepared)
        };
        if threads < 2 {
            return work();
        }
        let runtime = tokio::runtime::Handle::current();
        std::thread::scope(|scope| {
            let help = || {
                let _inside = runtime.enter();
                work()
            };
            let helping: Vec<_> = (1..threads).map(|_| scope.spawn(help)).collect();
            let mut prepared = work()?;
            for helper in helping {
                prepared.add(helper.join().map_err(|_| refusal::panicked())??);
            }
            Ok(prepared)
        })
    }

    fn share(
        &self,
        changes: Vec<Resolved>,
        at: (ServerTime, u64),
        prepared: &mut Prepared,
    ) -> Result<(), Uncommitted> {
        let mut pages = self.read_pages(&changes)?;
        let mut changes = changes.into_iter().peekable();
        while let Some(resolved) = changes.next() {
            let directory = resolved.key.directory.clone();
            let is_last = changes.peek().is_none_or(|next| next.key.directory != directory);
            let changed = self.change(resolved, at, &mut pages, prepared)?;
            if !is_last {
                let left = changed.pages.iter().map(|page| (page.key.clone(), Some(page.clone())));
                pages.extend(left);
                pages.extend(changed.removed.iter().map(|key| (key.clone(), None)));
            }
            prepared.expired_objects += changed.expired;
            prepared.writes.extend(writes(self.filespace.id, &directory, changed, at.0));
        }
        Ok(())
    }

    /// Takes the pages that are to change as they are.
    fn read_pages(&self, changes: &[Resolved]) -> Result<Pages, Status> {
        let keys: Vec<PageKey> = changes.iter().map(|resolved| resolved.key.clone()).collect();
        let found = self.core.catalog.pages_at(self.filespace.id, &keys);
        let found = found.map_err(|error| refusal::catalog(&error))?;
        let mut pages: Pages = keys.into_iter().map(|key| (key, None)).collect();
        pages.extend(found.into_iter().map(|row| (row.key.clone(), Some(row))));
        Ok(pages)
    }

    fn change(
        &self,
        resolved: Resolved,
        (now, generation): (ServerTime, u64),
        pages: &mut Pages,
        prepared: &mut Prepared,
    ) -> Result<Changed, Uncommitted> {
        let Resolved { key, mut change, rejected } = resolved;
        if !rejected.is_empty() {
            prepared.lacking.insert(key.directory.clone());
        }
        if [&self.lacking, &prepared.lacking]
            .iter()
            .any(|all| all.contains(&key.directory))
        {
            change.pages.iter_mut().for_each(|(_, digest)| *digest = None);
        }
        prepared.rejected.extend(rejected);
        let current = self.current(&key, pages)?;
        keep_locked(&self.locked, &current, &mut change.updated);
        let mut rebound = BTreeSet::new();
        if let Some(holding) = &self.holding {
            rebound = self::rebound(&current, &change.updated);
            holding.add(&change.backed_up, &mut prepared.holds);
        }
        if self.archive.is_some() {
            archive::grow(&mut prepared.archived, &current, &change.backed_up);
        }
        for directory in vanishing(&key.directory, &current, &change) {
            prepared.expired_objects += self.expire_subtree(&directory, (now, generation))?;
            pages.retain(|key, _| !directory.contains(&key.directory));
        }
        let mut changed = apply(&key, current, change, now)
            .map_err(|unfit| Status::failed_precondition(unfit.to_string()))?;
        if self.archive.is_some() {
            // What is archived twice by one command is archived as it was last.
            changed.versions.clear();
        }
        if let Some(holding) = self.holding.as_ref().filter(|_| !rebound.is_empty()) {
            for page in &changed.pages {
                let objects = decode_page(page)?;
                let bound = objects.iter().filter(|object| rebound.contains(&object.name));
                holding.add(bound, &mut prepared.holds);
            }
        }
        Ok(changed)
    }

    /// The objects of the page as the changes before have left it.
    fn current(&self, key: &PageKey, pages: &mut Pages) -> Result<Vec<Object>, Status> {
        let row = match pages.remove(key) {
            Some(row) => row,
            None => self
                .core
                .catalog
                .page(self.filespace.id, key)
                .map_err(|error| refusal::catalog(&error))?,
        };
        row.map_or(Ok(Vec::new()), |row| decode_page(&row))
    }

    /// Makes everything below `directory` inactive, in batches.
    fn expire_subtree(
        &self,
        directory: &DirPath,
        (now, generation): (ServerTime, u64),
    ) -> Result<u64, Uncommitted> {
        let span = PageSpan::Subtree(directory.clone());
        let filespace = self.filespace.id;
        let mut expired = 0;
        loop {
            let pages = self
                .core
                .catalog
                .pages(filespace, &span, None, SUBTREE_PAGES)
                .map_err(|error| refusal::catalog(&error))?;
            if pages.is_empty() {
                return Ok(expired);
            }
            let mut writes = Vec::new();
            for page in pages {
                for object in decode_page(&page)? {
                    let version = deactivate(&page.key.directory, object, now);
                    writes.push(Write::AddVersion { filespace, version });
                    expired += 1;
                }
                writes.push(Write::RemovePage { filespace, key: page.key });
            }
            self.core.commit_known(generation, writes)?;
        }
    }
}

/// Divides changes into shares: those of one directory are in one of them, in their order.
fn shares(changes: Vec<Resolved>) -> Vec<Vec<Resolved>> {
    let mut directories: BTreeMap<DirPath, Vec<Resolved>> = BTreeMap::new();
    for resolved in changes {
        directories.entry(resolved.key.directory.clone()).or_default().push(resolved);
    }
    let mut shares: Vec<Vec<Resolved>> = Vec::new();
    for (_, changes) in directories {
        match shares.last_mut().filter(|share| share.len() < SHARE_CHANGES) {
            Some(share) => share.extend(changes),
            None => shares.push(changes),
        }
    }
    shares
}

/// The names of what is to be bound to another class than it was.
fn rebound(current: &[Object], updated: &[Object]) -> BTreeSet<Name> {
    let has_moved = |object: &&Object| {
        let before = current.iter().find(|known| known.name == object.name);
        before.is_some_and(|before| before.class != object.class)
    };
    updated.iter().filter(has_moved).map(|object| object.name.clone()).collect()
}

/// What is bound to a locked class stays so: another class might keep it for less long. A new
/// version may be bound to another; the one before it keeps its own.
fn keep_locked(locked: &BTreeSet<ClassId>, current: &[Object], updated: &mut [Object]) {
    if locked.is_empty() {
        return;
    }
    for object in updated {
        let before = current.iter().find(|known| known.name == object.name);
        if let Some(before) = before.filter(|before| locked.contains(&before.class)) {
            object.class = before.class;
        }
    }
}

/// The directories among `current` that are no directories any more after the change.
fn vanishing(directory: &DirPath, current: &[Object], change: &Change) -> Vec<DirPath> {
    let becomes_other = |object: &&Object| {
        let replaced = change.backed_up.iter().find(|new| new.name == object.name);
        change.expired.contains(&object.name)
            || replaced.is_some_and(|new| new.stat.kind != Kind::Directory)
    };
    current
        .iter()
        .filter(|object| object.stat.kind == Kind::Directory)
        .filter(becomes_other)
        .map(|object| directory.child(&object.name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(directory: &str, first: &str) -> Resolved {
        let directory = DirPath::new(directory.as_bytes()).expect("a directory");
        let key = PageKey { directory, first: first.into() };
        Resolved { key, change: Change::default(), rejected: Vec::new() }
    }

    #[test]
    fn changes_of_a_directory_share_in_their_order() {
        let mut changes = Vec::new();
        for round in 0..3 {
            let directories = (0..100).map(|number| format!("/{number}/"));
            changes.extend(directories.map(|path| resolved(&path, &format!("{round}"))));
        }
        let shares = shares(changes);
        assert!(shares.len() > 2, "{}", shares.len());
        let mut seen = BTreeSet::new();
        for (at, share) in shares.iter().enumerate() {
            assert!(share.len() >= SHARE_CHANGES || at + 1 == shares.len(), "{at}");
            for of_one in share.chunk_by(|a, b| a.key.directory == b.key.directory) {
                let firsts: Vec<&[u8]> = of_one.iter().map(|one| &one.key.first[..]).collect();
                assert_eq!(firsts, [b"0", b"1", b"2"]);
                assert!(seen.insert(of_one[0].key.directory.clone()), "in two shares");
            }
        }
        assert_eq!(seen.len(), 100);
    }
}
