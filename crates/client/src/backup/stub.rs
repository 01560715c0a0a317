//! Stubs: files whose content was migrated. The server has their content, so a backup does not read
//! it.

use std::io;

use format::stub::{Bearer, STUB_ATTRIBUTE, STUB_BYTES_MAX, Stub};
use model::{Kind, Name, mount_point, space_filespace};
use sys::identity::FilesystemId;
use sys::space::UnopenedFile;
use sys::{Dir, ObjectStatus};

use crate::link::backup::KnownContent;

/// Returns the stub record of the file `name` of `directory`, whose stat is `found`; `None` for a
/// file that is resident, and for a file with the record of another file. Fails for a stub that was
/// changed, because neither this machine nor the server has all of its content.
pub(super) fn of(directory: &Dir, name: &Name, found: &ObjectStatus) -> io::Result<Option<Stub>> {
    let stat = &found.stat;
    if stat.kind != Kind::File || found.allocated_bytes >= stat.size {
        return Ok(None);
    }
    let file = UnopenedFile::find(directory, name.as_bytes())?;
    let record = file.attribute::<STUB_BYTES_MAX>(STUB_ATTRIBUTE)?;
    let Some(record) = record else { return Ok(None) };
    let stub = Stub::decode(&record).map_err(io::Error::other)?;
    let stub = stub.as_of(sys::process::boot_tag());
    if stub.is_resident() {
        return Ok(None);
    }
    if let Some(named) = stub.bearer {
        let filesystem = FilesystemId::of(directory)?;
        // Reading the file gives its content, if a program has copied the record with it.
        if named != Bearer::of(&filesystem.0, &sys::identity::file_handle(&file)?) {
            return Ok(None);
        }
    }
    if (stub.size, stub.mtime) != (stat.size, stat.mtime) {
        let reason =
            "the file is a stub that was changed; recall it first with 'holdfast hsm recall'";
        return Err(io::Error::other(reason));
    }
    Ok(Some(stub))
}

/// Returns the statement that the object `name` of the filespace has the migrated content.
pub(super) fn known(filespace: &[u8], name: &Name, stub: &Stub) -> KnownContent {
    KnownContent {
        name: name.clone(),
        filespace: space_filespace(mount_point(filespace)),
        directory: stub.copy.batch.directory(),
        of: stub.copy.name(),
    }
}
