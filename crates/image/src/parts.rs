//! The parts of an image in which a file system may be: partitions and logical volumes.

use std::fmt;
use std::io;
use std::ops::Range;
use std::str::FromStr;

use sys::block::Partition;

use crate::content::DeviceContent;
use crate::lvm::{self, LogicalVolume, ReadAt, VolumeList, VolumeMap};
use crate::opened::OpenError;

/// Advice for volumes that only LVM can show.
const VOLUME_REMEDY: &str = "restore it to a disk and import its volume group with 'vgimportclone'";

/// Name by which a user chooses a part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PartName {
    Partition(u32),
    /// Logical volume, by its volume group and its own name.
    Volume {
        group: String,
        volume: String,
    },
}

/// Error for a text that names no part.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("it must be the number of a partition, or a logical volume such as vg0/home")]
pub struct NoPartName;

impl FromStr for PartName {
    type Err = NoPartName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name.split_once('/') {
            None => Ok(Self::Partition(name.parse().map_err(|_| NoPartName)?)),
            Some((group, volume)) if [group, volume].iter().all(|part| is_plain(part)) => {
                Ok(Self::Volume { group: group.to_owned(), volume: volume.to_owned() })
            }
            Some(_) => Err(NoPartName),
        }
    }
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.contains('/')
}

impl fmt::Display for PartName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Partition(number) => write!(f, "partition {number}"),
            Self::Volume { group, volume } => write!(f, "logical volume {group}/{volume}"),
        }
    }
}

/// Part that is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    Whole,
    Partition(Range<u64>),
    Volume(VolumeMap),
}

/// Parts of an image.
pub(crate) struct Parts<'a> {
    partitions: &'a [Partition],
    list: VolumeList,
}

impl<'a> Parts<'a> {
    /// Looks for logical volumes in the image of `bytes` bytes, or in its partitions.
    pub(crate) fn find(
        partitions: &'a [Partition],
        bytes: u64,
        read: &ReadAt<'_>,
    ) -> io::Result<Self> {
        let within = |range: &Range<u64>| range.start.min(bytes)..range.end.min(bytes);
        let places = match partitions {
            [] => vec![0..bytes],
            partitions => partitions.iter().map(|partition| within(&partition.range)).collect(),
        };
        Ok(Self { partitions, list: lvm::find(read, &places)? })
    }

    /// Chooses the part that is opened.
    pub(crate) fn choose(&self, name: Option<&PartName>) -> Result<Part, OpenError> {
        let Some(name) = name else { return self.only() };
        match name {
            PartName::Partition(number) => {
                let found = self.partitions.iter().find(|partition| partition.number == *number);
                let found = found.ok_or_else(|| self.missing(name))?;
                Ok(Part::Partition(found.range.clone()))
            }
            PartName::Volume { group, volume } => {
                let mut volumes = self.list.volumes.iter();
                let found = volumes.find(|found| found.group == *group && found.name == *volume);
                mapped(found.ok_or_else(|| self.missing(name))?)
            }
        }
    }

    /// Chooses the part of an image that has no other.
    fn only(&self) -> Result<Part, OpenError> {
        match (self.partitions, &self.list.volumes[..]) {
            ([], []) => Ok(Part::Whole),
            ([only], []) => Ok(Part::Partition(only.range.clone())),
            (partitions, [only]) if partitions.iter().all(|part| self.is_disk(part)) => {
                mapped(only)
            }
            (_, []) => Err(self.unclear("the image has several partitions")),
            _ => Err(self.unclear("the image has several partitions or volumes")),
        }
    }

    /// Returns true for a partition that is a physical volume.
    fn is_disk(&self, partition: &Partition) -> bool {
        self.list.disks.iter().any(|place| place.start == partition.range.start)
    }

    /// Returns the error for a physical volume in which somebody looks for a file system.
    pub(crate) fn physical_volume(&self) -> OpenError {
        if !self.list.volumes.is_empty() {
            return self
                .unclear("the image has no file system there, but a physical volume of LVM");
        }
        let faults = match self.list.faults.first() {
            Some(fault) => format!(" whose metadata cannot be used: {fault}"),
            None => " without logical volumes".to_owned(),
        };
        let content = format!("a physical volume of LVM{faults}");
        OpenError::NoFiles { content, remedy: VOLUME_REMEDY }
    }

    fn missing(&self, name: &PartName) -> OpenError {
        if self.partitions.is_empty() && self.list.volumes.is_empty() {
            let is_plain = self.list.disks.is_empty();
            return if is_plain { OpenError::NoPartitions } else { self.physical_volume() };
        }
        self.unclear(&format!("the image has no {name}"))
    }

    fn unclear(&self, problem: &str) -> OpenError {
        let partition = |partition: &Partition| {
            let use_of_it = if self.is_disk(partition) { "; physical volume of LVM" } else { "" };
            let Range { start, end } = partition.range;
            format!("{} ({}{use_of_it})", partition.number, size(end - start))
        };
        let volume = |volume: &LogicalVolume| {
            let obstacle = volume.map.as_ref().err();
            let obstacle = obstacle.map(|obstacle| format!("; {obstacle}")).unwrap_or_default();
            format!("{}/{} ({}{obstacle})", volume.group, volume.name, size(volume.bytes))
        };
        let partitions = self.partitions.iter().map(partition);
        let fault = self.list.faults.first();
        let fault = fault.map(|fault| format!("metadata of LVM that cannot be used: {fault}"));
        let volumes = self.list.volumes.iter().map(volume);
        let parts: Vec<String> = partitions.chain(volumes).chain(fault).collect();
        OpenError::Partition { problem: problem.to_owned(), partitions: parts.join(", ") }
    }
}

fn mapped(volume: &LogicalVolume) -> Result<Part, OpenError> {
    let LogicalVolume { group, name, map, .. } = volume;
    match map {
        Ok(map) => Ok(Part::Volume(map.clone())),
        Err(obstacle) => {
            Err(OpenError::Volume { volume: format!("{group}/{name}"), obstacle: *obstacle })
        }
    }
}

fn size(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

/// Returns true if the kernel may be asked to mount a file system of this type from a device.
pub(crate) fn is_file_system(kind: &str) -> bool {
    !matches!(kind, "swap" | "LVM2_member" | "crypto_LUKS" | "linux_raid_member")
}

/// Returns the error for a part without a file system.
pub(crate) fn no_files(held: &DeviceContent) -> OpenError {
    let content = held.shown().unwrap_or_else(|| "nothing that blkid recognises".to_owned());
    let remedy = match held.kind.as_deref() {
        Some("LVM2_member") => VOLUME_REMEDY,
        Some("crypto_LUKS") => "restore it to a disk and open it with 'cryptsetup'",
        _ => "restore it to a disk",
    };
    OpenError::NoFiles { content, remedy }
}

#[cfg(test)]
mod tests {
    use sim::lvm::{Segment, VolumeGroup, head_of_disk};

    use super::*;

    const MIB: u64 = 1 << 20;
    const ID: &str = "DmsXLra15KXml1vZMGofPGncKaYtN7st";
    static ONE: [Segment<'static>; 1] = [Segment { extents: 5, stripes: &[(0, 0)] }];
    static LATE: [Segment<'static>; 1] = [Segment { extents: 5, stripes: &[(0, 8)] }];

    fn partition(number: u32) -> Partition {
        let start = u64::from(number) << 30;
        Partition { number, device: "/dev/x".into(), range: start..start + 20 * MIB }
    }

    /// Returns the parts of an image. A physical volume with `volumes` begins at `start`.
    fn parts<'a>(
        partitions: &'a [Partition],
        start: u64,
        volumes: &[(&str, &[Segment<'_>])],
    ) -> Parts<'a> {
        let group = VolumeGroup {
            name: "tank",
            sequence: 1,
            extent_bytes: MIB,
            disks: &[(ID, 10)],
            volumes,
        };
        let head = head_of_disk(ID, 20 * MIB, group.text().as_bytes(), 512);
        let read = |offset: u64, bytes: usize| -> io::Result<Vec<u8>> {
            let at = offset.checked_sub(start).and_then(|at| usize::try_from(at).ok());
            let rest = at.and_then(|at| head.get(at..)).unwrap_or_default();
            Ok(rest.iter().copied().chain(std::iter::repeat(0)).take(bytes).collect())
        };
        Parts::find(partitions, 1 << 40, &read).expect("nothing fails")
    }

    /// Returns the parts of an image without logical volumes.
    fn plain(partitions: &[Partition]) -> Parts<'_> {
        Parts { partitions, list: VolumeList::default() }
    }

    fn name(text: &str) -> PartName {
        text.parse().expect("a name")
    }

    #[track_caller]
    fn check_refused(parts: &Parts<'_>, part: Option<&str>, words: &str) {
        let part = part.map(name);
        let error = parts.choose(part.as_ref()).expect_err("refused").to_string();
        assert!(error.contains(words), "{error}");
    }

    #[test]
    fn a_part_has_a_number_or_two_names() {
        assert_eq!(name("7"), PartName::Partition(7));
        let volume = PartName::Volume { group: "vg0".to_owned(), volume: "home".to_owned() };
        assert_eq!(name("vg0/home"), volume);
        for text in ["", "x", "-1", "/", "vg0/", "/home", "/dev/vg0/home", "vg0/a/b"] {
            assert_eq!(text.parse::<PartName>(), Err(NoPartName), "{text}");
        }
    }

    #[test]
    fn a_partition_must_be_named_if_there_are_several() {
        let several = [partition(1), partition(2)];
        assert_eq!(plain(&[]).choose(None).expect("none needed"), Part::Whole);
        let first = Part::Partition(several[0].range.clone());
        assert_eq!(plain(&several[..1]).choose(None).expect("the only one"), first);
        let second = Part::Partition(several[1].range.clone());
        assert_eq!(plain(&several).choose(Some(&name("2"))).expect("named"), second);
        check_refused(&plain(&several), None, "several partitions; it has 1 (20 MiB), 2 (20 MiB)");
        check_refused(&plain(&several), Some("3"), "no partition 3; it has");
        check_refused(&plain(&several), Some("a/b"), "no logical volume a/b; it has");
        check_refused(&plain(&[]), Some("1"), "the image has no partitions");
        check_refused(&plain(&[]), Some("a/b"), "the image has no partitions");
    }

    #[test]
    fn the_only_volume_needs_no_name() {
        let one = [partition(1)];
        for (partitions, start) in [(&one[..0], 0), (&one[..], 1 << 30)] {
            let parts = parts(partitions, start, &[("home", &ONE)]);
            let chosen = parts.choose(None).expect("the only one");
            let Part::Volume(map) = &chosen else { panic!("a volume: {chosen:?}") };
            assert_eq!(map.pieces(0..5 * MIB).collect::<Vec<_>>(), [start + MIB..start + 6 * MIB]);
            assert_eq!(parts.choose(Some(&name("tank/home"))).expect("named"), chosen);
            check_refused(&parts, Some("tank/x"), "no logical volume tank/x; it has");
        }
    }

    #[test]
    fn volumes_are_listed_with_partitions() {
        let partitions = [partition(1), partition(2)];
        let parts = parts(&partitions, 2 << 30, &[("home", &ONE), ("late", &LATE)]);
        let list = "several partitions or volumes; it has 1 (20 MiB), \
                    2 (20 MiB; physical volume of LVM), tank/home (5 MiB), \
                    tank/late (5 MiB; it ends after the end of its physical volume); name one \
                    with --partition";
        check_refused(&parts, None, list);
        assert!(parts.choose(Some(&name("1"))).is_ok());
        assert!(parts.choose(Some(&name("tank/home"))).is_ok());
        check_refused(&parts, Some("tank/late"), "the logical volume tank/late: it ends after");
        let error = parts.physical_volume().to_string();
        assert!(error.contains("a physical volume of LVM; it has 1 (20 MiB)"), "{error}");
    }

    #[test]
    fn content_without_files_says_what_to_do() {
        let held = DeviceContent { kind: Some("LVM2_member".to_owned()), ..Default::default() };
        let error = no_files(&held).to_string();
        assert!(error.contains("a physical volume of LVM") && error.contains("vgimportclone"));
        assert!(no_files(&DeviceContent::default()).to_string().contains("blkid"));
        let empty = parts(&[], 0, &[]);
        assert_eq!(empty.choose(None).expect("the whole image"), Part::Whole);
        let error = empty.physical_volume().to_string();
        assert!(error.contains("a physical volume of LVM without logical volumes"), "{error}");
    }
}
