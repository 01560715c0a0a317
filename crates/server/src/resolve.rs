//! From what a client says of a page to what the catalogue takes: session places become places,
//! grants are checked, sizes add up. One bad object leaves the change, it does not sink it.

use std::collections::BTreeMap;

use catalog::change::Change;
use catalog::{Node, PageKey};
use format::page;
use model::{
    CHUNK_BYTES_MAX, ChunkDigest, ChunkRange, DirPath, DirectoryDigest, Extent, Name, Object,
    Payload, Place, SessionPlace, Stat,
};
use tonic::Status;
use wire::{Grant, proto};

use crate::core::{Condemned, Core};
use crate::refusal::malformed;
use crate::restore::places;
use crate::store::Stored;

/// Quanta of the session by their numbers.
pub(crate) type Quanta = BTreeMap<u64, Stored>;

/// A change that can be applied, and the objects that had to leave it.
pub(crate) struct Resolved {
    pub(crate) key: PageKey,
    pub(crate) change: Change,
    pub(crate) rejected: Vec<proto::Rejected>,
}

/// Why one object cannot be taken.
enum Reject {
    /// The client is to send the data: a grant does not hold, or a quantum is not there.
    SendData,
    /// The object is not what it says it is.
    Size,
}

/// First names and digests of the pages after the change.
type Pages = Vec<(Vec<u8>, Option<DirectoryDigest>)>;

fn names(names: &[bytes::Bytes]) -> Result<Vec<Name>, Status> {
    let parse = |name: &bytes::Bytes| Name::new(name).map_err(|e| malformed(&e.to_string()));
    names.iter().map(parse).collect()
}

/// The pages with their digests.
fn pages(keys: &[proto::PageKey]) -> Result<Pages, Status> {
    let parse = |key: &proto::PageKey| {
        let digest = match &key.digest[..] {
            [] => None,
            bytes => {
                let digest = <[u8; 16]>::try_from(bytes);
                let digest = digest.map_err(|_| malformed("a digest has 16 bytes"))?;
                Some(DirectoryDigest(digest))
            }
        };
        Ok((key.first.to_vec(), digest))
    };
    keys.iter().map(parse).collect()
}

fn updates(bytes: &[u8]) -> Result<Vec<Object>, Status> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    page::decode(bytes).map_err(|damage| malformed(&damage.to_string()))
}

/// Resolves the changes of one transaction.
pub(crate) struct Resolver<'a> {
    core: &'a Core,
    node: &'a Node,
    quanta: &'a Quanta,
    /// Packs that no page may come to name.
    condemned: &'a Condemned,
}

impl<'a> Resolver<'a> {
    pub(crate) fn new(
        core: &'a Core,
        node: &'a Node,
        quanta: &'a Quanta,
        condemned: &'a Condemned,
    ) -> Self {
        Self { core, node, quanta, condemned }
    }

    /// Takes the message apart and resolves its places.
    pub(crate) fn resolve(&self, message: &proto::PageChange) -> Result<Resolved, Status> {
        let directory =
            DirPath::new(&message.directory).map_err(|error| malformed(&error.to_string()))?;
        let key = PageKey { directory, first: message.first.to_vec() };
        let grants = wire::decode_grants(&message.grants)
            .ok_or_else(|| malformed("grants that are not whole"))?;
        let (backed_up, rejected) = self.objects(message, &grants)?;
        let change = Change {
            backed_up,
            updated: updates(&message.updated)?,
            expired: names(&message.expired)?,
            pages: pages(&message.pages)?,
        };
        Ok(Resolved { key, change, rejected })
    }

    fn objects(
        &self,
        message: &proto::PageChange,
        grants: &[Grant],
    ) -> Result<(Vec<Object>, Vec<proto::Rejected>), Status> {
        let mut resolved = Vec::new();
        let mut rejected = Vec::new();
        let bytes = &message.backed_up;
        if bytes.is_empty() {
            return Ok((resolved, rejected));
        }
        let objects = page::decode::<SessionPlace>(bytes);
        for object in objects.map_err(|damage| malformed(&damage.to_string()))? {
            let known = message.known.iter().find(|known| known.name == object.name.as_bytes());
            let payload = match known {
                Some(known) => self.known(known, &object),
                None => self.payload(object.stat.size, &object.payload, grants),
            };
            match payload {
                Ok(payload) => resolved.push(with_payload(object, payload)),
                Err(reject) => rejected.push(rejection(message, &object.name, &reject)),
            }
        }
        Ok((resolved, rejected))
    }

    /// The content of another object of the node, which must be that of `object` as far as size and
    /// mtime tell.
    fn known(
        &self,
        known: &proto::KnownContent,
        object: &Object<SessionPlace>,
    ) -> Result<Payload, Reject> {
        let other = self.active(known).ok_or(Reject::SendData)?;
        let told = |stat: &Stat| (stat.kind, stat.size, stat.mtime);
        let is_offered = |place: Place| self.core.pools.offered(place).is_some();
        let mut places = places(&other);
        let is_held = places.all(|place| !self.condemned.holds(place.pack()) && is_offered(place));
        drop(places);
        if told(&other.stat) == told(&object.stat) && is_held {
            Ok(other.payload)
        } else {
            Err(Reject::SendData)
        }
    }

    /// The object as it is in the catalogue.
    fn active(&self, known: &proto::KnownContent) -> Option<Object> {
        let catalog = &self.core.catalog;
        let filespaces = catalog.filespaces(self.node.id).ok()?;
        let filespace = filespaces.iter().find(|space| space.name == known.filespace)?;
        let directory = DirPath::new(&known.directory).ok()?;
        let row = catalog.page_holding(filespace.id, &directory, &known.of).ok()??;
        let mut objects: Vec<Object> = page::decode(&row.body).ok()?;
        let at = objects.binary_search_by(|object| object.name.as_bytes().cmp(&known.of)).ok()?;
        Some(objects.swap_remove(at))
    }

    fn payload(
        &self,
        size: u64,
        payload: &Payload<SessionPlace>,
        grants: &[Grant],
    ) -> Result<Payload, Reject> {
        let extents = match payload {
            Payload::Nothing => return Ok(Payload::Nothing),
            Payload::Target(target) => return Ok(Payload::Target(target.clone())),
            Payload::Extents(extents) => extents,
        };
        let mut resolved: Vec<Extent> = Vec::new();
        let mut bytes = 0_u64;
        for extent in extents {
            match extent {
                Extent::Hole { bytes: hole } => {
                    bytes = bytes.checked_add(*hole).ok_or(Reject::Size)?;
                    resolved.push(Extent::Hole { bytes: *hole });
                }
                Extent::Chunks(range) => {
                    for place in session_places(range) {
                        let place = place.ok_or(Reject::SendData)?;
                        let (place, length) = self.place(place, grants)?;
                        bytes = bytes.checked_add(u64::from(length)).ok_or(Reject::Size)?;
                        push_chunk(&mut resolved, place);
                    }
                }
                Extent::Sealed { place, bytes: content } => {
                    let (place, length) = self.place(*place, grants)?;
                    if u64::from(*content) > CHUNK_BYTES_MAX as u64
                        || (length as usize) < chunk::SEAL_BYTES
                    {
                        return Err(Reject::Size);
                    }
                    bytes = bytes.checked_add(u64::from(*content)).ok_or(Reject::Size)?;
                    resolved.push(Extent::Sealed { place, bytes: *content });
                }
            }
        }
        if bytes == size { Ok(Payload::Extents(resolved)) } else { Err(Reject::Size) }
    }

    /// Where the chunk lies, and its length.
    fn place(&self, place: SessionPlace, grants: &[Grant]) -> Result<(Place, u32), Reject> {
        let found = match place {
            SessionPlace::Sent { quantum, index } => {
                let index = index as usize;
                let stored = self.quanta.get(&quantum).ok_or(Reject::SendData)?;
                let place = *stored.places.get(index).ok_or(Reject::SendData)?;
                let length = stored.lengths[index];
                if self.condemned.holds(place.pack()) {
                    self.elsewhere(&stored.digests[index])
                } else {
                    Some((place, length))
                }
            }
            SessionPlace::Granted { grant } => {
                self.check(grants.get(grant as usize).ok_or(Reject::SendData)?)
            }
        };
        found.ok_or(Reject::SendData)
    }

    /// A grant holds when the server made it for this node. Reclamation may have moved the chunk
    /// since.
    fn check(&self, grant: &Grant) -> Option<(Place, u32)> {
        let mac = self.core.secrets.grant(self.node.id, &grant.digest, grant.place);
        if mac != grant.mac {
            return None;
        }
        let place = Some(grant.place).filter(|place| !self.condemned.holds(place.pack()));
        let chunk = place.and_then(|place| self.core.pools.offered(place));
        match chunk.filter(|(_, digest)| *digest == grant.digest) {
            Some((length, _)) => Some((grant.place, length)),
            None => self.elsewhere(&grant.digest),
        }
    }

    /// Another place of the chunk, that may be named.
    fn elsewhere(&self, digest: &ChunkDigest) -> Option<(Place, u32)> {
        let place = self.core.lookup(std::slice::from_ref(digest)).pop().flatten()?;
        let (length, _) = self.core.pools.offered(place)?;
        (!self.condemned.holds(place.pack())).then_some((place, length))
    }
}

/// The places of a run, one by one.
fn session_places(range: &ChunkRange<SessionPlace>) -> impl Iterator<Item = Option<SessionPlace>> {
    use model::PlaceCode as _;
    let first = range.first.code();
    (0..u64::from(range.count)).map(move |offset| SessionPlace::from_code(first + offset))
}

/// Adds a chunk, to the last run where it is its neighbour.
pub(crate) fn push_chunk(extents: &mut Vec<Extent>, place: Place) {
    use model::PlaceCode as _;
    if let Some(Extent::Chunks(range)) = extents.last_mut()
        && range.first.code() + u64::from(range.count) == place.code()
        && range.first.pack() == place.pack()
    {
        range.count += 1;
        return;
    }
    extents.push(Extent::Chunks(ChunkRange { first: place, count: 1 }));
}

fn with_payload(object: Object<SessionPlace>, payload: Payload) -> Object {
    let Object { name, stat, attributes, class, inserted, .. } = object;
    Object { name, stat, attributes, class, inserted, payload }
}

fn rejection(message: &proto::PageChange, name: &Name, reject: &Reject) -> proto::Rejected {
    let reason = match reject {
        Reject::SendData => "the server does not have its data",
        Reject::Size => "its parts do not add up to its size",
    };
    proto::Rejected {
        directory: message.directory.clone(),
        first: message.first.clone(),
        name: name.as_bytes().to_vec().into(),
        reason: reason.to_owned(),
        send_data: matches!(reject, Reject::SendData),
    }
}
