//! Numbers and times in the words of notices.

use model::ServerTime;
use store::folder::Zone;

/// Returns the time in the zone, to the minute.
pub(crate) fn time(zone: &Zone, time: ServerTime) -> String {
    zone.wall(time).strftime("%Y-%m-%d %H:%M").to_string()
}

/// Returns the number with its noun: "1 node", "2 nodes". The plural of `noun` must be regular.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// Returns the number with commas between its thousands.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && index % 3 == first {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

const UNITS: [&str; 6] = ["B", "KB", "MB", "GB", "TB", "PB"];

/// Returns a number of bytes in powers of 1024, with one decimal, rounded down.
pub(crate) fn bytes(number: u64) -> String {
    let mut power = 0;
    while power + 1 < UNITS.len() && number >= 1 << (10 * (power + 1)) {
        power += 1;
    }
    let tenths = (u128::from(number) * 10) >> (10 * power);
    match power {
        0 => format!("{} B", count(number)),
        _ => format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[power]),
    }
}

/// Returns the text with characters that control terminals or mail, or deceive readers, replaced.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if model::is_unprintable(c) { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_can_be_read() {
        let counts = [0, 999, 1_000, 1_234_567].map(count);
        assert_eq!(counts, ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([1, 2].map(|number| counted(number, "node")), ["1 node", "2 nodes"]);
    }

    #[test]
    fn bytes_have_a_unit() {
        let words = [0, 1_023, 1_024, 1_600, 5 << 30, u64::MAX].map(bytes);
        assert_eq!(words, ["0 B", "1,023 B", "1.0 KB", "1.5 KB", "5.0 GB", "16383.9 PB"]);
    }

    #[test]
    fn times_are_those_of_the_zone() {
        let berlin = Zone::try_from("Europe/Berlin".to_owned()).expect("a zone");
        assert_eq!(time(&berlin, ServerTime(1_700_000_000_000_000)), "2023-11-14 23:13");
    }

    #[test]
    fn no_line_is_smuggled_in() {
        assert_eq!(plain("a\r\nBcc: b\u{1b}"), "a  Bcc: b ");
        assert_eq!(plain("\u{202e}a\u{2028}b \u{e9}"), " a b \u{e9}");
    }
}
