//! Nodes, their filespaces, and the space that they occupy.

use std::collections::BTreeMap;

use client::admin::{Admin, Event, LogFilter, Node};
use client::{ClientError, ErrorKind, Usage};
use dsm::admin::view::{Table, Value};
use model::{archive_number, is_space_filespace, mount_point};
use serde_json::Value as Json;

use super::backups::{self, Backup, Connection};
use super::bounds::{Bounds, ROWS_MAX};
use super::cell::{host_of, megabytes, name, optional_time, percent, time, yes_or_no};
use crate::commands::admin::{ask_pages, look_up};
use crate::error::CommandError;

/// Number of the last backups of a node among which its last backup of files, and the end of a
/// filespace's backup, are looked for.
const LOOKED_AT_MAX: u32 = 100;
/// Maximum time between the registration of a node and the entry about it in the audit trail.
const ENTRY_MICROS_MAX: i64 = 1_000_000;

pub(super) fn nodes(
    table: &mut Table,
    bounds: &Bounds,
    admin: &mut Admin,
) -> Result<(), CommandError> {
    let documents = ask_pages(admin, "/v1/nodes?limit=1000")?;
    let documents: BTreeMap<&str, &Json> = documents
        .iter()
        .filter_map(|document| Some((document["name"].as_str()?, document)))
        .collect();
    let connections = backups::connections(admin)?;
    let connections: BTreeMap<&str, &Connection> =
        connections.iter().map(|each| (each.node.as_str(), each)).collect();
    let nodes = bounds.nodes(admin)?;
    let mut last = backups::last(admin, &nodes, LOOKED_AT_MAX)?;
    let entries = registrations(admin)?;
    let is_short = nodes.len() <= backups::ASKED_MAX;
    for node in nodes {
        let backup = last_of_files(last.remove(&node.name).unwrap_or_default());
        let whole = node.filespaces.iter().filter_map(|filespace| filespace.last_backup).max();
        let contact = node.last_contact.as_ref();
        let access = whole.max(backup.as_ref().map(|backup| backup.ended));
        let access = access.max(contact.map(|contact| contact.at));
        let bytes = backup.as_ref().and_then(|backup| backup.count("bytes_transferred"));
        let secs = backup.as_ref().map(|backup| backup.ended.secs() - backup.started.secs());
        let document = documents.get(node.name.as_str());
        let known = |key: &str| document.and_then(|document| backups::text(document, key));
        let connection = connections.get(node.name.as_str());
        let address = connection.and_then(|connection| connection.addresses.first());
        let address = address.or(contact.map(|contact| &contact.address));
        let host = contact.map(|contact| contact.host.clone()).filter(|host| !host.is_empty());
        let platform = backup.as_ref().and_then(platform);
        let system = backup.as_ref().and_then(operating_system);
        let version = backup.as_ref().and_then(|backup| backup.word("client_version"));
        let version = version_parts(version.unwrap_or_default());
        let kernel = backup.as_ref().and_then(|backup| backup.word("kernel"));
        let mail = mail(admin, &node.name, is_short)?;
        let is_known = backup.is_some() || contact.is_some();
        table.add([
            ("PLATFORM_NAME", known("platform").or(platform).into()),
            ("CLIENT_VERSION", version[0].into()),
            ("CLIENT_RELEASE", version[1].into()),
            ("CLIENT_LEVEL", version[2].into()),
            ("CLIENT_SUBLEVEL", version[3].into()),
            ("CLIENT_OS_LEVEL", kernel.into()),
            ("CLIENT_OS_NAME", system.into()),
            ("CONTACT", known("owner").into()),
            ("EMAIL_ADDRESS", mail.into()),
            ("REG_ADMIN", registrar(&entries, &node).into()),
            ("TCP_NAME", known("hostname").or(host).into()),
            ("TCP_ADDRESS", address.map(|address| host_of(address)).into()),
            ("LASTSESS_COMMMETH", is_known.then_some("Tcp/Ip").into()),
            ("LASTSESS_RECVD", bytes.into()),
            ("LASTSESS_DURATION", secs.and_then(|secs| u64::try_from(secs).ok()).into()),
            ("NODE_NAME", node.name.into()),
            ("DOMAIN_NAME", node.domain.into()),
            ("LOCKED", yes_or_no(node.is_locked)),
            ("ARCHDELETE", yes_or_no(node.deletes_archives)),
            ("BACKDELETE", yes_or_no(node.deletes_backups)),
            ("LASTACC_TIME", optional_time(access)),
            ("REG_TIME", time(node.registered)),
            ("OPTION_SET", node.option_set.into()),
            ("COLLOCGROUP_NAME", node.collocation_group.into()),
            ("NODETYPE", "CLIENT".into()),
            // A node's own settings say whether it compresses.
            ("COMPRESSION", "CLIENT".into()),
            ("DEDUPLICATION", "CLIENTORSERVER".into()),
            // The server takes nothing else from any node.
            ("SESSION_SECURITY", "STRICT".into()),
            ("TRANSPORT_METHOD", "TLS 1.3".into()),
            ("LABELS", node.labels.join(" ").into()),
        ]);
    }
    Ok(())
}

pub(super) fn filespaces(
    table: &mut Table,
    bounds: &Bounds,
    admin: &mut Admin,
) -> Result<(), CommandError> {
    let nodes = bounds.nodes(admin)?;
    let mut last_of = backups::last(admin, &nodes, LOOKED_AT_MAX)?;
    for node in nodes {
        let last = last_of.remove(&node.name).unwrap_or_default();
        for filespace in &node.filespaces {
            // The server keeps the start of the last whole backup with the filespace, and its end
            // among the backups.
            let start = filespace.last_backup;
            let is_that = |backup: &&Backup| {
                backup.filespace == filespace.name && Some(backup.started) == start
            };
            let end = last.iter().find(is_that).map(|backup| backup.ended);
            let newest = last.iter().find(|backup| backup.filespace == filespace.name);
            let kind = newest.and_then(|backup| backup.word("filesystem_type"));
            let capacity = newest.and_then(|backup| backup.bytes("capacity_bytes"));
            let free = newest.and_then(|backup| backup.bytes("free_bytes"));
            let used = capacity.zip(free).map(|(capacity, free)| capacity.saturating_sub(free));
            let bytes = mount_point(&filespace.name);
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            table.add([
                ("NODE_NAME", node.name.as_str().into()),
                ("FILESPACE_NAME", name(bytes)),
                ("FILESPACE_ID", filespace.id.map(u64::from).into()),
                ("FILESPACE_TYPE", kind.map(str::to_ascii_uppercase).into()),
                ("PLATFORM", newest.and_then(platform).into()),
                ("CAPACITY", capacity.map(|bytes| bytes >> 20).into()),
                ("PCT_UTIL", used.map_or(Value::Missing, |used| percent(used, capacity))),
                ("FILESPACE_HEXNAME", hex.into()),
                ("BACKUP_START", optional_time(start)),
                ("BACKUP_END", optional_time(end.or(start))),
                ("NUM_ACTIVE", filespace.active_objects.into()),
            ]);
        }
    }
    Ok(())
}

/// Returns the last of `backups`, newest first, that is one of files. What space management has
/// sent tells nothing about the client.
fn last_of_files(backups: Vec<Backup>) -> Option<Backup> {
    backups.into_iter().find(|backup| !backup.is_migration())
}

/// Returns the address for mail about a node. It is looked up only if the list `is_short`: the list
/// of all nodes does not have it.
fn mail(admin: &mut Admin, node: &str, is_short: bool) -> Result<Option<String>, CommandError> {
    if !is_short {
        return Ok(None);
    }
    let document = look_up(admin, &format!("/v1/nodes/{node}"))?;
    Ok(document.and_then(|document| backups::text(&document, "mail")))
}

/// Returns the entries about registrations of nodes among the newest of the audit trail. A server
/// that looks for them reads the whole trail. Somebody who may not read the trail gets none.
fn registrations(admin: &mut Admin) -> Result<Vec<Event>, CommandError> {
    match admin.events(&LogFilter::default(), ROWS_MAX) {
        Ok(mut entries) => {
            entries.retain(|entry| entry.action == "node added");
            Ok(entries)
        }
        Err(error) if error.kind == ErrorKind::Refused => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// Returns who has registered the node; `None` if it was renamed, because the entry is about the
/// name that it had.
fn registrar<'e>(entries: &'e [Event], node: &Node) -> Option<&'e str> {
    let is_its = |entry: &&Event| {
        let after = entry.time.0.saturating_sub(node.registered.0);
        let is_named = || {
            let rest = entry.details.strip_prefix(node.name.as_str());
            rest.is_some_and(|rest| rest.starts_with(" in domain "))
        };
        (0..=ENTRY_MICROS_MAX).contains(&after) && is_named()
    };
    entries.iter().find(is_its).map(|entry| entry.actor.as_str())
}

/// Returns the platform of a node in TSM's form, as in `Linux x86-64`.
fn platform(backup: &Backup) -> Option<String> {
    let (system, architecture) = backup.word("platform")?.split_once(' ')?;
    let (first, rest) = system.split_at_checked(1)?;
    let architecture = architecture.replace('_', "-");
    Some(format!("{}{rest} {architecture}", first.to_ascii_uppercase()))
}

/// Returns the operating system of a node in TSM's form. A node does not send its distribution.
fn operating_system(backup: &Backup) -> Option<&'static str> {
    let (system, _) = backup.word("platform")?.split_once(' ')?;
    (system == "linux").then_some("LNX:Linux")
}

/// Returns version, release, level and sublevel of a client.
fn version_parts(version: &str) -> [Option<u64>; 4] {
    // A number that follows a word, as in `1.2-rc.1`, is no part of it.
    let mut parts = version.split(['.', '-']).map_while(|part| part.parse().ok()).fuse();
    let mut parts: [Option<u64>; 4] = std::array::from_fn(|_| parts.next());
    // TSM's versions have four numbers, which scripts join.
    if parts[0].is_some() {
        parts = parts.map(|part| part.or(Some(0)));
    }
    parts
}

pub(super) fn collocation_groups(table: &mut Table, admin: &mut Admin) -> Result<(), CommandError> {
    for node in admin.nodes(None)? {
        if let Some(group) = node.collocation_group {
            table.add([("COLLOCGROUP_NAME", group.into()), ("NODE_NAME", node.name.into())]);
        }
    }
    Ok(())
}

/// Numbers of filespaces, by node and mount point.
pub(super) struct Numbers(BTreeMap<(String, Vec<u8>), u64>);

impl Numbers {
    pub(super) fn of(nodes: &[Node]) -> Self {
        let mut numbers = BTreeMap::new();
        for node in nodes {
            for filespace in &node.filespaces {
                let place = (node.name.clone(), mount_point(&filespace.name).to_vec());
                numbers.extend(filespace.id.map(|id| (place, u64::from(id))));
            }
        }
        Self(numbers)
    }

    /// Returns the number of the filespace; missing for one that has no backups.
    pub(super) fn get(&self, node: &str, mount: &[u8]) -> Value {
        self.0.get(&(node.to_owned(), mount.to_vec())).copied().into()
    }
}

/// Returns the domain of each node.
pub(super) fn domains_of_nodes(admin: &mut Admin) -> Result<BTreeMap<String, String>, ClientError> {
    let nodes = admin.nodes(None)?;
    Ok(nodes.into_iter().map(|node| (node.name, node.domain)).collect())
}

/// Space of a node in one filespace, for one kind of data.
#[derive(Default)]
struct Space {
    files: u64,
    bytes: u64,
    stored_bytes: u64,
}

/// Node, kind of data, and filespace.
type Place = (String, &'static str, Vec<u8>);

/// Adds up the usage of the classes.
fn spaces(bounds: &Bounds, admin: &mut Admin) -> Result<BTreeMap<Place, Space>, CommandError> {
    let node = bounds.exact_node(admin)?;
    let mut spaces: BTreeMap<Place, Space> = BTreeMap::new();
    admin.usage(node.as_deref(), &mut |usage: Usage| {
        let place = (usage.node.clone(), kind(&usage.filespace), usage.mount_point().to_vec());
        let space = spaces.entry(place).or_default();
        space.files += usage.active_objects + usage.inactive_versions;
        space.bytes += usage.active_bytes + usage.inactive_bytes;
        space.stored_bytes += usage.stored_bytes;
        true
    })?;
    Ok(spaces)
}

/// Returns the kind of the data in a filespace, as TSM calls it.
pub(super) fn kind(filespace: &[u8]) -> &'static str {
    if archive_number(filespace).is_some() {
        "Arch"
    } else if is_space_filespace(filespace) {
        "SpMg"
    } else {
        "Bkup"
    }
}

pub(super) fn occupancy(
    table: &mut Table,
    bounds: &Bounds,
    admin: &mut Admin,
) -> Result<(), CommandError> {
    let pools = admin.pools(None)?;
    let mut primary = pools.into_iter().filter(|pool| !pool.is_copy).map(|pool| pool.name);
    // The server does not tell the data of a filespace by pool. With one pool it is all there.
    let pool: Value = match (primary.next(), primary.next()) {
        (Some(only), None) => only.into(),
        _ => Value::Missing,
    };
    let numbers = Numbers::of(&bounds.nodes(admin)?);
    for ((node, kind, filespace), space) in spaces(bounds, admin)? {
        table.add([
            ("FILESPACE_ID", numbers.get(&node, &filespace)),
            ("NODE_NAME", node.into()),
            ("TYPE", kind.into()),
            ("FILESPACE_NAME", name(&filespace)),
            ("STGPOOL_NAME", pool.clone()),
            ("NUM_FILES", space.files.into()),
            ("PHYSICAL_MB", megabytes(space.stored_bytes)),
            ("LOGICAL_MB", megabytes(space.stored_bytes)),
            ("REPORTING_MB", megabytes(space.bytes)),
        ]);
    }
    Ok(())
}

pub(super) fn audit_occupancy(
    table: &mut Table,
    bounds: &Bounds,
    admin: &mut Admin,
) -> Result<(), CommandError> {
    let mut sums: BTreeMap<String, [u64; 3]> = BTreeMap::new();
    for ((node, kind, _), space) in spaces(bounds, admin)? {
        let index = match kind {
            "Bkup" => 0,
            "Arch" => 1,
            _ => 2,
        };
        sums.entry(node).or_default()[index] += space.stored_bytes;
    }
    for (node, bytes) in sums {
        let [backup, archive, space] = bytes.map(|bytes| bytes >> 20);
        table.add([
            ("NODE_NAME", node.into()),
            ("BACKUP_MB", backup.into()),
            ("ARCHIVE_MB", archive.into()),
            ("SPACEMG_MB", space.into()),
            ("TOTAL_MB", (backup + archive + space).into()),
        ]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use model::{ServerTime, space_filespace};

    use super::*;

    #[test]
    fn a_migration_hides_no_backup_of_files() {
        let of = |filespace: Vec<u8>| Backup {
            node: "anna".to_owned(),
            filespace,
            started: ServerTime(0),
            ended: ServerTime(1),
            report: Json::Null,
        };
        let migration = of(space_filespace(b"/home"));
        let files = of(b"/home".to_vec());
        let found = last_of_files(vec![migration.clone(), files.clone()]);
        assert_eq!(found, Some(files));
        assert_eq!(last_of_files(vec![migration]), None);
    }

    #[test]
    fn a_version_has_four_parts_or_none() {
        assert_eq!(version_parts("0.1.0"), [Some(0), Some(1), Some(0), Some(0)]);
        assert_eq!(version_parts("1.2-rc.1"), [Some(1), Some(2), Some(0), Some(0)]);
        assert_eq!(version_parts(""), [None; 4]);
    }
}
