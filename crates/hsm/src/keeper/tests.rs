//! Tests of the keeper, with a socket in place of the kernel and workers that only sleep.

use std::cell::{Cell, RefCell};
use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::process::Command;

use sys::fanotify::{Access, QuestionKinds};
use sys::space::SpaceFile;

use super::*;
use crate::recall::tests::StubScene;

/// Response of the kernel's interface that lets a program continue.
const ALLOW: u32 = 1;

/// A keeper of a group whose answers can be read.
struct Scene {
    kernel: UnixStream,
    /// The workers' ends of the relays, newest last.
    relays: RefCell<Vec<Relay>>,
    told_to_end: AtomicU32,
    has_stepped_aside: Cell<bool>,
    said: RefCell<Vec<String>>,
    /// Number of times that the keeper has said that it is ready.
    ready: Cell<u32>,
}

impl Scene {
    /// Runs `test` with a keeper whose workers only sleep.
    fn run(test: impl FnOnce(&mut Keeper<'_>, &Self)) {
        let (kernel, group) = UnixStream::pair().unwrap();
        kernel.set_nonblocking(true).unwrap();
        group.set_nonblocking(true).unwrap();
        let scene = Self {
            kernel,
            relays: RefCell::default(),
            told_to_end: AtomicU32::new(0),
            has_stepped_aside: Cell::new(false),
            said: RefCell::default(),
            ready: Cell::default(),
        };
        let shared = &scene;
        let start_worker = |ends: WorkerEnds<'_>| {
            let relay = Relay::inherited(ends.relay.try_clone_to_owned()?);
            shared.relays.borrow_mut().push(relay);
            Command::new("sleep").arg("60").spawn()
        };
        let step_aside = || shared.has_stepped_aside.set(true);
        let say = |text: &str| shared.said.borrow_mut().push(text.to_owned());
        let ready = || shared.ready.set(shared.ready.get() + 1);
        let now = sys::clock::monotonic();
        let mut keeper = Keeper {
            context: KeeperContext {
                group: Group::inherited(group.into(), QuestionKinds::Ranges),
                gate: None,
                start_worker: &start_worker,
                told_to_end: &shared.told_to_end,
                tend_holder: &|| {},
                step_aside: &step_aside,
                say: &say,
                ready: &ready,
            },
            held: HashMap::new(),
            unsent: VecDeque::new(),
            worker: None,
            alone_since: now,
            start_at: now,
            early_deaths: 0,
            is_ready: false,
            is_ending: false,
            looked: now,
        };
        test(&mut keeper, shared);
        keeper.end_worker();
    }

    /// The next answer to the kernel: number and response.
    fn answer(&self) -> Option<(RawFd, u32)> {
        let mut message = [0; 8];
        (&self.kernel).read_exact(&mut message).ok()?;
        let (number, response) = message.split_at(4);
        let number = RawFd::from_le_bytes(number.try_into().unwrap());
        Some((number, u32::from_le_bytes(response.try_into().unwrap())))
    }

    /// The next question that the newest worker gets.
    fn worker_question(&self) -> Question {
        self.relays.borrow().last().unwrap().next_question().unwrap().unwrap()
    }
}

/// Response that refuses a program that opens a file.
fn refusal() -> u32 {
    refusal_with(Errno::AGAIN)
}

fn refusal_with(errno: Errno) -> u32 {
    let deny = 2;
    deny | errno.raw_os_error().cast_unsigned() << 24
}

fn question(file: OwnedFd, number: RawFd) -> Question {
    Question { file, number, pid: 1, access: Access::Open }
}

fn stub_question(file: &SpaceFile, number: RawFd) -> Question {
    question(file.as_fd().try_clone_to_owned().unwrap(), number)
}

#[test]
fn a_file_that_is_no_stub_is_no_business_of_the_worker() {
    Scene::run(|keeper, scene| {
        keeper.take(question(tempfile::tempfile().unwrap().into(), 5));
        assert_eq!(scene.answer(), Some((5, ALLOW)));
        assert!(keeper.held.is_empty());
    });
}

#[test]
fn a_stub_waits_for_the_answer_of_the_worker() {
    let Some(stub) = StubScene::on_disk(1 << 20) else { return };
    Scene::run(|keeper, scene| {
        keeper.take(stub_question(&stub.file, 5));
        assert_eq!(scene.answer(), None);
        keeper.tend_worker();
        assert_eq!(scene.worker_question().number, 5);
        scene.relays.borrow()[0].answer(5, Answer::Go).unwrap();
        scene.relays.borrow()[0].answer(6, Answer::Go).unwrap();
        keeper.take_answers();
        assert_eq!(scene.answer(), Some((5, ALLOW)));
        assert_eq!(scene.answer(), None, "nobody has asked 6");
    });
}

#[test]
fn the_next_worker_gets_the_questions_of_one_that_died() {
    let Some(stub) = StubScene::on_disk(1 << 20) else { return };
    Scene::run(|keeper, scene| {
        keeper.tend_worker();
        keeper.take(stub_question(&stub.file, 5));
        keeper.hand_over();
        assert_eq!(scene.worker_question().number, 5);
        let first = keeper.worker.as_mut().unwrap();
        first.child.kill().unwrap();
        first.child.wait().unwrap();
        keeper.tend_worker();
        keeper.tend_worker();
        assert_eq!(scene.relays.borrow().len(), 2);
        assert_eq!(scene.worker_question().number, 5);
        assert_eq!(keeper.early_deaths, 1);
        assert!(scene.said.borrow().iter().any(|text| text.contains("starting another")));
        assert_eq!(scene.answer(), None, "it waits still");
    });
}

#[test]
fn workers_that_keep_dying_are_started_after_a_pause() {
    Scene::run(|keeper, scene| {
        loop {
            // The first call finds the death, the second call starts another worker.
            keeper.tend_worker();
            keeper.tend_worker();
            let Some(worker) = &mut keeper.worker else { break };
            worker.child.kill().unwrap();
            worker.child.wait().unwrap();
        }
        assert!(keeper.start_at > sys::clock::monotonic());
        assert_eq!(scene.relays.borrow().len(), EARLY_DEATHS_MAX as usize + 1);
    });
}

#[test]
fn a_worker_and_the_keeper_itself_use_stubs_freely() {
    let Some(stub) = StubScene::on_disk(1 << 20) else { return };
    Scene::run(|keeper, scene| {
        keeper.tend_worker();
        let worker = keeper.worker.as_ref().unwrap().child.id();
        for pid in [worker, std::process::id()] {
            keeper.take(Question { pid, ..stub_question(&stub.file, 5) });
            assert_eq!(scene.answer(), Some((5, ALLOW)));
        }
    });
}

#[test]
fn a_keeper_that_is_told_to_end_refuses_stubs_and_lets_others_start() {
    let Some(stub) = StubScene::on_disk(1 << 20) else { return };
    Scene::run(|keeper, scene| {
        keeper.take(stub_question(&stub.file, 5));
        assert!(keeper.goes_on());
        scene.told_to_end.store(1, Relaxed);
        keeper.goes_on();
        assert_eq!(scene.answer(), Some((5, refusal())));
        assert!(scene.has_stepped_aside.get());
        keeper.tend_worker();
        assert!(keeper.worker.is_none());
        keeper.take(stub_question(&stub.file, 6));
        assert_eq!(scene.answer(), Some((6, refusal())));
        let access = Access::Content(0..10);
        keeper.take(Question { access, ..stub_question(&stub.file, 8) });
        assert_eq!(scene.answer(), Some((8, refusal_with(Errno::BUSY))));
        keeper.take(question(tempfile::tempfile().unwrap().into(), 7));
        assert_eq!(scene.answer(), Some((7, ALLOW)));
        scene.told_to_end.store(2, Relaxed);
        assert!(!keeper.goes_on());
    });
}

#[test]
fn a_keeper_is_ready_once_its_first_worker_says_so() {
    Scene::run(|keeper, scene| {
        keeper.tend_worker();
        keeper.take_answers();
        assert_eq!(scene.ready.get(), 0, "no worker carries out requests yet");
        scene.relays.borrow()[0].announce().unwrap();
        keeper.take_answers();
        assert_eq!(scene.ready.get(), 1);
        keeper.lose_worker();
        keeper.tend_worker();
        scene.relays.borrow()[1].announce().unwrap();
        keeper.take_answers();
        assert_eq!(scene.ready.get(), 1, "the second worker only continues");
    });
}

#[test]
fn programs_do_not_wait_for_ever_without_a_worker() {
    let Some(stub) = StubScene::on_disk(1 << 20) else { return };
    Scene::run(|keeper, scene| {
        keeper.take(stub_question(&stub.file, 5));
        let now = sys::clock::monotonic();
        keeper.start_at = now + RESTART_PAUSE;
        keeper.tend_worker();
        assert_eq!(scene.answer(), None);
        keeper.alone_since = now.checked_sub(2 * PATIENCE).expect("the machine runs longer");
        keeper.tend_worker();
        assert_eq!(scene.answer(), Some((5, refusal())));
    });
}

/// Name of the environment variable that makes this program the child of a test.
const CHILD: &str = "HOLDFAST_TEST_KEEPER";

/// Runs in the child process: keeps questions until the loop meets a bug.
#[test]
fn a_child_keeps_with_a_bug() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let group = Group::inherited(tempfile::tempfile().unwrap().into(), QuestionKinds::Ranges);
    let context = KeeperContext {
        group,
        gate: None,
        start_worker: &|_| Err(io::ErrorKind::Unsupported.into()),
        told_to_end: &AtomicU32::new(0),
        tend_holder: &|| panic!("a bug in the loop"),
        step_aside: &|| {},
        say: &|_| {},
        ready: &|| {},
    };
    keep(context, None);
    std::process::exit(0);
}

#[test]
fn a_keeper_ends_when_it_panics() {
    let program = std::env::current_exe().unwrap();
    let child = Command::new(program)
        .args(["--exact", "keeper::tests::a_child_keeps_with_a_bug", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stderr);
    assert_eq!(child.status.code(), Some(sys::lock::ENDED_BY_A_BUG), "{said}");
    assert!(said.contains("src/keeper/tests.rs"), "the place of the panic is missing: {said}");
}
