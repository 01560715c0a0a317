//! Places of the catalogues and packs of servers for which the test chooses no place itself: the
//! servers' folders, or, with `HOLDFAST_TEST_STORES`, a database, an object store, or both.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Cluster, Garage};
use crate::skip;

const VARIABLE: &str = "HOLDFAST_TEST_STORES";

/// Places of catalogues and packs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stores {
    Folder,
    Database,
    Bucket,
    Both,
}

/// Returns the places that the variable names. If this machine does not have them, prints a line
/// and returns [`Stores::Folder`].
fn stores() -> Stores {
    static FOUND: OnceLock<Stores> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let wanted = wanted();
        let has_database = || Cluster::shared().is_some();
        let has_bucket = || super::garage::is_there();
        let can_be_had = match wanted {
            Stores::Folder => true,
            Stores::Database => has_database(),
            Stores::Bucket => has_bucket(),
            Stores::Both => has_database() && has_bucket(),
        };
        if can_be_had { wanted } else { Stores::Folder }
    })
}

fn wanted() -> Stores {
    match std::env::var(VARIABLE).as_deref() {
        Err(_) | Ok("") => Stores::Folder,
        Ok("database") => Stores::Database,
        Ok("bucket") => Stores::Bucket,
        Ok("both") => Stores::Both,
        Ok(other) => panic!("{VARIABLE} is '{other}'; it must be database, bucket or both"),
    }
}

/// Returns true if servers have their catalogues and packs in their folders. Otherwise prints that
/// the test is left out, because it looks at these files.
pub fn is_in_folders() -> bool {
    let is_so = are_in_folders();
    if !is_so {
        skip::say("this test needs the catalogue and the packs in the server's folder");
    }
    is_so
}

/// Returns true if servers have their catalogues and packs in their folders.
pub fn are_in_folders() -> bool {
    stores() == Stores::Folder
}

/// Returns the object store that all tests of the process share. It ends with the process, and the
/// next process removes its folder.
fn garage() -> &'static Garage {
    static SHARED: OnceLock<Garage> = OnceLock::new();
    SHARED.get_or_init(|| {
        let (sender, started) = std::sync::mpsc::channel();
        // This thread lives as long as the process, and the store ends with the thread.
        std::thread::spawn(move || {
            let folder: PathBuf = super::postgres::left_behind("garage");
            let garage = Garage::start_bound(&folder).expect("HOLDFAST_TEST_STORES needs Garage");
            sender.send(garage).expect("the test waits");
            loop {
                std::thread::park();
            }
        });
        started.recv().expect("the store was started")
    })
}

/// Options of `server init` for a new server.
pub(super) fn options() -> Vec<String> {
    static POOLS: AtomicU32 = AtomicU32::new(0);
    let mut options = Vec::new();
    if matches!(stores(), Stores::Database | Stores::Both) {
        let cluster = Cluster::shared().expect("HOLDFAST_TEST_STORES needs PostgreSQL");
        options.extend(["--catalog".to_owned(), cluster.url(&cluster.add_database())]);
    }
    if matches!(stores(), Stores::Bucket | Stores::Both) {
        let prefix = format!("pool-{}", POOLS.fetch_add(1, Ordering::Relaxed));
        options.extend(["--pool".to_owned(), garage().url(&prefix)]);
    }
    options
}
