//! Golden files: bytes that an earlier release wrote must decode for ever, and encoding the same
//! values must give the same bytes for as long as the version stays.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use format::catalog_copy::{BLOCK_BYTES, CatalogCopy};
use format::volume::{
    BlockHeader, BlockKind, HEADER_BYTES, Index, Label, ObjectId, Part, VolumeId, VolumeName,
};
use format::{pack, page, quantum};
use model::{
    Attributes, ChunkDigest, ChunkRange, ClassId, DomainId, Extent, Kind, Name, Object, PackNumber,
    Payload, Place, ServerTime, Stat, Timestamp, Xattr,
};

/// Compares with `testdata/format-v1/NAME`; `HOLDFAST_GOLDEN=write` makes files that do not exist.
#[track_caller]
fn check(name: &str, bytes: &[u8]) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/format-v1").join(name);
    if std::env::var_os("HOLDFAST_GOLDEN").is_some_and(|value| value == "write") {
        let mut options = std::fs::OpenOptions::new();
        let made = options.write(true).create_new(true).open(&path);
        if let Ok(mut file) = made {
            std::io::Write::write_all(&mut file, bytes).expect("golden file");
        }
    }
    let golden = std::fs::read(&path).expect("golden file");
    assert!(golden == bytes, "{name} differs from what version 1 writes");
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
    let bytes = page::encode(&objects());
    check("page", &bytes);
    assert_eq!(page::decode::<Place>(&bytes), Ok(objects()));
}

#[test]
fn pages_of_sealed_files() {
    let sealed = |index, bytes| Extent::Sealed { place: Place::new(PackNumber(3), index), bytes };
    let extents = vec![sealed(5, 100_000), sealed(6, 70_000), Extent::Hole { bytes: 8192 }];
    let objects = [
        object(b"far", Kind::File, 178_192, Payload::Extents(extents)),
        object(b"next", Kind::File, 10, Payload::Extents(vec![sealed(7, 10)])),
    ];
    let bytes = page::encode(&objects);
    check("page-sealed", &bytes);
    assert_eq!(page::decode::<Place>(&bytes), Ok(objects.to_vec()));
}

#[test]
fn quanta() {
    check("quantum-stored", &quantum::encode(quantum::Codec::Stored, &[3, 2], b"abcde"));
}

#[test]
fn packs() {
    let header = pack::Header { pack: PackNumber(42), domain: DomainId(1) };
    check("pack-header", &header.encode());
    let mut table = pack::Table::new(header.pack, header.domain);
    table.push(41, &[3, 2], &[ChunkDigest([1; 32]), ChunkDigest([2; 32])]);
    table.push(1000, &[70_000], &[ChunkDigest([3; 32])]);
    check("pack-footer", &table.encode_footer());
}

#[test]
fn catalog_copies() {
    let copy = CatalogCopy {
        number: 7,
        taken: ServerTime(1_760_000_000_000_001),
        bytes: 3 * BLOCK_BYTES - 4096,
        digest: [5; 32],
        places: [(9, 3), (9, 4), (2, 0)]
            .map(|(pack, at)| Place::new(PackNumber(pack), at))
            .into(),
    };
    check("catalog-copy", &copy.encode());
    assert_eq!(CatalogCopy::decode(&copy.encode()), Ok(copy));
}

#[test]
fn volumes() {
    let label = Label {
        volume: VolumeId([9; 16]),
        name: VolumeName::new("A00001L8").expect("a name"),
        pool: "tape".to_owned(),
        labelled: ServerTime(1_760_000_000_000_001),
        sequence: 300,
        block_bytes: 512 << 10,
    };
    check("volume-label", &label.encode());
    assert_eq!(Label::decode(&label.encode()), Ok(label.clone()));
    let mut block = vec![0; HEADER_BYTES];
    block.extend(b"payload");
    let header = BlockHeader {
        kind: BlockKind::Object,
        is_last: true,
        volume: label.volume,
        position: 77,
        object: ObjectId(*b"0123456789abcdef"),
        sequence: 3,
        offset: 1_500_000,
        object_sequence: 12,
        name_bytes: 0,
    };
    header.seal(&mut block);
    check("volume-block", &block);
    let mut named = block[..HEADER_BYTES].to_vec();
    named.extend(b"pay\xffload");
    BlockHeader { name_bytes: 4, ..header }.seal(&mut named);
    check("volume-block-named", &named);
    let part = Part {
        object: header.object,
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
    check("volume-index", &index.encode());
    assert_eq!(Index::decode(&index.encode()).as_ref(), Ok(&index));
    index.names.insert(13, Name::new(b"pay\xff").expect("a name"));
    check("volume-index-named", &index.encode());
    assert_eq!(Index::decode(&index.encode()), Ok(index));
}
