//! Statements about identities of people.

use std::collections::BTreeSet;

use model::{PersonId, ServerTime};

use super::{Engine, Row, Sql, params, people, sign_ins};
use crate::{CatalogError, Identities, IdentityRow};

impl<E: Engine> Identities for E {
    fn add_identity(&self, identity: &IdentityRow) -> Result<(), CatalogError> {
        let identity = identity.clone();
        self.write(move |sql| add_identity(sql, &identity))
    }

    fn identity(&self, issuer: &str, subject: &str) -> Result<Option<PersonId>, CatalogError> {
        let select = "SELECT person FROM identity WHERE issuer = ? AND subject = ?";
        self.read(|sql| {
            sql.first(select, params![issuer, subject], |row| Ok(PersonId(row.get(0)?)))
        })
    }

    fn identities(&self, person: PersonId) -> Result<Vec<IdentityRow>, CatalogError> {
        self.read(|sql| identities(sql, person))
    }
}

fn identities(sql: &dyn Sql, person: PersonId) -> Result<Vec<IdentityRow>, CatalogError> {
    let select = "SELECT issuer, subject, person, made FROM identity WHERE person = ?
                  ORDER BY issuer, subject";
    sql.all(select, params![person.0], identity_columns)
}

fn identity_columns(row: &Row<'_>) -> Result<IdentityRow, CatalogError> {
    Ok(IdentityRow {
        issuer: row.get(0)?,
        subject: row.get(1)?,
        person: PersonId(row.get(2)?),
        made: ServerTime(row.get(3)?),
    })
}

fn add_identity(sql: &dyn Sql, identity: &IdentityRow) -> Result<(), CatalogError> {
    let IdentityRow { issuer, subject, person, made } = identity;
    people::find(sql, *person)?;
    let known = "SELECT 1 FROM identity WHERE issuer = ? AND subject = ?";
    if sql.exists(known, params![issuer, subject])? {
        return Err(CatalogError::Exists { what: "this identity" });
    }
    let insert = "INSERT INTO identity(issuer, subject, person, made) VALUES(?, ?, ?, ?)";
    sql.execute(insert, params![issuer, subject, person.0, made.0]).map(drop)
}

/// Replaces all identities of a person, and ends the sign-ins of the person if they differ.
pub(super) fn set(
    sql: &dyn Sql,
    person: PersonId,
    identities: &[IdentityRow],
) -> Result<(), CatalogError> {
    let names = |rows: &[IdentityRow]| -> BTreeSet<(String, String)> {
        rows.iter().map(|row| (row.issuer.clone(), row.subject.clone())).collect()
    };
    if names(&self::identities(sql, person)?) == names(identities) {
        return Ok(());
    }
    sql.execute("DELETE FROM identity WHERE person = ?", params![person.0])?;
    for identity in identities {
        assert_eq!(identity.person, person, "the identities are of this person");
        add_identity(sql, identity)?;
    }
    sign_ins::end_all(sql, person)
}
