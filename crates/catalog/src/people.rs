//! People who use the service, and their roles.

use model::{DomainId, PersonId, ServerTime};

use crate::{CatalogError, IdentityRow};

/// A person.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Person {
    pub id: PersonId,
    /// Name with which the person signs in.
    pub login: String,
    /// Name by which others know the person.
    pub name: String,
    /// Address for mail; empty if there is none.
    pub mail: String,
    pub cost_centres: Vec<String>,
    /// Hash of the password, in the form of PHC strings; `None` for a person without a password.
    pub password: Option<String>,
    /// Sealed secret of the second factor; `None` without one.
    pub second_factor: Option<Vec<u8>>,
    pub locked: bool,
    pub made: ServerTime,
    pub made_by: String,
}

/// A person who is registered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewPerson {
    pub login: String,
    pub name: String,
    pub mail: String,
    pub cost_centres: Vec<String>,
    pub password: Option<String>,
    /// Roles of the person. The person of a row does not count.
    pub roles: Vec<RoleRow>,
    pub made: ServerTime,
    pub made_by: String,
}

/// A change of a person; a field that is `None` leaves its value as it is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PersonChange {
    pub name: Option<String>,
    pub mail: Option<String>,
    pub cost_centres: Option<Vec<String>>,
    pub password: Option<String>,
    /// New sealed secret; `Some(None)` removes the second factor.
    pub second_factor: Option<Option<Vec<u8>>>,
    pub locked: Option<bool>,
    /// All roles of the person. The person of a row does not count.
    pub roles: Option<Vec<RoleRow>>,
    /// All identities of the person.
    pub identities: Option<Vec<IdentityRow>>,
}

/// A role that a person has. The catalogue does not interpret its name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RoleRow {
    pub person: PersonId,
    pub role: String,
    /// Domain in which the person has the role; `None` for everywhere.
    pub domain: Option<DomainId>,
}

/// The people.
pub trait People {
    /// Registers a person with roles, or does nothing. Fails with `Exists` for a login that is
    /// taken, in upper or lower case, and with `NotFound` for an unknown domain.
    fn add_person(&self, person: &NewPerson) -> Result<Person, CatalogError>;

    /// All people, by login.
    fn people(&self) -> Result<Vec<Person>, CatalogError>;

    /// The person with this login, in upper or lower case. Fails with `NotFound`.
    fn person(&self, login: &str) -> Result<Person, CatalogError>;

    /// The person with this number. Fails with `NotFound`.
    fn person_numbered(&self, person: PersonId) -> Result<Person, CatalogError>;

    /// Changes a person. A new password, a changed second factor, a lock or other identities end
    /// all sign-ins of the person. Fails with `NotFound` for an unknown person or domain, and with
    /// `Exists` for an identity that belongs to another person, and then changes nothing.
    fn change_person(&self, person: PersonId, change: &PersonChange) -> Result<(), CatalogError>;

    /// Removes a person with roles, keys, sign-ins and identities. Nodes that the person owns have
    /// no owner then. Fails with `NotFound`.
    fn remove_person(&self, person: PersonId) -> Result<(), CatalogError>;

    /// The roles of a person, or of all.
    fn roles(&self, person: Option<PersonId>) -> Result<Vec<RoleRow>, CatalogError>;

    /// Replaces all roles of a person. Fails with `NotFound` for an unknown person or domain.
    fn set_roles(&self, person: PersonId, roles: &[RoleRow]) -> Result<(), CatalogError>;

    /// Uses up the code of the second factor for this step of time. Returns false if the code of
    /// this step, or of a later one, was used before.
    fn use_code(&self, person: PersonId, step: u64) -> Result<bool, CatalogError>;
}
