//! Versions that have data on a volume.
//!
//! The catalogue knows the packs of a volume and the packs of a version, and no list of the files
//! of a volume. So the versions of all nodes are looked through, except for those that a query or
//! a statement leaves out by node, filespace or type.

use std::collections::BTreeSet;

use client::Usage;
use client::admin::Admin;
use dsm::admin::view::{Table, Value};
use model::{Kind, escaped, mount_point};

use super::bounds::Bounds;
use super::cell::{name, optional_time};
use super::nodes::{Numbers, kind};
use super::versions::{VERSIONS_MAX, usage};
use crate::error::CommandError;

pub(super) fn contents(
    table: &mut Table,
    bounds: &Bounds,
    admin: &mut Admin,
) -> Result<(), CommandError> {
    let needed = "one volume has to be named, as in volume_name='VOLUME', joined by AND";
    let wanted = bounds.volume.as_ref().ok_or_else(|| usage("CONTENTS", needed))?;
    let volumes = admin.volumes(&client::admin::VolumeFilter::default())?;
    let mut known = volumes.into_iter().map(|volume| volume.name);
    // A volume that is not there has no content, and the server says so.
    let volume = known.find(|known| known.eq_ignore_ascii_case(wanted));
    let volume = volume.unwrap_or_else(|| wanted.clone());
    let most = bounds
        .rows_max
        .map_or(VERSIONS_MAX as u64, |most| most.min(VERSIONS_MAX as u64));
    let numbers = Numbers::of(&bounds.nodes(admin)?);
    for (node, filespace) in places(bounds, admin)? {
        let mount = mount_point(&filespace);
        let number = numbers.get(&node, mount);
        let is_limited = bounds.rows_max.is_some();
        admin.volume_versions(&volume, (node.as_str(), &filespace[..]), &mut |version| {
            if (table.rows.len() as u64) < most && version.object.stat.kind != Kind::Directory {
                table.add([
                    ("VOLUME_NAME", volume.as_str().into()),
                    ("NODE_NAME", node.as_str().into()),
                    ("TYPE", kind(&filespace).into()),
                    ("FILESPACE_NAME", name(mount)),
                    ("FILESPACE_ID", number.clone()),
                    ("FILE_NAME", below(&version.path, mount)),
                    ("FILE_SIZE", version.object.stat.size.into()),
                    ("CLASS_NAME", version.class.as_str().into()),
                    ("DEACTIVATE_DATE", optional_time(version.deactivated)),
                ]);
                return true;
            }
            (table.rows.len() as u64) < most
        })?;
        match (table.rows.len() as u64) < most {
            true => {}
            false if is_limited => return Ok(()),
            false => return Err(usage("CONTENTS", "the volume has too many files; name a node")),
        }
    }
    Ok(())
}

/// Returns the filespaces that are looked through, with their nodes.
fn places(bounds: &Bounds, admin: &mut Admin) -> Result<BTreeSet<(String, Vec<u8>)>, CommandError> {
    let mut places = BTreeSet::new();
    let node = bounds.exact_node(admin)?;
    if bounds.node.is_some() && node.is_none() {
        return Ok(places);
    }
    admin.usage(node.as_deref(), &mut |usage: Usage| {
        let space = escaped(usage.mount_point());
        let is_named = bounds.filespace.as_ref().is_none_or(|wanted| *wanted == space);
        let kind = kind(&usage.filespace);
        let wanted = bounds.kind.as_ref();
        if is_named && wanted.is_none_or(|wanted| wanted.eq_ignore_ascii_case(kind)) {
            places.insert((usage.node, usage.filespace));
        }
        true
    })?;
    Ok(places)
}

/// Returns the path of a file below the mount point, as TSM shows it.
fn below(path: &[u8], mount: &[u8]) -> Value {
    let below = if mount == b"/" { path } else { path.strip_prefix(mount).unwrap_or(path) };
    name(below)
}
