//! Statements that register and change nodes with everything that belongs to them.

use model::NodeId;

use super::{Engine, Sql, api_keys, credentials, details, events, nodes, params, schedules};
use crate::{
    CatalogError, Node, NodeAlteration, NodeDetails, NodeRegistration, Registrations, TokenRow,
};

impl<E: Engine> Registrations for E {
    fn register_node(&self, registration: &NodeRegistration) -> Result<Node, CatalogError> {
        let registration = registration.clone();
        self.write(move |sql| register(sql, &registration))
    }

    fn alter_node(&self, node: NodeId, alteration: &NodeAlteration) -> Result<(), CatalogError> {
        let alteration = alteration.clone();
        self.write(move |sql| alter(sql, node, &alteration))
    }
}

fn register(sql: &dyn Sql, registration: &NodeRegistration) -> Result<Node, CatalogError> {
    let NodeRegistration { name, domain, now, details, token, api_key, event } = registration;
    if let Some(key) = api_key
        && !api_keys::count_use(sql, key)?
    {
        let limit = "SELECT uses FROM api_key WHERE id = ?";
        let limit = sql.one(limit, params![key], |row| row.get(0))?;
        return Err(CatalogError::Limit { what: "another node of this key", limit });
    }
    let node = nodes::add_node(sql, name, domain, *now)?;
    if *details != NodeDetails::default() {
        details::put_node(sql, node.id, details)?;
    }
    let (hash, expires) = *token;
    credentials::add_token(sql, &TokenRow { hash, node: node.id, expires })?;
    events::add(sql, event)?;
    Ok(node)
}

fn alter(sql: &dyn Sql, node: NodeId, alteration: &NodeAlteration) -> Result<(), CatalogError> {
    let NodeAlteration { locks, name, change, added_labels, removed_labels, .. } = alteration;
    for (by, locked) in locks {
        nodes::lock_node(sql, node, *by, *locked)?;
    }
    if let Some(name) = name {
        nodes::rename_node(sql, node, name)?;
    }
    nodes::change_node(sql, node, change)?;
    schedules::change_labels(sql, node, added_labels, removed_labels, alteration.now)?;
    if let Some(details) = &alteration.details {
        details::put_node(sql, node, details)?;
    }
    alteration.events.iter().try_for_each(|event| events::add(sql, event))
}
