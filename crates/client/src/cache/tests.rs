//! Tests of the deduplication cache.

use super::*;

fn digest(number: u64) -> ChunkDigest {
    ChunkDigest(*blake3::hash(&number.to_le_bytes()).as_bytes())
}

fn grant(number: u32) -> GrantProof {
    GrantProof::from_words([9 << 24 | u64::from(number), u64::from(number)])
}

#[test]
fn grants_are_kept_across_openings() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cache");
    let cache = Cache::open(&path, 1);
    assert!(matches!(cache, Cache::Mapped(_)));
    for number in 0..1000 {
        cache.put(&digest(u64::from(number)), grant(number));
    }
    drop(cache);
    let cache = Cache::open(&path, 1);
    assert_eq!(cache.get(&digest(3)), Some(grant(3)));
    assert_eq!(cache.get(&digest(5000)), None);
}

#[test]
fn a_grant_that_does_not_hold_is_forgotten() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cache");
    let mapped = Cache::open(&path, 1);
    for cache in [mapped, Cache::open(&path, 0)] {
        for number in 0..9 {
            cache.put(&digest(u64::from(number)), grant(number));
        }
        cache.forget(&digest(3));
        cache.forget(&digest(77));
        let held = (0..9).filter(|&n| cache.get(&digest(u64::from(n))) == Some(grant(n)));
        assert_eq!(held.count(), 8);
        cache.put(&digest(3), grant(30));
        assert_eq!(cache.get(&digest(3)), Some(grant(30)));
    }
}

#[test]
fn a_full_table_forgets_single_grants() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = Cache::open(&folder.path().join("cache"), 1);
    let count = 60_000;
    for number in 0..count {
        cache.put(&digest(u64::from(number)), grant(number));
    }
    let held = (0..count).filter(|&n| cache.get(&digest(u64::from(n))) == Some(grant(n)));
    assert!((20_000..=32_768).contains(&held.count()));
}

#[test]
fn it_grows_with_what_is_in_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cache");
    let cache = Cache::open(&path, 256);
    let bytes = || path.metadata().expect("the file exists").len();
    assert_eq!(bytes(), 1 << 20);
    let count = 200_000;
    for number in 0..count {
        cache.put(&digest(u64::from(number)), grant(number));
    }
    assert!(((8 << 20)..=(128 << 20)).contains(&bytes()), "{}", bytes());
    let size = bytes();
    drop(cache);
    let cache = Cache::open(&path, 256);
    assert_eq!(bytes(), size);
    assert!((0..count).all(|n| cache.get(&digest(u64::from(n))) == Some(grant(n))));
}

#[test]
fn a_second_process_works_from_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cache");
    let _first = Cache::open(&path, 1);
    let second = Cache::open(&path, 1);
    assert!(matches!(second, Cache::Memory(_)));
    second.put(&digest(1), grant(1));
    assert_eq!(second.get(&digest(1)), Some(grant(1)));
}

#[test]
fn sessions_at_the_same_time_share_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cache");
    let shared = SharedCache::default();
    let open = || shared.get(|| Cache::open(&path, 1));
    let (first, second) = (open(), open());
    first.put(&digest(1), grant(1));
    assert_eq!(second.get(&digest(1)), Some(grant(1)));
    drop((first, second));
    // It is closed after the last session, so that another process can use it.
    assert!(matches!(Cache::open(&path, 1), Cache::Mapped(_)));
    assert_eq!(open().get(&digest(1)), Some(grant(1)));
}

#[test]
fn a_file_of_any_length_is_used_or_begun_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cache");
    let mib = 1 << 20;
    for (byte, megabytes) in [(0, 1), (0, 4), (0xff, 1), (0xff, 4), (0x55, 1), (0x55, 4)] {
        for length in [0, 1, 4095, mib / 2, mib - 1, mib, mib + 1, 2 * mib, 3 * mib, 8 * mib] {
            std::fs::write(&path, vec![byte; length]).expect("written");
            let cache = Cache::open(&path, megabytes);
            for number in 0..1000 {
                assert_eq!(cache.get(&digest(u64::from(number))), None, "{byte} {length}");
                cache.put(&digest(u64::from(number)), grant(number));
            }
            let found = (0..1000).filter_map(|number| {
                let found = cache.get(&digest(u64::from(number)))?;
                assert_eq!(found, grant(number), "{byte} {length}");
                Some(())
            });
            // In a full table some grants have replaced others.
            assert!(found.count() > 900, "{byte} {length}");
            let bytes = path.metadata().expect("the file exists").len();
            assert!(bytes <= megabytes << 20 || bytes == length as u64, "{byte} {length}");
        }
    }
}

#[test]
fn what_is_no_file_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cache");
    std::fs::create_dir(&path).expect("made");
    for path in [&path, &path.join("none/cache")] {
        let cache = Cache::open(path, 1);
        assert!(matches!(cache, Cache::Memory(_)));
        cache.put(&digest(1), grant(1));
        assert_eq!(cache.get(&digest(1)), Some(grant(1)));
    }
    assert!(path.is_dir());
}

#[test]
fn a_table_that_a_dead_process_left_half_made_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, left) = (folder.path().join("cache"), folder.path().join("cache.new"));
    std::fs::write(&left, vec![0x55; 3 << 20]).expect("written");
    let cache = Cache::open(&path, 64);
    let count = 40_000;
    (0..count).for_each(|number| cache.put(&digest(u64::from(number)), grant(number)));
    assert!(path.metadata().expect("the file exists").len() > 1 << 20, "the table has grown");
    assert!(left.metadata().is_err());
    assert!((0..count).all(|n| cache.get(&digest(u64::from(n))) == Some(grant(n))));
}
