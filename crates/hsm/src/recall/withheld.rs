//! Questions about files that are changed by this process while nobody else may use them: the
//! questions wait until the change is done.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;

use sys::fanotify::{Access, Group, QuestionKinds};
use sys::lock::Mutex;
use sys::space::SpaceFile;

use super::Recaller;
use crate::mount::FileId;
use crate::relay::Inquiry;

/// A question of the kernel about a file that this process can change.
pub(super) struct FileQuestion {
    pub(super) file: Arc<SpaceFile>,
    pub(super) number: RawFd,
    pub(super) pid: u32,
    pub(super) access: Access,
}

/// The files that are being changed, with the questions about them.
#[derive(Default)]
pub(super) struct Withheld(Mutex<HashMap<FileId, Vec<FileQuestion>>>);

impl Withheld {
    /// Withholds the questions about a file from now on; returns false if they already are.
    pub(super) fn begin(&self, id: FileId) -> bool {
        match self.0.lock().entry(id) {
            Entry::Occupied(_) => false,
            Entry::Vacant(entry) => {
                entry.insert(Vec::new());
                true
            }
        }
    }

    pub(super) fn end(&self, id: FileId) -> Vec<FileQuestion> {
        self.0.lock().remove(&id).unwrap_or_default()
    }

    /// Takes the question if its file is being changed, and returns it otherwise.
    pub(super) fn take(&self, question: FileQuestion) -> Result<(), FileQuestion> {
        let mut files = self.0.lock();
        if files.is_empty() {
            return Err(question);
        }
        // A file whose status is unknown is examined by the caller, who reports the error.
        let Ok(found) = question.file.stat() else { return Err(question) };
        match files.get_mut(&FileId::of(&found)) {
            Some(questions) => {
                questions.push(question);
                Ok(())
            }
            None => Err(question),
        }
    }

    /// Tells the kernel not to ask again about a file, unless the questions about it are withheld.
    /// None begin to be withheld meanwhile.
    pub(super) fn ignore(&self, id: FileId, file: &SpaceFile, group: &Group) {
        let files = self.0.lock();
        if !files.contains_key(&id) {
            // A kernel that still asks gets the same answer each time.
            drop(group.ignore(file, true));
        }
    }

    /// The questions that wait, each with its file.
    pub(super) fn open_questions(&self) -> Vec<(Inquiry, Arc<SpaceFile>)> {
        let files = self.0.lock();
        let inquiry = |question: &FileQuestion| {
            let FileQuestion { file, number, pid, access } = question;
            let inquiry = Inquiry { number: *number, pid: *pid, access: access.clone() };
            (inquiry, Arc::clone(file))
        };
        files.values().flatten().map(inquiry).collect()
    }
}

impl Recaller {
    /// Runs `change` while no other process has the file open; `None` if one has. Programs that use
    /// the file meanwhile wait. The file must have a record, so that the keeper passes on the
    /// questions about it.
    ///
    /// With questions about ranges, no program sees a lease, not even one that opens the file
    /// without waiting:
    /// 1. From now on, this process withholds the questions about the file, and the kernel asks
    ///    them. A program that was let in earlier has the file open.
    /// 2. With the gate shut, a lease that is held for a moment shows that nobody has.
    /// 3. The questions are answered after the change.
    pub(crate) fn alone<T>(
        &self,
        file: &SpaceFile,
        change: impl FnOnce() -> T,
    ) -> io::Result<Option<T>> {
        if self.group.asks() == QuestionKinds::Opening {
            return self.alone_by_lease(file, change);
        }
        let id = FileId::of(&file.stat()?);
        if !self.withheld.begin(id) {
            return Ok(None);
        }
        let changed = self.is_alone(file).map(|is_alone| is_alone.then(change));
        for question in self.withheld.end(id) {
            self.take_about(question);
        }
        changed
    }

    /// True if no other process has the file open. The kernel asks about the file from now on.
    pub(crate) fn is_alone(&self, file: &SpaceFile) -> io::Result<bool> {
        let _shut = self.gate.shut()?;
        // The mark is removed with the gate shut: the keeper sets no other before the lease.
        self.group.watch_again(file)?;
        let is_alone = file.lock_alone()?;
        if is_alone {
            file.unlock()?;
        }
        Ok(is_alone)
    }

    /// Does the same as [`Self::alone`] for a kernel that asks only at opening: the lease is held
    /// during the change, because `truncate(2)` raises no question.
    fn alone_by_lease<T>(
        &self,
        file: &SpaceFile,
        change: impl FnOnce() -> T,
    ) -> io::Result<Option<T>> {
        // This kernel asks no question later, so a program that opens the locked file is refused.
        self.group.watch_again(file)?;
        if !file.lock_alone()? {
            return Ok(None);
        }
        let changed = change();
        // The kernel must ask again whatever the outcome is: a stub about which it does not ask
        // reads as zeros.
        self.group.watch_again(file)?;
        file.unlock()?;
        Ok(Some(changed))
    }
}
