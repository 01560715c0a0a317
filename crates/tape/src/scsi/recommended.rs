//! The order in which a drive recommends to read segments (SSC-5; IBM LTO reference, GENERATE and
//! RECEIVE RECOMMENDED ACCESS ORDER). Full-height LTO-9 drives and later drives know these
//! commands.

use format::DamageError;

use super::answer::Answer;

/// A range of blocks that are read together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Number that the caller gives the segment; the drive returns it with the segment.
    pub number: u32,
    pub first_block: u64,
    pub last_block: u64,
}

/// Limits of a list of segments that the drive can put into order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentLimits {
    pub segments_max: u16,
    pub descriptor_bytes_max: u16,
}

const DESCRIPTOR_BYTES: usize = 32;
/// Value of the length field of a descriptor: the number of bytes after that field.
const LENGTH: u16 = 0x1e;
const NAME_BYTES: usize = 10;

/// Returns the parameters of GENERATE RECOMMENDED ACCESS ORDER.
pub fn segment_list(segments: &[Segment]) -> Vec<u8> {
    let count = u32::try_from(segments.len() * DESCRIPTOR_BYTES)
        .expect("the drive limits the number of segments");
    let mut bytes = vec![0; 4];
    bytes.extend(count.to_be_bytes());
    for segment in segments {
        assert!(segment.first_block <= segment.last_block, "a segment holds a block");
        let name = format!("{:0NAME_BYTES$}", segment.number);
        debug_assert_eq!(name.len(), NAME_BYTES, "the drive takes names of one length");
        bytes.extend(LENGTH.to_be_bytes());
        bytes.extend([0; 3]);
        bytes.extend(name.bytes());
        bytes.push(0);
        bytes.extend(segment.first_block.to_be_bytes());
        bytes.extend(segment.last_block.to_be_bytes());
    }
    debug_assert_eq!(
        bytes.len(),
        8 + segments.len() * DESCRIPTOR_BYTES,
        "each segment has a descriptor"
    );
    bytes
}

/// Returns the numbers of the segments, in the order that RECEIVE RECOMMENDED ACCESS ORDER gives.
pub fn recommended_order(bytes: &[u8]) -> Result<Vec<u32>, DamageError> {
    let answer = Answer::new(bytes, "recommended order");
    let length = usize::try_from(answer.u32(4)?).unwrap_or(usize::MAX);
    let end = length.saturating_add(8).min(answer.len());
    let mut numbers = Vec::new();
    let mut at = 8;
    while at + DESCRIPTOR_BYTES <= end {
        let name = answer.text(at + 5, NAME_BYTES)?;
        numbers
            .push(name.parse().map_err(|_| answer.damaged("the name of a segment is no number"))?);
        at += 2 + usize::from(answer.u16(at)?);
    }
    Ok(numbers)
}

/// Parses the answer to RECEIVE RECOMMENDED ACCESS ORDER that gives the limits.
pub fn segment_limits(bytes: &[u8]) -> Result<SegmentLimits, DamageError> {
    let answer = Answer::new(bytes, "segment limits");
    Ok(SegmentLimits { segments_max: answer.u16(0)?, descriptor_bytes_max: answer.u16(2)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_go_out_and_come_back_by_number() {
        let segments = [
            Segment { number: 7, first_block: 100, last_block: 200 },
            Segment { number: 8, first_block: 1 << 32, last_block: (1 << 32) + 1 },
        ];
        let bytes = segment_list(&segments);
        assert_eq!(bytes[..10], [0, 0, 0, 0, 0, 0, 0, 64, 0, 0x1e]);
        assert_eq!(&bytes[13..23], b"0000000007");
        assert_eq!(
            bytes[24..40],
            [[0, 0, 0, 0, 0, 0, 0, 100], [0, 0, 0, 0, 0, 0, 0, 200]].concat()
        );
        assert_eq!(recommended_order(&bytes), Ok(vec![7, 8]));
        assert_eq!(recommended_order(&bytes[..60]), Ok(vec![7]));
        let mut strange = bytes;
        strange[13] = b'x';
        assert!(recommended_order(&strange).is_err());
    }

    #[test]
    fn limits() {
        let limits = segment_limits(&[0x0a, 0x8c, 0, 32]).expect("whole");
        assert_eq!((limits.segments_max, limits.descriptor_bytes_max), (2700, 32));
        assert!(segment_limits(&[0]).is_err());
    }
}
