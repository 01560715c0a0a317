//! Migration: files are copied to the server in batches. Then each file loses its content, if
//! nobody has it open and if it has not changed since it was copied.
//!
//! The steps for one file, and the state that a stop of the machine leaves after each:
//! 1. The server has a durable copy of the content. (A copy that no file names is released later.)
//! 2. The file is compared with what was copied, and gets a record if it has none. (It is
//!    premigrated.)
//! 3. Programs that use the file from now on wait for the end of the migration. If nobody else has
//!    it open, it is compared once more.
//! 4. The record on the disk says that the file is migrated. (Its content is there and is read.)
//! 5. The content is removed, and the times are restored. This raises a question of this process,
//!    which the keeper answers at once. A client of an NFS server that changes the size meanwhile
//!    does not wait: the file is compared before, and its size afterwards.
//! 6. Programs that wait continue.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use client::{BATCH_FILES_MAX, Client, ClientError, Migrant, SpaceRules, StoredCopy};
use format::stub::{State, Stub};
use model::{BatchId, CopyId, DirPath, Kind, Name, Stat};
use sys::space::SpaceFile;
use sys::{Dir, ObjectStatus};

use crate::confirmation::{Claim, confirmed};
use crate::connection::Connection;
use crate::mount::{FileId, Mount};
use crate::outcome::{FileError, FinalState, Ineligibility, Outcome};
use crate::recall::Recaller;
use crate::record::{self, FileState, is_unchanged, state_of};
use crate::server_wait::ServerWait;

/// Size in bytes above which a batch is sent, so that no batch takes long.
const BATCH_BYTES: u64 = 256 << 20;

/// A file that is to be migrated.
#[derive(Clone)]
pub(crate) struct Candidate {
    pub(crate) directory: Arc<Dir>,
    /// Path of the directory, from the root of the file system.
    pub(crate) path: DirPath,
    pub(crate) name: Name,
}

impl Candidate {
    /// Path of the file, from the root of the file system.
    pub(crate) fn file_path(&self) -> Vec<u8> {
        self.path.join(&self.name)
    }
}

/// The state that files get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// Copied to the server; the content stays.
    Premigrated,
    /// Copied to the server; the content is removed.
    Migrated,
}

/// Digest of the content of a file, as server and client compute it.
type ContentDigest = [u8; 16];

/// The server's answer about one file of a batch.
enum Receipt {
    Copied { copy: CopyId, copied: StoredCopy },
    Refused { copy: CopyId, reason: String },
    NotBackedUp,
}

/// The migration of files off one file system.
pub(crate) struct Migrator<'a> {
    pub(crate) recaller: &'a Recaller,
    pub(crate) connection: &'a Connection,
    pub(crate) mount: &'a Mount,
    pub(crate) target: Target,
    pub(crate) rules: &'a SpaceRules,
    /// True for candidates that migrate although they are smaller than the settings say.
    pub(crate) is_of_any_size: &'a dyn Fn(&Candidate) -> bool,
    /// Wait for a server that goes away.
    pub(crate) server_wait: &'a ServerWait,
}

/// A candidate that may migrate, with the state in which it was found.
#[derive(Clone)]
struct EligibleFile {
    /// Index of the candidate.
    index: usize,
    found: ObjectStatus,
    /// The record that was found in the file.
    record: Option<Stub>,
    /// The record, if it describes the file.
    stub: Option<Stub>,
}

/// The decision on a candidate: the file to migrate, or the state in which it stays.
type Decision = Result<EligibleFile, FileState>;

impl Migrator<'_> {
    /// Migrates `candidates`, and calls `report` with the index and the outcome of each. Stops
    /// before the next batch once `goes_on` returns false, and reports no outcome for the other
    /// files.
    pub(crate) fn migrate(
        &self,
        candidates: &[Candidate],
        report: &mut dyn FnMut(usize, Outcome),
        goes_on: &dyn Fn() -> bool,
    ) {
        let _alone = match self.mount.lock_migration() {
            Ok(alone) => alone,
            Err(error) => {
                let reason = error.to_string();
                (0..candidates.len())
                    .for_each(|index| report(index, Err(io::Error::other(reason.clone()).into())));
                return;
            }
        };
        // A file with an unsynced record is open, and cannot be locked.
        self.recaller.catch_up();
        let mut batch: Vec<EligibleFile> = Vec::new();
        let mut bytes = 0;
        // A file with several names migrates by its first name. Its other names are looked at again
        // afterwards, and show its new state.
        let mut linked = HashSet::new();
        let mut other_names = Vec::new();
        for (index, candidate) in candidates.iter().enumerate() {
            match self.decide(index, candidate) {
                Ok(Ok(eligible)) if is_other_name(&eligible, &mut linked) => {
                    other_names.push(index);
                }
                Ok(Ok(eligible)) => {
                    bytes += eligible.found.stat.size;
                    batch.push(eligible);
                }
                Ok(Err(state)) => report(index, Ok(FinalState::unmoved(state))),
                Err(error) => report(index, Err(error)),
            }
            if batch.len() == BATCH_FILES_MAX || bytes >= BATCH_BYTES {
                self.migrate_batch(candidates, std::mem::take(&mut batch), report, goes_on);
                bytes = 0;
                if !goes_on() {
                    return;
                }
            }
        }
        self.migrate_batch(candidates, batch, report, goes_on);
        for index in other_names {
            report(index, self.outcome_by_other_name(index, &candidates[index]));
        }
    }

    /// The outcome for another name of a file that was migrated by its first name, or was not.
    fn outcome_by_other_name(&self, index: usize, candidate: &Candidate) -> Outcome {
        match self.decide(index, candidate)? {
            Err(state) => Ok(FinalState::unmoved(state)),
            Ok(_) => Err(FileError::Changed(
                "the file stays as it is, as for its other name in this list",
            )),
        }
    }

    /// Decides whether the file can and must be migrated.
    fn decide(&self, index: usize, candidate: &Candidate) -> Result<Decision, FileError> {
        let name = candidate.name.as_bytes();
        let path = self.mount.absolute(&candidate.file_path());
        if let Some(statement) = self.rules.excludes(&path) {
            return Err(Ineligibility::Excluded(statement).into());
        }
        let found = candidate.directory.stat(name)?.ok_or(Ineligibility::Socket)?;
        self.check_kind(candidate, &found)?;
        let file = SpaceFile::open(&candidate.directory, name)?;
        // A program that has the file mapped can change it without changing its times. So a file in
        // use is not even read.
        if !self.recaller.is_alone(&file)? {
            return Err(FileError::InUse);
        }
        let found = file.stat()?;
        let record = record::read(&file)?;
        let stub = record::find(&file, &self.mount.filesystem)?.own();
        Ok(match (state_of(&found.stat, stub.as_ref()), self.target) {
            (FileState::Migrated, _) => Err(FileState::Migrated),
            (FileState::Premigrated, Target::Premigrated) => Err(FileState::Premigrated),
            _ => Ok(EligibleFile { index, found, record, stub }),
        })
    }

    fn check_kind(&self, candidate: &Candidate, found: &ObjectStatus) -> Result<(), Ineligibility> {
        let is_of_any_size = (self.is_of_any_size)(candidate);
        let bytes_min = if is_of_any_size { 0 } else { self.mount.settings().file_bytes_min };
        if found.stat.kind != Kind::File {
            Err(Ineligibility::NotRegular)
        } else if found.device_id != self.mount.device_id {
            Err(Ineligibility::OtherFilesystem)
        } else if found.stat.size < bytes_min {
            Err(Ineligibility::TooSmall { bytes_min })
        } else if found.stat.size == 0 {
            Err(Ineligibility::Empty)
        } else {
            Ok(())
        }
    }

    fn migrate_batch(
        &self,
        candidates: &[Candidate],
        batch: Vec<EligibleFile>,
        report: &mut dyn FnMut(usize, Outcome),
        goes_on: &dyn Fn() -> bool,
    ) {
        if batch.is_empty() {
            return;
        }
        let asked = self.server_wait.until_answered(goes_on, &mut || {
            let client = self.connection.tested_client()?;
            let named = self.named_copies(&client, candidates, &batch)?;
            Ok((client, named))
        });
        let (client, named) = match asked {
            Ok(asked) => asked,
            Err(error) => return report_all(&batch, &error, report),
        };
        let (copied, to_copy): (Vec<EligibleFile>, Vec<EligibleFile>) =
            batch.into_iter().partition(|eligible| {
                named.contains(&eligible.index) && self.is_copied(&client, candidates, eligible)
            });
        for eligible in copied {
            let stub = eligible.stub.clone().expect("a file that is copied has a record");
            let outcome = self.finish(&candidates[eligible.index], &stub, &eligible);
            report(eligible.index, outcome);
        }
        if to_copy.is_empty() {
            return;
        }
        let sent = self
            .server_wait
            .until_answered(goes_on, &mut || self.send(candidates, &to_copy));
        match sent {
            Ok((client, receipts)) => {
                let unused = self.finish_copied(candidates, &to_copy, receipts, report);
                self.release(&client, unused);
            }
            Err(error) => report_all(&to_copy, &error, report),
        }
    }

    /// Sends the files as a new batch. Returns the client that has sent them, too.
    fn send(
        &self,
        candidates: &[Candidate],
        files: &[EligibleFile],
    ) -> Result<(Arc<Client>, Vec<Receipt>), ClientError> {
        let client = self.connection.client()?;
        let number = BatchId(u64::from_le_bytes(sys::entropy::bytes()));
        let receipts = self.copy(&client, candidates, files, number);
        let receipts = receipts.inspect_err(|_| self.connection.disconnect())?;
        Ok((client, receipts))
    }

    /// Finishes the files of a batch for which the server has sent receipts. Returns the copies
    /// that no file names. A copy that a record named earlier is not returned, because another file
    /// may have a copy of that record. The next reconciliation finds it.
    fn finish_copied(
        &self,
        candidates: &[Candidate],
        files: &[EligibleFile],
        receipts: Vec<Receipt>,
        report: &mut dyn FnMut(usize, Outcome),
    ) -> Vec<CopyId> {
        assert_eq!(files.len(), receipts.len(), "each file has a receipt");
        let mut unused = Vec::new();
        for (eligible, receipt) in files.iter().zip(receipts) {
            let outcome = match receipt {
                Receipt::Copied { copy, copied } => {
                    let then = EligibleFile { found: copied.found, ..eligible.clone() };
                    let stub = stub_of(copy, &copied);
                    let outcome = self.finish(&candidates[eligible.index], &stub, &then);
                    let is_unused = outcome.is_err() && !names(&candidates[eligible.index], copy);
                    unused.extend(is_unused.then_some(copy));
                    outcome
                }
                Receipt::Refused { copy, reason } => {
                    unused.push(copy);
                    Err(FileError::Server(reason))
                }
                Receipt::NotBackedUp => Err(FileError::NotBackedUp),
            };
            report(eligible.index, outcome);
        }
        unused
    }

    fn release(&self, client: &Client, mut copies: Vec<CopyId>) {
        copies.sort();
        if !copies.is_empty()
            && let Err(error) = client.release(self.mount.mount_point(), &copies)
        {
            tracing::warn!(
                %error,
                copies = copies.len(),
                "cannot release copies that no file names; the next reconciliation releases them"
            );
        }
    }

    /// Returns the indexes of the files whose records name copies that the server has for them.
    fn named_copies(
        &self,
        client: &Client,
        candidates: &[Candidate],
        files: &[EligibleFile],
    ) -> Result<HashSet<usize>, ClientError> {
        let (mut indexes, mut claims) = (Vec::new(), Vec::new());
        for file in files {
            let unchanged = file.stub.as_ref().filter(|stub| is_unchanged(&file.found.stat, stub));
            let Some(stub) = unchanged else { continue };
            let path = self.mount.absolute(&candidates[file.index].file_path());
            indexes.push(file.index);
            claims.push(Claim { stub, inode: file.found.stat.inode, path });
        }
        let confirmed = confirmed(client, self.mount.mount_point(), &claims)?;
        assert_eq!(indexes.len(), confirmed.len(), "each claim has an answer");
        let with_copy = indexes.into_iter().zip(confirmed).filter(|(_, is_met)| *is_met);
        Ok(with_copy.map(|(index, _)| index).collect())
    }

    /// True if the copy that the record of the file names has the present content of the file.
    /// Times do not prove this, because a program can set them back.
    fn is_copied(&self, client: &Client, candidates: &[Candidate], file: &EligibleFile) -> bool {
        let Some(stub) = &file.stub else { return false };
        let candidate = &candidates[file.index];
        let path = self.mount.absolute(&candidate.file_path());
        client
            .content(&path, (&*candidate.directory, &candidate.name))
            .is_ok_and(|content| content == stub.content)
    }

    /// Makes the server store copies of the files as the batch `batch`.
    fn copy(
        &self,
        client: &Client,
        candidates: &[Candidate],
        files: &[EligibleFile],
        batch: BatchId,
    ) -> Result<Vec<Receipt>, ClientError> {
        if files.is_empty() {
            return Ok(Vec::new());
        }
        let backed_up = self.backed_up(client, candidates, files)?;
        assert_eq!(files.len(), backed_up.len(), "the server was asked about each file");
        let backup_first = self.mount.settings().backup_first;
        let may_migrate = |known: &Option<ContentDigest>| known.is_some() || !backup_first;
        let migrants: Vec<Migrant<'_>> = files
            .iter()
            .zip(&backed_up)
            .filter(|(_, known)| may_migrate(known))
            .map(|(file, known)| {
                let Candidate { directory, path, name } = &candidates[file.index];
                let backed_up = known.map(|content| StoredCopy { found: file.found, content });
                Migrant { directory, name, path, backed_up }
            })
            .collect();
        let mut copied = Vec::new();
        if !migrants.is_empty() {
            copied = client.migrate(self.mount.mount_point(), batch, &migrants)?;
        }
        assert_eq!(migrants.len(), copied.len(), "the client reports each file");
        let mut sent = (0..).map(|index| CopyId { batch, index }).zip(copied);
        let receipt = |known: &Option<ContentDigest>| match may_migrate(known).then(|| sent.next())
        {
            Some(Some((copy, Ok(copied)))) => Receipt::Copied { copy, copied },
            Some(Some((copy, Err(reason)))) => {
                Receipt::Refused { copy, reason: reason.to_string() }
            }
            Some(None) | None => Receipt::NotBackedUp,
        };
        Ok(backed_up.iter().map(receipt).collect())
    }

    /// Returns for each file the digest of its backup, or `None` if its current state is not backed
    /// up.
    fn backed_up(
        &self,
        client: &Client,
        candidates: &[Candidate],
        files: &[EligibleFile],
    ) -> Result<Vec<Option<ContentDigest>>, ClientError> {
        let mut known = vec![None; files.len()];
        let mut order: Vec<usize> = (0..files.len()).collect();
        let place = |at: usize| {
            let Candidate { path, name, .. } = &candidates[files[at].index];
            (path, name)
        };
        order.sort_by(|&a, &b| place(a).cmp(&place(b)));
        for of_directory in order.chunk_by(|&a, &b| place(a).0 == place(b).0) {
            let directory = place(of_directory[0]).0;
            let asked: Vec<(&Name, ObjectStatus)> =
                of_directory.iter().map(|&at| (place(at).1, files[at].found)).collect();
            let contents = client.backed_up(self.mount.mount_point(), directory, &asked)?;
            assert_eq!(asked.len(), contents.len(), "the client reports each file");
            for (&at, content) in of_directory.iter().zip(contents) {
                known[at] = content;
            }
        }
        Ok(known)
    }

    /// Writes the record, and removes the content if that is the target. `then` is the state of the
    /// file when its content was copied, or compared with the copy.
    fn finish(&self, candidate: &Candidate, stub: &Stub, then: &EligibleFile) -> Outcome {
        let file = SpaceFile::open(&candidate.directory, candidate.name.as_bytes())?;
        if self.recaller.is_busy(FileId::of(&file.stat()?)) {
            return Err(FileError::Changed("it is being recalled"));
        }
        let bearer = Some(record::bearer(&self.mount.filesystem, &file)?);
        let stub = &Stub { bearer, ..stub.clone() };
        let announced = announce(&file, stub, then)?;
        let finished = self.recaller.alone(&file, || self.finish_alone(&file, stub, &announced))?;
        finished.unwrap_or(Err(FileError::InUse))
    }

    fn finish_alone(&self, file: &SpaceFile, stub: &Stub, announced: &Stat) -> Outcome {
        let now = file.stat()?.stat;
        if !is_same_state(&now, announced) {
            return Err(CHANGED);
        }
        match self.target {
            Target::Premigrated => premigrate(file, stub),
            Target::Migrated => take_away(file, stub, &now),
        }
    }
}

/// True if the file was found by another name before. `linked` has the inodes of the files with
/// several names that were found.
fn is_other_name(eligible: &EligibleFile, linked: &mut HashSet<u64>) -> bool {
    let stat = &eligible.found.stat;
    stat.linked && !linked.insert(stat.inode)
}

const CHANGED: FileError = FileError::Changed("it has changed since it was copied");

/// Gives the file a record if it has none, so that the keeper passes on the questions about it.
/// Returns the status of the file afterwards. Fails if the file is not in the state `then`.
fn announce(file: &SpaceFile, stub: &Stub, then: &EligibleFile) -> Result<Stat, FileError> {
    let now = file.stat()?.stat;
    // The file is unchanged if its change time and its record are the same as then.
    if !is_same_state(&now, &then.found.stat) || record::read(file)? != then.record {
        return Err(CHANGED);
    }
    if then.record.is_some() {
        return Ok(now);
    }
    record::write(file, &record::premigrated(stub.clone()))?;
    // The record has changed the change time.
    Ok(file.stat()?.stat)
}

fn report_all(files: &[EligibleFile], error: &ClientError, report: &mut dyn FnMut(usize, Outcome)) {
    for file in files {
        report(file.index, Err(FileError::Server(error.to_string())));
    }
}

/// True if the record of the file names `copy`, or cannot be read.
fn names(candidate: &Candidate, copy: CopyId) -> bool {
    let record = SpaceFile::open(&candidate.directory, candidate.name.as_bytes())
        .and_then(|file| record::read(&file));
    record.map_or(true, |stub| stub.is_some_and(|stub| stub.copy == copy))
}

fn is_same_state(now: &Stat, then: &Stat) -> bool {
    let state = |stat: &Stat| (stat.inode, stat.size, stat.mtime, stat.ctime);
    state(now) == state(then)
}

/// Removes the content of the file, which had the status `stat`.
fn take_away(file: &SpaceFile, stub: &Stub, stat: &Stat) -> Outcome {
    assert_eq!(stub.size, stat.size, "the copy has the size of the file");
    let emptied = record::emptied(stub.clone());
    // If this process dies before it has set the time back, the time proves nothing.
    record::write(file, &Stub { was_recalled: true, ..emptied.clone() })?;
    file.sync()?;
    let synced = file.stat()?;
    if (synced.stat.size, synced.stat.mtime) != (stat.size, stat.mtime) {
        // On the disk, too: the record there says that the content is missing.
        premigrate(file, stub)?;
        return Err(CHANGED);
    }
    file.keeping_capabilities(|| file.punch(stat.size))?;
    let left = file.stat()?;
    // The time of a change of the size has to stay.
    if left.stat.size == stat.size {
        file.set_times(None, stat.mtime)?;
    }
    if let Err(error) = record::write(file, &emptied) {
        // The stub is complete. Only its times prove nothing.
        tracing::warn!(%error, "a change of this stub that nobody is asked about will not show");
    }
    let bytes = synced.allocated_bytes.saturating_sub(left.allocated_bytes);
    Ok(FinalState { state: FileState::Migrated, bytes })
}

fn premigrate(file: &SpaceFile, stub: &Stub) -> Outcome {
    record::write(file, &record::premigrated(stub.clone()))?;
    file.sync()?;
    Ok(FinalState { state: FileState::Premigrated, bytes: stub.size })
}

fn stub_of(copy: CopyId, copied: &StoredCopy) -> Stub {
    let Stat { size, mtime, .. } = copied.found.stat;
    Stub {
        state: State::Premigrated,
        was_recalled: false,
        copy,
        size,
        mtime,
        content: copied.content,
        bearer: None,
        unsynced: None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use model::Timestamp;

    use super::*;

    const BYTES: u64 = 1 << 20;

    /// A client of an NFS server emptied a file and set its size again while its record was brought
    /// to the disk. The migration set the old time, and the stub got its old content later.
    #[test]
    fn a_file_whose_size_is_changed_while_it_migrates_stays_resident() {
        // Only root sees the attribute with the record.
        if !sys::process::is_root() {
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("f");
        std::fs::write(&path, vec![1; 1 << 20]).expect("written");
        let directory = Dir::open(folder.path().as_os_str().as_bytes()).expect("opened");
        let file = SpaceFile::open(&directory, b"f").expect("opened");
        let old = Timestamp { secs: 1_000_000_000, nanos: 0 };
        file.set_times(None, old).expect("set");
        let found = file.stat().expect("stat");
        let copied = StoredCopy { found, content: [0; 16] };
        let stub = stub_of(CopyId { batch: BatchId(1), index: 0 }, &copied);
        let writer = std::fs::File::options().write(true).open(&path).expect("opened");
        writer.set_len(0).and_then(|()| writer.set_len(BYTES)).expect("changed");
        let outcome = take_away(&file, &stub, &found.stat);
        assert!(matches!(outcome, Err(FileError::Changed(_))), "{outcome:?}");
        let after = file.stat().expect("stat").stat;
        assert!(after.mtime > old, "the time of the change stays");
        let record = record::read(&file).expect("read");
        assert_eq!(state_of(&after, record.as_ref()), FileState::Resident);

        file.write_at(&[2; 1 << 20], 0).expect("written");
        file.set_times(None, old).expect("set");
        let migrated = take_away(&file, &stub, &found.stat).expect("migrated");
        assert!(migrated.bytes > 0, "{migrated:?}");
        assert_eq!(file.stat().expect("stat").stat.mtime, old);
    }
}
