//! The planted tree is the same for the same seed.

use super::*;
use crate::manifest::{Kind, Manifest, assert_same};
use crate::scratch::Scratch;

fn planted(seed: u64) -> (Scratch, PlantReport, Manifest) {
    let scratch = Scratch::new();
    let planted = plant(scratch.path(), seed).unwrap();
    let manifest = Manifest::take(scratch.path()).unwrap();
    (scratch, planted, manifest)
}

#[test]
fn same_seed_gives_the_same_tree() {
    let (_one, _, first) = planted(7);
    let (_two, _, second) = planted(7);
    assert!(first.len() > 3000, "number of objects in the tree: {}", first.len());
    assert_same(&first, &second);
}

#[test]
fn another_seed_gives_other_content() {
    let (_one, _, first) = planted(7);
    let (_two, _, second) = planted(8);
    let path = b"sizes/random-4096";
    assert_ne!(first.object(path).content, second.object(path).content);
}

#[test]
fn root_is_refused_nothing_that_ext4_has() {
    let (scratch, planted, _) = planted(1);
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let fs = rustix::fs::statfs(scratch.path()).unwrap();
    if fs.f_type != 0xef53 {
        return;
    }
    let refused: Vec<_> = planted.refused.iter().map(|r| (&r.what, r.error.to_string())).collect();
    assert!(refused.is_empty(), "{refused:?}");
}

#[test]
fn tree_has_what_it_promises() {
    let (_scratch, planted, manifest) = planted(3);
    assert_eq!(planted.sockets, 1);
    assert!(!manifest.objects.contains_key(b"special/socket".as_slice()));
    assert!(manifest.objects.keys().any(|path| path.len() > 4096));
    assert!(manifest.objects.keys().any(|path| path.contains(&b'\n')));
    assert!(manifest.objects.keys().any(|path| std::str::from_utf8(path).is_err()));
    let group = manifest.object(b"links/within").link_group.clone();
    assert_eq!(group.as_deref(), Some(b"links/a-third-time".as_slice()));
    let sparse = manifest.object(b"sparse/gibibyte");
    assert_eq!(sparse.bytes, Some(1 << 30));
    assert!(sparse.allocation.unwrap().bytes < 1 << 20);
    assert_eq!(manifest.object(b"special/fifo").kind, Kind::Fifo);
    assert!(manifest.object(b"times/before-1970").mtime_ns < 0);
    assert_eq!(manifest.object(b"times/one-nanosecond").mtime_ns % 1_000_000_000, 1);
}

#[test]
fn tree_is_removed_with_its_scratch_folder() {
    let (scratch, _, _) = planted(5);
    let path = scratch.path().to_path_buf();
    drop(scratch);
    assert!(std::fs::symlink_metadata(path).is_err());
}
