//! Versions and archive copies.

use client::admin::{Admin, Node};
use client::{ClientError, ErrorKind, ListedVersion};
use dsm::admin::view::{Table, Value};
use model::{Kind, escaped, mount_point};

use super::bounds::Bounds;
use super::cell::{name, optional_time, time};
use super::nodes::Numbers;
use crate::error::CommandError;

/// Maximum number of versions that a statement reads.
pub(super) const VERSIONS_MAX: usize = 500_000;

pub(super) fn usage(view: &str, needs: &str) -> CommandError {
    CommandError::new(format!("{view} cannot be read as a whole: {needs}"))
        .with_hint("'holdfast admin node versions' lists all versions of a filespace")
}

/// Returns the nodes that the statement is about: the one that a condition names, otherwise all.
fn nodes(bounds: &Bounds, admin: &mut Admin) -> Result<Vec<Node>, CommandError> {
    let nodes = bounds.nodes(admin)?;
    match &bounds.node {
        Some(wanted) if nodes.is_empty() => {
            let message = format!("there is no node {wanted}");
            Err(ClientError::new(ErrorKind::NotFound, message).into())
        }
        _ => Ok(nodes),
    }
}

pub(super) fn backups(
    table: &mut Table,
    bounds: &Bounds,
    admin: &mut Admin,
) -> Result<(), CommandError> {
    let nodes = nodes(bounds, admin)?;
    let is_wanted = |name: &[u8]| match &bounds.filespace {
        Some(wanted) => escaped(mount_point(name)) == *wanted,
        None => true,
    };
    for node in &nodes {
        for filespace in node.filespaces.iter().filter(|one| is_wanted(&one.name)) {
            let place = (node.name.as_str(), filespace.name.as_slice());
            let number = filespace.id.map(u64::from).into();
            read(table, place, &number, admin, |row, version| {
                let state = match version.deactivated {
                    None => "ACTIVE_VERSION",
                    Some(_) => "INACTIVE_VERSION",
                };
                row.extend([
                    ("STATE", state.into()),
                    ("BACKUP_DATE", time(version.object.inserted)),
                    ("DEACTIVATE_DATE", optional_time(version.deactivated)),
                ]);
            })?;
        }
    }
    Ok(())
}

pub(super) fn archives(
    table: &mut Table,
    bounds: &Bounds,
    admin: &mut Admin,
) -> Result<(), CommandError> {
    let nodes = nodes(bounds, admin)?;
    let numbers = Numbers::of(&nodes);
    for node in &nodes {
        for archive in admin.archives(&node.name)? {
            let filespaces: Vec<Vec<u8>> = archive.filespaces().map(<[u8]>::to_vec).collect();
            for filespace in filespaces {
                let number = numbers.get(&node.name, mount_point(&filespace));
                let place = (node.name.as_str(), filespace.as_slice());
                read(table, place, &number, admin, |row, _| {
                    row.extend([
                        ("ARCHIVE_DATE", time(archive.created)),
                        ("DESCRIPTION", archive.description.as_str().into()),
                    ]);
                })?;
            }
        }
    }
    Ok(())
}

/// Values of a row, with their columns.
type Row = Vec<(&'static str, Value)>;

/// Adds a row for each version in a filespace of a node, which has the number `number`. `complete`
/// adds the columns of the view.
fn read(
    table: &mut Table,
    (node, filespace): (&str, &[u8]),
    number: &Value,
    admin: &mut Admin,
    complete: impl Fn(&mut Row, &ListedVersion),
) -> Result<(), CommandError> {
    let mount = mount_point(filespace);
    let mut is_whole = true;
    admin.versions(node, filespace, &mut |version| {
        let (high, low) = names(&version.path, mount);
        let is_directory = version.object.stat.kind == Kind::Directory;
        let mut row: Row = vec![
            ("NODE_NAME", node.into()),
            ("FILESPACE_NAME", name(mount)),
            ("FILESPACE_ID", number.clone()),
            ("TYPE", (if is_directory { "DIR" } else { "FILE" }).into()),
            ("HL_NAME", name(high)),
            ("LL_NAME", name(low)),
            ("OWNER", version.object.stat.uid.to_string().into()),
            ("CLASS_NAME", version.class.as_str().into()),
            ("FILE_SIZE", version.object.stat.size.into()),
        ];
        complete(&mut row, &version);
        let mut values = table.view.row([]);
        for (column, value) in row {
            values[table.view.index(column)] = value;
        }
        table.rows.push(values);
        is_whole = table.rows.len() <= VERSIONS_MAX;
        is_whole
    })?;
    match is_whole {
        true => Ok(()),
        false => {
            let needed = "there are more than 500,000 versions; add the conditions \
                          node_name='NODE' and filespace_name='/FILESPACE', joined by AND";
            Err(usage(table.view.name, needed))
        }
    }
}

/// Divides a path into TSM's high-level name, which is the directory below the mount point, and its
/// low-level name.
fn names<'a>(path: &'a [u8], mount: &[u8]) -> (&'a [u8], &'a [u8]) {
    let below = if mount == b"/" { path } else { path.strip_prefix(mount).unwrap_or(path) };
    let slash = below.iter().rposition(|byte| *byte == b'/');
    match slash {
        Some(at) => below.split_at(at + 1),
        None => (b"/", below),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_two_names_below_its_mount_point() {
        for (path, mount, expected) in [
            ("/home/ann/letters/a", "/home", ("/ann/letters/", "a")),
            ("/home", "/home", ("/", "")),
            ("/etc/passwd", "/", ("/etc/", "passwd")),
            ("/", "/", ("/", "")),
        ] {
            let (high, low) = names(path.as_bytes(), mount.as_bytes());
            assert_eq!((high, low), (expected.0.as_bytes(), expected.1.as_bytes()), "{path}");
        }
    }
}
