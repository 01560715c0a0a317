//! Trees of stored files, written into archives.

use std::io;

use model::{DirPath, Object};
use store::selection::{ContentReader, Selection};

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

/// Writes the selected objects below `top` into an archive.
pub(super) fn write_tree(
    store: &store::Store,
    (selection, top): (&Selection, &DirPath),
    archive: &mut dyn Archive,
) -> io::Result<()> {
    let mut reader = ContentReader::new(store).map_err(io::Error::other)?;
    let mut failure = None;
    let walked = selection.walk_readable(&*store.catalog, |batch| {
        for version in &batch.versions {
            let path = batch.directory.join(&version.object.name);
            let Some(path) = below(top, &path) else { continue };
            if let Err(error) = archive.add(&path, &version.object, &mut reader) {
                failure = Some(error);
                return Err(store::StoreError::cancelled("the archive was cut off"));
            }
        }
        Ok(())
    });
    match failure {
        Some(error) => Err(error),
        None => walked.map(drop).map_err(io::Error::other),
    }
}

/// Returns the path in the archive: that below `top`, without a slash in front.
fn below(top: &DirPath, path: &[u8]) -> Option<Vec<u8>> {
    let rest = path.strip_prefix(top.as_bytes())?;
    (!rest.is_empty()).then(|| rest.to_vec())
}
