//! Folder of the node that the option files name.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use dsm::configuration::{Identity, identity};
use dsm::options::Options;

use super::files::Site;
use crate::context::Context;
use crate::error::CommandError;

const CONFIG_FILE: &str = "client.toml";
/// Folder of the nodes of other stanzas, in the folder of the first one.
const NODES_FOLDER: &str = "nodes";

/// Returns the folder of the node: the one that PASSWORDDIR names, otherwise the usual one, unless
/// another node is in it, or a node of another server of the option files.
pub(super) fn folder(site: &Site, context: &Context) -> Result<PathBuf, CommandError> {
    if let Some(entry) = site.options.get("PASSWORDDIR") {
        return Ok(PathBuf::from(OsStr::from_bytes(&entry.value)));
    }
    let usual = context.home()?;
    let Identity { node, server } = identity(&site.options);
    let server = server.filter(|_| has_several_servers(site));
    Ok(match node {
        Some(wanted) => folder_of(&wanted, server.as_deref(), usual),
        None => usual,
    })
}

/// Returns true if the stanzas name more than one server.
fn has_several_servers(site: &Site) -> bool {
    let stanzas = site.system.stanzas.iter();
    let options = stanzas.map(|stanza| Options::new(&site.system, Some(stanza), &site.user, &[]));
    let servers: BTreeSet<String> = options.filter_map(|one| identity(&one).server).collect();
    servers.len() > 1
}

/// Returns the folder of the node `wanted`: the usual one, or one in it if another node has it, or
/// a node of another server than `server`.
fn folder_of(wanted: &str, server: Option<&str>, usual: PathBuf) -> PathBuf {
    let (nodes, name) = (usual.join(NODES_FOLDER), wanted.to_ascii_lowercase());
    let own = match node_in(&usual) {
        Some(node) if !node.eq_ignore_ascii_case(wanted) => nodes.join(&name),
        _ => usual,
    };
    match (server, servers_in(&own)) {
        (Some(server), Some(known)) if !is_same_server(server, &known) => {
            nodes.join(format!("{name}@{server}"))
        }
        _ => own,
    }
}

/// Returns true if an address is one of `known`, which are separated by commas, by name or by
/// what the names stand for.
fn is_same_server(address: &str, known: &str) -> bool {
    let resolved = |address: &str| -> BTreeSet<SocketAddr> {
        address.to_socket_addrs().map(Iterator::collect).unwrap_or_default()
    };
    let own = resolved(address);
    known
        .split(',')
        .map(str::trim)
        .any(|one| one.eq_ignore_ascii_case(address) || !resolved(one).is_disjoint(&own))
}

/// Returns the name of the node in a folder.
pub(super) fn node_in(folder: &Path) -> Option<String> {
    configured(folder, "node")
}

/// Returns the addresses of the servers of the node in a folder, separated by commas.
fn servers_in(folder: &Path) -> Option<String> {
    configured(folder, "server")
}

fn configured(folder: &Path, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(folder.join(CONFIG_FILE)).ok()?;
    let table: toml::Table = text.parse().ok()?;
    table.get(key)?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_has_a_folder_of_its_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let usual = folder.path().to_owned();
        let of = |node: &str, server| folder_of(node, server, usual.clone());
        assert_eq!(of("ANNA", None), usual);
        assert_eq!(of("ANNA", Some("127.0.0.1:1500")), usual);
        let config = "node = \"anna\"\nserver = \"127.0.0.1:1500\"\n";
        std::fs::write(usual.join(CONFIG_FILE), config).expect("written");
        assert_eq!(of("ANNA", None), usual);
        assert_eq!(of("ANNA", Some("127.0.0.1:1500")), usual);
        assert_eq!(of("ANNA", Some("127.0.0.1:1501")), usual.join("nodes/anna@127.0.0.1:1501"));
        assert_eq!(of("BERT", Some("127.0.0.1:1501")), usual.join("nodes/bert"));
    }
}
