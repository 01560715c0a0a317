//! Directory digests of a filespace.

use model::DirPath;
use wire::{DigestRow, proto};

use super::Link;
use crate::error::{ClientError, ErrorKind};

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
        self.runtime.block_on(async {
            let mut stream = client.digests(request).await?.into_inner();
            while let Some(message) = stream.message().await? {
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
