//! Rows for the tests, and names for the errors that they expect.

use std::fmt::Debug;

use catalog::{
    Catalog, CatalogError, Collocation, LibraryRow, Node, PackRow, PackState, PageKey, PageRow,
    PartRow, PoolRow, SessionRow, StoredPack, TokenError, TokenRow, VersionRow, VolumeAccess,
    VolumeRow, VolumeState, Write,
};
use model::{
    DirPath, DirectoryDigest, DomainId, FilespaceId, Name, NodeId, NodeName, PackNumber, PoolId,
    ServerTime,
};

pub(crate) const NOW: ServerTime = ServerTime(1_700_000_000_000_000);

/// The domain that a new catalogue has.
pub(crate) const DOMAIN: &str = "STANDARD";

/// A filespace that no catalogue of these tests has.
pub(crate) const NO_FILESPACE: FilespaceId = FilespaceId(77_777);

/// A node that no catalogue of these tests has.
pub(crate) const NO_NODE: NodeId = NodeId(77_777);

/// Directories that are neighbours in byte order; some are within others.
pub(crate) fn directories() -> Vec<DirPath> {
    let paths: [&[u8]; 13] = [
        b"",
        b"/",
        b"/\x01/",
        b"/A/",
        b"/a/",
        b"/a/b/",
        b"/a/\xff/",
        b"/a-b/",
        b"/a b/",
        b"/a0/",
        b"/aa/",
        b"/a\xff/",
        b"/\xff\xff/",
    ];
    paths.map(|path| DirPath::new(path).expect("a directory path")).to_vec()
}

/// The time `seconds` after [`NOW`].
pub(crate) fn at(seconds: i64) -> ServerTime {
    ServerTime(NOW.0 + seconds * 1_000_000)
}

pub(crate) fn dir(path: &str) -> DirPath {
    DirPath::new(path.as_bytes()).expect("a directory path")
}

pub(crate) fn name(bytes: &[u8]) -> Name {
    Name::new(bytes).expect("a name")
}

pub(crate) fn node_name(name: &str) -> NodeName {
    NodeName::new(name).expect("a node's name")
}

pub(crate) fn key(directory: &DirPath, first: &[u8]) -> PageKey {
    PageKey { directory: directory.clone(), first: first.to_vec() }
}

/// A page whose body and digest differ for each key and `state`.
pub(crate) fn page(key: &PageKey, state: u8) -> PageRow {
    let body = [key.directory.as_bytes(), &key.first, &[0, state]].concat();
    PageRow {
        key: key.clone(),
        object_count: u32::from(state),
        digest: Some(DirectoryDigest([state; 16])),
        body,
    }
}

/// A version that lived from `inserted` to `deactivated`, in seconds from [`NOW`].
pub(crate) fn version(
    directory: &DirPath,
    object: &[u8],
    inserted: i64,
    deactivated: i64,
) -> VersionRow {
    let times = format!("{inserted} {deactivated}");
    VersionRow {
        directory: directory.clone(),
        name: name(object),
        inserted: at(inserted),
        deactivated: at(deactivated),
        body: [directory.as_bytes(), object, times.as_bytes()].concat(),
    }
}

pub(crate) fn pack(number: PackNumber, domain: DomainId, state: PackState) -> PackRow {
    PackRow { number, domain, state, bytes: number.0 * 1000, node: None }
}

pub(crate) fn pool(name: &str) -> PoolRow {
    PoolRow {
        id: PoolId(0),
        name: name.to_owned(),
        url: format!("file:///{name}"),
        is_copy: false,
        mark: [7; 16],
        next: None,
        capacity_bytes: None,
        high_percent: 90,
        low_percent: 70,
        delay_days: 0,
        collocation: Collocation::No,
        reclaim_percent: 60,
        reuse_delay_days: 0,
    }
}

/// A library with a changer and two drives.
pub(crate) fn library(name: &str) -> LibraryRow {
    LibraryRow {
        name: name.to_owned(),
        changer: Some("/dev/changer".to_owned()),
        drives: vec!["/dev/drive \"1\"".to_owned(), "/dev/drive-2".to_owned()],
        folder: None,
        capacity_bytes: None,
        drives_max: 2,
        retain_secs: 60,
        optimised_only: false,
        writers_max: 0,
    }
}

/// A new volume.
pub(crate) fn volume(library: &str, name: &str) -> VolumeRow {
    VolumeRow {
        id: 0,
        library: library.to_owned(),
        name: name.to_owned(),
        label: [3; 16],
        block_bytes: 1 << 18,
        pool: None,
        group: String::new(),
        state: VolumeState::Scratch,
        access: VolumeAccess::ReadWrite,
        location: String::new(),
        written_bytes: 0,
        errors: 0,
        changed: NOW,
    }
}

/// A part at `position` that is a whole pack.
pub(crate) fn part(volume: u64, position: u64) -> PartRow {
    PartRow {
        volume,
        object: [5; 16],
        object_sequence: 1,
        position,
        block_count: 1,
        first_sequence: 0,
        offset: 0,
        bytes: position * 1000,
        is_last: true,
    }
}

/// A write that stores the pack in `parts`; see [`stored`].
pub(crate) fn put_parts(pool: PoolId, pack: u64, parts: &[PartRow]) -> Write {
    Write::PutParts { pool, stored: stored(pack, parts), parts: parts.to_vec() }
}

/// A pack that was stored before [`NOW`], by as many seconds as its number.
pub(crate) fn stored(pack: u64, parts: &[PartRow]) -> StoredPack {
    let bytes = parts.iter().map(|part| part.bytes).sum();
    let seconds = i64::try_from(pack).expect("a small number");
    StoredPack { pack: PackNumber(pack), bytes, stored: at(-seconds) }
}

pub(crate) fn session(
    node: &Node,
    filespace: FilespaceId,
    started: i64,
    complete: bool,
) -> SessionRow {
    SessionRow {
        node: node.id,
        filespace,
        started: at(started),
        ended: at(started + 1),
        complete,
        report: format!("started {started}"),
    }
}

pub(crate) fn token(node: &Node, secret: u8) -> TokenRow {
    TokenRow { hash: [secret; 32], node: node.id, expires: at(60) }
}

pub(crate) fn add_node(catalog: &dyn Catalog, name: &str) -> Node {
    catalog.add_node(&node_name(name), DOMAIN, NOW).expect("a node is added")
}

/// Adds a node with the filespace `/home`.
pub(crate) fn add_filespace(catalog: &dyn Catalog, name: &str) -> (Node, FilespaceId) {
    let node = add_node(catalog, name);
    let filespace = catalog.open_filespace(node.id, b"/home", NOW).expect("a filespace is made");
    (node, filespace.id)
}

pub(crate) fn put(filespace: FilespaceId, page: PageRow) -> Write {
    Write::PutPage { filespace, page }
}

/// A write that passes all checks before its statement fails: SQL has no number of that size.
pub(crate) fn unstorable(domain: DomainId) -> Write {
    let pack = pack(PackNumber(1 << 20), domain, PackState::Open);
    Write::PutPack(PackRow { bytes: u64::MAX, ..pack })
}

pub(crate) fn add_version(filespace: FilespaceId, version: VersionRow) -> Write {
    Write::AddVersion { filespace, version }
}

/// Adds a node with rows in every table of filespaces. The rows differ for each `state`.
pub(crate) fn fill(catalog: &dyn Catalog, node_name: &str, state: u8) -> Node {
    let node = add_node(catalog, node_name);
    catalog.add_token(&token(&node, state)).expect("a token is stored");
    catalog
        .redeem_token(&[state; 32], &[state, 1], at(60), NOW)
        .expect("the token is good");
    catalog.add_token(&token(&node, state + 100)).expect("a second token is stored");
    for number in 1..=2 {
        let document = [state, number];
        catalog.add_baseline(node.id, at(state.into()), &document).expect("is kept");
    }
    for mount in [&b"/home"[..], b"/srv"] {
        let filespace = catalog.open_filespace(node.id, mount, NOW).expect("a filespace").id;
        let mut writes = Vec::new();
        for directory in &directories() {
            writes.push(put(filespace, page(&key(directory, b""), state)));
            writes.push(put(filespace, page(&key(directory, b"m"), state + 1)));
            writes.push(add_version(filespace, version(directory, b"old", 1, i64::from(state))));
        }
        writes.push(Write::AddSession(session(&node, filespace, i64::from(state), true)));
        let number = catalog.next_pack().expect("a pack's number");
        writes.push(Write::PutPack(pack(number, node.domain, PackState::Sealed)));
        catalog.commit(writes).expect("the batch is performed");
    }
    node
}

/// Name of the error in `answer`.
#[track_caller]
pub(crate) fn refusal<T: Debug, E: Into<TokenError> + Debug>(answer: Result<T, E>) -> &'static str {
    let error = match answer.expect_err("a refusal").into() {
        TokenError::Invalid(_) => return "token",
        TokenError::Catalog(error) => error,
    };
    match error {
        CatalogError::NotFound { .. } => "not found",
        CatalogError::Exists { .. } => "exists",
        CatalogError::NoSpace => "no space",
        CatalogError::Damaged(_) => "damaged",
        CatalogError::Away(_) => "away",
        CatalogError::Fenced => "fenced",
        CatalogError::Database(_) => "database",
        CatalogError::Unusable(_) => "unusable",
    }
}
