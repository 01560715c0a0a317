//! Images: the content of a device or of a disk file, as objects of a filespace of their own.
//!
//! An image is cut at fixed places into parts of [`PART_CHUNKS`] chunks. Each part is a file, so a
//! part without changes costs nothing in the next image, and a range is read without the rest. The
//! *head* is an empty file whose attribute has the facts about the image. It is committed after all
//! parts. The parts of an image are the versions that were active when its head was committed.
//!
//! ```text
//! image:/dev/sdb   /image            head
//!                  /00000000/0000    first part
//!                  /00000000/01ff    part 511: a directory has at most the parts of one page
//!                  /00000001/0000    part 512
//! ```

use std::collections::BTreeSet;
use std::ops::Range;

use model::{
    CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, DirPath, FILESPACE_BYTES_MAX, IMAGE_HEAD, Name, Object,
    PAGE_OBJECTS_MAX, ServerTime, Xattr, image_filespace, image_name,
};
use serde::{Deserialize, Serialize};

use crate::error::{ClientError, ErrorKind};
use crate::link::Link;
use crate::link::archives::DeletionSummary;
use crate::link::versions::{Entry, Selection};
use crate::path::Place;

/// Number of chunks in a part.
const PART_CHUNKS: u64 = 512;
/// Number of chunks up to which an image keeps the smallest length of chunks. Each chunk costs
/// about 100 bytes of memory during a backup.
const CHUNKS_MAX: u64 = 2 << 20;
/// Attribute of the head with the facts about the image, as JSON.
const FACTS_ATTRIBUTE: &[u8] = b"holdfast.image";
/// Version of the layout and of the facts.
const FORMAT: u32 = 1;

/// Division of an image into chunks and parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ImageLayout {
    /// Size of the image.
    pub bytes: u64,
    /// Length of each chunk but the last.
    pub chunk_bytes: u64,
}

impl ImageLayout {
    /// Returns the layout of an image of `bytes` bytes. Images of similar size have chunks of the
    /// same length, so that they can share chunks.
    pub fn of(bytes: u64) -> Self {
        let mut chunk_bytes = CHUNK_BYTES_MIN as u64;
        while chunk_bytes < CHUNK_BYTES_MAX as u64 && bytes.div_ceil(chunk_bytes) > CHUNKS_MAX {
            chunk_bytes *= 2;
        }
        Self { bytes, chunk_bytes }
    }

    /// Returns true if the numbers are those of a layout. They may come from another machine.
    fn is_valid(&self) -> bool {
        let lengths = CHUNK_BYTES_MIN as u64..=CHUNK_BYTES_MAX as u64;
        lengths.contains(&self.chunk_bytes) && self.chunk_bytes.is_power_of_two()
    }

    pub fn part_bytes(&self) -> u64 {
        self.chunk_bytes * PART_CHUNKS
    }

    /// Returns the number of parts.
    pub fn parts(&self) -> u64 {
        self.bytes.div_ceil(self.part_bytes())
    }

    /// Returns the range of the image that the part `number` holds.
    pub fn range(&self, number: u64) -> Range<u64> {
        let start = number * self.part_bytes();
        assert!(start < self.bytes, "the image has this part");
        start..(start + self.part_bytes()).min(self.bytes)
    }
}

/// Directory of the part `number`.
pub(crate) fn directory_of(number: u64) -> DirPath {
    let directory = number / PAGE_OBJECTS_MAX as u64;
    DirPath::new(format!("/{directory:08x}/").as_bytes()).expect("hex digits are a name")
}

/// Name of the part `number` in its directory.
pub(crate) fn name_of(number: u64) -> Name {
    let index = number % PAGE_OBJECTS_MAX as u64;
    Name::new(format!("{index:04x}").as_bytes()).expect("hex digits are a name")
}

/// Returns the number of the part `name` in `directory`; `None` if it is no part.
pub(crate) fn part_of(directory: &DirPath, name: &Name) -> Option<u64> {
    let number = |bytes: &[u8]| u64::from_str_radix(str::from_utf8(bytes).ok()?, 16).ok();
    let path = directory.as_bytes().strip_prefix(b"/")?.strip_suffix(b"/")?;
    let found = number(path)?.checked_mul(PAGE_OBJECTS_MAX as u64)?;
    let found = found.checked_add(number(name.as_bytes())?)?;
    (directory_of(found) == *directory && name_of(found) == *name).then_some(found)
}

/// Name and directory of the head.
pub(crate) fn head_place() -> (DirPath, Name) {
    (DirPath::root(), Name::new(IMAGE_HEAD).expect("a name"))
}

/// State of the device while its image was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageStillness {
    /// Nobody wrote to the device.
    Unchanged,
    /// The image is that of a snapshot.
    Snapshot,
    /// A command held the file system still.
    Frozen,
    /// The device changed while it was read: the image is a mixture of several moments.
    Fuzzy,
}

/// Range of an image that could not be read. It has zeros in the image.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UnreadableRange {
    pub offset: u64,
    pub bytes: u64,
}

/// Facts about an image.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ImageFacts {
    format: u32,
    #[serde(flatten)]
    pub layout: ImageLayout,
    /// Number of bytes in chunks; the rest is not used, or zeros.
    pub data_bytes: u64,
    pub stillness: ImageStillness,
    /// True if blocks that the file system did not use were left out. They have zeros in the image,
    /// whatever the disk had.
    #[serde(default)]
    pub leaves_out_unused: bool,
    /// Kind of the source, in words: `block device`, `file`, `qcow2 file`, `NBD export`.
    pub kind: String,
    /// File system or table of partitions on the device, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds: Option<String>,
    /// Name of the machine.
    pub host: String,
    /// Snapshot of a thin volume whose whole content the image has, by the UUID that LVM gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<UnreadableRange>,
}

/// Facts about an image that its source knows.
#[derive(Clone, Debug)]
pub struct ImageDescription {
    pub stillness: ImageStillness,
    pub leaves_out_unused: bool,
    pub kind: String,
    pub holds: Option<String>,
    pub host: String,
    /// Snapshot that stays until the next image, if the image has its whole content.
    pub snapshot: Option<String>,
}

impl ImageFacts {
    pub(crate) fn new(
        layout: ImageLayout,
        data_bytes: u64,
        unreadable: Vec<UnreadableRange>,
        description: ImageDescription,
    ) -> Self {
        let ImageDescription { stillness, leaves_out_unused, kind, holds, host, snapshot } =
            description;
        Self {
            format: FORMAT,
            layout,
            data_bytes,
            stillness,
            leaves_out_unused,
            kind,
            holds,
            host,
            snapshot,
            unreadable,
        }
    }

    /// Returns the first part of `range` that could not be read.
    pub(crate) fn unreadable_in(&self, range: &Range<u64>) -> Option<Range<u64>> {
        let ends = |lost: &UnreadableRange| lost.offset..lost.offset.saturating_add(lost.bytes);
        let mut ranges = self.unreadable.iter().map(ends);
        ranges.find(|lost| lost.start < range.end && range.start < lost.end)
    }

    /// Returns the attribute of the head.
    pub(crate) fn attribute(&self) -> Xattr {
        let value = serde_json::to_vec(self).expect("numbers and texts are JSON");
        Xattr { name: FACTS_ATTRIBUTE.to_vec(), value }
    }

    /// Reads the facts from a head. The error says what is wrong with it.
    fn of_head(head: &Object) -> Result<Self, String> {
        let is_facts = |xattr: &&Xattr| xattr.name == FACTS_ATTRIBUTE;
        let attribute = head.attributes.xattrs.iter().find(is_facts);
        let attribute = attribute.ok_or("it has no facts about the image")?;
        let format: Format = serde_json::from_slice(&attribute.value)
            .map_err(|error| format!("its facts cannot be read: {error}"))?;
        if format.format > FORMAT {
            return Err("a newer version of Holdfast made it".to_owned());
        }
        let facts: Self = serde_json::from_slice(&attribute.value)
            .map_err(|error| format!("its facts cannot be read: {error}"))?;
        match facts.layout.is_valid() {
            true => Ok(facts),
            false => Err("its chunks have an impossible length".to_owned()),
        }
    }
}

/// The part of the facts that every version of Holdfast understands.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

/// One image at the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Image {
    /// Name of the image: usually the path of the device.
    pub name: Vec<u8>,
    /// Time at which the server had the whole image.
    pub taken: ServerTime,
    /// Time at which a newer image replaced it; `None` for the newest.
    pub replaced: Option<ServerTime>,
    /// Name of the management class.
    pub class: String,
    pub facts: ImageFacts,
}

impl Image {
    pub(crate) fn filespace(&self) -> Vec<u8> {
        image_filespace(&self.name)
    }

    /// Returns the selection of all parts.
    pub(crate) fn parts(&self) -> Selection {
        Selection { at: Some(self.taken), ..Selection::of_filespace(&self.filespace()) }
    }
}

/// Returns the filespace of the images called `name`. Fails if the name is not usable.
pub(crate) fn filespace_of(name: &[u8]) -> Result<Vec<u8>, ClientError> {
    let filespace = image_filespace(name);
    if name.is_empty() || name.contains(&0) || filespace.len() > FILESPACE_BYTES_MAX {
        let shown = model::escaped(name);
        let message = format!("'{shown}' is not a usable name of an image");
        return Err(ClientError::new(ErrorKind::Usage, message));
    }
    Ok(filespace)
}

/// Returns all images called `name`, or all images of the node, sorted by name and then newest
/// first.
pub(crate) fn list(link: &Link, name: Option<&[u8]>) -> Result<Vec<Image>, ClientError> {
    let names: Vec<Vec<u8>> = match name {
        Some(name) => vec![name.to_vec()],
        None => {
            let filespaces = link.filespaces(false)?;
            let images = filespaces.iter().filter_map(|known| image_name(&known.name));
            images.map(<[u8]>::to_vec).collect()
        }
    };
    let mut images = Vec::new();
    for name in names {
        images.extend(list_one(link, &name)?);
    }
    Ok(images)
}

fn list_one(link: &Link, name: &[u8]) -> Result<Vec<Image>, ClientError> {
    let filespace = filespace_of(name)?;
    let (directory, head) = head_place();
    let place = Place { filespace, directory, name: Some(head) };
    let selection = Selection { all_versions: true, ..Selection::of_object(&place) };
    let mut images = Vec::new();
    let mut listing = match link.list(&selection) {
        Err(error) if error.kind == ErrorKind::NotFound => return Ok(images),
        listing => listing?,
    };
    loop {
        match listing.next() {
            Err(error) if error.kind == ErrorKind::NotFound => break,
            next => match next? {
                None => break,
                Some(entries) => {
                    for entry in entries {
                        images.push(image(link, name, &entry)?);
                    }
                }
            },
        }
    }
    images.sort_by_key(|image| std::cmp::Reverse(image.taken));
    Ok(images)
}

fn image(link: &Link, name: &[u8], entry: &Entry) -> Result<Image, ClientError> {
    let facts = ImageFacts::of_head(&entry.object).map_err(|why| {
        let message = format!("an image of {} is not usable: {why}", model::escaped(name));
        ClientError::new(ErrorKind::Damaged, message)
    })?;
    Ok(Image {
        name: name.to_vec(),
        taken: entry.object.inserted,
        replaced: entry.deactivated,
        class: link.hello().class_name(entry.object.class).to_owned(),
        facts,
    })
}

/// Returns the image called `name` that was the newest at the time `at`, or now.
pub(crate) fn find(link: &Link, name: &[u8], at: Option<ServerTime>) -> Result<Image, ClientError> {
    let images = list_one(link, name)?;
    let shown = model::escaped(name);
    let message = match images.last() {
        None => format!("the server has no image of {shown}; 'holdfast image list' shows all"),
        Some(_) => format!("the server has no image of {shown} that is so old"),
    };
    let is_old_enough = |image: &Image| at.is_none_or(|at| image.taken <= at);
    let not_found = || ClientError::new(ErrorKind::NotFound, message);
    images.into_iter().find(is_old_enough).ok_or_else(not_found)
}

/// Returns the numbers of the parts of `image` that have newer versions. If the image is the newest
/// one, a backup that was interrupted has left them.
pub(crate) fn replaced_parts(link: &Link, image: &Image) -> Result<BTreeSet<u64>, ClientError> {
    let mut replaced = BTreeSet::new();
    let mut listing = link.list(&image.parts())?;
    while let Some(entries) = listing.next()? {
        let newer = entries.iter().filter(|entry| entry.deactivated.is_some());
        replaced.extend(newer.filter_map(|entry| part_of(&entry.directory, &entry.object.name)));
    }
    Ok(replaced)
}

/// Deletes `images`, which all have one name.
pub(crate) fn delete(
    link: &Link,
    images: &[Image],
    dry_run: bool,
) -> Result<DeletionSummary, ClientError> {
    let newest = images.first().expect("there is an image to delete");
    assert!(images.iter().all(|image| image.name == newest.name), "the images have one name");
    let taken: Vec<ServerTime> = images.iter().map(|image| image.taken).collect();
    link.delete_images(&newest.filespace(), &taken, dry_run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_devices_have_chunks_of_one_length() {
        for (bytes, chunk_bytes, parts) in [
            (0, 128 << 10, 0),
            (1, 128 << 10, 1),
            (20 << 30, 128 << 10, 320),
            (40 << 30, 128 << 10, 640),
            (1 << 40, 512 << 10, 4096),
            (100 << 40, 1 << 20, 204_800),
        ] {
            let layout = ImageLayout::of(bytes);
            assert_eq!((layout.chunk_bytes, layout.parts()), (chunk_bytes, parts), "{bytes}");
            assert!(layout.is_valid());
        }
        let layout = ImageLayout::of((64 << 20) + 5);
        assert_eq!((layout.range(0), layout.range(1)), (0..64 << 20, 64 << 20..(64 << 20) + 5));
    }

    #[test]
    fn parts_are_found_by_their_places() {
        for number in [0, 1, 511, 512, 1 << 20] {
            assert_eq!(part_of(&directory_of(number), &name_of(number)), Some(number));
        }
        let name = |name: &str| Name::new(name.as_bytes()).expect("a name");
        let directory = |path: &str| DirPath::new(path.as_bytes()).expect("a path");
        for (path, part) in
            [("/", "image"), ("/00000000/", "0200"), ("/0/", "0000"), ("/00000000/", "+001")]
        {
            assert_eq!(part_of(&directory(path), &name(part)), None, "{path}{part}");
        }
    }

    fn attributes(facts: &ImageFacts) -> std::sync::Arc<model::Attributes> {
        let xattrs = vec![facts.attribute()];
        std::sync::Arc::new(model::Attributes { xattrs, flags: 0 })
    }

    #[test]
    fn facts_of_a_newer_version_are_refused() {
        let description = ImageDescription {
            stillness: ImageStillness::Fuzzy,
            leaves_out_unused: false,
            kind: "block device".to_owned(),
            holds: None,
            host: "h".to_owned(),
            snapshot: Some("id".to_owned()),
        };
        let facts = ImageFacts::new(ImageLayout::of(5), 5, Vec::new(), description);
        let mut head = Object {
            name: head_place().1,
            stat: crate::backup::stat_of_stream(0),
            attributes: attributes(&facts),
            class: model::ClassId(0),
            inserted: ServerTime(0),
            payload: model::Payload::Nothing,
        };
        assert_eq!(ImageFacts::of_head(&head), Ok(facts.clone()));
        let mut check = |facts: &ImageFacts, part: &str| {
            head.attributes = attributes(facts);
            let error = ImageFacts::of_head(&head).expect_err("refused");
            assert!(error.contains(part), "{error}");
        };
        check(&ImageFacts { format: 2, ..facts.clone() }, "newer version");
        let layout = ImageLayout { bytes: 5, chunk_bytes: 3 };
        check(&ImageFacts { layout, ..facts }, "impossible length");
    }
}
