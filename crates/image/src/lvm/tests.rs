//! Tests with disks as LVM writes them.

use proptest::prelude::*;
use sim::lvm::{DATA_OFFSET, Segment, VolumeGroup, head_of_disk};

use super::*;

const IDS: [&str; 2] = ["DmsXLra15KXml1vZMGofPGncKaYtN7st", "7T6GaFusMEDFxYxDZFLvvWdzk9tMHIYv"];
const EXTENT_BYTES: u64 = 64 << 10;
const EXTENTS: u64 = 10;
const DATA: u64 = DATA_OFFSET as u64;
/// Offset of the second disk in images of two disks.
const SECOND: u64 = 16 << 20;
const DISK_BYTES: u64 = 8 << 20;

/// A volume of two segments, the later one first on the disk, and one on both disks.
static VOLUMES: [(&str, &[Segment<'static>]); 2] = [
    (
        "home",
        &[Segment { extents: 2, stripes: &[(0, 7)] }, Segment { extents: 3, stripes: &[(0, 1)] }],
    ),
    ("wide", &[Segment { extents: 4, stripes: &[(0, 4), (1, 0)] }]),
];

fn group() -> VolumeGroup<'static> {
    static DISKS: [(&str, u64); 2] = [(IDS[0], EXTENTS), (IDS[1], EXTENTS)];
    VolumeGroup {
        name: "tank",
        sequence: 3,
        extent_bytes: EXTENT_BYTES,
        disks: &DISKS,
        volumes: &VOLUMES,
    }
}

/// Image that has zeros but for the heads of disks at their offsets.
struct Image(Vec<(u64, Vec<u8>)>);

impl Image {
    /// Makes an image of two disks, which have a text each.
    fn of(texts: [&str; 2]) -> Self {
        let head = |index: usize| {
            head_of_disk(IDS[index], DISK_BYTES, texts[index].as_bytes(), 512 + index * 512)
        };
        Self(vec![(0, head(0)), (SECOND, head(1))])
    }

    fn read(&self, offset: u64, bytes: usize) -> Vec<u8> {
        let byte = |at: u64| {
            let of_head = |(start, head): &(u64, Vec<u8>)| {
                let index = usize::try_from(at.checked_sub(*start)?).ok()?;
                head.get(index).copied()
            };
            self.0.iter().find_map(of_head).unwrap_or(0)
        };
        (offset..offset + bytes as u64).map(byte).collect()
    }

    fn list(&self) -> VolumeList {
        self.list_at(&[0..DISK_BYTES, SECOND..SECOND + DISK_BYTES])
    }

    fn list_at(&self, places: &[Range<u64>]) -> VolumeList {
        find(&|offset, bytes| Ok(self.read(offset, bytes)), places).expect("nothing fails")
    }
}

fn pieces(volume: &LogicalVolume) -> Vec<Range<u64>> {
    let map = volume.map.as_ref().expect("it has a map");
    assert_eq!(map.bytes(), volume.bytes);
    map.pieces(0..map.bytes()).collect()
}

#[track_caller]
fn check_obstacle(list: &VolumeList, name: &str, expected: Obstacle) {
    let volume = list.volumes.iter().find(|volume| volume.name == name).expect("it is listed");
    assert_eq!(volume.map, Err(expected), "{name}");
}

/// Lists a group whose metadata were changed by hand.
fn edited(from: &str, to: &str) -> VolumeList {
    let text = group().text();
    assert!(text.contains(from), "{from} is in the text");
    let text = text.replace(from, to);
    Image::of([&text, &text]).list()
}

#[test]
fn volumes_are_found_where_their_extents_are() {
    let text = group().text();
    let list = Image::of([&text, &text]).list();
    assert_eq!((list.disks.len(), list.faults.len()), (2, 0));
    let [home, wide] = &list.volumes[..] else { panic!("two volumes: {list:?}") };
    assert_eq!((&*home.group, &*home.name, home.bytes), ("tank", "home", 5 * EXTENT_BYTES));
    let extents = |from: u64, count: u64| {
        let start = DATA + from * EXTENT_BYTES;
        start..start + count * EXTENT_BYTES
    };
    assert_eq!(pieces(home), [extents(7, 2), extents(1, 3)]);
    let stripes = pieces(wide);
    let first = extents(4, 2).start;
    let second = SECOND + DATA;
    let expected = [
        first..first + 4096,
        second..second + 4096,
        first + 4096..first + 8192,
        second + 4096..second + 8192,
    ];
    assert_eq!(stripes[..4], expected);
    assert_eq!(stripes.len() as u64 * 4096, 4 * EXTENT_BYTES);
}

/// The disks are those of LVM 2.03.16, after `lvcreate`, `lvextend` and `lvcreate -i 2`.
#[test]
fn disks_that_lvm_has_made_are_read() {
    let heads = [
        include_bytes!("../../testdata/lvm-2.03.16/first").to_vec(),
        include_bytes!("../../testdata/lvm-2.03.16/second").to_vec(),
    ];
    let [first, second] = heads;
    let image = Image(vec![(0, first), (40 << 20, second)]);
    let list = image.list_at(&[0..40 << 20, 40 << 20..70 << 20]);
    assert!(list.faults.is_empty(), "{list:?}");
    let [one, striped, two] = &list.volumes[..] else { panic!("three volumes: {list:?}") };
    let mib = |from: u64, to: u64| from << 20..to << 20;
    assert_eq!((&*one.group, &*one.name, one.bytes), ("tank", "one", 16 << 20));
    assert_eq!(pieces(one), [mib(1, 9), mib(13, 21)]);
    assert_eq!((&*two.name, pieces(two)), ("two", vec![mib(9, 13)]));
    let stripes = pieces(striped);
    let second = (41 << 20)..(41 << 20) + (64 << 10);
    assert_eq!((stripes.len(), &stripes[1]), (128, &second));
}

#[test]
fn the_newest_text_counts_wherever_it_is() {
    let old = VolumeGroup { volumes: &VOLUMES[1..], ..group() };
    let new = VolumeGroup { sequence: 4, ..group() };
    for texts in [[old.text(), new.text()], [new.text(), old.text()]] {
        let list = Image::of([&texts[0], &texts[1]]).list();
        assert_eq!(list.volumes.len(), 2, "{list:?}");
    }
    // A damaged copy is a fault, and the other disk knows the volumes.
    let mut image = Image::of([&old.text(), &new.text()]);
    image.0[0].1[4096..4608].fill(0);
    let list = image.list();
    assert_eq!((list.volumes.len(), list.faults.len()), (2, 1));
    pieces(&list.volumes[0]);
}

#[test]
fn a_text_goes_round_the_end_of_its_area() {
    let text = group().text();
    let head = head_of_disk(IDS[0], DISK_BYTES, text.as_bytes(), DATA_OFFSET - 4096 - 100);
    let list = Image(vec![(0, head)]).list();
    assert_eq!((list.volumes.len(), list.faults.len()), (2, 0));
    check_obstacle(&list, "wide", Obstacle::DiskMissing);
}

#[test]
fn a_disk_that_is_not_there_or_twice_gives_no_files() {
    let text = group().text();
    let image = Image::of([&text, &text]);
    let first = image.list_at(&[0..DISK_BYTES]);
    check_obstacle(&first, "wide", Obstacle::DiskMissing);
    pieces(&first.volumes[0]);
    let head = image.0[0].1.clone();
    let twice = Image(vec![(0, head.clone()), (SECOND, head)]).list();
    check_obstacle(&twice, "home", Obstacle::DiskTwice);
    let short = image.list_at(&[0..DATA + 2 * EXTENT_BYTES]);
    check_obstacle(&short, "home", Obstacle::TooLong);
    // LVM has changed the group while it did not see the disks.
    let missing = edited("flags = []\ndev_size", "flags = [\"MISSING\"]\ndev_size");
    check_obstacle(&missing, "home", Obstacle::DiskMissing);
}

#[test]
fn volumes_of_other_kinds_are_named() {
    let thin =
        edited("type = \"striped\"\nstripe_count = 1", "type = \"thin\"\ntransaction_id = 1");
    check_obstacle(&thin, "home", Obstacle::Kind("a thin volume"));
    assert_eq!(thin.volumes[0].bytes, 5 * EXTENT_BYTES);
    let raid = edited("type = \"striped\"", "type = \"raid1\"");
    check_obstacle(&raid, "wide", Obstacle::Kind("a RAID"));
    let unknown = edited("type = \"striped\"", "type = \"striped+FUTURE\"");
    check_obstacle(&unknown, "wide", Obstacle::Kind("of a type that is not read here"));
    check_obstacle(&edited("\"pv0\", 7", "\"other\", 7"), "home", Obstacle::OnVolume);
    check_obstacle(&edited("\"pv0\", 7", "\"pv0\", 9"), "home", Obstacle::TooLong);
    let odd = edited("stripe_size = 8", "stripe_size = 7");
    check_obstacle(&odd, "wide", Obstacle::Contradiction);
    let short = edited("\"pv0\", 4,\n\"pv1\", 0", "\"pv0\", 4");
    check_obstacle(&short, "wide", Obstacle::Contradiction);
    let hidden = edited(", \"VISIBLE\"", "");
    assert_eq!((hidden.volumes, hidden.faults), (Vec::new(), Vec::new()));
}

#[test]
fn snapshots_are_refused_and_their_origins_are_read() {
    let connection = |store: &str| {
        format!(
            "logical_volumes {{\nsnapshot0 {{\nid = \"x\"\nstatus = [\"READ\"]\nsegment_count = 1\n\
             segment1 {{\nstart_extent = 0\nextent_count = 1\ntype = \"snapshot\"\n\
             chunk_size = 8\norigin = \"home\"\n{store} = \"wide\"\n}}\n}}\n"
        )
    };
    let kept = edited("logical_volumes {\n", &connection("cow_store"));
    check_obstacle(&kept, "wide", Obstacle::Kind("a snapshot"));
    pieces(&kept.volumes[0]);
    let merging = edited("logical_volumes {\n", &connection("merging_store"));
    check_obstacle(&merging, "wide", Obstacle::Kind("a snapshot"));
    check_obstacle(&merging, "home", Obstacle::Merging);
}

#[test]
fn two_groups_of_one_name_are_not_confused() {
    let text = group().text();
    let other = text.replace("id = \"tank", "id = \"knat");
    assert_ne!(text, other);
    let list = Image::of([&text, &other]).list();
    assert_eq!(list.volumes.len(), 4);
    check_obstacle(&list, "home", Obstacle::SameName);
    check_obstacle(&list, "wide", Obstacle::SameName);
}

#[test]
fn damage_is_a_fault_and_no_volume() {
    let text = group().text();
    let sound = Image::of([&text, &text]);
    let fault = |at: usize| {
        let mut head = sound.0[0].1.clone();
        head[at] ^= 1;
        let list = Image(vec![(0, head)]).list();
        assert!(list.volumes.is_empty(), "{list:?}");
        (list.disks.len(), list.faults.first().map(ToString::to_string))
    };
    // The label, the first sector of the area, the text.
    assert_eq!(fault(512 + 40), (0, None));
    assert_eq!(fault(4096 + 30), (1, Some("their first sector is damaged".to_owned())));
    assert_eq!(fault(4096 + 600), (1, Some("their checksum is wrong".to_owned())));
    let gap = edited("start_extent = 2", "start_extent = 3");
    assert_eq!(gap.faults[0].to_string(), "a logical volume has gaps");
    let newer = edited("version = 1", "version = 2");
    assert_eq!(newer.faults[0].to_string(), "they are of a version that is not known");
}

#[test]
fn errors_of_the_image_are_passed_on() {
    let failing = |_: u64, _: usize| -> io::Result<Vec<u8>> { Err(io::Error::other("lost")) };
    assert!(find(&failing, &[0..DISK_BYTES]).is_err());
    // A place that is too short for a label is not read.
    assert_eq!(find(&failing, &[0..2047]).expect("nothing is read"), VolumeList::default());
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(
        text in proptest::collection::vec(any::<u8>(), 0..300),
        at in 0_usize..2000,
    ) {
        let mut whole = group().text().into_bytes();
        let at = at.min(whole.len());
        let end = (at + text.len() / 2).min(whole.len());
        drop(whole.splice(at..end, text));
        let head = head_of_disk(IDS[0], DISK_BYTES, &whole, 512);
        let list = Image(vec![(0, head)]).list();
        for volume in &list.volumes {
            let Ok(map) = &volume.map else { continue };
            prop_assert!(map.pieces(0..map.bytes()).all(|piece| piece.end <= DISK_BYTES));
        }
    }

    #[test]
    fn any_bytes_are_a_disk_or_none(
        at in prop_oneof![512_usize..1024, 4096_usize..4608],
        bytes in proptest::collection::vec(any::<u8>(), 1..64),
    ) {
        let text = group().text();
        let mut head = head_of_disk(IDS[0], DISK_BYTES, text.as_bytes(), 512);
        head[at..at + bytes.len()].copy_from_slice(&bytes);
        // The checksums fit, so that what they protect is read.
        let label = checksum(&head[532..1024]).to_le_bytes();
        head[528..532].copy_from_slice(&label);
        let area = checksum(&head[4100..4608]).to_le_bytes();
        head[4096..4100].copy_from_slice(&area);
        let list = Image(vec![(0, head)]).list();
        prop_assert!(list.disks.len() <= 1);
    }
}
