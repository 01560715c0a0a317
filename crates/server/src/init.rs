//! Making a new server.

use std::path::Path;

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
/// own. The server listens at `listen`. `pool` and `catalog` are the URLs of its first pool and of
/// its catalogue; without a URL they are in the folder.
pub fn init(
    folder: &Path,
    listen: &str,
    pool: Option<&str>,
    catalog: Option<&str>,
) -> Result<Config, InitError> {
    let credentials = authority::make_ca(sys::clock::system())?;
    Ok(store::init(folder, &credentials, listen, pool, catalog)?)
}
