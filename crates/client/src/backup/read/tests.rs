//! Tests that read real files, some of which change during the read.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use model::Kind;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

/// Sink that joins chunks and holes to the whole content.
#[derive(Default)]
struct ContentSink {
    bytes: Vec<u8>,
    holes: Vec<u64>,
}

impl Sink for ContentSink {
    fn chunk(&mut self, chunk: &[u8]) {
        assert!((1..=CHUNK_BYTES_MAX).contains(&chunk.len()), "a chunk of {}", chunk.len());
        self.bytes.extend_from_slice(chunk);
    }

    fn hole(&mut self, bytes: u64) {
        self.holes.push(bytes);
        let bytes = usize::try_from(bytes).expect("small");
        self.bytes.resize(self.bytes.len() + bytes, 0);
    }
}

/// Sink that changes the file when the first chunk arrives.
struct Meddler<'a> {
    whole: ContentSink,
    change: Option<&'a dyn Fn()>,
}

impl Sink for Meddler<'_> {
    fn chunk(&mut self, chunk: &[u8]) {
        self.whole.chunk(chunk);
        if let Some(change) = self.change.take() {
            change();
        }
    }

    fn hole(&mut self, bytes: u64) {
        self.whole.hole(bytes);
    }
}

struct Scene {
    folder: TempDir,
    dir: Dir,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = Dir::open(folder.path().as_os_str().as_bytes()).expect("a folder");
        Self { folder, dir }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("f")
    }

    fn read(
        &self,
        seen: Option<&ObjectStatus>,
        fidelity: Fidelity,
        sink: &mut impl Sink,
    ) -> Result<ObjectStatus, ReadFailure> {
        let read = FileReader::new().read(&self.dir, b"f", seen, fidelity, sink);
        read.map(|(_, found)| found)
    }
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    blake3::Hasher::new().finalize_xof().fill(&mut content);
    content
}

#[test]
fn files_of_all_sizes_come_whole() {
    let scene = Scene::new();
    let sizes = [0, 1, CHUNK_BYTES_MIN, CHUNK_BYTES_MIN + 1, READ_BYTES, READ_BYTES * 2 + 7];
    for size in sizes {
        let content = noise(size);
        fs::write(scene.path(), &content).expect("written");
        let mut whole = ContentSink::default();
        let found = scene.read(None, Fidelity::Exact, &mut whole).expect("read");
        assert!(whole.bytes == content, "{size} bytes");
        assert!(whole.holes.is_empty());
        assert_eq!(found.stat.size, size as u64);
        assert_ne!(found.stat.ctime, NO_CHANGE_TIME);
    }
}

#[test]
fn only_files_are_read() {
    let make: [fn(&Path); 4] = [
        |_| (),
        |path| fs::create_dir(path).expect("made"),
        |path| symlink("/etc/passwd", path).expect("made"),
        |path| {
            let folder = path.parent().expect("a folder").as_os_str().as_bytes();
            let dir = Dir::open(folder).expect("a folder");
            dir.make_node(b"f", Kind::Fifo, 0).expect("made");
        },
    ];
    for make in make {
        let scene = Scene::new();
        make(&scene.path());
        let mut whole = ContentSink::default();
        let read = scene.read(None, Fidelity::Fuzzy, &mut whole);
        assert!(matches!(read, Err(ReadFailure::Failed(_))));
        assert!(whole.bytes.is_empty());
    }
}

/// Changes a file of `bytes` bytes while it is read, with each fidelity, and checks that the reader
/// notices.
#[track_caller]
fn check_changed(bytes: usize, change: fn(&Path)) {
    for fidelity in [Fidelity::Exact, Fidelity::Fuzzy] {
        let scene = Scene::new();
        fs::write(scene.path(), noise(bytes)).expect("written");
        let act = || change(&scene.path());
        let mut meddler = Meddler { whole: ContentSink::default(), change: Some(&act) };
        match scene.read(None, fidelity, &mut meddler) {
            Ok(found) => {
                assert_eq!(fidelity, Fidelity::Fuzzy, "a change was not noticed");
                // The stat has the size of the content and no change time, so that the next backup
                // examines the file again.
                assert_eq!(found.stat.size, meddler.whole.bytes.len() as u64);
                assert_eq!(found.stat.ctime, NO_CHANGE_TIME);
            }
            Err(failure) => {
                assert_eq!(fidelity, Fidelity::Exact, "{failure}");
                assert!(matches!(failure, ReadFailure::Changed), "{failure}");
            }
        }
        assert!(meddler.change.is_none(), "the change happened");
    }
}

#[test]
fn a_file_that_changes_while_it_is_read_is_not_taken_for_a_state() {
    for bytes in [100_000, READ_BYTES * 2] {
        // The file shrinks, grows, gets other bytes, another mode, another name, and is removed.
        check_changed(bytes, |path| {
            File::options().write(true).open(path).expect("opened").set_len(5).expect("cut");
        });
        check_changed(bytes, |path| {
            let file = File::options().write(true).open(path).expect("opened");
            let bytes = file.metadata().expect("stat").len();
            file.write_all_at(b"more", bytes).expect("written");
        });
        check_changed(bytes, |path| {
            let file = File::options().write(true).open(path).expect("opened");
            file.write_all_at(b"other", 0).expect("written");
        });
        check_changed(bytes, |path| {
            fs::set_permissions(path, PermissionsExt::from_mode(0o600)).expect("set");
        });
        check_changed(bytes, |path| fs::rename(path, path.with_extension("x")).expect("moved"));
        check_changed(bytes, |path| fs::remove_file(path).expect("removed"));
    }
}

#[test]
fn a_file_that_changed_since_the_walk_saw_it_is_read_again() {
    let scene = Scene::new();
    fs::write(scene.path(), b"as it was").expect("written");
    let seen = scene.dir.stat(b"f").expect("stat").expect("a file");
    let mut whole = ContentSink::default();
    scene
        .read(Some(&seen), Fidelity::Exact, &mut whole)
        .expect("nothing has changed");
    // Another file of this size takes its place.
    fs::write(scene.path().with_extension("new"), b"otherwise").expect("written");
    fs::rename(scene.path().with_extension("new"), scene.path()).expect("replaced");
    let read = scene.read(Some(&seen), Fidelity::Exact, &mut ContentSink::default());
    assert!(matches!(read, Err(ReadFailure::Changed)));
    let mut whole = ContentSink::default();
    scene.read(None, Fidelity::Exact, &mut whole).expect("read");
    assert_eq!(whole.bytes, b"otherwise");
}

#[test]
fn patience_follows_the_serialization() {
    let check = |serialization, demands: &[Fidelity]| {
        let group = BackupCopyGroup { serialization, ..BackupCopyGroup::default() };
        let patience = Patience::of(Some(&group));
        let found: Vec<_> = (0..=patience.retries).map(|tries| patience.fidelity(tries)).collect();
        assert_eq!(found, demands, "{serialization:?}");
    };
    let (exact, fuzzy) = (Fidelity::Exact, Fidelity::Fuzzy);
    check(Serialization::Static, &[exact]);
    check(Serialization::ShrStatic, &[exact; 5]);
    check(Serialization::ShrDynamic, &[exact, exact, exact, exact, fuzzy]);
    check(Serialization::Dynamic, &[fuzzy]);
}

/// Stream that gives its content in pieces, and then the result `end`.
struct Pieces<'a> {
    content: &'a [u8],
    lengths: Vec<usize>,
    end: io::Result<usize>,
}

impl Stream for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = match self.lengths.pop() {
            // A signal has interrupted the read.
            Some(0) => return Err(io::ErrorKind::Interrupted.into()),
            Some(length) => length,
            None => buffer.len(),
        };
        let bytes = length.min(buffer.len()).min(self.content.len());
        if bytes == 0 {
            return std::mem::replace(&mut self.end, Ok(0));
        }
        let (piece, rest) = self.content.split_at(bytes);
        buffer[..bytes].copy_from_slice(piece);
        self.content = rest;
        Ok(bytes)
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn restart(&mut self) -> bool {
        false
    }

    fn repeats(&self) -> bool {
        false
    }
}

/// Reads `stream` into `sink`, and checks that the reads took time.
fn read_whole(
    stream: &mut Pieces<'_>,
    check: &dyn Fn() -> Result<(), ClientError>,
    sink: &mut impl Sink,
) -> io::Result<()> {
    let mut time = Duration::ZERO;
    let read = read_stream(stream, check, sink, &mut time);
    assert!(time > Duration::ZERO, "a read takes time");
    read
}

#[test]
fn a_stream_that_fails_or_is_stopped_is_no_shorter_stream() {
    let content = noise(1000);
    let stream = |end| Pieces { content: &content, lengths: vec![10, 0, 500], end };
    let mut broken = stream(Err(io::ErrorKind::BrokenPipe.into()));
    let error =
        read_whole(&mut broken, &|| Ok(()), &mut ContentSink::default()).expect_err("broken");
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    let stopped = || Err(ClientError::interrupted());
    let error = read_whole(&mut stream(Ok(0)), &stopped, &mut ContentSink::default());
    assert_eq!(error.expect_err("stopped").to_string(), ClientError::interrupted().to_string());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn sparse_files_come_with_their_zeros(
        segments in prop::collection::vec((any::<bool>(), 1_usize..40_000), 1..8),
        begin in any::<prop::sample::Index>(),
    ) {
        let scene = Scene::new();
        let file = File::create(scene.path()).expect("made");
        let (source, mut expected) = (noise(40_000), Vec::new());
        let from = begin.index(100);
        for (is_data, bytes) in segments {
            if is_data {
                let data = &source[from.min(bytes)..bytes];
                file.write_all_at(data, expected.len() as u64).expect("written");
                expected.extend_from_slice(data);
            } else {
                expected.resize(expected.len() + bytes, 0);
            }
        }
        file.set_len(expected.len() as u64).expect("set");
        let mut whole = ContentSink::default();
        scene.read(None, Fidelity::Exact, &mut whole).expect("read");
        prop_assert!(whole.bytes == expected);
    }

    #[test]
    fn a_stream_is_cut_as_a_file_is(
        bytes in 0_usize..3_000_000,
        lengths in prop::collection::vec(0_usize..100_000, 0..30),
    ) {
        #[derive(Default)]
        struct Lengths(Vec<usize>, blake3::Hasher);
        impl Sink for Lengths {
            fn chunk(&mut self, chunk: &[u8]) {
                self.0.push(chunk.len());
                self.1.update(chunk);
            }
            fn hole(&mut self, _: u64) {}
        }
        let scene = Scene::new();
        let content = noise(bytes);
        fs::write(scene.path(), &content).expect("written");
        let (mut of_file, mut of_stream) = (Lengths::default(), Lengths::default());
        scene.read(None, Fidelity::Exact, &mut of_file).expect("read");
        let mut stream = Pieces { content: &content, lengths, end: Ok(0) };
        read_whole(&mut stream, &|| Ok(()), &mut of_stream).expect("read");
        prop_assert_eq!(of_file.0, of_stream.0);
        prop_assert_eq!(of_stream.1.finalize(), blake3::hash(&content));
    }
}
