//! Statements about tokens and certificates.

use std::collections::BTreeSet;

use model::{NodeId, ServerTime};

use super::nodes::{find_node, one_node};
use super::{Engine, Row, Sql, events, params, require_new};
use crate::{
    CatalogError, Certificate, Credentials, EventRow, InvalidToken, Node, TokenError, TokenRow,
};

impl<E: Engine> Credentials for E {
    fn add_token(&self, token: &TokenRow) -> Result<(), CatalogError> {
        let token = token.clone();
        self.write(move |sql| add_token(sql, &token))
    }

    fn redeem_token(
        &self,
        hash: &[u8; 32],
        serial: &[u8],
        expires: ServerTime,
        now: ServerTime,
        event: &EventRow,
    ) -> Result<Node, TokenError> {
        let (hash, serial, event) = (*hash, serial.to_vec(), event.clone());
        let node = self.write(move |sql| {
            let node = match token_node(sql, &hash, now)? {
                Ok(node) => node,
                Err(invalid) => return Ok(Err(invalid)),
            };
            use_token(sql, &hash)?;
            remove_certificates(sql, node.id)?;
            let certificate = Certificate { serial: serial.clone(), node: node.id, expires };
            add_certificate(sql, &certificate)?;
            events::add(sql, &event)?;
            Ok(Ok(node))
        })?;
        Ok(node?)
    }

    fn token_node(&self, hash: &[u8; 32], now: ServerTime) -> Result<Node, TokenError> {
        Ok(self.read(|sql| token_node(sql, hash, now))??)
    }

    fn add_certificate(&self, certificate: &Certificate) -> Result<(), CatalogError> {
        let certificate = certificate.clone();
        self.write(move |sql| add_certificate(sql, &certificate))
    }

    fn renew_certificate(
        &self,
        renewed: &Certificate,
        others_end: ServerTime,
    ) -> Result<(), CatalogError> {
        let renewed = renewed.clone();
        self.write(move |sql| renew_certificate(sql, &renewed, others_end))
    }

    fn revoke_certificates(&self, node: NodeId, now: ServerTime) -> Result<usize, CatalogError> {
        self.write(move |sql| revoke_certificates(sql, node, now))
    }

    fn certificate_node(&self, serial: &[u8], now: ServerTime) -> Result<Node, CatalogError> {
        self.read(|sql| certificate_node(sql, serial, now))
    }

    fn unlocked_serials(&self) -> Result<BTreeSet<Vec<u8>>, CatalogError> {
        let select = "SELECT serial FROM certificate JOIN node ON node.id = certificate.node
                      WHERE locked = 0";
        self.read(|sql| sql.all(select, params![], |row| row.get::<Vec<u8>>(0)))
    }

    fn is_enrolled(&self, node: NodeId) -> Result<bool, CatalogError> {
        self.read(|sql| is_enrolled(sql, node))
    }
}

pub(super) fn add_token(sql: &dyn Sql, token: &TokenRow) -> Result<(), CatalogError> {
    find_node(sql, token.node)?;
    void_token(sql, token.node)?;
    let insert = "INSERT INTO token VALUES(?, ?, ?, 'new') ON CONFLICT(hash)
                  DO UPDATE SET expires = excluded.expires, state = excluded.state
                  WHERE token.node = excluded.node AND token.state <> 'used'";
    let values = params![token.hash.as_slice(), token.node.0, token.expires.0];
    require_new(sql.execute(insert, values)?, "this token")
}

/// Makes the unused token of a node void.
fn void_token(sql: &dyn Sql, node: NodeId) -> Result<(), CatalogError> {
    let void = "UPDATE token SET state = 'replaced' WHERE node = ? AND state = 'new'";
    sql.execute(void, params![node.0]).map(drop)
}

fn token_node(
    sql: &dyn Sql,
    hash: &[u8; 32],
    now: ServerTime,
) -> Result<Result<Node, InvalidToken>, CatalogError> {
    let select = "SELECT node, expires, state FROM token WHERE hash = ?";
    let token: Option<Token> = sql.first(select, params![hash], token_columns)?;
    Ok(match token {
        None => Err(InvalidToken::Unknown),
        Some(Token { node, expires, state }) => match state.as_str() {
            "new" if expires > now => {
                Ok(one_node(sql, "node.id = ?", params![node.0], "the token's node")?)
            }
            "new" => Err(InvalidToken::Expired),
            "used" => Err(InvalidToken::Used),
            _ => Err(InvalidToken::Replaced),
        },
    })
}

/// A token in the database.
struct Token {
    node: NodeId,
    expires: ServerTime,
    /// `new`, `used` or `replaced`.
    state: String,
}

fn token_columns(row: &Row<'_>) -> Result<Token, CatalogError> {
    let (node, expires) = (NodeId(row.get(0)?), ServerTime(row.get(1)?));
    Ok(Token { node, expires, state: row.get(2)? })
}

fn use_token(sql: &dyn Sql, hash: &[u8; 32]) -> Result<(), CatalogError> {
    let update = "UPDATE token SET state = 'used' WHERE hash = ? AND state = 'new'";
    let used = sql.execute(update, params![hash.as_slice()])?;
    if used == 1 {
        Ok(())
    } else {
        Err(CatalogError::impossible("a new token that nobody can use"))
    }
}

pub(super) fn add_certificate(
    sql: &dyn Sql,
    certificate: &Certificate,
) -> Result<(), CatalogError> {
    find_node(sql, certificate.node)?;
    let values = params![certificate.serial, certificate.node.0, certificate.expires.0];
    let insert = "INSERT INTO certificate VALUES(?, ?, ?) ON CONFLICT(serial) DO NOTHING";
    require_new(sql.execute(insert, values)?, "this certificate")
}

fn renew_certificate(
    sql: &dyn Sql,
    renewed: &Certificate,
    others_end: ServerTime,
) -> Result<(), CatalogError> {
    let supersede = "UPDATE certificate SET expires = ? WHERE node = ? AND expires > ?";
    sql.execute(supersede, params![others_end.0, renewed.node.0, others_end.0])?;
    add_certificate(sql, renewed)
}

fn revoke_certificates(
    sql: &dyn Sql,
    node: NodeId,
    now: ServerTime,
) -> Result<usize, CatalogError> {
    find_node(sql, node)?;
    void_token(sql, node)?;
    let good = "SELECT serial FROM certificate WHERE node = ? AND expires > ?";
    let good: Vec<Vec<u8>> = sql.all(good, params![node.0, now.0], |row| row.get(0))?;
    remove_certificates(sql, node)?;
    Ok(good.len())
}

fn remove_certificates(sql: &dyn Sql, node: NodeId) -> Result<(), CatalogError> {
    sql.execute("DELETE FROM certificate WHERE node = ?", params![node.0]).map(drop)
}

fn certificate_node(sql: &dyn Sql, serial: &[u8], now: ServerTime) -> Result<Node, CatalogError> {
    let of_certificate =
        "node.id = (SELECT node FROM certificate WHERE serial = ? AND expires > ?)";
    one_node(sql, of_certificate, params![serial, now.0], "the node of this certificate")
}

fn is_enrolled(sql: &dyn Sql, node: NodeId) -> Result<bool, CatalogError> {
    let select = "SELECT 1 FROM certificate WHERE node = ?";
    sql.exists(select, params![node.0])
}
