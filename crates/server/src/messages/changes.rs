//! Changes of pages, as a backup sends them, and the objects that are rejected.

use std::sync::Arc;

use bytes::Bytes;
use catalog::PageKey;
use catalog::change::PageStart;
use format::{Budget, page};
use model::{DirPath, DirectoryDigest, FILESPACE_BYTES_MAX, Name, NameError, Object};
use prost::Message as _;
use store::StoreError;
use store::intake::{
    Check, CommitReceipt, KnownContent, PageChange, Reason, ReceivedQuantum, Rejection, Remnant,
};
use wire::{Grant, MESSAGE_BYTES_MAX, proto};

/// Memory of a change without its objects.
const CHANGE_BYTES: usize = 1024;
/// Memory of an expired name, a page or a known content, as a message and parsed, without its
/// bytes.
const ITEM_BYTES: usize = 256;
/// Size of the rejections and remnants, in bytes, after which a part of an answer ends.
const PART_BYTES: usize = MESSAGE_BYTES_MAX / 4;

/// Returns a quantum as the client has sent it.
pub(crate) fn quantum(quantum: &proto::Quantum) -> ReceivedQuantum<'_> {
    let check = match quantum.raw_check {
        Some(check) if quantum.check.is_empty() => Check::Data(check),
        _ => Check::Digests(quantum.check.to_vec()),
    };
    ReceivedQuantum { record: &quantum.record, check, is_encrypted: quantum.encrypted }
}

/// Returns the number of expired names, pages and known contents of a change.
pub(crate) fn items(change: &proto::PageChange) -> usize {
    change.expired.len() + change.pages.len() + change.known.len()
}

/// Parses a change of a page. Takes the memory of its parts from `budget` before it decodes them.
pub(crate) fn parse(change: &proto::PageChange, budget: &Budget) -> Result<PageChange, StoreError> {
    sys::fault::point("change");
    let take = |count, bytes| budget.take(count, bytes).map_err(StoreError::malformed);
    take(1, CHANGE_BYTES + change.encoded_len())?;
    take(items(change), ITEM_BYTES)?;
    take(change.grants.len(), 1)?;
    let directory = directory(&change.directory)?;
    let grants = wire::decode_grants(&change.grants)
        .ok_or_else(|| StoreError::malformed("a list of grants ends within a grant"))?;
    debug_assert!(size_of::<Grant>() <= wire::GRANT_BYTES, "parsed grants take no more memory");
    let of = &directory;
    Ok(PageChange {
        backed_up: objects(of, &change.backed_up, budget)?,
        updated: objects(of, &change.updated, budget)?,
        expired: change.expired.iter().map(|bytes| name(of, bytes)).collect::<Result<_, _>>()?,
        grants,
        pages: change.pages.iter().map(page_after).collect::<Result<_, _>>()?,
        known: change.known.iter().map(|one| known(of, one)).collect::<Result<_, _>>()?,
        key: PageKey { first: first_name(&change.first)?, directory },
    })
}

/// Parses the path of a directory. Every path of a node comes through here.
pub(crate) fn directory(bytes: &[u8]) -> Result<DirPath, StoreError> {
    DirPath::within_limits(bytes).map_err(StoreError::malformed)
}

/// Parses the first name of a page, which is empty for the first page of a directory.
fn first_name(bytes: &[u8]) -> Result<Vec<u8>, StoreError> {
    if !bytes.is_empty() {
        Name::new(bytes).map_err(StoreError::malformed)?;
    }
    Ok(bytes.to_vec())
}

/// Parses the name of an object in `directory`.
fn name(directory: &DirPath, bytes: &[u8]) -> Result<Name, StoreError> {
    directory.name(bytes).map_err(StoreError::malformed)
}

/// Parses objects in `directory`.
fn objects<P: model::PlaceCode>(
    directory: &DirPath,
    page: &[u8],
    budget: &Budget,
) -> Result<Vec<Object<P>>, StoreError> {
    if page.is_empty() {
        return Ok(Vec::new());
    }
    let objects: Vec<Object<P>> =
        page::decode_within(page, budget).map_err(StoreError::malformed)?;
    if objects.iter().all(|object| directory.can_hold(&object.name)) {
        Ok(objects)
    } else {
        Err(StoreError::malformed(NameError::Root))
    }
}

/// First name and digest of a page that exists after the change.
fn page_after(key: &proto::PageKey) -> Result<PageStart, StoreError> {
    let digest = match &key.digest[..] {
        [] => None,
        bytes => {
            let digest = <[u8; 16]>::try_from(bytes);
            let digest =
                digest.map_err(|_| StoreError::malformed("a digest must have 16 bytes"))?;
            Some(DirectoryDigest(digest))
        }
    };
    Ok(PageStart { first: first_name(&key.first)?, digest })
}

/// Parses the content of an object in `of`.
fn known(of: &DirPath, known: &proto::KnownContent) -> Result<KnownContent, StoreError> {
    if known.filespace.len() > FILESPACE_BYTES_MAX {
        return Err(StoreError::malformed("the name of a filespace is too long"));
    }
    let directory = directory(&known.directory)?;
    Ok(KnownContent {
        name: name(of, &known.name)?,
        filespace: known.filespace.to_vec(),
        of: name(&directory, &known.of)?,
        directory,
    })
}

/// Returns the answer to the transaction `number`.
pub(crate) fn committed(number: u64, receipt: CommitReceipt) -> proto::Committed {
    let grants = receipt.grants.into_iter();
    let grants =
        grants.map(|of| proto::QuantumGrants { number: of.number, grants: of.bytes.into() });
    proto::Committed {
        number,
        grants: grants.collect(),
        rejected: rejections(receipt.rejected),
        remnants: receipt.remnants.into_iter().map(remnant).collect(),
        expired_objects: receipt.expired_objects,
        is_continued: false,
    }
}

fn remnant(remnant: Remnant) -> proto::Remnant {
    let Remnant { directory, reason } = remnant;
    proto::Remnant { directory: Bytes::copy_from_slice(directory.as_bytes()), reason }
}

/// Returns the messages of rejections. The rejections of one page share its path.
fn rejections(rejections: Vec<Rejection>) -> Vec<proto::Rejected> {
    let mut last: Option<(Arc<PageKey>, Bytes)> = None;
    let message = |Rejection { key, name, reason }| {
        let directory = match &last {
            Some((page, directory)) if Arc::ptr_eq(page, &key) => directory.clone(),
            _ => Bytes::copy_from_slice(key.directory.as_bytes()),
        };
        last = Some((Arc::clone(&key), directory.clone()));
        proto::Rejected {
            directory,
            first: Bytes::copy_from_slice(&key.first),
            name: Bytes::copy_from_slice(name.as_bytes()),
            reason: reason.to_string(),
            send_data: reason == Reason::SendData,
        }
    };
    rejections.into_iter().map(message).collect()
}

/// Divides the answer to a transaction so that each part fits into a message. An answer to a client
/// that takes no parts must fit as a whole.
pub(crate) fn parts(
    committed: proto::Committed,
    takes_parts: bool,
) -> Result<Vec<proto::Committed>, StoreError> {
    if committed.encoded_len() <= PART_BYTES {
        return Ok(vec![committed]);
    }
    if !takes_parts {
        return match committed.encoded_len() <= MESSAGE_BYTES_MAX - PART_BYTES {
            true => Ok(vec![committed]),
            false => Err(StoreError::conflict(
                "the answer to a transaction does not fit into a message; upgrade the client",
            )),
        };
    }
    let number = committed.number;
    let mut rest = committed;
    let mut parts = Vec::new();
    let mut rejected = std::mem::take(&mut rest.rejected).into_iter().peekable();
    let mut remnants = std::mem::take(&mut rest.remnants).into_iter().peekable();
    while rejected.peek().is_some() || remnants.peek().is_some() {
        let mut bytes = 0;
        let mut part = proto::Committed { number, is_continued: true, ..Default::default() };
        while let Some(next) = rejected.next_if(|_| bytes < PART_BYTES) {
            bytes += next.encoded_len();
            part.rejected.push(next);
        }
        while let Some(next) = remnants.next_if(|_| bytes < PART_BYTES) {
            bytes += next.encoded_len();
            part.remnants.push(next);
        }
        parts.push(part);
    }
    // The last part has the grants, whose number is limited for each transaction.
    parts.push(rest);
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use model::{ClassId, Kind, Payload, ServerTime, SessionPlace, Stat, Timestamp};

    use super::*;

    /// Makes an encoded page with the directory `name`.
    fn page_of(name: &[u8]) -> Bytes {
        let time = Timestamp::default();
        let stat = Stat {
            kind: Kind::Directory,
            mode: 0o755,
            uid: 0,
            gid: 0,
            size: 0,
            mtime: time,
            ctime: time,
            inode: 1,
            linked: false,
            device: 0,
        };
        page::encode(&[Object::<SessionPlace> {
            name: Name::new(name).expect("a name"),
            stat,
            attributes: Arc::default(),
            class: ClassId(1),
            inserted: ServerTime(0),
            payload: Payload::Nothing,
        }])
        .into()
    }

    fn change(directory: &'static [u8]) -> proto::PageChange {
        proto::PageChange { directory: Bytes::from_static(directory), ..Default::default() }
    }

    #[track_caller]
    fn refused(change: &proto::PageChange, text: &str) {
        let error = parse(change, &Budget::new(16 << 20)).expect_err("it is refused");
        assert!(error.to_string().contains(text), "{error}");
    }

    #[test]
    fn names_and_paths_are_limited() {
        let long = Bytes::from([&b"/"[..], &b"n/".repeat(40 << 10)].concat());
        refused(&proto::PageChange { directory: long.clone(), ..change(b"") }, "65536 bytes");
        refused(&proto::PageChange { first: long.clone(), ..change(b"/") }, "a name must be");
        let page = proto::PageKey { first: long.clone(), ..Default::default() };
        refused(&proto::PageChange { pages: vec![page], ..change(b"/") }, "a name must be");
        refused(&proto::PageChange { expired: vec![long.clone()], ..change(b"/") }, "a name");
        let name = Bytes::from_static(b"n");
        let known = proto::KnownContent {
            name: name.clone(),
            of: name,
            directory: Bytes::from_static(b"/"),
            filespace: long,
        };
        refused(&proto::PageChange { known: vec![known], ..change(b"/") }, "a filespace");
    }

    #[test]
    fn the_items_of_a_change_take_memory_from_its_budget() {
        let change = proto::PageChange { expired: vec![Bytes::new(); 1 << 18], ..change(b"/") };
        refused(&change, "more memory than its sender may use");
    }

    #[test]
    fn a_long_answer_is_divided() {
        let directory = Bytes::from(vec![b'd'; 60 << 10]);
        let rejected = |name: usize| proto::Rejected {
            directory: directory.clone(),
            name: name.to_string().into(),
            ..Default::default()
        };
        let remnant = proto::Remnant { directory: directory.clone(), reason: "damaged".to_owned() };
        let grants = vec![proto::QuantumGrants { number: 3, grants: vec![0; 16].into() }];
        let whole = proto::Committed {
            number: 7,
            grants: grants.clone(),
            rejected: (0..1000).map(rejected).collect(),
            remnants: vec![remnant; 200],
            expired_objects: 5,
            is_continued: false,
        };
        parts(whole.clone(), false).expect_err("it does not fit into a message");
        let divided = parts(whole.clone(), true).expect("divided");
        assert!(
            divided
                .iter()
                .all(|part| part.encoded_len() < 2 * PART_BYTES && part.number == 7)
        );
        let continued: Vec<bool> = divided.iter().map(|part| part.is_continued).collect();
        assert_eq!(continued.iter().filter(|continued| !**continued).count(), 1);
        let last = divided.last().expect("a part");
        assert_eq!((&last.grants, last.expired_objects, last.is_continued), (&grants, 5, false));
        let all: Vec<_> = divided.iter().flat_map(|part| part.rejected.clone()).collect();
        assert_eq!(all, whole.rejected);
        let all: Vec<_> = divided.iter().flat_map(|part| part.remnants.clone()).collect();
        assert_eq!(all, whole.remnants);
        let short = proto::Committed { rejected: vec![rejected(1)], remnants: Vec::new(), ..whole };
        assert_eq!(parts(short.clone(), true), Ok(vec![short.clone()]));
        assert_eq!(parts(short.clone(), false), Ok(vec![short]));
    }

    #[track_caller]
    fn check(change: &proto::PageChange, is_taken: bool) {
        assert_eq!(parse(change, &Budget::new(16 << 20)).is_ok(), is_taken, "{change:?}");
    }

    #[test]
    fn a_name_that_its_directory_cannot_hold_is_refused() {
        let objects = |directory, name: &[u8]| {
            [
                proto::PageChange { backed_up: page_of(name), ..change(directory) },
                proto::PageChange { updated: page_of(name), ..change(directory) },
                proto::PageChange { expired: vec![name.to_vec().into()], ..change(directory) },
            ]
        };
        objects(b"/a/", b"b").iter().for_each(|change| check(change, true));
        objects(b"", b"/").iter().for_each(|change| check(change, true));
        objects(b"/", b"/").iter().for_each(|change| check(change, false));
        objects(b"/a/", b"/").iter().for_each(|change| check(change, false));
        objects(b"", b"b").iter().for_each(|change| check(change, false));
    }

    #[test]
    fn known_content_has_a_place_that_can_be() {
        let known = |name: &'static [u8], directory: &'static [u8], of: &'static [u8]| {
            let [name, directory, of] = [name, directory, of].map(Bytes::from_static);
            let known = proto::KnownContent { name, directory, of, ..Default::default() };
            proto::PageChange { known: vec![known], ..change(b"/a/") }
        };
        check(&known(b"b", b"/c/", b"d"), true);
        check(&known(b"/", b"/c/", b"d"), false);
        check(&known(b"b", b"/c/", b"/"), false);
        check(&known(b"b", b"/c/../", b"d"), false);
    }
}
