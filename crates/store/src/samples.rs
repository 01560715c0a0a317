//! Objects and servers for tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use catalog::change::{Change, PageStart, apply};
use catalog::{Node, PageKey};
use chunk::{Compression, Compressor, RawQuantum};
use model::{
    ChunkRange, ClassId, DirPath, Extent, FilespaceId, Kind, Name, NodeId, NodeName, Object,
    PackNumber, Payload, ServerTime, SessionPlace, Stat, Timestamp,
};
use pool::Filler;

use crate::error::StoreError;
use crate::folder::config::pool_folder;
use crate::folder::{Config, Credentials};
use crate::intake::{Check, Intake, Origin, PageChange, ReceivedQuantum, StoredQuantum, take_in};
use crate::pages::{decode_page, writes};
use crate::pools::{self, NewPool, PoolSummary};
use crate::store::{DOMAIN, Store};

/// Returns a file that was inserted at the time 0.
pub(crate) fn file<P>(name: Name, class: ClassId, size: u64, extents: Vec<Extent<P>>) -> Object<P> {
    let time = Timestamp { secs: 1, nanos: 0 };
    Object {
        name,
        stat: Stat {
            kind: Kind::File,
            mode: 0,
            uid: 0,
            gid: 0,
            size,
            mtime: time,
            ctime: time,
            inode: 1,
            linked: false,
            device: 0,
        },
        attributes: Arc::default(),
        class,
        inserted: ServerTime(0),
        payload: Payload::Extents(extents),
    }
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a name")
}

pub(crate) fn directory(text: &str) -> DirPath {
    DirPath::new(text.as_bytes()).expect("a directory")
}

/// Returns the content of the chunk with this number.
pub(crate) fn chunk(number: u64) -> Vec<u8> {
    let mut bytes = vec![0; 100 + usize::try_from(number * 37 % 400).expect("small")];
    blake3::Hasher::new()
        .update(&number.to_le_bytes())
        .finalize_xof()
        .fill(&mut bytes);
    bytes
}

/// Returns the size of a file that has these chunks.
pub(crate) fn bytes_of(chunks: &[u64]) -> u64 {
    chunks.iter().map(|number| chunk(*number).len() as u64).sum()
}

/// Returns the record of a quantum of these chunks, and its check, as a node computes them.
pub(crate) fn quantum(store: &Store, chunks: &[u64]) -> (Vec<u8>, Check) {
    let chunks: Vec<Vec<u8>> = chunks.iter().map(|number| chunk(*number)).collect();
    quantum_of(store, &chunks)
}

/// Returns the record of a quantum of chunks with these contents, and its check, as a node computes
/// them.
pub(crate) fn quantum_of(store: &Store, chunks: &[Vec<u8>]) -> (Vec<u8>, Check) {
    let mut raw = RawQuantum::default();
    for chunk in chunks {
        raw.push(chunk);
    }
    let digests: Vec<_> = raw.chunks().map(|chunk| store.pools.digest_of(DOMAIN, chunk)).collect();
    let record = Compressor::new(Compression::Standard).expect("a context").encode(&raw);
    (record, Check::Digests(wire::quantum_check(&digests).to_vec()))
}

/// Returns the origin of quanta that `node` sends.
pub(crate) fn origin(node: NodeId) -> Origin {
    Origin { node, filler: Filler::any(DOMAIN) }
}

/// Stores a quantum of these chunks of the node of a [`TestServer`].
pub(crate) fn stored(store: &Store, chunks: &[u64]) -> StoredQuantum {
    take_in(store, origin(NODE), received(&quantum(store, chunks))).expect("there is room")
}

/// Returns a quantum as the server receives it.
pub(crate) fn received((record, check): &(Vec<u8>, Check)) -> ReceivedQuantum<'_> {
    ReceivedQuantum { record, check: check.clone(), is_encrypted: false }
}

/// Returns a file whose chunks are the first chunks of the session's quantum `quantum`.
pub(crate) fn sent_file(name: Name, quantum: u64, chunks: &[u64]) -> Object<SessionPlace> {
    let count = u32::try_from(chunks.len()).expect("few");
    let first = SessionPlace::Sent { quantum, index: 0 };
    file(name, ClassId(1), bytes_of(chunks), vec![Extent::Chunks(ChunkRange { first, count })])
}

/// Returns a change of the directory's first page that changes nothing.
pub(crate) fn page_change(path: &str) -> PageChange {
    PageChange {
        key: PageKey::first_of(directory(path)),
        backed_up: Vec::new(),
        updated: Vec::new(),
        expired: Vec::new(),
        grants: Vec::new(),
        pages: vec![PageStart::default()],
        known: Vec::new(),
    }
}

/// Returns the folder for servers of tests. It is in memory if the system has such a folder.
pub(crate) fn memory() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() { memory } else { std::env::temp_dir() }
}

/// Creates a server in the new folder `folder`. Its credentials are empty, because no session needs
/// them. Nodes share all chunks, because the chunks of tests are short.
pub(crate) fn server(folder: &Path) -> Config {
    let credentials = Credentials { ca_certificate: String::new(), ca_key: String::new() };
    let new = crate::NewServer { listen: "127.0.0.1:0", pool: None, catalog: None, api: None };
    let made = crate::init(folder, &credentials, new).expect("a server");
    Config { shared_chunk_bytes_min: 0, ..made }
}

/// Name of the file with the mark of a pool.
const MARK_FILE: &str = "holdfast-pool";

/// The node of a [`TestServer`].
const NODE: NodeId = NodeId(1);

/// A server with one node and one filespace. Dropping it removes its folder.
pub(crate) struct TestServer {
    pub(crate) store: Arc<Store>,
    pub(crate) node: Node,
    pub(crate) filespace: FilespaceId,
    config: Config,
    path: PathBuf,
    temporary: tempfile::TempDir,
}

impl TestServer {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    /// Creates a server whose configuration `configure` has changed.
    pub(crate) fn with(configure: impl FnOnce(&mut Config)) -> Self {
        let temporary = tempfile::tempdir_in(memory()).expect("a folder");
        let path = temporary.path().join("server");
        let mut config = server(&path);
        configure(&mut config);
        let store = Arc::new(Store::open_alone(&path, &config).expect("opens"));
        let (node_name, time) = (NodeName::new("a").expect("a name"), ServerTime(1));
        let node = store.catalog.add_node(&node_name, policy::STANDARD, time).expect("added");
        assert_eq!(node.id, NODE, "the first node");
        let filespace = store.catalog.open_filespace(node.id, b"/", time).expect("made").id;
        Self { store, node, filespace, config, path, temporary }
    }

    /// Returns the server's own folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a path beside the server's folder.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.temporary.path().join(name)
    }

    /// Opens the server again as after a kill: all data that was not committed is lost.
    pub(crate) fn reopen(&mut self) {
        self.store.ownership.die();
        let store = Store::open_alone(&self.path, &self.config).expect("opens again");
        self.store = Arc::new(store);
    }

    /// Closes the server. Returns its folder, which is removed when the result is dropped.
    pub(crate) fn keep(self) -> tempfile::TempDir {
        self.temporary
    }

    pub(crate) fn intake(&self) -> Intake {
        Intake::open(&self.store, self.node.clone(), b"/").expect("nobody else has it")
    }

    /// Backs up files with these names and chunks.
    pub(crate) fn back_up(&self, path: &str, files: &[(&str, &[u64])]) {
        let mut intake = self.intake();
        let numbered = || (1..).zip(files);
        let quanta = numbered().map(|(number, (_, chunks))| (number, stored(&self.store, chunks)));
        let quanta = quanta.collect();
        let object = |(quantum, (text, chunks)): (u64, &(&str, &[u64]))| {
            sent_file(name(text), quantum, chunks)
        };
        let backed_up = numbered().map(object).collect();
        let change = PageChange { backed_up, ..page_change(path) };
        let committed = intake.commit(quanta, &|_| Ok(vec![change.clone()])).expect("committed");
        assert_eq!(committed.rejected, []);
        intake.close(true, "{}").expect("recorded");
    }

    /// Applies `change` to the first page of the directory at the moment `now`.
    pub(crate) fn apply(&self, path: &str, change: Change, now: ServerTime) {
        let key = PageKey::first_of(directory(path));
        let change = Change { pages: vec![PageStart::default()], ..change };
        let changed = apply(&key, self.objects(path), change, now).expect("it fits");
        let writes = writes(self.filespace, &key.directory, changed, now);
        self.store.commit(writes).expect("is performed");
    }

    /// Returns the active objects in the first page of the directory.
    pub(crate) fn objects(&self, path: &str) -> Vec<Object> {
        let key = PageKey::first_of(directory(path));
        let page = self.store.catalog.page(self.filespace, &key).expect("is read");
        page.map_or(Vec::new(), |row| decode_page(&row).expect("a page"))
    }

    /// Returns the path of the pack's file in the pool at `url`.
    pub(crate) fn pack_file(&self, url: &str, pack: PackNumber) -> PathBuf {
        let folder = pool_folder(url, &self.path).expect("a folder");
        folder
            .join(format!("{:07}", pack.0 / 1000))
            .join(format!("{:010}.pack", pack.0))
    }

    /// Changes a byte of each quantum of the pack in the first pool.
    pub(crate) fn damage(&self, pack: PackNumber) {
        let table = self.store.pools.table(pack).expect("exists");
        let path = self.pack_file(&self.config.pool, pack);
        let mut bytes = std::fs::read(&path).expect("exists");
        for quantum in table.quanta() {
            let middle = quantum.offset + u64::from(quantum.record_bytes) / 2;
            bytes[usize::try_from(middle).expect("in the file")] ^= 1;
        }
        std::fs::write(&path, bytes).expect("is changed");
    }

    /// Creates another pool in a folder beside the server's folder.
    pub(crate) fn add_pool(&self, name: &str, is_copy: bool) -> PoolSummary {
        let url = format!("file://{}", self.beside(name).display());
        let new = NewPool { name: name.to_owned(), url, is_copy, ..NewPool::default() };
        pools::add(&self.store, &new).expect("is made")
    }

    /// Seals all packs, and records this.
    pub(crate) fn seal(&self) {
        self.store.pools.seal_all().expect("is sealed");
        self.store.commit(Vec::new()).expect("is recorded");
    }
}

/// Makes the pool in `folder` unavailable, as if its disk were not mounted.
pub(crate) fn unmount(folder: &Path) {
    let mark = folder.join(MARK_FILE);
    std::fs::rename(&mark, mark.with_extension("aside")).expect("it was there");
}

/// Makes the pool in `folder` available again after [`unmount`].
pub(crate) fn mount(folder: &Path) {
    let mark = folder.join(MARK_FILE);
    std::fs::rename(mark.with_extension("aside"), mark).expect("it was unmounted");
}

/// Asserts that the text of the error has `part` in it, and returns the error.
#[track_caller]
pub(crate) fn refused<T>(outcome: Result<T, StoreError>, part: &str) -> StoreError {
    let error = outcome.err().expect("it is refused");
    assert!(error.to_string().contains(part), "{error}");
    error
}
