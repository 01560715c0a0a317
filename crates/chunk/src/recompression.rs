//! Effort of compression for data that is written again.

use std::fmt;
use std::str::FromStr;

use crate::Compression;

/// Greatest level of zstd that is allowed. Higher levels need several times the memory.
const LEVEL_MAX: i32 = 19;

/// Effort with which data is compressed anew when it is written again.
///
/// Invariant: the effort is [`Compression::Standard`], or a level of zstd from 1 to 19. Data that
/// is written again to save space is never stored uncompressed on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recompression(Compression);

/// Error for an effort that is not allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the value must be standard, or a level of zstd from 1 to 19")]
pub struct RecompressionError;

impl Recompression {
    pub const STANDARD: Self = Self(Compression::Standard);

    /// Returns the effort of a level of zstd. Fails for a level that is not from 1 to 19.
    pub fn of_level(level: u32) -> Result<Self, RecompressionError> {
        let level = i32::try_from(level).ok().filter(|level| (1..=LEVEL_MAX).contains(level));
        level.map(|level| Self(Compression::Level(level))).ok_or(RecompressionError)
    }

    pub fn compression(self) -> Compression {
        self.0
    }

    /// Returns the level of zstd, or `None` for the standard effort.
    pub fn level(self) -> Option<u32> {
        match self.0 {
            Compression::Level(level) => u32::try_from(level).ok(),
            Compression::Standard | Compression::Stored => None,
        }
    }
}

/// Shows the effort as users write it: `standard`, or zstd's level.
impl fmt::Display for Recompression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Recompression {
    type Err = RecompressionError;

    fn from_str(effort: &str) -> Result<Self, Self::Err> {
        if effort == Self::STANDARD.to_string() {
            return Ok(Self::STANDARD);
        }
        let level = effort.parse().map_err(|_| RecompressionError)?;
        // A number may also be written with a sign or with leading zeros.
        Self::of_level(level)
            .ok()
            .filter(|it| it.to_string() == effort)
            .ok_or(RecompressionError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effort_is_standard_or_a_level_from_1_to_19() {
        for effort in ["standard", "1", "9", "19"] {
            let parsed: Recompression = effort.parse().expect("is allowed");
            assert_eq!(parsed.to_string(), effort);
            assert_eq!(parsed.level(), effort.parse().ok());
        }
        for effort in ["0", "none", "-1", "20", "auto", "", "max", "+5", "007"] {
            assert_eq!(effort.parse::<Recompression>(), Err(RecompressionError), "{effort}");
        }
    }
}
