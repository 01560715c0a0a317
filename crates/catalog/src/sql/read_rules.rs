//! Statements about rules by which nodes let others read.

use model::{NodeId, ServerTime};

use super::{Engine, Row, Sql, nodes, params, require};
use crate::{CatalogError, ReadRule, ReadRules};

impl<E: Engine> ReadRules for E {
    fn read_rules(&self, owner: NodeId) -> Result<Vec<ReadRule>, CatalogError> {
        let select = "SELECT reader, archives, path, since FROM read_rule WHERE node = ?
                      ORDER BY reader, path, archives";
        self.read(|sql| sql.all(select, params![owner.0], columns))
    }

    fn put_read_rule(&self, owner: NodeId, rule: &ReadRule) -> Result<(), CatalogError> {
        let rule = rule.clone();
        self.write(move |sql| put(sql, owner, &rule))
    }

    fn remove_read_rule(&self, owner: NodeId, rule: &ReadRule) -> Result<(), CatalogError> {
        let rule = rule.clone();
        self.write(move |sql| {
            let delete = "DELETE FROM read_rule
                          WHERE node = ? AND reader = ? AND archives = ? AND path = ?";
            let ReadRule { reader, is_archive, path, .. } = &rule;
            let values = params![owner.0, reader, i64::from(*is_archive), path];
            require(sql.execute(delete, values)?, "the rule")
        })
    }
}

fn columns(row: &Row<'_>) -> Result<ReadRule, CatalogError> {
    let archives: i64 = row.get(1)?;
    Ok(ReadRule {
        reader: row.get(0)?,
        is_archive: archives != 0,
        path: row.get(2)?,
        since: ServerTime(row.get(3)?),
    })
}

fn put(sql: &dyn Sql, owner: NodeId, rule: &ReadRule) -> Result<(), CatalogError> {
    nodes::find_node(sql, owner)?;
    let insert = "INSERT INTO read_rule(node, reader, archives, path, since) VALUES(?, ?, ?, ?, ?)
                  ON CONFLICT(node, reader, archives, path) DO NOTHING";
    let ReadRule { reader, is_archive, path, since } = rule;
    sql.execute(insert, params![owner.0, reader, i64::from(*is_archive), path, since.0])
        .map(drop)
}
