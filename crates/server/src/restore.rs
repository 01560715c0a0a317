//! Sending versions back: windows of entries, then the data of those that the client wants, in
//! media order.
//!
//! The client looks at each window and answers which files it lacks; the server is a window ahead
//! meanwhile. A quantum goes out once a window, however many files it serves: the larger windows
//! are, the fewer go out again for files of the next one.

mod ahead;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ops::Range;

use bytes::Bytes;
use format::{Writer, page};
use model::{DirPath, Extent, Object, PackNumber, Payload, Place, PlaceCode as _, Version};
use tokio::sync::mpsc;
use tonic::Status;
use wire::proto;

use crate::core::Core;
use crate::refusal;
use crate::select::{Found, Selection, has_data, messages};
use crate::volumes::{Ahead, Who};

use ahead::ReadAhead;

/// Directories in a window at most, whatever the client says.
const WINDOW_DIRECTORIES_MAX: u32 = 2048;
/// The same for a client that does not say how many it can keep open.
const WINDOW_DIRECTORIES: u32 = 512;
/// Objects in a window at most, for each directory that may be in it.
const OBJECTS_PER_DIRECTORY: usize = 16;
/// Raw bytes after which a window ends.
const WINDOW_BYTES: u64 = 1 << 30;
/// Windows that wait for the client's answer at most.
const WINDOWS_AHEAD: usize = 2;
/// Directories in one message at most.
const MESSAGE_DIRECTORIES: usize = 64;
/// Objects after which a message ends.
const MESSAGE_OBJECTS: usize = 2048;

pub(crate) type Replies = mpsc::Sender<Result<proto::RestoreReply, Status>>;
pub(crate) type Answers = mpsc::Receiver<proto::Wanted>;

/// The files of a window that have data, by position among all its objects.
type Contents = Vec<(usize, Vec<(Place, u32)>)>;

struct Window {
    number: u64,
    directories_max: usize,
    objects: usize,
    directories: usize,
    bytes: u64,
    contents: Contents,
    message: Vec<proto::DirectoryVersions>,
    message_objects: usize,
}

impl Window {
    fn new(number: u64, directories_max: usize) -> Self {
        Self {
            number,
            directories_max,
            objects: 0,
            directories: 0,
            bytes: 0,
            contents: Vec::new(),
            message: Vec::new(),
            message_objects: 0,
        }
    }

    fn is_full(&self) -> bool {
        self.objects >= self.directories_max * OBJECTS_PER_DIRECTORY
            || self.directories >= self.directories_max
            || self.bytes >= WINDOW_BYTES
    }
}

/// Sends everything that `selection` selects. Blocks; ends early when the client is gone, which can
/// keep the directories of windows with so many open; 0: it does not say.
pub(crate) fn serve(
    core: &Core,
    selection: &Selection,
    (who, directories): (Who, u32),
    (answers, replies): (Answers, &Replies),
) -> Result<(), Status> {
    let directories_max = match directories {
        0 => WINDOW_DIRECTORIES,
        said => said.min(WINDOW_DIRECTORIES_MAX),
    };
    let mut sender = Sender {
        core,
        ahead: look_ahead(core, selection, who)?,
        replies,
        answers,
        range: selection.range.clone(),
        waiting: VecDeque::new(),
        window: Window::new(0, directories_max as usize),
    };
    selection.walk(&*core.catalog, |found| sender.add(found))?;
    sender.finish()
}

/// The packs that the selection will need of volumes, in the order in which it will; `None` where
/// there are none.
fn look_ahead(core: &Core, selection: &Selection, who: Who) -> Result<Option<Ahead>, Status> {
    if !core.pools.has_shelves() {
        return Ok(None);
    }
    let mut seen = HashSet::new();
    let mut packs = Vec::new();
    selection.walk(&*core.catalog, |found| {
        for object in found.versions.iter().map(|version| &version.object) {
            for pack in needed(core, object, &selection.range) {
                if seen.insert(pack) && core.pools.is_only_shelved(pack) {
                    packs.push((pack, core.pools.bytes_of(pack)));
                }
            }
        }
        Ok(())
    })?;
    Ok((!packs.is_empty()).then(|| Ahead::new(&core.volumes, who, packs)))
}

/// The packs of the object's chunks that hold some of the bytes in `range`.
fn needed(core: &Core, object: &Object, range: &Range<u64>) -> Vec<PackNumber> {
    if *range == (0..u64::MAX) {
        return places(object).map(|place| place.pack()).collect();
    }
    let lengths = |place: Place| core.pools.chunk(place).map_or(0, |(bytes, _)| bytes);
    let chunks = places(object).map(|place| (place, lengths(place))).collect();
    within(object, chunks, range)
        .into_iter()
        .map(|(place, _)| place.pack())
        .collect()
}

struct Sender<'a> {
    core: &'a Core,
    /// Asks volumes for what comes next.
    ahead: Option<Ahead>,
    replies: &'a Replies,
    answers: Answers,
    /// Of each file, what is sent.
    range: Range<u64>,
    /// Windows whose entries have been sent, oldest first.
    waiting: VecDeque<(u64, Contents)>,
    window: Window,
}

impl Sender<'_> {
    fn add(&mut self, found: Found) -> Result<(), Status> {
        for (directory, versions) in messages(found) {
            self.add_page(&directory, versions)?;
        }
        if self.window.message.len() >= MESSAGE_DIRECTORIES
            || self.window.message_objects >= MESSAGE_OBJECTS
        {
            self.send_entries()?;
        }
        if self.window.is_full() {
            self.end_window(false)?;
        }
        Ok(())
    }

    fn add_page(&mut self, directory: &DirPath, versions: Vec<Version>) -> Result<(), Status> {
        let mut lengths = Writer::new();
        let mut objects = Vec::with_capacity(versions.len());
        let mut deactivated = Vec::with_capacity(versions.len());
        for version in versions {
            let position = self.window.objects;
            self.window.objects += 1;
            self.window.bytes += version.object.stat.size.min(WINDOW_BYTES);
            if has_data(&version.object) {
                let chunks = self.chunks(&version.object);
                chunks.iter().for_each(|&(_, bytes)| lengths.varint(u64::from(bytes)));
                let wanted = within(&version.object, chunks, &self.range);
                self.window.contents.push((position, wanted));
            }
            deactivated.push(version.deactivated.map_or(0, |time| time.0));
            objects.push(version.object);
        }
        self.window.directories += 1;
        self.window.message_objects += objects.len();
        self.window.message.push(proto::DirectoryVersions {
            directory: Bytes::copy_from_slice(directory.as_bytes()),
            page: page::encode(&objects).into(),
            deactivated,
            chunk_lengths: lengths.finish().into(),
        });
        Ok(())
    }

    /// The places of the object's chunks with their lengths; 0 where the pack's table is lost.
    fn chunks(&self, object: &Object) -> Vec<(Place, u32)> {
        places(object)
            .map(|place| (place, self.core.pools.chunk(place).map_or(0, |(bytes, _)| bytes)))
            .collect()
    }

    fn send(&self, message: proto::restore_reply::Message) -> Result<(), Status> {
        let reply = proto::RestoreReply { message: Some(message) };
        self.replies
            .blocking_send(Ok(reply))
            .map_err(|_| Status::cancelled("the client is gone"))
    }

    fn send_entries(&mut self) -> Result<(), Status> {
        let directories = std::mem::take(&mut self.window.message);
        self.window.message_objects = 0;
        if directories.is_empty() {
            return Ok(());
        }
        self.send(proto::restore_reply::Message::Entries(proto::VersionsReply { directories }))
    }

    fn end_window(&mut self, last: bool) -> Result<(), Status> {
        self.send_entries()?;
        let number = self.window.number;
        let next = Window::new(number + 1, self.window.directories_max);
        let window = std::mem::replace(&mut self.window, next);
        let end = proto::WindowEnd { window: number, last };
        self.send(proto::restore_reply::Message::EntriesEnd(end))?;
        self.waiting.push_back((number, window.contents));
        if self.waiting.len() >= WINDOWS_AHEAD { self.send_data(false) } else { Ok(()) }
    }

    fn finish(mut self) -> Result<(), Status> {
        self.end_window(true)?;
        while !self.waiting.is_empty() {
            self.send_data(self.waiting.len() == 1)?;
        }
        Ok(())
    }

    /// Waits for what the client wants of the oldest window, and sends it.
    fn send_data(&mut self, last: bool) -> Result<(), Status> {
        let Some((window, contents)) = self.waiting.pop_front() else { return Ok(()) };
        let gone = || Status::cancelled("the client is gone");
        let wanted = self.answers.blocking_recv().ok_or_else(gone)?;
        if wanted.window != window {
            return Err(refusal::malformed("an answer to another window"));
        }
        let is_wanted = |position: usize| {
            let byte = wanted.bits.get(position / 8).copied().unwrap_or(0);
            byte >> (position % 8) & 1 == 1
        };
        let mut places: BTreeMap<PackNumber, Vec<u32>> = BTreeMap::new();
        let mut wanted_files = 0;
        for (_, chunks) in contents.iter().filter(|(position, _)| is_wanted(*position)) {
            wanted_files += 1;
            for (place, _) in chunks {
                places.entry(place.pack()).or_default().push(place.index());
            }
        }
        // Who has most of it already, as in a second try, is not likely to want what follows.
        let is_mostly_wanted = wanted_files * 2 >= contents.len();
        self.ask_volumes(&places, is_mostly_wanted)?;
        let mut read_ahead = ReadAhead::new(self.core, &places);
        read_ahead.advance(self.core, 0);
        while let Some(pack) = self.next_pack(&places)? {
            let mut indexes = places.remove(&pack).unwrap_or_default();
            indexes.sort_unstable();
            indexes.dedup();
            self.send_pack(pack, &indexes, &mut read_ahead)?;
            if let Some(ahead) = &mut self.ahead {
                ahead.done_with(pack);
                if is_mostly_wanted {
                    ahead.advance().map_err(Status::failed_precondition)?;
                }
            }
        }
        self.send(proto::restore_reply::Message::DataEnd(proto::WindowEnd { window, last }))
    }

    /// Has volumes that hold what is wanted read, and what follows where `and_on`.
    fn ask_volumes(
        &mut self,
        places: &BTreeMap<PackNumber, Vec<u32>>,
        and_on: bool,
    ) -> Result<(), Status> {
        let Some(ahead) = &mut self.ahead else { return Ok(()) };
        let pools = &self.core.pools;
        let shelved = places.keys().filter(|pack| pools.is_only_shelved(**pack));
        let shelved: Vec<_> = shelved.map(|pack| (*pack, pools.bytes_of(*pack))).collect();
        ahead.need(&shelved).map_err(Status::failed_precondition)?;
        if and_on {
            ahead.advance().map_err(Status::failed_precondition)?;
        }
        Ok(())
    }

    /// The pack that is sent next: one that need not be waited for, if there is one.
    fn next_pack(
        &mut self,
        places: &BTreeMap<PackNumber, Vec<u32>>,
    ) -> Result<Option<PackNumber>, Status> {
        let Some(ahead) = &mut self.ahead else { return Ok(places.keys().next().copied()) };
        let packs: Vec<PackNumber> = places.keys().copied().collect();
        let Some(pack) = ahead.choose(&packs) else { return Ok(None) };
        if self.core.pools.is_only_shelved(pack) {
            let bytes = self.core.pools.bytes_of(pack);
            let replies = self.replies;
            let waited = ahead.wait_for(pack, bytes, &|| !replies.is_closed());
            waited.map_err(Status::failed_precondition)?;
        }
        Ok(Some(pack))
    }

    /// Sends the quanta of `pack` that hold the chunks at `indexes`, which are sorted.
    fn send_pack(
        &self,
        pack: PackNumber,
        indexes: &[u32],
        read_ahead: &mut ReadAhead,
    ) -> Result<(), Status> {
        let table = match self.core.pools.table(pack) {
            Ok(table) => table,
            Err(error) => return self.send_damaged(pack, indexes, &model::chain(&error)),
        };
        let mut rest = indexes;
        while let Some(&index) = rest.first() {
            let Some(at) = table.quantum_of(index) else {
                return self.send_damaged(pack, rest, "the pack has no such chunk");
            };
            let quantum = table.quanta()[at];
            let end = quantum.first_index + quantum.chunk_count;
            let (of_quantum, behind) = rest.split_at(rest.partition_point(|&index| index < end));
            rest = behind;
            match self.core.pools.read(pack, &quantum) {
                Ok(record) => {
                    read_ahead.advance(self.core, record.len() as u64);
                    let (from, to) = (quantum.first_index as usize, end as usize);
                    let digests = table.digests()[from..to].iter().flat_map(|digest| digest.0);
                    self.send(proto::restore_reply::Message::Quantum(proto::RestoredQuantum {
                        first_place: Place::new(pack, quantum.first_index).code(),
                        record: record.into(),
                        digests: digests.collect::<Vec<u8>>().into(),
                    }))?;
                }
                Err(error) => {
                    tracing::error!(error = model::chain(&error), "a quantum is damaged");
                    self.send_damaged(pack, of_quantum, &model::chain(&error))?;
                }
            }
        }
        Ok(())
    }

    fn send_damaged(&self, pack: PackNumber, indexes: &[u32], reason: &str) -> Result<(), Status> {
        for &index in indexes {
            self.send(proto::restore_reply::Message::Damaged(proto::DamagedQuantum {
                first_place: Place::new(pack, index).code(),
                chunk_count: 1,
                reason: reason.to_owned(),
            }))?;
        }
        Ok(())
    }
}

/// Those of the object's chunks, which are all of them with their lengths, that hold some of the
/// bytes in `range`; all where their lengths cannot be told.
fn within(object: &Object, chunks: Vec<(Place, u32)>, range: &Range<u64>) -> Vec<(Place, u32)> {
    let Payload::Extents(extents) = &object.payload else { return chunks };
    if *range == (0..u64::MAX) || chunks.iter().any(|&(_, bytes)| bytes == 0) {
        return chunks;
    }
    let mut rest = chunks.into_iter();
    let (mut offset, mut wanted) = (0_u64, Vec::new());
    for extent in extents {
        let (count, content) = match extent {
            Extent::Hole { bytes } => {
                offset = offset.saturating_add(*bytes);
                continue;
            }
            Extent::Chunks(run) => (run.count, None),
            Extent::Sealed { bytes, .. } => (1, Some(*bytes)),
        };
        for (place, bytes) in rest.by_ref().take(count as usize) {
            let end = offset.saturating_add(u64::from(content.unwrap_or(bytes)));
            if offset < range.end && end > range.start {
                wanted.push((place, bytes));
            }
            offset = end;
        }
    }
    wanted
}

/// The places of an object's chunks, in order.
pub(crate) fn places(object: &Object) -> impl Iterator<Item = Place> {
    let extents = match &object.payload {
        Payload::Extents(extents) => extents.as_slice(),
        Payload::Nothing | Payload::Target(_) => &[],
    };
    extents.iter().flat_map(|extent| {
        let (first, count) = match extent.chunks() {
            Some(range) => (range.first.code(), u64::from(range.count)),
            None => (0, 0),
        };
        (0..count).filter_map(move |offset| Place::from_code(first + offset))
    })
}
