//! Buckets of the pools that are in object stores.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use sys::lock::Mutex;

use data_encoding::HEXLOWER;

use catalog::PoolRow;
use pool::{Bucket, BucketUrl};

use crate::folder::config::ConfigError;

/// Folder for the state files of pools in object stores, in the server's folder.
const BUCKETS: &str = "buckets";
const SCHEME: &str = "s3:";

/// One bucket for each pool in an object store. A pool keeps its bucket until its URL changes.
pub struct Buckets {
    /// The server's folder.
    folder: PathBuf,
    /// Maximum size of the packs and tables that a pool keeps on the server's disk.
    kept_bytes: u64,
    /// Buckets with their URLs, by the folders of their state files.
    open: Mutex<BTreeMap<PathBuf, (String, Arc<Bucket>)>>,
}

/// Returns true for the URL of a pool in an object store.
pub fn is_bucket(url: &str) -> bool {
    url.starts_with(SCHEME)
}

/// Parses the URL of a pool in an object store.
pub fn parse(url: &str) -> Result<BucketUrl, ConfigError> {
    url.parse()
        .map_err(|source| ConfigError::BucketUrl { url: url.to_owned(), source })
}

/// Returns the folder for the state files of the pool. `server` is the server's folder.
pub fn folder_of(row: &PoolRow, server: &Path) -> PathBuf {
    server.join(BUCKETS).join(HEXLOWER.encode(&row.mark))
}

impl Buckets {
    pub fn new(folder: &Path, kept_bytes: u64) -> Self {
        Self { folder: folder.to_owned(), kept_bytes, open: Mutex::default() }
    }

    /// Returns the bucket of the pool; `None` for a pool that is not in an object store.
    pub fn of(&self, row: &PoolRow) -> Result<Option<Arc<Bucket>>, ConfigError> {
        if !is_bucket(&row.url) {
            return Ok(None);
        }
        let folder = folder_of(row, &self.folder);
        let mut open = self.open.lock();
        if let Some((url, bucket)) = open.get(&folder)
            && *url == row.url
        {
            return Ok(Some(Arc::clone(bucket)));
        }
        let unusable = |source| ConfigError::Bucket { url: row.url.clone(), source };
        let new = Bucket::new(parse(&row.url)?, &folder, self.kept_bytes).map_err(unusable)?;
        let bucket = Arc::new(new);
        open.insert(folder, (row.url.clone(), Arc::clone(&bucket)));
        Ok(Some(bucket))
    }
}
