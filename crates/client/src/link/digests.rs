//! Directory digests of a filespace.

use model::DirPath;
use wire::{DigestRow, proto};

use super::Link;
use crate::error::{ClientError, ErrorKind};

/// Maximum number of bytes of the rows of a filespace. A row has 25 bytes and the first name of its
/// page, so this is enough for more than 100 million directories.
const ROWS_BYTES_MAX: u64 = 4 << 30;

impl Link {
    /// Calls `add` with the digest row of each page of each directory at or below `directory`.
    pub(crate) fn digests(
        &self,
        filespace: &[u8],
        directory: &DirPath,
        mut add: impl FnMut(DigestRow<'_>),
    ) -> Result<(), ClientError> {
        let request = proto::DigestsRequest {
            filespace: filespace.to_vec().into(),
            directory: directory.as_bytes().to_vec().into(),
        };
        let mut client = self.client();
        let mut bytes_left = ROWS_BYTES_MAX;
        self.runtime.block_on(async {
            let mut stream = client.digests(request).await?.into_inner();
            while let Some(message) = stream.message().await? {
                let bytes = message.rows.len() as u64;
                bytes_left = bytes_left.checked_sub(bytes).ok_or_else(|| {
                    let message = "the server sent more digest rows than a filespace can have";
                    ClientError::new(ErrorKind::Bug, message)
                })?;
                if !wire::decode_digest_rows(&message.rows, &mut add) {
                    return Err(ClientError::new(
                        ErrorKind::Bug,
                        "the server sent incomplete digest rows",
                    ));
                }
            }
            Ok(())
        })
    }
}
