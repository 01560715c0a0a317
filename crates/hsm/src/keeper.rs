//! The keeper: answers for files that are no stubs, hands stubs to the worker, and keeps the
//! questions that wait while there is none.
//!
//! It does as little as possible, because nothing takes its place but a worker: it opens no file,
//! talks to no server, and knows of stubs only that they have a record.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd, RawFd};
use std::process::Child;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use format::stub::{STUB_ATTRIBUTE, STUB_BYTES_MAX};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use sys::fanotify::{Answer, Group, Question};

use crate::relay::{Asked, Relay};

/// Questions that wait at once; more stay in the kernel. Each holds a descriptor.
const HELD_MAX: usize = 100_000;
/// A worker that cannot be started again is waited for so long before who waits is refused.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause before a worker is started again where several have not lived longer.
const RESTART_PAUSE: Duration = Duration::from_secs(2);
/// Workers that may die sooner than that, one behind the other.
const SHORT_LIVES_MAX: u32 = 5;
const TICK_MILLIS: i64 = 250;
const LOOK_PAUSE: Duration = Duration::from_millis(200);
/// Numbers of questions that a keeper that died may have read and not handed over are at most this.
const NUMBERS_MAX: RawFd = 1 << 20;

/// What the keeper works with.
pub struct Keeping<'a> {
    pub group: Group,
    /// Starts a worker that inherits the descriptors with these numbers: the group's, the relay's.
    pub start: &'a mut dyn FnMut(RawFd, RawFd) -> io::Result<Child>,
    /// Raised each time the process is told to end.
    pub told_to_end: &'a AtomicU32,
    /// Sees to who takes this one's place where worker and keeper die together.
    pub tend: &'a dyn Fn(),
    /// Lets another keeper take this one's place: from now on it only refuses.
    pub guards: &'a dyn Fn(),
    /// Tells the user.
    pub say: &'a dyn Fn(&str),
    pub adopted: Option<Adopted>,
}

/// Questions that a keeper that died has left, with their files.
#[derive(Debug, Default)]
pub struct Adopted {
    questions: Vec<(Asked, OwnedFd)>,
}

impl Adopted {
    /// From words that [`Asked::written`] made, each with its file.
    pub fn parse(words: Vec<(String, OwnedFd)>) -> Option<Self> {
        let parse = |(word, file): (String, OwnedFd)| Some((Asked::parse(&word)?, file));
        Some(Self { questions: words.into_iter().map(parse).collect::<Option<_>>()? })
    }

    /// Has whoever waits fail, for another keeper stands in this one's place.
    pub fn refuse(self, group: &Group) {
        for (asked, _) in self.questions {
            drop(group.answer(asked.number, Answer::Fail(Errno::AGAIN)));
        }
    }

    /// The same for all who wait, as nobody else has this group: it is about to go.
    pub fn refuse_all(group: &Group) {
        if let Err(error) = group.forget_filesystems() {
            tracing::error!(%error, "the kernel asks nobody from now on");
        }
        refuse_waiting(group);
        for number in 0..NUMBERS_MAX {
            drop(group.answer(number, Answer::Fail(Errno::AGAIN)));
        }
    }
}

struct Held {
    asked: Asked,
    file: OwnedFd,
    /// Keeps the question's number from being given to another one.
    _reserved: Option<OwnedFd>,
}

struct Worker {
    child: Child,
    relay: Relay,
    started: Instant,
}

struct Keeper<'a> {
    keeping: Keeping<'a>,
    held: HashMap<RawFd, Held>,
    /// Of those held, what the worker does not have yet, oldest first.
    unsent: VecDeque<RawFd>,
    worker: Option<Worker>,
    /// Since when there is no worker.
    alone_since: Instant,
    start_at: Instant,
    /// Workers, one behind the other, that died soon.
    short_lives: u32,
    is_guard: bool,
    /// When it was last looked whether anybody may use a file system still: that is a long list.
    looked: Instant,
}

/// Keeps the questions of the group until the process is told to end and no managed file system is
/// mounted any more, or until it is told again.
pub fn keep(mut keeping: Keeping<'_>) {
    let adopted = keeping.adopted.take();
    let now = sys::clock::monotonic();
    let mut keeper = Keeper {
        keeping,
        held: HashMap::new(),
        unsent: VecDeque::new(),
        worker: None,
        alone_since: now,
        start_at: now,
        short_lives: 0,
        is_guard: false,
        looked: now,
    };
    if let Some(adopted) = adopted {
        keeper.adopt(adopted);
    }
    while keeper.goes_on() {
        (keeper.keeping.tend)();
        keeper.see_to_worker();
        if let Err(error) = keeper.wait_and_handle() {
            // To end is the one thing that it must not do.
            (keeper.keeping.say)(&format!("cannot read the kernel's questions: {error}"));
            sys::clock::sleep(RESTART_PAUSE);
        }
    }
    keeper.end_worker();
    keeper.refuse_all();
}

/// Has whoever waits for a stub fail, of those whom nobody will answer, before `group` goes: the
/// kernel lets all through then.
pub fn refuse_waiting(group: &Group) {
    while let Ok(questions) = group.read()
        && !questions.is_empty()
    {
        for Question { file, number, .. } in questions {
            let record = sys::space::attribute::<STUB_BYTES_MAX>(&file, STUB_ATTRIBUTE);
            let is_stub = !matches!(record, Ok(None));
            drop(file);
            let answer = if is_stub { Answer::Fail(Errno::AGAIN) } else { Answer::Go };
            drop(group.answer(number, answer));
        }
    }
}

impl Keeper<'_> {
    /// Takes over what another keeper has left; who nobody speaks for any more is refused.
    fn adopt(&mut self, adopted: Adopted) {
        for (asked, file) in adopted.questions {
            let reserved = reserved(&file, asked.number);
            self.held.insert(asked.number, Held { asked, file, _reserved: reserved });
        }
        self.unsent = self.held.keys().copied().collect();
        // Who died may have been taking a file's content away.
        if let Err(error) = self.keeping.group.watch_all_again() {
            (self.keeping.say)(&format!("cannot have the kernel ask about all files: {error}"));
        }
        let unknown = (0..NUMBERS_MAX).filter(|number| !self.held.contains_key(number));
        for number in unknown {
            // That nobody waits for most of them is no failure.
            drop(self.keeping.group.answer(number, Answer::Fail(Errno::AGAIN)));
        }
    }

    fn goes_on(&mut self) -> bool {
        match self.keeping.told_to_end.load(Relaxed) {
            0 => true,
            1 => {
                if !self.is_guard {
                    self.begin_to_guard();
                } else if self.looked.elapsed() < LOOK_PAUSE {
                    return true;
                }
                self.looked = sys::clock::monotonic();
                self.watches()
            }
            _ => false,
        }
    }

    /// Whether anybody may use a managed file system still.
    fn watches(&self) -> bool {
        self.keeping.group.watches().unwrap_or(true)
    }

    /// Ends the worker; from now on stubs cannot be used.
    fn begin_to_guard(&mut self) {
        self.is_guard = true;
        self.end_worker();
        self.refuse_all();
        (self.keeping.guards)();
        if self.watches() {
            (self.keeping.say)(
                "stubs cannot be used from now on; this process stays until nobody uses their \
                 file systems, because without it they would read as zeros",
            );
        }
    }

    /// Ends the worker, if there is one: before its relay, whose end it takes for the keeper's.
    fn end_worker(&mut self) -> Option<(String, Instant)> {
        let Worker { mut child, relay, started } = self.worker.take()?;
        drop(child.kill());
        let status = child.wait();
        drop(relay);
        // It may have died while a file that was losing its content was not asked about.
        if let Err(error) = self.keeping.group.watch_all_again() {
            (self.keeping.say)(&format!("cannot have the kernel ask about all files: {error}"));
        }
        self.unsent = self.held.keys().copied().collect();
        let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        Some((status, started))
    }

    fn refuse_all(&mut self) {
        self.unsent.clear();
        for (number, _) in self.held.drain() {
            drop(self.keeping.group.answer(number, Answer::Fail(Errno::AGAIN)));
        }
    }

    /// Starts a worker where there is none, and hands it what waits.
    fn see_to_worker(&mut self) {
        let now = sys::clock::monotonic();
        if let Some(worker) = &mut self.worker {
            match worker.child.try_wait() {
                Ok(None) => return,
                _ => self.lose_worker(),
            }
        }
        if self.is_guard || now < self.start_at {
            if !self.is_guard && now - self.alone_since > PATIENCE {
                self.refuse_all();
            }
            return;
        }
        match self.start_worker() {
            Ok(worker) => {
                self.worker = Some(worker);
                self.hand_over();
            }
            Err(error) => {
                (self.keeping.say)(&format!("cannot start the worker: {error}"));
                self.start_at = now + RESTART_PAUSE;
            }
        }
    }

    fn start_worker(&mut self) -> io::Result<Worker> {
        let (mine, its) = Relay::pair()?;
        let group = self.keeping.group.as_fd().as_raw_fd();
        let child = (self.keeping.start)(group, its.number())?;
        Ok(Worker { child, relay: mine, started: sys::clock::monotonic() })
    }

    fn lose_worker(&mut self) {
        let Some((status, started)) = self.end_worker() else { return };
        let now = sys::clock::monotonic();
        (self.keeping.say)(&format!("the worker has ended ({status}); starting another"));
        self.alone_since = now;
        self.short_lives = if now - started < RESTART_PAUSE { self.short_lives + 1 } else { 0 };
        // At once, unless they keep dying: without a worker, nobody takes this one's place.
        let pauses = self.short_lives > SHORT_LIVES_MAX;
        self.start_at = if pauses { now + RESTART_PAUSE } else { now };
    }

    /// Gives the worker what it does not have, as far as it takes it.
    fn hand_over(&mut self) {
        while let Some(&number) = self.unsent.front() {
            let (Some(worker), Some(held)) = (&self.worker, self.held.get(&number)) else {
                if self.worker.is_none() {
                    return;
                }
                self.unsent.pop_front();
                continue;
            };
            match worker.relay.ask(held.file.as_fd(), &held.asked) {
                Ok(()) => drop(self.unsent.pop_front()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => return self.lose_worker(),
            }
        }
    }

    /// Takes all answers that there are.
    fn take_answers(&mut self) {
        while let Some(worker) = &self.worker {
            match worker.relay.next_answer() {
                Ok(Some((number, answer))) => {
                    if self.held.remove(&number).is_some() {
                        drop(self.keeping.group.answer(number, answer));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Ok(None) | Err(_) => self.lose_worker(),
            }
        }
    }

    fn wait_and_handle(&mut self) -> io::Result<()> {
        let asks = self.wait()?;
        self.take_answers();
        if asks {
            for question in self.keeping.group.read()? {
                self.take(question);
            }
        }
        self.hand_over();
        Ok(())
    }

    /// Waits for questions, answers, or room for what was not handed over; whether there are
    /// questions.
    fn wait(&self) -> io::Result<bool> {
        let none = PollFlags::empty();
        let asks = if self.held.len() < HELD_MAX { PollFlags::IN } else { none };
        let mut polled = vec![PollFd::new(&self.keeping.group, asks)];
        if let Some(worker) = &self.worker {
            let out = if self.unsent.is_empty() { none } else { PollFlags::OUT };
            polled.push(PollFd::new(&worker.relay, PollFlags::IN | out));
        }
        let tick = rustix::time::Timespec { tv_sec: 0, tv_nsec: TICK_MILLIS * 1_000_000 };
        match poll(&mut polled, Some(&tick)) {
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
                if !self.is_guard {
                    self.spare(&file);
                }
                self.answer(file, number, Answer::Go);
            }
            Ok(Some(_)) => {
                let asked = Asked { number, pid, access };
                self.hold(Held { asked, file, _reserved: None });
            }
            Err(_) => self.answer(file, number, Answer::Fail(Errno::IO)),
        }
    }

    /// Closes the file first: who goes on may be the worker, and want to know whether somebody has
    /// it open. No other question gets its number before the next are read.
    fn answer(&self, file: OwnedFd, number: RawFd, answer: Answer) {
        drop(file);
        // Who waited may have been killed.
        drop(self.keeping.group.answer(number, answer));
    }

    /// Has the kernel not ask again about a file that is no stub.
    ///
    /// The record is looked for once more behind it: a file that is being migrated has its record
    /// before it loses its marks, so one of the two sees the other.
    fn spare(&self, file: &OwnedFd) {
        if self.keeping.group.ignore(file, true).is_err() {
            return;
        }
        let record = sys::space::attribute::<STUB_BYTES_MAX>(file, STUB_ATTRIBUTE);
        if !matches!(record, Ok(None)) {
            drop(self.keeping.group.watch_again(file));
        }
    }

    fn hold(&mut self, held: Held) {
        let number = held.asked.number;
        if self.is_guard {
            drop(self.keeping.group.answer(number, Answer::Fail(Errno::AGAIN)));
            return;
        }
        self.held.insert(number, held);
        self.unsent.push_back(number);
    }
}

/// A descriptor with this very `number`, if it is free.
fn reserved(file: &OwnedFd, number: RawFd) -> Option<OwnedFd> {
    let fd = rustix::io::fcntl_dupfd_cloexec(file, number).ok()?;
    (fd.as_raw_fd() == number).then_some(fd)
}
