//! Blocks, labels and indexes of volumes, and files that stand for tapes.

use format::volume::{
    BlockHeader, BlockKind, ForeignContent, HEADER_BYTES, Index, Label, ObjectId, VolumeId,
    VolumeName,
};
use tape::file_volume::FileMedium;
use tape::medium::Medium;
use tape::volume::{
    Continuation, VolumeError, VolumeReader, VolumeWriter, WriterOptions, identify,
};
use xxhash_rust::xxh3::xxh3_64;

use super::scratch::with_folder;
use crate::seeds::golden;
use crate::{PLAIN_BYTES_MAX, Target};

/// Limit for the buffers of a reader, which are as long as the largest block.
const FILE_ALLOCATION_BYTES_MAX: u64 = 64 << 20;
const CAPACITY_BYTES: u64 = 1 << 30;
const CHECKED_BYTES: usize = 88;
const MAGIC_OF_FILES: [u8; 4] = *b"HFR1";
/// Bytes of the head of a record of a file that stands for a tape.
const HEAD_BYTES: usize = 16;

pub(super) const VOLUME_BLOCK: Target = Target {
    name: "volume_block",
    allocation_bytes_max: PLAIN_BYTES_MAX,
    seeds: || golden("format", &["volume-block", "volume-block-named", "volume-label"]),
    check: check_block,
};

pub(super) const VOLUME_INDEX: Target = Target {
    name: "volume_index",
    allocation_bytes_max: PLAIN_BYTES_MAX,
    seeds: || golden("format", &["volume-index", "volume-index-named"]),
    check: check_index,
};

pub(super) const FILE_VOLUME: Target = Target {
    name: "file_volume",
    allocation_bytes_max: FILE_ALLOCATION_BYTES_MAX,
    seeds: file_seeds,
    check: check_file,
};

fn check_block(input: &[u8]) {
    for_block(input);
    if input.len() >= HEADER_BYTES {
        for_block(&with_checksums(input));
    }
    drop(ForeignContent::of(input).map(|content| content.to_string()));
    if let Some(name) = str::from_utf8(input).ok().and_then(|text| VolumeName::new(text).ok()) {
        assert_eq!(VolumeName::new(name.as_str()).as_ref(), Ok(&name));
    }
}

/// Returns the block with the checksums that fit. The payload goes to the end of the input.
fn with_checksums(input: &[u8]) -> Vec<u8> {
    let mut block = input.to_vec();
    let (head, payload) = block.split_at_mut(HEADER_BYTES);
    let payload_bytes = u32::try_from(payload.len()).expect("an input is short");
    head[12..16].copy_from_slice(&payload_bytes.to_le_bytes());
    head[80..CHECKED_BYTES].copy_from_slice(&xxh3_64(payload).to_le_bytes());
    let checksum = xxh3_64(&head[..CHECKED_BYTES]);
    head[CHECKED_BYTES..].copy_from_slice(&checksum.to_le_bytes());
    block
}

fn for_block(bytes: &[u8]) {
    if let Ok((header, payload)) = BlockHeader::open(bytes) {
        let (name, content) = header.split(payload);
        let name_bytes = name.map_or(0, |name| name.as_bytes().len());
        assert!(name_bytes + content.len() <= payload.len(), "both are parts of the payload");
        let mut block = [&[0; HEADER_BYTES], payload].concat();
        header.seal(&mut block);
        assert_eq!(BlockHeader::open(&block), Ok((header, payload)));
    }
    if let Ok(label) = Label::decode(bytes) {
        assert_eq!(Label::decode(&label.encode()), Ok(label));
    }
}

fn check_index(input: &[u8]) {
    let Ok(index) = Index::decode(input) else { return };
    for part in &index.parts {
        let ends = [
            part.position.checked_add(part.block_count),
            part.first_sequence.checked_add(part.block_count),
            part.offset.checked_add(part.bytes),
        ];
        assert!(ends.iter().all(Option::is_some), "readers add these numbers: {part:?}");
    }
    assert_eq!(Index::decode(&index.encode()), Ok(index));
}

/// Returns files that stand for tapes: the golden file, and a labelled volume with a block.
fn file_seeds() -> Vec<Vec<u8>> {
    let blocks = golden("format", &["volume-label", "volume-block", "volume-block-named"]);
    let mut volume = Vec::new();
    for block in blocks {
        let record = record(volume.len() as u64, &block);
        volume.extend(record);
    }
    let mut index = vec![0; HEADER_BYTES + 8];
    index.extend(golden("format", &["volume-index-named"]).concat());
    let header = BlockHeader {
        kind: BlockKind::Index,
        is_last: true,
        volume: VolumeId([9; 16]),
        position: 0,
        object: ObjectId([0; 16]),
        sequence: 0,
        offset: 0,
        object_sequence: 2,
        name_bytes: 0,
    };
    header.seal(&mut index);
    let block = golden("format", &["volume-block-named"]);
    [golden("tape", &["file-volume"]), vec![volume, index], block].concat()
}

fn record(offset: u64, block: &[u8]) -> Vec<u8> {
    let block_bytes = u32::try_from(block.len()).expect("a block is short");
    let head = head(offset, block_bytes);
    [&head[..], block, &head].concat()
}

fn head(offset: u64, block_bytes: u32) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(&MAGIC_OF_FILES);
    head[4..8].copy_from_slice(&block_bytes.to_le_bytes());
    let keyed = [&offset.to_le_bytes(), &head[..8]].concat();
    head[8..].copy_from_slice(&xxh3_64(&keyed).to_le_bytes());
    head
}

/// Returns a file with a label, and after it the input as two blocks of the labelled volume.
fn after_label(input: &[u8]) -> Vec<u8> {
    let [label] = &golden("format", &["volume-label"])[..] else { unreachable!("one was read") };
    let mut file = record(0, label);
    for _ in 0..2 {
        let position = file.len() as u64;
        let mut block = input.to_vec();
        if block.len() >= HEADER_BYTES {
            block[..8].copy_from_slice(&label[..8]);
            block[16..32].copy_from_slice(&label[16..32]);
            block[32..40].copy_from_slice(&position.to_le_bytes());
            block = with_checksums(&block);
        }
        file.extend(record(position, &block));
    }
    file
}

/// The input is a file, also the only block of a file, and also blocks after a label.
fn check_file(input: &[u8]) {
    for file in [input.to_vec(), record(0, input), after_label(input)] {
        with_folder(|folder| {
            let path = folder.join("file.volume");
            std::fs::write(&path, file).expect("the folder is writable");
            read_file(&path);
        });
    }
}

fn read_file(path: &std::path::Path) {
    let open = || FileMedium::open(path, CAPACITY_BYTES);
    let Ok(mut medium) = open() else { return };
    drop(identify(&mut medium));
    drop(medium.locate_last_block());
    drop(medium.locate_end());
    drop(medium.remaining_bytes());
    let Ok(mut reader) = VolumeReader::open(medium, None) else { return };
    drop(reader.scan());
    let volume = reader.label().volume;
    if let Ok(listing) = reader.list() {
        for part in &listing.parts {
            drop(reader.read(part, &mut std::io::sink()));
        }
    }
    drop(append(open().expect("it was opened before"), volume));
}

/// Appends an object. A volume that a writer accepts takes it.
fn append(medium: FileMedium, volume: VolumeId) -> Result<(), VolumeError> {
    let mut writer = VolumeWriter::open(medium, volume, WriterOptions::default())?;
    writer.begin(Continuation::start(ObjectId([1; 16])))?;
    let _ = writer.write(b"more")?;
    let _ = writer.end()?;
    let (summary, _) = writer.close()?;
    assert!(summary.is_indexed && !summary.parts.is_empty(), "the object is in the index");
    Ok(())
}
