//! The pieces of a read, which come in any order, in their places.

use std::ops::Range;

use crate::error::NbdError;

/// Buffer of a read, with the parts of it that have come.
///
/// Invariant: the ranges are within the buffer, in order, not empty, and do not touch.
#[derive(Debug)]
pub(crate) struct Assembly<'a> {
    buffer: &'a mut [u8],
    /// Place of the buffer in the export.
    offset: u64,
    filled: Vec<Range<usize>>,
}

impl<'a> Assembly<'a> {
    pub(crate) fn new(buffer: &'a mut [u8], offset: u64) -> Self {
        Self { buffer, offset, filled: Vec::new() }
    }

    /// Returns the room for `bytes` bytes at `offset` of the export, and counts it as filled. Fails
    /// if a part of it is outside the read, or has come before.
    pub(crate) fn room(&mut self, offset: u64, bytes: usize) -> Result<&mut [u8], NbdError> {
        let outside = NbdError::protocol("a chunk is outside the read");
        let start = offset.checked_sub(self.offset).and_then(|start| usize::try_from(start).ok());
        let range = start.and_then(|start| Some(start..start.checked_add(bytes)?));
        let range = range.filter(|range| range.end <= self.buffer.len()).ok_or(outside)?;
        if range.is_empty() {
            return Err(NbdError::protocol("a chunk is empty"));
        }
        self.fill(range.clone())?;
        Ok(&mut self.buffer[range])
    }

    fn fill(&mut self, new: Range<usize>) -> Result<(), NbdError> {
        let at = self.filled.partition_point(|range| range.end <= new.start);
        let overlaps = self.filled.get(at).is_some_and(|after| after.start < new.end);
        if overlaps {
            return Err(NbdError::protocol("two chunks of a read overlap"));
        }
        let touches_before = at > 0 && self.filled[at - 1].end == new.start;
        let touches_after = self.filled.get(at).is_some_and(|after| after.start == new.end);
        match (touches_before, touches_after) {
            (true, true) => self.filled[at - 1].end = self.filled.remove(at).end,
            (true, false) => self.filled[at - 1].end = new.end,
            (false, true) => self.filled[at].start = new.start,
            (false, false) => self.filled.insert(at, new),
        }
        Ok(())
    }

    /// Returns true if each byte has come.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.filled.as_slice(), [all] if all.len() == self.buffer.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Fills pieces of a read of 10 bytes at 100. Each piece is its offset and its length.
    fn fill(pieces: &[(u64, usize)]) -> Result<bool, String> {
        let mut buffer = [0; 10];
        let mut assembly = Assembly::new(&mut buffer, 100);
        for &(offset, bytes) in pieces {
            let room = assembly.room(offset, bytes).map_err(|error| error.to_string())?;
            assert_eq!(room.len(), bytes);
            room.fill(1);
        }
        let is_whole = assembly.is_whole();
        assert_eq!(is_whole, buffer == [1; 10]);
        Ok(is_whole)
    }

    #[track_caller]
    fn refuse(pieces: &[(u64, usize)], part: &str) {
        let error = fill(pieces).unwrap_err();
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn pieces_may_come_in_any_order() {
        assert_eq!(fill(&[(100, 10)]), Ok(true));
        assert_eq!(fill(&[(105, 5), (100, 2), (103, 2), (102, 1)]), Ok(true));
        assert_eq!(fill(&[(100, 4), (106, 4)]), Ok(false));
        assert_eq!(fill(&[]), Ok(false));
    }

    #[test]
    fn pieces_outside_or_twice_are_refused() {
        refuse(&[(99, 2)], "outside");
        refuse(&[(100, 11)], "outside");
        refuse(&[(u64::MAX, 1)], "outside");
        refuse(&[(101, usize::MAX)], "outside");
        refuse(&[(100, 0)], "empty");
        refuse(&[(100, 4), (103, 1)], "overlap");
        refuse(&[(104, 4), (100, 5)], "overlap");
        refuse(&[(104, 1), (100, 10)], "overlap");
    }

    proptest! {
        #[test]
        fn bytes_are_counted_as_a_set(
            pieces in proptest::collection::vec((100_u64..110, 1_usize..4), 0..8)
        ) {
            let mut bytes = std::collections::BTreeSet::new();
            let mut is_sound = true;
            for &(offset, length) in &pieces {
                for byte in offset..offset + length as u64 {
                    is_sound &= byte < 110 && bytes.insert(byte);
                }
            }
            prop_assert_eq!(fill(&pieces).ok(), is_sound.then_some(bytes.len() == 10));
        }
    }
}
