//! Failure to open a server.

use std::io;
use std::path::PathBuf;

use super::config::ConfigError;
use catalog::CatalogError;
use index::IndexError;

/// Failure to open a server.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("another server is running on {folder}")]
    Locked { folder: PathBuf },
    #[error(
        "{folder} is a copy of a server's folder: its server.lock is another file. Two servers of \
         one catalogue would destroy each other's packs. If the original is gone for good, \
         'holdfast server adopt {folder}' makes the copy the server"
    )]
    Copied { folder: PathBuf },
    #[error(
        "the pool in {place} belongs to a server in another folder, which was recovered from this \
         one or is a copy of it. If that one is gone for good, 'holdfast server adopt DIR' gives \
         its pools to the server in DIR"
    )]
    Owned { place: PathBuf },
    #[error("cannot use {path}")]
    File { path: PathBuf, source: io::Error },
    #[error(
        "cannot open the catalogue; 'holdfast server rebuild-catalog' makes it again from its \
         copies in the pools"
    )]
    Catalog(#[source] CatalogError),
    #[error("cannot use the catalogue")]
    Database(#[source] CatalogError),
    #[error("cannot open the pool in {place}")]
    Pool { place: PathBuf, source: io::Error },
    #[error("cannot open the chunk index")]
    Index(#[from] IndexError),
    #[error("another server has the catalogue; stop it first")]
    Claimed,
}

impl From<CatalogError> for OpenError {
    fn from(error: CatalogError) -> Self {
        match error {
            CatalogError::Damaged(_) => Self::Catalog(error),
            // Making the catalogue again would not help against these.
            error => Self::Database(error),
        }
    }
}
