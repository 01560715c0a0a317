//! The position of a tape, and the ends of its wraps (SSC-4 7.5).

use format::DamageError;

use super::answer::Answer;

/// Returns the block number in the short form of READ POSITION; `None` if the drive does not know
/// its position.
pub fn short_position(bytes: &[u8]) -> Result<Option<u64>, DamageError> {
    const UNKNOWN: u8 = 0x04;
    let answer = Answer::new(bytes, "position");
    let known = answer.u8(0)? & UNKNOWN == 0;
    Ok(known.then_some(u64::from(answer.u32(4)?)))
}

/// Returns the logical object number in the long form of READ POSITION; `None` if the drive does
/// not know its position.
pub fn long_position(bytes: &[u8]) -> Result<Option<u64>, DamageError> {
    const UNKNOWN: u8 = 0x04;
    let answer = Answer::new(bytes, "position");
    let known = answer.u8(0)? & UNKNOWN == 0;
    Ok(known.then_some(answer.u64(8)?))
}

/// The physical position of the head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PhysicalPosition {
    /// Number of the wrap; `None` above 254. Even wraps run from the beginning of the tape to its
    /// end, odd wraps run back.
    pub wrap: Option<u8>,
    /// Position along the tape, in units of the servo track; comparable within one generation.
    pub longitudinal: u32,
}

/// Returns the position of the head in the answer to REQUEST SENSE (IBM LTO reference, sense bytes
/// 29 to 33); `None` if the drive sends fewer bytes.
pub fn physical_position(sense: &[u8]) -> Result<Option<PhysicalPosition>, DamageError> {
    const UNKNOWN_WRAP: u8 = 0xff;
    const BYTES_AFTER_LENGTH: u8 = 34 - 8;
    let answer = Answer::new(sense, "sense");
    if answer.u8(7)? < BYTES_AFTER_LENGTH {
        return Ok(None);
    }
    let wrap = Some(answer.u8(29)?).filter(|&wrap| wrap != UNKNOWN_WRAP);
    Ok(Some(PhysicalPosition { wrap, longitudinal: answer.u32(30)? }))
}

/// The end of one wrap of the tape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrapEnd {
    pub wrap: u16,
    /// Last block of the wrap; in the wrap where the data ends, the block after the last block.
    pub block: u64,
}

/// Returns the ends of the wraps of partition 0 that hold data, in order (IBM LTO reference, READ
/// END OF WRAP POSITION, long form).
pub fn wrap_ends(bytes: &[u8]) -> Result<Vec<WrapEnd>, DamageError> {
    const DESCRIPTOR_BYTES: usize = 12;
    let answer = Answer::new(bytes, "wrap ends");
    let end = 2 + usize::from(answer.u16(0)?);
    let mut wraps = Vec::new();
    let mut at = 4;
    while at + DESCRIPTOR_BYTES <= end {
        let wrap = answer.u16(at)?;
        if answer.u16(at + 2)? == 0 {
            wraps.push(WrapEnd { wrap, block: answer.number(at + 6, 6)? });
        }
        at += DESCRIPTOR_BYTES;
    }
    if wraps.iter().zip(0..).all(|(end, wrap)| end.wrap == wrap) {
        Ok(wraps)
    } else {
        Err(answer.damaged("wraps are missing or out of order"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_may_be_unknown() {
        let mut short = [0; 20];
        short[4..8].copy_from_slice(&77_u32.to_be_bytes());
        assert_eq!(short_position(&short), Ok(Some(77)));
        short[0] = 0x04;
        assert_eq!(short_position(&short), Ok(None));
        let mut long = [0; 32];
        long[8..16].copy_from_slice(&(1_u64 << 33).to_be_bytes());
        assert_eq!(long_position(&long), Ok(Some(1 << 33)));
        assert!(long_position(&long[..12]).is_err());
    }

    #[test]
    fn the_head_is_on_a_wrap() {
        // Bytes from the answer of an LTO-8 drive.
        let mut sense = vec![0x70, 0, 0, 0, 0, 0, 0, 0x58];
        sense.extend([0; 21]);
        sense.extend([0x05, 0x00, 0x02, 0x57, 0x4a]);
        let found = physical_position(&sense).expect("whole").expect("the drive reports it");
        assert_eq!((found.wrap, found.longitudinal), (Some(5), 0x0002_574a));
        sense[29] = 0xff;
        let found = physical_position(&sense).expect("whole").expect("the drive reports it");
        assert_eq!(found.wrap, None);
        sense[7] = 10;
        assert_eq!(physical_position(&sense), Ok(None));
        assert!(physical_position(&sense[..7]).is_err());
    }

    #[test]
    fn wraps_come_in_order() {
        let descriptor = |wrap: u16, partition: u16, block: u64| {
            let [wrap, partition] = [wrap, partition].map(u16::to_be_bytes);
            [&wrap[..], &partition, &[0, 0], &block.to_be_bytes()[2..]].concat()
        };
        let answer = |descriptors: &[Vec<u8>]| {
            let body = descriptors.concat();
            let length = u16::try_from(body.len() + 2).expect("small").to_be_bytes();
            [&length[..], &[0, 0], &body].concat()
        };
        // Ends of the first wraps of an LTO-8 volume.
        let bytes =
            answer(&[descriptor(0, 0, 207_516), descriptor(0, 1, 9), descriptor(1, 0, 415_522)]);
        let ends = wrap_ends(&bytes).expect("whole");
        assert_eq!(ends.iter().map(|end| end.block).collect::<Vec<_>>(), [207_516, 415_522]);
        assert!(wrap_ends(&bytes[..30]).is_err());
        assert!(wrap_ends(&answer(&[descriptor(1, 0, 5)])).is_err());
        assert_eq!(wrap_ends(&answer(&[])), Ok(vec![]));
    }
}
