//! Statements about details of nodes and domains.

use model::{DomainId, NodeId, PersonId};

use super::{Engine, Row, Sql, nodes, params, people, require};
use crate::{CatalogError, Details, DomainDetails, NodeDetails};

impl<E: Engine> Details for E {
    fn node_details(&self, node: NodeId) -> Result<NodeDetails, CatalogError> {
        let select = format!("{NODE} WHERE node = ?");
        let found = self.read(|sql| sql.first(&select, params![node.0], node_columns))?;
        Ok(found.map_or_else(NodeDetails::default, |(_, details)| details))
    }

    fn all_node_details(&self) -> Result<Vec<(NodeId, NodeDetails)>, CatalogError> {
        self.read(|sql| sql.all(&format!("{NODE} ORDER BY node"), &[], node_columns))
    }

    fn domains_of_owner(&self, owner: PersonId) -> Result<Vec<DomainId>, CatalogError> {
        let select = "SELECT DISTINCT node.domain FROM node_detail
                      JOIN node ON node.id = node_detail.node
                      WHERE owner = ? ORDER BY node.domain";
        self.read(|sql| sql.all(select, params![owner.0], |row| Ok(DomainId(row.get(0)?))))
    }

    fn put_node_details(&self, node: NodeId, details: &NodeDetails) -> Result<(), CatalogError> {
        let details = details.clone();
        self.write(move |sql| put_node(sql, node, &details))
    }

    fn domain_details(&self, domain: DomainId) -> Result<DomainDetails, CatalogError> {
        let select = "SELECT tag, description, nodes_max, warning_percent, objects_max, bytes_max
                      FROM domain_detail WHERE domain = ?";
        let found = self.read(|sql| sql.first(select, params![domain.0], domain_columns))?;
        Ok(found.unwrap_or_default())
    }

    fn put_domain_details(
        &self,
        domain: DomainId,
        details: &DomainDetails,
    ) -> Result<(), CatalogError> {
        let details = details.clone();
        self.write(move |sql| put_domain(sql, domain, &details))
    }
}

const NODE: &str = "SELECT node, owner, hostname, mail, description, platform, application,
                      cost_centre FROM node_detail";

fn node_columns(row: &Row<'_>) -> Result<(NodeId, NodeDetails), CatalogError> {
    let owner: Option<u32> = row.get(1)?;
    let details = NodeDetails {
        owner: owner.map(PersonId),
        hostname: row.get(2)?,
        mail: row.get(3)?,
        description: row.get(4)?,
        platform: row.get(5)?,
        application: row.get(6)?,
        cost_centre: row.get(7)?,
    };
    Ok((NodeId(row.get(0)?), details))
}

fn domain_columns(row: &Row<'_>) -> Result<DomainDetails, CatalogError> {
    Ok(DomainDetails {
        tag: row.get(0)?,
        description: row.get(1)?,
        nodes_max: row.get(2)?,
        warning_percent: row.get(3)?,
        objects_max: row.get(4)?,
        bytes_max: row.get(5)?,
    })
}

pub(super) fn put_node(
    sql: &dyn Sql,
    node: NodeId,
    details: &NodeDetails,
) -> Result<(), CatalogError> {
    nodes::find_node(sql, node)?;
    let NodeDetails { owner, hostname, mail, description, platform, application, .. } = details;
    if let Some(owner) = owner {
        people::find(sql, *owner)?;
    }
    sql.execute("DELETE FROM node_detail WHERE node = ?", params![node.0])?;
    let insert = "INSERT INTO node_detail(node, owner, hostname, mail, description, platform,
                    application, cost_centre) VALUES(?, ?, ?, ?, ?, ?, ?, ?)";
    let owner = owner.map(|owner| owner.0);
    let cost_centre = &details.cost_centre;
    let values =
        params![node.0, owner, hostname, mail, description, platform, application, cost_centre];
    sql.execute(insert, values).map(drop)
}

fn put_domain(
    sql: &dyn Sql,
    domain: DomainId,
    details: &DomainDetails,
) -> Result<(), CatalogError> {
    let is_known = sql.exists("SELECT 1 FROM domain WHERE id = ?", params![domain.0])?;
    require(usize::from(is_known), "the domain")?;
    sql.execute("DELETE FROM domain_detail WHERE domain = ?", params![domain.0])?;
    let insert = "INSERT INTO domain_detail(domain, tag, description, nodes_max, warning_percent,
                    objects_max, bytes_max) VALUES(?, ?, ?, ?, ?, ?, ?)";
    let DomainDetails { tag, description, nodes_max, objects_max, bytes_max, .. } = details;
    let percent = details.warning_percent;
    let values = params![domain.0, tag, description, nodes_max, percent, objects_max, bytes_max];
    sql.execute(insert, values).map(drop)
}
