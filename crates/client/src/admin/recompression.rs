//! Compressing data anew when the server writes it again.

use chunk::Recompression;
use wire::proto;

/// Effect of a recompression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecompressionEffect {
    /// Effort as users write it: `standard`, or a level of zstd.
    pub effort: String,
    /// Size of the records before. Of a record with dead chunks, the share of the live chunks
    /// counts.
    pub before_bytes: u64,
    pub after_bytes: u64,
    /// Bytes that a GPU of the server has compressed, before compression.
    pub gpu_bytes: u64,
}

impl From<proto::RecompressionEffect> for RecompressionEffect {
    fn from(message: proto::RecompressionEffect) -> Self {
        let proto::RecompressionEffect { effort, before_bytes, after_bytes, gpu_bytes } = message;
        let effort = match effort.unwrap_or_default().level {
            0 => Recompression::STANDARD.to_string(),
            level => level.to_string(),
        };
        Self { effort, before_bytes, after_bytes, gpu_bytes }
    }
}

pub(super) fn message(effort: Recompression) -> proto::Recompression {
    proto::Recompression { level: effort.level().unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effort_is_shown_as_it_was_asked_for() {
        for effort in ["standard", "1", "19"] {
            let sent = message(effort.parse().expect("is allowed"));
            let back = proto::RecompressionEffect { effort: Some(sent), ..Default::default() };
            assert_eq!(RecompressionEffect::from(back).effort, effort);
        }
    }
}
