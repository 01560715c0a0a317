//! Copy of a restored file, for a further name that cannot be linked to the file.

use std::io;
use std::sync::Arc;

use model::Name;
use sys::{ApplyOutcome, Dir, NewFile};

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 20;

/// Copies the file `name` of `from`, with its attributes, to the name `further` of `to`, which is
/// free unless the copy `replaces` a file. The owner is copied only if `owner` is set.
pub(super) fn copy_file(
    from: &Dir,
    name: &Name,
    to: &Arc<Dir>,
    further: &Name,
    owner: bool,
    replaces: bool,
) -> io::Result<[ApplyOutcome; 2]> {
    let source = from.open_file(name.as_bytes())?;
    let (found, attributes) = (source.stat()?, source.attributes()?);
    let mut new = NewFile::create_with_mode(to, further.as_bytes(), found.stat.mode)?;
    // Refusals are counted later, when the attributes are applied.
    let _refusals = new.prepare(&attributes);
    new.copy_from(&source, &found, &mut vec![0; BUFFER_BYTES])?;
    let applied = new.apply(&found.stat, &attributes, owner);
    Ok([applied, new.publish(replaces)?])
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn a_copy_has_content_holes_and_attributes() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("first");
        let file = File::create(&path).expect("is made");
        let bytes = 3 * BUFFER_BYTES as u64;
        file.write_all_at(b"begin", 0).expect("is written");
        file.write_all_at(&vec![7; BUFFER_BYTES + 9], bytes).expect("is written");
        file.set_len(2 * bytes).expect("is set");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4751)).expect("is set");
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1000))
            .expect("is set");

        let dir = Arc::new(Dir::open(folder.path().as_os_str().as_encoded_bytes()).expect("opens"));
        let name = |name: &[u8]| Name::new(name).expect("a name");
        let owner = sys::process::is_root();
        let copied = copy_file(&dir, &name(b"first"), &dir, &name(b"second"), owner, false);
        assert!(copied.expect("is copied").iter().all(|applied| applied.refused.is_empty()));
        let copy = folder.path().join("second");
        assert!(fs::read(&copy).expect("reads") == fs::read(&path).expect("reads"));
        let blocks = fs::metadata(&copy).expect("is there").blocks();
        assert!(blocks * 512 < 2 * bytes, "holes stay holes");
        let found = |path| fs::metadata(path).map(|found| (found.mode(), found.mtime()));
        assert_eq!(found(&copy).expect("is there"), found(&path).expect("is there"));
        let taken = copy_file(&dir, &name(b"first"), &dir, &name(b"second"), owner, false);
        assert_eq!(taken.map_err(|error| error.kind()).err(), Some(io::ErrorKind::AlreadyExists));
    }
}
