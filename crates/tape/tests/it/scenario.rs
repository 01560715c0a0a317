//! Tests of the promises about volumes: one suite, which runs on each kind of medium.

use format::volume::{ForeignContent, Label, ObjectId, Part, VolumeId, VolumeName};
use model::{Name, ServerTime};
use tape::medium::{Medium, MediumError};
use tape::volume::{
    self, Continuation, Identification, Overwrite, Progress, SessionSummary, VolumeError,
    VolumeReader, VolumeWriter, WriterOptions,
};

pub(crate) const BLOCK_BYTES: u32 = 64 << 10;

/// Two tapes in two drives, or two files that stand for tapes.
pub(crate) trait Site {
    fn tape(&mut self, index: usize) -> &mut dyn Medium;

    /// Sets or removes the write protection of a tape; returns false if the site cannot do that.
    fn protect(&mut self, _index: usize, _protected: bool) -> bool {
        false
    }

    /// Damages the block at a position; returns false if the site cannot do that.
    fn damage(&mut self, _index: usize, _position: u64) -> bool {
        false
    }

    /// Returns true if the tapes are small enough to be filled.
    fn ends(&self) -> bool {
        true
    }
}

pub(crate) fn run_all(site: &mut dyn Site) {
    blank_and_foreign_tapes_are_recognised(site);
    objects_come_back_in_any_order(site);
    sessions_follow_each_other(site);
    a_writer_that_died_is_got_over(site);
    names_are_found_with_and_without_an_index(site);
    if site.ends() {
        objects_go_on_on_the_next_tape(site);
    }
    protected_tapes_are_left_alone(site);
    damage_is_said_and_the_rest_read(site);
}

pub(crate) fn label(number: u8) -> Label {
    Label {
        volume: VolumeId([number; 16]),
        name: VolumeName::new(&format!("A0000{number}L8")).expect("a name"),
        pool: "tape".to_owned(),
        labelled: ServerTime(1_760_000_000_000_000),
        sequence: number.into(),
        block_bytes: BLOCK_BYTES,
    }
}

fn labelled(site: &mut dyn Site, index: usize, number: u8) {
    volume::label(site.tape(index), &label(number), Overwrite::Anything)
        .expect("the tape takes a label");
}

pub(crate) fn object(number: u8) -> ObjectId {
    ObjectId([number; 16])
}

/// Returns bytes that differ at each offset and for each object.
pub(crate) fn content(number: u8, bytes: usize) -> Vec<u8> {
    let words =
        (0..).map(|index: u64| index.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(number));
    words.flat_map(u64::to_le_bytes).take(bytes).collect()
}

fn open_writer(tape: &mut dyn Medium, number: u8) -> VolumeWriter<&mut dyn Medium> {
    let options = WriterOptions { group_bytes: 200_000 };
    VolumeWriter::open(tape, VolumeId([number; 16]), options)
        .expect("the volume has a label of this program")
}

pub(crate) fn put<M: Medium>(writer: &mut VolumeWriter<M>, number: u8, bytes: usize) -> Progress {
    writer.begin(Continuation::start(object(number))).expect("the writer continues");
    let mut content = &content(number, bytes)[..];
    match writer.write_all_of(&mut content).expect("the writer continues") {
        Progress::Going => writer.end().expect("the writer continues"),
        Progress::Full => Progress::Full,
    }
}

fn close<M: Medium>(writer: VolumeWriter<M>) -> SessionSummary {
    writer.close().expect("the volume can be closed").0
}

#[track_caller]
pub(crate) fn expect_content<M: Medium>(
    reader: &mut VolumeReader<M>,
    part: &Part,
    expected: &[u8],
) {
    let mut found = Vec::new();
    reader.read(part, &mut found).expect("the part is readable");
    assert!(found == expected, "{part:?}: {} bytes instead of {}", found.len(), expected.len());
}

/// Sizes of the objects, in the order of writing; some are close to the size of a block.
const SIZES: [usize; 6] = [100_000, 0, 1, 65_440, 65_441, 300_000];

fn write_sizes(tape: &mut dyn Medium, number: u8) -> SessionSummary {
    let mut writer = open_writer(tape, number);
    for (object, bytes) in (1..).zip(SIZES) {
        assert_eq!(put(&mut writer, object, bytes), Progress::Going);
    }
    close(writer)
}

fn blank_and_foreign_tapes_are_recognised(site: &mut dyn Site) {
    let tape = site.tape(0);
    let mut tar = content(1, 10_240);
    tar[257..262].copy_from_slice(b"ustar");
    tape.rewind().expect("a tape is in the drive");
    let _room = tape.write(&tar).expect("room");
    let _room = tape.mark().expect("room");
    let identified = volume::identify(tape).expect("readable");
    assert_eq!(identified, Identification::Foreign(ForeignContent::Tar));
    for overwrite in [Overwrite::Nothing, Overwrite::Ours] {
        let refused = volume::label(tape, &label(1), overwrite);
        assert!(matches!(refused, Err(VolumeError::Foreign(ForeignContent::Tar))));
    }
    assert!(matches!(volume::read_label(tape), Err(VolumeError::Foreign(ForeignContent::Tar))));
    volume::label(tape, &label(1), Overwrite::Anything).expect("the overwrite is allowed");
    assert_eq!(volume::read_label(tape).expect("a label of this program"), label(1));
    let refused = volume::label(tape, &label(2), Overwrite::Nothing);
    assert!(matches!(refused, Err(VolumeError::Labelled(name)) if name == label(1).name));
    volume::label(tape, &label(2), Overwrite::Ours).expect("the overwrite is allowed");
    let another = VolumeReader::open(tape, Some(VolumeId([1; 16])));
    assert!(matches!(another, Err(VolumeError::Another { found }) if found == label(2).name));
}

fn objects_come_back_in_any_order(site: &mut dyn Site) {
    labelled(site, 0, 3);
    let closed = write_sizes(site.tape(0), 3);
    assert!(closed.is_indexed && closed.continues.is_none());
    assert_eq!(closed.parts.len(), SIZES.len());
    assert!(closed.parts.iter().all(|part| part.is_last));
    let mut reader = VolumeReader::open(site.tape(0), None).expect("a label of this program");
    let listing = reader.list().expect("indexed");
    assert_eq!(listing.parts, closed.parts);
    for index in [5, 0, 3, 1, 4, 2, 2, 5] {
        let part = listing.parts[index];
        let number = part.object.0[0];
        expect_content(&mut reader, &part, &content(number, SIZES[index]));
    }
    assert_eq!(reader.scan().expect("readable"), listing, "index and blocks agree");
}

fn sessions_follow_each_other(site: &mut dyn Site) {
    labelled(site, 0, 4);
    let mut expected = Vec::new();
    for number in 1..=3 {
        let mut writer = open_writer(site.tape(0), 4);
        assert_eq!(put(&mut writer, number, 70_000), Progress::Going);
        expected.extend(writer.sync().expect("room"));
        assert_eq!(put(&mut writer, number + 10, 5), Progress::Going);
        expected.extend(close(writer).parts);
    }
    assert_eq!(expected.len(), 6);
    let mut reader = VolumeReader::open(site.tape(0), None).expect("a label of this program");
    assert_eq!(reader.list().expect("indexed").parts, expected);
    let sequences: Vec<u32> = expected.iter().map(|part| part.object_sequence).collect();
    assert_eq!(sequences, [1, 2, 3, 4, 5, 6]);
    expect_content(&mut reader, &expected[3], &content(12, 5));
    // A session that writes nothing changes nothing on the volume.
    let closed = close(open_writer(site.tape(0), 4));
    assert!(closed.parts.is_empty() && closed.is_indexed);
    let mut reader = VolumeReader::open(site.tape(0), None).expect("a label of this program");
    assert_eq!(reader.list().expect("indexed").parts, expected);
}

fn a_writer_that_died_is_got_over(site: &mut dyn Site) {
    labelled(site, 0, 5);
    let mut writer = open_writer(site.tape(0), 5);
    assert_eq!(put(&mut writer, 1, 150_000), Progress::Going);
    let synced = writer.sync().expect("room");
    assert_eq!(synced.len(), 1);
    writer.begin(Continuation::start(object(2))).expect("the writer continues");
    assert_eq!(writer.write(&content(2, 150_000)).expect("room"), Progress::Going);
    drop(writer);
    let mut reader = VolumeReader::open(site.tape(0), None).expect("a label of this program");
    let listing = reader.list().expect("readable");
    assert_eq!(listing.parts[0], synced[0]);
    assert!(listing.parts[1..].iter().all(|part| !part.is_last));
    let mut writer = open_writer(site.tape(0), 5);
    assert_eq!(put(&mut writer, 3, 1000), Progress::Going);
    let closed = close(writer);
    let mut reader = VolumeReader::open(site.tape(0), None).expect("a label of this program");
    let listing = reader.list().expect("indexed");
    assert_eq!(listing.parts, [synced, closed.parts].concat());
    expect_content(&mut reader, &listing.parts[0], &content(1, 150_000));
    expect_content(&mut reader, &listing.parts[1], &content(3, 1000));
}

/// Names take room in the first block of an object, and the object's bytes keep their offsets.
fn names_are_found_with_and_without_an_index(site: &mut dyn Site) {
    const NAMED_BYTES: usize = 65_440 - 3;
    labelled(site, 0, 11);
    let name = Name::new(b"a\xff\n").expect("a name");
    let mut writer = open_writer(site.tape(0), 11);
    for (number, bytes) in [(1, NAMED_BYTES), (2, 2 * NAMED_BYTES), (3, 0)] {
        writer
            .begin_named(Continuation::start(object(number)), &name)
            .expect("the writer continues");
        let mut content = &content(number, bytes)[..];
        assert_eq!(writer.write_all_of(&mut content).expect("room"), Progress::Going);
        assert_eq!(writer.end().expect("room"), Progress::Going);
    }
    assert_eq!(put(&mut writer, 4, 100_000), Progress::Going);
    let _synced = writer.sync().expect("room");
    drop(writer);
    let names = [1, 2, 3].map(|number| (number, name.clone())).into();
    let mut reader = VolumeReader::open(site.tape(0), None).expect("a label of this program");
    let scanned = reader.list().expect("readable");
    assert_eq!((scanned.parts.len(), &scanned.names), (4, &names));
    let mut writer = open_writer(site.tape(0), 11);
    assert_eq!(put(&mut writer, 5, 10), Progress::Going);
    let _closed = close(writer);
    let mut reader = VolumeReader::open(site.tape(0), None).expect("a label of this program");
    let listed = reader.list().expect("indexed");
    assert_eq!((listed.parts.len(), &listed.names), (5, &names));
    assert_eq!(listed.parts[..4], scanned.parts);
    for (part, bytes) in listed.parts.iter().zip([NAMED_BYTES, 2 * NAMED_BYTES, 0, 100_000, 10]) {
        expect_content(&mut reader, part, &content(part.object.0[0], bytes));
    }
}

/// Fills the first tape with objects of 3 MB, and continues on the second tape.
fn objects_go_on_on_the_next_tape(site: &mut dyn Site) {
    const BYTES: usize = 3_000_000;
    labelled(site, 0, 6);
    labelled(site, 1, 7);
    let mut writer = open_writer(site.tape(0), 6);
    let last = (1..).find(|&number| put(&mut writer, number, BYTES) == Progress::Full);
    let last = last.expect("every tape ends");
    let first = close(writer);
    assert!(first.is_indexed, "the early warning leaves room for an index");
    assert!(last > 1, "the tape takes more than one object");
    let mut writer = open_writer(site.tape(1), 7);
    if let Some(from) = first.continues {
        assert_eq!(from.object, object(last));
        writer.begin(from).expect("the writer continues");
        let offset = usize::try_from(from.offset).expect("small");
        let mut rest = &content(last, BYTES)[offset..];
        assert_eq!(writer.write_all_of(&mut rest).expect("room"), Progress::Going);
        assert_eq!(writer.end().expect("room"), Progress::Going);
    }
    assert_eq!(put(&mut writer, last + 1, 10), Progress::Going);
    let second = close(writer);
    let mut found: Vec<Vec<u8>> = vec![Vec::new(); usize::from(last) + 2];
    for (index, closed) in [(0, first), (1, second)] {
        let mut reader =
            VolumeReader::open(site.tape(index), None).expect("a label of this program");
        let listing = reader.list().expect("indexed");
        assert_eq!(listing.parts, closed.parts);
        for part in &listing.parts {
            let object = &mut found[usize::from(part.object.0[0])];
            assert_eq!(part.offset, object.len() as u64);
            reader.read(part, object).expect("the part is readable");
        }
    }
    for number in 1..=last {
        assert!(found[usize::from(number)] == content(number, BYTES), "object {number}");
    }
    assert_eq!(found[usize::from(last) + 1], content(last + 1, 10));
}

fn protected_tapes_are_left_alone(site: &mut dyn Site) {
    labelled(site, 0, 8);
    let closed = write_sizes(site.tape(0), 8);
    if !site.protect(0, true) {
        return;
    }
    let tape = site.tape(0);
    let refused = volume::label(tape, &label(9), Overwrite::Anything);
    assert!(matches!(refused, Err(VolumeError::Medium(MediumError::WriteProtected))));
    let writer = VolumeWriter::open(tape, VolumeId([8; 16]), WriterOptions::default());
    assert!(matches!(writer.err(), Some(VolumeError::Medium(MediumError::WriteProtected))));
    let mut reader = VolumeReader::open(site.tape(0), None).expect("a label of this program");
    assert_eq!(reader.list().expect("indexed").parts, closed.parts);
    assert!(site.protect(0, false));
}

fn damage_is_said_and_the_rest_read(site: &mut dyn Site) {
    labelled(site, 0, 10);
    let closed = write_sizes(site.tape(0), 10);
    let broken = closed.parts[4];
    if !site.damage(0, broken.position) {
        return;
    }
    let mut reader = VolumeReader::open(site.tape(0), None).expect("a label of this program");
    let error = reader.read(&broken, &mut Vec::new()).expect_err("the block is damaged");
    let position = match error {
        VolumeError::Damaged { position, .. } => position,
        VolumeError::Medium(MediumError::Damaged { position }) => position,
        other => panic!("{other}"),
    };
    assert_eq!(position, broken.position);
    for (index, part) in closed.parts.iter().enumerate().filter(|(index, _)| *index != 4) {
        expect_content(&mut reader, part, &content(part.object.0[0], SIZES[index]));
    }
    let listing = reader.scan().expect("readable but for one block");
    assert_eq!(listing.damaged, [broken.position]);
    assert_eq!(listing.parts.len(), SIZES.len());
}
