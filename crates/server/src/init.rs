//! Making a new server.

use std::path::Path;

use store::NewServer;
use store::folder::{self, Config};

use crate::authority::{self, AuthorityError};

/// An error of making a server.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    #[error(transparent)]
    Folder(#[from] folder::InitError),
    #[error(transparent)]
    Authority(#[from] AuthorityError),
}

/// Makes a server in `folder`, which must be empty or absent, with a certificate authority of its
/// own.
pub fn init(folder: &Path, new: NewServer<'_>) -> Result<Config, InitError> {
    let credentials = authority::make_ca(sys::clock::system())?;
    Ok(store::init(folder, &credentials, new)?)
}
