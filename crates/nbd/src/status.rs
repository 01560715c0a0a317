//! The status of blocks: holes, zeros, and what has changed since a dirty bitmap was begun.

use crate::ALLOCATION_CONTEXT;
use crate::error::NbdError;
use crate::message::{Context, Fields, STATUS_BYTES, STATUSES_MAX};

/// Beginning of the names of the contexts of dirty bitmaps.
pub(crate) const DIRTY_BITMAP_PREFIX: &str = "qemu:dirty-bitmap:";
/// Length of the number of a context.
const ID_BYTES: u32 = 4;

/// Status of a range of an export, in each context.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockStatus {
    pub offset: u64,
    /// Length of the range. It may be shorter than the range that was asked for.
    pub bytes: u64,
    /// A list for each context, in the order of [`Export::contexts`](crate::Export::contexts). Each
    /// list covers the whole range, in order.
    pub by_context: Vec<Vec<Status>>,
}

/// Part of an export with one state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    pub offset: u64,
    /// Length of the part, at least 1.
    pub bytes: u64,
    pub state: State,
}

/// State of blocks in one context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// State in `base:allocation`. A hole whose bytes are not known to be zero has any content.
    Allocation { is_hole: bool, is_zero: bool },
    /// State in `qemu:dirty-bitmap:NAME`; true for blocks that have changed.
    Dirty(bool),
    /// Flags in a context that this client does not know.
    Other(u32),
}

impl State {
    fn from_wire(context: &str, flags: u32) -> Self {
        if context == ALLOCATION_CONTEXT {
            Self::Allocation { is_hole: flags & 1 != 0, is_zero: flags & 2 != 0 }
        } else if context.starts_with(DIRTY_BITMAP_PREFIX) {
            Self::Dirty(flags & 1 != 0)
        } else {
            Self::Other(flags)
        }
    }
}

/// The chunks of a reply about block status.
#[derive(Debug)]
pub(crate) struct StatusLists<'a> {
    contexts: &'a [Context],
    /// Range that was asked for.
    offset: u64,
    end: u64,
    /// List of each context that has come.
    lists: Vec<Option<Vec<Status>>>,
}

impl<'a> StatusLists<'a> {
    pub(crate) fn new(contexts: &'a [Context], offset: u64, end: u64) -> Self {
        assert!(offset < end, "a range is not empty");
        Self { contexts, offset, end, lists: vec![None; contexts.len()] }
    }

    /// Returns true if a chunk may have a payload of this length.
    pub(crate) fn may_have(bytes: u32) -> bool {
        let Some(list) = bytes.checked_sub(ID_BYTES) else { return false };
        list > 0 && list.is_multiple_of(STATUS_BYTES) && list / STATUS_BYTES <= STATUSES_MAX
    }

    /// Adds the payload of a chunk.
    pub(crate) fn add(&mut self, payload: &[u8]) -> Result<(), NbdError> {
        let mut fields = Fields::new(payload);
        let id = fields.u32()?;
        let index = self.contexts.iter().position(|context| context.id == id);
        let index = index.ok_or(NbdError::protocol("a status is for an unknown context"))?;
        if self.lists[index].is_some() {
            return Err(NbdError::protocol("a status comes twice"));
        }
        self.lists[index] = Some(self.parse(&self.contexts[index].name, &mut fields)?);
        Ok(())
    }

    /// Parses a list. It ends where the range ends, although the server may know more.
    fn parse(&self, context: &str, fields: &mut Fields<'_>) -> Result<Vec<Status>, NbdError> {
        let mut list: Vec<Status> = Vec::new();
        let mut offset = self.offset;
        while !fields.is_at_end() {
            let (bytes, flags) = (fields.u32()?, fields.u32()?);
            if bytes == 0 {
                return Err(NbdError::protocol("a status covers nothing"));
            }
            let bytes = u64::from(bytes).min(self.end - offset);
            let state = State::from_wire(context, flags);
            match list.last_mut() {
                _ if bytes == 0 => {}
                Some(last) if last.state == state => last.bytes += bytes,
                _ => list.push(Status { offset, bytes, state }),
            }
            offset += bytes;
        }
        Ok(list)
    }

    /// Returns the status of the range from its start to where the first context ends, without
    /// what lies before `offset`. Fails if the list of a context has not come.
    pub(crate) fn finish(self, offset: u64) -> Result<BlockStatus, NbdError> {
        let lists: Option<Vec<Vec<Status>>> = self.lists.into_iter().collect();
        let mut lists = lists.ok_or(NbdError::protocol("the status of a context is missing"))?;
        let end = lists.iter().map(|list| end(list)).min().unwrap_or(offset);
        if end <= offset {
            return Err(NbdError::protocol("a status ends before the place that was asked for"));
        }
        for list in &mut lists {
            clip(list, offset, end);
        }
        Ok(BlockStatus { offset, bytes: end - offset, by_context: lists })
    }
}

fn end(list: &[Status]) -> u64 {
    list.last().map_or(0, |last| last.offset + last.bytes)
}

/// Removes what `list` has outside the range from `start` to `end`.
fn clip(list: &mut Vec<Status>, start: u64, end: u64) {
    list.retain_mut(|status| {
        let status_end = (status.offset + status.bytes).min(end);
        status.offset = status.offset.max(start);
        status.bytes = status_end.saturating_sub(status.offset);
        status.bytes > 0
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn contexts() -> Vec<Context> {
        let names = ["base:allocation", "qemu:dirty-bitmap:daily", "qemu:allocation-depth"];
        let ids = [7, 3, 9];
        let contexts = names.into_iter().zip(ids);
        contexts.map(|(name, id)| Context { id, name: name.to_owned() }).collect()
    }

    fn payload(id: u32, statuses: &[(u32, u32)]) -> Vec<u8> {
        let mut payload = id.to_be_bytes().to_vec();
        for (bytes, flags) in statuses {
            payload.extend(bytes.to_be_bytes());
            payload.extend(flags.to_be_bytes());
        }
        payload
    }

    /// Returns the status from 1000 to 2000 that `payloads` give.
    fn status(payloads: &[Vec<u8>]) -> Result<BlockStatus, String> {
        let contexts = contexts();
        let mut lists = StatusLists::new(&contexts, 1000, 2000);
        let added = payloads.iter().try_for_each(|payload| lists.add(payload));
        added.and_then(|()| lists.finish(1000)).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn refuse(payloads: &[Vec<u8>], part: &str) {
        let error = status(payloads).unwrap_err();
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn each_context_has_its_states_over_the_same_range() {
        let found = status(&[
            payload(3, &[(100, 1), (900, 0)]),
            payload(7, &[(100, 3), (50, 1), (50, 2), (100, 0), (100, 0), (100, 4)]),
            payload(9, &[(5000, 2)]),
        ]);
        let found = found.unwrap();
        assert_eq!((found.offset, found.bytes), (1000, 500));
        let part = |offset, bytes, state| Status { offset, bytes, state };
        let allocation = |is_hole, is_zero| State::Allocation { is_hole, is_zero };
        let expected = [
            vec![
                part(1000, 100, allocation(true, true)),
                part(1100, 50, allocation(true, false)),
                part(1150, 50, allocation(false, true)),
                part(1200, 300, allocation(false, false)),
            ],
            vec![part(1000, 100, State::Dirty(true)), part(1100, 400, State::Dirty(false))],
            vec![part(1000, 500, State::Other(2))],
        ];
        assert_eq!(found.by_context, expected);
    }

    #[test]
    fn a_reply_has_one_sound_list_for_each_context() {
        let all = |first: &[(u32, u32)]| {
            [payload(7, first), payload(3, &[(9, 0)]), payload(9, &[(9, 0)])]
        };
        assert_eq!(status(&all(&[(1, 0)])).unwrap().bytes, 1);
        refuse(&all(&[(1, 0)])[..2], "missing");
        refuse(&all(&[(0, 0)]), "covers nothing");
        refuse(&all(&[]), "ends before");
        refuse(&[payload(7, &[(9, 0)]), payload(7, &[(9, 0)])], "twice");
        refuse(&[payload(8, &[(9, 0)])], "unknown context");
        refuse(&[vec![0, 0]], "too short");
        refuse(&[payload(7, &[(9, 0)])[..10].to_vec()], "too short");
    }

    #[test]
    fn lengths_of_payloads_are_bounded() {
        let lengths = [12, 20, 4 + 8 * STATUSES_MAX];
        assert!(lengths.into_iter().all(StatusLists::may_have));
        let lengths = [0, 3, 4, 11, 13, 4 + 8 * (STATUSES_MAX + 1), u32::MAX];
        assert!(!lengths.into_iter().any(StatusLists::may_have));
    }

    proptest! {
        #[test]
        fn lists_are_whole_and_in_order(
            lists in proptest::collection::vec(
                proptest::collection::vec((1_u32..400, 0_u32..4), 1..6),
                3,
            ),
            skipped in 0_u64..100,
        ) {
            let contexts = contexts();
            let mut found = StatusLists::new(&contexts, 1000, 2000);
            for (context, list) in contexts.iter().zip(&lists) {
                found.add(&payload(context.id, list)).unwrap();
            }
            let shortest = lists.iter().map(|list| list.iter().map(|part| part.0).sum::<u32>());
            let end = 1000 + u64::from(shortest.min().unwrap()).min(1000);
            let found = found.finish(1000 + skipped);
            prop_assert_eq!(found.is_ok(), end > 1000 + skipped);
            let Ok(found) = found else { return Ok(()) };
            prop_assert_eq!(found.offset + found.bytes, end);
            for list in &found.by_context {
                let mut next = found.offset;
                for part in list {
                    prop_assert!(part.offset == next && part.bytes > 0);
                    next += part.bytes;
                }
                prop_assert_eq!(next, end);
            }
        }
    }
}
