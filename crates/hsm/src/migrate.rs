//! Migrating: files are copied to the server in batches; then each loses its content, if nobody has
//! it open and it is still what was copied.
//!
//! The order for one file, and what holds if the machine stops behind a step:
//! 1. the server has durably what the file held (a copy that nobody names is let go of later);
//! 2. the file is locked against openers, and compared with what was copied;
//! 3. the kernel does not ask about it (else our own punching would);
//! 4. its record says that it is migrated, on the disk (its content is there: it reads right);
//! 5. its content goes, its times come back;
//! 6. the kernel asks again; who waits to open it goes on.

use std::io;
use std::sync::Arc;

use client::{BATCH_FILES_MAX, Client, Copied, Migrant, SpaceRules};
use format::stub::{STUB_ATTRIBUTE, State, Stub};
use model::{BatchId, CopyId, DirPath, Kind, Name, Stat};
use sys::fanotify::Asks;
use sys::space::SpaceFile;
use sys::{Dir, Found};

use crate::recall::{Mount, Recaller, emptied};
use crate::record::{self, FileState, is_unchanged, state_of};

const IN_USE: &str = "somebody has it open";
/// Bytes in a batch after which it is sent, so that none takes long.
const BATCH_BYTES: u64 = 256 << 20;

/// A file that is to be migrated.
#[derive(Clone)]
pub(crate) struct Candidate {
    pub(crate) directory: Arc<Dir>,
    /// Of the directory within its file system.
    pub(crate) path: DirPath,
    pub(crate) name: Name,
}

/// What becomes of a file: its state then, and the bytes that came free or were copied.
pub(crate) type Migrated = Result<(FileState, u64), String>;

/// What the server has of a file, and as which copy.
type Sent = (CopyId, Result<Copied, String>);

/// Migrates off one file system.
pub(crate) struct Migrator<'a> {
    pub(crate) recaller: &'a Recaller,
    pub(crate) mount: &'a Mount,
    /// The files keep their content.
    pub(crate) only_copies: bool,
    pub(crate) rules: &'a SpaceRules,
}

/// A candidate that has been looked at.
#[derive(Clone)]
struct Looked {
    index: usize,
    found: Found,
    stub: Option<Stub>,
}

impl Migrator<'_> {
    /// Migrates `candidates`; tells `report` what becomes of each, by its index. Stops before the
    /// next batch once `goes_on` says no; of those that are left nothing is told.
    pub(crate) fn migrate(
        &self,
        candidates: &[Candidate],
        report: &mut dyn FnMut(usize, Migrated),
        goes_on: &dyn Fn() -> bool,
    ) {
        let _alone = self.mount.migrating();
        // A file whose record is behind cannot be locked.
        self.recaller.catch_up();
        let mut batch: Vec<Looked> = Vec::new();
        let mut bytes = 0;
        for (index, candidate) in candidates.iter().enumerate() {
            match self.look(index, candidate) {
                Ok(looked) => {
                    bytes += looked.found.stat.size;
                    batch.push(looked);
                }
                Err(outcome) => report(index, outcome),
            }
            if batch.len() == BATCH_FILES_MAX || bytes >= BATCH_BYTES {
                self.migrate_batch(candidates, std::mem::take(&mut batch), report);
                bytes = 0;
                if !goes_on() {
                    return;
                }
            }
        }
        self.migrate_batch(candidates, batch, report);
    }

    /// Looks whether the file can be migrated; the error is what is told of it if not.
    fn look(&self, index: usize, candidate: &Candidate) -> Result<Looked, Migrated> {
        let name = candidate.name.as_bytes();
        let path = self.mount.absolute(&candidate.path.join(&candidate.name));
        if let Some(statement) = self.rules.excludes(&path) {
            return Err(Err(format!("it is excluded from space management: {statement}")));
        }
        let failed = |error: io::Error| Err(error.to_string());
        let found = candidate.directory.stat(name).map_err(failed)?;
        let found = found.ok_or_else(|| Err("a socket is not migrated".to_owned()))?;
        if found.stat.kind != Kind::File {
            return Err(Err("only regular files are migrated".to_owned()));
        }
        if found.device_id != self.mount.device_id {
            return Err(Err("it lies in another file system".to_owned()));
        }
        let least = self.mount.settings.file_bytes_min;
        if found.stat.size < least {
            let reason = format!("it is smaller than {least} bytes");
            return Err(Err(reason));
        }
        let file = SpaceFile::open(&candidate.directory, name).map_err(failed)?;
        // Who has it mapped can change it without moving its times: so not even reading begins.
        if !file.lock_alone().map_err(failed)? {
            return Err(Err(IN_USE.to_owned()));
        }
        file.unlock().map_err(failed)?;
        let found = file.stat().map_err(failed)?;
        let stub = record::read(&file).map_err(failed)?;
        match state_of(&found.stat, stub.as_ref()) {
            FileState::Migrated => Err(Ok((FileState::Migrated, 0))),
            FileState::Premigrated if self.only_copies => Err(Ok((FileState::Premigrated, 0))),
            _ => Ok(Looked { index, found, stub }),
        }
    }

    fn migrate_batch(
        &self,
        candidates: &[Candidate],
        batch: Vec<Looked>,
        report: &mut dyn FnMut(usize, Migrated),
    ) {
        if batch.is_empty() {
            return;
        }
        let client = match self.recaller.connected() {
            Ok(client) => client,
            Err(error) => {
                let reason = error.to_string();
                batch.iter().for_each(|looked| report(looked.index, Err(reason.clone())));
                return;
            }
        };
        let (kept, to_copy): (Vec<Looked>, Vec<Looked>) = batch
            .into_iter()
            .partition(|looked| self.is_copied(&client, candidates, looked));
        let mut released = Vec::new();
        for looked in kept {
            let stub = looked.stub.clone().expect("a file that is copied has a record");
            report(looked.index, self.finish(&candidates[looked.index], stub, &looked));
        }
        let number = BatchId(u64::from_le_bytes(sys::entropy::bytes()));
        match self.copy(&client, candidates, &to_copy, number) {
            Ok(copies) => {
                for (looked, (copy, copied)) in to_copy.iter().zip(copies) {
                    let candidate = &candidates[looked.index];
                    let done = copied.and_then(|copied| {
                        let looked = Looked { found: copied.found, ..looked.clone() };
                        self.finish(candidate, stub_of(copy, &copied), &looked)
                    });
                    // Nobody names this one. What the record named before stays until a
                    // reconciliation: a copied record may name it too.
                    if done.is_err() && copy.index != u16::MAX {
                        released.push(copy);
                    }
                    report(looked.index, done);
                }
            }
            Err(error) => {
                self.recaller.disconnect();
                let reason = error.to_string();
                to_copy.iter().for_each(|looked| report(looked.index, Err(reason.clone())));
            }
        }
        released.sort();
        if !released.is_empty()
            && let Err(error) = client.release(&self.mount.settings.mount_point, &released)
        {
            // They are found and let go of by the next reconciliation.
            tracing::warn!(%error, "copies that are not needed any more stay for now");
        }
    }

    /// Whether the server's copy is that of the file as it is now. Times do not prove it: they can
    /// be put back.
    fn is_copied(&self, client: &Client, candidates: &[Candidate], looked: &Looked) -> bool {
        let Some(stub) = &looked.stub else { return false };
        if !is_unchanged(&looked.found.stat, stub) {
            return false;
        }
        let Candidate { directory, path, name } = &candidates[looked.index];
        let path = self.mount.absolute(&path.join(name));
        client
            .content(&path, (&**directory, name))
            .is_ok_and(|content| content == stub.content)
    }

    /// Has the server take copies of the files; tells of each what it is called there.
    fn copy(
        &self,
        client: &Client,
        candidates: &[Candidate],
        files: &[Looked],
        batch: BatchId,
    ) -> Result<Vec<Sent>, client::ClientError> {
        if files.is_empty() {
            return Ok(Vec::new());
        }
        let backed_up = self.backed_up(client, candidates, files)?;
        let is_admitted =
            |known: &Option<[u8; 16]>| known.is_some() || !self.mount.settings.backup_first;
        let migrants: Vec<Migrant<'_>> = files
            .iter()
            .zip(&backed_up)
            .filter(|(_, known)| is_admitted(known))
            .map(|(looked, known)| {
                let Candidate { directory, path, name } = &candidates[looked.index];
                let backed_up = known.map(|content| (looked.found, content));
                Migrant { directory, name, path, backed_up }
            })
            .collect();
        let mut copied = Vec::new();
        if !migrants.is_empty() {
            copied = client.migrate(&self.mount.settings.mount_point, batch, &migrants)?;
        }
        let mut copies = (0..).map(|index| CopyId { batch, index }).zip(copied);
        let of = |known: Option<[u8; 16]>| {
            let not_sent = CopyId { batch, index: u16::MAX };
            let missing = (not_sent, Err("its current state is not backed up".to_owned()));
            if is_admitted(&known) { copies.next().unwrap_or(missing) } else { missing }
        };
        Ok(backed_up.into_iter().map(of).collect())
    }

    /// Of each file the digest of what its backup holds, if that is its current state.
    fn backed_up(
        &self,
        client: &Client,
        candidates: &[Candidate],
        files: &[Looked],
    ) -> Result<Vec<Option<[u8; 16]>>, client::ClientError> {
        let mut known = vec![None; files.len()];
        let mut order: Vec<usize> = (0..files.len()).collect();
        let place = |at: usize| {
            let Candidate { path, name, .. } = &candidates[files[at].index];
            (path, name)
        };
        order.sort_by(|&a, &b| place(a).cmp(&place(b)));
        for of_directory in order.chunk_by(|&a, &b| place(a).0 == place(b).0) {
            let directory = place(of_directory[0]).0;
            let asked: Vec<(&Name, Found)> =
                of_directory.iter().map(|&at| (place(at).1, files[at].found)).collect();
            let mount_point = &self.mount.settings.mount_point;
            let contents = client.backed_up(mount_point, directory, &asked)?;
            for (&at, content) in of_directory.iter().zip(contents) {
                known[at] = content;
            }
        }
        Ok(known)
    }

    /// Writes the record, and unless the content is to stay takes it away.
    /// `looked` is what the file was when its content was copied, or compared with the copy.
    fn finish(&self, candidate: &Candidate, stub: Stub, looked: &Looked) -> Migrated {
        let finished = self.try_finish(candidate, stub, looked);
        finished.unwrap_or_else(|error| Err(error.to_string()))
    }

    fn try_finish(
        &self,
        candidate: &Candidate,
        stub: Stub,
        looked: &Looked,
    ) -> io::Result<Migrated> {
        let file = SpaceFile::open(&candidate.directory, candidate.name.as_bytes())?;
        let found = file.stat()?;
        if self.recaller.is_busy((found.device_id, found.stat.inode)) {
            return Ok(Err("it is being recalled".to_owned()));
        }
        let group = self.recaller.group();
        match group.asks() {
            // Before it is locked: the kernel cannot hand us a locked file, and refuses who asks.
            // He waits for the lock instead, and is asked about when he reads.
            Asks::Ranges => group.ignore(&file, false)?,
            // Nothing is asked behind opening: he must be refused.
            Asks::Opening => group.watch_again(&file)?,
        }
        let done = self.finish_locked(&file, stub, looked);
        // Whatever has happened: a file without a mark that is a stub reads as zeros.
        group.watch_again(&file)?;
        file.unlock()?;
        done
    }

    fn finish_locked(&self, file: &SpaceFile, stub: Stub, looked: &Looked) -> io::Result<Migrated> {
        if !file.lock_alone()? {
            return Ok(Err(IN_USE.to_owned()));
        }
        let now = file.stat()?.stat;
        let then = &looked.found.stat;
        let told = |stat: &Stat| (stat.inode, stat.size, stat.mtime, stat.ctime);
        // Nothing of ours has moved its change time meanwhile, nor written its record.
        if told(&now) != told(then) || record::read(file)? != looked.stub {
            return Ok(Err("it has changed since it was copied".to_owned()));
        }
        if self.only_copies {
            return premigrate(file, &stub).map(Ok);
        }
        take_away(file, &stub, &now).map(Ok)
    }
}

fn take_away(file: &SpaceFile, stub: &Stub, stat: &Stat) -> io::Result<(FileState, u64)> {
    let taken = file.stat()?.allocated_bytes;
    file.set_attribute(STUB_ATTRIBUTE, &emptied(stub.clone()).encode())?;
    file.sync()?;
    file.keeping_capabilities(|| file.punch(stat.size))?;
    file.set_times(None, stat.mtime)?;
    let left = file.stat()?.allocated_bytes;
    Ok((FileState::Migrated, taken.saturating_sub(left)))
}

fn premigrate(file: &SpaceFile, stub: &Stub) -> io::Result<(FileState, u64)> {
    let stub =
        Stub { state: State::Premigrated, was_recalled: false, unsynced: None, ..stub.clone() };
    file.set_attribute(STUB_ATTRIBUTE, &stub.encode())?;
    file.sync()?;
    Ok((FileState::Premigrated, stub.size))
}

fn stub_of(copy: CopyId, copied: &Copied) -> Stub {
    let Stat { size, mtime, .. } = copied.found.stat;
    Stub {
        state: State::Premigrated,
        was_recalled: false,
        copy,
        size,
        mtime,
        content: copied.content,
        unsynced: None,
    }
}
