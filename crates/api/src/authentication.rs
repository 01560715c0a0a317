//! The caller of a request, who is known by a key, a password, the sign-in of a browser, or the
//! administration socket.
//!
//! | `Authorization` or cookie | allows |
//! |---|---|
//! | `Token ID:SECRET` | what the key's person may, within the kind of the key |
//! | `Basic LOGIN:PASSWORD` | reading |
//! | cookie, and header `X-Holdfast-Guard` with each change | what the person may |
//! | the administration socket of the server's folder | everything |
//!
//! All failures give the same answer. After some failures from an address, or for a login, each
//! further attempt is followed by a pause: see `login_guesses`.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Instant;

use axum::http::{HeaderMap, Method, header};
use catalog::{CatalogError, Person, SignInRow};
use data_encoding::{BASE64, HEXLOWER};
use model::{DomainId, PersonId};

use crate::caller::{Caller, HeldRole, Limit};
use crate::desk::{Desk, origin};
use crate::keys::{self, KeyKind};
use crate::login_guesses::{LoginGuesses, Place, PlaceKind};
use crate::problem::{Kind, Problem};
use crate::roles::Role;

/// Name of the cookie of a sign-in. Browsers accept this prefix only over HTTPS, for one host.
pub(crate) const COOKIE: &str = "__Host-holdfast";
/// Header by which a page shows that a change comes from itself.
pub(crate) const GUARD: &str = "x-holdfast-guard";
/// Header that names the person for whom an impersonator acts.
const FOR: &str = "x-holdfast-for";
/// Number that no person has.
const NOBODY: PersonId = PersonId(u32::MAX);
/// Maximum length of a login in bytes.
const LOGIN_BYTES_MAX: usize = 64;
/// Time after which the use of a sign-in is noted again, in microseconds: a minute.
const NOTE_MICROS: i64 = 60_000_000;

/// A caller, and the sign-in by which the caller is known.
pub(crate) struct Identity {
    pub(crate) caller: Caller,
    pub(crate) sign_in: Option<[u8; 32]>,
}

impl From<Caller> for Identity {
    fn from(caller: Caller) -> Self {
        Self { caller, sign_in: None }
    }
}

/// A request, as far as it tells who calls.
pub(crate) struct Evidence<'a> {
    pub(crate) headers: &'a HeaderMap,
    pub(crate) method: &'a Method,
    pub(crate) address: Option<IpAddr>,
    /// Name of the user of the administration socket.
    pub(crate) local: Option<String>,
}

/// Returns the caller. A request that shows nothing comes from a stranger.
pub(crate) fn identify(desk: &Desk, evidence: &Evidence<'_>) -> Result<Identity, Problem> {
    if let Some(name) = &evidence.local {
        return Ok(Caller::local(name.clone()).into());
    }
    if let Some(value) = evidence.headers.get(header::AUTHORIZATION) {
        let text = value.to_str().unwrap_or_default();
        let (scheme, credentials) = text.split_once(' ').unwrap_or((text, ""));
        return match scheme.to_ascii_lowercase().as_str() {
            "token" => by_key(desk, evidence, credentials.trim()).map(Identity::from),
            "basic" => by_password(desk, evidence, credentials.trim()).map(Identity::from),
            _ => Err(Problem::new(
                Kind::Unauthenticated,
                "give 'Authorization: Token ID:SECRET', or Basic for reading",
            )),
        };
    }
    match cookie(evidence.headers, COOKIE) {
        Some(secret) => by_sign_in(desk, evidence, secret),
        None => Ok(Caller::stranger().into()),
    }
}

/// The problem of a caller who has shown nothing valid.
pub(crate) fn refused() -> Problem {
    Problem::new(Kind::Unauthenticated, "the key, the password or the sign-in is not valid")
}

fn by_key(desk: &Desk, evidence: &Evidence<'_>, credentials: &str) -> Result<Caller, Problem> {
    let (id, secret) = credentials.split_once(':').unwrap_or((credentials, ""));
    let row = match desk.store().catalog.api_key(id) {
        Ok(row) => Some(row),
        Err(CatalogError::NotFound { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let valid = row.filter(|row| keys::is_valid(row, secret, sys::clock::now()));
    let read = valid.and_then(|row| Some((keys::parse_kind(&row.kind)?, row)));
    let Some(((kind, key_reach), row)) = read else {
        // A key has too many bits to be guessed, so a valid one never waits.
        if let Some(from) = origin(evidence.address) {
            let now = sys::clock::monotonic();
            desk.guesses_of_origins.admit(&from, now).map_err(Problem::too_many)?;
            desk.guesses_of_origins.failed(from, now);
        }
        return Err(refused());
    };
    let person = desk.store().catalog.person_numbered(row.person)?;
    if let Some(reach) = &key_reach
        && !Holdings::of(desk, person.id)?.are_within(reach)
    {
        tracing::info!(key = row.id, "a key is refused: its person has rights in other domains");
        return Err(refused());
    }
    let name = format!("{} (key {})", person.login, row.id);
    let key_expires = row.expires;
    let caller = match kind {
        KeyKind::Full => caller(desk, &person, name, Limit::None),
        KeyKind::Readonly => caller(desk, &person, name, Limit::ReadOnly),
        KeyKind::Enroller => caller(desk, &person, name, Limit::Enroller { key: row.id }),
        KeyKind::Impersonator => impersonate(desk, evidence, &person, &name),
    };
    Ok(Caller { key_expires, key_reach, ..caller? })
}

/// Roles of a person, and the domains that have nodes of the person.
pub(crate) struct Holdings {
    roles: Vec<HeldRole>,
    owned: Vec<DomainId>,
}

impl Holdings {
    pub(crate) fn of(desk: &Desk, person: PersonId) -> Result<Self, Problem> {
        let owned = desk.store().catalog.domains_of_owner(person)?;
        Ok(Self { roles: roles(desk, person)?, owned })
    }

    /// Returns true if the person has rights in the domains of `reach` only. The maker of a key
    /// knows its secret, and must not get what the person is given elsewhere later.
    pub(crate) fn are_within(&self, reach: &BTreeSet<DomainId>) -> bool {
        let is_inside = |held: &HeldRole| held.domain.is_some_and(|domain| reach.contains(&domain));
        self.roles.iter().all(is_inside) && self.owned.iter().all(|domain| reach.contains(domain))
    }
}

/// Returns the person whom the request names as the caller. `by` must be able to see the person.
fn impersonate(
    desk: &Desk,
    evidence: &Evidence<'_>,
    by: &Person,
    by_name: &str,
) -> Result<Caller, Problem> {
    if by.locked {
        return Err(refused());
    }
    let login = evidence.headers.get(FOR).and_then(|value| value.to_str().ok());
    let login = login.ok_or_else(|| {
        Problem::invalid("this key acts for a person: name the person in X-Holdfast-For")
    })?;
    let own = roles(desk, by.id)?;
    let catalog = &desk.store().catalog;
    let person = match catalog.person(login) {
        Ok(person) => Some(person),
        Err(CatalogError::NotFound { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    // A person who does not exist takes the same questions as one of others.
    let number = person.as_ref().map_or(NOBODY, |person| person.id);
    let (theirs, owned) = (roles(desk, number)?, catalog.domains_of_owner(number)?);
    // Own nodes are no reason against acting for oneself.
    let owned = if number == by.id { Vec::new() } else { owned };
    let person = person.filter(|_| may_act(&own, &theirs, &owned));
    let person = person.ok_or_else(|| Problem::not_found("person", login))?;
    let name = format!("{} by {by_name}", person.login);
    let caller = caller(desk, &person, name, Limit::None)?;
    Ok(Caller { acting: Some(by.id), ..caller })
}

/// Returns true if a person with the roles `own` may act for a person with the roles `theirs` who
/// owns nodes in the domains `owned`: the administrator of a domain acts for its customers, and the
/// system role for everybody. Whoever owns a node in another domain has rights there, and is no
/// customer of this domain alone.
fn may_act(own: &[HeldRole], theirs: &[HeldRole], owned: &[DomainId]) -> bool {
    let administers = |domain| own.contains(&HeldRole { role: Role::Tenant, domain: Some(domain) });
    let is_covered = |held: &HeldRole| {
        matches!(held.role, Role::Tenant | Role::Owner) && held.domain.is_some_and(administers)
    };
    own.contains(&HeldRole { role: Role::System, domain: None })
        || !theirs.is_empty()
            && theirs.iter().all(is_covered)
            && owned.iter().copied().all(administers)
}

fn by_password(desk: &Desk, evidence: &Evidence<'_>, credentials: &str) -> Result<Caller, Problem> {
    if !matches!(*evidence.method, Method::GET | Method::HEAD) {
        let text = "Basic is for reading; changes need a key: 'Authorization: Token ID:SECRET'";
        return Err(Problem::new(Kind::Unauthenticated, text));
    }
    let decoded = BASE64.decode(credentials.as_bytes()).ok();
    let text = decoded.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(refused)?;
    let (login, password) = text.split_once(':').ok_or_else(refused)?;
    let person = check_password(desk, evidence.address, login, password)?;
    if person.second_factor.is_some() {
        let text = "a person with a second factor signs in, or uses a key";
        return Err(Problem::new(Kind::SecondFactor, text));
    }
    let name = person.login.clone();
    caller(desk, &person, name, Limit::ReadOnly)
}

/// Returns the person with this login and password. The answer for an unknown login takes as long
/// as the one for a wrong password.
pub(crate) fn check_password(
    desk: &Desk,
    address: Option<IpAddr>,
    login: &str,
    password: &str,
) -> Result<Person, Problem> {
    check_credentials(desk, (address, false), login, password)
}

/// Does the same for a caller who is known to be the person: guesses from elsewhere do not slow it.
pub(crate) fn check_own_password(
    desk: &Desk,
    address: Option<IpAddr>,
    login: &str,
    password: &str,
) -> Result<Person, Problem> {
    check_credentials(desk, (address, true), login, password)
}

/// Returns the kind of a place. The person has a sign-in from a known one, if not this process has
/// noted it among `guesses`. A person who does not exist takes the same question.
pub(crate) fn kind_of_place(
    desk: &Desk,
    guesses: &LoginGuesses,
    place: &Place,
    person: Option<&Person>,
    now: Instant,
) -> Result<PlaceKind, Problem> {
    let person = person.map_or(NOBODY, |person| person.id);
    let sign_ins = desk.store().catalog.sign_ins(person)?;
    let is_here = |sign_in: &SignInRow| {
        sign_in.origin.parse().is_ok_and(|address| origin(Some(address)) == place.from)
    };
    match sign_ins.iter().any(is_here) {
        true => Ok(PlaceKind::Known),
        false => Ok(guesses.kind(place, now)),
    }
}

fn check_credentials(
    desk: &Desk,
    (address, is_own): (Option<IpAddr>, bool),
    login: &str,
    password: &str,
) -> Result<Person, Problem> {
    if login.len() > LOGIN_BYTES_MAX || login.chars().any(char::is_control) {
        return Err(refused());
    }
    let (from, now) = (origin(address), sys::clock::monotonic());
    let place = Place { login: login.to_lowercase(), from };
    let guesses = &desk.guesses_of_logins;
    guesses.admit(&place, now).map_err(Problem::too_many)?;
    if let Some(from) = &from {
        desk.guesses_of_origins.admit(from, now).map_err(Problem::too_many)?;
    }
    let person = match desk.store().catalog.person(login) {
        Ok(person) => Some(person),
        Err(CatalogError::NotFound { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let kind = match is_own {
        true => PlaceKind::Known,
        false => kind_of_place(desk, guesses, &place, person.as_ref(), now)?,
    };
    guesses.admit_among_all(&place, kind, now).map_err(Problem::too_many)?;
    let stored = person
        .as_ref()
        .and_then(|person| Some((person.id, person.password.as_deref()?)));
    let is_known = stored.is_some_and(|stored| desk.passwords.is_known(stored, password, now));
    if !is_known {
        // The attempt counts before its hash is computed, so that many at once are no more guesses
        // than one after the other.
        guesses.failed(&place, kind, now);
    }
    let is_right = is_known || desk.passwords.is_right(stored, password, now);
    match person.filter(|person| is_right && !person.locked) {
        Some(person) => {
            guesses.succeeded(&place, kind, !is_known, now);
            Ok(person)
        }
        None => {
            if let Some(from) = from {
                desk.guesses_of_origins.failed(from, now);
            }
            Err(refused())
        }
    }
}

/// Returns the value of a cookie.
pub(crate) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lists = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = lists.flat_map(|list| list.split(';'));
    pairs
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|pair| pair.0 == name)
        .map(|pair| pair.1)
}

fn by_sign_in(desk: &Desk, evidence: &Evidence<'_>, secret: &str) -> Result<Identity, Problem> {
    let (hash, now) = (keys::hash(secret), sys::clock::now());
    let catalog = &desk.store().catalog;
    // A sign-in that has ended makes a stranger, so that the page can sign in again.
    let Some(sign_in) = catalog.sign_in(&hash, now)? else {
        return Ok(Caller::stranger().into());
    };
    let is_change = !matches!(*evidence.method, Method::GET | Method::HEAD);
    let shown = evidence.headers.get(GUARD).map(|value| value.as_bytes());
    let guard = HEXLOWER.encode(&sign_in.guard);
    if is_change && shown != Some(guard.as_bytes()) {
        let text = "a change needs the header X-Holdfast-Guard with the guard of the sign-in";
        return Err(Problem::new(Kind::Forbidden, text));
    }
    if now.0 - sign_in.used.0 > NOTE_MICROS {
        catalog.note_use(&hash, now)?;
    }
    let person = catalog.person_numbered(sign_in.person)?;
    let name = person.login.clone();
    let caller = caller(desk, &person, name, Limit::None)?;
    Ok(Identity { caller, sign_in: Some(hash) })
}

fn caller(desk: &Desk, person: &Person, name: String, limit: Limit) -> Result<Caller, Problem> {
    if person.locked {
        return Err(refused());
    }
    let roles = roles(desk, person.id)?;
    let person = Some(person.id);
    Ok(Caller { name, person, roles, limit, ..Caller::stranger() })
}

/// Returns the roles of a person. Roles that only a newer program knows do not count.
pub(crate) fn roles(desk: &Desk, person: PersonId) -> Result<Vec<HeldRole>, Problem> {
    let rows = desk.store().catalog.roles(Some(person))?;
    let held = |row: catalog::RoleRow| {
        Some(HeldRole { role: Role::of_name(&row.role)?, domain: row.domain })
    };
    Ok(rows.into_iter().filter_map(held).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_administrator_acts_for_own_customers_only() {
        let held = |role, domain| HeldRole { role, domain };
        let (lab, law) = (Some(DomainId(1)), Some(DomainId(2)));
        let tenant = [held(Role::Tenant, lab)];
        let may = |own: &[HeldRole], theirs: &[HeldRole]| may_act(own, theirs, &[]);
        assert!(may(&tenant, &[held(Role::Owner, lab)]));
        assert!(may(&tenant, &[held(Role::Tenant, lab), held(Role::Owner, lab)]));
        assert!(!may(&tenant, &[held(Role::Owner, law)]));
        assert!(!may(&tenant, &[held(Role::Owner, lab), held(Role::Owner, law)]));
        assert!(!may(&tenant, &[held(Role::System, None)]) && !may(&tenant, &[]));
        assert!(!may(&[], &[held(Role::Owner, lab)]));
        assert!(may(&[held(Role::System, None)], &[held(Role::System, None)]));
    }

    #[test]
    fn nobody_acts_for_the_owner_of_a_node_elsewhere() {
        let held = |role, domain| HeldRole { role, domain };
        let (lab, law) = (DomainId(1), DomainId(2));
        let (tenant, customer) = ([held(Role::Tenant, Some(lab))], [held(Role::Owner, Some(lab))]);
        let may = |own: &[HeldRole], owned: &[DomainId]| may_act(own, &customer, owned);
        assert!(may(&tenant, &[lab]));
        assert!(!may(&tenant, &[law]) && !may(&tenant, &[lab, law]));
        assert!(may(&[held(Role::System, None)], &[law]));
    }

    #[test]
    fn a_key_reaches_the_domains_of_its_maker_only() {
        let held = |domain| HeldRole { role: Role::Owner, domain };
        let (lab, law) = (DomainId(1), DomainId(2));
        let reach = BTreeSet::from([lab]);
        let are_within = |roles: &[HeldRole], owned: &[DomainId]| {
            let holdings = Holdings { roles: roles.to_vec(), owned: owned.to_vec() };
            holdings.are_within(&reach)
        };
        assert!(are_within(&[held(Some(lab))], &[lab]));
        assert!(!are_within(&[held(Some(lab))], &[lab, law]), "a node elsewhere");
        assert!(!are_within(&[held(Some(lab)), held(Some(law))], &[]), "a role elsewhere");
        assert!(!are_within(&[held(None)], &[]), "a role everywhere");
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        let headers = |text: &str| {
            let value = text.parse().expect("is a value");
            HeaderMap::from_iter([(header::COOKIE, value)])
        };
        let text = format!("a=b; {COOKIE}=secret; c=d");
        assert_eq!(cookie(&headers(&text), COOKIE), Some("secret"));
        assert_eq!(cookie(&headers("holdfast=secret"), COOKIE), None);
        assert_eq!(cookie(&HeaderMap::new(), COOKIE), None);
    }
}
