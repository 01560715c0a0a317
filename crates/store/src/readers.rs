//! Nodes that read what another node has stored, as far as that node lets them.
//!
//! ```text
//!   owner: "bert may read the backups in /home/ann" -> rule in the catalogue
//!   bert:  request that names anna -> Reading::of -> the rules for bert -> check of each path
//! ```
//!
//! 1. Only the owner makes and removes its rules. Nobody else, not even a server's request, does.
//! 2. A node without a rule learns nothing, not even whether the other node exists.
//! 3. A rule is about reading. No request that writes or deletes can name another node.
//! 4. Names are looked up without regard to case, unless a node has exactly the name. A rule never
//!    says which of the two it was, because that would tell which nodes exist (2).

use catalog::{CatalogError, Node, ReadRule};
use model::{NodeName, archive_number, is_at_or_below, is_backup_filespace, mount_point};

use crate::error::StoreError;
use crate::nodes::note;
use crate::store::Store;

/// Maximum number of rules of a node.
const RULES_MAX: usize = 1000;
/// Maximum length of the path of a rule.
const PATH_BYTES_MAX: usize = 4096;

/// Lists the rules of a node.
pub fn rules(store: &Store, owner: &Node) -> Result<Vec<ReadRule>, StoreError> {
    Ok(store.catalog.read_rules(owner.id)?)
}

/// Lets another node read what `owner` has stored at and below a path. The other node need not
/// exist, so that nobody finds out by this which nodes exist.
pub fn allow(store: &Store, owner: &Node, rule: ReadRule) -> Result<ReadRule, StoreError> {
    let rule = checked(owner, rule)?;
    if store.catalog.read_rules(owner.id)?.len() >= RULES_MAX {
        return Err(StoreError::no_space(format!("a node has at most {RULES_MAX} rules")));
    }
    store.catalog.put_read_rule(owner.id, &rule)?;
    tell(store, owner, "reading allowed", &rule)?;
    Ok(rule)
}

/// Takes a rule back.
pub fn forbid(store: &Store, owner: &Node, rule: ReadRule) -> Result<ReadRule, StoreError> {
    let rule = as_made(store, owner, checked(owner, rule)?)?;
    store.catalog.remove_read_rule(owner.id, &rule).map_err(|error| match error {
        CatalogError::NotFound { .. } => StoreError::not_found(format!(
            "node {} may not read the {} at {} anyway; 'holdfast access' lists the rules",
            rule.reader,
            kind(&rule),
            model::escaped(&rule.path)
        )),
        error => error.into(),
    })?;
    tell(store, owner, "reading forbidden", &rule)?;
    Ok(rule)
}

/// Returns the rule as the owner has made it, maybe with the other node's name in another case.
fn as_made(store: &Store, owner: &Node, rule: ReadRule) -> Result<ReadRule, StoreError> {
    let mut rules = store.catalog.read_rules(owner.id)?;
    rules.retain(|known| {
        known.is_archive == rule.is_archive
            && known.path == rule.path
            && known.reader.eq_ignore_ascii_case(&rule.reader)
    });
    let is_there = rules.iter().any(|known| known.reader == rule.reader);
    Ok(if is_there { rule } else { rules.pop().unwrap_or(rule) })
}

fn tell(store: &Store, owner: &Node, what: &str, rule: &ReadRule) -> Result<(), StoreError> {
    let actor = format!("node {}", owner.name);
    let path = model::escaped(&rule.path);
    note(store, &actor, what, format!("node {}: {} at {path}", rule.reader, kind(rule)))
}

fn kind(rule: &ReadRule) -> &'static str {
    if rule.is_archive { "archives" } else { "backups" }
}

/// Returns the rule in its usual form: the path without a slash at its end.
fn checked(owner: &Node, rule: ReadRule) -> Result<ReadRule, StoreError> {
    let reader =
        NodeName::new(&rule.reader).map_err(|error| StoreError::usage(error.to_string()))?;
    if reader == owner.name {
        return Err(StoreError::usage("a node reads what it has stored itself without a rule"));
    }
    if !rule.path.starts_with(b"/") || rule.path.contains(&0) {
        return Err(StoreError::usage("a rule is about an absolute path"));
    }
    if rule.path.len() > PATH_BYTES_MAX {
        let message = format!("the path of a rule has at most {PATH_BYTES_MAX} bytes");
        return Err(StoreError::usage(message));
    }
    let path = without_slash(&rule.path).to_vec();
    Ok(ReadRule { reader: reader.to_string(), path, ..rule })
}

/// Returns a path without the slash at its end; the root keeps it.
fn without_slash(path: &[u8]) -> &[u8] {
    let trimmed = path.strip_suffix(b"/").unwrap_or(path);
    if trimmed.is_empty() { b"/" } else { trimmed }
}

/// A node whose data is read, with what the reader may see of it.
pub struct Reading {
    pub owner: Node,
    /// Rules for the reader; `None` if it reads its own data.
    rules: Option<Vec<ReadRule>>,
}

impl Reading {
    /// Returns the reading of a node's data by itself, or by the administrator.
    pub fn own(node: Node) -> Self {
        Self { owner: node, rules: None }
    }

    /// Finds the node that a request of `caller` reads: `wanted`, or its own without a name.
    pub fn of(store: &Store, caller: &Node, wanted: &str) -> Result<Self, StoreError> {
        if wanted.is_empty() || wanted == caller.name.as_str() {
            return Ok(Self::own(caller.clone()));
        }
        let nothing = || {
            StoreError::not_found(format!(
                "node {} may read nothing of a node {wanted}; that node can allow it with \
                 'holdfast access allow'",
                caller.name
            ))
        };
        let owner = NodeName::new(wanted)
            .ok()
            .and_then(|name| store.catalog.node_in_any_case(&name).ok())
            .ok_or_else(nothing)?;
        if owner.id == caller.id {
            return Ok(Self::own(owner));
        }
        let mut rules = Vec::new();
        for rule in store.catalog.read_rules(owner.id)? {
            if is_for(store, &rule, caller)? {
                rules.push(rule);
            }
        }
        if rules.is_empty() {
            return Err(nothing());
        }
        tracing::info!(reader = %caller.name, owner = %owner.name, "reads another node's data");
        Ok(Self { owner, rules: Some(rules) })
    }

    /// Returns true if the node reads what it has stored itself.
    pub fn is_own(&self) -> bool {
        self.rules.is_none()
    }

    /// Returns true if some of the filespace may be read.
    pub fn sees(&self, filespace: &[u8]) -> bool {
        let Some(rules) = &self.rules else { return true };
        let top = mount_point(filespace);
        rules
            .iter()
            .filter(|rule| is_about(rule, filespace))
            .any(|rule| is_at_or_below(&rule.path, top) || is_at_or_below(top, &rule.path))
    }

    /// Fails unless everything at and below `path` in the filespace may be read.
    pub fn check(&self, filespace: &[u8], path: &[u8]) -> Result<(), StoreError> {
        let Some(rules) = &self.rules else { return Ok(()) };
        let path = absolute(mount_point(filespace), path);
        let may = rules
            .iter()
            .any(|rule| is_about(rule, filespace) && is_at_or_below(&path, &rule.path));
        if may {
            return Ok(());
        }
        Err(StoreError::not_found(format!(
            "node {} does not let this node read {}",
            self.owner.name,
            model::escaped(&path)
        )))
    }
}

/// Returns true if the rule is for the node: it has the node's name, or this name in another case,
/// and no other node has it in any case.
fn is_for(store: &Store, rule: &ReadRule, node: &Node) -> Result<bool, StoreError> {
    if rule.reader == node.name.as_str() {
        return Ok(true);
    }
    if !rule.reader.eq_ignore_ascii_case(node.name.as_str()) {
        return Ok(false);
    }
    let Ok(name) = NodeName::new(&rule.reader) else { return Ok(false) };
    match store.catalog.node_in_any_case(&name) {
        Ok(found) => Ok(found.id == node.id),
        Err(CatalogError::NotFound { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns true if the rule is about filespaces of this kind.
fn is_about(rule: &ReadRule, filespace: &[u8]) -> bool {
    match rule.is_archive {
        true => archive_number(filespace).is_some(),
        false => is_backup_filespace(filespace) && filespace.starts_with(b"/"),
    }
}

/// Returns the absolute path of `path` in the file system with this mount point.
fn absolute(mount_point: &[u8], path: &[u8]) -> Vec<u8> {
    let top = mount_point.strip_suffix(b"/").unwrap_or(mount_point);
    without_slash(&[top, path].concat()).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_a_filespace_becomes_absolute() {
        for (mount_point, path, expected) in [
            ("/", "/data/ann", "/data/ann"),
            ("/data", "/ann/", "/data/ann"),
            ("/data", "", "/data"),
            ("/home", "/", "/home"),
            ("/", "", "/"),
            ("/", "/", "/"),
        ] {
            let found = absolute(mount_point.as_bytes(), path.as_bytes());
            assert_eq!(found, expected.as_bytes(), "{mount_point} {path}");
        }
    }

    #[test]
    fn a_rule_about_backups_is_not_about_archives_images_or_migrated_files() {
        let rule = |is_archive| ReadRule {
            reader: "bert".to_owned(),
            is_archive,
            path: b"/home".to_vec(),
            since: model::ServerTime(0),
        };
        let archive = model::archive_filespace(3, b"/home");
        let migrated = model::space_filespace(b"/home");
        for (filespace, backups, archives) in [
            (&b"/home"[..], true, false),
            (&archive, false, true),
            (&migrated, false, false),
            (b"image of a disk", false, false),
        ] {
            assert_eq!(is_about(&rule(false), filespace), backups);
            assert_eq!(is_about(&rule(true), filespace), archives);
        }
    }
}
