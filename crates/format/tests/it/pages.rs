//! Property tests of directory pages.

use std::collections::BTreeMap;
use std::sync::Arc;

use format::{Budget, page};
use model::{
    Attributes, ChunkRange, ClassId, Extent, Kind, Name, Object, PackNumber, Payload, Place,
    ServerTime, Stat, Timestamp, Xattr,
};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        5 => Just(Kind::File),
        1 => Just(Kind::Directory),
        1 => Just(Kind::Symlink),
        1 => Just(Kind::Fifo),
        1 => Just(Kind::CharDevice),
        1 => Just(Kind::BlockDevice),
    ]
}

fn timestamp() -> impl Strategy<Value = Timestamp> {
    (any::<i64>(), 0..1_000_000_000_u32).prop_map(|(secs, nanos)| Timestamp { secs, nanos })
}

fn extent() -> impl Strategy<Value = Extent> {
    prop_oneof![
        (0..1_u64 << 30, 0..1000_u32, 1..50_u32).prop_map(|(pack, index, count)| {
            Extent::Chunks(ChunkRange { first: Place::new(PackNumber(pack), index), count })
        }),
        any::<u64>().prop_map(|bytes| Extent::Hole { bytes }),
        (0..1_u64 << 30, 0..1000_u32, any::<u32>()).prop_map(|(pack, index, bytes)| {
            Extent::Sealed { place: Place::new(PackNumber(pack), index), bytes }
        }),
    ]
}

fn attributes() -> impl Strategy<Value = Arc<Attributes>> {
    let xattr = (vec(any::<u8>(), 1..20), vec(any::<u8>(), 0..60))
        .prop_map(|(name, value)| Xattr { name, value });
    (vec(xattr, 0..3), any::<u32>())
        .prop_map(|(xattrs, flags)| Arc::new(Attributes { xattrs, flags }))
}

type Content = (Stat, Arc<Attributes>, u16, i64, Payload);

fn unnamed() -> impl Strategy<Value = Content> {
    let stat = (
        (kind(), 0..0o10000_u16, 0..5_u32, any::<u32>()),
        (prop_oneof![Just(0), any::<u64>()], timestamp(), timestamp()),
        (any::<u64>(), any::<bool>(), any::<u64>()),
    );
    let rest = (attributes(), 0..3_u16, any::<i64>(), vec(extent(), 1..4), vec(any::<u8>(), 0..99));
    (stat, rest).prop_map(|(stat, (attributes, class, inserted, extents, target))| {
        let ((kind, mode, uid, gid), (size, mtime, ctime), (inode, linked, device)) = stat;
        let device = if matches!(kind, Kind::CharDevice | Kind::BlockDevice) { device } else { 0 };
        let stat = Stat { kind, mode, uid, gid, size, mtime, ctime, inode, linked, device };
        let payload = match kind {
            Kind::File if size > 0 => Payload::Extents(extents),
            Kind::Symlink => Payload::Target(target),
            _ => Payload::Nothing,
        };
        (stat, attributes, class, inserted, payload)
    })
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 1..30).prop_filter("names", |bytes| Name::new(bytes).is_ok())
}

fn objects(unnamed: BTreeMap<Vec<u8>, Content>) -> Vec<Object> {
    let named = |(name, (stat, attributes, class, inserted, payload)): (Vec<u8>, Content)| Object {
        name: Name::new(&name).expect("filtered"),
        stat,
        attributes,
        class: ClassId(class),
        inserted: ServerTime(inserted),
        payload,
    };
    unnamed.into_iter().map(named).collect()
}

proptest! {
    #[test]
    fn pages_survive(unnamed in btree_map(name(), unnamed(), 0..40)) {
        let objects = objects(unnamed);
        prop_assert_eq!(page::decode::<Place>(&page::encode(&objects)), Ok(objects));
    }

    #[test]
    fn a_weight_is_an_upper_bound(unnamed in btree_map(name(), unnamed(), 0..40)) {
        let objects = objects(unnamed);
        let page = page::encode(&objects);
        // The body of a page that is stored as it is follows 6 bytes.
        prop_assert!(page.len() <= page::weight(&objects) + 6);
        let budget = Budget::new(2 * page::weight(&objects));
        prop_assert_eq!(page::decode_within::<Place>(&page, &budget), Ok(objects));
    }

    #[test]
    fn only_where_contents_lie_is_left_out(unnamed in btree_map(name(), unnamed(), 0..40)) {
        let mut objects = objects(unnamed);
        let page = page::encode(&objects);
        for object in &mut objects {
            if matches!(object.payload, Payload::Extents(_)) {
                object.payload = Payload::Nothing;
            }
        }
        prop_assert_eq!(page::decode_without_contents::<Place>(&page), Ok(objects));
    }

    #[test]
    fn times_beyond_their_second_are_damage(
        unnamed in btree_map(name(), unnamed(), 1..10),
        at in any::<prop::sample::Index>(),
        of_change in any::<bool>(),
        nanos in 1_000_000_000_u32..,
    ) {
        let mut objects = objects(unnamed);
        let stat = &mut at.get_mut(&mut objects[..]).stat;
        let time = if of_change { &mut stat.ctime } else { &mut stat.mtime };
        time.nanos = nanos;
        prop_assert!(page::decode::<Place>(&page::encode(&objects)).is_err());
    }

    #[test]
    fn flipped_bits_are_noticed(
        unnamed in btree_map(name(), unnamed(), 0..10),
        at in any::<prop::sample::Index>(),
        bit in 0..8_u8,
    ) {
        let mut bytes = page::encode(&objects(unnamed));
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert!(page::decode::<Place>(&bytes).is_err());
        prop_assert!(page::decode_without_contents::<Place>(&bytes).is_err());
    }

    #[test]
    fn nonsense_is_refused_without_panic(body in vec(any::<u8>(), 0..200)) {
        // With a right checksum the decoder reads the body.
        let mut bytes = vec![1, 0];
        bytes.extend_from_slice(&xxhash_rust::xxh3::xxh3_64(&body).to_le_bytes()[..4]);
        bytes.extend_from_slice(&body);
        let _nothing_to_promise = page::decode::<Place>(&bytes);
    }
}

/// Decodes a page of one FIFO with the byte `linked` in the column `linked`.
fn with_linked(linked: u8) -> Result<Vec<Object>, &'static str> {
    // One name, `a`; one owner of kind 3; one set of attributes; `linked`; then seven numbers.
    let mut body = vec![1, 0, 1, b'a', 1, 3, 0, 0, 0, 0, 1, 0, 0, linked];
    body.extend([0; 7]);
    decode_body(&body)
}

/// Decodes a page of one file of 9 bytes whose only extent is `extent`.
fn with_extent(extent: &[u8]) -> Result<Vec<Object>, &'static str> {
    let mut body = vec![1, 0, 1, b'a', 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 9];
    body.extend([0; 6]);
    body.push(1);
    body.extend(extent);
    decode_body(&body)
}

fn decode_body(body: &[u8]) -> Result<Vec<Object>, &'static str> {
    page::decode::<Place>(&with_body(0, body, body)).map_err(|damaged| damaged.why)
}

/// Makes the page whose body is `body`, and is encoded as `payload` by the codec.
fn with_body(codec: u8, body: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![1, codec];
    bytes.extend_from_slice(&xxhash_rust::xxh3::xxh3_64(body).to_le_bytes()[..4]);
    bytes.extend_from_slice(payload);
    bytes
}

/// The memory that a transaction of changes may take.
const BUDGET_BYTES: usize = 256 << 20;

/// Checks that a page with this body, which is compressed to a few kilobytes, is refused before its
/// objects take memory.
#[track_caller]
fn check_bomb(body: &[u8], why: &str) {
    let payload = zstd::bulk::compress(body, 3).expect("compressed");
    let page = with_body(1, body, &payload);
    assert!(page.len() < 16 << 10, "{} bytes", page.len());
    let budget = Budget::new(BUDGET_BYTES);
    let damaged = page::decode_within::<Place>(&page, &budget).expect_err("it is refused");
    assert_eq!(damaged.why, why);
    // The budget shows what was made: one object at most.
    assert!(BUDGET_BYTES - budget.left() < 1000, "{} bytes are left", budget.left());
}

const OVER_BUDGET: &str = "it expands to more memory than its sender may use";

/// Regression: a page of a few kilobytes became 50 million extents before anybody counted them.
#[test]
fn a_page_of_many_extents_is_refused_before_it_expands() {
    let mut body = vec![1, 0, 1, b'a', 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 9];
    body.extend([0; 6]);
    let extents = 25_usize << 20;
    body.extend([0x80, 0x80, 0x80 | 0x40, 0x0c]);
    assert_eq!(extents, 0x0c << 21 | 0x40 << 14);
    body.extend([2, 0].repeat(extents));
    check_bomb(&body, OVER_BUDGET);
}

/// Regression: a page of a few kilobytes became millions of objects, dictionary entries or
/// attributes.
#[test]
fn a_page_of_many_objects_or_attributes_is_refused_before_it_expands() {
    let count = [0x80, 0x80, 0x80 | 0x40, 0x0c];
    let zeros = vec![0; 60 << 20];
    check_bomb(&[&count[..], &zeros].concat(), "it has more objects than a page may have");
    let too_many = "a dictionary has more entries than the page has objects";
    check_bomb(&[&[1, 0, 1, b'a'], &count[..], &zeros].concat(), too_many);
    let owner = [1, 0, 1, b'a', 1, 3, 0, 0, 0, 0];
    check_bomb(&[&owner[..], &count[..], &zeros].concat(), too_many);
    check_bomb(&[&owner[..], &[1, 0], &count[..], &zeros].concat(), OVER_BUDGET);
}

/// A body of the largest size is compressed to a few kilobytes.
#[test]
fn a_body_is_not_decompressed_beyond_the_budget() {
    let body = vec![0; page::BODY_BYTES_MAX];
    let page = with_body(1, &body, &zstd::bulk::compress(&body, 3).expect("compressed"));
    let why = |bytes| {
        let decoded = page::decode_within::<Place>(&page, &Budget::new(bytes));
        decoded.expect_err("it is refused").why
    };
    assert_eq!(why(body.len() - 1), "its size is not stated or too large");
    assert_eq!(why(body.len()), "there are bytes after its end");
}

/// Regression: a page whose objects do not fit was a panic of its writer.
#[test]
fn objects_that_do_not_fit_into_a_page_are_refused() {
    let object = |number: u8| {
        let value = vec![number; 17 << 20];
        let xattrs = vec![Xattr { name: b"user.a".to_vec(), value }];
        let mut object = file(u32::from(number));
        object.attributes = Arc::new(Attributes { xattrs, flags: 0 });
        object
    };
    let objects: Vec<Object> = (0..4).map(object).collect();
    assert!(page::weight(&objects) > page::BODY_BYTES_MAX);
    assert_eq!(page::try_encode(&objects), Err(page::PageFull));
    assert!(page::weight(&objects[..3]) <= page::BODY_BYTES_MAX);
    assert!(page::try_encode(&objects[..3]).is_ok());
}

#[test]
fn reserved_bits_are_refused() {
    assert!(with_linked(0).is_ok());
    assert!(with_linked(1).is_ok());
    for bit in 1..8 {
        assert_eq!(with_linked(1 << bit), Err("a reserved field is not zero"));
    }
    let hole = 2;
    assert!(with_extent(&[hole, 9]).is_ok());
    for bit in 2..7 {
        let refused = with_extent(&[hole | 1 << bit, 9]);
        assert_eq!(refused, Err("a reserved field is not zero"));
    }
}

#[test]
fn a_page_of_neighbours_takes_few_bytes_an_object() {
    let objects: Vec<Object> = (0..300).map(file).collect();
    let bytes_per_object = page::encode(&objects).len() / objects.len();
    assert!(bytes_per_object < 8, "{bytes_per_object} bytes per object");
}

/// Returns one of the files of a source tree.
fn file(index: u32) -> Object {
    Object {
        name: Name::new(format!("module_{index:03}.c").as_bytes()).expect("plain"),
        stat: Stat {
            kind: Kind::File,
            mode: 0o644,
            uid: 0,
            gid: 0,
            size: 3000 + u64::from(index * 7919 % 9000),
            mtime: Timestamp { secs: 1_700_000_000, nanos: 0 },
            ctime: Timestamp { secs: 1_760_000_000, nanos: 50_000_000 + index * 70_000 },
            inode: 4_000_000 + u64::from(index),
            linked: false,
            device: 0,
        },
        attributes: Arc::default(),
        class: ClassId(1),
        inserted: ServerTime(1_760_000_000_000_000),
        payload: Payload::Extents(vec![Extent::Chunks(ChunkRange {
            first: Place::new(PackNumber(3), index),
            count: 1,
        })]),
    }
}
