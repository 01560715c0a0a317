//! Expirations: objects of the last backup that are gone. They are kept until the end of the
//! backup, when their number is known. If most objects of a filespace are missing, its disk is
//! probably not mounted.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

use model::{DirPath, DirectoryDigest, Kind, Name};

use super::outbox::Outbox;
use super::tally::Tally;
use crate::error::ClientError;
use crate::link::Link;
use crate::link::backup::{PageChange, PageKey};
use crate::path::{absolute, absolute_dir, directories_above};
use crate::virtual_filespaces::VirtualFilespaces;

/// Object that is gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct GoneObject {
    pub(super) name: Name,
    pub(super) kind: Kind,
}

/// Expirations of one page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Expiry {
    pub(super) path: DirPath,
    /// First name of the page.
    pub(super) first: Vec<u8>,
    /// Objects that are gone, sorted by name.
    pub(super) gone: Vec<GoneObject>,
    /// Digest of the page without the objects that are gone.
    pub(super) digest: Option<DirectoryDigest>,
}

impl Expiry {
    pub(super) fn has_directory(&self) -> bool {
        self.gone.iter().any(|object| object.kind == Kind::Directory)
    }
}

/// Divides the objects that are gone from a segment among its `pages`. Returns one entry for each
/// page, from the last page to the first. A page without expirations has an entry for its digest.
pub(super) fn divide(path: &DirPath, mut gone: Vec<GoneObject>, pages: &[PageKey]) -> Vec<Expiry> {
    debug_assert!(pages.is_sorted_by(|a, b| a.first < b.first), "pages are in order");
    let mut expiries = Vec::with_capacity(pages.len());
    for PageKey { first, digest } in pages.iter().rev() {
        let from = gone.partition_point(|object| object.name.as_bytes() < &first[..]);
        let (gone, first) = (gone.split_off(from), first.clone());
        expiries.push(Expiry { path: path.clone(), first, gone, digest: *digest });
    }
    // A name before the first page belongs to none of the pages. Only a faulty server has such an
    // object.
    expiries
}

/// Maximum number of targets that a warning names.
const NAMED_MAX: usize = 3;

/// Returns the names of the targets in which objects were counted.
fn shown(filespace: &[u8], targets: &[Vec<u8>]) -> String {
    let named = targets.iter().take(NAMED_MAX);
    let named: Vec<_> = named.map(|target| model::escaped(&absolute(filespace, target))).collect();
    let named = named.join(", ");
    match targets.len().saturating_sub(NAMED_MAX) {
        0 => named,
        count => format!("{named} and {count} more"),
    }
}

/// Returns the number of directories above `targets`, which a backup examines, too, if it can open
/// the targets.
fn count_above(targets: &[Vec<u8>]) -> u64 {
    let above: BTreeSet<&[u8]> =
        targets.iter().flat_map(|target| directories_above(target)).collect();
    above.len() as u64
}

/// Expirations of one filespace, at the end of its backup.
pub(super) struct Expiries<'a> {
    pub(super) link: &'a Link,
    pub(super) filespace: &'a [u8],
    /// Paths of the targets of the backup from the filespace's root.
    pub(super) targets: &'a [Vec<u8>],
    pub(super) tally: &'a Tally,
    pub(super) virtual_filespaces: &'a VirtualFilespaces,
    /// Number of objects of the command's earlier filespaces that still exist.
    pub(super) kept_before: u64,
    pub(super) pages: Vec<Expiry>,
    /// True if the backup has looked at some directories only. The objects of the others are kept.
    pub(super) is_by_journal: bool,
}

impl Expiries<'_> {
    pub(super) fn has_directory(&self) -> bool {
        self.pages.iter().any(Expiry::has_directory)
    }

    fn named(&self) -> u64 {
        self.pages.iter().map(|page| page.gone.len() as u64).sum()
    }

    /// Counts the objects that expire, including the objects below directories that are gone.
    fn count(&self) -> Result<u64, ClientError> {
        let gone = self.pages.iter().flat_map(|page| page.gone.iter().map(move |one| (page, one)));
        let directories = gone
            .filter(|(_, object)| object.kind == Kind::Directory)
            .map(|(page, object)| page.path.child(&object.name));
        let below = self.link.count_objects(self.filespace, directories)?;
        Ok(self.named().saturating_add(below))
    }

    /// Warns and returns true if so many objects are gone that this looks like a mistake.
    pub(super) fn are_refused(&self) -> Result<bool, ClientError> {
        if self.named() == 0 {
            return Ok(false);
        }
        let gone = self.count()?;
        let kept = self.kept(gone)?;
        let refuses = policy::expiry_guard::refuses(gone, kept);
        if refuses {
            let all = gone.saturating_add(kept.saturating_sub(count_above(self.targets)));
            let whole = shown(self.filespace, self.targets);
            self.tally.warn(match self.moved() {
                None => format!(
                    "{gone} of {all} objects in {whole} are gone; they were not expired, \
                     because this looks like an unmounted disk; if they were deleted, run again \
                     with --confirm"
                ),
                Some(place) => format!(
                    "{gone} of {all} objects in {whole} are no longer there; they were not \
                     expired, because there are so many; {} is now a filespace of its own: if \
                     that is meant and nothing else is missing, back it up, and run again with \
                     --confirm",
                    model::escaped(&place)
                ),
            });
        }
        Ok(refuses)
    }

    /// Returns a virtual filespace within this filespace from which objects are gone here, because
    /// they belong to it.
    fn moved(&self) -> Option<Vec<u8>> {
        let pages = self.pages.iter().filter(|page| !page.gone.is_empty());
        let mut directories = pages.map(|page| absolute_dir(self.filespace, &page.path));
        directories
            .find(|path| *path != self.filespace && self.virtual_filespaces.has(|| path.clone()))
    }

    /// Returns the number of objects of the last backup that still exist.
    fn kept(&self, gone: u64) -> Result<u64, ClientError> {
        if !self.is_by_journal {
            return Ok(self.tally.kept.load(Relaxed).saturating_sub(self.kept_before));
        }
        let all = self.link.count_objects(self.filespace, std::iter::once(DirPath::root()))?;
        Ok(all.saturating_sub(gone))
    }

    /// Reports the expirations of a dry run.
    pub(super) fn plan(&self) -> Result<(), ClientError> {
        self.tally.expired.fetch_add(self.count()?, Relaxed);
        for page in &self.pages {
            for object in &page.gone {
                let path = absolute(self.filespace, &page.path.join(&object.name));
                self.tally.plan("expire", path);
            }
        }
        Ok(())
    }

    /// Sends the expirations.
    pub(super) fn send(self, outbox: &mut Outbox<'_>) -> Result<(), ClientError> {
        for Expiry { path, first, gone, digest } in self.pages {
            for object in &gone {
                let path = || absolute(self.filespace, &path.join(&object.name));
                self.tally.progress.tell("expire", path);
            }
            let key = PageKey { first: first.clone(), digest };
            let mut change = PageChange::new(path, first, vec![key]);
            change.expired = gone.into_iter().map(|object| object.name).collect();
            outbox.send_change(change)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gone(names: &[&str]) -> Vec<GoneObject> {
        let name = |name: &&str| Name::new(name.as_bytes()).expect("a name");
        names
            .iter()
            .map(|text| GoneObject { name: name(text), kind: Kind::File })
            .collect()
    }

    fn page(first: &str, digest: u8) -> PageKey {
        let digest = Some(DirectoryDigest([digest; 16]));
        PageKey { first: first.as_bytes().to_vec(), digest }
    }

    /// The warning named the whole filespace, although the backup was of one folder in it.
    #[test]
    fn a_warning_names_what_was_backed_up() {
        let targets = |targets: &[&str]| -> Vec<Vec<u8>> {
            targets.iter().map(|target| target.as_bytes().to_vec()).collect()
        };
        let shown = |paths: &[&str]| shown(b"/srv", &targets(paths));
        assert_eq!(shown(&["/"]), "/srv");
        assert_eq!(shown(&["/ann", "/bob"]), "/srv/ann, /srv/bob");
        assert_eq!(shown(&["/a", "/b", "/c", "/d"]), "/srv/a, /srv/b, /srv/c and 1 more");
        // Neither counts what is above it.
        let above = |paths: &[&str]| count_above(&targets(paths));
        assert_eq!((above(&["/"]), above(&["/ann"])), (0, 1));
        assert_eq!(above(&["/ann/a", "/ann/b", "/bob/a/b"]), 4);
    }

    #[test]
    fn each_page_expires_its_own_names() {
        let path = DirPath::root();
        let pages = [page("", 1), page("f", 2), page("p", 3)];
        let expiries = divide(&path, gone(&["a", "b", "f", "z"]), &pages);
        let shown: Vec<_> = expiries
            .iter()
            .map(|expiry| (&expiry.first[..], expiry.gone.len(), expiry.digest))
            .collect();
        let digest = |digest| Some(DirectoryDigest([digest; 16]));
        let expected = [(&b"p"[..], 1, digest(3)), (b"f", 1, digest(2)), (b"", 2, digest(1))];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_page_without_an_expiration_gets_its_digest() {
        let expiries = divide(&DirPath::root(), gone(&["a"]), &[page("", 1), page("m", 2)]);
        assert_eq!(expiries.len(), 2);
        assert_eq!(expiries[0].gone, []);
        assert!(expiries[0].digest.is_some());
    }
}
