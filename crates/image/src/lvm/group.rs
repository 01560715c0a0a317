//! A volume group, and the places of its volumes.

use std::collections::BTreeMap;

use super::fault::Fault;
use super::label::Disk;
use super::map::{MappedSegment, VolumeMap};
use super::text::{Scalar, Section};

/// Length of the sectors in which LVM counts.
const SECTOR_BYTES: u64 = 512;
const CONTENTS: &str = "Text Format Volume Group";
const VERSION: u64 = 1;

/// Logical volume in an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogicalVolume {
    pub group: String,
    pub name: String,
    pub bytes: u64,
    /// Places of its bytes in the image, or why files cannot be taken from it.
    pub map: Result<VolumeMap, Obstacle>,
}

/// Reason why files cannot be taken from a logical volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Obstacle {
    /// The volume is not a sequence of extents.
    #[error("it is {0}")]
    Kind(&'static str),
    #[error("a snapshot is being merged into it")]
    Merging,
    #[error("it lies on another logical volume")]
    OnVolume,
    #[error("a physical volume of it is not in the image")]
    DiskMissing,
    #[error("a physical volume of it is in the image more than once")]
    DiskTwice,
    #[error("it ends after the end of its physical volume")]
    TooLong,
    #[error("the places of its extents contradict each other")]
    Contradiction,
    #[error("another logical volume has the same name")]
    SameName,
}

/// Metadata of a volume group.
pub(super) struct VolumeGroup {
    pub(super) id: String,
    /// Number of the change. The highest number is the newest.
    pub(super) sequence: u64,
    name: String,
    disks: Vec<GroupDisk>,
    volumes: Vec<Volume>,
}

struct GroupDisk {
    id: String,
    /// Offset of the first extent on the disk, in bytes.
    data_offset: u64,
    data_bytes: u64,
    /// True if changes of the group were made without the disk, so that its content may be old.
    was_missing: bool,
}

/// Volume that users see.
struct Volume {
    name: String,
    bytes: u64,
    layout: Result<Vec<Segment>, Obstacle>,
}

/// Part of a volume, in bytes.
struct Segment {
    start: u64,
    bytes: u64,
    stripe_bytes: u64,
    areas: Vec<Area>,
}

/// Place of the stripes of a segment.
struct Area {
    /// Index of the disk in its group.
    disk: usize,
    /// Offset from the first extent of the disk, in bytes.
    offset: u64,
}

impl VolumeGroup {
    pub(super) fn parse(text: &[u8]) -> Result<Self, Fault> {
        let text = String::from_utf8_lossy(text);
        let root = Section::parse(&text)?;
        if root.text("contents") != Some(CONTENTS) || root.number("version")? != VERSION {
            return Err(Fault("they are of a version that is not known"));
        }
        let mut groups = root.sections();
        let (Some((name, group)), None) = (groups.next(), groups.next()) else {
            return Err(Fault("they are not those of one volume group"));
        };
        let extent_bytes = product(group, "extent_size", SECTOR_BYTES)?;
        let mut disks = Vec::new();
        let mut numbers = BTreeMap::new();
        for (name, disk) in sections_in(group, "physical_volumes") {
            numbers.insert(name, disks.len());
            disks.push(GroupDisk::parse(disk, extent_bytes)?);
        }
        let volumes = visible_volumes(group, &Scale { extent_bytes, disks: &disks, numbers })?;
        let id = group.text("id").ok_or(Fault("an identity is missing"))?.to_owned();
        Ok(Self { id, sequence: group.number("seqno")?, name: name.to_owned(), disks, volumes })
    }

    /// Returns the volumes of the group, with their places on the physical volumes `found`.
    pub(super) fn volumes(&self, found: &[Disk]) -> Vec<LogicalVolume> {
        let logical = |volume: &Volume| LogicalVolume {
            group: self.name.clone(),
            name: volume.name.clone(),
            bytes: volume.bytes,
            map: match &volume.layout {
                Ok(segments) => self.map(segments, found),
                Err(obstacle) => Err(*obstacle),
            },
        };
        self.volumes.iter().map(logical).collect()
    }

    fn map(&self, segments: &[Segment], found: &[Disk]) -> Result<VolumeMap, Obstacle> {
        let mapped = |segment: &Segment| -> Result<MappedSegment, Obstacle> {
            let lane_bytes = segment.bytes / segment.areas.len() as u64;
            let place = |area: &Area| self.disks[area.disk].place(area.offset, lane_bytes, found);
            let areas: Result<Vec<u64>, Obstacle> = segment.areas.iter().map(place).collect();
            let &Segment { start, bytes, stripe_bytes, .. } = segment;
            Ok(MappedSegment { start, bytes, stripe_bytes, areas: areas? })
        };
        let segments: Result<Vec<MappedSegment>, Obstacle> = segments.iter().map(mapped).collect();
        Ok(VolumeMap::new(segments?))
    }
}

impl GroupDisk {
    fn parse(section: &Section<'_>, extent_bytes: u64) -> Result<Self, Fault> {
        let id = section.text("id").ok_or(Fault("an identity is missing"))?;
        Ok(Self {
            id: id.replace('-', ""),
            data_offset: product(section, "pe_start", SECTOR_BYTES)?,
            data_bytes: product(section, "pe_count", extent_bytes)?,
            was_missing: section.has_flag("flags", "MISSING"),
        })
    }

    /// Returns the offset in the image of `bytes` bytes at `offset` of the extents.
    fn place(&self, offset: u64, bytes: u64, found: &[Disk]) -> Result<u64, Obstacle> {
        let mut disks = found.iter().filter(|disk| disk.id == self.id && !self.was_missing);
        let disk = disks.next().ok_or(Obstacle::DiskMissing)?;
        if disks.next().is_some() {
            return Err(Obstacle::DiskTwice);
        }
        let start = disk
            .place
            .start
            .checked_add(self.data_offset)
            .and_then(|start| start.checked_add(offset))
            .ok_or(Obstacle::TooLong)?;
        // The first member of a RAID may have the label of the whole, but not its bytes.
        let is_whole = disk.bytes <= disk.place.end - disk.place.start;
        let is_within = start.checked_add(bytes).is_some_and(|end| end <= disk.place.end);
        if is_whole && is_within { Ok(start) } else { Err(Obstacle::TooLong) }
    }
}

/// Facts about a group that its segments are read by.
struct Scale<'a> {
    extent_bytes: u64,
    disks: &'a [GroupDisk],
    /// Indices of the disks by their names in the metadata.
    numbers: BTreeMap<&'a str, usize>,
}

impl Volume {
    fn parse(
        name: &str,
        section: &Section<'_>,
        scale: &Scale<'_>,
        obstacle: Option<&Obstacle>,
    ) -> Result<Self, Fault> {
        let mut segments = Vec::new();
        for (_, segment) in section.sections() {
            let start = product(segment, "start_extent", scale.extent_bytes)?;
            let bytes = product(segment, "extent_count", scale.extent_bytes)?;
            segments.push((start, bytes, Segment::parse(segment, start, bytes, scale)));
        }
        segments.sort_by_key(|(start, ..)| *start);
        let mut end = 0_u64;
        for (start, bytes, _) in &segments {
            if *start != end {
                return Err(Fault("a logical volume has gaps"));
            }
            end = end.checked_add(*bytes).ok_or(Fault("a logical volume is too long"))?;
        }
        if section.number("segment_count")? != segments.len() as u64 || segments.is_empty() {
            return Err(Fault("segments of a logical volume are missing"));
        }
        let layout: Result<Vec<Segment>, Obstacle> = match obstacle {
            Some(obstacle) => Err(*obstacle),
            None => segments.into_iter().map(|(.., segment)| segment).collect(),
        };
        Ok(Self { name: name.to_owned(), bytes: end, layout })
    }
}

impl Segment {
    fn parse(
        section: &Section<'_>,
        start: u64,
        bytes: u64,
        scale: &Scale<'_>,
    ) -> Result<Self, Obstacle> {
        let kind = section.text("type").unwrap_or("striped");
        if !matches!(kind, "striped" | "linear") {
            return Err(Obstacle::Kind(kind_in_words(kind)));
        }
        let contradiction = |_| Obstacle::Contradiction;
        let count = section.number("stripe_count").map_err(contradiction)?;
        let stripes = section.list("stripes");
        if count == 0 || stripes.len() as u64 != count.saturating_mul(2) {
            return Err(Obstacle::Contradiction);
        }
        let lane_bytes = bytes / count;
        let stripe_bytes = match count {
            1 => bytes,
            _ => product(section, "stripe_size", SECTOR_BYTES).map_err(contradiction)?,
        };
        let is_whole = lane_bytes > 0
            && stripe_bytes > 0
            && bytes.is_multiple_of(count)
            && lane_bytes.is_multiple_of(stripe_bytes);
        if !is_whole {
            return Err(Obstacle::Contradiction);
        }
        let area = |pair: &[Scalar<'_>]| Area::parse(pair, lane_bytes, scale);
        let areas: Result<Vec<Area>, Obstacle> = stripes.chunks(2).map(area).collect();
        Ok(Self { start, bytes, stripe_bytes, areas: areas? })
    }
}

impl Area {
    /// Parses the name of a disk and the number of an extent.
    fn parse(pair: &[Scalar<'_>], bytes: u64, scale: &Scale<'_>) -> Result<Self, Obstacle> {
        let [Scalar::Text(name), Scalar::Number(extent)] = pair else {
            return Err(Obstacle::Contradiction);
        };
        let disk = *scale.numbers.get(&**name).ok_or(Obstacle::OnVolume)?;
        let offset = extent.checked_mul(scale.extent_bytes).ok_or(Obstacle::TooLong)?;
        let end = offset.checked_add(bytes).ok_or(Obstacle::TooLong)?;
        if end > scale.disks[disk].data_bytes {
            return Err(Obstacle::TooLong);
        }
        Ok(Self { disk, offset })
    }
}

fn visible_volumes(group: &Section<'_>, scale: &Scale<'_>) -> Result<Vec<Volume>, Fault> {
    let obstacles = obstacles_of_snapshots(group);
    let visible = sections_in(group, "logical_volumes")
        .into_iter()
        .filter(|(_, volume)| volume.has_flag("status", "VISIBLE"));
    visible
        .map(|(name, volume)| Volume::parse(name, volume, scale, obstacles.get(name)))
        .collect()
}

/// Returns the sections in the section `name`; none if there is no such section.
fn sections_in<'a, 't>(group: &'a Section<'t>, name: &str) -> Vec<(&'t str, &'a Section<'t>)> {
    group
        .section(name)
        .map(|section| section.sections().collect())
        .unwrap_or_default()
}

/// Returns the number `name`, which counts units of `unit` bytes, in bytes.
fn product(section: &Section<'_>, name: &str, unit: u64) -> Result<u64, Fault> {
    let number = section.number(name)?;
    number.checked_mul(unit).ok_or(Fault("a number is too large"))
}

/// Returns the volumes that are snapshots, and those into which a snapshot is merged. A volume that
/// nobody sees connects a snapshot with its origin. The origin has its own content at its place.
fn obstacles_of_snapshots(group: &Section<'_>) -> BTreeMap<String, Obstacle> {
    let mut obstacles = BTreeMap::new();
    let volumes = sections_in(group, "logical_volumes");
    for (_, segment) in volumes.iter().flat_map(|(_, volume)| volume.sections()) {
        for store in ["cow_store", "merging_store"] {
            if let Some(name) = segment.text(store) {
                obstacles.insert(name.to_owned(), Obstacle::Kind("a snapshot"));
            }
        }
        if let (Some(_), Some(origin)) = (segment.text("merging_store"), segment.text("origin")) {
            obstacles.insert(origin.to_owned(), Obstacle::Merging);
        }
    }
    obstacles
}

fn kind_in_words(kind: &str) -> &'static str {
    match kind {
        "thin" => "a thin volume",
        "thin-pool" => "a pool of thin volumes",
        "cache" | "writecache" => "a volume with a cache",
        "cache-pool" => "a cache",
        "mirror" => "a mirror",
        "vdo" | "vdo-pool" => "a volume without duplicates (vdo)",
        "integrity" => "a volume with checksums (integrity)",
        kind if kind.starts_with("raid") => "a RAID",
        _ => "of a type that is not read here",
    }
}
