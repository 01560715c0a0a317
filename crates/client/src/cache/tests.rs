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
    assert_eq!(held.count(), 32_768);
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
    assert!(((8 << 20)..=(16 << 20)).contains(&bytes()), "{}", bytes());
    let size = bytes();
    drop(cache);
    let cache = Cache::open(&path, 256);
    assert_eq!(bytes(), size);
    assert!((0..count).all(|n| cache.get(&digest(u64::from(n))) == Some(grant(n))));
}

#[test]
fn a_number_of_megabytes_that_no_disk_has_is_no_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cache");
    for megabytes in [1 << 44, u64::MAX] {
        let cache = Cache::open(&path, megabytes);
        assert!(matches!(cache, Cache::Mapped(_)), "{megabytes}");
    }
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

/// Returns a digest whose place in a table is determined by `high`.
fn digest_with(high: u64, number: u64) -> ChunkDigest {
    let mut digest = digest(number);
    digest.0[8..16].copy_from_slice(&high.to_le_bytes());
    digest
}

fn high_word(digest: &ChunkDigest) -> u64 {
    prefix_words(digest).1
}

/// Returns a digest of the bucket `bucket` of a table of 4096 buckets.
fn digest_in_bucket(bucket: u64, number: u64) -> ChunkDigest {
    digest_with(bucket << 52 | high_word(&digest(number)) >> 12, number)
}

#[test]
fn grants_of_one_bucket_may_fill_its_page() {
    let folder = tempfile::tempdir().expect("a folder");
    // The search after the last bucket of a page goes on with its first.
    for bucket in [0, 5, 15, BUCKETS_FIRST - 1] {
        let path = folder.path().join(format!("cache-{bucket}"));
        let cache = Cache::open(&path, 64);
        let neighbours = [(bucket + 16) % BUCKETS_FIRST, (bucket + 4080) % BUCKETS_FIRST];
        for (neighbour, number) in neighbours.into_iter().zip(1000..) {
            cache.put(&digest_in_bucket(neighbour, u64::from(number)), grant(number));
        }
        let holds = |cache: &Cache, number: u32| {
            cache.get(&digest_in_bucket(bucket, u64::from(number))) == Some(grant(number))
        };
        for number in 0..128 {
            assert_eq!(cache.get(&digest_in_bucket(bucket, u64::from(number))), None);
            cache.put(&digest_in_bucket(bucket, u64::from(number)), grant(number));
        }
        assert!((0..128).all(|number| holds(&cache, number)));
        assert_eq!(path.metadata().expect("the file exists").len(), 1 << 20);
        cache.put(&digest_in_bucket(bucket, 128), grant(128));
        drop(cache);
        assert!(path.metadata().expect("the file exists").len() > 1 << 20, "the table has grown");
        let cache = Cache::open(&path, 64);
        assert!((0..=128).all(|number| holds(&cache, number)));
        for (neighbour, number) in neighbours.into_iter().zip(1000..) {
            let found = cache.get(&digest_in_bucket(neighbour, u64::from(number)));
            assert_eq!(found, Some(grant(number)));
        }
    }
}

#[test]
fn a_full_page_of_a_table_at_its_limit_loses_one_grant_for_each_new_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = Cache::open(&folder.path().join("cache"), 1);
    let place = |number: u32| digest_in_bucket(u64::from(number % 16), u64::from(number));
    for number in 0..200 {
        cache.put(&place(number), grant(number));
        assert_eq!(cache.get(&place(number)), Some(grant(number)));
        let held = (0..=number).filter(|&n| cache.get(&place(n)) == Some(grant(n)));
        assert_eq!(held.count(), (number as usize + 1).min(128));
    }
}

#[test]
fn a_forgotten_grant_does_not_hide_the_grants_after_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cache");
    let cache = Cache::open(&path, 1);
    let place = |number: u32| digest_in_bucket(7, u64::from(number));
    (0..20).for_each(|number| cache.put(&place(number), grant(number)));
    [0, 3, 7, 9].iter().for_each(|&number| cache.forget(&place(number)));
    drop(cache);
    let cache = Cache::open(&path, 1);
    let found = |number: u32| cache.get(&place(number)) == Some(grant(number));
    let held: Vec<u32> = (0..20).filter(|&number| found(number)).collect();
    assert_eq!(held, [1, 2, 4, 5, 6, 8, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]);
    // The free entries are used again, so the page has room for 112 more grants.
    (20..132).for_each(|number| cache.put(&place(number), grant(number)));
    assert_eq!((0..132).filter(|&number| found(number)).count(), 128);
}

#[test]
fn a_table_with_each_grant_in_its_own_bucket_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cache");
    let mut file = vec![0_u8; 1 << 20];
    let mut used = HashMap::new();
    let mut stored = Vec::new();
    let mut forgotten = Vec::new();
    for number in 0..20_000 {
        let digest = digest(u64::from(number));
        let bucket = usize::try_from(high_word(&digest) >> 52).expect("below 4096");
        let slot: &mut usize = used.entry(bucket).or_default();
        if *slot == 8 {
            continue;
        }
        let entry = &mut file[bucket * 256 + *slot * 32..][..32];
        *slot += 1;
        entry[..16].copy_from_slice(&digest.prefix());
        entry[16..].copy_from_slice(&grant(number).0);
        if number % 7 == 0 {
            entry[16..24].fill(0);
            forgotten.push(digest);
        } else {
            stored.push((digest, grant(number)));
        }
    }
    assert!(used.values().any(|&slots| slots == 8), "some buckets are full");
    std::fs::write(&path, file).expect("written");
    let cache = Cache::open(&path, 64);
    let holds_all = |stored: &[(ChunkDigest, GrantProof)]| {
        stored.iter().all(|(digest, grant)| cache.get(digest) == Some(*grant))
    };
    assert!(holds_all(&stored));
    assert!(forgotten.iter().all(|digest| cache.get(digest).is_none()));
    stored.extend((20_000..60_000).map(|number| (digest(u64::from(number)), grant(number))));
    stored.iter().for_each(|(digest, grant)| cache.put(digest, *grant));
    assert!(path.metadata().expect("the file exists").len() > 1 << 20, "the table has grown");
    assert!(holds_all(&stored));
}

#[test]
fn the_old_table_leaves_the_memory_while_the_table_doubles() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cache");
    let table = Table::open(&path, 4 * BUCKETS_FIRST, false).expect("a table");
    for number in 0..50_000 {
        table.put(prefix_words(&digest(u64::from(number))), grant(number));
    }
    let larger = table.doubled(&path, 64 * BUCKETS_FIRST).expect("a larger table");
    // The new file has the name of the old file, which exists only as a mapping.
    let old = format!("{} (deleted)", path.display());
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("the kernel shows the mappings");
    let mut lines = maps.lines().skip_while(|line| !line.ends_with(&old));
    let resident = lines.find_map(|line| line.strip_prefix("Rss:")).expect("the old mapping");
    let kib = resident.trim().strip_suffix(" kB").expect("a number of KiB");
    assert!(kib.parse::<u64>().expect("a number") <= 512, "{kib} KiB of 4 MiB");
    for number in 0..50_000 {
        let prefix = prefix_words(&digest(u64::from(number)));
        for table in [&table, &larger] {
            let found = table.find(prefix).and_then(|entry| read(entry, prefix));
            assert_eq!(found, Some(grant(number)));
        }
    }
}

#[test]
fn it_holds_what_a_map_holds_while_it_can_grow() {
    let folder = tempfile::tempdir().expect("a folder");
    // Every second digest belongs to one page of a small table, so the table grows far.
    let key = |number: u64| match number % 2 {
        0 => digest_with(number << 43, number),
        _ => digest(number),
    };
    for seed in 0..4_u64 {
        let path = folder.path().join(format!("cache-{seed}"));
        let mut cache = Cache::open(&path, 256);
        let mut model = HashMap::new();
        for step in 0..20_000_u32 {
            let random = blake3::hash(format!("{seed} {step}").as_bytes());
            let (random, _) = random.as_bytes().as_chunks::<8>();
            let number = u64::from_le_bytes(random[0]) % 3000;
            match u64::from_le_bytes(random[1]) % 1000 {
                0 => {
                    drop(cache);
                    cache = Cache::open(&path, 256);
                }
                1..300 => {
                    cache.forget(&key(number));
                    model.remove(&number);
                }
                _ => {
                    cache.put(&key(number), grant(step));
                    model.insert(number, grant(step));
                }
            }
            assert_eq!(cache.get(&key(number)), model.get(&number).copied(), "{seed} {step}");
        }
        for number in 0..3000 {
            assert_eq!(cache.get(&key(number)), model.get(&number).copied(), "{seed} {number}");
        }
        assert!(path.metadata().expect("the file exists").len() > 8 << 20, "the table has grown");
    }
}
