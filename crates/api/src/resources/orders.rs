//! Orders that destroy, and wait for a second person where that is switched on.

use std::collections::BTreeMap;

use catalog::{ApprovalRow, Filespace, Node};
use model::{DomainId, NodeId, PoolId};
use policy::PolicyDomain;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::domains::ReviewReport;
use store::nodes::NodeOrder;
use store::pools::{self, PoolSummary};
use store::volumes::{LabelChoice, LabelOrder};
use store::{Store, StoreError, domains, nodes};

use super::found_node::{NO_NAME, find_node, nodes_seen};
use crate::approval::{Order, Target};
use crate::call::Answer;
use crate::caller::{Caller, Subject};
use crate::desk::Desk;
use crate::fields::Bytes;
use crate::roles::{Area, Right};

const REMOVE_NODE: &str = "nodes.remove";
const REMOVE_FILESPACE: &str = "filespaces.remove";
const ACTIVATE_POLICY: &str = catalog::ACTIVATE_POLICY.operation;
const REMOVE_POOL: &str = "pools.remove";
const LABEL_VOLUME: &str = "volumes.label";
const MOVE_NODE: &str = catalog::MOVE_NODE.operation;

/// Reads the order of a kept request. Returns `None` for one that this program does not know.
pub(super) fn read(row: &ApprovalRow) -> Option<Box<dyn Order>> {
    match row.operation.as_str() {
        REMOVE_NODE => parse::<NodeRemoval>(row),
        REMOVE_FILESPACE => parse::<FilespaceRemoval>(row),
        ACTIVATE_POLICY => parse::<Activation>(row),
        REMOVE_POOL => parse::<PoolRemoval>(row),
        LABEL_VOLUME => parse::<VolumeLabel>(row),
        MOVE_NODE => parse::<NodeMove>(row),
        _ => None,
    }
}

fn parse<O: Order + DeserializeOwned + 'static>(row: &ApprovalRow) -> Option<Box<dyn Order>> {
    let order: O = serde_json::from_str(&row.request).ok()?;
    Some(Box::new(order))
}

fn json(order: &impl Serialize) -> Value {
    serde_json::to_value(order).expect("an order has only text as keys")
}

/// Returns true if the caller may do with requests for this object what needs `right`. False if the
/// object is gone, or is another one of the same name.
///
/// All objects of tenants take the same questions, and so does a request that does not exist.
pub(super) fn may(desk: &Desk, caller: &Caller, target: Option<Target<'_>>, right: Right) -> bool {
    let (node, domain) = match target {
        Some(Target::Node(name, _)) => (name, NO_NAME),
        Some(Target::Domain(name, _)) => (NO_NAME, name),
        Some(Target::Move { node: (node, _), domain: (domain, _) }) => (node, domain),
        Some(Target::Pool(..) | Target::Libraries) | None => (NO_NAME, NO_NAME),
    };
    let node = find_node(desk, caller, node, (Area::Approvals, right));
    let domain = domains::find(desk.store(), domain);
    let may_for_node = |id: NodeId| node.is_ok_and(|found| found.node.id == id);
    let may_for_domain = |id: DomainId| {
        let is_there = domain.is_ok_and(|domain| domain.id == id);
        is_there && caller.may(Area::Approvals, right, Subject::Domain(id))
    };
    match target {
        Some(Target::Node(_, id)) => may_for_node(id),
        Some(Target::Domain(_, id)) => may_for_domain(id),
        Some(Target::Move { node: (_, node), domain: (_, domain) }) => {
            may_for_node(node) && may_for_domain(domain)
        }
        Some(Target::Pool(name, id)) => {
            caller.may(Area::Storage, right, Subject::Service) && has_pool(desk, name, id)
        }
        Some(Target::Libraries) => caller.may(Area::Storage, right, Subject::Service),
        None => false,
    }
}

/// The objects about which a caller who does not see all requests may see some. A list reads them
/// once, so that its time does not depend on how many requests others have made.
pub(super) struct Reach {
    nodes: BTreeMap<NodeId, String>,
    domains: BTreeMap<DomainId, String>,
}

impl Reach {
    /// Reads the objects from the catalogue.
    pub(super) fn read(desk: &Desk, caller: &Caller) -> Answer<Self> {
        let rights = (Area::Approvals, Right::Read);
        let may = |id: DomainId| caller.may(rights.0, rights.1, Subject::Domain(id));
        let nodes = nodes_seen(desk, caller, rights)?.into_iter();
        let domains = desk.store().catalog.domains()?.into_iter();
        Ok(Self {
            nodes: nodes.map(|node| (node.id, node.name.to_string())).collect(),
            domains: domains
                .filter(|domain| may(domain.id))
                .map(|domain| (domain.id, domain.name))
                .collect(),
        })
    }

    /// Returns true if the caller may see requests for this object. What belongs to the service as
    /// a whole is for those who see all requests.
    pub(super) fn covers(&self, target: Target<'_>) -> bool {
        let has_node = |(name, id): (&str, NodeId)| {
            let known = self.nodes.get(&id);
            known.is_some_and(|known| known.eq_ignore_ascii_case(name))
        };
        let has_domain = |(name, id): (&str, DomainId)| {
            let known = self.domains.get(&id);
            known.is_some_and(|known| known.eq_ignore_ascii_case(name))
        };
        match target {
            Target::Node(name, id) => has_node((name, id)),
            Target::Domain(name, id) => has_domain((name, id)),
            Target::Move { node, domain } => has_node(node) && has_domain(domain),
            Target::Pool(..) | Target::Libraries => false,
        }
    }
}

fn has_pool(desk: &Desk, name: &str, id: PoolId) -> bool {
    let found = pools::list(desk.store(), Some(name));
    found.is_ok_and(|found| found.iter().any(|pool| pool.row.id == id))
}

/// Removal of a node.
#[derive(Serialize, Deserialize)]
pub(super) struct NodeRemoval {
    /// Number of the node. Its name may belong to another node when the order is carried out.
    id: u32,
    node: String,
    with_data: bool,
}

impl NodeRemoval {
    pub(super) fn new(node: &Node, with_data: bool) -> Self {
        Self { id: node.id.0, node: node.name.to_string(), with_data }
    }
}

impl Order for NodeRemoval {
    fn operation(&self) -> &'static str {
        REMOVE_NODE
    }

    fn json(&self) -> Value {
        json(self)
    }

    fn summary(&self) -> String {
        let with = match self.with_data {
            true => ", with its backups, archives and migrated files",
            false => "",
        };
        format!("removes node {}{with}", self.node)
    }

    fn object(&self) -> String {
        format!("node {}", self.node)
    }

    fn target(&self) -> Target<'_> {
        Target::Node(&self.node, NodeId(self.id))
    }

    fn carry_out(&self, desk: &Desk, actor: &str) -> Result<(), StoreError> {
        let node = nodes::find(desk.store(), &self.node)?;
        if node.id.0 != self.id {
            return Err(StoreError::conflict("another node has this name meanwhile"));
        }
        desk.office.remove_node(&node, self.with_data, actor).map(drop)
    }
}

/// Removal of a filespace.
#[derive(Serialize, Deserialize)]
pub(super) struct FilespaceRemoval {
    /// Number of the node.
    id: u32,
    node: String,
    /// Number of the filespace. Its name may belong to another one when the order is carried out.
    number: u32,
    filespace: Bytes,
}

impl FilespaceRemoval {
    pub(super) fn new(node: &Node, filespace: &Filespace) -> Self {
        Self {
            id: node.id.0,
            node: node.name.to_string(),
            number: filespace.id.0,
            filespace: Bytes(filespace.name.clone()),
        }
    }
}

impl Order for FilespaceRemoval {
    fn operation(&self) -> &'static str {
        REMOVE_FILESPACE
    }

    fn json(&self) -> Value {
        json(self)
    }

    fn summary(&self) -> String {
        format!("removes {} with its backups", self.object())
    }

    fn object(&self) -> String {
        format!("filespace {} of node {}", self.filespace.0.escape_ascii(), self.node)
    }

    fn target(&self) -> Target<'_> {
        Target::Node(&self.node, NodeId(self.id))
    }

    fn carry_out(&self, desk: &Desk, actor: &str) -> Result<(), StoreError> {
        let store = desk.store();
        let node = nodes::find(store, &self.node)?;
        let filespace = nodes::find_filespace(store, &node, &self.filespace.0)?;
        if (node.id.0, filespace.id.0) != (self.id, self.number) {
            return Err(StoreError::conflict("another filespace has this name meanwhile"));
        }
        nodes::remove_filespace(store, &node, &filespace, actor)
    }
}

/// Move of a node to a domain that keeps something for less time.
#[derive(Serialize, Deserialize)]
pub(super) struct NodeMove {
    /// Numbers of the node and of the domain. Their names may belong to others when the order is
    /// carried out.
    id: u32,
    domain_id: u32,
    node: String,
    domain: String,
    /// Digest of the sets of the old domain and of the new one.
    mark: String,
    /// The rules that keep less, for people.
    losses: Vec<String>,
}

impl NodeMove {
    /// Makes the order to move the node, if it loses something.
    pub(super) fn new(desk: &Desk, node: &Node, domain: &PolicyDomain) -> Answer<Option<Self>> {
        let review = domains::review_move(desk.store(), node, &domain.name)?;
        let losses = review.losses.iter().map(ToString::to_string).collect::<Vec<_>>();
        let order = Self {
            id: node.id.0,
            domain_id: domain.id.0,
            node: node.name.to_string(),
            domain: review.domain,
            mark: review.mark,
            losses,
        };
        Ok(Some(order).filter(|order| !order.losses.is_empty()))
    }
}

impl Order for NodeMove {
    fn operation(&self) -> &'static str {
        MOVE_NODE
    }

    fn json(&self) -> Value {
        json(self)
    }

    fn summary(&self) -> String {
        let (node, domain, losses) = (&self.node, &self.domain, self.losses.join("; "));
        format!("moves node {node} to domain {domain}, which keeps less: {losses}")
    }

    fn object(&self) -> String {
        format!("node {}", self.node)
    }

    fn target(&self) -> Target<'_> {
        Target::Move {
            node: (&self.node, NodeId(self.id)),
            domain: (&self.domain, DomainId(self.domain_id)),
        }
    }

    fn carry_out(&self, desk: &Desk, actor: &str) -> Result<(), StoreError> {
        let store = desk.store();
        let node = nodes::find(store, &self.node)?;
        if node.id.0 != self.id || domains::find(store, &self.domain)?.id.0 != self.domain_id {
            return Err(StoreError::conflict("another node or domain has this name meanwhile"));
        }
        if domains::review_move(store, &node, &self.domain)?.mark != self.mark {
            return Err(StoreError::conflict(
                "the policy of one of the domains has changed since the move was reviewed; ask \
                 again",
            ));
        }
        let order = NodeOrder { domain: Some(self.domain.clone()), ..NodeOrder::default() };
        desk.office.change_node(&node, &order, actor).map(drop)
    }
}

/// Activation of a draft that shortens how long something is kept.
#[derive(Serialize, Deserialize)]
pub(super) struct Activation {
    /// Number of the domain. Its name may belong to another domain when the order is carried out.
    id: u32,
    domain: String,
    /// Digest of the sets that were reviewed.
    mark: String,
    confirm: bool,
    /// The differences that shorten, for people.
    shorter: Vec<String>,
}

impl Activation {
    pub(super) fn new(domain: &PolicyDomain, review: &ReviewReport, confirm: bool) -> Self {
        let shorter = review.differences.iter().filter(|difference| difference.shortens());
        Self {
            id: domain.id.0,
            domain: domain.name.clone(),
            mark: review.mark.clone(),
            confirm,
            shorter: shorter.map(ToString::to_string).collect(),
        }
    }
}

impl Order for Activation {
    fn operation(&self) -> &'static str {
        ACTIVATE_POLICY
    }

    fn json(&self) -> Value {
        json(self)
    }

    fn summary(&self) -> String {
        let (domain, shorter) = (&self.domain, self.shorter.join("; "));
        format!("shortens what domain {domain} keeps: {shorter}")
    }

    fn object(&self) -> String {
        format!("domain {}", self.domain)
    }

    fn target(&self) -> Target<'_> {
        Target::Domain(&self.domain, DomainId(self.id))
    }

    fn carry_out(&self, desk: &Desk, actor: &str) -> Result<(), StoreError> {
        let (store, name) = (desk.store(), &self.domain);
        if domains::find(store, name)?.id.0 != self.id {
            return Err(StoreError::conflict("another domain has this name meanwhile"));
        }
        domains::activate_reviewed(store, name, &self.mark, self.confirm, actor).map(drop)
    }
}

/// Removal of a pool.
#[derive(Serialize, Deserialize)]
pub(super) struct PoolRemoval {
    /// Number of the pool. Its name may belong to another pool when the order is carried out.
    id: u32,
    pool: String,
}

impl PoolRemoval {
    pub(super) fn new(pool: &PoolSummary) -> Self {
        Self { id: pool.row.id.0, pool: pool.row.name.clone() }
    }

    fn is_there(&self, desk: &Desk) -> bool {
        has_pool(desk, &self.pool, PoolId(self.id))
    }
}

impl Order for PoolRemoval {
    fn operation(&self) -> &'static str {
        REMOVE_POOL
    }

    fn json(&self) -> Value {
        json(self)
    }

    fn summary(&self) -> String {
        format!("removes pool {}", self.pool)
    }

    fn object(&self) -> String {
        format!("pool {}", self.pool)
    }

    fn target(&self) -> Target<'_> {
        Target::Pool(&self.pool, PoolId(self.id))
    }

    fn carry_out(&self, desk: &Desk, actor: &str) -> Result<(), StoreError> {
        let store = desk.store();
        if !self.is_there(desk) {
            return Err(StoreError::conflict("the pool is gone, or another one has its name"));
        }
        store.check_keeps_house()?;
        pools::remove(store, &self.pool)?;
        nodes::note(store, actor, "pool removed by request", self.pool.clone())
    }
}

/// Label that is written on a volume, also over data that nobody knows.
#[derive(Serialize, Deserialize)]
pub(super) struct VolumeLabel {
    library: String,
    volume: String,
    /// Size of the largest block; `None` for the default.
    #[serde(default)]
    block_bytes: Option<u32>,
}

impl VolumeLabel {
    pub(super) fn new(library: &str, volume: &str, block_bytes: Option<u32>) -> Self {
        Self { library: library.to_owned(), volume: volume.to_owned(), block_bytes }
    }

    /// Writes the label. With `overwrites`, a label of this program is no obstacle.
    pub(super) fn write(
        &self,
        store: &Store,
        overwrites: bool,
        actor: &str,
    ) -> Result<(), StoreError> {
        let order = LabelOrder {
            library: self.library.clone(),
            choice: LabelChoice::Named(vec![self.volume.clone()]),
            overwrites,
            block_bytes: self.block_bytes,
        };
        let mut result = Ok(());
        store.volumes.label_all(&order, &mut |report| {
            result = report.result;
            true
        })?;
        result?;
        let details = format!("{} of library {}", self.volume, self.library);
        nodes::note(store, actor, "volume labelled by request", details)
    }
}

impl Order for VolumeLabel {
    fn operation(&self) -> &'static str {
        LABEL_VOLUME
    }

    fn json(&self) -> Value {
        json(self)
    }

    fn summary(&self) -> String {
        let block = self.block_bytes.map(|bytes| format!(", with blocks of {bytes} bytes"));
        let block = block.unwrap_or_default();
        format!("writes a label over the data on {}{block}", self.object())
    }

    fn object(&self) -> String {
        format!("volume {} of library {}", self.volume, self.library)
    }

    fn target(&self) -> Target<'_> {
        Target::Libraries
    }

    fn carry_out(&self, desk: &Desk, actor: &str) -> Result<(), StoreError> {
        desk.store().check_keeps_house()?;
        self.write(desk.store(), true, actor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request with another field would stay after its domain, and be about the next domain with
    /// the same number.
    #[test]
    fn requests_about_domains_have_the_field_by_which_the_catalogue_finds_them() {
        let texts = || ["LAB", "mark"].map(str::to_owned);
        let [domain, mark] = texts();
        let activation = Activation { id: 7, domain, mark, confirm: true, shorter: Vec::new() };
        assert_eq!(json(&activation)[catalog::ACTIVATE_POLICY.field], 7);
        let [domain, mark] = texts();
        let node = "web-1".to_owned();
        let order = NodeMove { id: 3, domain_id: 7, node, domain, mark, losses: Vec::new() };
        assert_eq!(json(&order)[catalog::MOVE_NODE.field], 7);
    }
}
