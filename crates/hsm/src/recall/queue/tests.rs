//! The queue, with one empty file that stands for all stubs.

use std::os::unix::ffi::OsStrExt as _;

use super::*;

/// A queue, and files to put into it.
struct Scene {
    folder: tempfile::TempDir,
    queue: Queue,
    list: Sender<Completion>,
}

fn id(inode: u64) -> FileId {
    FileId { device_id: 1, inode }
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("f"), b"").unwrap();
        let (list, _) = crossbeam_channel::unbounded();
        Self { folder, queue: Queue::default(), list }
    }

    fn user(&self, uid: u32) -> Requester {
        Requester { pid: 1, uid, program: format!("program of {uid}"), ..Requester::default() }
    }

    fn question(&self, uid: u32) -> Waiter {
        let (requester, access, need) = (self.user(uid), Access::Open, Need::whole_file());
        Waiter::Question { number: 9, requester, access, need, asked: sys::clock::monotonic() }
    }

    fn entry(&self) -> Waiter {
        Waiter::Request(ListEntry { index: 0, list: self.list.clone() })
    }

    fn enqueue(&mut self, inode: u64, waiter: Waiter) {
        let dir = sys::Dir::open(self.folder.path().as_os_str().as_bytes()).unwrap();
        let file = Arc::new(SpaceFile::open(&dir, b"f").unwrap());
        let recall = Recall::new(file, 1000, self.user(7), waiter);
        self.queue.enqueue(id(inode), recall);
    }

    /// Takes all files; returns their inodes in order.
    fn taken(&mut self) -> Vec<u64> {
        std::iter::from_fn(|| self.queue.take()).map(|id| id.inode).collect()
    }
}

#[test]
fn a_question_that_is_given_up_leaves_the_other_waiters() {
    let mut scene = Scene::new();
    let (question, entry) = (scene.question(1), scene.entry());
    scene.enqueue(1, question);
    assert!(scene.queue.has_program(id(1)));
    let [program] = scene.queue.waiting_programs().try_into().unwrap();
    scene.queue.join(id(1), entry).map_err(drop).unwrap();
    let another = WaitingProgram { requester: scene.user(2), ..program.clone() };
    assert!(scene.queue.give_up(&another).is_none(), "the number belongs to another question");
    assert!(scene.queue.give_up(&program).is_some());
    assert!(!scene.queue.has_program(id(1)));
    assert!(scene.queue.contains(id(1)), "the list still wants it");
    let question = scene.question(1);
    scene.enqueue(2, question);
    assert!(scene.queue.give_up(&WaitingProgram { id: id(2), ..program }).is_some());
    assert!(!scene.queue.contains(id(2)));
    assert_eq!(scene.taken(), [1]);
}

#[test]
fn only_a_recall_that_waits_at_the_server_shows_its_volume() {
    let wait = OwnWait {
        reference: 7,
        volume: Some("A1".to_owned()),
        ahead: 1,
        estimate: Some(Duration::from_secs(9)),
    };
    let shown = |number, stage| {
        let mut status = RecallStatus {
            number,
            requester: Requester::default(),
            since: ServerTime(0),
            path: Vec::new(),
            stage,
            waiters: 1,
            bytes: 5,
            done_bytes: 0,
            estimate: None,
            volume: None,
            volume_place: None,
        };
        status.add(std::slice::from_ref(&wait));
        (status.volume, status.volume_place, status.estimate)
    };
    let expected = (Some("A1".to_owned()), Some(2), Some(Duration::from_secs(9)));
    assert_eq!(shown(7, Stage::AtServer), expected);
    assert_eq!(shown(8, Stage::AtServer), (None, None, None));
    assert_eq!(shown(7, Stage::Coming), (None, None, None));
}

#[test]
fn opened_files_go_before_listed_ones_and_each_kind_in_its_order() {
    let mut scene = Scene::new();
    for inode in [1, 2, 3] {
        let entry = scene.entry();
        scene.enqueue(inode, entry);
    }
    for inode in [4, 5] {
        let question = scene.question(1);
        scene.enqueue(inode, question);
    }
    assert_eq!(scene.taken(), [4, 5, 1, 2, 3]);
}

#[test]
fn a_listed_file_that_is_opened_moves_forward() {
    let mut scene = Scene::new();
    for inode in [1, 2] {
        let entry = scene.entry();
        scene.enqueue(inode, entry);
    }
    let question = scene.question(1);
    assert!(scene.queue.join(id(2), question).is_ok());
    let entry = scene.entry();
    assert!(scene.queue.join(id(3), entry).is_err(), "nobody waits for that file");
    assert_eq!(scene.taken(), [2, 1]);
}

#[test]
fn lists_leave_transfers_to_opened_files() {
    let mut scene = Scene::new();
    for inode in 0..LISTED_MAX as u64 + 1 {
        let entry = scene.entry();
        scene.enqueue(inode, entry);
    }
    assert_eq!(scene.taken().len(), LISTED_MAX);
    let question = scene.question(1);
    scene.enqueue(9999, question);
    assert_eq!(scene.taken(), [9999]);
}

#[test]
fn a_withdrawn_list_leaves_only_files_that_others_wait_for() {
    let mut scene = Scene::new();
    for inode in [1, 2, 3] {
        let entry = scene.entry();
        scene.enqueue(inode, entry);
    }
    let question = scene.question(1);
    assert!(scene.queue.join(id(2), question).is_ok());
    assert_eq!(scene.queue.take(), Some(id(2)));
    assert_eq!(scene.queue.take(), Some(id(1)));
    let list = scene.list.clone();
    scene.queue.withdraw(&list);
    assert!(!scene.queue.contains(id(3)), "it waited");
    assert!(scene.queue.get(id(1)).unwrap().progress.is_stopped(), "its thread ends");
    assert!(!scene.queue.get(id(2)).unwrap().progress.is_stopped());
    assert_eq!(scene.queue.get(id(2)).unwrap().waiters.len(), 1);
    assert!(scene.taken().is_empty());
}

#[test]
fn a_waiting_recall_is_removed_and_a_transfer_is_stopped_by_its_cancellation() {
    let mut scene = Scene::new();
    for inode in [1, 2] {
        let entry = scene.entry();
        scene.enqueue(inode, entry);
    }
    assert_eq!(scene.queue.take(), Some(id(1)));
    let user = scene.user(7);
    assert!(scene.queue.cancel(1, &scene.user(8)).is_none(), "the recall belongs to another user");
    let first = scene.queue.cancel(1, &user);
    assert!(matches!(first, Some(Cancellation::Stopping)));
    assert!(scene.queue.get(id(1)).is_some_and(|recall| recall.is_cancelled));
    let second = scene.queue.cancel(2, &user);
    assert!(matches!(second, Some(Cancellation::Removed(recall)) if recall.number == 2));
    assert!(scene.queue.cancel(2, &user).is_none());
}

#[test]
fn a_removed_file_leaves_every_part_of_the_queue() {
    let mut scene = Scene::new();
    for inode in [1, 2] {
        let question = scene.question(1);
        scene.enqueue(inode, question);
    }
    assert_eq!(scene.queue.take(), Some(id(1)));
    assert!(scene.queue.remove(id(1)).is_some());
    assert!(scene.queue.remove(id(2)).is_some());
    assert!(scene.queue.remove(id(2)).is_none());
    assert!(scene.taken().is_empty());
    let question = scene.question(1);
    scene.enqueue(1, question);
    assert_eq!(scene.taken(), [1]);
}

#[test]
fn the_load_counts_questions_of_a_user_and_of_a_program() {
    let mut scene = Scene::new();
    for (inode, uid) in [(1, 5), (2, 5), (3, 6)] {
        let question = scene.question(uid);
        scene.enqueue(inode, question);
    }
    let entry = scene.entry();
    scene.enqueue(4, entry);
    let load = |requester| scene.queue.load_of(&requester);
    assert_eq!(load(scene.user(5)), Load { of_user: 2, of_program: 2 });
    let same_program = Requester { uid: 9, ..scene.user(6) };
    assert_eq!(load(same_program), Load { of_user: 0, of_program: 1 });
}

#[test]
fn places_count_from_one_and_transfers_come_first() {
    let mut scene = Scene::new();
    for inode in [1, 2, 3] {
        let entry = scene.entry();
        scene.enqueue(inode, entry);
    }
    assert_eq!(scene.queue.take(), Some(id(1)));
    let statuses = scene.queue.statuses();
    let stages: Vec<_> = statuses.iter().map(|status| (status.number, status.stage)).collect();
    let waiting = |place| Stage::Waiting { place };
    assert_eq!(stages, [(1, Stage::Coming), (2, waiting(1)), (3, waiting(2))]);
    assert!(statuses.iter().all(|status| status.estimate.is_none()), "no file was recalled yet");
}

#[test]
fn an_estimate_counts_the_files_before_and_the_bytes() {
    let mut queue = Queue::default();
    queue.note_speed(100 << 20, 10.0);
    assert_eq!((queue.file_secs, queue.bytes_per_sec), (1.0, f64::from(2 << 20)));
    queue.note_speed(1 << 20, 1.0);
    assert_eq!(queue.bytes_per_sec, f64::from(2 << 20), "a small file does not count");
    queue.file_secs = 1.0;
    let check = |stage, secs: Option<u64>| {
        assert_eq!(queue.estimate(stage, 4 << 20), secs.map(Duration::from_secs), "{stage:?}");
    };
    check(Stage::Coming, Some(2));
    check(Stage::Waiting { place: 1 }, Some(3));
    check(Stage::Waiting { place: AT_ONCE + 1 }, Some(4));
    check(Stage::AtServer, None);
}

#[test]
fn a_transfer_without_bytes_waits_at_the_server_and_needs_another_thread() {
    let mut scene = Scene::new();
    for inode in [1, 2] {
        let entry = scene.entry();
        scene.enqueue(inode, entry);
    }
    assert_eq!(scene.queue.take(), Some(id(1)));
    scene.queue.threads = AT_ONCE;
    assert_eq!(scene.queue.lacking_threads(), 0);
    let now = sys::clock::monotonic();
    let transfer = scene.queue.transfers.get_mut(&id(1)).unwrap();
    transfer.since = now.checked_sub(2 * STALL).expect("the machine runs longer");
    assert_eq!(scene.queue.lacking_threads(), 1);
    assert_eq!(scene.queue.statuses()[0].stage, Stage::AtServer);
    scene.queue.recalls[&id(1)].progress.bytes.fetch_add(1, Relaxed);
    assert_eq!(scene.queue.lacking_threads(), 0, "a byte has come");
}

#[test]
fn a_need_holds_the_last_page_that_appending_changes() {
    let mut grains = Grains::none(4 << 20);
    let need = Need::with_last_page(0..10, (4 << 20) - 1);
    assert_eq!(need.missing(&grains), Some(0..1 << 20));
    grains.set(&(0..1 << 20));
    assert_eq!(need.missing(&grains), Some(3 << 20..4 << 20));
    assert_eq!(
        Need::with_last_page(0..10, 4 << 20).missing(&grains),
        None,
        "the file ends with a page"
    );
    assert_eq!(Need::only(0..10).missing(&grains), None);
    assert_eq!(Need::whole_file().missing(&grains), Some(1 << 20..4 << 20));
}
