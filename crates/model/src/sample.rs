//! Amounts of random samples, as people write them.

use crate::parse_bytes;

/// Share of everything, in millionths.
const ALL_MILLIONTHS: u32 = 1_000_000;

/// Amount of a random sample of files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SampleAmount {
    /// Number of files.
    Files(u64),
    /// Files in random order until they have so many bytes.
    Bytes(u64),
    /// Share of all files, in millionths: from 1 to 1,000,000.
    Millionths(u32),
}

/// Error for a text that is not the amount of a sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the amount of a sample is a number of files (500), a size (2G) or a share (5%)")]
pub struct SampleError;

impl std::str::FromStr for SampleAmount {
    type Err = SampleError;

    fn from_str(text: &str) -> Result<Self, SampleError> {
        let amount = match text.strip_suffix('%') {
            Some(percent) => Self::Millionths(millionths(percent).ok_or(SampleError)?),
            None if is_number(text) => Self::Files(text.parse().map_err(|_| SampleError)?),
            None => Self::Bytes(parse_bytes(text, 1).map_err(|_| SampleError)?),
        };
        match amount {
            Self::Files(0) | Self::Bytes(0) | Self::Millionths(0) => Err(SampleError),
            amount => Ok(amount),
        }
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Parses a percentage from 0 to 100 with up to four decimals. Returns it in millionths.
fn millionths(percent: &str) -> Option<u32> {
    let (whole, decimals) = percent.split_once('.').unwrap_or((percent, "0"));
    if !is_number(whole) || !is_number(decimals) || decimals.len() > 4 {
        return None;
    }
    let whole = whole.parse::<u32>().ok().filter(|whole| *whole <= 100)? * 10_000;
    let decimals: u32 = format!("{decimals:0<4}").parse().ok()?;
    Some(whole + decimals).filter(|millionths| *millionths <= ALL_MILLIONTHS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_counts_sizes_or_shares() {
        for (text, amount) in [
            ("500", SampleAmount::Files(500)),
            ("2G", SampleAmount::Bytes(2 << 30)),
            ("1.5M", SampleAmount::Bytes(3 << 19)),
            ("5%", SampleAmount::Millionths(50_000)),
            ("0.1%", SampleAmount::Millionths(1_000)),
            ("0.0001%", SampleAmount::Millionths(1)),
            ("100%", SampleAmount::Millionths(1_000_000)),
        ] {
            assert_eq!(text.parse(), Ok(amount), "{text}");
        }
        for text in ["", "0", "0%", "0M", "%", "101%", "100.1%", "1.00001%", "-1", "x", ".5%"] {
            assert_eq!(text.parse::<SampleAmount>(), Err(SampleError), "{text}");
        }
    }
}
