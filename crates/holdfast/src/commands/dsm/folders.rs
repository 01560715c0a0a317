//! Folder of the node that the option files name.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::ErrorKind;
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

/// Returns the folder of the node: the one that PASSWORDDIR names, otherwise the usual one, or one
/// in it if another node is there, or a node of another server of the option files.
pub(super) fn folder(site: &Site, context: &Context) -> Result<PathBuf, CommandError> {
    let base = match site.options.get("PASSWORDDIR") {
        Some(entry) => PathBuf::from(OsStr::from_bytes(&entry.value)),
        None => context.home()?,
    };
    Ok(folder_in(site, base))
}

fn folder_in(site: &Site, base: PathBuf) -> PathBuf {
    let Identity { node, server } = identity(&site.options);
    // Without NODENAME, the name of a node is that of its machine.
    let node = node.or_else(|| node_in(&base)).unwrap_or_else(sys::net::host_name);
    folder_of(&node, server.as_deref(), &servers_of(site), base)
}

/// Fails if this user may not read the folder of the node, which then looks like one of none.
pub(super) fn check_readable(folder: &Path) -> Result<(), CommandError> {
    let path = folder.join(CONFIG_FILE);
    match std::fs::File::open(&path) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let message = format!("cannot read {}: {error}", path.display());
            Err(CommandError::new(message)
                .with_hint("run the command as root, or as a user who has the right"))
        }
        _ => Ok(()),
    }
}

/// Fails if the node in a folder is one of another server than `server`, to which its commands
/// would not go.
pub(super) fn check_server(folder: &Path, server: Option<&str>) -> Result<(), CommandError> {
    match (server, servers_in(folder)) {
        (Some(server), Some(known)) if !is_same_server(server, &known) => {
            let message = format!(
                "the option files name the server {server}, and the node in {} is one of {known}",
                folder.display()
            );
            Err(CommandError::new(message).with_hint(
                "if the server has another address now, write it into dsm.sys, and run 'holdfast \
                 dsm import' with the files and the --stanza of this command; for a node of \
                 another server, name an empty folder with PASSWORDDIR",
            ))
        }
        _ => Ok(()),
    }
}

/// Returns the servers that the stanzas name.
fn servers_of(site: &Site) -> BTreeSet<String> {
    let stanzas = site.system.stanzas.iter();
    let options = stanzas.map(|stanza| Options::new(&site.system, Some(stanza), &site.user, &[]));
    options.filter_map(|one| identity(&one).server).collect()
}

/// Returns the folder of the node `wanted`: the usual one, or one in it if another node has it, or
/// a node of another server of `all`, which the stanzas name.
fn folder_of(
    wanted: &str,
    server: Option<&str>,
    all: &BTreeSet<String>,
    usual: PathBuf,
) -> PathBuf {
    let (nodes, name) = (usual.join(NODES_FOLDER), wanted.to_ascii_lowercase());
    let own = match node_in(&usual) {
        Some(node) if !node.eq_ignore_ascii_case(wanted) => nodes.join(&name),
        _ => usual,
    };
    // A server that no other stanza names is the same one at a former address.
    let is_others = |server: &str, known: &str| {
        all.len() > 1
            && !is_same_server(server, known)
            && all.iter().any(|one| one != server && is_same_server(one, known))
    };
    match (server, servers_in(&own)) {
        (Some(server), Some(known)) if is_others(server, &known) => {
            nodes.join(format!("{name}@{server}"))
        }
        _ => own,
    }
}

/// Returns true if an address is one of `known`, which are separated by commas, by name or by
/// what the names stand for.
pub(super) fn is_same_server(address: &str, known: &str) -> bool {
    let known = || known.split(',').map(str::trim);
    if known().any(|one| one.eq_ignore_ascii_case(address)) {
        return true;
    }
    let resolved = |address: &str| -> BTreeSet<SocketAddr> {
        address.to_socket_addrs().map(Iterator::collect).unwrap_or_default()
    };
    let own = resolved(address);
    known().any(|one| !resolved(one).is_disjoint(&own))
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
    use super::super::files;
    use super::*;

    #[test]
    fn each_node_has_a_folder_of_its_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let usual = folder.path().to_owned();
        let all: BTreeSet<String> = ["127.0.0.1:1500", "127.0.0.1:1501"].map(str::to_owned).into();
        let of = |node: &str, server| folder_of(node, server, &all, usual.clone());
        assert_eq!(of("ANNA", None), usual);
        assert_eq!(of("ANNA", Some("127.0.0.1:1500")), usual);
        let config = "node = \"anna\"\nserver = \"127.0.0.1:1500\"\n";
        std::fs::write(usual.join(CONFIG_FILE), config).expect("written");
        assert_eq!(of("ANNA", None), usual);
        assert_eq!(of("ANNA", Some("127.0.0.1:1500")), usual);
        assert_eq!(of("ANNA", Some("127.0.0.1:1501")), usual.join("nodes/anna@127.0.0.1:1501"));
        assert_eq!(of("BERT", Some("127.0.0.1:1501")), usual.join("nodes/bert"));
        // No stanza names the former address of the server any more.
        assert_eq!(
            folder_of("ANNA", Some("127.0.0.1:1502"), &all, usual.clone()),
            usual.join("nodes/anna@127.0.0.1:1502")
        );
        let all: BTreeSet<String> = ["127.0.0.1:1501", "127.0.0.1:1502"].map(str::to_owned).into();
        assert_eq!(folder_of("ANNA", Some("127.0.0.1:1502"), &all, usual.clone()), usual);
    }

    /// Sites share one folder of passwords among their stanzas, and leave out NODENAME.
    #[test]
    fn a_stanza_of_another_server_has_another_folder_in_each_case() {
        let base = tempfile::tempdir().expect("a folder");
        let file = base.path().join("dsm.sys");
        let text = "se one\ntcps 127.0.0.1\nse two\ntcps 127.0.0.2\n";
        std::fs::write(&file, text).expect("written");
        let of = |stanza: &str| {
            let word = format!("-se={stanza}").into_bytes();
            let (line, _) = dsm::client::options_of(&[word]).expect("an option");
            let places = files::Places { system: Some(file.clone()), user: None };
            let site = files::load(&places, &line).expect("a site");
            folder_in(&site, base.path().to_owned())
        };
        assert_eq!(of("two"), base.path());
        let config = "node = \"anna\"\nserver = \"127.0.0.1:1500\"\n";
        std::fs::write(base.path().join(CONFIG_FILE), config).expect("written");
        assert_eq!(of("one"), base.path());
        assert_eq!(of("two"), base.path().join("nodes/anna@127.0.0.2:1500"));
        assert!(check_server(base.path(), Some("127.0.0.1:1500")).is_ok());
        assert!(check_server(base.path(), None).is_ok());
        let other = check_server(base.path(), Some("127.0.0.2:1500")).expect_err("another one");
        assert!(other.message.contains("is one of 127.0.0.1:1500"), "{}", other.message);
    }
}
