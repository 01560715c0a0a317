//! Files of any size that lie in a bucket beside the packs. A name may have several parts, such as
//! `index/one`.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use object_store::path::Path as Key;
use object_store::{ObjectStore as _, ObjectStoreExt as _, PutMultipartOptions, WriteMultipart};

use super::Bucket;
use super::runtime::{io_error, wait};

/// Size of a part of a large file, in bytes.
const PART_BYTES: usize = 8 << 20;
/// Maximum number of parts of one file that are sent at once.
const PARTS_MAX: usize = 4;

impl Bucket {
    /// Returns the key of a file.
    pub(super) fn file_key(&self, name: &str) -> Key {
        name.split('/').fold(self.url.prefix().clone(), |key, part| key.join(part))
    }

    /// Stores a small file.
    pub fn write_beside(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let key = self.file_key(name);
        self.put(&key, Bytes::copy_from_slice(content))?;
        if self.has_locks() {
            self.delete_older(&key);
        }
        Ok(())
    }

    /// Reads a small file; `None` if it does not exist.
    pub fn read_beside(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match self.get(&self.file_key(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            other => other.map(|content| Some(content.to_vec())),
        }
    }

    /// Stores the file at `path`, as a whole or not at all.
    pub fn send_beside(&self, name: &str, path: &Path) -> io::Result<()> {
        let mut file = File::open(path)?;
        let attributes = self.attributes();
        let options = PutMultipartOptions { attributes, ..PutMultipartOptions::default() };
        let key = self.file_key(name);
        let begun = wait(self.store.put_multipart_opts(&key, options))?.map_err(io_error)?;
        let mut sending = wait(async { WriteMultipart::new_with_chunk_size(begun, PART_BYTES) })?;
        loop {
            let mut part = Vec::with_capacity(PART_BYTES);
            if (&mut file).take(PART_BYTES as u64).read_to_end(&mut part)? == 0 {
                break;
            }
            wait(async {
                sending.wait_for_capacity(PARTS_MAX).await?;
                sending.put(Bytes::from(part));
                Ok(())
            })?
            .map_err(io_error)?;
        }
        wait(sending.finish())?.map(drop).map_err(io_error)
    }

    /// Fetches the file `name` and writes it to `path`, durably.
    pub fn fetch_beside(&self, name: &str, path: &Path) -> io::Result<()> {
        let key = self.file_key(name);
        let mut content = wait(self.store.get(&key))?.map_err(io_error)?.into_stream();
        let mut file = File::create_new(path)?;
        while let Some(piece) = wait(content.try_next())?.map_err(io_error)? {
            file.write_all(&piece)?;
        }
        file.sync_all()
    }

    /// Lists the files whose names begin with `parts`. Returns the last part of each name.
    pub fn list_beside(&self, parts: &str) -> io::Result<Vec<String>> {
        if self.has_locks() {
            self.uncover_below(&self.file_key(parts))?;
        }
        let listed = self.store.list(Some(&self.file_key(parts))).try_collect::<Vec<_>>();
        let listed = wait(listed)?.map_err(io_error)?;
        let name = |key: &Key| key.filename().map(ToOwned::to_owned);
        Ok(listed.iter().filter_map(|object| name(&object.location)).collect())
    }

    /// Removes a file, if it exists.
    pub fn remove_beside(&self, name: &str) -> io::Result<()> {
        self.delete(&self.file_key(name))
    }
}
