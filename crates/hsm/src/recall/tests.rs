//! Tests of recalls of real stubs, from a source that follows the script of a test.

use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use client::Progress;
use format::stub::Stub;
use model::{BatchId, CopyId, Timestamp};

use super::*;
use crate::fill::Part;
use crate::record;
use crate::relay::WorkerMessage;

/// A recaller without file systems.
pub(crate) fn recaller_of_nothing() -> Recaller {
    recaller_managing(Vec::new())
}

pub(crate) fn recaller_managing(mounts: Vec<Mount>) -> Recaller {
    let (_, worker) = Relay::pair().unwrap();
    recaller(mounts, worker, Script::default(), Box::new(|_, _| false))
}

fn recaller(mounts: Vec<Mount>, relay: Relay, script: Script, make_room: RoomMaker) -> Recaller {
    let group = Group::inherited(tempfile::tempfile().unwrap().into(), QuestionKinds::Ranges);
    let gate = Gate::open(tempfile::tempdir().unwrap().path()).unwrap();
    let roster = Arc::new(Roster::new(mounts));
    Recaller::new(Arc::new(group), Arc::new(relay), roster, Box::new(script), make_room, gate)
}

/// An empty stub on a real file system that is managed.
pub(crate) struct StubScene {
    folder: tempfile::TempDir,
    pub(crate) mount: Mount,
    pub(crate) file: SpaceFile,
}

impl StubScene {
    /// `None` if the test needs root and does not run as root.
    pub(crate) fn on_disk(bytes: u64) -> Option<Self> {
        Self::with(bytes, |_| {})
    }

    fn with(bytes: u64, change: impl FnOnce(&mut FilesystemSettings)) -> Option<Self> {
        if !sys::process::is_root() {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let mount_point = folder.path().as_os_str().as_bytes().to_vec();
        std::fs::File::create(folder.path().join("f")).unwrap().set_len(bytes).unwrap();
        let mut settings = FilesystemSettings::new(mount_point);
        change(&mut settings);
        let mount = Mount::open(settings).unwrap();
        let file = SpaceFile::open(&mount.root().unwrap(), b"f").unwrap();
        let stub = record::emptied(Stub {
            state: State::Premigrated,
            was_recalled: false,
            copy: CopyId { batch: BatchId(1), index: 0 },
            size: bytes,
            mtime: Timestamp::default(),
            content: [0; 16],
            bearer: None,
            unsynced: None,
        });
        record::write(&file, &stub).unwrap();
        Some(Self { folder, mount, file })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// A source that fails as often as the test requires. Then it fills stubs with bytes of the value
/// 1.
#[derive(Default)]
struct Script {
    failures: Mutex<Vec<FillError>>,
    fills: Arc<AtomicUsize>,
    /// True if the source gives signs of life.
    is_alive: bool,
    waits: Mutex<Vec<client::OwnWait>>,
}

const HOUR: Duration = Duration::from_secs(3600);

impl ContentSource for Script {
    fn fill(&self, part: &Part<'_>, progress: &Arc<Progress>) -> Result<(), FillError> {
        if let Some(error) = self.failures.lock().pop() {
            return Err(error);
        }
        self.fills.fetch_add(1, Relaxed);
        let end = part.range.end.min(part.stub.size);
        let content = vec![1; usize::try_from(end - part.range.start).unwrap()];
        progress.bytes.fetch_add(content.len() as u64, Relaxed);
        Ok(part.file.write_at(&content, part.range.start)?)
    }

    fn probe(&self) {}

    fn last_sign(&self) -> Instant {
        let now = sys::clock::monotonic();
        if self.is_alive { now } else { now.checked_sub(HOUR).unwrap_or(now) }
    }

    fn waits(&self) -> Vec<client::OwnWait> {
        self.waits.lock().clone()
    }

    fn distrust(&self) {}
}

/// A recaller with one stub, and the keeper's end of its relay.
struct Scene {
    folder: tempfile::TempDir,
    keeper: Relay,
    recaller: Recaller,
    fills: Arc<AtomicUsize>,
}

impl Scene {
    fn new(
        bytes: u64,
        failures: Vec<FillError>,
        change: impl FnOnce(&mut FilesystemSettings),
    ) -> Option<Self> {
        let StubScene { folder, mount, .. } = StubScene::with(bytes, change)?;
        let (keeper, worker) = Relay::pair().unwrap();
        let script = Script { failures: Mutex::new(failures), ..Script::default() };
        let fills = Arc::clone(&script.fills);
        let recaller = recaller(vec![mount], worker, script, Box::new(|_, _| true));
        Some(Self { folder, keeper, recaller, fills })
    }

    fn file(&self) -> SpaceFile {
        SpaceFile::open(&self.recaller.mounts()[0].root().unwrap(), b"f").unwrap()
    }

    fn ask(&self, number: RawFd, access: Access) {
        self.ask_as(std::process::id(), number, access);
    }

    fn ask_as(&self, pid: u32, number: RawFd, access: Access) {
        let file = self.file().as_fd().try_clone_to_owned().unwrap();
        self.recaller.take(Question { file, number, pid, access });
    }

    fn request(&self) -> crossbeam_channel::Receiver<Completion> {
        let (list, completions) = crossbeam_channel::unbounded();
        let file = self.file();
        let found = file.stat().unwrap();
        let requester = Requester::of(std::process::id());
        self.recaller.request(file, &found, requester, ListEntry { index: 7, list });
        completions
    }

    /// Serves the next file as a thread does.
    fn serve(&self) {
        let id = self.recaller.next_file().unwrap();
        self.recaller.serve_file(id);
    }

    #[track_caller]
    fn check_answer(&self, number: RawFd, answer: Answer) {
        assert_eq!(
            self.keeper.next_message().unwrap(),
            Some(WorkerMessage::Answer(number, answer))
        );
    }

    /// Number of the next question that is refused with this error.
    #[track_caller]
    fn next_refusal(&self, errno: Errno) -> RawFd {
        match self.keeper.next_message().unwrap() {
            Some(WorkerMessage::Answer(number, answer)) if answer == Answer::Fail(errno) => number,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn check_no_answer(&self) {
        let error = self.keeper.next_message().unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    }
}

const MIB: u64 = 1 << 20;

#[test]
fn a_program_waits_for_a_silent_server_as_long_as_the_settings_say() {
    let Some(scene) = Scene::new(MIB, Vec::new(), |settings| settings.wait_secs = 30) else {
        return;
    };
    scene.ask(5, Access::Open);
    scene.ask(6, Access::Content(0..10));
    let mut patience = Patience::default();
    let now = sys::clock::monotonic();
    scene.recaller.tend_waiters_at(&mut patience, now + Duration::from_secs(29));
    scene.check_no_answer();
    scene.recaller.tend_waiters_at(&mut patience, now + Duration::from_secs(31));
    let mut numbers = [scene.next_refusal(Errno::IO), scene.next_refusal(Errno::IO)];
    numbers.sort_unstable();
    assert_eq!(numbers, [5, 6]);
    assert_eq!(scene.recaller.statuses(), [], "nobody waits any more");
}

#[test]
fn a_program_waits_for_a_server_that_lives_however_long_it_takes() {
    let Some(StubScene { folder, mount, .. }) = StubScene::on_disk(MIB) else { return };
    let (keeper, worker) = Relay::pair().unwrap();
    let script = Script { is_alive: true, ..Script::default() };
    let recaller = recaller(vec![mount], worker, script, Box::new(|_, _| true));
    let scene = Scene { folder, keeper, recaller, fills: Arc::default() };
    scene.ask(5, Access::Open);
    let mut patience = Patience::default();
    scene.recaller.tend_waiters_at(&mut patience, sys::clock::monotonic());
    scene.check_no_answer();
    assert_eq!(scene.recaller.statuses().len(), 1);
}

#[test]
fn a_program_that_opens_a_stub_waits_for_its_whole_content() {
    let Some(scene) = Scene::new(3 * MIB, Vec::new(), |_| {}) else { return };
    scene.ask(5, Access::Open);
    scene.check_no_answer();
    assert_eq!(scene.recaller.open_questions().len(), 1);
    scene.serve();
    scene.check_answer(5, Answer::Go);
    let content = std::fs::read(scene.folder.path().join("f")).unwrap();
    assert!(content.iter().all(|byte| *byte == 1));
    assert!(scene.recaller.is_busy(FileId::of(&scene.file().stat().unwrap())), "unsynced");
    scene.recaller.catch_up();
    assert!(!scene.recaller.is_busy(FileId::of(&scene.file().stat().unwrap())));
    scene.ask(6, Access::Open);
    scene.check_answer(6, Answer::Go);
    assert_eq!(record::read(&scene.file()).unwrap().unwrap().state, State::Premigrated);
}

#[test]
fn a_large_file_comes_range_by_range() {
    let part_wise = |settings: &mut FilesystemSettings| settings.whole_bytes_max = 0;
    let Some(scene) = Scene::new(8 * MIB, Vec::new(), part_wise) else { return };
    scene.ask(5, Access::Open);
    scene.check_answer(5, Answer::Go);
    scene.ask(6, Access::Content(5 * MIB..5 * MIB + 10));
    scene.serve();
    scene.check_answer(6, Answer::Go);
    scene.ask(7, Access::Content(5 * MIB + 100..6 * MIB));
    scene.check_answer(7, Answer::Go);
    let Some(Stub { state: State::Migrated(grains), .. }) = record::read(&scene.file()).unwrap()
    else {
        panic!("it is not all here");
    };
    assert_eq!(grains.missing(&(0..8 * MIB)), [0..5 * MIB, 6 * MIB..8 * MIB]);
}

/// Nothing of the content is needed to read at the end of a file. The kernel would set the time of
/// the last access, and the next read would get the content that was cut.
#[test]
fn a_doubtful_file_is_not_read_at_its_end_either() {
    let part_wise = |settings: &mut FilesystemSettings| settings.whole_bytes_max = 0;
    let Some(scene) = Scene::new(8 * MIB, Vec::new(), part_wise) else { return };
    let (file, end) = (scene.file(), Access::Content(8 * MIB..8 * MIB + 10));
    let bearer = record::bearer(&scene.recaller.mounts()[0].filesystem, &file).unwrap();
    let old = Timestamp { secs: 1_000_000_000, nanos: 0 };
    let stub = record::read(&file).unwrap().unwrap();
    record::write(&file, &Stub { bearer: Some(bearer), mtime: old, ..stub }).unwrap();
    let later = Timestamp { secs: old.secs + 9, ..old };
    file.set_times(Some(old), later).unwrap();
    scene.ask(5, end.clone());
    assert_eq!(scene.next_refusal(Errno::IO), 5);
    assert!(!record::read(&file).unwrap().unwrap().was_recalled, "the doubt stays");
    file.set_times(Some(old), old).unwrap();
    scene.ask(6, end);
    scene.check_answer(6, Answer::Go);
    assert!(record::read(&file).unwrap().unwrap().was_recalled);
}

/// `cp` on an NFS client asks the server for the holes of a file, and copied a stub as zeros.
#[test]
fn a_large_file_that_the_nfs_server_opens_comes_as_a_whole() {
    let part_wise = |settings: &mut FilesystemSettings| settings.whole_bytes_max = 0;
    let Some(scene) = Scene::new(8 * MIB, Vec::new(), part_wise) else { return };
    // A program has the name by which it was started. The kernel sets the name a moment after the
    // parent goes on, so this waits for it.
    let program = scene.folder.path().join("nfsd");
    std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
    let mut child = std::process::Command::new(program).arg("60").spawn().unwrap();
    let name = format!("/proc/{}/comm", child.id());
    while std::fs::read_to_string(&name).unwrap() != "nfsd\n" {
        std::thread::yield_now();
    }
    scene.ask_as(child.id(), 5, Access::Open);
    child.kill().unwrap();
    child.wait().unwrap();
    scene.check_no_answer();
    scene.serve();
    scene.check_answer(5, Answer::Go);
    let record = record::read(&scene.file()).unwrap().expect("a record");
    assert!(record.is_resident(), "{record:?}");
}

#[test]
fn programs_that_look_for_holes_have_names_as_the_kernel_shows_them() {
    /// Maximum length of the name of a process, in bytes: `TASK_COMM_LEN` without the NUL.
    const NAME_BYTES_MAX: usize = 15;
    for (index, name) in HOLE_SEEKERS.iter().enumerate() {
        assert!((1..=NAME_BYTES_MAX).contains(&name.len()), "{name} is in no /proc/PID/comm");
        assert!(!HOLE_SEEKERS[..index].contains(name), "{name} is there twice");
    }
    // A machine of QEMU, and a server for its guests.
    let shown = |program: &str| program[..program.len().min(NAME_BYTES_MAX)].to_owned();
    for program in ["qemu-system-x86_64", "qemu-system-aarch64", "qemu-storage-daemon", "qemu-nbd"]
    {
        assert!(HOLE_SEEKERS.contains(&shown(program).as_str()), "{program}");
    }
}

#[test]
fn a_file_is_recalled_once_for_everybody() {
    let Some(scene) = Scene::new(MIB, Vec::new(), |_| {}) else { return };
    let completions = scene.request();
    scene.ask(5, Access::Open);
    scene.ask(6, Access::Content(0..10));
    let statuses = scene.recaller.statuses();
    assert_eq!((statuses.len(), statuses[0].waiters), (1, 3));
    scene.serve();
    scene.check_answer(5, Answer::Go);
    scene.check_answer(6, Answer::Go);
    let completion = completions.try_recv().unwrap();
    assert_eq!((completion.index, completion.result), (7, Ok(MIB)));
    assert_eq!(scene.fills.load(Relaxed), 1);
    assert!(scene.recaller.statuses().is_empty());
}

#[test]
fn reading_fails_where_only_requests_recall() {
    let Some(scene) = Scene::new(MIB, Vec::new(), |settings| settings.requests_only = true) else {
        return;
    };
    scene.ask(5, Access::Open);
    scene.check_answer(5, Answer::Fail(Errno::PERM));
    let completions = scene.request();
    scene.serve();
    assert_eq!(completions.try_recv().unwrap().result, Ok(MIB));
}

#[test]
fn a_user_with_too_many_recalls_is_refused() {
    let one = |settings: &mut FilesystemSettings| settings.user_recalls_max = 1;
    let Some(scene) = Scene::new(MIB, Vec::new(), one) else { return };
    scene.ask(5, Access::Open);
    scene.check_no_answer();
    scene.ask(6, Access::Open);
    scene.check_answer(6, Answer::Fail(Errno::AGAIN));
}

#[test]
fn lost_content_is_an_error_for_everybody_who_waits() {
    let lost = || vec![FillError::Lost("damaged".to_owned())];
    let Some(scene) = Scene::new(MIB, lost(), |_| {}) else { return };
    scene.ask(5, Access::Open);
    let completions = scene.request();
    scene.serve();
    scene.check_answer(5, Answer::Fail(Errno::IO));
    let failed = Err(RecallError::Failed("damaged".to_owned()));
    assert_eq!(completions.try_recv().unwrap().result, failed);
    scene.ask(6, Access::Open);
    scene.serve();
    scene.check_answer(6, Answer::Go);
}

#[test]
fn a_program_that_opens_is_told_to_try_again_and_one_that_reads_is_not() {
    for (access, errno) in [(Access::Open, Errno::AGAIN), (Access::Content(0..10), Errno::BUSY)] {
        let Some(scene) = Scene::new(MIB, Vec::new(), |_| {}) else { return };
        scene.ask(5, access.clone());
        let open = scene.recaller.open_questions();
        assert_eq!(open.len(), 1);
        assert_eq!(open[0].0.access, access, "the next keeper has to know what was asked");
        scene
            .recaller
            .cancel(scene.recaller.statuses()[0].number, &Requester::default());
        scene.check_answer(5, Answer::Fail(errno));
        let none = |settings: &mut FilesystemSettings| settings.user_recalls_max = 0;
        let Some(scene) = Scene::new(MIB, Vec::new(), none) else { return };
        scene.ask(5, access);
        scene.check_answer(5, Answer::Fail(errno));
    }
}

#[test]
fn questions_about_a_file_that_is_changed_wait_for_the_end_of_the_change() {
    let Some(scene) = Scene::new(MIB, Vec::new(), |_| {}) else { return };
    let recaller = &scene.recaller;
    let id = FileId::of(&scene.file().stat().unwrap());
    assert!(recaller.withheld.begin(id));
    assert!(!recaller.withheld.begin(id), "one change at a time");
    scene.ask(5, Access::Open);
    scene.check_no_answer();
    assert!(recaller.statuses().is_empty(), "nothing is recalled meanwhile");
    assert_eq!(recaller.open_questions().len(), 1, "the next keeper has to know");
    for question in recaller.withheld.end(id) {
        recaller.take_about(question);
    }
    scene.serve();
    scene.check_answer(5, Answer::Go);
}

#[test]
fn content_that_breaks_off_is_fetched_again() {
    let broken = vec![FillError::Unreachable("the connection failed".to_owned())];
    let Some(scene) = Scene::new(MIB, broken, |_| {}) else { return };
    scene.ask(5, Access::Open);
    scene.serve();
    scene.check_answer(5, Answer::Go);
}

#[test]
fn a_full_file_system_gets_room_once() {
    let full = || FillError::NoRoom(std::io::ErrorKind::StorageFull.into());
    let Some(scene) = Scene::new(MIB, vec![full()], |_| {}) else { return };
    scene.ask(5, Access::Open);
    scene.serve();
    scene.check_answer(5, Answer::Go);
    let Some(scene) = Scene::new(MIB, vec![full(), full()], |_| {}) else { return };
    scene.ask(5, Access::Open);
    scene.serve();
    scene.check_answer(5, Answer::Fail(Errno::NOSPC));
}

#[test]
fn a_cancelled_recall_refuses_everybody_who_waits() {
    let Some(scene) = Scene::new(MIB, Vec::new(), |_| {}) else { return };
    let completions = scene.request();
    scene.ask(5, Access::Open);
    let number = scene.recaller.statuses()[0].number;
    let root = Requester::default();
    let other = Requester { uid: 4711, ..Requester::default() };
    assert!(!scene.recaller.cancel(number, &other));
    assert!(!scene.recaller.cancel(number + 1, &root));
    assert!(scene.recaller.cancel(number, &root));
    scene.check_answer(5, Answer::Fail(Errno::AGAIN));
    assert_eq!(completions.try_recv().unwrap().result, Err(RecallError::Cancelled));
}

#[test]
fn a_file_that_is_no_stub_or_not_managed_needs_no_recall() {
    let Some(scene) = Scene::new(MIB, Vec::new(), |_| {}) else { return };
    let ask = |recaller: &Recaller, file: std::fs::File| {
        let (pid, access) = (std::process::id(), Access::Open);
        recaller.take(Question { file: file.into(), number: 5, pid, access });
    };
    let plain = scene.folder.path().join("plain");
    std::fs::write(&plain, b"content").unwrap();
    ask(&scene.recaller, std::fs::File::open(&plain).unwrap());
    scene.check_answer(5, Answer::Go);
    let stub = std::fs::File::open(scene.folder.path().join("f")).unwrap();
    let (keeper, worker) = Relay::pair().unwrap();
    let unmanaged = recaller(Vec::new(), worker, Script::default(), Box::new(|_, _| false));
    ask(&unmanaged, stub);
    assert_eq!(
        keeper.next_message().unwrap(),
        Some(WorkerMessage::Answer(5, Answer::Fail(Errno::IO)))
    );
}

#[test]
fn threads_are_claimed_once() {
    let recaller = recaller_of_nothing();
    assert_eq!(recaller.claim_threads(), queue::AT_ONCE);
    assert_eq!(recaller.claim_threads(), 0);
    recaller.forget_thread();
    assert_eq!(recaller.claim_threads(), 1);
}
