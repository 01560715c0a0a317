//! Versions and archive copies of one node.

use client::admin::{Admin, Node};
use client::{ClientError, ErrorKind, ListedVersion};
use dsm::admin::view::{Table, Value};
use model::{Kind, escaped, mount_point};

use super::bounds::Bounds;
use super::cell::{name, optional_time, time};
use crate::error::CommandError;

/// Maximum number of versions that a statement reads.
pub(super) const VERSIONS_MAX: usize = 500_000;

pub(super) fn usage(view: &str, needs: &str) -> CommandError {
    CommandError::new(format!("{view} cannot be read as a whole: {needs}"))
        .with_hint("'holdfast admin node versions' lists all versions of a filespace")
}

/// Returns the node that the statement is about.
fn node(view: &str, bounds: &Bounds, admin: &mut Admin) -> Result<Node, CommandError> {
    let needed = "the statement needs the condition node_name='NODE', joined by AND";
    let wanted = bounds.node.as_ref().ok_or_else(|| usage(view, needed))?;
    let nodes = admin.nodes(None)?;
    let found = nodes.into_iter().find(|node| node.name.eq_ignore_ascii_case(wanted));
    let missing = || ClientError::new(ErrorKind::NotFound, format!("there is no node {wanted}"));
    Ok(found.ok_or_else(missing)?)
}

pub(super) fn backups(
    table: &mut Table,
    bounds: &Bounds,
    admin: &mut Admin,
) -> Result<(), CommandError> {
    let node = node("BACKUPS", bounds, admin)?;
    let filespaces = node.filespaces.iter().map(|filespace| &filespace.name);
    let is_wanted = |name: &&Vec<u8>| match &bounds.filespace {
        Some(wanted) => escaped(mount_point(name)) == *wanted,
        None => true,
    };
    let named = filespaces.filter(is_wanted);
    for filespace in named.cloned().collect::<Vec<_>>() {
        read(table, &node.name, &filespace, admin, |row, version| {
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
    Ok(())
}

pub(super) fn archives(
    table: &mut Table,
    bounds: &Bounds,
    admin: &mut Admin,
) -> Result<(), CommandError> {
    let node = node("ARCHIVES", bounds, admin)?;
    for archive in admin.archives(&node.name)? {
        let filespaces: Vec<Vec<u8>> = archive.filespaces().map(<[u8]>::to_vec).collect();
        for filespace in filespaces {
            read(table, &node.name, &filespace, admin, |row, _| {
                row.extend([
                    ("ARCHIVE_DATE", time(archive.created)),
                    ("DESCRIPTION", archive.description.as_str().into()),
                ]);
            })?;
        }
    }
    Ok(())
}

/// Values of a row, with their columns.
type Row = Vec<(&'static str, Value)>;

/// Adds a row for each version in a filespace. `complete` adds the columns of the view.
fn read(
    table: &mut Table,
    node: &str,
    filespace: &[u8],
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
            let needed = "there are more than 500,000 versions; add the condition \
                          filespace_name='/FILESPACE', joined by AND";
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
