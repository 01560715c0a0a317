//! Statements about enrolment keys.

use model::ServerTime;

use super::{
    Engine, Row, Sql, credentials, events, nodes, params, require, require_new, schedules,
};
use crate::{
    CatalogError, Certificate, EnrolmentKeyRow, EnrolmentKeys, InvalidKey, KeyError, KeyRedemption,
    Node,
};

impl<E: Engine> EnrolmentKeys for E {
    fn add_enrolment_key(&self, key: &EnrolmentKeyRow) -> Result<(), CatalogError> {
        let key = key.clone();
        self.write(move |sql| add(sql, &key))
    }

    fn enrolment_keys(&self) -> Result<Vec<EnrolmentKeyRow>, CatalogError> {
        self.read(|sql| sql.all(&format!("{KEY} ORDER BY lower(name)"), &[], columns))
    }

    fn valid_key(&self, hash: &[u8; 32], now: ServerTime) -> Result<EnrolmentKeyRow, KeyError> {
        Ok(self.read(|sql| valid(sql, hash, now))??)
    }

    fn redeem_key(&self, redemption: &KeyRedemption) -> Result<Node, KeyError> {
        let redemption = redemption.clone();
        Ok(self.write(move |sql| redeem(sql, &redemption))??)
    }

    fn revoke_key(&self, hash: &[u8; 32], now: ServerTime) -> Result<(), CatalogError> {
        let hash = *hash;
        self.write(move |sql| {
            let update = "UPDATE enrolment_key SET revoked = coalesce(revoked, ?) WHERE hash = ?";
            require(sql.execute(update, params![now.0, hash])?, "the enrolment key")
        })
    }

    fn forget_keys(&self, before: ServerTime) -> Result<(), CatalogError> {
        self.write(move |sql| {
            sql.execute("DELETE FROM enrolment_key WHERE expires < ?", params![before.0])
                .map(drop)
        })
    }
}

const KEY: &str = "SELECT name, hash, nodes_max, nodes, made, made_by, expires, revoked, domain,
                     option_set, names, labels FROM enrolment_key";

/// Character between two labels in the column `labels`. No label has it.
const BETWEEN: char = ' ';

fn columns(row: &Row<'_>) -> Result<EnrolmentKeyRow, CatalogError> {
    let revoked: Option<i64> = row.get(7)?;
    let labels: String = row.get(11)?;
    Ok(EnrolmentKeyRow {
        name: row.get(0)?,
        hash: row.get(1)?,
        nodes_max: row.get(2)?,
        nodes: row.get(3)?,
        made: ServerTime(row.get(4)?),
        made_by: row.get(5)?,
        expires: ServerTime(row.get(6)?),
        revoked: revoked.map(ServerTime),
        domain: row.get(8)?,
        option_set: row.get(9)?,
        names: row.get(10)?,
        labels: labels.split_terminator(BETWEEN).map(str::to_owned).collect(),
    })
}

fn add(sql: &dyn Sql, key: &EnrolmentKeyRow) -> Result<(), CatalogError> {
    let domain = sql.exists("SELECT 1 FROM domain WHERE name = ?", params![key.domain])?;
    require(usize::from(domain), "the policy domain")?;
    if let Some(name) = &key.option_set {
        nodes::find_option_set(sql, name)?;
    }
    let known = "SELECT 1 FROM enrolment_key WHERE lower(name) = ?";
    if sql.exists(known, params![key.name.to_ascii_lowercase()])? {
        return Err(CatalogError::Exists { what: "an enrolment key of this name" });
    }
    let insert = "INSERT INTO enrolment_key(name, hash, nodes_max, nodes, made, made_by, expires,
                    revoked, domain, option_set, names, labels)
                  VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT(hash) DO NOTHING";
    let EnrolmentKeyRow { name, hash, nodes_max, nodes, made, made_by, expires, .. } = key;
    let EnrolmentKeyRow { revoked, domain, option_set, names, labels, .. } = key;
    assert!(labels.iter().all(|label| !label.contains(BETWEEN)), "labels have no spaces");
    let (revoked, labels) = (revoked.map(|at| at.0), labels.join(&BETWEEN.to_string()));
    let values = params![
        name, hash, nodes_max, nodes, made.0, made_by, expires.0, revoked, domain, option_set,
        names, labels
    ];
    require_new(sql.execute(insert, values)?, "this enrolment key")
}

fn valid(
    sql: &dyn Sql,
    hash: &[u8; 32],
    now: ServerTime,
) -> Result<Result<EnrolmentKeyRow, InvalidKey>, CatalogError> {
    let key = sql.first(&format!("{KEY} WHERE hash = ?"), params![hash], columns)?;
    Ok(key.ok_or(InvalidKey::Unknown).and_then(|key| key.check(now).map(|()| key)))
}

fn redeem(
    sql: &dyn Sql,
    redemption: &KeyRedemption,
) -> Result<Result<Node, InvalidKey>, CatalogError> {
    let KeyRedemption { hash, name, serial, expires, now, event } = redemption;
    // The count comes first: it locks the key, so that others who want its last use wait here.
    let count = "UPDATE enrolment_key SET nodes = nodes + 1
                 WHERE hash = ? AND nodes < nodes_max AND revoked IS NULL AND expires > ?";
    if sql.execute(count, params![hash, now.0])? == 0 {
        let invalid = valid(sql, hash, *now)?.err();
        return Ok(Err(invalid.unwrap_or(InvalidKey::UsedUp)));
    }
    let key = sql.first(&format!("{KEY} WHERE hash = ?"), params![hash], columns)?;
    let key = key.ok_or_else(|| CatalogError::impossible("a key that was counted is gone"))?;
    let node = nodes::add_node(sql, name, &key.domain, *now)?;
    if let Some(option_set) = &key.option_set {
        nodes::find_option_set(sql, option_set)?;
        let update = "UPDATE node SET option_set = ? WHERE id = ?";
        sql.execute(update, params![option_set, node.id.0])?;
    }
    schedules::change_labels(sql, node.id, &key.labels, &[], *now)?;
    let certificate = Certificate { serial: serial.clone(), node: node.id, expires: *expires };
    credentials::add_certificate(sql, &certificate)?;
    events::add(sql, event)?;
    nodes::node(sql, name).map(Ok)
}
