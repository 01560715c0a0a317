//! Folder of the node that the option files name.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use dsm::configuration::identity;
use dsm::options::Options;

use crate::context::Context;
use crate::error::CommandError;

const CONFIG_FILE: &str = "client.toml";
/// Folder of the nodes of other stanzas, in the folder of the first one.
const NODES_FOLDER: &str = "nodes";

/// Returns the folder of the node: the one that PASSWORDDIR names, otherwise the usual one, unless
/// another node is in it.
pub(super) fn folder(options: &Options, context: &Context) -> Result<PathBuf, CommandError> {
    if let Some(entry) = options.get("PASSWORDDIR") {
        return Ok(PathBuf::from(OsStr::from_bytes(&entry.value)));
    }
    let usual = context.home()?;
    Ok(match identity(options).node {
        Some(wanted) => folder_of(&wanted, usual),
        None => usual,
    })
}

/// Returns the folder of the node `wanted`: the usual one, or one in it if another node has it.
fn folder_of(wanted: &str, usual: PathBuf) -> PathBuf {
    match node_in(&usual) {
        Some(node) if !node.eq_ignore_ascii_case(wanted) => {
            usual.join(NODES_FOLDER).join(wanted.to_ascii_lowercase())
        }
        _ => usual,
    }
}

/// Returns the name of the node in a folder.
pub(super) fn node_in(folder: &Path) -> Option<String> {
    let text = std::fs::read_to_string(folder.join(CONFIG_FILE)).ok()?;
    let table: toml::Table = text.parse().ok()?;
    table.get("node")?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_has_a_folder_of_its_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let usual = folder.path().to_owned();
        assert_eq!(folder_of("ANNA", usual.clone()), usual);
        std::fs::write(usual.join(CONFIG_FILE), "node = \"anna\"\n").expect("written");
        assert_eq!(folder_of("ANNA", usual.clone()), usual);
        assert_eq!(folder_of("BERT", usual.clone()), usual.join("nodes/bert"));
    }
}
