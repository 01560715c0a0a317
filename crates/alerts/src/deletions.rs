//! Backups that found far more objects deleted than the backups before: a sign of a disk that is
//! gone, of a mistake, or of somebody who destroys.

use serde::Deserialize;
use store::folder::AlertSettings;

/// The part of a backup's report that counts here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
pub(crate) struct Counts {
    /// Number of objects that the backup found deleted.
    pub(crate) expired: u64,
}

impl Counts {
    /// Parses a report, which comes from a node.
    pub(crate) fn parse(report: &str) -> Option<Self> {
        serde_json::from_str(report).ok()
    }
}

/// Returns the usual number of deleted objects if `deleted` is far more than in each of the backups
/// `before`.
pub(crate) fn usual(settings: &AlertSettings, deleted: u64, before: &[Counts]) -> Option<u64> {
    let usual = before.iter().map(|counts| counts.expired).max().unwrap_or(0);
    let is_many = settings.deleted_objects > 0 && deleted >= settings.deleted_objects;
    let is_more = deleted > usual.saturating_mul(settings.deleted_factor);
    (is_many && is_more).then_some(usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_is_more_than_usual_and_not_few() {
        let settings = AlertSettings::default();
        let before = |counts: &[u64]| -> Vec<Counts> {
            counts.iter().map(|&expired| Counts { expired }).collect()
        };
        assert_eq!(usual(&settings, 5_000, &before(&[3, 90])), Some(90));
        assert_eq!(usual(&settings, 999, &before(&[0])), None);
        assert_eq!(usual(&settings, 5_000, &before(&[3, 600])), None);
        assert_eq!(usual(&settings, 1_000, &[]), Some(0));
        let off = AlertSettings { deleted_objects: 0, ..settings };
        assert_eq!(usual(&off, 5_000, &[]), None);
    }

    #[test]
    fn a_report_of_a_node_may_be_anything() {
        assert_eq!(Counts::parse("{\"expired\":7,\"x\":[]}"), Some(Counts { expired: 7 }));
        for bad in ["", "{}", "[]", "{\"expired\":-1}", "{\"expired\":\"7\"}"] {
            assert_eq!(Counts::parse(bad), None);
        }
    }
}
