//! Directory digests of a filespace.

use bytes::Bytes;
use model::DirPath;
use tonic::Streaming;
use wire::{DigestRow, proto};

use super::Link;
use crate::error::{ClientError, ErrorKind};

/// Maximum number of bytes of the rows of a filespace. A row has 25 bytes and the first name of its
/// page, so this is enough for more than 100 million directories.
const ROWS_BYTES_MAX: u64 = 4 << 30;

/// Maximum number of directories in one request, and size of their paths, in bytes, at which it is
/// sent.
const REQUEST_DIRECTORIES: usize = 4096;
const REQUEST_BYTES: usize = 1 << 20;

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
            let stream = client.digests(request).await?.into_inner();
            rows(stream, &mut ROWS_BYTES_MAX.clone(), &mut add).await
        })
    }

    /// Calls `add` with the digest row of each page of each of `directories`, and of each directory
    /// at or below one of `subtrees`.
    pub(crate) fn digests_of(
        &self,
        filespace: &[u8],
        directories: &[DirPath],
        subtrees: &[DirPath],
        mut add: impl FnMut(DigestRow<'_>),
    ) -> Result<(), ClientError> {
        let mut client = self.client();
        let mut bytes_left = ROWS_BYTES_MAX;
        let of_directories = portions(directories).map(|portion| (portion, Vec::new()));
        let of_subtrees = portions(subtrees).map(|portion| (Vec::new(), portion));
        for (directories, subtrees) in of_directories.chain(of_subtrees) {
            let filespace = filespace.to_vec().into();
            let request = proto::DigestsOfRequest { filespace, directories, subtrees };
            self.runtime.block_on(async {
                let stream = client.digests_of(request).await?.into_inner();
                rows(stream, &mut bytes_left, &mut add).await
            })?;
        }
        Ok(())
    }
}

/// Divides paths into portions that fit a message.
fn portions(paths: &[DirPath]) -> impl Iterator<Item = Vec<Bytes>> {
    let mut rest = paths;
    std::iter::from_fn(move || {
        let (mut portion, mut bytes) = (Vec::new(), 0);
        while let [path, after @ ..] = rest
            && portion.len() < REQUEST_DIRECTORIES
            && bytes < REQUEST_BYTES
        {
            bytes += path.as_bytes().len();
            portion.push(Bytes::copy_from_slice(path.as_bytes()));
            rest = after;
        }
        (!portion.is_empty()).then_some(portion)
    })
}

/// Reads rows to the end of the stream.
async fn rows(
    mut stream: Streaming<proto::Rows>,
    bytes_left: &mut u64,
    add: &mut impl FnMut(DigestRow<'_>),
) -> Result<(), ClientError> {
    while let Some(message) = stream.message().await? {
        let bytes = message.rows.len() as u64;
        *bytes_left = bytes_left.checked_sub(bytes).ok_or_else(|| {
            let message = "the server sent more digest rows than a filespace can have";
            ClientError::new(ErrorKind::Bug, message)
        })?;
        if !wire::decode_digest_rows(&message.rows, &mut *add) {
            let message = "the server sent incomplete digest rows";
            return Err(ClientError::new(ErrorKind::Bug, message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions_are_bounded_and_lose_nothing() {
        let path = |number: usize| {
            DirPath::new(format!("/{number:0>200}/").as_bytes()).expect("a directory")
        };
        for count in [0, 1, REQUEST_DIRECTORIES, REQUEST_DIRECTORIES + 1] {
            let paths: Vec<DirPath> = (0..count).map(path).collect();
            let all: Vec<Vec<Bytes>> = portions(&paths).collect();
            assert!(all.iter().flatten().eq(paths.iter().map(DirPath::as_bytes)));
            assert_eq!(all.len(), count.div_ceil(REQUEST_DIRECTORIES));
        }
        let long: Vec<DirPath> = (0..100)
            .map(|number| {
                let parts = format!("{number:0>200}/").repeat(300);
                DirPath::new(format!("/{parts}").as_bytes()).expect("a directory")
            })
            .collect();
        assert!(portions(&long).count() > 1, "long paths make short portions");
        assert_eq!(portions(&long).flatten().count(), 100);
    }
}
