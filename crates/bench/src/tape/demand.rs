//! Demands on a simulated library, and random numbers to make demands.

use tape::order::Stop;
use tape::schedule::{
    Demand, Kind, ObjectId, OwnerId, ProgramId, Source, VolumeId, Waiter, WaiterId,
};

use crate::random::Random;
use crate::spread::float;

/// Returns random numbers for `seed`. The numbers of neighbouring seeds are independent, which they
/// are not with [`Random::new`].
pub(super) fn seeded(seed: u64) -> Random {
    Random::new(Random::new(seed).next())
}

/// Returns a random number from 0 to 1.
pub(super) fn fraction(random: &mut Random) -> f64 {
    float(random.below(1 << 32)) / float(1 << 32)
}

/// Returns the demand of the waiter `id` for an object of its own, which is at `source`.
pub(super) fn ask(id: u64, kind: Kind, source: Source) -> Demand {
    // Each waiter is of a program of its own, so that the budgets of programs have no effect.
    let waiter = Waiter { id: WaiterId(id), owner: OwnerId(id), program: ProgramId(id), kind };
    Demand { waiter, object: ObjectId(id), sources: vec![source] }
}

pub(super) fn source(volume: u64, at: u64, bytes: u64) -> Source {
    Source { volume: VolumeId(volume), stop: Stop { at, bytes } }
}
