//! Failure to open a server.

use std::io;
use std::path::{Path, PathBuf};

use super::config::ConfigError;
use catalog::CatalogError;

/// Failure to open a server. The variants differ by the administrator's reaction.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The administrator corrects `server.toml`.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The administrator stops the other server.
    #[error("another server is using {what}; stop it first")]
    InUse { what: String },
    /// The administrator runs the original, or adopts the copy.
    #[error(
        "{folder} is a copy of a server's folder: its server.lock is another file. Two servers of \
         one catalogue would destroy each other's packs. If the original is permanently lost, \
         'holdfast server adopt {folder}' makes the copy the server"
    )]
    Copied { folder: PathBuf },
    /// The administrator runs the server in the other folder, or adopts its pools.
    #[error(
        "the pool in {place} belongs to a server in another folder, which was recovered from this \
         folder or is a copy of it. If that server is permanently lost, 'holdfast server adopt \
         DIR' gives its pools to the server in DIR"
    )]
    Owned { place: PathBuf },
    /// The administrator repairs the disk, or corrects the permissions of the file.
    #[error("cannot use {path}")]
    File { path: PathBuf, source: io::Error },
    /// The administrator has the catalogue made again.
    #[error(
        "cannot open the catalogue; 'holdfast server rebuild-catalog' makes it again from the \
         copies of the catalogue in the pools"
    )]
    Catalog(#[source] CatalogError),
    /// The administrator brings the database back, or corrects its URL.
    #[error("cannot use the catalogue")]
    Database(#[source] CatalogError),
    /// The administrator mounts the pool's disk, or makes its object store answer.
    #[error("cannot open the pool in {place}")]
    Pool { place: PathBuf, source: io::Error },
}

impl OpenError {
    /// An error for the folder of a server that another process uses.
    pub(crate) fn folder_in_use(folder: &Path) -> Self {
        Self::InUse { what: format!("the folder {}", folder.display()) }
    }

    /// An error for a catalogue that another process uses.
    pub(crate) fn catalog_in_use() -> Self {
        Self::InUse { what: "the catalogue".to_owned() }
    }
}

impl From<CatalogError> for OpenError {
    fn from(error: CatalogError) -> Self {
        match error {
            CatalogError::Damaged(_) => Self::Catalog(error),
            // Rebuilding the catalogue would not help after these errors.
            error => Self::Database(error),
        }
    }
}
