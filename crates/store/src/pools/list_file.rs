//! The list of pools in a file beside the catalogue, and in the recovery file.

use std::io;
use std::path::{Path, PathBuf};

use catalog::PoolRow;
use data_encoding::HEXLOWER;
use model::PoolId;
use serde::{Deserialize, Serialize};

use super::first::{FIRST, first_row};
use crate::folder::config::{Config, POOLS_FILE, pool_folder};

/// A pool in the list.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PoolEntry {
    pub name: String,
    pub url: String,
    is_copy: bool,
    /// The pool's mark in hexadecimal digits.
    pub mark: String,
}

#[derive(Serialize, Deserialize)]
struct PoolList {
    pools: Vec<PoolEntry>,
}

impl PoolEntry {
    pub(crate) fn of(row: &PoolRow) -> Self {
        let PoolRow { name, url, is_copy, mark, .. } = row;
        let entry = Self {
            name: name.clone(),
            url: url.clone(),
            is_copy: *is_copy,
            mark: HEXLOWER.encode(mark),
        };
        assert_eq!(entry.decoded_mark().as_ref(), Some(mark), "the reader gets the same mark");
        entry
    }

    /// Returns the pool's mark; `None` if the text is damaged.
    pub(crate) fn decoded_mark(&self) -> Option<[u8; 16]> {
        HEXLOWER.decode(self.mark.as_bytes()).ok()?.try_into().ok()
    }

    /// Returns the pool's row; `None` if the mark is damaged.
    fn row(&self, config: &Config) -> Option<PoolRow> {
        Some(PoolRow {
            name: self.name.clone(),
            is_copy: self.is_copy,
            mark: self.decoded_mark()?,
            url: self.url.clone(),
            ..first_row(config)
        })
    }
}

/// Returns the rows of these pools, with the numbers that a new catalogue gives them. Returns
/// `None` if a mark is damaged.
pub(crate) fn rows(pools: &[PoolEntry], config: &Config) -> Option<Vec<PoolRow>> {
    let numbered = (FIRST.0..).zip(pools);
    numbered
        .map(|(id, pool)| Some(PoolRow { id: PoolId(id), ..pool.row(config)? }))
        .collect()
}

/// Writes the list of pools beside the catalogue.
pub(crate) fn keep_pools(folder: &Path, rows: &[PoolRow]) -> io::Result<()> {
    let list = PoolList { pools: rows.iter().map(PoolEntry::of).collect() };
    let text = toml::to_string(&list).map_err(io::Error::other)?;
    sys::durable::write(&folder.join(POOLS_FILE), text.as_bytes(), 0o600)
}

/// Reads the list of pools beside the catalogue. Returns `None` if the list is missing or damaged.
pub(crate) fn kept_pools(folder: &Path, config: &Config) -> Option<Vec<PoolRow>> {
    let text = std::fs::read_to_string(folder.join(POOLS_FILE)).ok()?;
    let list: PoolList = toml::from_str(&text).ok()?;
    rows(&list.pools, config)
}

/// Returns the folders of the pools of the server in `folder`. The list beside the catalogue names
/// them, because only the server may open its catalogue. Without the list, the first pool counts
/// alone.
pub fn pool_folders(folder: &Path, config: &Config) -> Vec<PathBuf> {
    let urls = match kept_pools(folder, config) {
        Some(rows) => rows.into_iter().map(|row| row.url).collect(),
        None => vec![config.pool.clone()],
    };
    // Buckets and volumes have no folder.
    urls.iter().filter_map(|url| pool_folder(url, folder).ok()).collect()
}
