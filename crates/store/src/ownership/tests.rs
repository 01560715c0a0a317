//! Tests of ownership: folders, copies of folders, and their pools.

use model::PoolId;
use pool::{Mark, Role};
use tempfile::TempDir;

use super::*;

/// A server's folder, copies of it, and a pool outside of them.
struct Site {
    scratch: TempDir,
}

impl Site {
    fn new() -> Self {
        let site = Self { scratch: tempfile::tempdir().unwrap() };
        for name in ["server", "pool"] {
            std::fs::create_dir(site.path(name)).unwrap();
        }
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn pool(&self, role: Role) -> Vec<PoolSpec> {
        let spec = PoolSpec {
            id: PoolId(1),
            folder: self.path("pool"),
            role,
            mark: Mark([7; 16]),
            capacity_bytes: None,
            next: None,
            storage: Storage::Folder,
        };
        spec.put_mark().unwrap();
        vec![spec]
    }

    /// Copies the server's folder as `cp -a` does.
    fn copy(&self, name: &str) -> PathBuf {
        let (from, to) = (self.path("server"), self.path(name));
        std::fs::create_dir(&to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
        to
    }
}

/// Takes the folder and its pools as a start of the server does, and releases them at once.
fn start(folder: &Path, specs: &[PoolSpec]) -> Result<(), OpenError> {
    Ownership::take(folder)?.claim(specs)
}

#[test]
fn one_process_has_the_folder() {
    let site = Site::new();
    let folder = site.path("server");
    let first = Ownership::take(&folder).unwrap();
    let second = Ownership::take(&folder).err().expect("the first one has it");
    assert!(matches!(second, OpenError::InUse { .. }), "{second}");
    drop(first);
    Ownership::take(&folder).unwrap();
}

#[test]
fn a_lock_that_somebody_replaces_is_lost() {
    let site = Site::new();
    let folder = site.path("server");
    let held = Ownership::take(&folder).unwrap();
    held.check(&[]).unwrap();
    std::fs::remove_file(folder.join("server.lock")).unwrap();
    assert!(matches!(held.check(&[]), Err(LostOwnership::Lock { .. })));
}

#[test]
fn a_copy_is_refused_until_it_is_adopted_and_then_the_original_is() {
    for role in [Role::Primary, Role::Copy] {
        let site = Site::new();
        let (folder, specs) = (site.path("server"), site.pool(role));
        start(&folder, &specs).unwrap();
        let copy = site.copy("copy");
        let refused = start(&copy, &specs).expect_err("it is a copy");
        assert!(matches!(refused, OpenError::Copied { .. }), "{refused}");
        start(&folder, &specs).expect("the original goes on");
        drop(Ownership::succeed(&copy, &specs).unwrap());
        start(&copy, &specs).expect("it was adopted");
        let refused = start(&folder, &specs).expect_err("the copy has the pool");
        assert!(matches!(refused, OpenError::Owned { .. }), "{refused}");
        // The original was not lost after all.
        drop(Ownership::succeed(&folder, &specs).unwrap());
        start(&folder, &specs).expect("it was adopted in turn");
        assert!(start(&copy, &specs).is_err(), "one of them has the pool");
    }
}

#[test]
fn a_pool_in_use_is_not_taken() {
    let site = Site::new();
    let (folder, specs) = (site.path("server"), site.pool(Role::Primary));
    let held = Ownership::take(&folder).unwrap();
    held.claim(&specs).unwrap();
    let copy = site.copy("copy");
    let before = std::fs::read(copy.join("instance.toml")).unwrap();
    assert!(check_unused(&specs).is_err());
    assert!(Ownership::succeed(&copy, &specs).is_err());
    let after = std::fs::read(copy.join("instance.toml")).unwrap();
    assert_eq!(before, after, "a refused copy is not changed");
    held.check(&specs).expect("nobody has taken anything");
}

#[test]
fn a_pool_that_was_away_follows_the_folder_that_succeeded() {
    let site = Site::new();
    let (folder, specs) = (site.path("server"), site.pool(Role::Copy));
    start(&folder, &specs).unwrap();
    let copy = site.copy("copy");
    drop(Ownership::succeed(&copy, &[]).unwrap());
    start(&copy, &specs).expect("its old identity owned the pool");
    assert!(start(&folder, &specs).is_err());
}

#[test]
fn who_loses_a_pool_while_it_runs_is_told() {
    let site = Site::new();
    let (folder, specs) = (site.path("server"), site.pool(Role::Copy));
    let held = Ownership::take(&folder).unwrap();
    held.claim(&specs).unwrap();
    let new = site.path("new");
    std::fs::create_dir(&new).unwrap();
    drop(Ownership::succeed(&new, &specs).unwrap());
    assert!(matches!(held.check(&specs), Err(LostOwnership::Pool { .. })));
}

#[test]
fn a_damaged_identity_is_named() {
    let site = Site::new();
    let folder = site.path("server");
    drop(Ownership::take(&folder).unwrap());
    std::fs::write(
        folder.join("instance.toml"),
        "id = \"7\"\nlock = [\"1\", \"2\"]\nformer = []\n",
    )
    .unwrap();
    let refused = Ownership::take(&folder).err().expect("nobody knows whose folder it is");
    assert!(refused.to_string().contains("instance.toml"), "{refused}");
}

#[test]
fn a_damaged_owner_is_replaced_by_the_folder_that_succeeds() {
    let site = Site::new();
    let (folder, specs) = (site.path("server"), site.pool(Role::Primary));
    start(&folder, &specs).unwrap();
    std::fs::write(site.path("pool").join("holdfast-owner"), "noise").unwrap();
    assert!(start(&folder, &specs).is_err(), "the pool may belong to another server");
    drop(Ownership::succeed(&folder, &specs).unwrap());
    start(&folder, &specs).expect("it is the owner again");
}
