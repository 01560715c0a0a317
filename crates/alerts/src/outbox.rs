//! Notices on their way: their rows, and when the next attempt is (pure).

use std::time::Duration;

use catalog::NoticeRow;
use model::ServerTime;

use crate::audience::{Address, MAIL};
use crate::notices::Notice;

/// Pauses after the first failed attempt, and the longest.
const PAUSE_FIRST: Duration = Duration::from_secs(30);
const PAUSE_MAX: Duration = Duration::from_secs(3_600);
/// Time in microseconds for which a notice waits for its recipient: a week.
pub(crate) const PATIENCE_MICROS: i64 = 7 * 86_400_000_000;

/// Returns the rows of a notice, one for each recipient.
pub(crate) fn rows(notice: &Notice, addresses: &[Address], now: ServerTime) -> Vec<NoticeRow> {
    let row = |(channel, address): &Address| {
        let body = if *channel == MAIL { &notice.text } else { &notice.document };
        NoticeRow {
            number: 0,
            channel: (*channel).to_owned(),
            address: address.clone(),
            subject: notice.subject.clone(),
            body: body.clone(),
            made: now,
            due: now,
            attempts: 0,
            error: String::new(),
            sent: None,
        }
    };
    addresses.iter().map(row).collect()
}

/// Returns the pause after the failed attempt number `attempt`, from 0.
pub(crate) fn pause(attempt: u32) -> Duration {
    let factor = 2_u32.checked_pow(attempt).unwrap_or(u32::MAX);
    PAUSE_FIRST.saturating_mul(factor).min(PAUSE_MAX)
}

/// Returns the time of the attempt after the failed attempt number `attempt`, from 0.
pub(crate) fn next_attempt(now: ServerTime, attempt: u32) -> ServerTime {
    let micros = i64::try_from(pause(attempt).as_micros()).expect("an hour at most");
    ServerTime(now.0.saturating_add(micros))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audience::WEBHOOK;

    #[test]
    fn pauses_grow_up_to_an_hour() {
        let secs = [0, 1, 2, 6, 7, 40, u32::MAX].map(|attempt| pause(attempt).as_secs());
        assert_eq!(secs, [30, 60, 120, 1_920, 3_600, 3_600, 3_600]);
        assert_eq!(next_attempt(ServerTime(5), 0), ServerTime(30_000_005));
    }

    #[test]
    fn each_recipient_gets_the_form_of_its_way() {
        let notice = Notice {
            subject: "subject".to_owned(),
            text: "text".to_owned(),
            document: "{}".to_owned(),
        };
        let addresses = [(MAIL, "a@example.org".to_owned()), (WEBHOOK, "chat".to_owned())];
        let rows = rows(&notice, &addresses, ServerTime(7));
        let shown: Vec<_> = rows
            .iter()
            .map(|row| (row.channel.as_str(), row.address.as_str(), row.body.as_str()))
            .collect();
        assert_eq!(shown, [("mail", "a@example.org", "text"), ("webhook", "chat", "{}")]);
    }
}
