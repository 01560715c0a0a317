//! Golden files. Bytes that an earlier release wrote must decode for ever. Encoding the same values
//! must give the same bytes until the version of the format changes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use format::catalog_copy::{BLOCK_BYTES, CatalogCopy, Census};
use format::stub::{Bearer, Grains, State, Stub, SyncState};
use format::volume::{
    BlockHeader, BlockKind, HEADER_BYTES, Index, Label, ObjectId, Part, VolumeId, VolumeName,
};
use format::{pack, page, quantum};
use model::{
    Attributes, BatchId, ChunkDigest, ChunkRange, ClassId, CopyId, DomainId, Extent, Kind, Name,
    Object, PackNumber, Payload, Place, ServerTime, Stat, Timestamp, Xattr,
};

const VOLUME: VolumeId = VolumeId([9; 16]);
const OBJECT: ObjectId = ObjectId(*b"0123456789abcdef");

/// Returns the content of `testdata/format-v1/NAME`, after comparing it with `bytes`, which version
/// 1 writes today. `HOLDFAST_GOLDEN=write` makes files that do not exist.
#[track_caller]
fn golden(name: &str, bytes: &[u8]) -> Vec<u8> {
    golden_of(1, name, bytes)
}

fn path_of(version: u32, name: &str) -> PathBuf {
    let folder = format!("testdata/format-v{version}");
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(folder).join(name)
}

/// Does the same as [`golden`] for another version of a format.
#[track_caller]
fn golden_of(version: u32, name: &str, bytes: &[u8]) -> Vec<u8> {
    let path = path_of(version, name);
    if std::env::var_os("HOLDFAST_GOLDEN").is_some_and(|value| value == "write") {
        let mut options = std::fs::OpenOptions::new();
        let made = options.write(true).create_new(true).open(&path);
        if let Ok(mut file) = made {
            std::io::Write::write_all(&mut file, bytes).expect("golden file");
        }
    }
    let golden = std::fs::read(&path).expect("golden file");
    assert!(golden == bytes, "{name} differs from what version {version} writes");
    golden
}

fn object(name: &[u8], kind: Kind, size: u64, payload: Payload) -> Object {
    Object {
        name: Name::new(name).expect("a name"),
        stat: Stat {
            kind,
            mode: 0o4755,
            uid: 1000,
            gid: 100,
            size,
            mtime: Timestamp { secs: -5, nanos: 999_999_999 },
            ctime: Timestamp { secs: 1_760_000_000, nanos: 123_456_789 },
            inode: 0xdead_beef,
            linked: kind == Kind::File,
            device: if kind == Kind::CharDevice { 0x0501 } else { 0 },
        },
        attributes: Arc::new(Attributes {
            xattrs: vec![Xattr { name: b"user.a".to_vec(), value: b"\0\xff".to_vec() }],
            flags: 0x40,
        }),
        class: ClassId(1),
        inserted: ServerTime(1_760_000_000_000_001),
        payload,
    }
}

fn objects() -> Vec<Object> {
    let run = |pack, index, count| {
        Extent::Chunks(ChunkRange { first: Place::new(PackNumber(pack), index), count })
    };
    vec![
        object(b"-dash\nnewline", Kind::Fifo, 0, Payload::Nothing),
        object(b"dir", Kind::Directory, 4096, Payload::Nothing),
        object(b"empty", Kind::File, 0, Payload::Nothing),
        object(b"file-a", Kind::File, 10, Payload::Extents(vec![run(1, 0, 1)])),
        object(b"file-b", Kind::File, 10, Payload::Extents(vec![run(1, 1, 1)])),
        object(
            b"file-sparse",
            Kind::File,
            1 << 40,
            Payload::Extents(vec![Extent::Hole { bytes: 4096 }, run(9, 7, 3), run(2, 0, 1)]),
        ),
        object(b"link", Kind::Symlink, 6, Payload::Target(b"../x\xff".to_vec())),
        object(b"tty", Kind::CharDevice, 0, Payload::Nothing),
        object(b"\xfe\xff", Kind::BlockDevice, 0, Payload::Nothing),
    ]
}

#[test]
fn pages() {
    let golden = golden("page", &page::encode(&objects()));
    assert_eq!(page::decode::<Place>(&golden), Ok(objects()));
}

#[test]
fn pages_of_sealed_files() {
    let sealed = |index, bytes| Extent::Sealed { place: Place::new(PackNumber(3), index), bytes };
    let extents = vec![sealed(5, 100_000), sealed(6, 70_000), Extent::Hole { bytes: 8192 }];
    let objects = [
        object(b"far", Kind::File, 178_192, Payload::Extents(extents)),
        object(b"next", Kind::File, 10, Payload::Extents(vec![sealed(7, 10)])),
    ];
    let golden = golden("page-sealed", &page::encode(&objects));
    assert_eq!(page::decode::<Place>(&golden), Ok(objects.to_vec()));
}

#[test]
fn quanta() {
    let stored = quantum::encode(quantum::Codec::Stored, &[3, 2], b"abcde");
    let golden = golden("quantum-stored", &stored);
    let record = quantum::Record::decode(&golden).expect("version 1 is read for ever");
    assert_eq!(record.codec, quantum::Codec::Stored);
    assert_eq!((&record.lengths[..], record.payload), (&[3, 2][..], &b"abcde"[..]));
}

#[test]
fn packs() {
    let header = pack::Header { pack: PackNumber(42), domain: DomainId(1) };
    assert_eq!(pack::Header::decode(&golden("pack-header", &header.encode())), Ok(header));
    let mut table = pack::Table::new(header.pack, header.domain);
    table.push(41, &[3, 2], &[ChunkDigest([1; 32]), ChunkDigest([2; 32])]);
    table.push(1000, &[70_000], &[ChunkDigest([3; 32])]);
    let golden = golden("pack-footer", &table.encode_footer());
    let (footer, trailer) = golden.split_at(golden.len() - pack::TRAILER_BYTES);
    let pack_bytes = table.end() + golden.len() as u64;
    let trailer = pack::Trailer::decode(trailer, pack_bytes).expect("version 1 is read for ever");
    assert_eq!(trailer.open(footer), Ok(table));
}

#[test]
fn catalog_copies() {
    let copy = CatalogCopy {
        number: 7,
        taken: ServerTime(1_760_000_000_000_001),
        bytes: 3 * BLOCK_BYTES - 4096,
        digest: [5; 32],
        census: Census { nodes: 2, filespaces: 3, pages: 400, versions: 5_000_000_000 },
        is_doubtful: true,
        places: [(9, 3), (9, 4), (2, 0)]
            .into_iter()
            .map(|(pack, at)| Place::new(PackNumber(pack), at))
            .collect(),
    };
    assert_eq!(CatalogCopy::decode(&golden("catalog-copy", &copy.encode())), Ok(copy));
}

#[test]
fn records_of_space_managed_files() {
    let mut synced = Grains::none(9 << 20);
    synced.set(&(0..1 << 20));
    let mut grains = synced.clone();
    grains.set(&(4 << 20..6 << 20));
    let premigrated = Stub {
        state: State::Premigrated,
        was_recalled: true,
        copy: CopyId { batch: BatchId(77), index: 5 },
        size: 9 << 20,
        mtime: Timestamp { secs: -5, nanos: 999_999_999 },
        content: [6; 16],
        bearer: Some(Bearer::of(&[3; 16], b"handle")),
        unsynced: None,
    };
    let migrated = Stub {
        state: State::Migrated(grains),
        unsynced: Some(SyncState { boot: 0x0123_4567_89ab_cdef, synced }),
        ..premigrated
    };
    for (name, stub) in [("stub-premigrated", premigrated), ("stub-migrated", migrated)] {
        let file = golden_of(2, name, &stub.encode());
        assert_eq!(Stub::decode(&file).as_ref(), Ok(&stub));
        // A record of version 1 does not say which file it describes.
        let old = std::fs::read(path_of(1, name)).expect("golden file");
        assert_eq!(Stub::decode(&old), Ok(Stub { bearer: None, ..stub }));
    }
}

#[test]
fn volume_labels() {
    let label = Label {
        volume: VOLUME,
        name: VolumeName::new("A00001L8").expect("a name"),
        pool: "tape".to_owned(),
        labelled: ServerTime(1_760_000_000_000_001),
        sequence: 300,
        block_bytes: 512 << 10,
    };
    assert_eq!(Label::decode(&golden("volume-label", &label.encode())), Ok(label));
}

fn check_block(name: &str, header: BlockHeader, payload: &[u8]) {
    let mut block = vec![0; HEADER_BYTES];
    block.extend(payload);
    header.seal(&mut block);
    assert_eq!(BlockHeader::open(&golden(name, &block)), Ok((header, payload)));
}

#[test]
fn volume_blocks() {
    let header = BlockHeader {
        kind: BlockKind::Object,
        is_last: true,
        volume: VOLUME,
        position: 77,
        object: OBJECT,
        sequence: 3,
        offset: 1_500_000,
        object_sequence: 12,
        name_bytes: 0,
    };
    check_block("volume-block", header, b"payload");
    check_block("volume-block-named", BlockHeader { name_bytes: 4, ..header }, b"pay\xffload");
}

#[test]
fn volume_indexes() {
    let part = Part {
        object: OBJECT,
        object_sequence: 12,
        position: 74,
        block_count: 4,
        first_sequence: 0,
        offset: 0,
        bytes: 1_500_007,
        is_last: true,
    };
    let rest = Part { position: 79, object_sequence: 13, is_last: false, ..part };
    let (parts, names) = (vec![part, rest], BTreeMap::new());
    let mut index = Index { session: 2, previous: Some(40), parts, names };
    assert_eq!(Index::decode(&golden("volume-index", &index.encode())).as_ref(), Ok(&index));
    index.names.insert(13, Name::new(b"pay\xff").expect("a name"));
    assert_eq!(Index::decode(&golden("volume-index-named", &index.encode())), Ok(index));
}
