//! The label of a physical volume, and the areas that hold its metadata.
//!
//! The label is one of the first four sectors of 512 bytes. Numbers are little-endian.
//!
//! | byte of the label | content |
//! |---|---|
//! | 0 | `LABELONE` |
//! | 8 | number of this sector, 8 bytes |
//! | 16 | checksum of the label from byte 20 on, 4 bytes |
//! | 20 | place of the header in the label, 4 bytes |
//! | 24 | `LVM2 001` |
//!
//! | byte of the header | content |
//! |---|---|
//! | 0 | identity, 32 characters |
//! | 32 | size of the device, 8 bytes |
//! | 40 | locations of data areas, a location of zeros, locations of metadata areas, one of zeros |
//!
//! A location has an offset on the disk and a size, 8 bytes each. A metadata area is a ring: it
//! begins with a sector, and the rest holds texts. A text that reaches the end goes on after the
//! first sector.
//!
//! | byte of an area | content |
//! |---|---|
//! | 0 | checksum of the sector from byte 4 on, 4 bytes |
//! | 4 | ` LVM2 x[5A%r0N*>` |
//! | 20 | version 1, 4 bytes |
//! | 24 | offset of the area on the disk, 8 bytes |
//! | 32 | size of the area, 8 bytes |
//! | 40 | offset of the text in the area, 8 bytes; 0 if the disk is in no volume group |
//! | 48 | size of the text, 8 bytes |
//! | 56 | checksum of the text, 4 bytes |
//! | 60 | flags, 4 bytes; the lowest bit says that the text is old |
//!
//! Source: LVM 2.03, `lib/label/label.h` and `lib/format_text/layout.h`.

use std::io;
use std::ops::Range;

use super::fault::{Failure, Fault};

/// Reads so many bytes of the image, from an offset on.
pub type ReadAt<'a> = dyn Fn(u64, usize) -> io::Result<Vec<u8>> + 'a;

const SECTOR_BYTES: usize = 512;
/// Number of sectors that may be the label.
const LABEL_SECTORS: usize = 4;
const ID_BYTES: usize = 32;
const LOCATION_BYTES: usize = 16;
/// Maximum number of metadata areas of a disk. LVM makes no more.
const AREAS_MAX: usize = 2;
/// Maximum length of a text, in bytes. A text about 10,000 volumes is as long.
const TEXT_BYTES_MAX: u64 = 4 << 20;
const AREA_MAGIC: &[u8] = b" LVM2 x[5A%r0N*>";
const AREA_VERSION: u32 = 1;
const FLAG_OLD: u32 = 1;

/// Physical volume.
#[derive(Debug)]
pub(super) struct Disk {
    /// Identity, as the metadata have it but without hyphens.
    pub(super) id: String,
    /// Bytes of the image that are the disk.
    pub(super) place: Range<u64>,
    /// Length of the device that the label was written for. On a RAID it may be the whole array.
    pub(super) bytes: u64,
    /// Offsets of the metadata areas on the disk.
    areas: Vec<u64>,
}

impl Disk {
    /// Looks for a label at the beginning of `place`. `None` if there is none.
    pub(super) fn read(read: &ReadAt<'_>, place: &Range<u64>) -> io::Result<Option<Self>> {
        let bytes = LABEL_SECTORS * SECTOR_BYTES;
        if place.end.saturating_sub(place.start) < bytes as u64 {
            return Ok(None);
        }
        let head = read(place.start, bytes)?;
        let mut sectors = (0..).zip(head.chunks_exact(SECTOR_BYTES));
        Ok(sectors.find_map(|(number, sector)| Self::parse(number, sector, place)))
    }

    /// Parses the sector `number` of `place`. `None` if it is no label.
    fn parse(number: u64, sector: &[u8], place: &Range<u64>) -> Option<Self> {
        let is_label = sector.starts_with(b"LABELONE")
            && number_at(sector, 8)? == number
            && short_at(sector, 16)? == checksum(sector.get(20..)?)
            && sector.get(24..32)? == b"LVM2 001";
        if !is_label {
            return None;
        }
        let header = sector.get(usize::try_from(short_at(sector, 20)?).ok()?..)?;
        let id = std::str::from_utf8(header.get(..ID_BYTES)?).ok()?.to_owned();
        let (_, rest) = locations(header.get(40..)?)?;
        let (mut areas, _) = locations(rest)?;
        areas.truncate(AREAS_MAX);
        Some(Self { id, place: place.clone(), bytes: number_at(header, 32)?, areas })
    }

    /// Returns the text of each metadata area that has one, or what is wrong with the area.
    pub(super) fn texts(&self, read: &ReadAt<'_>) -> io::Result<Vec<Result<Vec<u8>, Fault>>> {
        let mut texts = Vec::new();
        for area in &self.areas {
            match self.text_in(read, *area) {
                Ok(Some(text)) => texts.push(Ok(text)),
                Ok(None) => {}
                Err(Failure::Damaged(fault)) => texts.push(Err(fault)),
                Err(Failure::Read(error)) => return Err(error),
            }
        }
        Ok(texts)
    }

    fn text_in(&self, read: &ReadAt<'_>, area: u64) -> Result<Option<Vec<u8>>, Failure> {
        let start = self.within(area, SECTOR_BYTES as u64)?.start;
        let header = AreaHeader::parse(&read(start, SECTOR_BYTES)?, area)?;
        let Some(text) = header.text else { return Ok(None) };
        self.within(area, header.bytes)?;
        let until_end = text.bytes.min(header.bytes - text.offset);
        let mut content = read(start + text.offset, length(until_end))?;
        if until_end < text.bytes {
            let rest = length(text.bytes - until_end);
            content.extend(read(start + SECTOR_BYTES as u64, rest)?);
        }
        if checksum(&content) != text.checksum {
            return Err(Fault("their checksum is wrong").into());
        }
        Ok(Some(content))
    }

    /// Returns the bytes of the image that are so many bytes of the disk from `offset` on.
    fn within(&self, offset: u64, bytes: u64) -> Result<Range<u64>, Fault> {
        let start = self.place.start.checked_add(offset);
        let end = start.and_then(|start| start.checked_add(bytes));
        match (start, end) {
            (Some(start), Some(end)) if end <= self.place.end => Ok(start..end),
            _ => Err(Fault("they lie after the end of the disk")),
        }
    }
}

/// First sector of a metadata area.
struct AreaHeader {
    bytes: u64,
    text: Option<TextLocation>,
}

/// Place of a text in its area. It begins within the area after the first sector, and is not longer
/// than this rest of the area.
struct TextLocation {
    offset: u64,
    bytes: u64,
    checksum: u32,
}

impl AreaHeader {
    fn parse(sector: &[u8], area: u64) -> Result<Self, Fault> {
        Self::fields(sector, area).ok_or(Fault("their first sector is damaged"))?
    }

    /// Returns `None` if the sector does not begin an area.
    fn fields(sector: &[u8], area: u64) -> Option<Result<Self, Fault>> {
        let is_header = short_at(sector, 0)? == checksum(sector.get(4..)?)
            && sector.get(4..20)? == AREA_MAGIC
            && short_at(sector, 20)? == AREA_VERSION
            && number_at(sector, 24)? == area;
        let bytes = number_at(sector, 32)?;
        let text = TextLocation {
            offset: number_at(sector, 40)?,
            bytes: number_at(sector, 48)?,
            checksum: short_at(sector, 56)?,
        };
        let is_old = short_at(sector, 60)? & FLAG_OLD != 0;
        if !is_header {
            return None;
        }
        if text.offset == 0 || is_old {
            return Some(Ok(Self { bytes, text: None }));
        }
        let first = SECTOR_BYTES as u64;
        let is_within = (first..bytes).contains(&text.offset) && text.bytes <= bytes - first;
        if !is_within {
            return Some(Err(Fault("they lie after the end of their area")));
        }
        if text.bytes > TEXT_BYTES_MAX {
            return Some(Err(Fault("they are longer than 4 MiB")));
        }
        Some(Ok(Self { bytes, text: Some(text) }))
    }
}

/// Returns the offsets up to the location of zeros at the beginning of `list`, and the bytes after
/// it.
fn locations(mut list: &[u8]) -> Option<(Vec<u64>, &[u8])> {
    let mut offsets = Vec::new();
    loop {
        let offset = number_at(list, 0)?;
        list = list.get(LOCATION_BYTES..)?;
        if offset == 0 {
            return Some((offsets, list));
        }
        offsets.push(offset);
    }
}

/// Computes LVM's checksum: the CRC-32 of Ethernet with a first value of its own, and not inverted.
///
/// Source: LVM 2.03, `lib/misc/crc.c`.
pub fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0xf597_a6cf, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            let shifted = crc >> 1;
            if crc & 1 == 1 { shifted ^ 0xedb8_8320 } else { shifted }
        })
    })
}

fn short_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn number_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn length(bytes: u64) -> usize {
    usize::try_from(bytes).expect("a text is short")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_lvm() {
        // The label that LVM 2.03.16 has written.
        let head = include_bytes!("../../testdata/lvm-2.03.16/first");
        let label = &head[512..1024];
        assert_eq!(short_at(label, 16), Some(checksum(&label[20..])));
        assert_eq!(checksum(b""), 0xf597_a6cf);
    }
}
