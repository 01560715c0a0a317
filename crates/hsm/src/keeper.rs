//! The keeper: it lets programs continue that use no stub, passes questions about stubs to the
//! worker, and holds these questions while no worker runs.
//!
//! The keeper does as little as possible, because a keeper that fails leaves readers waiting. It
//! opens no file, talks to no server, and recognises a stub only by its record.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::process::Child;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use format::stub::{STUB_ATTRIBUTE, STUB_BYTES_MAX};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use sys::fanotify::{Answer, Group, Question};

use crate::gate::Gate;
use crate::questions::{self, OpenQuestions, Refusal};
use crate::relay::{Inquiry, Relay, WorkerMessage};

/// Maximum number of questions that the keeper holds; further questions stay in the kernel. Each
/// question needs a descriptor.
const HELD_MAX: usize = 100_000;
/// Time without a worker after which the waiting programs are refused.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause before the next worker starts if several have died early. A worker dies early if it lives
/// for less than this time.
const RESTART_PAUSE: Duration = Duration::from_secs(2);
/// Number of workers that may die early, one after the other, before the keeper pauses.
const EARLY_DEATHS_MAX: u32 = 5;
/// Longest wait of the keeper's loop.
const TICK: rustix::time::Timespec = rustix::time::Timespec { tv_sec: 0, tv_nsec: 250_000_000 };
/// Interval at which a keeper that is to end checks whether a managed file system is still in use.
const USE_INTERVAL: Duration = Duration::from_millis(200);

/// The descriptors that a worker inherits.
pub struct WorkerEnds<'a> {
    pub group: &'a Group,
    pub relay: BorrowedFd<'a>,
}

/// The group of a keeper, and the callbacks of its process.
pub(crate) struct KeeperContext<'a> {
    pub(crate) group: Group,
    /// The gate to the worker; `None` if it cannot be opened. Then the kernel is asked about every
    /// file again and again.
    pub(crate) gate: Option<Gate>,
    pub(crate) start_worker: &'a dyn Fn(WorkerEnds<'_>) -> io::Result<Child>,
    /// Number of times that this process was told to end.
    pub(crate) told_to_end: &'a AtomicU32,
    /// Starts the holder again when it has ended.
    pub(crate) tend_holder: &'a dyn Fn(),
    /// Lets another keeper start. This keeper stays, and only refuses questions.
    pub(crate) step_aside: &'a dyn Fn(),
    /// Reports a text to the user.
    pub(crate) say: &'a dyn Fn(&str),
    /// Reports that the first worker carries out requests.
    pub(crate) ready: &'a dyn Fn(),
}

/// A question whose program waits.
struct HeldQuestion {
    inquiry: Inquiry,
    file: OwnedFd,
    /// Keeps the kernel from giving the number of an inherited question to another question.
    _reserved: Option<OwnedFd>,
}

struct Worker {
    child: Child,
    relay: Relay,
    started: Instant,
}

struct Keeper<'a> {
    context: KeeperContext<'a>,
    held: HashMap<RawFd, HeldQuestion>,
    /// Numbers of held questions that the worker does not have yet, oldest first. A number may
    /// belong to a question that was answered meanwhile.
    unsent: VecDeque<RawFd>,
    worker: Option<Worker>,
    /// Time at which the last worker ended, or at which this keeper began without one.
    alone_since: Instant,
    /// Earliest time for the next worker.
    start_at: Instant,
    early_deaths: u32,
    /// True once a worker has announced that it carries out requests.
    is_ready: bool,
    /// True once the keeper was told to end. From then on it only refuses questions.
    is_ending: bool,
    /// Time of the last check whether file systems are in use. Checks take long, because the
    /// kernel's list of uses is long.
    looked: Instant,
}

/// Keeps the questions of the group until the process is told to end and no managed file system is
/// mounted any more, or until it is told a second time. A panic of any thread ends the process;
/// the worker, the holder or the service manager then starts another keeper.
pub(crate) fn keep(context: KeeperContext<'_>, adopted: Option<OpenQuestions>) {
    sys::fault::end_process_on_panic();
    let now = sys::clock::monotonic();
    let mut keeper = Keeper {
        context,
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
    if let Some(adopted) = adopted {
        keeper.adopt(adopted);
    }
    while keeper.goes_on() {
        (keeper.context.tend_holder)();
        keeper.tend_worker();
        if let Err(error) = keeper.wait_and_serve() {
            // The keeper must not end: programs would read stubs as zeros.
            (keeper.context.say)(&format!("cannot read the kernel's questions: {error}"));
            sys::clock::sleep(RESTART_PAUSE);
        }
    }
    keeper.end_worker();
    keeper.refuse_held();
}

impl Keeper<'_> {
    /// Takes over the questions that another keeper has left. Programs are refused if the old
    /// keeper has read their question and not passed it on.
    fn adopt(&mut self, adopted: OpenQuestions) {
        for (inquiry, file) in adopted.into_inner() {
            let reserved = reserve_number(&file, inquiry.number);
            let number = inquiry.number;
            self.held.insert(number, HeldQuestion { inquiry, file, _reserved: reserved });
        }
        self.unsent = self.held.keys().copied().collect();
        // The dead worker may have been removing a file's content.
        self.watch_all_again();
        questions::refuse_unknown(&self.context.group, |number| self.held.contains_key(&number));
    }

    fn watch_all_again(&self) {
        if let Err(error) = self.context.group.watch_all_again() {
            (self.context.say)(&format!("cannot make the kernel ask about all files: {error}"));
        }
    }

    fn goes_on(&mut self) -> bool {
        match self.context.told_to_end.load(Relaxed) {
            0 => true,
            1 => {
                if !self.is_ending {
                    self.begin_to_end();
                } else if self.looked.elapsed() < USE_INTERVAL {
                    return true;
                }
                self.looked = sys::clock::monotonic();
                self.is_anything_mounted()
            }
            _ => false,
        }
    }

    /// True while a managed file system may be in use.
    fn is_anything_mounted(&self) -> bool {
        self.context.group.watches().unwrap_or(true)
    }

    /// Ends the worker. From now on programs that use stubs fail.
    fn begin_to_end(&mut self) {
        assert!(!self.is_ending, "a keeper begins to end once");
        self.is_ending = true;
        self.end_worker();
        self.refuse_held();
        (self.context.step_aside)();
        if self.is_anything_mounted() {
            (self.context.say)(
                "stubs cannot be used from now on; this process stays until nobody uses their \
                 file systems, because without it they would read as zeros",
            );
        }
    }

    /// Ends the worker, if there is one; returns its exit status and the time of its start.
    fn end_worker(&mut self) -> Option<(String, Instant)> {
        let Worker { mut child, relay, started } = self.worker.take()?;
        // The worker is killed before its relay closes, because a worker regards a closed relay as
        // the death of the keeper.
        drop(child.kill());
        let status = child.wait();
        drop(relay);
        // The worker may have died while the kernel did not ask about a file that was losing its
        // content.
        self.watch_all_again();
        self.unsent = self.held.keys().copied().collect();
        let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        Some((status, started))
    }

    fn refuse_held(&mut self) {
        self.unsent.clear();
        for (number, held) in self.held.drain() {
            questions::refuse(&self.context.group, number, &held.inquiry.access);
        }
    }

    /// Starts a worker if no worker is running, and passes it the waiting questions.
    fn tend_worker(&mut self) {
        let now = sys::clock::monotonic();
        if let Some(worker) = &mut self.worker {
            match worker.child.try_wait() {
                Ok(None) => return,
                _ => self.lose_worker(),
            }
        }
        if self.is_ending {
            return;
        }
        if now < self.start_at {
            if now - self.alone_since > PATIENCE {
                self.refuse_held();
            }
            return;
        }
        match self.start_worker() {
            Ok(worker) => {
                self.worker = Some(worker);
                self.hand_over();
            }
            Err(error) => {
                (self.context.say)(&format!("cannot start the worker: {error}"));
                self.start_at = now + RESTART_PAUSE;
            }
        }
    }

    fn start_worker(&self) -> io::Result<Worker> {
        let (own, its) = Relay::pair()?;
        let ends = WorkerEnds { group: &self.context.group, relay: its.as_fd() };
        let child = (self.context.start_worker)(ends)?;
        Ok(Worker { child, relay: own, started: sys::clock::monotonic() })
    }

    fn lose_worker(&mut self) {
        let Some((status, started)) = self.end_worker() else { return };
        let now = sys::clock::monotonic();
        (self.context.say)(&format!("the worker has ended ({status}); starting another"));
        self.alone_since = now;
        self.early_deaths = if now - started < RESTART_PAUSE { self.early_deaths + 1 } else { 0 };
        // A worker starts at once, unless workers keep dying: without a worker no process can take
        // the keeper's place.
        let pauses = self.early_deaths > EARLY_DEATHS_MAX;
        self.start_at = if pauses { now + RESTART_PAUSE } else { now };
    }

    /// Passes the worker the questions that it does not have yet, as many as the relay accepts.
    fn hand_over(&mut self) {
        while let Some(worker) = &self.worker
            && let Some(&number) = self.unsent.front()
        {
            let sent = match self.held.get(&number) {
                Some(held) => worker.relay.ask(held.file.as_fd(), &held.inquiry),
                None => Ok(()),
            };
            match sent {
                Ok(()) => drop(self.unsent.pop_front()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => return self.lose_worker(),
            }
        }
    }

    /// Takes all answers that the worker has sent, and passes them to the kernel.
    fn take_answers(&mut self) {
        while let Some(worker) = &self.worker {
            match worker.relay.next_message() {
                Ok(Some(WorkerMessage::Answer(number, answer))) => {
                    if self.held.remove(&number).is_some() {
                        questions::answer(&self.context.group, number, answer);
                    }
                }
                Ok(Some(WorkerMessage::Ready)) => {
                    if !std::mem::replace(&mut self.is_ready, true) {
                        (self.context.ready)();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Ok(None) | Err(_) => self.lose_worker(),
            }
        }
    }

    fn wait_and_serve(&mut self) -> io::Result<()> {
        let has_questions = self.wait()?;
        self.take_answers();
        if has_questions {
            for question in self.read_questions()? {
                self.take(question);
            }
        }
        self.hand_over();
        Ok(())
    }

    /// Reads questions, but not while the worker has a lease: the kernel could not open the leased
    /// file for its question.
    fn read_questions(&self) -> io::Result<Vec<Question>> {
        let _passing = self.context.gate.as_ref().and_then(Gate::pass);
        self.context.group.read()
    }

    /// Waits for questions, for answers, or for room in the relay. Returns true if there are
    /// questions.
    fn wait(&self) -> io::Result<bool> {
        let none = PollFlags::empty();
        let asks = if self.held.len() < HELD_MAX { PollFlags::IN } else { none };
        let mut polled = vec![PollFd::new(&self.context.group, asks)];
        if let Some(worker) = &self.worker {
            let out = if self.unsent.is_empty() { none } else { PollFlags::OUT };
            polled.push(PollFd::new(&worker.relay, PollFlags::IN | out));
        }
        match poll(&mut polled, Some(&TICK)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(polled[0].revents() != none)
    }

    fn take(&mut self, question: Question) {
        let Question { file, number, pid, access } = question;
        let is_worker = self.worker.as_ref().is_some_and(|worker| worker.child.id() == pid);
        if is_worker || pid == std::process::id() {
            return self.answer(file, number, Answer::Go);
        }
        match sys::space::attribute::<STUB_BYTES_MAX>(&file, STUB_ATTRIBUTE) {
            Ok(None) => {
                if !self.is_ending {
                    self.ask_no_more(&file);
                }
                self.answer(file, number, Answer::Go);
            }
            Ok(Some(_)) if self.is_ending => {
                self.answer(file, number, Answer::Fail(Refusal::NotNow.errno(&access)));
            }
            Ok(Some(_)) => {
                let inquiry = Inquiry { number, pid, access };
                self.held.insert(number, HeldQuestion { inquiry, file, _reserved: None });
                self.unsent.push_back(number);
            }
            Err(_) => self.answer(file, number, Answer::Fail(Errno::IO)),
        }
    }

    /// Answers a question after closing its file: the program that continues may be the worker,
    /// which then checks whether the file is open elsewhere. The number of the question is not used
    /// again before the next questions are read.
    fn answer(&self, file: OwnedFd, number: RawFd, answer: Answer) {
        drop(file);
        questions::answer(&self.context.group, number, answer);
    }

    /// Tells the kernel not to ask again about a file that is no stub.
    ///
    /// A file that is migrated gets its record before the worker shuts the gate and removes the
    /// marks of the file. So either the keeper, which looks for the record once more with the gate
    /// open, finds it, or the worker removes the mark.
    fn ask_no_more(&self, file: &OwnedFd) {
        let Some(_passing) = self.context.gate.as_ref().and_then(Gate::pass) else { return };
        let record = sys::space::attribute::<STUB_BYTES_MAX>(file, STUB_ATTRIBUTE);
        if matches!(record, Ok(None)) {
            // A kernel that still asks gets the same answer each time.
            drop(self.context.group.ignore(file, true));
        }
    }
}

/// Duplicates `file` with this very `number`, if the number is free.
fn reserve_number(file: &OwnedFd, number: RawFd) -> Option<OwnedFd> {
    let fd = rustix::io::fcntl_dupfd_cloexec(file, number).ok()?;
    (fd.as_raw_fd() == number).then_some(fd)
}

#[cfg(test)]
mod tests;
