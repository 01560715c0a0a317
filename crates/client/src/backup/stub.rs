//! Files whose content was migrated: the server has it, and nothing is read of them.

use std::io;

use bytes::Bytes;
use format::stub::{STUB_ATTRIBUTE, STUB_BYTES_MAX, Stub};
use model::{Kind, Name, mount_point, space_filespace};
use sys::{Dir, Found};
use wire::proto;

/// The record of the file `name` of `directory` that `found` is of, if not all of its content is
/// here. Fails for one that has changed since: then neither what is here nor what the server has is
/// its content.
pub(super) fn of(directory: &Dir, name: &Name, found: &Found) -> io::Result<Option<Stub>> {
    let stat = &found.stat;
    if stat.kind != Kind::File || found.allocated_bytes >= stat.size {
        return Ok(None);
    }
    let record =
        sys::space::attribute_of::<STUB_BYTES_MAX>(directory, name.as_bytes(), STUB_ATTRIBUTE)?;
    let Some(record) = record else { return Ok(None) };
    let stub = Stub::decode(&record).map_err(io::Error::other)?;
    let stub = stub.as_of(sys::process::boot_tag());
    if stub.is_resident() {
        return Ok(None);
    }
    if (stub.size, stub.mtime) != (stat.size, stat.mtime) {
        let reason = "it is a stub that was changed; recall it first ('holdfast hsm recall')";
        return Err(io::Error::other(reason));
    }
    Ok(Some(stub))
}

/// What says that the object `name` of the filespace has the content that was migrated.
pub(super) fn known(filespace: &[u8], name: &Name, stub: &Stub) -> proto::KnownContent {
    let directory = stub.copy.batch.directory();
    proto::KnownContent {
        name: Bytes::copy_from_slice(name.as_bytes()),
        filespace: space_filespace(mount_point(filespace)).into(),
        directory: Bytes::copy_from_slice(directory.as_bytes()),
        of: Bytes::copy_from_slice(stub.copy.name().as_bytes()),
    }
}
