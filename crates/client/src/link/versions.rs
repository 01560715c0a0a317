//! Versions on the wire: selections, and the entries that the server sends.

use std::ops::Range;
use std::sync::Arc;

use format::{Reader, page};
use model::{
    DirPath, Extent, Kind, Name, NameError, Object, Payload, PlaceCode as _, ServerTime, Stat,
};
use wire::proto;

use super::bounds::{Room, Size};
use crate::error::{ClientError, ErrorKind, shortened};
use crate::options::VersionChoice;
use crate::path::Place;

/// Part of a filespace that a selection covers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// All objects of the filespace.
    Filespace,
    /// The object at a place.
    Object(Place),
    /// The object at a place, and all objects below it.
    Subtree(Place),
    /// The objects directly in a directory.
    Directory(DirPath),
}

/// Selection of versions in one filespace. A new selection has the active versions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Selection {
    pub(crate) filespace: Vec<u8>,
    pub(crate) scope: Scope,
    /// Time whose state is selected; `None` for the current state.
    pub(crate) at: Option<ServerTime>,
    /// True to select the newest inactive version of an object that is gone.
    pub(crate) inactive: bool,
    pub(crate) all_versions: bool,
    /// Range of bytes that are wanted of each file.
    pub(crate) range: Range<u64>,
    /// Number of the drill whose sample is selected, for a restore.
    pub(crate) drill: Option<u64>,
}

/// Range of all bytes of a file.
pub(crate) const WHOLE_FILE: Range<u64> = 0..u64::MAX;

impl Selection {
    fn new(filespace: &[u8], scope: Scope) -> Self {
        let (filespace, range) = (filespace.to_vec(), WHOLE_FILE);
        Self {
            filespace,
            scope,
            at: None,
            inactive: false,
            all_versions: false,
            range,
            drill: None,
        }
    }

    pub(crate) fn of_filespace(filespace: &[u8]) -> Self {
        Self::new(filespace, Scope::Filespace)
    }

    pub(crate) fn of_object(place: &Place) -> Self {
        Self::new(&place.filespace, Scope::Object(place.clone()))
    }

    pub(crate) fn of_subtree(place: &Place) -> Self {
        Self::new(&place.filespace, Scope::Subtree(place.clone()))
    }

    pub(crate) fn of_directory(filespace: &[u8], directory: DirPath) -> Self {
        Self::new(filespace, Scope::Directory(directory))
    }

    /// Returns the selection with the versions of `choice`.
    #[must_use]
    pub(crate) fn with_versions(self, choice: &VersionChoice) -> Self {
        Self { at: choice.at, inactive: choice.inactive, ..self }
    }

    /// Returns true if all objects in `directory` may be selected.
    fn covers(&self, directory: &DirPath) -> bool {
        match &self.scope {
            Scope::Filespace => true,
            Scope::Object(_) => false,
            Scope::Subtree(place) if place.name.is_some() => place.below().contains(directory),
            Scope::Subtree(place) => place.directory.contains(directory),
            Scope::Directory(own) => own == directory,
        }
    }

    /// Returns true if the selection names the object `name` of `directory`.
    fn is_of(&self, directory: &DirPath, name: &Name) -> bool {
        let (Scope::Object(place) | Scope::Subtree(place)) = &self.scope else { return false };
        let is_named = place.name.as_ref().map_or_else(|| *name == Name::root(), |own| own == name);
        is_named && *directory == place.directory
    }

    /// Makes the message of a selection of what `node` has stored; empty for the node's own.
    pub(crate) fn message(&self, node: &str) -> proto::Selection {
        let (directory, name, recursive) = match &self.scope {
            Scope::Filespace => (DirPath::above_root(), Vec::new(), false),
            Scope::Directory(directory) => (directory.clone(), Vec::new(), false),
            Scope::Object(Place { directory, name, .. }) => {
                let name = name.clone().unwrap_or_else(Name::root);
                (directory.clone(), name.as_bytes().to_vec(), false)
            }
            // Without a name the selection covers the root object and everything below it.
            Scope::Subtree(Place { directory, name, .. }) => {
                let name = name.as_ref().map_or(Vec::new(), |name| name.as_bytes().to_vec());
                (directory.clone(), name, true)
            }
        };
        proto::Selection {
            filespace: self.filespace.clone().into(),
            directory: directory.as_bytes().to_vec().into(),
            name: name.into(),
            recursive,
            one_directory: matches!(self.scope, Scope::Directory(_)),
            at: self.at.map_or(0, |time| time.0),
            inactive: self.inactive,
            all_versions: self.all_versions,
            from: self.range.start,
            bytes: if self.range.end == u64::MAX { 0 } else { self.range.end - self.range.start },
            drill: self.drill.unwrap_or(0),
            node: node.to_owned(),
        }
    }
}

/// Returns true if objects with this `stat` have data.
pub(crate) fn has_data(stat: &Stat) -> bool {
    stat.kind == Kind::File && stat.size > 0
}

/// Entries of one message.
pub(crate) struct Entries {
    pub(crate) entries: Vec<Entry>,
    pub(crate) size: Size,
}

/// Parses the directories of a message, in order. The message must have only objects of
/// `selection`.
pub(crate) fn decode(
    message: &proto::VersionsReply,
    selection: &Selection,
) -> Result<Entries, ClientError> {
    let mut room = Room::of_a_message();
    let mut all = Entries { entries: Vec::new(), size: Size::default() };
    for directory in &message.directories {
        let Entries { entries, size } = decode_directory(directory)?;
        room.take(size)?;
        expect_selected(&entries, selection)?;
        all.entries.extend(entries);
        all.size = all.size.plus(size);
    }
    Ok(all)
}

/// Fails unless `entries`, which are of one directory, are of `selection`. A server has no reason
/// to send others, and a restore would make them in the wrong place.
fn expect_selected(entries: &[Entry], selection: &Selection) -> Result<(), ClientError> {
    if entries.first().is_none_or(|first| selection.covers(&first.directory)) {
        return Ok(());
    }
    let is_foreign = |entry: &&Entry| !selection.is_of(&entry.directory, &entry.object.name);
    let Some(foreign) = entries.iter().find(is_foreign) else { return Ok(()) };
    let path = shortened(model::escaped(&foreign.directory.join(&foreign.object.name)));
    Err(ClientError::new(ErrorKind::Bug, format!("the server sent {path} unasked")))
}

/// Version of an object, as the server sends it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Directory of the object, which can hold the object's name. All entries of a directory share
    /// its path.
    pub(crate) directory: Arc<DirPath>,
    pub(crate) object: Object,
    /// Time at which the version became inactive; `None` for an active version.
    pub(crate) deactivated: Option<ServerTime>,
    /// Length of each chunk; 0 if the server does not know it.
    pub(crate) chunk_lengths: Vec<u32>,
}

/// Chunk of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    /// Code of the chunk's place.
    pub(crate) place: u64,
    /// Offset in the file.
    pub(crate) offset: u64,
    /// Number of bytes that the piece fills in the file.
    pub(crate) bytes: u32,
    /// True for an encrypted chunk.
    pub(crate) is_sealed: bool,
}

impl Piece {
    /// Returns the offset in the file of the first byte after the piece.
    pub(crate) fn end(&self) -> u64 {
        self.offset + u64::from(self.bytes)
    }

    /// Returns true if the piece holds some of the bytes in `range`.
    pub(crate) fn is_within(&self, range: &Range<u64>) -> bool {
        self.offset < range.end && self.end() > range.start
    }
}

impl Entry {
    /// Returns the pieces of the object's data in order; `None` if some of them are lost or damaged
    /// at the server.
    pub(crate) fn pieces(&self) -> Option<Vec<Piece>> {
        let mut pieces = Vec::with_capacity(self.chunk_lengths.len());
        self.each_piece(|piece| pieces.push(piece))?;
        Some(pieces)
    }

    /// Returns true if [`Self::pieces`] returns the pieces.
    pub(crate) fn has_whole_data(&self) -> bool {
        self.each_piece(|_| ()).is_some()
    }

    /// Passes the pieces of the object's data to `take`, in order. Returns `None` if some of them
    /// are lost or damaged at the server; `take` may have got others before.
    fn each_piece(&self, mut take: impl FnMut(Piece)) -> Option<()> {
        let Payload::Extents(extents) = &self.object.payload else { return Some(()) };
        let mut lengths = self.chunk_lengths.iter();
        let mut offset = 0_u64;
        for extent in extents {
            match extent {
                Extent::Hole { bytes } => offset = offset.checked_add(*bytes)?,
                Extent::Chunks(range) => {
                    for number in 0..u64::from(range.count) {
                        let length = *lengths.next().filter(|&&length| length > 0)?;
                        let place = range.first.code().checked_add(number)?;
                        take(Piece { place, offset, bytes: length, is_sealed: false });
                        offset = offset.checked_add(u64::from(length))?;
                    }
                }
                Extent::Sealed { place, bytes } => {
                    lengths.next().filter(|&&length| length > 0)?;
                    let (place, bytes) = (place.code(), *bytes);
                    take(Piece { place, offset, bytes, is_sealed: true });
                    offset = offset.checked_add(u64::from(bytes))?;
                }
            }
        }
        (offset == self.object.stat.size).then_some(())
    }

    /// Returns the pieces that hold some of the bytes in `range`; `None` if [`Self::pieces`]
    /// returns `None`.
    pub(crate) fn pieces_within(&self, range: &Range<u64>) -> Option<Vec<Piece>> {
        let mut pieces = self.pieces()?;
        pieces.retain(|piece| piece.is_within(range));
        Some(pieces)
    }
}

/// Makes the error for a page of `directory` that makes no sense.
pub(super) fn damaged(directory: &[u8], why: &dyn std::fmt::Display) -> ClientError {
    let directory = shortened(model::escaped(directory));
    let message = format!("the server sent a damaged page of the directory {directory}: {why}");
    ClientError::new(ErrorKind::Damaged, message)
}

/// Parses the versions of one directory.
fn decode_directory(message: &proto::DirectoryVersions) -> Result<Entries, ClientError> {
    let damaged = |why: &dyn std::fmt::Display| damaged(&message.directory, why);
    let directory = DirPath::new(&message.directory).map_err(|error| damaged(&error))?;
    let directory = Arc::new(directory);
    let objects: Vec<Object> = page::decode(&message.page).map_err(|error| damaged(&error))?;
    if !objects.iter().all(|object| directory.can_hold(&object.name)) {
        return Err(damaged(&NameError::Root));
    }
    let mut lengths = Reader::new(&message.chunk_lengths, "chunk lengths");
    let mut entries = Vec::with_capacity(objects.len());
    for (at, object) in objects.into_iter().enumerate() {
        let chunk_count = match &object.payload {
            Payload::Extents(extents) if has_data(&object.stat) => extents.iter().map(chunks).sum(),
            _ => 0_u64,
        };
        let known = if lengths.rest().is_empty() { 0 } else { chunk_count };
        let chunk_lengths = (0..known)
            .map(|_| lengths.number::<u32>())
            .collect::<Result<_, _>>()
            .map_err(|error| damaged(&error))?;
        let deactivated = message.deactivated.get(at).copied().filter(|time| *time != 0);
        let directory = Arc::clone(&directory);
        let deactivated = deactivated.map(ServerTime);
        entries.push(Entry { directory, object, deactivated, chunk_lengths });
    }
    let size = Size::of(&directory, &entries);
    Ok(Entries { entries, size })
}

fn chunks(extent: &Extent) -> u64 {
    extent.chunks().map_or(0, |range| u64::from(range.count))
}

#[cfg(test)]
mod tests {
    use model::{ChunkRange, ClassId, PackNumber, Place as ChunkPlace, Timestamp};

    use super::*;

    fn place(number: u32) -> ChunkPlace {
        ChunkPlace::new(PackNumber(1), number)
    }

    fn entry(size: u64, extents: Vec<Extent>, chunk_lengths: &[u32]) -> Entry {
        let stat = Stat {
            kind: Kind::File,
            mode: 0o644,
            uid: 0,
            gid: 0,
            size,
            mtime: Timestamp::default(),
            ctime: Timestamp::default(),
            inode: 1,
            linked: false,
            device: 0,
        };
        let object = Object {
            name: Name::new(b"file").expect("a name"),
            stat,
            attributes: Arc::default(),
            class: ClassId(1),
            inserted: ServerTime(0),
            payload: Payload::Extents(extents),
        };
        let chunk_lengths = chunk_lengths.to_vec();
        Entry { directory: Arc::new(DirPath::root()), object, deactivated: None, chunk_lengths }
    }

    fn chunks(first: u32, count: u32) -> Extent {
        Extent::Chunks(ChunkRange { first: place(first), count })
    }

    /// Returns the offset, the length and the seal of each piece.
    fn shown(pieces: Option<Vec<Piece>>) -> Option<Vec<(u64, u32, bool)>> {
        let show = |piece: &Piece| (piece.offset, piece.bytes, piece.is_sealed);
        pieces.map(|pieces| pieces.iter().map(show).collect())
    }

    #[test]
    fn pieces_follow_each_other_and_holes_leave_gaps() {
        let sealed = Extent::Sealed { place: place(9), bytes: 5 };
        let entry = entry(30, vec![chunks(0, 2), Extent::Hole { bytes: 10 }, sealed], &[7, 8, 33]);
        let expected = vec![(0, 7, false), (7, 8, false), (25, 5, true)];
        assert_eq!(shown(entry.pieces()), Some(expected));
        assert!(entry.has_whole_data());
        assert_eq!(shown(entry.pieces_within(&(7..8))), Some(vec![(7, 8, false)]));
        assert_eq!(shown(entry.pieces_within(&(15..25))), Some(vec![]));
        assert_eq!(shown(entry.pieces_within(&(14..26))), Some(vec![(7, 8, false), (25, 5, true)]));
    }

    #[test]
    fn data_that_is_not_known_in_full_is_lost() {
        for (what, entry) in [
            ("a length is missing", entry(15, vec![chunks(0, 2)], &[7])),
            ("a length is not known", entry(15, vec![chunks(0, 2)], &[7, 0])),
            ("the lengths are not the size", entry(16, vec![chunks(0, 2)], &[7, 8])),
            ("a hole is too large", {
                let hole = Extent::Hole { bytes: u64::MAX };
                entry(15, vec![chunks(0, 1), hole], &[7])
            }),
        ] {
            assert_eq!(entry.pieces(), None, "{what}");
            assert!(!entry.has_whole_data(), "{what}");
        }
    }

    #[test]
    fn versions_come_as_they_were_sent() {
        let sent = entry(15, vec![chunks(3, 2)], &[7, 8]);
        // Varints: lengths below 128 take one byte each.
        let lengths = [7, 8];
        let message = |chunk_lengths: &[u8]| proto::DirectoryVersions {
            directory: b"/a/".to_vec().into(),
            page: page::encode(std::slice::from_ref(&sent.object)).into(),
            chunk_lengths: chunk_lengths.to_vec().into(),
            deactivated: vec![5],
        };
        let received = decode_directory(&message(&lengths)).expect("a page").entries;
        assert_eq!(received.len(), 1);
        assert_eq!(received[0].directory.as_bytes(), b"/a/");
        assert_eq!(received[0].object, sent.object);
        assert_eq!(received[0].deactivated, Some(ServerTime(5)));
        assert_eq!(received[0].pieces(), sent.pieces());
        // A message without lengths means that the server does not know where the data lies.
        assert_eq!(decode_directory(&message(b"")).expect("a page").entries[0].pieces(), None);
        assert!(decode_directory(&message(&lengths[..1])).is_err());
    }

    /// Makes the message for a directory with the empty file `name`.
    fn of_name(directory: &[u8], name: &[u8]) -> proto::DirectoryVersions {
        let mut object = entry(0, Vec::new(), &[]).object;
        object.name = Name::new(name).expect("a name");
        object.payload = Payload::Nothing;
        proto::DirectoryVersions {
            directory: directory.to_vec().into(),
            page: page::encode(&[object]).into(),
            ..Default::default()
        }
    }

    #[test]
    fn a_page_with_an_impossible_path_is_damaged_and_named() {
        for (directory, name, shown) in [
            (&b"/a/"[..], &b"/"[..], "directory /a/:"),
            (b"", b"a", "directory :"),
            (b"/a/../", b"a", "directory /a/../:"),
            (b"/a//", b"a", "directory /a//:"),
            (b"a/", b"a", "directory a/:"),
            (b"/\x1b[2J\n/", b"/", "directory /\\x1b[2J\\x0a/:"),
        ] {
            let error = decode_directory(&of_name(directory, name)).err().expect("refused");
            assert_eq!(error.kind, ErrorKind::Damaged);
            assert!(error.message.contains(shown), "{}", error.message);
        }
        assert!(decode_directory(&of_name(b"", b"/")).is_ok());
    }

    #[test]
    fn a_message_has_room_for_some_entries() {
        // A long path counts for each directory.
        let long = [&b"/"[..], &b"d/".repeat(1 << 20)].concat();
        let size = decode_directory(&of_name(&long, b"f")).expect("a page").size;
        let mut room = Room::of_a_message();
        let taken = std::iter::repeat_with(|| room.take(size)).take(1000).take_while(Result::is_ok);
        assert!((100..200).contains(&taken.count()));
        let small = decode_directory(&of_name(b"/a/", b"f")).expect("a page").size;
        let mut room = Room::of_a_message();
        let taken = std::iter::repeat_with(|| room.take(small)).take_while(Result::is_ok);
        assert!((100_000..1_000_000).contains(&taken.count()));
    }

    #[test]
    fn only_selected_objects_are_taken() {
        let at = |directory: &[u8], name: Option<&[u8]>| Place {
            filespace: b"/".to_vec(),
            directory: DirPath::new(directory).expect("a directory"),
            name: name.map(|name| Name::new(name).expect("a name")),
        };
        let (own, whole) = (at(b"/a/", Some(b"b")), at(b"", None));
        let directory = DirPath::new(b"/a/").expect("a directory");
        for (selection, directory, name, is_taken) in [
            (Selection::of_object(&own), &b"/a/"[..], &b"b"[..], true),
            (Selection::of_object(&own), b"/a/", b"c", false),
            (Selection::of_object(&own), b"/a/b/", b"c", false),
            (Selection::of_subtree(&own), b"/a/", b"b", true),
            (Selection::of_subtree(&own), b"/a/b/c/", b"d", true),
            (Selection::of_subtree(&own), b"/a/", b"c", false),
            (Selection::of_subtree(&own), b"/etc/", b"passwd", false),
            (Selection::of_subtree(&whole), b"/etc/", b"passwd", true),
            (Selection::of_subtree(&whole), b"", b"/", true),
            (Selection::of_directory(b"/", directory.clone()), b"/a/", b"c", true),
            (Selection::of_directory(b"/", directory), b"/a/b/", b"c", false),
        ] {
            let message = proto::VersionsReply { directories: vec![of_name(directory, name)] };
            let decoded = decode(&message, &selection);
            assert_eq!(decoded.is_ok(), is_taken, "{selection:?} {directory:?}");
        }
    }

    #[test]
    fn a_selection_says_what_it_takes() {
        let place = |name: Option<&[u8]>| Place {
            filespace: b"/home".to_vec(),
            directory: DirPath::new(b"/me/").expect("a directory"),
            name: name.map(|name| Name::new(name).expect("a name")),
        };
        for (selection, directory, name, recursive, one_directory) in [
            (Selection::of_filespace(b"/home"), &b""[..], &b""[..], false, false),
            (Selection::of_object(&place(Some(b"x"))), b"/me/", b"x", false, false),
            (Selection::of_object(&place(None)), b"/me/", b"/", false, false),
            (Selection::of_subtree(&place(Some(b"x"))), b"/me/", b"x", true, false),
            (Selection::of_subtree(&place(None)), b"/me/", b"", true, false),
            (Selection::of_directory(b"/home", DirPath::root()), b"/", b"", false, true),
        ] {
            let message = selection.message("");
            assert_eq!(message.filespace, b"/home"[..]);
            assert_eq!((&message.directory[..], &message.name[..]), (directory, name));
            assert_eq!((message.recursive, message.one_directory), (recursive, one_directory));
            assert_eq!((message.from, message.bytes), (0, 0), "whole files");
        }
        let part = Selection { range: 10..25, ..Selection::of_filespace(b"/") };
        assert_eq!((part.message("").from, part.message("").bytes), (10, 15));
    }
}
