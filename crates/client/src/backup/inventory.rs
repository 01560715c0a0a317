//! Inventory: the digests that the server has of a filespace's directories, 24 bytes for each
//! directory.

use std::collections::HashMap;

use model::{DirPath, DirectoryDigest};
use wire::DigestRow;

use crate::error::ClientError;
use crate::link::Link;
use crate::link::backup::PageKey;

/// Digests, sorted by path hash, in groups with the same first byte. When a group grows, only that
/// group is copied.
///
/// Two directories may share a hash. Then the inventory has no digest of either, and their pages
/// are fetched.
pub(super) struct Inventory {
    /// First pages of directories.
    rows: [Vec<Row>; GROUPS],
    /// Further pages of large directories, by path hash, sorted.
    further: HashMap<u64, Vec<FurtherPage>>,
}

const GROUPS: usize = 256;

/// Path hash and digest.
type Row = (u64, [u8; 16]);

/// First name and digest of a page.
type FurtherPage = (Vec<u8>, [u8; 16]);

const NO_DIGEST: [u8; 16] = [0; 16];

impl Default for Inventory {
    fn default() -> Self {
        Self { rows: [const { Vec::new() }; GROUPS], further: HashMap::new() }
    }
}

impl Inventory {
    /// Fetches the digests of all directories at or below `directory`.
    pub(super) fn fetch(
        link: &Link,
        filespace: &[u8],
        directory: &DirPath,
    ) -> Result<Self, ClientError> {
        let mut inventory = Self::default();
        link.digests(filespace, directory, |row| inventory.add(&row))?;
        inventory.sort();
        Ok(inventory)
    }

    /// Fetches the digests of `directories`, and of all directories at or below `subtrees`.
    pub(super) fn fetch_some(
        link: &Link,
        filespace: &[u8],
        directories: &[DirPath],
        subtrees: &[DirPath],
    ) -> Result<Self, ClientError> {
        let mut inventory = Self::default();
        link.digests_of(filespace, directories, subtrees, |row| inventory.add(&row))?;
        inventory.sort();
        Ok(inventory)
    }

    fn sort(&mut self) {
        for group in &mut self.rows {
            group.sort_unstable_by_key(|(hash, _)| *hash);
        }
        for pages in self.further.values_mut() {
            pages.sort_unstable();
            // The walk gives the entries of a page away once. A second row would be an empty page.
            pages.dedup_by(|second, first| {
                let is_same = second.0 == first.0;
                if is_same {
                    first.1 = NO_DIGEST;
                }
                is_same
            });
        }
    }

    fn add(&mut self, row: &DigestRow<'_>) {
        let hash = u64::from_le_bytes(row.hash.0);
        let digest = row.digest.map_or(NO_DIGEST, |digest| digest.0);
        if row.first.is_empty() {
            self.rows[group(hash)].push((hash, digest));
        } else {
            self.further.entry(hash).or_default().push((row.first.to_vec(), digest));
        }
    }

    /// Returns the pages that the server has of `directory`, in order; `None` if it has none.
    pub(super) fn get(&self, directory: &DirPath) -> Option<Vec<PageKey>> {
        let hash = hash(directory);
        let rows = &self.rows[group(hash)];
        let from = rows.partition_point(|(known, _)| *known < hash);
        let same = rows[from..].iter().take_while(|(known, _)| *known == hash);
        let mut firsts = same.map(|(_, digest)| *digest);
        let digest = firsts.next()?;
        // Two rows with the same hash belong to two directories. It is not known which row belongs
        // to which directory.
        let digest = if firsts.next().is_some() { NO_DIGEST } else { digest };
        let first = (Vec::new(), digest);
        let further = self.further.get(&hash).into_iter().flatten().cloned();
        let optional = |(first, digest): (Vec<u8>, [u8; 16])| {
            let digest = (digest != NO_DIGEST).then_some(DirectoryDigest(digest));
            PageKey { first, digest }
        };
        Some(std::iter::once(first).chain(further).map(optional).collect())
    }
}

fn group(hash: u64) -> usize {
    usize::from(hash.to_be_bytes()[0])
}

fn hash(directory: &DirPath) -> u64 {
    u64::from_le_bytes(format::path_hash(directory).0)
}

#[cfg(test)]
pub(super) mod tests {
    use model::PathHash;

    use super::*;

    fn directory(path: &str) -> DirPath {
        DirPath::new(path.as_bytes()).expect("a directory")
    }

    /// Makes an inventory of rows: path hash, first name, digest (0 for none).
    fn inventory(rows: &[(u64, &str, u8)]) -> Inventory {
        let mut inventory = Inventory::default();
        for (hash, first, digest) in rows {
            inventory.add(&DigestRow {
                hash: PathHash(hash.to_le_bytes()),
                digest: (*digest != 0).then_some(DirectoryDigest([*digest; 16])),
                first: first.as_bytes(),
            });
        }
        inventory.sort();
        inventory
    }

    /// Makes the inventory of a server that has `pages`.
    pub(in crate::backup) fn of_pages(pages: &[(DirPath, PageKey)]) -> Inventory {
        let mut inventory = Inventory::default();
        for (path, PageKey { first, digest }) in pages {
            let hash = PathHash(hash(path).to_le_bytes());
            inventory.add(&DigestRow { hash, digest: *digest, first });
        }
        inventory.sort();
        inventory
    }

    fn page(first: &str, digest: u8) -> PageKey {
        let digest = (digest != 0).then_some(DirectoryDigest([digest; 16]));
        PageKey { first: first.as_bytes().to_vec(), digest }
    }

    #[test]
    fn pages_of_a_directory_come_in_order() {
        let [a, b] = ["/a/", "/b/"].map(|path| hash(&directory(path)));
        let inventory = inventory(&[(a, "m", 3), (a, "", 1), (b, "", 0), (a, "c", 2)]);
        let pages = |path| inventory.get(&directory(path));
        assert_eq!(pages("/a/"), Some(vec![page("", 1), page("c", 2), page("m", 3)]));
        assert_eq!(pages("/b/"), Some(vec![page("", 0)]));
        assert_eq!(pages("/c/"), None);
    }

    #[test]
    fn directories_that_share_a_hash_have_no_digest() {
        let a = hash(&directory("/a/"));
        let inventory = inventory(&[(a, "", 1), (a, "", 2), (a + 1, "", 3)]);
        assert_eq!(inventory.get(&directory("/a/")), Some(vec![page("", 0)]));
    }
}
