//! Recalls: one queue for everybody who waits for content, whether by reading or by request. A file
//! is recalled once for any number of them.
//!
//! ```text
//!   question, request --> waiting, by file --> one thread a file: fill what is missing, answer
//!                         (queue)              whoever has what he waits for, until none is left
//! ```
//!
//! What has been recalled is noted in the files' records at once, for this start of the machine,
//! and for good once it is on the disk: a machine that stops before has holes there still, and they
//! are filled again.

mod queue;

use std::ops::Range;
use std::os::fd::RawFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use client::{Client, ErrorKind, Progress, Purpose, SpaceRules, purpose};
use crossbeam_channel::Sender;
use format::stub::{Grains, STUB_ATTRIBUTE, State, Stub, Unsynced};
use model::{DirPath, ServerTime};
use rustix::io::Errno;
use sys::fanotify::{Access, Answer, Asks, Group, Question};
use sys::space::SpaceFile;
use sys::{Dir, Found};

pub(crate) use self::queue::{AT_ONCE, Stage};
use self::queue::{Book, Waiter, Wanted, Wants};
use crate::FilesystemSettings;
use crate::fill::{FillError, fill};
use crate::monitor::{Until, relieve};
use crate::relay::{Asked, Relay};
use crate::{record, tree};

/// Programs that look for holes before they read, and would take a stub for one: what they open is
/// recalled as a whole. So it is for those that move what is in a file from place to place.
/// Named as `/proc/PID/comm` has them.
const SEEKERS: [&str; 13] = [
    "cp",
    "tar",
    "rsync",
    "star",
    "bsdtar",
    "qemu-img",
    "losetup",
    "mount",
    "install",
    "mv",
    "holdfast",
    "fallocate",
    "xfs_io",
];
const CANCELLED: &str = "it was cancelled";
/// What is read on beyond what was asked for, at most, while a file is read in order.
const AHEAD_BYTES_MAX: u64 = 64 << 20;
/// What the kernel fills before it adds to the end of a file.
const PAGE_BYTES: u64 = 4096;
/// What is filled at once, at most, unless a grain is larger: others who want less of the file may
/// go before the rest.
const PART_BYTES_MAX: u64 = 64 << 20;
/// Files whose records are behind at most, each of them open; then they are written before further
/// ones are recalled.
const BEHIND_MAX: usize = 8192;
/// A server that does not answer is tried so often.
const TRIES: u32 = 3;
const TRY_PAUSE: Duration = Duration::from_secs(2);
/// A thread of which there are more than are needed ends after so long.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// Device and inode.
pub(crate) type FileId = (u64, u64);

/// A managed file system.
pub(crate) struct Mount {
    pub(crate) settings: FilesystemSettings,
    pub(crate) root: Arc<Dir>,
    pub(crate) device_id: u64,
    migrating: Mutex<()>,
    relieving: Mutex<()>,
}

impl Mount {
    pub(crate) fn new(settings: FilesystemSettings, root: Arc<Dir>, device_id: u64) -> Self {
        let (migrating, relieving) = Default::default();
        Self { settings, root, device_id, migrating, relieving }
    }

    /// Where `path` of the file system is for everybody.
    pub(crate) fn absolute(&self, path: &[u8]) -> Vec<u8> {
        tree::absolute(&self.settings.mount_point, path)
    }

    /// Opens the directory of the file system, never through a symbolic link.
    pub(crate) fn directory(&self, path: &DirPath) -> std::io::Result<Arc<Dir>> {
        let mut parts = path.as_bytes().split(|&byte| byte == b'/').filter(|part| !part.is_empty());
        parts.try_fold(Arc::clone(&self.root), |above, part| above.open_dir(part).map(Arc::new))
    }

    /// Held by who takes records or contents away: two at once would read what the other has left.
    pub(crate) fn migrating(&self) -> MutexGuard<'_, ()> {
        self.migrating.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who wants something.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Who {
    pub(crate) pid: u32,
    pub(crate) uid: u32,
    pub(crate) program: String,
}

impl Who {
    /// The process `pid`, as far as it can be told.
    pub(crate) fn of(pid: u32) -> Self {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}"));
        let program = read("comm").unwrap_or_default().trim_end().to_owned();
        let status = read("status").unwrap_or_default();
        let uid = status
            .lines()
            .find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().nth(1)?.parse().ok());
        Self { pid, uid: uid.unwrap_or(u32::MAX), program }
    }

    /// What the server is told of it.
    pub(crate) fn purpose(&self, kind: purpose::Kind) -> Purpose {
        Purpose { kind: kind.into(), user: self.uid, program: self.program.clone() }
    }
}

/// What became of a request's file.
pub(crate) type Recalled = Result<u64, String>;

/// A record that tells of content which may not be on the disk yet.
struct Behind {
    stub: Stub,
    file: Arc<SpaceFile>,
    /// Where a reader who goes on in order would ask next, and how much is fetched for him then.
    next: u64,
    ahead_bytes: u64,
}

/// See the module.
pub(crate) struct Recaller {
    group: Arc<Group>,
    relay: Arc<Relay>,
    mounts: Vec<Mount>,
    home: std::path::PathBuf,
    client: Mutex<Option<Arc<Client>>>,
    book: Mutex<Book>,
    has_work: Condvar,
    /// Held by who brings records up to date: syncing twice at once helps nobody.
    catching_up: Mutex<()>,
}

/// A request as it is shown.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Shown {
    pub(crate) number: u64,
    pub(crate) who: Who,
    pub(crate) since: ServerTime,
    pub(crate) path: Vec<u8>,
    pub(crate) stage: Stage,
    pub(crate) waiters: usize,
    pub(crate) bytes: u64,
    pub(crate) done_bytes: u64,
    /// Until it is done, as far as the last ones tell.
    pub(crate) estimate: Option<Duration>,
}

impl Recaller {
    pub(crate) fn new(
        group: Arc<Group>,
        relay: Arc<Relay>,
        mounts: Vec<Mount>,
        home: &std::path::Path,
    ) -> Self {
        Self {
            group,
            relay,
            mounts,
            home: home.to_owned(),
            client: Mutex::default(),
            book: Mutex::default(),
            has_work: Condvar::new(),
            catching_up: Mutex::default(),
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn mounts(&self) -> &[Mount] {
        &self.mounts
    }

    pub(crate) fn group(&self) -> &Group {
        &self.group
    }

    /// The managed file system that a file with this `st_dev` lies in.
    pub(crate) fn mount_of(&self, device_id: u64) -> Option<&Mount> {
        self.mounts.iter().find(|mount| mount.device_id == device_id)
    }

    /// The connection to the server, made where there is none.
    pub(crate) fn client(&self) -> Result<Arc<Client>, client::ClientError> {
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = &*client {
            return Ok(Arc::clone(client));
        }
        let new = Arc::new(Client::open(&self.home)?);
        *client = Some(Arc::clone(&new));
        Ok(new)
    }

    /// The connection, and the server answers by it: it may be of one that has gone since.
    pub(crate) fn connected(&self) -> Result<Arc<Client>, client::ClientError> {
        let client = self.client()?;
        match client.filespaces() {
            Err(error) if error.kind == ErrorKind::Retry => {
                self.disconnect();
                self.client()
            }
            Err(error) => Err(error),
            Ok(_) => Ok(client),
        }
    }

    /// What the node's statements say of files that are to migrate, as they are now.
    pub(crate) fn rules(&self) -> Result<SpaceRules, client::ClientError> {
        self.connected()?.space_rules()
    }

    /// Gives up the connection: the next one who needs it makes another.
    pub(crate) fn disconnect(&self) {
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn answer(&self, number: RawFd, answer: Answer) {
        // A keeper that is gone is noticed where its questions are read.
        drop(self.relay.answer(number, answer));
    }

    /// Takes a question: answers it, or has it wait for content.
    pub(crate) fn take(&self, question: Question) {
        let Question { file, number, pid, access } = question;
        let file = Arc::new(SpaceFile::asked(file));
        let answered = self.consider(&file, number, pid, &access);
        drop(file);
        if let Some(answer) = answered.unwrap_or_else(|error| {
            tracing::error!(%error, "a stub cannot be looked at");
            Some(Answer::Fail(Errno::IO))
        }) {
            self.answer(number, answer);
        }
    }

    fn consider(
        &self,
        file: &Arc<SpaceFile>,
        number: RawFd,
        pid: u32,
        access: &Access,
    ) -> std::io::Result<Option<Answer>> {
        let found = file.stat()?;
        let id = (found.device_id, found.stat.inode);
        let Some(stub) = self.current(id, file, &found)? else { return Ok(Some(Answer::Go)) };
        let State::Migrated(grains) = &stub.state else {
            self.spare(file);
            return Ok(Some(Answer::Go));
        };
        if grains.is_whole() {
            self.spare(file);
            return Ok(Some(Answer::Go));
        }
        let Some(mount) = self.mount_of(found.device_id) else {
            return Ok(Some(Answer::Fail(Errno::IO)));
        };
        let who = Who::of(pid);
        let wants = match access {
            Access::Content(range) => Wants::part(range.clone(), found.stat.size),
            Access::Open if self.recalls_whole(&mount.settings, &found, &who) => Wants::all(),
            Access::Open => return Ok(Some(Answer::Go)),
        };
        if wants.missing(grains).is_none() {
            return Ok(Some(Answer::Go));
        }
        if mount.settings.requests_only {
            return Ok(Some(Answer::Fail(Errno::PERM)));
        }
        if self.is_storm(&mount.settings, &who) {
            tracing::warn!(
                uid = who.uid,
                program = who.program,
                "too many recalls wait for one user or program; 'holdfast hsm recall' is the way \
                 to many files"
            );
            return Ok(Some(Answer::Fail(Errno::AGAIN)));
        }
        let waiter = Waiter::Question { number, who: who.clone(), wants };
        self.want(id, file, found.stat.size, who, waiter);
        Ok(None)
    }

    /// Has the kernel not ask again about a file that is all here. Nobody takes its content away
    /// while it is open, as it is here, and whoever does later has the kernel ask again.
    fn spare(&self, file: &SpaceFile) {
        // Where it goes on asking, it is told each time.
        drop(self.group.ignore(file, true));
    }

    /// Whether opening the file recalls it: its reader may not see that holes are none.
    fn recalls_whole(&self, settings: &FilesystemSettings, found: &Found, who: &Who) -> bool {
        self.group.asks() == Asks::Opening
            || found.stat.size <= settings.whole_bytes_max
            || SEEKERS.contains(&who.program.as_str())
    }

    fn is_storm(&self, settings: &FilesystemSettings, who: &Who) -> bool {
        let book = self.book();
        let (mut of_user, mut of_program) = (0_u32, 0_u32);
        for waiter in book.wanted.values().flat_map(|wanted| &wanted.waiters) {
            if let Waiter::Question { who: other, .. } = waiter {
                of_user += u32::from(other.uid == who.uid);
                of_program += u32::from(other.program == who.program);
            }
        }
        of_user >= settings.user_recalls_max || of_program >= settings.program_recalls_max
    }

    /// The file's record as it stands: what is known here goes before what is in the file.
    ///
    /// What lies beyond the file's end has nothing to do with the copy any more: it counts as
    /// resident, before anybody makes the file longer again.
    fn current(
        &self,
        id: FileId,
        file: &Arc<SpaceFile>,
        found: &Found,
    ) -> std::io::Result<Option<Stub>> {
        let known = self.book().behind.get(&id).map(|behind| behind.stub.clone());
        let known = match known {
            Some(stub) => Some(stub),
            None => record::read(&**file)?,
        };
        let Some(mut stub) = known else { return Ok(None) };
        let size = found.stat.size;
        if let State::Migrated(grains) = &mut stub.state
            && size < stub.size
        {
            let grain = format::stub::grain_bytes(stub.size);
            let cut = size.next_multiple_of(grain)..stub.size;
            if !grains.missing(&cut).is_empty() {
                let synced = grains.clone();
                grains.set(&cut);
                self.note(id, file, &mut stub, synced)?;
            }
        }
        Ok(Some(stub))
    }

    /// Writes a record that tells of content which may not be on the disk yet; `synced` are the
    /// grains before it. Until all of it is there, it holds for this start of the machine.
    fn note(
        &self,
        id: FileId,
        file: &Arc<SpaceFile>,
        stub: &mut Stub,
        synced: Grains,
    ) -> std::io::Result<()> {
        stub.unsynced.get_or_insert(Unsynced { boot: record::boot(), synced });
        // Under the lock, as where it is written for good: the last word is the newest.
        let mut book = self.book();
        file.set_attribute(STUB_ATTRIBUTE, &stub.encode())?;
        match book.behind.get_mut(&id) {
            Some(behind) => behind.stub = stub.clone(),
            None => {
                let file = Arc::clone(file);
                let behind = Behind { stub: stub.clone(), file, next: 0, ahead_bytes: 0 };
                book.behind.insert(id, behind);
            }
        }
        Ok(())
    }

    /// Recalls the file as a whole for a request; `done` is told once.
    pub(crate) fn request(
        &self,
        file: SpaceFile,
        found: &Found,
        who: Who,
        (index, done): (usize, Sender<(usize, Recalled)>),
    ) {
        let id = (found.device_id, found.stat.inode);
        let waiter = Waiter::Request { index, done };
        self.want(id, &Arc::new(file), found.stat.size, who, waiter);
    }

    fn want(&self, id: FileId, file: &Arc<SpaceFile>, size: u64, who: Who, waiter: Waiter) {
        let path = path_of(file);
        let mut book = self.book();
        if book.wanted.contains_key(&id) {
            return book.join(id, waiter);
        }
        book.last_number += 1;
        let wanted = Wanted {
            number: book.last_number,
            who,
            since: sys::clock::now(),
            path,
            file: Arc::clone(file),
            waiters: vec![waiter],
            is_cancelled: false,
            size,
            progress: Arc::default(),
        };
        book.enqueue(id, wanted);
        drop(book);
        self.has_work.notify_one();
    }

    /// How many threads more are to serve the queue; they are counted as there.
    pub(crate) fn further_threads(&self) -> usize {
        let mut book = self.book();
        let lack = book.lack();
        book.threads += lack;
        lack
    }

    /// A thread that was counted could not be had.
    pub(crate) fn thread_is_gone(&self) {
        self.book().threads -= 1;
    }

    /// Serves the queue, for ever or until there are more threads than are needed.
    pub(crate) fn serve(&self) {
        while let Some(id) = self.next_file() {
            self.serve_file(id);
            if self.book().behind.len() > BEHIND_MAX {
                self.catch_up();
            }
        }
    }

    fn next_file(&self) -> Option<FileId> {
        let mut book = self.book();
        loop {
            if let Some(id) = book.take() {
                return Some(id);
            }
            let waited = self.has_work.wait_timeout(book, IDLE_MAX);
            let (again, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            book = again;
            if timeout.timed_out() && book.threads > AT_ONCE {
                book.threads -= 1;
                return None;
            }
        }
    }

    fn serve_file(&self, id: FileId) {
        let began = sys::clock::monotonic();
        let mut bytes = 0;
        while let Some((file, part, progress)) = self.next_part(id) {
            match self.fill_part(id, &file, &part, &progress) {
                Ok(()) => bytes += part.end.saturating_sub(part.start),
                Err(_) if progress.is_stopped() => self.begin_anew(id),
                Err(error) => return self.fail(id, &error),
            }
        }
        let secs = began.elapsed().as_secs_f64();
        let mut book = self.book();
        book.file_secs = 0.9 * book.file_secs + 0.1 * secs;
        if bytes > 1 << 20 {
            let rate = bytes as f64 / secs.max(1e-6);
            book.bytes_per_sec = 0.8 * book.bytes_per_sec + 0.2 * rate;
        }
    }

    /// Answers who has what he waits for, and tells what to fill next; `None` once nobody waits.
    fn next_part(&self, id: FileId) -> Option<(Arc<SpaceFile>, Range<u64>, Arc<Progress>)> {
        let file = Arc::clone(&self.book().wanted.get(&id)?.file);
        let stub = match file.stat().and_then(|found| self.current(id, &file, &found)) {
            Ok(stub) => stub,
            Err(error) => {
                let reason = error.to_string();
                self.fail(id, &FillError { errno: Errno::IO, reason });
                return None;
            }
        };
        let missing = |wants: &Wants| match &stub {
            Some(Stub { state: State::Migrated(grains), .. }) => wants.missing(grains),
            _ => None,
        };
        let mut book = self.book();
        let book = &mut *book;
        let wanted = book.wanted.get_mut(&id)?;
        if wanted.is_cancelled {
            let wanted = book.remove(id)?;
            self.refuse(wanted, Errno::AGAIN, CANCELLED);
            return None;
        }
        let (served, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut wanted.waiters)
            .into_iter()
            .partition(|waiter| missing(&waiter.wants()).is_none());
        wanted.waiters = waiting;
        let recalled = wanted.done_bytes();
        for waiter in served {
            match waiter {
                Waiter::Question { number, .. } => self.answer(number, Answer::Go),
                Waiter::Request { index, done } => drop(done.send((index, Ok(recalled)))),
            }
        }
        // Who wants little goes before who wants all.
        let Some(first) = wanted.waiters.iter().map(Waiter::wants).min_by_key(Wants::bytes) else {
            book.remove(id);
            return None;
        };
        let progress = Arc::clone(&wanted.progress);
        let part = missing(&first).expect("it was not served");
        let ahead = book.behind.get_mut(&id).map_or(0, |behind| behind.ahead(&part));
        let further = Wants { range: part.start..part.end + ahead, tail: 0..0 };
        let part = missing(&further).unwrap_or(part);
        let grain = stub.as_ref().map_or(1, |stub| format::stub::grain_bytes(stub.size));
        let end = part.end.min(part.start + PART_BYTES_MAX.max(grain));
        Some((file, part.start..end, progress))
    }

    fn fill_part(
        &self,
        id: FileId,
        file: &Arc<SpaceFile>,
        part: &Range<u64>,
        progress: &Arc<Progress>,
    ) -> Result<(), FillError> {
        let failed =
            |error: std::io::Error| FillError { errno: Errno::IO, reason: error.to_string() };
        let found = file.stat().map_err(failed)?;
        let Some(mut stub) = self.current(id, file, &found).map_err(failed)? else {
            return Ok(());
        };
        let mount = self.mount_of(found.device_id).ok_or_else(|| FillError {
            errno: Errno::IO,
            reason: "its file system is not managed any more".to_owned(),
        })?;
        let purpose = self.purpose(id);
        self.fill_patiently(mount, (file, &stub), (part, purpose), progress)?;
        let State::Migrated(grains) = &mut stub.state else { return Ok(()) };
        let synced = grains.clone();
        grains.set(part);
        stub.was_recalled = true;
        self.note(id, file, &mut stub, synced).map_err(failed)
    }

    /// On whose behalf a file is filled: of who stands still, if anybody does.
    fn purpose(&self, id: FileId) -> Purpose {
        let book = self.book();
        let Some(wanted) = book.wanted.get(&id) else { return Purpose::default() };
        let asks = wanted.waiters.iter().find_map(|waiter| match waiter {
            Waiter::Question { who, .. } => Some(who),
            Waiter::Request { .. } => None,
        });
        match asks {
            Some(who) => who.purpose(purpose::Kind::Open),
            None => wanted.who.purpose(purpose::Kind::List),
        }
    }

    /// Fills; again where the server could not be reached, or there was no room and some was made.
    fn fill_patiently(
        &self,
        mount: &Mount,
        (file, stub): (&SpaceFile, &Stub),
        (part, purpose): (&Range<u64>, Purpose),
        progress: &Arc<Progress>,
    ) -> Result<(), FillError> {
        let mut tries = 1;
        let mut has_made_room = false;
        loop {
            let filled = match self.client() {
                Ok(client) => {
                    let mount_point = &mount.settings.mount_point;
                    let part = (part, purpose.clone());
                    fill(&client, mount_point, (file, stub), part, progress)
                }
                Err(error) => Err(FillError { errno: Errno::AGAIN, reason: error.message }),
            };
            match filled {
                Err(_) if progress.is_stopped() => return filled,
                Err(error) if error.errno == Errno::NOSPC && !has_made_room => {
                    has_made_room = true;
                    if !make_room(self, mount) {
                        return Err(error);
                    }
                }
                Err(error) if error.errno == Errno::AGAIN && tries < TRIES => {
                    tracing::warn!(error.reason, "a recall is tried again");
                    self.disconnect();
                    sys::clock::sleep(TRY_PAUSE);
                    tries += 1;
                }
                other => return other,
            }
        }
    }

    /// Has what was stopped come after all, if somebody waits for it again.
    fn begin_anew(&self, id: FileId) {
        if let Some(wanted) = self.book().wanted.get_mut(&id) {
            wanted.progress = Arc::default();
        }
    }

    /// Whoever asked by this list is gone: what nobody else waits for does not come.
    pub(crate) fn withdraw(&self, list: &Sender<(usize, Recalled)>) {
        self.book().withdraw(list);
    }

    fn fail(&self, id: FileId, error: &FillError) {
        let Some(wanted) = self.book().remove(id) else { return };
        let path = model::escaped(&wanted.path);
        tracing::error!(path, error.reason, "a recall has failed");
        self.refuse(wanted, error.errno, &error.reason);
    }

    fn refuse(&self, wanted: Wanted, errno: Errno, reason: &str) {
        for waiter in wanted.waiters {
            match waiter {
                Waiter::Question { number, .. } => self.answer(number, Answer::Fail(errno)),
                Waiter::Request { index, done } => {
                    drop(done.send((index, Err(reason.to_owned()))));
                }
            }
        }
    }

    /// Cancels the request `number`; whether there is one, of the user `uid` unless that is root.
    pub(crate) fn cancel(&self, number: u64, uid: u32) -> bool {
        let mut book = self.book();
        let is_meant = |(_, wanted): &(&FileId, &Wanted)| {
            wanted.number == number && (uid == 0 || wanted.who.uid == uid)
        };
        let Some(id) = book.wanted.iter().find(is_meant).map(|(id, _)| *id) else { return false };
        if book.is_taken(id) {
            let wanted = book.wanted.get_mut(&id).expect("just found");
            wanted.is_cancelled = true;
            wanted.progress.stop();
            return true;
        }
        let wanted = book.remove(id).expect("just found");
        drop(book);
        self.refuse(wanted, Errno::AGAIN, CANCELLED);
        true
    }

    /// All that is waited for, those under way first, then by place.
    pub(crate) fn shown(&self) -> Vec<Shown> {
        let mut book = self.book();
        let stages = book.stages();
        let mut shown: Vec<Shown> = book
            .wanted
            .iter()
            .map(|(id, wanted)| {
                let done_bytes = wanted.done_bytes();
                let stage = stages.get(id).copied().unwrap_or(Stage::Coming);
                Shown {
                    number: wanted.number,
                    who: wanted.who.clone(),
                    since: wanted.since,
                    path: wanted.path.clone(),
                    stage,
                    waiters: wanted.waiters.len(),
                    bytes: wanted.size,
                    done_bytes,
                    estimate: book.estimate(stage, wanted.size.saturating_sub(done_bytes)),
                }
            })
            .collect();
        shown.sort_by_key(|shown| (shown.stage.place(), shown.number));
        shown
    }

    /// Writes the records that are behind, once what they tell is on the disk.
    pub(crate) fn catch_up(&self) {
        let _held = self.catching_up.lock().unwrap_or_else(PoisonError::into_inner);
        let behind: Vec<(FileId, Arc<SpaceFile>, Stub)> = self
            .book()
            .behind
            .iter()
            .map(|(id, behind)| (*id, Arc::clone(&behind.file), behind.stub.clone()))
            .collect();
        for mount in &self.mounts {
            let of_mount = behind.iter().filter(|(id, ..)| id.0 == mount.device_id);
            let of_mount: Vec<_> = of_mount.collect();
            if of_mount.is_empty() {
                continue;
            }
            if let Err(error) = sys::space::sync_filesystem(&*mount.root) {
                tracing::error!(%error, "a file system cannot be synced");
                continue;
            }
            for (id, file, stub) in of_mount {
                self.write_record(*id, file, stub);
            }
        }
    }

    fn write_record(&self, id: FileId, file: &SpaceFile, stub: &Stub) {
        let mut book = self.book();
        if book.behind.get(&id).is_none_or(|behind| behind.stub != *stub) {
            // More has come since; the next time.
            return;
        }
        if let Err(error) = file.set_attribute(STUB_ATTRIBUTE, &record::synced(stub).encode()) {
            tracing::error!(%error, "a record cannot be written");
        } else if !book.wanted.contains_key(&id) {
            book.behind.remove(&id);
        }
    }

    /// The questions that wait, with their files.
    pub(crate) fn waiting(&self) -> Vec<(Asked, Arc<SpaceFile>)> {
        let book = self.book();
        let mut waiting = Vec::new();
        for wanted in book.wanted.values() {
            for waiter in &wanted.waiters {
                if let Waiter::Question { number, who, wants } = waiter {
                    let access = Access::Content(wants.range.clone());
                    let asked = Asked { number: *number, pid: who.pid, access };
                    waiting.push((asked, Arc::clone(&wanted.file)));
                }
            }
        }
        waiting
    }

    /// Whether the file's content is being recalled, or its record is behind.
    pub(crate) fn is_busy(&self, id: FileId) -> bool {
        let book = self.book();
        book.wanted.contains_key(&id) || book.behind.contains_key(&id)
    }
}

impl Behind {
    /// What is fetched beyond `part`: twice as much each time a reader goes on where he was.
    fn ahead(&mut self, part: &Range<u64>) -> u64 {
        let goes_on = part.start == self.next && part.start > 0;
        let length = part.end - part.start;
        self.ahead_bytes =
            if goes_on { (self.ahead_bytes.max(length) * 2).min(AHEAD_BYTES_MAX) } else { 0 };
        self.next = part.end + self.ahead_bytes;
        self.ahead_bytes
    }
}

/// Migrates what policy lets go, where the file system is full; whether there is more room now.
fn make_room(recaller: &Recaller, mount: &Mount) -> bool {
    let free = || sys::space::room(&*mount.root).map_or(0, |room| room.free_bytes);
    let before = free();
    // Who comes second finds the room that the first has made.
    let _held = mount.relieving.lock().unwrap_or_else(PoisonError::into_inner);
    if free() > before {
        return true;
    }
    tracing::warn!(
        mount_point = model::escaped(&mount.settings.mount_point),
        "no room for what is recalled; migrating"
    );
    let relieved = relieve(recaller, mount, Until::Low, &mut |_, _| {}, &|| true);
    if let Err(error) = relieved {
        tracing::error!(%error, "cannot make room");
    }
    free() > before
}

/// What the file is called, as far as it can be told.
fn path_of(file: &SpaceFile) -> Vec<u8> {
    use std::os::fd::{AsFd as _, AsRawFd as _};
    use std::os::unix::ffi::OsStringExt as _;
    let link = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    std::fs::read_link(link).map_or_else(|_| Vec::new(), |path| path.into_os_string().into_vec())
}

/// A migrated file's record, of which nothing is here.
pub(crate) fn emptied(stub: Stub) -> Stub {
    let grains = Grains::none(stub.size);
    Stub { state: State::Migrated(grains), was_recalled: false, unsynced: None, ..stub }
}
