//! What the server knows of a filespace's directories: their digests, 24 bytes a directory.

use std::collections::HashMap;

use model::{DirPath, DirectoryDigest};
use tonic::Streaming;
use wire::proto;

use crate::ClientError;
use crate::ErrorKind;
use crate::link::Link;

/// Digests by path hash, sorted, in groups of the same first byte: growing, a group copies only
/// itself.
///
/// Two directories may share a hash: then neither is found, and their pages are asked for.
pub(super) struct Inventory {
    /// First pages.
    rows: [Vec<Row>; GROUPS],
    /// Further pages of large directories: first name and digest, sorted.
    further: HashMap<u64, Vec<FurtherPage>>,
}

const GROUPS: usize = 256;

/// Path hash and digest.
type Row = (u64, [u8; 16]);

/// First name and digest.
type FurtherPage = (Vec<u8>, [u8; 16]);

/// What is known of one directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// The server has no page of it.
    Nothing,
    /// Its pages in order: first name (empty for the first page) and digest.
    Pages(Vec<(Vec<u8>, Option<DirectoryDigest>)>),
}

const NO_DIGEST: [u8; 16] = [0; 16];

impl Default for Inventory {
    fn default() -> Self {
        Self { rows: [const { Vec::new() }; GROUPS], further: HashMap::new() }
    }
}

impl Inventory {
    /// Fetches the digests of all directories at or below `within`.
    pub(super) fn fetch(
        link: &Link,
        filespace: &[u8],
        within: &DirPath,
    ) -> Result<Self, ClientError> {
        let request = proto::DigestsRequest {
            filespace: filespace.to_vec().into(),
            directory: within.as_bytes().to_vec().into(),
        };
        let mut client = link.client();
        link.runtime.block_on(async {
            let mut stream = client.digests(request).await?.into_inner();
            Self::receive(&mut stream).await
        })
    }

    async fn receive(stream: &mut Streaming<proto::Rows>) -> Result<Self, ClientError> {
        let mut inventory = Self::default();
        while let Some(message) = stream.message().await? {
            if !inventory.add(&message.rows) {
                return Err(ClientError::new(ErrorKind::Bug, "the server sent torn digest rows"));
            }
        }
        inventory.sort();
        Ok(inventory)
    }

    fn sort(&mut self) {
        for group in &mut self.rows {
            group.sort_unstable_by_key(|(hash, _)| *hash);
        }
        self.further.values_mut().for_each(|pages| pages.sort_unstable());
    }

    fn add(&mut self, rows: &[u8]) -> bool {
        wire::decode_digest_rows(rows, |row| {
            let hash = u64::from_le_bytes(row.hash.0);
            let digest = row.digest.map_or(NO_DIGEST, |digest| digest.0);
            if row.first.is_empty() {
                self.rows[group(hash)].push((hash, digest));
            } else {
                self.further.entry(hash).or_default().push((row.first.to_vec(), digest));
            }
        })
    }

    /// What the server knows of `directory`.
    pub(super) fn get(&self, directory: &DirPath) -> Known {
        let hash = hash(directory);
        let rows = &self.rows[group(hash)];
        let from = rows.partition_point(|(known, _)| *known < hash);
        let same = rows[from..].iter().take_while(|(known, _)| *known == hash);
        let mut firsts = same.map(|(_, digest)| *digest);
        let Some(digest) = firsts.next() else { return Known::Nothing };
        // Rows of two directories: which belongs to which is not known.
        let digest = if firsts.next().is_some() { NO_DIGEST } else { digest };
        let first = (Vec::new(), digest);
        let further = self.further.get(&hash).into_iter().flatten().cloned();
        let optional = |(first, digest): (Vec<u8>, [u8; 16])| {
            (first, (digest != NO_DIGEST).then_some(DirectoryDigest(digest)))
        };
        Known::Pages(std::iter::once(first).chain(further).map(optional).collect())
    }
}

fn group(hash: u64) -> usize {
    usize::from(hash.to_be_bytes()[0])
}

fn hash(directory: &DirPath) -> u64 {
    u64::from_le_bytes(format::path_hash(directory).0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::PathHash;

    fn row(path: &str, first: &str, digest: u8) -> Vec<u8> {
        let path = DirPath::new(path.as_bytes()).expect("a directory");
        let mut bytes = Vec::new();
        wire::encode_digest_row(
            &mut bytes,
            &wire::DigestRow {
                hash: PathHash(hash(&path).to_le_bytes()),
                digest: (digest != 0).then_some(DirectoryDigest([digest; 16])),
                first: first.as_bytes(),
            },
        );
        bytes
    }

    #[test]
    fn pages_of_a_directory_come_in_order() {
        let mut inventory = Inventory::default();
        for (path, first, digest) in
            [("/a/", "m", 3), ("/a/", "", 1), ("/b/", "", 0), ("/a/", "c", 2)]
        {
            assert!(inventory.add(&row(path, first, digest)));
        }
        inventory.sort();
        let known = |path: &str| inventory.get(&DirPath::new(path.as_bytes()).expect("a path"));
        let page = |first: &str, digest: u8| {
            (first.as_bytes().to_vec(), Some(DirectoryDigest([digest; 16])))
        };
        assert_eq!(known("/a/"), Known::Pages(vec![page("", 1), page("c", 2), page("m", 3)]));
        assert_eq!(known("/b/"), Known::Pages(vec![(Vec::new(), None)]));
        assert_eq!(known("/c/"), Known::Nothing);
    }
}
