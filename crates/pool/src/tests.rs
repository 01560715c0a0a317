//! Packs on a real disk: appended, synced, sealed, torn, damaged.

use chunk::{Compression, Compressor, DomainKey, RawQuantum};
use proptest::prelude::*;

use super::*;

const DOMAIN: DomainId = DomainId(1);

fn digest_of(_: DomainId, chunk: &[u8]) -> ChunkDigest {
    DomainKey::new([1; 32]).digest(chunk)
}

fn open(folder: &Path) -> (Pool, Opened) {
    Pool::open(folder, PackNumber(1), &BTreeMap::new(), digest_of).expect("a folder")
}

fn quantum(chunks: &[Vec<u8>]) -> (Vec<u8>, Vec<u32>, Vec<ChunkDigest>) {
    let mut raw = RawQuantum::default();
    chunks.iter().for_each(|chunk| _ = raw.push(chunk));
    let record = Compressor::new(Compression::Standard).expect("context").encode(&raw);
    (record, raw.lengths().to_vec(), raw.chunks().map(|c| digest_of(DOMAIN, c)).collect())
}

fn append(pool: &Pool, chunks: &[Vec<u8>]) -> Place {
    let (record, lengths, digests) = quantum(chunks);
    pool.append(DOMAIN, &record, &lengths, &digests).expect("space")
}

/// The chunk at `place`, read as a restore does.
fn read(pool: &Pool, place: Place) -> Result<Vec<u8>, ReadError> {
    let table = pool.table(place.pack())?;
    let missing = ReadError::Missing { pack: place.pack(), index: place.index() };
    let quantum = table.quanta()[table.quantum_of(place.index()).ok_or(missing)?];
    let record = pool.read(place.pack(), &quantum)?;
    let opened = chunk::Decompressor::new().expect("context").decode(&record);
    let opened = opened.map_err(|source| ReadError::Damaged { pack: place.pack(), source })?;
    let chunk = opened.chunks().nth((place.index() - quantum.first_index) as usize);
    Ok(chunk.expect("within the quantum").to_vec())
}

fn pack_file(folder: &Path) -> PathBuf {
    folder::path(folder, PackNumber(1))
}

#[test]
fn chunks_are_read_from_open_and_from_sealed_packs() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pool, _) = open(folder.path());
    let first = append(&pool, &[b"one".to_vec(), b"two".to_vec()]);
    let third = append(&pool, &[b"three".to_vec()]);
    assert_eq!((first.index(), third.index()), (0, 2));
    let second = Place::new(first.pack(), 1);
    for sealed in [false, true] {
        if sealed {
            pool.seal_all().expect("synced");
        }
        for (place, text) in [(first, "one"), (second, "two"), (third, "three")] {
            assert_eq!(read(&pool, place).expect("there"), text.as_bytes());
        }
    }
    let next = append(&pool, &[b"four".to_vec()]);
    assert_eq!(next.pack(), PackNumber(2));
}

#[test]
fn news_tell_what_is_durable() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pool, _) = open(folder.path());
    append(&pool, &[vec![1; 1000]]);
    pool.sync().expect("synced");
    let [news] = pool.take_news()[..] else { panic!("one pack") };
    assert!(!news.sealed && news.bytes > 32);
    pool.seal_all().expect("sealed");
    let [news] = pool.take_news()[..] else { panic!("one pack") };
    assert!(news.sealed);
    pool.sync().expect("nothing to do");
    assert_eq!(pool.take_news(), []);
}

#[test]
fn a_dead_servers_pack_is_recovered_and_numbers_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pool, _) = open(folder.path());
    let place = append(&pool, &[b"kept".to_vec(), vec![7; 5000]]);
    pool.sync().expect("synced");
    std::mem::forget(pool);
    let (pool, opened) = open(folder.path());
    assert_eq!((opened.sealed.len(), opened.recovered.len()), (0, 1));
    assert_eq!(read(&pool, place).expect("recovered"), b"kept");
    assert_eq!(append(&pool, &[b"new".to_vec()]).pack(), PackNumber(2));
    drop(pool);
    let (_, opened) = open(folder.path());
    assert_eq!(opened.sealed, [PackNumber(1)]);
}

#[test]
fn what_follows_a_torn_record_is_cut_off() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pool, _) = open(folder.path());
    let kept = append(&pool, &[b"kept".to_vec()]);
    let torn = append(&pool, &[vec![9; 100]]);
    let end = pool.table(torn.pack()).expect("open").end();
    std::mem::forget(pool);
    let file = File::options().write(true).open(pack_file(folder.path())).expect("the pack");
    file.set_len(end - 1).expect("torn");
    let (pool, _) = open(folder.path());
    assert_eq!(read(&pool, kept).expect("recovered"), b"kept");
    assert!(matches!(read(&pool, torn), Err(ReadError::Missing { index: 1, .. })));
}

#[test]
fn damage_before_the_durable_end_is_not_taken_for_a_tear() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pool, _) = open(folder.path());
    let kept = append(&pool, &[b"kept".to_vec()]);
    let hit = append(&pool, &[vec![9; 100]]);
    pool.sync().expect("synced");
    let bytes = pool.table(hit.pack()).expect("open").end();
    std::mem::forget(pool);
    let mut content = std::fs::read(pack_file(folder.path())).expect("the pack");
    let at = usize::try_from(bytes).expect("small") - 1;
    content[at] ^= 1;
    std::fs::write(pack_file(folder.path()), &content).expect("written");
    let known = BTreeMap::from([(PackNumber(1), Known { sealed: false, bytes })]);
    let (pool, opened) =
        Pool::open(folder.path(), PackNumber(1), &known, digest_of).expect("opens");
    assert_eq!(opened.damaged.len(), 1);
    assert_eq!(std::fs::read(pack_file(folder.path())).expect("the pack"), content);
    assert_eq!(read(&pool, kept).expect("still readable"), b"kept");
    assert!(read(&pool, hit).is_err());
}

#[test]
fn an_empty_pack_is_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(OpenPack::create(folder.path(), PackNumber(1), DOMAIN).expect("made"));
    let (_, opened) = open(folder.path());
    assert!(opened.sealed.is_empty() && opened.recovered.is_empty() && opened.damaged.is_empty());
    assert!(!pack_file(folder.path()).try_exists().expect("asked"));
}

#[test]
fn a_full_pack_is_sealed_by_the_next_sync() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pool, _) = open(folder.path());
    let noise = |seed: u8| {
        let mut bytes = vec![0; 1 << 20];
        blake3::Hasher::new_keyed(&[seed; 32]).finalize_xof().fill(&mut bytes);
        bytes
    };
    let places: Vec<Place> = (0..66).map(|seed| append(&pool, &[noise(seed)])).collect();
    assert_eq!(places[65].pack(), PackNumber(2));
    assert_eq!(read(&pool, places[0]).expect("waits for its seal"), noise(0));
    pool.sync().expect("synced");
    let sealed = pool.take_news().into_iter().filter(|news| news.sealed);
    assert_eq!(sealed.map(|news| news.pack).collect::<Vec<_>>(), [PackNumber(1)]);
    assert_eq!(read(&pool, places[0]).expect("sealed"), noise(0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_flipped_bit_never_gives_wrong_data(at in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let folder = tempfile::tempdir().expect("a folder");
        let (pool, _) = open(folder.path());
        let chunks = [b"some text some text".to_vec(), vec![3; 900], b"x".to_vec()];
        let first = append(&pool, &chunks);
        pool.seal_all().expect("sealed");
        drop(pool);
        let mut bytes = std::fs::read(pack_file(folder.path())).expect("the pack");
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        std::fs::write(pack_file(folder.path()), &bytes).expect("written");
        let (pool, _) = open(folder.path());
        for (index, chunk) in (0..).zip(&chunks) {
            let place = Place::new(first.pack(), index);
            let digest_holds = |found: &Vec<u8>| {
                pool.chunk(place).is_ok_and(|(_, digest)| digest == digest_of(DOMAIN, found))
            };
            if let Ok(found) = read(&pool, place) && digest_holds(&found) {
                prop_assert_eq!(&found, chunk);
            }
        }
    }
}
