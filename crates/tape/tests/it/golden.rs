//! A golden file: a tape of files that an earlier release wrote must be read for ever.

use std::path::PathBuf;

use tape::file_volume::FileMedium;
use tape::medium::{Medium, ReadOutcome};

const CAPACITY_BYTES: u64 = 1 << 30;
const BLOCKS: [&[u8]; 2] = [b"the first block", b"the second"];

/// Two blocks, a filemark, and the first block once more.
fn write(medium: &mut FileMedium) {
    let _ = medium.write(BLOCKS[0]).expect("written");
    let _ = medium.write(BLOCKS[1]).expect("written");
    let _ = medium.mark().expect("written");
    let _ = medium.write(BLOCKS[0]).expect("written");
}

fn block(medium: &mut FileMedium) -> Option<Vec<u8>> {
    let mut buffer = [0; 100];
    match medium.read(&mut buffer) {
        Ok(ReadOutcome::Block { bytes }) => Some(buffer[..bytes].to_vec()),
        other => {
            assert!(matches!(other, Ok(ReadOutcome::Filemark | ReadOutcome::EndOfData)));
            None
        }
    }
}

#[test]
fn files_that_stand_for_tapes() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let written = folder.path().join("written");
    std::fs::write(&written, []).expect("an empty tape");
    write(&mut FileMedium::open(&written, CAPACITY_BYTES).expect("it is there"));
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/format-v1/file-volume");
    if std::env::var_os("HOLDFAST_GOLDEN").is_some_and(|value| value == "write")
        && !golden.try_exists().expect("a folder")
    {
        std::fs::copy(&written, &golden).expect("golden file");
    }
    let bytes = std::fs::read(&golden).expect("golden file");
    assert_eq!(bytes, std::fs::read(&written).expect("just written"), "version 1 writes the same");
    let copy = folder.path().join("copy");
    std::fs::write(&copy, bytes).expect("a copy, so that nothing is written to the golden file");
    let mut medium = FileMedium::open(&copy, CAPACITY_BYTES).expect("it is there");
    medium.rewind().expect("a file");
    let read: Vec<_> = std::iter::repeat_with(|| block(&mut medium)).take(5).collect();
    let expected = [Some(BLOCKS[0]), Some(BLOCKS[1]), None, Some(BLOCKS[0]), None];
    assert_eq!(read, expected.map(|block| block.map(<[u8]>::to_vec)));
}
