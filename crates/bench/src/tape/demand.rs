//! Demands on a simulated library, and the random numbers that they are made of.

use tape::order::Stop;
use tape::schedule::{
    Demand, Kind, ObjectId, OwnerId, ProgramId, Source, VolumeId, Waiter, WaiterId,
};

use crate::random::Random;
use crate::spread::float;

/// Returns the numbers of `seed`, which are not those of the next seed moved by one.
pub(super) fn seeded(seed: u64) -> Random {
    Random::new(Random::new(seed).next())
}

/// Returns a number from 0 to 1.
pub(super) fn fraction(random: &mut Random) -> f64 {
    float(random.below(1 << 32)) / float(1 << 32)
}

/// Returns what waiter `id` asks for: an object of its own, of `bytes` from `at` on.
pub(super) fn ask(id: u64, kind: Kind, source: Source) -> Demand {
    // A program of its own: budgets are not what is measured.
    let waiter = Waiter { id: WaiterId(id), owner: OwnerId(id), program: ProgramId(id), kind };
    Demand { waiter, object: ObjectId(id), sources: vec![source] }
}

pub(super) fn source(volume: u64, at: u64, bytes: u64) -> Source {
    Source { volume: VolumeId(volume), stop: Stop { at, bytes } }
}
