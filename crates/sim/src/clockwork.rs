//! The time that commands and motions take.

use std::time::Duration;

/// A place on a tape.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spot {
    /// Number of blocks and filemarks before the place.
    pub block: u64,
    /// Number of bytes before the place.
    pub bytes: u64,
}

/// A command or motion that takes time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Motion {
    /// Processing of any command, without its motions.
    Command,
    /// Threading of the tape, until it is ready.
    Load,
    /// Rewind and unthreading of the tape.
    Unload {
        from: Spot,
    },
    /// Positioning by REWIND, LOCATE or SPACE.
    Position {
        from: Spot,
        to: Spot,
    },
    Read {
        at: Spot,
        bytes: u64,
    },
    Write {
        at: Spot,
        bytes: u64,
    },
    /// Writing of a filemark, after the buffer is empty.
    Filemark {
        at: Spot,
    },
    /// The changer's way from one element to another.
    Move {
        from: u16,
        to: u16,
    },
    Cleaning,
}

/// A model of the time that motions take.
pub trait Clockwork: Send {
    fn cost(&mut self, motion: Motion) -> Duration;
}

/// The times of a full-height LTO-8 drive. Positioning takes a constant time, and time in
/// proportion to the distance in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Constants;

impl Clockwork for Constants {
    fn cost(&mut self, motion: Motion) -> Duration {
        const BYTES_PER_SEC: f64 = 360e6;
        const SEARCH_BYTES_PER_SEC: f64 = 120e9;
        let bytes = |count: u64, speed| Duration::from_secs_f64(as_float(count) / speed);
        match motion {
            Motion::Command => Duration::from_micros(50),
            Motion::Load => Duration::from_secs(15),
            Motion::Unload { from } => Duration::from_secs(24) + self.rewind(from),
            Motion::Position { from, to } if from == to => Duration::ZERO,
            Motion::Position { from, to } => {
                let distance = from.bytes.abs_diff(to.bytes);
                Duration::from_secs(4) + bytes(distance, SEARCH_BYTES_PER_SEC)
            }
            Motion::Read { bytes: count, .. } | Motion::Write { bytes: count, .. } => {
                bytes(count, BYTES_PER_SEC)
            }
            Motion::Filemark { .. } => Duration::from_millis(3),
            Motion::Move { .. } => Duration::from_secs(10),
            Motion::Cleaning => Duration::from_secs(120),
        }
    }
}

impl Constants {
    fn rewind(&mut self, from: Spot) -> Duration {
        self.cost(Motion::Position { from, to: Spot::default() })
    }
}

fn as_float(count: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let float = count as f64;
    float
}
