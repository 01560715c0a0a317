//! Directory pages: the active objects of filespaces.

use format::path_hash;
use model::{DirPath, DirectoryDigest, FilespaceId, PathHash};

use crate::CatalogError;

/// The key of a page: its directory and its first name, which is empty for a directory's first
/// page.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PageKey {
    pub directory: DirPath,
    pub first: Vec<u8>,
}

impl PageKey {
    /// The first page of `directory`.
    pub fn first_of(directory: DirPath) -> Self {
        Self { directory, first: Vec::new() }
    }
}

/// A directory page as stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageRow {
    pub key: PageKey,
    pub object_count: u32,
    pub digest: Option<DirectoryDigest>,
    /// Objects, as `format::page` encodes them.
    pub body: Vec<u8>,
}

impl PageRow {
    /// Returns the digest row of the page.
    pub(crate) fn digest_row(&self) -> PageDigest {
        let PageKey { directory, first } = &self.key;
        PageDigest { hash: path_hash(directory), first: first.clone(), digest: self.digest }
    }
}

/// The digest row of a page, which has no body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageDigest {
    pub hash: PathHash,
    pub first: Vec<u8>,
    pub digest: Option<DirectoryDigest>,
}

impl PageDigest {
    /// Returns what the row adds to the sum of its filespace: see [`Pages::digest_sum`].
    pub fn addend(&self) -> u128 {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.hash.0);
        hasher.update(&self.digest.map_or([0; 16], |digest| digest.0));
        hasher.update(&self.first);
        let mut short = [0; 16];
        short.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        u128::from_le_bytes(short)
    }
}

/// A range of directories.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PageSpan {
    Directory(DirPath),
    Subtree(DirPath),
}

impl PageSpan {
    /// The lowest directory path of the span, and the lowest path after the span if there is one.
    pub fn bounds(&self) -> (&[u8], Option<Vec<u8>>) {
        match self {
            Self::Directory(path) => {
                let mut end = path.as_bytes().to_vec();
                end.push(0);
                (path.as_bytes(), Some(end))
            }
            Self::Subtree(path) => {
                let end = path.end_of_subtree();
                debug_assert!(end.as_deref().is_none_or(|end| path.as_bytes() < end));
                (path.as_bytes(), end)
            }
        }
    }
}

/// The directory pages of filespaces.
pub trait Pages {
    /// Calls `visit` with the digest of every page at or below `within`, in no order, until `visit`
    /// returns false. For the root this includes the page above the root, which holds the root
    /// itself. `visit` may take long: nothing is held while it runs, and it sees later changes. A
    /// page that is removed and made again meanwhile may come twice, or not at all. So a caller for
    /// whom that matters has the claim on the filespace.
    fn digests(
        &self,
        filespace: FilespaceId,
        within: &DirPath,
        visit: &mut dyn FnMut(&PageDigest) -> bool,
    ) -> Result<(), CatalogError>;

    /// Calls `visit` with the digest of every page of `directory` itself, in no order, until
    /// `visit` returns false.
    fn directory_digests(
        &self,
        filespace: FilespaceId,
        directory: &DirPath,
        visit: &mut dyn FnMut(&PageDigest) -> bool,
    ) -> Result<(), CatalogError>;

    /// Returns the sum of the hashes of all digest rows of the filespace, modulo 2^128. Two equal
    /// sums mean equal digests of all pages. The sum is kept with each batch, because reading all
    /// rows of a large filespace takes about a second; it is counted if it is not kept yet.
    fn digest_sum(&self, filespace: FilespaceId) -> Result<u128, CatalogError>;

    /// Returns the directories with a page without a digest, in no order, some of them perhaps
    /// twice. The directory above the root is left out. Returns `None` if there are more than
    /// `pages_max` such pages.
    fn undigested(
        &self,
        filespace: FilespaceId,
        pages_max: usize,
    ) -> Result<Option<Vec<DirPath>>, CatalogError>;

    /// Returns the page with this key, if it exists.
    fn page(&self, filespace: FilespaceId, key: &PageKey) -> Result<Option<PageRow>, CatalogError>;

    /// Returns the pages that exist for `keys`, in no order. An engine that is reached over a
    /// network looks up many keys with one request.
    fn pages_at(
        &self,
        filespace: FilespaceId,
        keys: &[PageKey],
    ) -> Result<Vec<PageRow>, CatalogError>;

    /// The page of `directory` that holds or would hold `name`: the last page whose first name is
    /// not greater than `name`.
    fn page_holding(
        &self,
        filespace: FilespaceId,
        directory: &DirPath,
        name: &[u8],
    ) -> Result<Option<PageRow>, CatalogError>;

    /// At most `limit` pages of `span` after `after`, in order of directory path and first name.
    fn pages(
        &self,
        filespace: FilespaceId,
        span: &PageSpan,
        after: Option<&PageKey>,
        limit: usize,
    ) -> Result<Vec<PageRow>, CatalogError>;

    /// Number of active objects at or below `directory`.
    fn count_objects(
        &self,
        filespace: FilespaceId,
        directory: &DirPath,
    ) -> Result<u64, CatalogError>;
}
