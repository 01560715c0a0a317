//! Restores: windows of entries, and then the data of the files that the client lacks, in media
//! order.
//!
//! For each window the client answers which files it lacks. Meanwhile the server already sends the
//! entries of the next window. Within a window each quantum is sent once, however many files need
//! it. So with larger windows fewer quanta are sent a second time.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ops::Range;

use format::{Writer, page};
use model::{DirPath, Extent, Object, PackNumber, Payload, Place, Version};

use crate::error::StoreError;
use crate::store::Store;
use crate::volumes::fetch::EarlyRequests;
use crate::volumes::wait::Reader;

use super::ahead::ReadAhead;
use super::recipient::{DirectoryVersions, Message, Recipient, WindowEnd};
use super::select::{Selection, VersionBatch, has_data, split};
use super::trim::{self, Trimmer};
use crate::places::places;
use crate::store::drills::Delivery;

/// Maximum number of directories in a window, even if the client can keep more of them open.
const WINDOW_DIRECTORIES_MAX: u32 = 2048;
/// Number of directories in a window for a client that does not tell how many it can keep open.
const WINDOW_DIRECTORIES: u32 = 512;
/// Maximum number of objects in a window, per directory that the window may have.
const OBJECTS_PER_DIRECTORY: usize = 16;
/// Total size of files, in bytes, after which a window ends.
const WINDOW_BYTES: u64 = 1 << 30;
/// Size of extended attributes, in bytes, after which a window ends: the client keeps them in
/// memory until the window is complete.
const WINDOW_ATTRIBUTE_BYTES: usize = 64 << 20;
/// Maximum number of windows that wait for the client's answer.
const WINDOWS_AHEAD: usize = 2;
/// Number of directories after which a message ends.
const MESSAGE_DIRECTORIES: usize = 64;
/// Number of objects after which a message ends.
const MESSAGE_OBJECTS: usize = 2048;
/// Size of the pages and of the lengths of chunks, in bytes, after which a message ends.
const MESSAGE_BYTES: usize = 8 << 20;

/// The data of a file that a window may send.
struct Content {
    /// Position of the file among all objects of the window.
    position: usize,
    /// Places of chunks with their lengths.
    chunks: Vec<(Place, u32)>,
}

impl Content {
    fn bytes(&self) -> u64 {
        self.chunks.iter().map(|&(_, bytes)| u64::from(bytes)).sum()
    }
}

struct Window {
    number: u64,
    directories_max: usize,
    objects: usize,
    directories: usize,
    bytes: u64,
    /// Bytes of extended attributes.
    attribute_bytes: usize,
    contents: Vec<Content>,
    message: Vec<DirectoryVersions>,
    message_objects: usize,
    message_bytes: usize,
}

impl Window {
    fn new(number: u64, directories_max: usize) -> Self {
        Self {
            number,
            directories_max,
            objects: 0,
            directories: 0,
            bytes: 0,
            attribute_bytes: 0,
            contents: Vec::new(),
            message: Vec::new(),
            message_objects: 0,
            message_bytes: 0,
        }
    }

    fn is_full(&self) -> bool {
        self.objects >= self.directories_max * OBJECTS_PER_DIRECTORY
            || self.directories >= self.directories_max
            || self.bytes >= WINDOW_BYTES
            || self.attribute_bytes >= WINDOW_ATTRIBUTE_BYTES
    }
}

/// Sends all versions that `selection` selects. Blocks, and ends early when the client is gone. If
/// the catalogue cannot read some of them, sends all others, and fails then. Returns the files that
/// were sent.
///
/// `directories` is the number of directories that the client can keep open, if the client tells
/// it.
pub fn serve(
    store: &Store,
    selection: &Selection,
    reader: Reader,
    directories: Option<u32>,
    recipient: &mut dyn Recipient,
) -> Result<Delivery, StoreError> {
    let directories = directories.unwrap_or(WINDOW_DIRECTORIES);
    let directories_max = directories.min(WINDOW_DIRECTORIES_MAX);
    let mut sender = Sender {
        store,
        ahead: look_ahead(store, selection, reader)?,
        recipient,
        range: selection.range.clone(),
        waiting: VecDeque::new(),
        window: Window::new(0, directories_max as usize),
        trimmer: None,
        damaged: HashSet::new(),
        delivery: Delivery::default(),
    };
    let unreadable = selection.walk_readable(&*store.catalog, |batch| sender.add(batch))?;
    let delivery = sender.finish(unreadable.is_none())?;
    unreadable.map_or(Ok(delivery), |unreadable| Err(unreadable.into()))
}

/// Collects the packs on volumes that the selection needs, in the order in which it needs them.
/// Returns `None` if there is no such pack.
fn look_ahead(
    store: &Store,
    selection: &Selection,
    reader: Reader,
) -> Result<Option<EarlyRequests>, StoreError> {
    if !store.pools.has_shelves() {
        return Ok(None);
    }
    let mut seen = HashSet::new();
    let mut packs = Vec::new();
    selection.walk_readable(&*store.catalog, |batch| {
        for object in batch.versions.iter().map(|version| &version.object) {
            for pack in packs_of(store, object, &selection.range) {
                if seen.insert(pack) && store.pools.is_only_shelved(pack) {
                    packs.push((pack, store.pools.bytes_of(pack)));
                }
            }
        }
        Ok(())
    })?;
    Ok((!packs.is_empty()).then(|| EarlyRequests::new(&store.volumes, reader, packs)))
}

/// Returns the packs of the chunks that hold some of the object's bytes in `range`.
fn packs_of(store: &Store, object: &Object, range: &Range<u64>) -> Vec<PackNumber> {
    if *range == (0..u64::MAX) {
        return places(object).map(|place| place.pack()).collect();
    }
    let lengths = |place: Place| store.pools.chunk(place).map_or(0, |(bytes, _)| bytes);
    let chunks = places(object).map(|place| (place, lengths(place))).collect();
    within(object, chunks, range)
        .into_iter()
        .map(|(place, _)| place.pack())
        .collect()
}

/// A window whose entries have been sent.
struct SentWindow {
    number: u64,
    contents: Vec<Content>,
}

struct Sender<'a> {
    store: &'a Store,
    /// Requests packs on volumes in advance.
    ahead: Option<EarlyRequests>,
    recipient: &'a mut dyn Recipient,
    /// Range of bytes that are sent of each file.
    range: Range<u64>,
    /// Windows whose entries have been sent, oldest first.
    waiting: VecDeque<SentWindow>,
    window: Window,
    /// Maker of parts of quanta; `None` until the first part is made.
    trimmer: Option<Trimmer>,
    /// Places of the oldest window that could not be read.
    damaged: HashSet<Place>,
    delivery: Delivery,
}

impl Sender<'_> {
    fn add(&mut self, batch: VersionBatch) -> Result<(), StoreError> {
        for VersionBatch { directory, versions } in split(batch) {
            self.add_page(directory, versions);
            // A directory may have very many versions.
            if self.window.message.len() >= MESSAGE_DIRECTORIES
                || self.window.message_objects >= MESSAGE_OBJECTS
                || self.window.message_bytes >= MESSAGE_BYTES
            {
                self.send_entries()?;
            }
            if self.window.is_full() {
                self.end_window(false)?;
            }
        }
        Ok(())
    }

    fn add_page(&mut self, directory: DirPath, versions: Vec<Version>) {
        let mut lengths = Writer::new();
        let mut objects = Vec::with_capacity(versions.len());
        let mut deactivated = Vec::with_capacity(versions.len());
        for version in versions {
            let position = self.window.objects;
            self.window.objects += 1;
            self.window.bytes += version.object.stat.size.min(WINDOW_BYTES);
            let xattrs = &version.object.attributes.xattrs;
            self.window.attribute_bytes +=
                xattrs.iter().map(|xattr| xattr.name.len() + xattr.value.len()).sum::<usize>();
            if has_data(&version.object) {
                let chunks = self.chunks(&version.object);
                chunks.iter().for_each(|&(_, bytes)| lengths.varint(u64::from(bytes)));
                let chunks = within(&version.object, chunks, &self.range);
                self.delivery.selected += 1;
                self.window.contents.push(Content { position, chunks });
            }
            deactivated.push(version.deactivated);
            objects.push(version.object);
        }
        assert_eq!(objects.len(), deactivated.len(), "each version has an object and an end");
        self.window.directories += 1;
        self.window.message_objects += objects.len();
        let (page, chunk_lengths) = (page::encode(&objects), lengths.finish());
        self.window.message_bytes += page.len() + chunk_lengths.len();
        let versions = DirectoryVersions { directory, page, deactivated, chunk_lengths };
        self.window.message.push(versions);
    }

    /// Returns the places of the object's chunks with the chunks' lengths. A length is 0 if the
    /// pack's table is lost.
    fn chunks(&self, object: &Object) -> Vec<(Place, u32)> {
        places(object)
            .map(|place| (place, self.store.pools.chunk(place).map_or(0, |(bytes, _)| bytes)))
            .collect()
    }

    fn send(&mut self, message: Message) -> Result<(), StoreError> {
        if self.recipient.send(message) { Ok(()) } else { Err(gone()) }
    }

    fn send_entries(&mut self) -> Result<(), StoreError> {
        let directories = std::mem::take(&mut self.window.message);
        self.window.message_objects = 0;
        self.window.message_bytes = 0;
        if directories.is_empty() {
            return Ok(());
        }
        self.send(Message::Entries(directories))
    }

    fn end_window(&mut self, last: bool) -> Result<(), StoreError> {
        self.send_entries()?;
        let number = self.window.number;
        let next = Window::new(number + 1, self.window.directories_max);
        let window = std::mem::replace(&mut self.window, next);
        self.send(Message::EntriesEnd(WindowEnd { window: number, last }))?;
        self.waiting.push_back(SentWindow { number, contents: window.contents });
        assert!(self.waiting.len() <= WINDOWS_AHEAD, "too many windows wait for an answer");
        if self.waiting.len() >= WINDOWS_AHEAD { self.send_data(false) } else { Ok(()) }
    }

    /// Ends the last window. If `is_whole` is false, an error comes after the last data.
    fn finish(mut self, is_whole: bool) -> Result<Delivery, StoreError> {
        self.end_window(true)?;
        while !self.waiting.is_empty() {
            self.send_data(is_whole && self.waiting.len() == 1)?;
        }
        Ok(self.delivery)
    }

    /// Waits for the client's answer to the oldest window, and sends the data that it lacks.
    fn send_data(&mut self, last: bool) -> Result<(), StoreError> {
        let Some(SentWindow { number, contents }) = self.waiting.pop_front() else {
            return Ok(());
        };
        let answer = self.recipient.answer().ok_or_else(gone)?;
        if answer.window != number {
            return Err(StoreError::malformed("an answer to another window"));
        }
        let is_lacking = |position: usize| {
            let byte = answer.bits.get(position / 8).copied().unwrap_or(0);
            byte >> (position % 8) & 1 == 1
        };
        let mut places: BTreeMap<PackNumber, Vec<u32>> = BTreeMap::new();
        let mut lacking_files = 0;
        for content in contents.iter().filter(|content| is_lacking(content.position)) {
            lacking_files += 1;
            for (place, _) in &content.chunks {
                places.entry(place.pack()).or_default().push(place.index());
            }
        }
        // A client that has most of these files, as after an interrupted restore, probably has the
        // next files too.
        let lacks_most = lacking_files * 2 >= contents.len();
        self.request_packs(&places, lacks_most)?;
        let mut read_ahead = ReadAhead::new(self.store, &places);
        read_ahead.advance(self.store, 0);
        while let Some(pack) = self.next_pack(&places)? {
            let mut indexes = places.remove(&pack).unwrap_or_default();
            indexes.sort_unstable();
            indexes.dedup();
            self.send_pack(pack, &indexes, &mut read_ahead)?;
            if let Some(ahead) = &mut self.ahead {
                ahead.done_with(pack);
                if lacks_most {
                    ahead.advance()?;
                }
            }
        }
        self.send(Message::DataEnd(WindowEnd { window: number, last }))?;
        for content in &contents {
            self.count(content, is_lacking(content.position));
        }
        self.damaged.clear();
        Ok(())
    }

    /// Counts a file of a window whose data was sent. A client does not ask for a file that has
    /// only holes.
    fn count(&mut self, content: &Content, is_lacking: bool) {
        let is_sent = is_lacking || content.chunks.is_empty();
        let is_sound = !content.chunks.iter().any(|(place, _)| self.damaged.contains(place));
        if is_sent && is_sound {
            self.delivery.delivered += 1;
            self.delivery.bytes = self.delivery.bytes.saturating_add(content.bytes());
        }
    }

    /// Requests the packs of `places` that are on volumes only. Also requests packs of later
    /// windows if `goes_on` is true.
    fn request_packs(
        &mut self,
        places: &BTreeMap<PackNumber, Vec<u32>>,
        goes_on: bool,
    ) -> Result<(), StoreError> {
        let Some(ahead) = &mut self.ahead else { return Ok(()) };
        let pools = &self.store.pools;
        let shelved = places.keys().filter(|pack| pools.is_only_shelved(**pack));
        let shelved: Vec<_> = shelved.map(|pack| (*pack, pools.bytes_of(*pack))).collect();
        ahead.need(&shelved)?;
        if goes_on {
            ahead.advance()?;
        }
        Ok(())
    }

    /// Waits until the next pack to send is readable, and returns it. Packs that are already
    /// readable come first.
    fn next_pack(
        &mut self,
        places: &BTreeMap<PackNumber, Vec<u32>>,
    ) -> Result<Option<PackNumber>, StoreError> {
        let Some(ahead) = &mut self.ahead else { return Ok(places.keys().next().copied()) };
        let packs: Vec<PackNumber> = places.keys().copied().collect();
        let Some(pack) = ahead.choose(&packs) else { return Ok(None) };
        if self.store.pools.is_only_shelved(pack) {
            let bytes = self.store.pools.bytes_of(pack);
            let recipient = &*self.recipient;
            let waited = ahead.wait_for(pack, bytes, &|| recipient.is_listening());
            waited?;
        }
        Ok(Some(pack))
    }

    /// Sends the quanta of `pack` that hold the chunks at `indexes`, which are sorted.
    fn send_pack(
        &mut self,
        pack: PackNumber,
        indexes: &[u32],
        read_ahead: &mut ReadAhead,
    ) -> Result<(), StoreError> {
        let table = match self.store.pools.table(pack) {
            Ok(table) => table,
            Err(error) => {
                tracing::error!(error = model::chain(&error), "a pack cannot be read");
                self.note(pack, &error);
                return self.send_damaged(pack, indexes, &error.without_numbers());
            }
        };
        debug_assert!(indexes.is_sorted_by(|a, b| a < b), "each chunk is sent once, in order");
        let mut rest = indexes;
        while let Some(&index) = rest.first() {
            let Some(at) = table.quantum_of(index) else {
                tracing::error!(%pack, index, "a pack has no such chunk");
                return self.send_damaged(pack, rest, "the server has the data no longer");
            };
            let quantum = table.quanta()[at];
            let end = quantum.first_index + quantum.chunk_count;
            assert!((quantum.first_index..end).contains(&index), "the quantum has the chunk");
            let (of_quantum, later) = rest.split_at(rest.partition_point(|&index| index < end));
            rest = later;
            self.bring(pack)?;
            match self.store.pools.read(pack, &quantum) {
                Ok(record) => {
                    read_ahead.advance(self.store, record.len() as u64);
                    let (sent, record) = self.trim(record, quantum.first_index..end, of_quantum);
                    let (from, to) = (sent.start as usize, sent.end as usize);
                    let digests = table.digests()[from..to].iter().flat_map(|digest| digest.0);
                    self.send(Message::Quantum {
                        first_place: Place::new(pack, sent.start),
                        record,
                        digests: digests.collect(),
                    })?;
                }
                Err(error) => {
                    tracing::error!(error = model::chain(&error), "a quantum is damaged");
                    self.note(pack, &error);
                    self.send_damaged(pack, of_quantum, &error.without_numbers())?;
                }
            }
        }
        Ok(())
    }

    /// Returns the indexes of the chunks of a quantum that are sent, and their record. A reader of
    /// ranges that needs few chunks of a large quantum gets no others. `needed` are sorted indexes
    /// of chunks in `whole`.
    fn trim(
        &mut self,
        record: Vec<u8>,
        whole: Range<u32>,
        needed: &[u32],
    ) -> (Range<u32>, Vec<u8>) {
        let (Some(&first), Some(&last)) = (needed.first(), needed.last()) else {
            return (whole, record);
        };
        let number = |index: u32| (index - whole.start) as usize;
        let (part, chunks) = (number(first)..number(last) + 1, number(whole.end));
        if self.range == (0..u64::MAX) || !trim::pays(record.len(), chunks, &part) {
            return (whole, record);
        }
        if self.trimmer.is_none() {
            self.trimmer = Trimmer::new().ok();
        }
        let trimmed =
            self.trimmer.as_mut().and_then(|trimmer| trimmer.trim(&record, chunks, &part));
        // The reader finds out what is wrong with a record that cannot be opened.
        trimmed.map_or((whole, record), |trimmed| (first..last + 1, trimmed))
    }

    /// Notes a pack that has lost data, so that the server tells people of it.
    fn note(&self, pack: PackNumber, error: &pool::ReadError) {
        if error.is_loss() {
            self.store.pools.note_lost(pack);
        }
    }

    /// Brings a pack that lies on volumes only to the stage, if it is not there. Ends the restore
    /// if the client leaves meanwhile.
    fn bring(&self, pack: PackNumber) -> Result<(), StoreError> {
        match &self.ahead {
            Some(ahead) if self.store.pools.is_only_shelved(pack) => {
                let recipient = &*self.recipient;
                Ok(ahead.bring(pack, &|| recipient.is_listening())?)
            }
            _ => Ok(()),
        }
    }

    fn send_damaged(
        &mut self,
        pack: PackNumber,
        indexes: &[u32],
        reason: &str,
    ) -> Result<(), StoreError> {
        for &index in indexes {
            let place = Place::new(pack, index);
            self.damaged.insert(place);
            self.send(Message::Damaged { place, reason: reason.to_owned() })?;
        }
        Ok(())
    }
}

fn gone() -> StoreError {
    StoreError::cancelled("the client is gone")
}

/// Returns the chunks that hold some of the bytes in `range`. `chunks` are all chunks of the object
/// with their lengths. If a length is not known, all chunks are returned.
fn within(object: &Object, chunks: Vec<(Place, u32)>, range: &Range<u64>) -> Vec<(Place, u32)> {
    let Payload::Extents(extents) = &object.payload else { return chunks };
    if *range == (0..u64::MAX) || chunks.iter().any(|&(_, bytes)| bytes == 0) {
        return chunks;
    }
    let mut rest = chunks.into_iter();
    let (mut offset, mut inside) = (0_u64, Vec::new());
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
                inside.push((place, bytes));
            }
            offset = end;
        }
    }
    debug_assert!(rest.next().is_none(), "each chunk belongs to an extent");
    inside
}

#[cfg(test)]
mod tests;
