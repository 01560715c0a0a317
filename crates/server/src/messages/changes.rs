//! Changes of pages, as a backup sends them, and the objects that are rejected.

use bytes::Bytes;
use catalog::PageKey;
use catalog::change::PageStart;
use format::page;
use model::{DirPath, DirectoryDigest, Name, NameError, Object};
use store::StoreError;
use store::intake::{Check, KnownContent, PageChange, Reason, Rejection, Remnant};
use wire::proto;

/// Returns the check that the client has sent with a quantum.
pub(crate) fn check(quantum: &proto::Quantum) -> Check {
    match quantum.raw_check {
        Some(check) if quantum.check.is_empty() => Check::Data(check),
        _ => Check::Digests(quantum.check.to_vec()),
    }
}

/// Parses a change of a page.
pub(crate) fn parse(change: &proto::PageChange) -> Result<PageChange, StoreError> {
    sys::fault::point("change");
    let directory = DirPath::new(&change.directory).map_err(StoreError::malformed)?;
    let grants = wire::decode_grants(&change.grants)
        .ok_or_else(|| StoreError::malformed("a list of grants ends within a grant"))?;
    let of = &directory;
    Ok(PageChange {
        backed_up: objects(of, &change.backed_up)?,
        updated: objects(of, &change.updated)?,
        expired: change.expired.iter().map(|bytes| name(of, bytes)).collect::<Result<_, _>>()?,
        grants,
        pages: change.pages.iter().map(page_after).collect::<Result<_, _>>()?,
        known: change.known.iter().map(|one| known(of, one)).collect::<Result<_, _>>()?,
        key: PageKey { directory, first: change.first.to_vec() },
    })
}

/// Parses the name of an object in `directory`.
fn name(directory: &DirPath, bytes: &[u8]) -> Result<Name, StoreError> {
    directory.name(bytes).map_err(StoreError::malformed)
}

/// Parses objects in `directory`.
fn objects<P: model::PlaceCode>(
    directory: &DirPath,
    page: &[u8],
) -> Result<Vec<Object<P>>, StoreError> {
    if page.is_empty() {
        return Ok(Vec::new());
    }
    let objects: Vec<Object<P>> = page::decode(page).map_err(StoreError::malformed)?;
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
    Ok(PageStart { first: key.first.to_vec(), digest })
}

/// Parses the content of an object in `of`.
fn known(of: &DirPath, known: &proto::KnownContent) -> Result<KnownContent, StoreError> {
    let directory = DirPath::new(&known.directory).map_err(StoreError::malformed)?;
    Ok(KnownContent {
        name: name(of, &known.name)?,
        filespace: known.filespace.to_vec(),
        of: name(&directory, &known.of)?,
        directory,
    })
}

pub(crate) fn remnant(remnant: Remnant) -> proto::Remnant {
    let Remnant { directory, reason } = remnant;
    proto::Remnant { directory: Bytes::copy_from_slice(directory.as_bytes()), reason }
}

pub(crate) fn rejection(rejection: Rejection) -> proto::Rejected {
    let Rejection { key, name, reason } = rejection;
    proto::Rejected {
        directory: Bytes::copy_from_slice(key.directory.as_bytes()),
        first: Bytes::copy_from_slice(&key.first),
        name: Bytes::copy_from_slice(name.as_bytes()),
        reason: reason.to_string(),
        send_data: reason == Reason::SendData,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

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
    fn check(change: &proto::PageChange, is_taken: bool) {
        assert_eq!(parse(change).is_ok(), is_taken, "{change:?}");
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
