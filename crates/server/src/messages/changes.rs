//! Changes of pages, as a backup sends them, and the objects that are rejected.

use bytes::Bytes;
use catalog::PageKey;
use catalog::change::PageStart;
use format::page;
use model::{DirPath, DirectoryDigest, Name, Object};
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
    Ok(PageChange {
        key: PageKey { directory, first: change.first.to_vec() },
        backed_up: objects(&change.backed_up)?,
        updated: objects(&change.updated)?,
        expired: change.expired.iter().map(name).collect::<Result<_, _>>()?,
        grants,
        pages: change.pages.iter().map(page_after).collect::<Result<_, _>>()?,
        known: change.known.iter().map(known).collect::<Result<_, _>>()?,
    })
}

fn name(bytes: &Bytes) -> Result<Name, StoreError> {
    Name::new(bytes).map_err(StoreError::malformed)
}

fn objects<P: model::PlaceCode>(page: &[u8]) -> Result<Vec<Object<P>>, StoreError> {
    if page.is_empty() {
        return Ok(Vec::new());
    }
    page::decode(page).map_err(StoreError::malformed)
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

fn known(known: &proto::KnownContent) -> Result<KnownContent, StoreError> {
    Ok(KnownContent {
        name: name(&known.name)?,
        filespace: known.filespace.to_vec(),
        directory: DirPath::new(&known.directory).map_err(StoreError::malformed)?,
        of: name(&known.of)?,
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
        first: key.first.into(),
        name: Bytes::copy_from_slice(name.as_bytes()),
        reason: reason.to_string(),
        send_data: reason == Reason::SendData,
    }
}
