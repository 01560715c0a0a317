//! Effect of compressing data anew, for people and as a document.

use client::Recompression;
use client::admin::RecompressionEffect;
use serde::Serialize;

use crate::error::WARNED;
use crate::output;
use crate::quantity;

/// Check that the server compresses anew, as it was asked to. A server that does not know the
/// request ignores it.
pub(super) struct EffortCheck {
    effort: Option<Recompression>,
    is_ignored: bool,
}

impl EffortCheck {
    pub(super) fn new(effort: Option<Recompression>) -> Self {
        Self { effort, is_ignored: false }
    }

    /// Looks at the effect that the server reports, with its progress or at the end. Warns once if
    /// there is none: at the first report, so that the user can interrupt the work.
    pub(super) fn see(&mut self, effect: Option<&RecompressionEffect>) {
        if self.is_ignored || self.effort.is_none() || effect.is_some() {
            return;
        }
        self.is_ignored = true;
        output::say(
            "the server is too old to compress data anew, so the data is compressed as before; \
             restart the server with this version",
        );
    }

    /// Returns the exit code of a command that otherwise ends with `code`.
    pub(super) fn code(&self, code: u8) -> u8 {
        if self.is_ignored { code.max(WARNED) } else { code }
    }
}

/// Returns a line about the records that were compressed anew.
pub(super) fn text(effect: &RecompressionEffect) -> String {
    let effort = match effect.effort.as_str() {
        "standard" => "with the standard effort".to_owned(),
        level => format!("at level {level}"),
    };
    let by_gpu = match effect.gpu_bytes {
        0 => String::new(),
        bytes => format!("; a GPU compressed {} of data", quantity::bytes_with_unit(bytes)),
    };
    format!(
        "Records compressed {effort}: {} before, {} after{by_gpu}.\n",
        quantity::bytes_with_unit(effect.before_bytes),
        quantity::bytes_with_unit(effect.after_bytes),
    )
}

/// Key `recompression` of a document.
#[derive(Serialize)]
pub(super) struct EffectDocument<'a> {
    effort: &'a str,
    bytes_before: u64,
    bytes_after: u64,
    /// Bytes that a GPU has compressed, before compression.
    gpu_bytes: u64,
}

impl<'a> EffectDocument<'a> {
    pub(super) fn new(effect: &'a RecompressionEffect) -> Self {
        let RecompressionEffect { effort, before_bytes, after_bytes, gpu_bytes } = effect;
        let (bytes_before, bytes_after) = (*before_bytes, *after_bytes);
        Self { effort, bytes_before, bytes_after, gpu_bytes: *gpu_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{DONE, FAILED};

    #[test]
    fn a_server_that_ignores_the_effort_is_a_warning() {
        let (effort, before_bytes, after_bytes, gpu_bytes) = ("9".to_owned(), 0, 0, 0);
        let effect = RecompressionEffect { effort, before_bytes, after_bytes, gpu_bytes };
        let effort = Recompression::of_level(9).ok();
        let code = |code, effort, effects: &[Option<&RecompressionEffect>]| {
            let mut check = EffortCheck::new(effort);
            effects.iter().for_each(|effect| check.see(*effect));
            check.code(code)
        };
        assert_eq!(code(DONE, effort, &[Some(&effect)]), DONE);
        assert_eq!(code(DONE, None, &[None]), DONE);
        assert_eq!(code(FAILED, None, &[Some(&effect)]), FAILED);
        assert_eq!(code(DONE, effort, &[None]), WARNED);
        assert_eq!(code(FAILED, effort, &[None]), WARNED);
        assert_eq!(code(DONE, effort, &[None, None]), WARNED);
        let mut check = EffortCheck::new(effort);
        check.see(None);
        assert!(check.is_ignored, "the first report of the progress shows it");
    }
}
