//! Statements about people and their roles.

use model::{DomainId, PersonId, ServerTime};

use super::{Engine, Row, Sql, identities, params, require, sign_ins};
use crate::{CatalogError, NewPerson, People, Person, PersonChange, RoleRow};

impl<E: Engine> People for E {
    fn add_person(&self, person: &NewPerson) -> Result<Person, CatalogError> {
        let person = person.clone();
        self.write(move |sql| add(sql, &person))
    }

    fn people(&self) -> Result<Vec<Person>, CatalogError> {
        self.read(|sql| sql.all(&format!("{PERSON} ORDER BY lower(login)"), &[], columns))
    }

    fn person(&self, login: &str) -> Result<Person, CatalogError> {
        self.read(|sql| with_login(sql, login))
    }

    fn person_numbered(&self, person: PersonId) -> Result<Person, CatalogError> {
        self.read(|sql| {
            let found = sql.first(&format!("{PERSON} WHERE id = ?"), params![person.0], columns)?;
            found.ok_or(CatalogError::NotFound { what: "the person" })
        })
    }

    fn change_person(&self, person: PersonId, change: &PersonChange) -> Result<(), CatalogError> {
        let change = change.clone();
        self.write(move |sql| apply(sql, person, &change))
    }

    fn remove_person(&self, person: PersonId) -> Result<(), CatalogError> {
        self.write(move |sql| remove(sql, person))
    }

    fn roles(&self, person: Option<PersonId>) -> Result<Vec<RoleRow>, CatalogError> {
        self.read(|sql| roles(sql, person))
    }

    fn set_roles(&self, person: PersonId, roles: &[RoleRow]) -> Result<(), CatalogError> {
        let roles = roles.to_owned();
        self.write(move |sql| set_roles(sql, person, &roles))
    }

    fn use_code(&self, person: PersonId, step: u64) -> Result<bool, CatalogError> {
        self.write(move |sql| {
            let update = "UPDATE person SET code_step = ?1 WHERE id = ?2 AND code_step < ?1";
            Ok(sql.execute(update, params![step, person.0])? > 0)
        })
    }
}

const PERSON: &str = "SELECT id, login, name, mail, cost_centres, password, second_factor, locked,
                        made, made_by FROM person";

/// Character between two cost centres in their column. No cost centre has it.
const BETWEEN: char = '\n';

fn columns(row: &Row<'_>) -> Result<Person, CatalogError> {
    let cost_centres: String = row.get(4)?;
    Ok(Person {
        id: PersonId(row.get(0)?),
        login: row.get(1)?,
        name: row.get(2)?,
        mail: row.get(3)?,
        cost_centres: cost_centres.split_terminator(BETWEEN).map(str::to_owned).collect(),
        password: row.get(5)?,
        second_factor: row.get(6)?,
        locked: row.get(7)?,
        made: ServerTime(row.get(8)?),
        made_by: row.get(9)?,
    })
}

fn joined(cost_centres: &[String]) -> String {
    let has_separator = cost_centres.iter().any(|one| one.contains(BETWEEN));
    assert!(!has_separator, "cost centres have no line ends");
    cost_centres.join(&BETWEEN.to_string())
}

fn with_login(sql: &dyn Sql, login: &str) -> Result<Person, CatalogError> {
    let select = format!("{PERSON} WHERE lower(login) = ?");
    let found = sql.first(&select, params![login.to_ascii_lowercase()], columns)?;
    found.ok_or(CatalogError::NotFound { what: "the person" })
}

fn add(sql: &dyn Sql, person: &NewPerson) -> Result<Person, CatalogError> {
    let known = "SELECT 1 FROM person WHERE lower(login) = ?";
    if sql.exists(known, params![person.login.to_ascii_lowercase()])? {
        return Err(CatalogError::Exists { what: "a person with this login" });
    }
    let insert = "INSERT INTO person(login, name, mail, cost_centres, password, second_factor,
                    code_step, locked, made, made_by) VALUES(?, ?, ?, ?, ?, NULL, 0, 0, ?, ?)";
    let NewPerson { login, name, mail, cost_centres, password, roles, made, made_by } = person;
    let cost_centres = joined(cost_centres);
    sql.execute(insert, params![login, name, mail, cost_centres, password, made.0, made_by])?;
    let person = with_login(sql, login)?;
    set_roles(sql, person.id, roles)?;
    Ok(person)
}

/// Fails with `NotFound` if there is no such person.
pub(super) fn find(sql: &dyn Sql, person: PersonId) -> Result<(), CatalogError> {
    let is_known = sql.exists("SELECT 1 FROM person WHERE id = ?", params![person.0])?;
    require(usize::from(is_known), "the person")
}

fn apply(sql: &dyn Sql, person: PersonId, change: &PersonChange) -> Result<(), CatalogError> {
    find(sql, person)?;
    let PersonChange { name, mail, cost_centres, password, second_factor, locked, .. } = change;
    let set = |column: &str, value: &dyn super::ToValue| {
        let update = format!("UPDATE person SET {column} = ? WHERE id = ?");
        sql.execute(&update, &[value, &person.0]).map(drop)
    };
    if let Some(name) = name {
        set("name", name)?;
    }
    if let Some(mail) = mail {
        set("mail", mail)?;
    }
    if let Some(cost_centres) = cost_centres {
        set("cost_centres", &joined(cost_centres))?;
    }
    if let Some(password) = password {
        set("password", password)?;
    }
    if let Some(second_factor) = second_factor {
        set("second_factor", second_factor)?;
        set("code_step", &0_u64)?;
    }
    if let Some(locked) = locked {
        set("locked", locked)?;
    }
    if let Some(roles) = &change.roles {
        set_roles(sql, person, roles)?;
    }
    if let Some(identities) = &change.identities {
        identities::set(sql, person, identities)?;
    }
    if password.is_some() || second_factor.is_some() || *locked == Some(true) {
        sign_ins::end_all(sql, person)?;
    }
    Ok(())
}

fn remove(sql: &dyn Sql, person: PersonId) -> Result<(), CatalogError> {
    for table in ["person_role", "api_key", "sign_in", "identity"] {
        sql.execute(&format!("DELETE FROM {table} WHERE person = ?"), params![person.0])?;
    }
    sql.execute("UPDATE node_detail SET owner = NULL WHERE owner = ?", params![person.0])?;
    require(sql.execute("DELETE FROM person WHERE id = ?", params![person.0])?, "the person")
}

fn roles(sql: &dyn Sql, person: Option<PersonId>) -> Result<Vec<RoleRow>, CatalogError> {
    let (condition, person) = match person {
        Some(person) => ("person = ?", i64::from(person.0)),
        None => ("person > ?", -1),
    };
    let select = format!(
        "SELECT person, role, domain FROM person_role WHERE {condition}
         ORDER BY person, role, domain"
    );
    sql.all(&select, params![person], |row| {
        let domain: u32 = row.get(2)?;
        let domain = Some(DomainId(domain)).filter(|domain| domain.0 != EVERYWHERE);
        Ok(RoleRow { person: PersonId(row.get(0)?), role: row.get(1)?, domain })
    })
}

/// Value of the column `domain` for a role that a person has everywhere. No domain has this number.
const EVERYWHERE: u32 = 0;

fn set_roles(sql: &dyn Sql, person: PersonId, roles: &[RoleRow]) -> Result<(), CatalogError> {
    find(sql, person)?;
    sql.execute("DELETE FROM person_role WHERE person = ?", params![person.0])?;
    for RoleRow { role, domain, .. } in roles {
        if let Some(domain) = domain {
            let is_known = sql.exists("SELECT 1 FROM domain WHERE id = ?", params![domain.0])?;
            require(usize::from(is_known), "the domain")?;
        }
        let domain = domain.map_or(EVERYWHERE, |domain| domain.0);
        let insert = "INSERT INTO person_role(person, role, domain) VALUES(?, ?, ?)
                      ON CONFLICT(person, role, domain) DO NOTHING";
        sql.execute(insert, params![person.0, role, domain])?;
    }
    Ok(())
}
