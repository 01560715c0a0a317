//! Recalls: one queue for all waiters, which are programs that read files and users with lists. A
//! file is recalled once for all of its waiters.
//!
//! ```text
//!   question, request --> queue, by file --> one thread per file: fill what is missing, answer
//!                                            the waiters that have their content, until none waits
//! ```
//!
//! Neither the records nor the queue is locked while content is filled. The order of locks is in
//! `docs/design/ordering.md`.

mod patience;
mod queue;
mod records;
mod threads;
mod withheld;

use std::os::fd::RawFd;
use std::sync::Arc;

use crossbeam_channel::Sender;
use format::stub::State;
use rustix::io::Errno;
use sys::ObjectStatus;
use sys::fanotify::{Access, Answer, Group, Question, QuestionKinds};
use sys::lock::{Condvar, Mutex};
use sys::space::SpaceFile;

pub(crate) use self::patience::Patience;
use self::queue::{Cancellation, Need, Queue, Recall, Waiter};
pub(crate) use self::queue::{Completion, ListEntry, RecallError, RecallStatus, Stage};
use self::records::Records;
use self::withheld::{FileQuestion, Withheld};
use crate::FilesystemSettings;
use crate::fill::{ContentSource, FillError};
use crate::gate::Gate;
use crate::mount::{FileId, Mount};
use crate::questions::Refusal;
use crate::relay::{Inquiry, Relay};
use crate::requester::Requester;
use crate::roster::{Mounts, Roster};

/// Programs that look for holes before they read, that move the space of files, or that let the
/// kernel read a file as a disk without a question: they would regard a stub as an empty file, and
/// `grep` would not regard it as text. A file that they open is recalled as a whole. The names are
/// written as in `/proc/PID/comm`, which has 15 bytes of a longer name. A thread of the kernel's
/// NFS server, `nfsd`, looks for holes on behalf of programs at its clients, and so do other
/// servers of files and disks.
const HOLE_SEEKERS: &[&str] = &[
    // Copies and archives.
    "cp",
    "mv",
    "install",
    "tar",
    "star",
    "bsdtar",
    "bsdcpio",
    "rsync",
    "borg",
    "holdfast",
    // Searches.
    "grep",
    // Makers of file systems with files in them.
    "mke2fs",
    "mkfs.ext2",
    "mkfs.ext3",
    "mkfs.ext4",
    "mkfs.erofs",
    "debugfs",
    // Images of disks, and virtual machines.
    "qemu-img",
    "qemu-nbd",
    "qemu-storage-da",
    "qemu-system-x86",
    "qemu-system-aar",
    "kvm",
    "nbdkit",
    "losetup",
    "mount",
    "kpartx",
    "udisksctl",
    "gnome-disk-imag",
    "cryptsetup",
    "veritysetup",
    "integritysetup",
    "systemd-dissect",
    "systemd-nspawn",
    // Servers of files.
    "nfsd",
    "ganesha.nfsd",
    "virtiofsd",
    "glusterfsd",
    // Movers of space.
    "fallocate",
    "xfs_io",
];

/// Callback that makes room in a full file system. Returns true if there is more room than before.
pub(crate) type RoomMaker = Box<dyn Fn(&Recaller, &Mount) -> bool + Send + Sync>;

/// The recalls of all managed file systems. See the module.
pub(crate) struct Recaller {
    group: Arc<Group>,
    relay: Arc<Relay>,
    roster: Arc<Roster>,
    source: Box<dyn ContentSource>,
    make_room: RoomMaker,
    gate: Gate,
    withheld: Withheld,
    records: Records,
    queue: Mutex<Queue>,
    has_work: Condvar,
}

impl Recaller {
    pub(crate) fn new(
        group: Arc<Group>,
        relay: Arc<Relay>,
        roster: Arc<Roster>,
        source: Box<dyn ContentSource>,
        make_room: RoomMaker,
        gate: Gate,
    ) -> Self {
        Self {
            group,
            relay,
            roster,
            source,
            make_room,
            gate,
            withheld: Withheld::default(),
            records: Records::default(),
            queue: Mutex::default(),
            has_work: Condvar::new(),
        }
    }

    #[cfg(test)]
    pub(crate) fn group_and_roster(&self) -> (Arc<Group>, Arc<Roster>) {
        (Arc::clone(&self.group), Arc::clone(&self.roster))
    }

    pub(crate) fn roster(&self) -> &Roster {
        &self.roster
    }

    /// The managed file systems at this moment.
    pub(crate) fn mounts(&self) -> Mounts {
        self.roster.mounts()
    }

    /// The managed file system with this `st_dev`.
    fn mount_of(&self, device_id: u64) -> Option<Arc<Mount>> {
        self.roster.of_device(device_id)
    }

    fn answer(&self, number: RawFd, answer: Answer) {
        // The thread that reads questions notices that the keeper has died.
        drop(self.relay.answer(number, answer));
    }

    /// Takes a question: answers it at once, or lets its program wait for content.
    pub(crate) fn take(&self, question: Question) {
        let Question { file, number, pid, access } = question;
        let file = Arc::new(SpaceFile::asked(file));
        self.take_about(FileQuestion { file, number, pid, access });
    }

    fn take_about(&self, question: FileQuestion) {
        let Err(question) = self.withheld.take(question) else { return };
        let FileQuestion { file, number, pid, access } = question;
        let answered = self.consider(&file, number, pid, &access);
        // The file is closed first, because the program that continues may check whether the file
        // is open elsewhere.
        drop(file);
        match answered {
            Ok(None) => {}
            Ok(Some(answer)) => self.answer(number, answer),
            Err(error) => {
                tracing::error!(%error, "cannot examine a stub");
                self.answer(number, Answer::Fail(Errno::IO));
            }
        }
    }

    /// The answer to a question; `None` if its program waits in the queue.
    fn consider(
        &self,
        file: &Arc<SpaceFile>,
        number: RawFd,
        pid: u32,
        access: &Access,
    ) -> std::io::Result<Option<Answer>> {
        let found = file.stat()?;
        let id = FileId::of(&found);
        let mount = self.mount_of(found.device_id);
        let Some(stub) = self.records.current(id, file, &found, mount.as_deref())? else {
            return Ok(Some(Answer::Go));
        };
        let grains = match &stub.state {
            State::Migrated(grains) if !grains.is_whole() => grains,
            _ => {
                self.ask_no_more(id, file);
                return Ok(Some(Answer::Go));
            }
        };
        let Some(mount) = mount else {
            return Ok(Some(Answer::Fail(Errno::IO)));
        };
        let settings = mount.settings();
        let requester = Requester::of(pid);
        let need = match access {
            Access::Content(range) => Need::with_last_page(range.clone(), found.stat.size),
            Access::Open if self.recalls_whole(&settings, &found, &requester) => Need::whole_file(),
            Access::Open => return Ok(Some(Answer::Go)),
        };
        if need.missing(grains).is_none() {
            // The program may be about to lengthen the file. A read at the end of the file sets the
            // time of the last access, which would vouch for a doubtful file.
            let is_doubtful = matches!(access, Access::Content(_))
                && self.records.note_use(id, file, stub)?.is_none();
            if is_doubtful {
                tracing::error!(error = %FillError::Doubtful, "a program is refused");
                return Ok(Some(Answer::Fail(FillError::Doubtful.refusal().errno(access))));
            }
            return Ok(Some(Answer::Go));
        }
        if let Some(refusal) = self.refusal(&settings, &requester) {
            return Ok(Some(Answer::Fail(refusal.errno(access))));
        }
        let (access, first) = (access.clone(), requester.clone());
        let asked = sys::clock::monotonic();
        let waiter = Waiter::Question { number, requester: first, access, need, asked };
        self.wait_for(file, &found, requester, waiter);
        Ok(None)
    }

    /// Tells the kernel not to ask again about a file with all of its content. While the file is
    /// open, as it is now, it keeps the content. Before migration removes the content, it makes the
    /// kernel ask again.
    fn ask_no_more(&self, id: FileId, file: &SpaceFile) {
        self.withheld.ignore(id, file, &self.group);
    }

    /// True if opening the file recalls all of it.
    fn recalls_whole(
        &self,
        settings: &FilesystemSettings,
        found: &ObjectStatus,
        requester: &Requester,
    ) -> bool {
        self.group.asks() == QuestionKinds::Opening
            || found.stat.size <= settings.whole_bytes_max
            || HOLE_SEEKERS.contains(&requester.program.as_str())
    }

    /// The refusal of a program whose reads may not recall a file; `None` if they may.
    fn refusal(&self, settings: &FilesystemSettings, requester: &Requester) -> Option<Refusal> {
        if settings.requests_only {
            return Some(Refusal::Error(Errno::PERM));
        }
        let load = self.queue.lock().load_of(requester);
        if load.of_user < settings.user_recalls_max
            && load.of_program < settings.program_recalls_max
        {
            return None;
        }
        tracing::warn!(
            uid = requester.uid,
            program = requester.program,
            "too many recalls of one user or program wait; 'holdfast hsm recall' recalls many \
             files"
        );
        Some(Refusal::NotNow)
    }

    /// Recalls the whole file for an entry of a list, which gets one completion.
    pub(crate) fn request(
        &self,
        file: SpaceFile,
        found: &ObjectStatus,
        requester: Requester,
        entry: ListEntry,
    ) {
        self.wait_for(&Arc::new(file), found, requester, Waiter::Request(entry));
    }

    fn wait_for(
        &self,
        file: &Arc<SpaceFile>,
        found: &ObjectStatus,
        requester: Requester,
        waiter: Waiter,
    ) {
        let id = FileId::of(found);
        let mut queue = self.queue.lock();
        if let Err(waiter) = queue.join(id, waiter) {
            queue.enqueue(id, Recall::new(Arc::clone(file), found.stat.size, requester, waiter));
            drop(queue);
            self.has_work.notify_one();
        }
    }

    /// Removes the entries of a list whose reader has disconnected. Files without other waiters are
    /// not recalled.
    pub(crate) fn withdraw(&self, list: &Sender<Completion>) {
        self.queue.lock().withdraw(list);
    }

    /// Cancels the recall `number`; returns false if there is no such recall, or `requester` may
    /// not cancel it.
    pub(crate) fn cancel(&self, number: u64, requester: &Requester) -> bool {
        let cancelled = self.queue.lock().cancel(number, requester);
        match cancelled {
            None => false,
            Some(Cancellation::Stopping) => true,
            Some(Cancellation::Removed(recall)) => {
                self.refuse(recall, Refusal::NotNow, &RecallError::Cancelled);
                true
            }
        }
    }

    /// All recalls: files that are being recalled first, then the others by place in the queue.
    /// The server is asked about those that wait there.
    pub(crate) fn statuses(&self) -> Vec<RecallStatus> {
        let mut statuses = self.queue.lock().statuses();
        if statuses.iter().any(|status| status.stage == Stage::AtServer) {
            let waits = self.source.waits();
            statuses.iter_mut().for_each(|status| status.add(&waits));
        }
        statuses
    }

    /// Writes lasting records in place of the unsynced records, after the content has reached the
    /// disk.
    pub(crate) fn catch_up(&self) {
        self.records.catch_up(&self.mounts(), &|id| self.queue.lock().contains(id));
    }

    /// The waiting questions, each with its file.
    pub(crate) fn open_questions(&self) -> Vec<(Inquiry, Arc<SpaceFile>)> {
        let queue = self.queue.lock();
        let open = queue.waiters().filter_map(|(recall, waiter)| match waiter {
            Waiter::Question { number, requester, access, .. } => {
                let (number, pid, access) = (*number, requester.pid, access.clone());
                let inquiry = Inquiry { number, pid, access };
                Some((inquiry, Arc::clone(&recall.file)))
            }
            Waiter::Request(_) => None,
        });
        open.chain(self.withheld.open_questions()).collect()
    }

    /// True while the file is being recalled or its record is unsynced.
    pub(crate) fn is_busy(&self, id: FileId) -> bool {
        self.queue.lock().contains(id) || self.records.contains(id)
    }
}

#[cfg(test)]
pub(crate) mod tests;
