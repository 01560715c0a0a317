//! The list of pools in a file beside the catalogue, and in the recovery file.

use std::io;
use std::path::{Path, PathBuf};

use catalog::{LibraryRow, PoolRow};
use data_encoding::HEXLOWER;
use model::PoolId;
use serde::{Deserialize, Serialize};

use super::first::{FIRST, first_row};
use crate::folder::config::{Config, POOLS_FILE, pool_folder};
use crate::volumes::holdings::library_of;
use crate::volumes::site::is_same;

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
    /// Folders of libraries that have pools. Only the server may read them from the catalogue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    library_folders: Vec<String>,
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

/// Writes the list of pools beside the catalogue, with the folders of those of `libraries` that
/// have pools.
pub(crate) fn keep_pools(
    folder: &Path,
    rows: &[PoolRow],
    libraries: &[LibraryRow],
) -> io::Result<()> {
    let has_pool = |library: &&LibraryRow| {
        let mut names = rows.iter().filter_map(|row| library_of(&row.url));
        names.any(|name| is_same(name, &library.name))
    };
    let in_use = libraries.iter().filter(has_pool);
    let list = PoolList {
        library_folders: in_use.filter_map(|library| library.folder.clone()).collect(),
        pools: rows.iter().map(PoolEntry::of).collect(),
    };
    let text = toml::to_string(&list).map_err(io::Error::other)?;
    sys::durable::write(&folder.join(POOLS_FILE), text.as_bytes(), 0o600)
}

/// Reads the list of pools beside the catalogue. Returns `None` if the list is missing or damaged.
pub(crate) fn kept_pools(folder: &Path, config: &Config) -> Option<Vec<PoolRow>> {
    rows(&read_list(folder)?.pools, config)
}

fn read_list(folder: &Path) -> Option<PoolList> {
    let text = std::fs::read_to_string(folder.join(POOLS_FILE)).ok()?;
    toml::from_str(&text).ok()
}

/// Returns the folders with data of the server in `folder`: those of its pools, and those of
/// libraries that have pools. The list beside the catalogue names them, because only the server may
/// open its catalogue. Without the list, the first pool counts alone.
pub fn pool_folders(folder: &Path, config: &Config) -> Vec<PathBuf> {
    let Some(PoolList { library_folders, pools }) = read_list(folder) else {
        return pool_folder(&config.pool, folder).into_iter().collect();
    };
    // Buckets have no folder.
    let of_pools = pools.iter().filter_map(|pool| pool_folder(&pool.url, folder).ok());
    of_pools.chain(library_folders.iter().map(PathBuf::from)).collect()
}
