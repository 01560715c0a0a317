//! Programs that open files beside their migration.

use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::*;

const FILES: u64 = 40;
const ROUNDS: u64 = 3;

/// GNU tar opens files without waiting, and left out files that were just migrating.
#[test]
fn who_opens_a_file_without_waiting_beside_its_migration_is_let_in() {
    let Some(space) = Space::new(KINDS[0], &[]) else { return };
    let top = space.fs();
    let path = |number: u64| top.join(format!("d/{number}"));
    let content = |number: u64| noise(number, 70_000);
    let is_over = AtomicBool::new(false);
    let open_all = || {
        let mut refused = Vec::new();
        while !is_over.load(Relaxed) {
            for number in 0..FILES {
                let mut options = File::options();
                options.read(true).custom_flags(libc::O_NONBLOCK);
                refused.extend(options.open(path(number)).map(drop).err());
            }
        }
        refused
    };
    for number in 0..FILES {
        space.write(&format!("d/{number}"), &content(number));
    }
    std::thread::scope(|scope| {
        let opener = scope.spawn(open_all);
        for _ in 0..ROUNDS {
            // Some files are in use, and stay.
            drop(space.hsm(&["migrate"], &space.fs().join("d")));
        }
        is_over.store(true, Relaxed);
        let refused = opener.join().unwrap();
        assert!(refused.is_empty(), "{} opens: {:?}", refused.len(), refused.first());
    });
    for number in 0..FILES {
        assert!(fs::read(path(number)).unwrap() == content(number), "{number}");
        space.migrate(&path(number));
        assert!(fs::read(path(number)).unwrap() == content(number), "{number}");
    }
}
