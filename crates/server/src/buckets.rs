//! The object stores of pools.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use data_encoding::HEXLOWER;

use catalog::PoolRow;
use pool::{Bucket, BucketUrl, Bucketed};

use crate::config::ConfigError;

/// What pools in object stores keep, in the server's folder.
const BUCKETS: &str = "buckets";
const SCHEME: &str = "s3:";

/// One bucket a pool, always the same for as long as the server runs.
pub(crate) struct Buckets {
    /// The server's.
    folder: PathBuf,
    /// Of packs and tables, for each.
    kept_bytes: u64,
    made: Mutex<BTreeMap<PathBuf, (String, Bucketed)>>,
}

/// Whether the pool at `url` is in an object store.
pub(crate) fn is_bucket(url: &str) -> bool {
    url.starts_with(SCHEME)
}

/// Where the bucket of the pool at `url` is.
pub(crate) fn parse(url: &str) -> Result<BucketUrl, ConfigError> {
    url.parse()
        .map_err(|source| ConfigError::BucketUrl { url: url.to_owned(), source })
}

/// Where what is kept of the pool lies.
pub(crate) fn folder_of(row: &PoolRow, server: &Path) -> PathBuf {
    server.join(BUCKETS).join(HEXLOWER.encode(&row.mark))
}

impl Buckets {
    pub(crate) fn new(folder: &Path, kept_bytes: u64) -> Self {
        Self { folder: folder.to_owned(), kept_bytes, made: Mutex::default() }
    }

    /// The bucket of the pool, if it has one.
    pub(crate) fn of(&self, row: &PoolRow) -> Result<Option<Bucketed>, ConfigError> {
        if !is_bucket(&row.url) {
            return Ok(None);
        }
        let folder = folder_of(row, &self.folder);
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((url, bucket)) = made.get(&folder)
            && *url == row.url
        {
            return Ok(Some(bucket.clone()));
        }
        let unusable = |source| ConfigError::Bucket { url: row.url.clone(), source };
        let new = Bucket::new(parse(&row.url)?, &folder, self.kept_bytes).map_err(unusable)?;
        let bucket = Bucketed(Arc::new(new));
        made.insert(folder, (row.url.clone(), bucket.clone()));
        Ok(Some(bucket))
    }
}
