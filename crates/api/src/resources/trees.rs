//! Trees of stored files, written into archives.

use std::io;

use model::{DirPath, Kind, Object};
use store::selection::{ContentReader, Delivery, Selection};

/// An archive that takes objects one after the other.
pub(super) trait Archive {
    /// Adds an object. Its path is that in the archive, without a slash in front.
    fn add(
        &mut self,
        path: &[u8],
        object: &Object,
        reader: &mut ContentReader<'_>,
    ) -> io::Result<()>;
}

/// Writes the selected objects below `top` into an archive. Returns what was written.
pub(super) fn write_tree(
    store: &store::Store,
    (selection, top): (&Selection, &DirPath),
    archive: &mut dyn Archive,
) -> io::Result<Delivery> {
    let mut reader = ContentReader::new(store).map_err(io::Error::other)?;
    let (mut sent, mut failure) = (Delivery::default(), None);
    let walked = selection.walk_readable(&*store.catalog, |batch| {
        for version in &batch.versions {
            let path = batch.directory.join(&version.object.name);
            let Some(path) = below(top, &path) else { continue };
            if let Err(error) = archive.add(&path, &version.object, &mut reader) {
                failure = Some(error);
                return Err(store::StoreError::cancelled("the archive was cut off"));
            }
            if version.object.stat.kind == Kind::File {
                sent += Delivery { selected: 1, delivered: 1, bytes: version.object.stat.size };
            }
        }
        Ok(())
    });
    if let Some(error) = failure {
        return Err(error);
    }
    match walked.map_err(io::Error::other)? {
        Some(unreadable) => Err(io::Error::other(store::StoreError::from(unreadable))),
        None => Ok(sent),
    }
}

/// Returns the path in the archive: that below `top`, without a slash in front.
fn below(top: &DirPath, path: &[u8]) -> Option<Vec<u8>> {
    let rest = path.strip_prefix(top.as_bytes())?;
    (!rest.is_empty()).then(|| rest.to_vec())
}
