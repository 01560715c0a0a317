//! Enrolment keys, by which many machines become nodes.

use catalog::{CatalogError, EnrolmentKeyRow};
use model::ServerTime;
use store::nodes::{note, token_hash};
use store::{Store, StoreError, check_name, domains, option_sets};
use tonic::Request;
use wire::{TokenKind, proto};

use crate::edge::Edge;
use crate::messages;
use crate::messages::portions::{Portion, Section};

/// Default lifetime of a key, in seconds: 7 days.
const KEY_SECS: i64 = 7 * 86_400;
/// Maximum lifetime of a key, in seconds: a year.
const KEY_SECS_MAX: i64 = 366 * 86_400;
/// Maximum number of nodes that one key enrols.
const NODES_MAX: u32 = 100_000;
/// Maximum number of labels of a key.
const LABELS_MAX: usize = 64;
/// Maximum length of a pattern of names.
const NAMES_BYTES_MAX: usize = 64;
/// Time for which an expired key is still shown, in microseconds: 90 days.
const KEPT_MICROS: i64 = 90 * 86_400_000_000;

/// An enrolment key that an administrator makes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NewEnrolmentKey {
    pub name: String,
    /// Name of the policy domain of its nodes.
    pub domain: String,
    pub nodes_max: u32,
    /// Lifetime; `None` for a week.
    pub lifetime_secs: Option<i64>,
    pub option_set: Option<String>,
    pub labels: Vec<String>,
    /// Pattern that the names of its nodes match; empty for all names.
    pub names: String,
}

/// An enrolment key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EnrolmentKey {
    pub row: EnrolmentKeyRow,
    /// True if it can enrol a node now.
    pub is_valid: bool,
}

/// The keys that a list shows to its caller. The service above notes them in a request; without
/// them, a list shows all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeySight(pub Vec<EnrolmentKey>);

/// The key that the caller of a request may end, by the hash of its secret. The service above notes
/// it in a request: since its look, another key may have got the name. Without it, the key of the
/// name is ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundKey(pub [u8; 32]);

/// Returns the key that a request may end, if there is a limit on it.
pub(super) fn found<T>(request: &Request<T>) -> Option<FoundKey> {
    request.extensions().get().copied()
}

/// Makes a key as a request of an administrator asks.
pub(super) fn add(
    edge: &Edge,
    request: proto::AddEnrolmentKeyRequest,
    actor: &str,
) -> Result<proto::AddEnrolmentKeyReply, StoreError> {
    let new = NewEnrolmentKey {
        domain: messages::domains::name(&request.domain).to_owned(),
        name: request.name,
        nodes_max: request.nodes_max,
        lifetime_secs: Some(request.lifetime_secs).filter(|secs| *secs != 0),
        option_set: Some(request.option_set).filter(|name| !name.is_empty()),
        labels: request.labels,
        names: request.names,
    };
    let (key, token) = make(edge, new, actor)?;
    Ok(proto::AddEnrolmentKeyReply { key: Some(describe(key)), token })
}

/// Makes a key, and returns it with its text.
pub(crate) fn make(
    edge: &Edge,
    new: NewEnrolmentKey,
    actor: &str,
) -> Result<(EnrolmentKey, String), StoreError> {
    let store = &edge.store;
    let now = sys::clock::now();
    let secret = sys::entropy::bytes();
    let row = row(store, new, (token_hash(&secret), now, actor))?;
    store.catalog.forget_keys(ServerTime(now.0.saturating_sub(KEPT_MICROS)))?;
    store.catalog.add_enrolment_key(&row).map_err(|error| match error {
        CatalogError::Exists { .. } => StoreError::conflict(format!(
            "enrolment key {} exists already; choose another name",
            row.name
        )),
        error => error.into(),
    })?;
    let details =
        format!("{} for {} in domain {}", row.name, counted(row.nodes_max.into()), row.domain);
    note(store, actor, "enrolment key added", details)?;
    Ok((key(row, now), edge.authority.token(TokenKind::Key, secret)))
}

/// Lists all keys.
pub(crate) fn all(store: &Store) -> Result<Vec<EnrolmentKey>, StoreError> {
    let now = sys::clock::now();
    Ok(store.catalog.enrolment_keys()?.into_iter().map(|row| key(row, now)).collect())
}

fn counted(nodes: u64) -> String {
    if nodes == 1 { "1 node".to_owned() } else { format!("{nodes} nodes") }
}

fn row(
    store: &Store,
    new: NewEnrolmentKey,
    (hash, now, actor): ([u8; 32], ServerTime, &str),
) -> Result<EnrolmentKeyRow, StoreError> {
    let NewEnrolmentKey { name, nodes_max, option_set, mut labels, names, .. } = new;
    check_name(&name, "an enrolment key")?;
    if !(1..=NODES_MAX).contains(&nodes_max) {
        return Err(StoreError::usage(format!("a key enrols from 1 to {NODES_MAX} nodes")));
    }
    let lifetime = match new.lifetime_secs {
        None => KEY_SECS,
        Some(secs @ 1..=KEY_SECS_MAX) => secs,
        Some(_) => return Err(StoreError::usage("a key must live from 1 second to 366 days")),
    };
    labels.iter().try_for_each(|label| check_name(label, "a label"))?;
    labels.sort_unstable();
    labels.dedup();
    if labels.len() > LABELS_MAX {
        return Err(StoreError::usage(format!("a key gives at most {LABELS_MAX} labels")));
    }
    check_names(&names)?;
    let domain = domains::find(store, &new.domain)?.name;
    if let Some(name) = &option_set {
        // It fails for an option set that does not exist.
        option_sets::list(store, Some(name))?;
    }
    Ok(EnrolmentKeyRow {
        name,
        hash,
        nodes_max,
        nodes: 0,
        made: now,
        made_by: actor.to_owned(),
        expires: ServerTime(now.0 + lifetime * 1_000_000),
        revoked: None,
        domain,
        option_set,
        names,
        labels,
    })
}

/// Fails if no name of a node can match the pattern.
fn check_names(names: &str) -> Result<(), StoreError> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_*?".contains(&byte);
    if names.len() <= NAMES_BYTES_MAX && names.bytes().all(is_allowed) {
        return Ok(());
    }
    Err(StoreError::usage(format!(
        "'{}' cannot be a pattern of node names: give at most {NAMES_BYTES_MAX} letters, digits, \
         '.', '-' or '_', with the wildcards * and ?",
        names.escape_debug()
    )))
}

pub(super) fn list(
    store: &Store,
    request: proto::EnrolmentKeysRequest,
    sight: Option<KeySight>,
) -> Result<proto::EnrolmentKeysReply, StoreError> {
    let mut keys = match sight {
        Some(KeySight(seen)) => seen,
        None => all(store)?,
    };
    if let Some(name) = messages::name(&request.name) {
        keys.retain(|key| key.row.name.eq_ignore_ascii_case(name));
        if keys.is_empty() {
            return Err(unknown(name));
        }
    }
    let Section { items, next } = Portion::parse(request.portion).of_list(
        keys,
        |key| key.row.name.to_ascii_lowercase().into(),
        describe,
    );
    Ok(proto::EnrolmentKeysReply { keys: items, next })
}

/// Ends a key as a request of an administrator asks.
pub(super) fn revoke(
    store: &Store,
    name: &str,
    (found, actor): (Option<FoundKey>, &str),
) -> Result<proto::EnrolmentKey, StoreError> {
    end(store, name, found, actor).map(describe)
}

/// Ends a key. The nodes that it has enrolled stay.
pub(crate) fn end(
    store: &Store,
    name: &str,
    found: Option<FoundKey>,
    actor: &str,
) -> Result<EnrolmentKey, StoreError> {
    let row = find(store, name)?;
    if found.is_some_and(|FoundKey(hash)| row.hash != hash) {
        return Err(unknown(name));
    }
    // The name may be that of another key by now.
    let now = sys::clock::now();
    store.catalog.revoke_key(&row.hash, now).map_err(|error| match error {
        CatalogError::NotFound { .. } => unknown(name),
        error => error.into(),
    })?;
    let keys = store.catalog.enrolment_keys()?;
    let row = keys.into_iter().find(|key| key.hash == row.hash);
    let row = row.ok_or_else(|| unknown(name))?;
    // A key that was revoked before stays as it is.
    if row.revoked == Some(now) {
        note(store, actor, "enrolment key revoked", row.name.clone())?;
    }
    Ok(key(row, now))
}

fn find(store: &Store, name: &str) -> Result<EnrolmentKeyRow, StoreError> {
    let mut rows = store.catalog.enrolment_keys()?;
    rows.retain(|row| row.name.eq_ignore_ascii_case(name));
    rows.pop().ok_or_else(|| unknown(name))
}

fn unknown(name: &str) -> StoreError {
    StoreError::not_found(format!(
        "there is no enrolment key {name}; 'holdfast admin enrolment-key list' shows all keys"
    ))
}

fn key(row: EnrolmentKeyRow, now: ServerTime) -> EnrolmentKey {
    EnrolmentKey { is_valid: row.is_valid(now), row }
}

fn describe(EnrolmentKey { row, is_valid }: EnrolmentKey) -> proto::EnrolmentKey {
    proto::EnrolmentKey {
        is_valid,
        name: row.name,
        nodes_max: row.nodes_max,
        nodes: row.nodes,
        made: row.made.0,
        made_by: row.made_by,
        expires: row.expires.0,
        revoked: row.revoked.map(|at| at.0),
        domain: row.domain,
        option_set: row.option_set.unwrap_or_default(),
        labels: row.labels,
        names: row.names,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_has_characters_of_names_only() {
        for good in ["", "web-*", "db?.example.org", "*"] {
            assert_eq!(check_names(good), Ok(()), "{good}");
        }
        for bad in ["a b", "a/b", "[ab]", "\u{e9}", &"n".repeat(65)] {
            assert!(check_names(bad).is_err(), "{bad}");
        }
    }
}
