//! Resolution of a client's changes to changes of the catalogue: session places become places,
//! grants are checked, and sizes must add up. An object that fails these checks is left out of its
//! change; the other objects stay.

use std::cell::RefCell;
use std::collections::BTreeMap;

use catalog::change::Change;
use catalog::{Node, PageKey};
use format::{Budget, page};
use model::{
    CHUNK_BYTES_MAX, ChunkDigest, ChunkRange, DirPath, Extent, FilespaceId, Name, Object, Payload,
    Place, SessionPlace, Stat,
};
use wire::Grant;

use super::change::{KnownContent, PageChange, Reason, Rejection};
use super::quantum::StoredQuantum;
use super::sharing;
use crate::error::StoreError;
use crate::pages::decode_page;
use crate::places::{places, push_chunk};
use crate::store::{CondemnedPacks, Store};

/// Maximum number of pages with known content that are kept decoded.
const KNOWN_PAGES_MAX: usize = 16;

/// Quanta of the session by their numbers.
pub type Quanta = BTreeMap<u64, StoredQuantum>;

/// A change that can be applied, and the objects that were left out of it.
pub struct ResolvedChange {
    pub key: PageKey,
    pub change: Change,
    pub rejected: Vec<Rejection>,
}

/// Failure to resolve the payload of an object.
enum PayloadError {
    /// The object is left out.
    Rejected(Reason),
    /// The whole transaction fails.
    Failed(StoreError),
}

impl From<Reason> for PayloadError {
    fn from(reason: Reason) -> Self {
        Self::Rejected(reason)
    }
}

impl From<StoreError> for PayloadError {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

/// A decoded page of a directory: its active objects, sorted by name.
struct KnownPage {
    filespace: FilespaceId,
    directory: DirPath,
    objects: Vec<Object>,
}

impl KnownPage {
    /// Returns true if only this page can have the object `name` of `directory`.
    fn spans(&self, filespace: FilespaceId, directory: &DirPath, name: &Name) -> bool {
        let (first, last) = (self.objects.first(), self.objects.last());
        self.filespace == filespace
            && self.directory == *directory
            && first.is_some_and(|first| first.name <= *name)
            && last.is_some_and(|last| *name <= last.name)
    }
}

/// Resolves the changes of one transaction.
pub struct Resolver<'a> {
    store: &'a Store,
    node: &'a Node,
    quanta: &'a Quanta,
    /// Packs that no new page may name.
    condemned: &'a CondemnedPacks,
    /// Memory that is left for the extents of the transaction.
    budget: &'a Budget,
    /// Numbers of the node's filespaces by name; `None` until they are first needed.
    filespaces: RefCell<Option<BTreeMap<Vec<u8>, FilespaceId>>>,
    /// Decoded pages with known content. The page that was read last is the last one.
    known_pages: RefCell<Vec<KnownPage>>,
}

impl<'a> Resolver<'a> {
    pub fn new(
        store: &'a Store,
        node: &'a Node,
        quanta: &'a Quanta,
        condemned: &'a CondemnedPacks,
        budget: &'a Budget,
    ) -> Self {
        let (filespaces, known_pages) = (RefCell::default(), RefCell::default());
        Self { store, node, quanta, condemned, budget, filespaces, known_pages }
    }

    /// Takes the memory of `count` extents from the budget of the transaction.
    fn take_extents(&self, count: usize) -> Result<(), StoreError> {
        self.budget.take(count, page::EXTENT_BYTES).map_err(StoreError::malformed)
    }

    /// Resolves the places of the change.
    pub fn resolve(&self, change: PageChange) -> Result<ResolvedChange, StoreError> {
        let PageChange { key, backed_up, updated, expired, grants, pages, known } = change;
        let known: BTreeMap<&Name, &KnownContent> =
            known.iter().map(|known| (&known.name, known)).collect();
        let count = backed_up.len();
        let (mut resolved, mut rejected) = (Vec::with_capacity(count), Vec::new());
        for object in backed_up {
            let payload = match known.get(&object.name) {
                Some(known) => self.known(known, &object),
                None => self.payload(object.stat.size, &object.payload, &grants),
            };
            match payload {
                Ok(payload) => resolved.push(with_payload(object, payload)),
                Err(PayloadError::Rejected(reason)) => rejected.push((object.name, reason)),
                Err(PayloadError::Failed(error)) => return Err(error),
            }
        }
        assert_eq!(resolved.len() + rejected.len(), count, "each object is taken or rejected");
        let change = Change { backed_up: resolved, updated, expired, pages };
        let rejected = Rejection::of_page(&key, rejected);
        Ok(ResolvedChange { key, change, rejected })
    }

    /// Returns the content of another object of the node. The other object must have the kind, the
    /// size and the mtime of `object`.
    fn known(
        &self,
        known: &KnownContent,
        object: &Object<SessionPlace>,
    ) -> Result<Payload, PayloadError> {
        let Some(other) = self.active(known)? else { return Err(Reason::SendData.into()) };
        let compared = |stat: &Stat| (stat.kind, stat.size, stat.mtime);
        let is_offered = |place: Place| self.store.pools.offered(place).is_some();
        let mut places = places(&other);
        let is_usable =
            places.all(|place| !self.condemned.holds(place.pack()) && is_offered(place));
        drop(places);
        if let Payload::Extents(extents) = &other.payload {
            self.take_extents(extents.len())?;
        }
        if compared(&other.stat) == compared(&object.stat) && is_usable {
            Ok(other.payload)
        } else {
            Err(Reason::SendData.into())
        }
    }

    /// Returns the active object that `known` refers to, if it exists.
    fn active(&self, known: &KnownContent) -> Result<Option<Object>, StoreError> {
        let Some(filespace) = self.filespace(&known.filespace)? else { return Ok(None) };
        let (directory, name) = (&known.directory, &known.of);
        let mut pages = self.known_pages.borrow_mut();
        let spans = |page: &KnownPage| page.spans(filespace, directory, name);
        if !pages.iter().any(spans) {
            let row = self.store.catalog.page_holding(filespace, directory, name.as_bytes())?;
            let Some(row) = row else { return Ok(None) };
            if pages.len() == KNOWN_PAGES_MAX {
                pages.remove(0);
            }
            let objects = decode_page(&row)?;
            debug_assert!(objects.is_sorted_by(|a, b| a.name < b.name), "a page is sorted by name");
            pages.push(KnownPage { filespace, directory: directory.clone(), objects });
            assert!(pages.len() <= KNOWN_PAGES_MAX, "the oldest page has made room");
        }
        let Some(page) = pages.iter().find(|page| spans(page)) else { return Ok(None) };
        let at = page.objects.binary_search_by(|object| object.name.cmp(name));
        Ok(at.ok().map(|at| page.objects[at].clone()))
    }

    /// Returns the number of the node's filespace `name`.
    fn filespace(&self, name: &[u8]) -> Result<Option<FilespaceId>, StoreError> {
        let mut filespaces = self.filespaces.borrow_mut();
        if filespaces.is_none() {
            let all = self.store.catalog.filespaces(self.node.id)?;
            let by_name = all.into_iter().map(|filespace| (filespace.name, filespace.id));
            *filespaces = Some(by_name.collect());
        }
        Ok(filespaces.as_ref().and_then(|by_name| by_name.get(name).copied()))
    }

    fn payload(
        &self,
        size: u64,
        payload: &Payload<SessionPlace>,
        grants: &[Grant],
    ) -> Result<Payload, PayloadError> {
        let extents = match payload {
            Payload::Nothing => return Ok(Payload::Nothing),
            Payload::Target(target) => return Ok(Payload::Target(target.clone())),
            Payload::Extents(extents) => extents,
        };
        let mut resolved: Vec<Extent> = Vec::new();
        let mut bytes = 0_u64;
        for extent in extents {
            // Two chunks of a run may have places that are not neighbours.
            self.take_extents(extent.chunks().map_or(1, |run| run.count as usize))?;
            match extent {
                Extent::Hole { bytes: hole } => {
                    bytes = bytes.checked_add(*hole).ok_or(Reason::Size)?;
                    resolved.push(Extent::Hole { bytes: *hole });
                }
                Extent::Chunks(range) => {
                    for place in session_places(range) {
                        let place = place.ok_or(Reason::SendData)?;
                        let (place, length) = self.place(place, grants)?;
                        bytes = bytes.checked_add(u64::from(length)).ok_or(Reason::Size)?;
                        push_chunk(&mut resolved, place);
                    }
                }
                Extent::Sealed { place, bytes: content } => {
                    let (place, length) = self.place(*place, grants)?;
                    if u64::from(*content) > CHUNK_BYTES_MAX as u64
                        || (length as usize) < chunk::SEAL_BYTES
                    {
                        return Err(Reason::Size.into());
                    }
                    bytes = bytes.checked_add(u64::from(*content)).ok_or(Reason::Size)?;
                    resolved.push(Extent::Sealed { place, bytes: *content });
                }
            }
        }
        if bytes == size { Ok(Payload::Extents(resolved)) } else { Err(Reason::Size.into()) }
    }

    /// Returns the place of the chunk, and its length.
    fn place(&self, place: SessionPlace, grants: &[Grant]) -> Result<(Place, u32), Reason> {
        let found = match place {
            SessionPlace::Sent { quantum, index } => {
                let index = index as usize;
                let stored = self.quanta.get(&quantum).ok_or(Reason::SendData)?;
                let place = *stored.places.get(index).ok_or(Reason::SendData)?;
                assert_eq!(stored.lengths.len(), stored.places.len(), "each chunk has a length");
                assert_eq!(stored.digests.len(), stored.places.len(), "each chunk has a digest");
                let length = stored.lengths[index];
                if self.condemned.holds(place.pack()) {
                    self.elsewhere(&stored.digests[index])
                } else {
                    Some((place, length))
                }
            }
            SessionPlace::Granted { grant } => {
                self.check(grants.get(grant as usize).ok_or(Reason::SendData)?)
            }
        };
        found.ok_or(Reason::SendData)
    }

    /// Returns the place of the granted chunk, and its length. Returns `None` if the server did not
    /// make the grant for this node. Reclamation may have moved the chunk since then.
    fn check(&self, grant: &Grant) -> Option<(Place, u32)> {
        let place = self.store.secrets.granted_place(self.node.id, &grant.digest, grant.proof)?;
        let is_usable = !self.condemned.holds(place.pack());
        let chunk = is_usable.then(|| self.store.pools.offered(place)).flatten();
        match chunk.filter(|(_, digest)| *digest == grant.digest) {
            Some((length, _)) => Some((place, length)),
            None => self.elsewhere(&grant.digest),
        }
    }

    /// Returns another place of the chunk, which pages may name, and the chunk's length.
    fn elsewhere(&self, digest: &ChunkDigest) -> Option<(Place, u32)> {
        let keys = sharing::keys_of_sent(self.store, self.node.id, *digest);
        let found = self.store.lookup(&keys).into_iter().flatten();
        let mut named = found.filter(|place| !self.condemned.holds(place.pack()));
        named.find_map(|place| Some((place, self.store.pools.offered(place)?.0)))
    }
}

/// Returns the places of a run, one by one.
fn session_places(range: &ChunkRange<SessionPlace>) -> impl Iterator<Item = Option<SessionPlace>> {
    use model::PlaceCode as _;
    let first = range.first.code();
    (0..u64::from(range.count)).map(move |offset| SessionPlace::from_code(first + offset))
}

fn with_payload(object: Object<SessionPlace>, payload: Payload) -> Object {
    let Object { name, stat, attributes, class, inserted, .. } = object;
    Object { name, stat, attributes, class, inserted, payload }
}
