//! Logical volumes in an image.
//!
//! ```text
//!   partitions, or the whole disk -> label: identity of a physical volume, places of metadata
//!                                      |
//!                                    text: sections, numbers, strings, lists
//!                                      |
//!                                    group: volumes, segments, extents -> map: ranges of the image
//! ```
//!
//! 1. Nothing in the image is trusted: checksums are compared, places are within the partition,
//!    lengths and depths have limits. What is not understood is an error or an [`Obstacle`].
//! 2. A volume has a map only if all its bytes lie in the image as they are: linear and striped
//!    segments. No other kind of volume is guessed at.
//! 3. Of several copies of the metadata of a group, the newest sound one is used.
//!
//! Deliberately absent: device mapper. It would change the state of the machine, and a group in the
//! image may have the name and the identity of a group that is in use here.

mod fault;
mod group;
mod label;
mod map;
mod text;

use std::io;
use std::ops::Range;

use group::VolumeGroup;
use label::Disk;

pub use fault::Fault;
pub use group::{LogicalVolume, Obstacle};
pub use label::{ReadAt, checksum};
pub use map::VolumeMap;

/// LVM's part of an image.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VolumeList {
    /// Places that are physical volumes.
    pub disks: Vec<Range<u64>>,
    /// Volumes of all groups that users see.
    pub volumes: Vec<LogicalVolume>,
    /// Faults of metadata.
    pub faults: Vec<Fault>,
}

/// Looks for physical volumes at `places` of an image, and for the volumes on them.
pub fn find(read: &ReadAt<'_>, places: &[Range<u64>]) -> io::Result<VolumeList> {
    let mut disks = Vec::new();
    let mut groups = Vec::new();
    let mut faults = Vec::new();
    for place in places {
        let Some(disk) = Disk::read(read, place)? else { continue };
        for text in disk.texts(read)? {
            match text.and_then(|text| VolumeGroup::parse(&text)) {
                Ok(group) => keep_newest(&mut groups, group),
                Err(fault) => faults.push(fault),
            }
        }
        disks.push(disk);
    }
    let mut volumes: Vec<_> = groups.iter().flat_map(|group| group.volumes(&disks)).collect();
    refuse_equal_names(&mut volumes);
    let disks = disks.into_iter().map(|disk| disk.place).collect();
    Ok(VolumeList { disks, volumes, faults })
}

fn keep_newest(groups: &mut Vec<VolumeGroup>, group: VolumeGroup) {
    match groups.iter_mut().find(|known| known.id == group.id) {
        Some(known) if known.sequence >= group.sequence => {}
        Some(known) => *known = group,
        None => groups.push(group),
    }
}

/// Takes the maps from volumes of groups that have one name: the user could not say which is meant.
fn refuse_equal_names(volumes: &mut [LogicalVolume]) {
    let name = |volume: &LogicalVolume| (volume.group.clone(), volume.name.clone());
    volumes.sort_by_cached_key(name);
    let is_same = |pair: &[LogicalVolume]| name(&pair[0]) == name(&pair[1]);
    let same: Vec<usize> =
        (1..volumes.len()).filter(|&at| is_same(&volumes[at - 1..=at])).collect();
    for at in same {
        volumes[at - 1].map = Err(Obstacle::SameName);
        volumes[at].map = Err(Obstacle::SameName);
    }
}

#[cfg(test)]
mod tests;
