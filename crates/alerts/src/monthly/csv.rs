//! The report of a month as CSV (RFC 4180).

use std::fmt::Write as _;

use jiff::Timestamp;

use super::report::{MonthlyReport, NodeMonth};

/// Names of the columns.
const COLUMNS: &str = "month,domain,node,days,days_good,backups_complete,backups_partial,\
                       events_completed,events_failed,events_missed,last_good_backup,objects,\
                       bytes,bytes_sent,restores,restored_objects,restored_bytes";

pub(super) fn table(report: &MonthlyReport) -> String {
    let mut text = format!("{COLUMNS}\r\n");
    for node in &report.nodes {
        line(&mut text, report, node);
    }
    text
}

fn line(text: &mut String, report: &MonthlyReport, node: &NodeMonth) {
    let last = node.last_good.and_then(|time| Timestamp::from_microsecond(time.0).ok());
    let last = last.map(|time| time.to_string()).unwrap_or_default();
    let numbers = |numbers: &[u64]| {
        let texts: Vec<String> = numbers.iter().map(u64::to_string).collect();
        texts.join(",")
    };
    let before = [
        u64::from(node.days),
        u64::from(node.days_good),
        node.backups_complete,
        node.backups_partial,
        node.events_completed,
        node.events_failed,
        node.events_missed,
    ];
    let after = [
        node.objects,
        node.bytes,
        node.bytes_sent,
        node.restores,
        node.restored_objects,
        node.restored_bytes,
    ];
    let (domain, name) = (field(&report.domain), field(&node.node));
    write!(text, "{},{domain},{name},{},", report.month, numbers(&before)).expect("is text");
    write!(text, "{last},{}\r\n", numbers(&after)).expect("is text");
}

/// Returns a field. One that a spreadsheet would take for a formula begins with an apostrophe.
fn field(text: &str) -> String {
    let guard = if text.starts_with(['=', '+', '-', '@']) { "'" } else { "" };
    let text = format!("{guard}{text}");
    if text.contains(['"', ',', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_one_field_and_no_formula() {
        assert_eq!(field("LAB"), "LAB");
        assert_eq!(field("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(field("=cmd()"), "'=cmd()");
    }
}
