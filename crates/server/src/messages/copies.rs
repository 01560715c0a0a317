//! Copies of the catalogue.

use store::lifecycle::catalog_copy::{CopySummary, Outcome};
use wire::proto;

pub(crate) fn copy(info: CopySummary) -> proto::CatalogCopy {
    let CopySummary { number, taken, bytes, pools, is_doubtful } = info;
    proto::CatalogCopy { number, taken: taken.0, bytes, pools, is_doubtful }
}

pub(crate) fn outcome(outcome: &Outcome, is_last: bool) -> proto::CopyCatalogReply {
    let Outcome { number, bytes, bytes_done, bytes_new, ref doubt } = *outcome;
    let doubt = doubt.clone().unwrap_or_default();
    proto::CopyCatalogReply { number, bytes, bytes_done, bytes_new, doubt, is_last }
}
