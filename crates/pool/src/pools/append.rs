//! Appending quanta to open packs.

use model::{ChunkDigest, Place};

use super::Pools;
use crate::error::AppendError;
use crate::open::{NewQuantum, OpenPack};
use crate::pack::Filler;
use crate::reserve::{Margin, Purpose};
use crate::state::{Slot, State, WriteFailure};

impl Pools {
    /// Appends a quantum: its `record`, and the `lengths` and `digests` of its chunks. Returns the
    /// place of its first chunk, which is durable only after [`Pools::sync`]. If the first pool is
    /// full, the quantum goes to the next pool.
    pub fn append(
        &self,
        filler: Filler,
        record: &[u8],
        lengths: &[u32],
        digests: &[ChunkDigest],
    ) -> Result<Place, AppendError> {
        self.append_for(Purpose::Data, filler, NewQuantum { record, lengths, digests })
    }

    /// Appends a quantum as [`Pools::append`] does, for work without which no space becomes free.
    pub fn append_for_upkeep(
        &self,
        filler: Filler,
        record: &[u8],
        lengths: &[u32],
        digests: &[ChunkDigest],
    ) -> Result<Place, AppendError> {
        self.append_for(Purpose::Upkeep, filler, NewQuantum { record, lengths, digests })
    }

    fn append_for(
        &self,
        purpose: Purpose,
        filler: Filler,
        quantum: NewQuantum<'_>,
    ) -> Result<Place, AppendError> {
        let NewQuantum { lengths, digests, .. } = quantum;
        assert_eq!(lengths.len(), digests.len(), "one digest a chunk");
        if let Err(error) = self.stock_up() {
            // The source is asked again when no number is left.
            tracing::warn!(%error, "cannot take more numbers for packs");
        }
        let mut state = self.state();
        let mut full = None;
        for pool in state.chain() {
            match append_to(&mut state, Slot { filler, pool }, purpose, quantum) {
                Err(error @ AppendError::Full { .. }) => full = full.or(Some(error)),
                other => return other,
            }
        }
        if full.is_some() && purpose == Purpose::Data {
            state.refused_bytes = state.refused_bytes.max(Some(quantum.record.len() as u64));
        }
        Err(full.unwrap_or_else(|| state.nowhere()))
    }

    /// Returns true while no pool has room for new data: from the first refusal until a pool has
    /// room for two of the largest record that was refused. A small record that still fits changes
    /// nothing.
    pub fn refuses_data(&self) -> bool {
        let Some(refused_bytes) = self.state().refused_bytes else { return false };
        let rooms = self.rooms(Purpose::Data, State::chain);
        let refuses = rooms.into_iter().all(|room| room < refused_bytes.saturating_mul(2));
        if !refuses {
            self.state().refused_bytes = None;
        }
        refuses
    }

    /// Returns the number of packs that have failed. If two calls return the same number,
    /// everything that was appended between them is durable once it is synced. If the numbers
    /// differ, it may be lost, even if another caller's sync failed.
    pub fn failures(&self) -> usize {
        self.state().given_up.len()
    }

    /// Returns the reason why the last pack failed.
    pub fn last_failure(&self) -> WriteFailure {
        self.state().last_failure.clone()
    }
}

fn append_to(
    state: &mut State,
    slot: Slot,
    purpose: Purpose,
    quantum: NewQuantum<'_>,
) -> Result<Place, AppendError> {
    let margin = Margin { reserve: state.reserve, purpose };
    let member = &state.members[&slot.pool];
    if !member.has_room(quantum.record.len() as u64) {
        return Err(AppendError::Full { folder: member.spec.place() });
    }
    let full = state.open.get(&slot).is_some_and(OpenPack::is_full);
    if full && let Some(pack) = state.open.remove(&slot) {
        state.sealing.push(pack);
    }
    if !state.open.contains_key(&slot) {
        let made = state.create(slot, purpose)?;
        state.open.insert(slot, made);
    }
    let open = state.open.get_mut(&slot).expect("it was made just above");
    let pack = open.number();
    let error = match open.append(quantum, margin) {
        Ok(place) => {
            let bytes = open.bytes();
            state.set_bytes(slot.pool, pack, bytes);
            return Ok(place);
        }
        Err(error) => state.failure(pack, error),
    };
    if matches!(error, AppendError::Failed { .. }) {
        state.give_up(pack);
    }
    Err(error)
}
