//! What is asked of the catalogue, as statements: for any engine.

use std::collections::BTreeMap;
use std::path::Path;

use ::policy::{PolicyDomain, PolicySet};
use model::{
    ClassId, DirPath, DomainId, FilespaceId, NodeId, NodeName, PackNumber, PoolId, ServerTime,
};

use super::{Engine, archive, expiry, identity, policy, pools, read, tape, tasks, write};
use crate::{
    ArchiveRow, Catalog, CatalogError, Certificate, Day, DeletionRow, EventRow, ExpiryState,
    Filespace, LibraryRow, Node, NodeChange, OptionSet, PackRow, PageDigest, PageKey, PageRow,
    PageSpan, PartRow, PoolRow, SessionRow, StoredPack, TaskRun, TokenRow, VersionRow, VolumeRow,
    Write,
};

impl<E: Engine> Catalog for E {
    fn add_node(
        &self,
        name: &NodeName,
        domain: &str,
        now: ServerTime,
    ) -> Result<Node, CatalogError> {
        let (name, domain) = (name.clone(), domain.to_owned());
        self.write(move |sql| identity::add_node(sql, &name, &domain, now))
    }

    fn nodes(&self) -> Result<Vec<Node>, CatalogError> {
        self.read(identity::nodes)
    }

    fn node(&self, name: &NodeName) -> Result<Node, CatalogError> {
        self.read(|sql| identity::node(sql, name))
    }

    fn lock_node(&self, node: NodeId, locked: bool) -> Result<(), CatalogError> {
        self.write(move |sql| identity::lock_node(sql, node, locked))
    }

    fn rename_node(&self, node: NodeId, name: &NodeName) -> Result<(), CatalogError> {
        let name = name.clone();
        self.write(move |sql| identity::rename_node(sql, node, &name))
    }

    fn remove_node(&self, node: NodeId) -> Result<(), CatalogError> {
        self.write(move |sql| identity::remove_node(sql, node))
    }

    fn add_token(&self, token: &TokenRow) -> Result<(), CatalogError> {
        let token = token.clone();
        self.write(move |sql| identity::add_token(sql, &token))
    }

    fn redeem_token(
        &self,
        hash: &[u8; 32],
        serial: &[u8],
        expires: ServerTime,
        now: ServerTime,
    ) -> Result<Node, CatalogError> {
        let (hash, serial) = (*hash, serial.to_vec());
        self.write(move |sql| {
            let node = identity::token_node(sql, &hash, now)?;
            identity::use_token(sql, &hash)?;
            let certificate = Certificate { serial: serial.clone(), node: node.id, expires };
            identity::add_certificate(sql, &certificate)?;
            Ok(node)
        })
    }

    fn token_node(&self, hash: &[u8; 32], now: ServerTime) -> Result<Node, CatalogError> {
        self.read(|sql| identity::token_node(sql, hash, now))
    }

    fn add_certificate(&self, certificate: &Certificate) -> Result<(), CatalogError> {
        let certificate = certificate.clone();
        self.write(move |sql| identity::add_certificate(sql, &certificate))
    }

    fn certificate_node(&self, serial: &[u8]) -> Result<Node, CatalogError> {
        self.read(|sql| identity::certificate_node(sql, serial))
    }

    fn is_enrolled(&self, node: NodeId) -> Result<bool, CatalogError> {
        self.read(|sql| identity::is_enrolled(sql, node))
    }

    fn filespaces(&self, node: NodeId) -> Result<Vec<Filespace>, CatalogError> {
        self.read(|sql| identity::filespaces(sql, node))
    }

    fn open_filespace(
        &self,
        node: NodeId,
        name: &[u8],
        now: ServerTime,
    ) -> Result<Filespace, CatalogError> {
        let name = name.to_vec();
        self.write(move |sql| identity::open_filespace(sql, node, &name, now))
    }

    fn digests(
        &self,
        filespace: FilespaceId,
        within: &DirPath,
        visit: &mut dyn FnMut(&PageDigest) -> bool,
    ) -> Result<(), CatalogError> {
        self.read_once(|sql| read::digests(sql, filespace, within, visit))
    }

    fn page(&self, filespace: FilespaceId, key: &PageKey) -> Result<Option<PageRow>, CatalogError> {
        self.read(|sql| read::page(sql, filespace, key))
    }

    fn pages_at(
        &self,
        filespace: FilespaceId,
        keys: &[PageKey],
    ) -> Result<Vec<PageRow>, CatalogError> {
        Engine::pages_at(self, filespace, keys)
    }

    fn page_holding(
        &self,
        filespace: FilespaceId,
        directory: &DirPath,
        name: &[u8],
    ) -> Result<Option<PageRow>, CatalogError> {
        self.read(|sql| read::page_holding(sql, filespace, directory, name))
    }

    fn pages(
        &self,
        filespace: FilespaceId,
        span: &PageSpan,
        after: Option<&PageKey>,
        limit: usize,
    ) -> Result<Vec<PageRow>, CatalogError> {
        self.read(|sql| read::pages(sql, filespace, span, after, limit))
    }

    fn version_directories(
        &self,
        filespace: FilespaceId,
        span: &PageSpan,
        after: Option<&DirPath>,
        limit: usize,
    ) -> Result<Vec<DirPath>, CatalogError> {
        self.read(|sql| read::version_directories(sql, filespace, span, after, limit))
    }

    fn versions(
        &self,
        filespace: FilespaceId,
        directory: &DirPath,
    ) -> Result<Vec<VersionRow>, CatalogError> {
        self.read(|sql| read::versions(sql, filespace, directory))
    }

    fn count_objects(
        &self,
        filespace: FilespaceId,
        directory: &DirPath,
    ) -> Result<u64, CatalogError> {
        self.read(|sql| read::count_objects(sql, filespace, directory))
    }

    fn packs(&self) -> Result<Vec<PackRow>, CatalogError> {
        self.read(read::packs)
    }

    fn next_pack(&self) -> Result<PackNumber, CatalogError> {
        self.read(read::next_pack)
    }

    fn pools(&self) -> Result<Vec<PoolRow>, CatalogError> {
        self.read(pools::all)
    }

    fn add_pool(&self, pool: &PoolRow) -> Result<PoolId, CatalogError> {
        let pool = pool.clone();
        self.write(move |sql| pools::add(sql, &pool))
    }

    fn change_pool(&self, pool: &PoolRow) -> Result<(), CatalogError> {
        let pool = pool.clone();
        self.write(move |sql| pools::change(sql, &pool))
    }

    fn remove_pool(&self, pool: PoolId) -> Result<(), CatalogError> {
        self.write(move |sql| pools::remove(sql, pool))
    }

    fn libraries(&self) -> Result<Vec<LibraryRow>, CatalogError> {
        self.read(tape::libraries)
    }

    fn put_library(&self, library: &LibraryRow) -> Result<(), CatalogError> {
        let library = library.clone();
        self.write(move |sql| tape::put_library(sql, &library))
    }

    fn remove_library(&self, name: &str) -> Result<(), CatalogError> {
        let name = name.to_owned();
        self.write(move |sql| tape::remove_library(sql, &name))
    }

    fn volumes(&self) -> Result<Vec<VolumeRow>, CatalogError> {
        self.read(tape::volumes)
    }

    fn add_volume(&self, volume: &VolumeRow) -> Result<u64, CatalogError> {
        let volume = volume.clone();
        self.write(move |sql| tape::add_volume(sql, &volume))
    }

    fn remove_volume(&self, volume: u64) -> Result<(), CatalogError> {
        self.write(move |sql| tape::remove_volume(sql, volume))
    }

    fn stored_packs(&self, pool: PoolId) -> Result<Vec<StoredPack>, CatalogError> {
        self.read(|sql| tape::stored_packs(sql, pool))
    }

    fn parts(&self, pool: PoolId, pack: PackNumber) -> Result<Vec<PartRow>, CatalogError> {
        self.read(|sql| tape::parts(sql, pool, pack))
    }

    fn volume_parts(
        &self,
        volume: u64,
    ) -> Result<Vec<(PoolId, PackNumber, PartRow)>, CatalogError> {
        self.read(|sql| tape::volume_parts(sql, volume))
    }

    fn volume_bytes(&self) -> Result<BTreeMap<u64, u64>, CatalogError> {
        self.read(tape::volume_bytes)
    }

    fn copy_to(&self, path: &Path) -> Result<(), CatalogError> {
        Engine::copy_to(self, path)
    }

    fn domains(&self) -> Result<Vec<PolicyDomain>, CatalogError> {
        self.read(policy::domains)
    }

    fn add_domain(&self, name: &str, now: ServerTime) -> Result<PolicyDomain, CatalogError> {
        let name = name.to_owned();
        self.write(move |sql| policy::add_domain(sql, &name, now))
    }

    fn remove_domain(&self, domain: DomainId) -> Result<(), CatalogError> {
        self.write(move |sql| policy::remove_domain(sql, domain))
    }

    fn class_number(&self, domain: DomainId, name: &str) -> Result<ClassId, CatalogError> {
        let name = name.to_owned();
        self.write(move |sql| policy::class_number(sql, domain, &name))
    }

    fn put_draft(
        &self,
        domain: DomainId,
        draft: Option<&PolicySet>,
        now: ServerTime,
    ) -> Result<(), CatalogError> {
        let draft = draft.cloned();
        self.write(move |sql| policy::put_draft(sql, domain, draft.as_ref(), now))
    }

    fn activate(
        &self,
        domain: DomainId,
        set: &PolicySet,
        event: &EventRow,
    ) -> Result<(), CatalogError> {
        let (set, event) = (set.clone(), event.clone());
        self.write(move |sql| policy::activate(sql, domain, &set, &event))
    }

    fn option_sets(&self) -> Result<Vec<OptionSet>, CatalogError> {
        self.read(policy::option_sets)
    }

    fn put_option_set(&self, set: &OptionSet) -> Result<(), CatalogError> {
        let set = set.clone();
        self.write(move |sql| policy::put_option_set(sql, &set))
    }

    fn remove_option_set(&self, name: &str) -> Result<(), CatalogError> {
        let name = name.to_owned();
        self.write(move |sql| policy::remove_option_set(sql, &name))
    }

    fn change_node(&self, node: NodeId, change: &NodeChange) -> Result<(), CatalogError> {
        let change = change.clone();
        self.write(move |sql| identity::change_node(sql, node, &change))
    }

    fn events(
        &self,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<(i64, EventRow)>, CatalogError> {
        self.read(|sql| policy::events(sql, before, limit))
    }

    fn task_runs(&self, limit: usize) -> Result<Vec<TaskRun>, CatalogError> {
        self.read(|sql| tasks::runs(sql, limit))
    }

    fn add_archive(
        &self,
        node: NodeId,
        description: &str,
        now: ServerTime,
    ) -> Result<ArchiveRow, CatalogError> {
        let description = description.to_owned();
        self.write(move |sql| archive::add(sql, node, &description, now))
    }

    fn archives(&self, node: NodeId) -> Result<Vec<ArchiveRow>, CatalogError> {
        self.read(|sql| archive::of_node(sql, node))
    }

    fn remove_archive(&self, node: NodeId, number: u64) -> Result<(), CatalogError> {
        self.write(move |sql| archive::remove(sql, node, number))
    }

    fn add_deletion(
        &self,
        node: NodeId,
        details: &str,
        now: ServerTime,
    ) -> Result<u64, CatalogError> {
        let details = details.to_owned();
        self.write(move |sql| archive::add_deletion(sql, node, &details, now))
    }

    fn deletions(&self, node: Option<NodeId>) -> Result<Vec<DeletionRow>, CatalogError> {
        self.read(|sql| archive::deletions(sql, node))
    }

    fn trash(
        &self,
        deletion: u64,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<(FilespaceId, VersionRow)>, CatalogError> {
        self.read(|sql| archive::trash(sql, deletion, skip, limit))
    }

    fn expiry(&self, filespace: FilespaceId) -> Result<ExpiryState, CatalogError> {
        self.read(|sql| expiry::get(sql, filespace))
    }

    fn endings(
        &self,
        filespace: FilespaceId,
        days: (Day, Day),
        after: Option<&(Day, DirPath)>,
        limit: usize,
    ) -> Result<Vec<(Day, DirPath)>, CatalogError> {
        self.read(|sql| expiry::endings(sql, filespace, days, after, limit))
    }

    fn sessions(&self, node: NodeId, limit: usize) -> Result<Vec<SessionRow>, CatalogError> {
        self.read(|sql| read::sessions(sql, node, limit))
    }

    fn commit(&self, writes: Vec<Write>) -> Result<(), CatalogError> {
        Engine::commit(self, writes)
    }

    fn commit_at(&self, generation: u64, writes: Vec<Write>) -> Result<(), CatalogError> {
        Engine::commit_at(self, generation, writes)
    }

    fn condemn(&self, writes: Vec<Write>) -> Result<u64, CatalogError> {
        self.write(move |sql| write::condemn(sql, &writes))
    }
}
