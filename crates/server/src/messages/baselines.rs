//! Kept baselines.

use bytes::Bytes;
use catalog::BaselineRow;
use store::StoreError;
use wire::{BASELINE_BYTES_MAX, proto};

/// Maximum number of baselines in one portion: as many of the longest as a portion has room for.
pub(crate) const BASELINES_MAX: usize = 8;

pub(crate) fn document(request: proto::KeepBaselineRequest) -> Result<Bytes, StoreError> {
    let document = request.document;
    if document.is_empty() || document.len() > BASELINE_BYTES_MAX {
        let text =
            format!("a baseline has from 1 to {BASELINE_BYTES_MAX} bytes, not {}", document.len());
        return Err(StoreError::usage(text));
    }
    Ok(document)
}

pub(crate) fn baseline(row: BaselineRow) -> proto::Baseline {
    let BaselineRow { number, made, document } = row;
    proto::Baseline { number, made: made.0, document: document.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_document_within_the_limit_is_kept() {
        for (bytes, expected) in
            [(0, false), (1, true), (BASELINE_BYTES_MAX, true), (BASELINE_BYTES_MAX + 1, false)]
        {
            let request = proto::KeepBaselineRequest { document: vec![7; bytes].into() };
            assert_eq!(document(request).is_ok(), expected, "{bytes} bytes");
        }
    }
}
