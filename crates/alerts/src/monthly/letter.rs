//! The report of a month as a mail: a short text, with the page and the table attached.

use catalog::NoticeRow;
use serde::{Deserialize, Serialize};

use super::report::{Month, MonthlyReport, percent};
use crate::audience::{Audience, MAIL, REPORT};
use crate::notices::subject;
use crate::words::{bytes, counted};

/// The body of a notice with a report.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Letter {
    pub(crate) text: String,
    /// Name of the attached files, without its end.
    pub(crate) name: String,
    pub(crate) html: String,
    pub(crate) csv: String,
}

/// Returns the month whose report is due in the month `present`, if the report of `last` was the
/// last one.
pub(crate) fn due(present: Month, last: i64) -> Option<Month> {
    let month = present.before();
    (month.number() > last).then_some(month)
}

/// Returns a notice for each of the audience's addresses of mail.
pub(crate) fn rows(report: &MonthlyReport, audience: &Audience) -> Vec<NoticeRow> {
    let letter = letter(report);
    let words = format!("backup of {} in {}", report.domain, report.month);
    let mails = audience.addresses.iter().filter(|(channel, _)| *channel == MAIL);
    let row = |(_, address): &(&'static str, String)| NoticeRow {
        number: 0,
        channel: REPORT.to_owned(),
        address: address.clone(),
        subject: subject(&report.server, &words),
        body: serde_json::to_string(&letter).expect("texts are JSON"),
        made: report.made,
        due: report.made,
        attempts: 0,
        error: String::new(),
        sent: None,
    };
    mails.map(row).collect()
}

fn letter(report: &MonthlyReport) -> Letter {
    let total = report.total();
    let text = format!(
        "The report of {} in {} is attached.\n\n{}: {} of the days had a good backup. Stored: \
         {}. {}.\n",
        report.domain,
        report.month,
        counted(report.nodes.len() as u64, "node"),
        percent(u64::from(total.days_good), u64::from(total.days)),
        bytes(total.bytes),
        counted(total.restores, "restore"),
    );
    let name = format!("backup-{}-{}", report.domain, report.month);
    Letter { text, name, html: report.html(), csv: report.csv() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_of_a_month_is_due_in_the_next() {
        let month = |text: &str| text.parse::<Month>().expect("a month");
        let last = month("2025-11").number();
        assert_eq!(due(month("2025-12"), last), None);
        assert_eq!(due(month("2026-01"), last), Some(month("2025-12")));
        assert_eq!(due(month("2026-01"), month("2025-12").number()), None);
    }
}
