//! Pools of the server to which a backup goes, if that server runs on this machine. A backup that
//! takes them stores the packs of the backup before once more, so the pool grows with each backup.

use std::collections::BTreeMap;
use std::path::Path;

use model::{Kind, is_at_or_below};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use crate::node::home::Home;
use crate::options::{BackupOptions, LocalServer};
use crate::path::absolute;
use crate::rules::{self, Rules};

/// Targets of a backup, by filespace.
type Scopes = BTreeMap<Vec<u8>, Vec<Vec<u8>>>;

/// Returns a warning for each folder with pools or volumes that the backup should leave out.
pub(super) fn warnings(
    home: &Home,
    options: &BackupOptions,
    rules: &Rules,
    scopes: &Scopes,
) -> Vec<String> {
    if options.without_content || options.local_servers.is_empty() {
        return Vec::new();
    }
    // A connection with a damaged identity has failed before.
    let Ok(identity) = home.identity() else { return Vec::new() };
    let takes_backup = |server: &&LocalServer| {
        CertificateDer::from_pem_slice(&server.authority).is_ok_and(|ca| ca == identity.ca)
    };
    let list = rules::list_path(home, options.inclexcl.as_deref());
    let crosses = options.cross_filesystems;
    let is_stored = |folder: &[u8]| is_stored(folder, rules, scopes, crosses);
    let servers = options.local_servers.iter().filter(takes_backup);
    let folders = servers.flat_map(|server| to_leave_out(server, is_stored));
    folders.map(|folder| warning(folder, &list)).collect()
}

fn warning(folder: &[u8], list: &Path) -> String {
    let folder = model::escaped(folder);
    format!(
        "this backup takes {folder}, which has a pool or volumes of the server that stores it, so \
         they grow with each backup: write 'exclude.dir {folder}' into {}; see 'The server's \
         machine as a node' in docs/guide/install.md",
        list.display()
    )
}

/// Returns the folders of `server` that a backup should leave out: the server's folder, or the
/// pools of which alone the backup takes something.
fn to_leave_out(server: &LocalServer, is_stored: impl Fn(&[u8]) -> bool) -> Vec<&[u8]> {
    let has_all = is_stored(&server.folder);
    let stored = server.pools.iter().filter(|pool| is_stored(pool));
    let place = |pool| match has_all && is_at_or_below(pool, &server.folder) {
        true => &server.folder[..],
        false => pool,
    };
    let mut folders: Vec<&[u8]> = stored.map(|pool| place(&pool[..])).collect();
    folders.sort_unstable();
    folders.dedup();
    folders
}

/// Returns true if the backup stores files of `folder`.
fn is_stored(folder: &[u8], rules: &Rules, scopes: &Scopes, crosses: bool) -> bool {
    let Ok((filespace, target)) = rules.virtual_filespaces.locate(folder) else { return false };
    let path = absolute(&filespace, &target);
    let file = [&path[..], b"/file"].concat();
    let (verdict, _) = rules.selection.explain(&file, Kind::File, rules.operation);
    verdict.is_included()
        && rules.excludes_filesystem(&filespace).is_none()
        && is_covered(&path, &filespace, scopes, crosses)
}

/// Returns true if `path`, which is in `filespace`, is at or below a target.
fn is_covered(path: &[u8], filespace: &[u8], scopes: &Scopes, crosses: bool) -> bool {
    let reached = scopes.iter().filter(|(of, _)| crosses || of.as_slice() == filespace);
    let mut targets =
        reached.flat_map(|(of, targets)| targets.iter().map(move |target| absolute(of, target)));
    targets.any(|target| is_at_or_below(path, &target))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(stored: &[&str], expected: &[&str]) {
        let server = LocalServer {
            folder: b"/srv/hf".to_vec(),
            pools: vec![b"/srv/hf/pool".to_vec(), b"/pool2".to_vec()],
            authority: Vec::new(),
        };
        let is_stored = |folder: &[u8]| stored.iter().any(|path| path.as_bytes() == folder);
        let expected: Vec<&[u8]> = expected.iter().map(|path| path.as_bytes()).collect();
        assert_eq!(to_leave_out(&server, is_stored), expected, "{stored:?}");
    }

    #[test]
    fn the_folder_of_the_server_stands_for_the_pools_in_it() {
        check(&["/srv/hf", "/srv/hf/pool", "/pool2"], &["/pool2", "/srv/hf"]);
        check(&["/srv/hf/pool"], &["/srv/hf/pool"]);
        check(&["/pool2"], &["/pool2"]);
        // The pools are left out, and the rest may be backed up.
        check(&["/srv/hf"], &[]);
        check(&[], &[]);
    }

    #[test]
    fn a_pool_is_covered_by_a_target_in_its_file_system() {
        let scopes = |filespace: &str, target: &str| {
            Scopes::from([(filespace.as_bytes().to_vec(), vec![target.as_bytes().to_vec()])])
        };
        let covers = |filespace, target, crosses| {
            is_covered(b"/data/hf/pool", b"/data", &scopes(filespace, target), crosses)
        };
        assert!(covers("/data", "/", false) && covers("/data", "/hf", false));
        assert!(covers("/data", "/hf/pool", false) && !covers("/data", "/hf/po", false));
        assert!(!covers("/", "/", false), "another file system is mounted there");
        assert!(covers("/", "/", true));
    }
}
