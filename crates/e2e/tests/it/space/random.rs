//! Random calls on a file that migrates again and again: its content is always that of a model.

use std::ops::Range;

use rustix::fs::{FallocateFlags, fallocate};

use super::*;

/// Number of calls on each file system. `HOLDFAST_SPACE_CALLS` sets another number.
const CALLS: u64 = 120;
/// The calls follow from this number. `HOLDFAST_SPACE_SEED` sets another one.
const SEED: u64 = 1;
/// Maximum size of the file, in bytes: a few grains.
const BYTES_MAX: usize = 4 * MIB;
/// Maximum number of bytes that a call reads, writes or punches.
const CALL_BYTES_MAX: usize = 700_000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// The file, and the content that it must have.
struct Model<'a> {
    space: &'a Space,
    path: PathBuf,
    content: Vec<u8>,
    random: Random,
    /// The calls so far, for the message of a failure.
    calls: Vec<String>,
    /// Number of calls that left a stub.
    migrations: u32,
}

impl Model<'_> {
    fn below(&mut self, limit: usize) -> usize {
        self.random.below(u32::try_from(limit).unwrap()) as usize
    }

    /// A range that begins in the file or at its end.
    fn range(&mut self) -> Range<usize> {
        let start = self.below(self.content.len() + 1);
        let bytes = 1 + self.below(CALL_BYTES_MAX);
        start..(start + bytes).min(BYTES_MAX)
    }

    fn call(&mut self) {
        let (kind, range) = (self.below(11), self.range());
        self.calls.push(format!("{kind} {range:?}"));
        match kind {
            0 | 1 => self.write(range),
            2 | 3 => self.read(range),
            4 => self.resize(range.start),
            5 => self.resize_by_path(range.end),
            6 => self.punch(range),
            7 => self.write_anew(range.len()),
            8 => drop(self.space.hsm(&["recall"], &self.path).expect(&[0])),
            _ => self.migrate(),
        }
    }

    fn migrate(&mut self) {
        // An empty file does not migrate.
        let outcome = self.space.hsm(&["migrate"], &self.path).expect(&[0, 4]);
        self.migrations += u32::from(outcome.code() == 0);
    }

    fn write(&mut self, range: Range<usize>) {
        let bytes = self.random.bytes(range.len());
        writable(&self.path).write_all_at(&bytes, range.start as u64).unwrap();
        self.content.resize(self.content.len().max(range.end), 0);
        self.content[range].copy_from_slice(&bytes);
    }

    fn read(&self, range: Range<usize>) {
        let expected = &self.content[range.start..range.end.min(self.content.len())];
        let mut bytes = vec![0; expected.len()];
        let file = File::open(&self.path).unwrap();
        file.read_exact_at(&mut bytes, range.start as u64).unwrap();
        assert!(bytes == expected, "{:?}", self.calls);
    }

    fn resize(&mut self, bytes: usize) {
        writable(&self.path).set_len(bytes as u64).unwrap();
        self.content.resize(bytes, 0);
    }

    fn resize_by_path(&mut self, bytes: usize) {
        assert!(shell(&format!("truncate -s {bytes} \"$1\""), &self.path, &self.path));
        self.content.resize(bytes, 0);
    }

    fn punch(&mut self, range: Range<usize>) {
        let range = range.start..range.end.min(self.content.len());
        if range.is_empty() {
            return;
        }
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let (start, bytes) = (range.start as u64, range.len() as u64);
        fallocate(writable(&self.path), mode, start, bytes).unwrap();
        self.content[range].fill(0);
    }

    fn write_anew(&mut self, bytes: usize) {
        self.content = self.random.bytes(bytes);
        fs::write(&self.path, &self.content).unwrap();
    }

    fn check(&self) {
        assert!(fs::read(&self.path).unwrap() == self.content, "{:?}", self.calls);
    }
}

#[test]
fn a_file_has_the_content_of_its_model_after_any_calls() {
    let calls = number("HOLDFAST_SPACE_CALLS").unwrap_or(CALLS);
    let seed = number("HOLDFAST_SPACE_SEED").unwrap_or(SEED);
    for kind in KINDS {
        // Files are recalled by ranges, and as a whole.
        for whole in ["0", "256M"] {
            let options = ["--whole", whole, "--min-size", "1"];
            let Some(space) = Space::new(kind, &options) else { continue };
            println!("{} --whole {whole}, seed {seed}", kind[0]);
            let content = noise(seed, 3 * MIB + 5);
            let path = space.stub("file", &content);
            let random = Random::new(seed, b"calls");
            let (calls_done, migrations) = (Vec::new(), 0);
            let mut model =
                Model { space: &space, path, content, random, calls: calls_done, migrations };
            for _ in 0..calls {
                model.call();
            }
            model.check();
            model.migrate();
            model.check();
            assert!(model.migrations > 1, "the file does not migrate: {:?}", model.calls);
        }
    }
}
