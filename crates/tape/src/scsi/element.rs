//! The elements of a changer and their content (SMC-3 6.11).
//!
//! Byte counts in the answer are not trusted, because one known target includes the headers in
//! them, so that pages overlap. Elements are requested one kind at a time. A descriptor is found by
//! its index and the length of a descriptor, up to the end of the answer. The caller fills the
//! buffer with zeros first, so that missing fields of a shortened descriptor read as zero.

use format::DamageError;

use super::answer::Answer;

/// Kind of an element (SMC-3 table 27).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ElementKind {
    Changer,
    Slot,
    ImportExport,
    Drive,
}

impl ElementKind {
    /// Returns the code of the kind in commands and answers.
    pub fn code(self) -> u8 {
        match self {
            Self::Changer => 1,
            Self::Slot => 2,
            Self::ImportExport => 3,
            Self::Drive => 4,
        }
    }
}

/// An element of a library, and its content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Element {
    pub kind: ElementKind,
    pub address: u16,
    pub is_full: bool,
    /// True if the changer can reach the element.
    pub is_accessible: bool,
    /// Additional sense code and qualifier, if the element has a fault.
    pub exception: Option<u16>,
    /// The slot that the element's medium came from.
    pub source: Option<u16>,
    /// Barcode, from the volume tag; `None` if the element is empty, or the changer cannot read a
    /// barcode.
    pub barcode: Option<String>,
    /// Name of the drive in this element, which contains its serial number.
    pub device: Option<String>,
}

/// A range of elements of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ElementRange {
    pub kind: ElementKind,
    pub first: u16,
    pub count: u16,
}

const HEADERS_BYTES: usize = 16;
/// Maximum length of a descriptor, with both volume tags and a device identifier of up to 64 bytes.
const DESCRIPTOR_BYTES_MAX: u32 = 160;
const TAG_BYTES: usize = 36;

/// Returns the maximum length of an answer about `count` elements.
pub fn elements_answer_bytes(count: u16) -> u32 {
    16 + DESCRIPTOR_BYTES_MAX * u32::from(count)
}

/// Parses the answer about elements of one kind.
pub fn elements(bytes: &[u8], range: ElementRange) -> Result<Vec<Element>, DamageError> {
    let answer = Answer::new(bytes, "element status");
    let count = usize::from(answer.u16(2)?);
    if count == 0 {
        return Ok(Vec::new());
    }
    if answer.u8(8)? != range.kind.code() {
        return Err(answer.damaged("it has elements of another kind than requested"));
    }
    let flags = answer.u8(9)?;
    let tags = VolumeTags { has_primary: flags & 0x80 != 0, has_alternate: flags & 0x40 != 0 };
    let stride = usize::from(answer.u16(10)?);
    if stride < 12 {
        return Err(answer.damaged("descriptors are too short"));
    }
    (0..count.min(usize::from(range.count)))
        .map(|index| HEADERS_BYTES + index * stride)
        .take_while(|at| at + stride <= answer.len())
        .map(|at| descriptor(answer.slice(at, stride)?, range.kind, tags))
        .collect()
}

/// The presence of volume tags in the descriptors of a page.
#[derive(Clone, Copy)]
struct VolumeTags {
    has_primary: bool,
    has_alternate: bool,
}

impl VolumeTags {
    fn bytes(self) -> usize {
        (usize::from(self.has_primary) + usize::from(self.has_alternate)) * TAG_BYTES
    }
}

fn descriptor(bytes: &[u8], kind: ElementKind, tags: VolumeTags) -> Result<Element, DamageError> {
    let field = Answer::new(bytes, "element descriptor");
    let flags = field.u8(2)?;
    let is_full = flags & 0x01 != 0;
    let has_source = is_full && field.u8(9)? & 0x80 != 0;
    let barcode = if tags.has_primary && is_full { field.text(12, 32).ok() } else { None };
    Ok(Element {
        kind,
        address: field.u16(0)?,
        is_full,
        // The descriptor of a changer has no ACCESS bit; the descriptors of all other elements have
        // one.
        is_accessible: flags & 0x08 != 0 || kind == ElementKind::Changer,
        exception: (flags & 0x04 != 0).then_some(field.u16(4)?),
        source: if has_source { Some(field.u16(10)?) } else { None },
        barcode: barcode.filter(|text| !text.is_empty()),
        device: device(&field, 12 + tags.bytes()),
    })
}

/// Returns the identifier of the device after the volume tags, if it is a text (SMC-3 table 32).
fn device(field: &Answer<'_>, at: usize) -> Option<String> {
    let count = usize::from(field.u8(at + 3).ok()?);
    let text = field.text(at + 4, count).ok()?;
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: ElementRange = ElementRange { kind: ElementKind::Slot, first: 1000, count: 2 };

    fn answer(descriptors: &[Vec<u8>]) -> Vec<u8> {
        let stride = u16::try_from(descriptors[0].len()).expect("short").to_be_bytes();
        let count = u16::try_from(descriptors.len()).expect("few").to_be_bytes();
        let mut bytes = vec![3, 0xe8, count[0], count[1], 0, 0, 0, 0];
        bytes.extend([2, 0x80, stride[0], stride[1], 0, 0, 0, 0]);
        bytes.extend(descriptors.concat());
        bytes
    }

    fn slot(address: u16, barcode: &str) -> Vec<u8> {
        let flags = if barcode.is_empty() { 0x08 } else { 0x09 };
        let mut bytes = address.to_be_bytes().to_vec();
        bytes.extend([flags, 0, 0, 0, 0, 0, 0, 0x80, 3, 0xe9]);
        bytes.extend(format!("{barcode:32}").bytes());
        bytes.extend([0; 4 + 4]);
        bytes
    }

    #[test]
    fn slots_have_barcodes() {
        let bytes = answer(&[slot(1000, "A00001L8"), slot(1001, "")]);
        let found = elements(&bytes, SLOTS).expect("whole");
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].barcode.as_deref(), Some("A00001L8"));
        assert_eq!((found[0].address, found[0].source), (1000, Some(1001)));
        assert!(found[0].is_accessible && !found[1].is_full);
        assert_eq!((&found[1].barcode, found[1].source), (&None, None));
    }

    #[test]
    fn byte_counts_do_not_matter_and_what_is_cut_off_is_left_out() {
        let mut bytes = answer(&[slot(1000, "A00001L8"), slot(1001, "A00002L8")]);
        bytes[5..8].copy_from_slice(&[0xff; 3]);
        bytes[13..16].copy_from_slice(&[0; 3]);
        assert_eq!(elements(&bytes, SLOTS).expect("whole").len(), 2);
        assert_eq!(elements(&bytes[..100], SLOTS).expect("cut").len(), 1);
        let drives = ElementRange { kind: ElementKind::Drive, ..SLOTS };
        assert!(elements(&bytes, drives).is_err());
    }

    #[test]
    fn drives_name_themselves() {
        let mut bytes = vec![1, 0xf4, 0x0d, 0, 0x83, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend([2, 0, 0, 8]);
        bytes.extend(b"DRV00001");
        let mut answer = answer(&[bytes]);
        answer[8..10].copy_from_slice(&[4, 0]);
        let drives = ElementRange { kind: ElementKind::Drive, first: 500, count: 1 };
        let found = elements(&answer, drives).expect("whole");
        assert_eq!(found[0].device.as_deref(), Some("DRV00001"));
        assert_eq!((found[0].exception, found[0].is_full), (Some(0x8300), true));
    }
}
