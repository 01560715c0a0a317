//! Copies of the catalogue.

use store::lifecycle::catalog_copy::{CopySummary, Outcome};
use wire::proto;

pub(crate) fn copy(info: CopySummary) -> proto::CatalogCopy {
    let CopySummary { number, taken, bytes, pools } = info;
    proto::CatalogCopy { number, taken: taken.0, bytes, pools }
}

pub(crate) fn outcome(outcome: &Outcome, is_last: bool) -> proto::CopyCatalogReply {
    let Outcome { number, bytes, bytes_done, bytes_new } = *outcome;
    proto::CopyCatalogReply { number, bytes, bytes_done, bytes_new, is_last }
}
