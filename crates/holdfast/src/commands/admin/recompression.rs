//! Effect of compressing data anew, for people and as a document.

use client::admin::RecompressionEffect;
use serde::Serialize;

use crate::quantity;

/// Returns a line about the records that were compressed anew.
pub(super) fn text(effect: &RecompressionEffect) -> String {
    let effort = match effect.effort.as_str() {
        "standard" => "with the standard effort".to_owned(),
        level => format!("at level {level}"),
    };
    format!(
        "Records compressed {effort}: {} before, {} after.\n",
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
}

impl<'a> EffectDocument<'a> {
    pub(super) fn new(effect: &'a RecompressionEffect) -> Self {
        let RecompressionEffect { effort, before_bytes, after_bytes } = effect;
        Self { effort, bytes_before: *before_bytes, bytes_after: *after_bytes }
    }
}
