//! Numbers for people: counts with their nouns, bytes in powers of 1024, percent, durations.

use std::time::Duration;

/// Units of sizes, each 1024 times the one before.
const UNITS: [&str; 6] = ["B", "KB", "MB", "GB", "TB", "PB"];

/// Formats a number as `1,234,567`.
pub(crate) fn count(number: u64) -> String {
    grouped(&number.to_string())
}

/// Formats a count with its noun: `1 node`, `1,234 nodes`. The last word of `noun` names the
/// counted things; [`plural`] gives its form.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    format!("{} {}", count(number), plural(number, noun))
}

/// Returns `noun` in the form that follows `number`.
pub(crate) fn plural(number: u64, noun: &str) -> String {
    if number == 1 {
        return noun.to_owned();
    }
    match noun {
        _ if noun.ends_with("quantum") => format!("{}quanta", noun.trim_end_matches("quantum")),
        _ if noun.ends_with("directory") => {
            format!("{}directories", noun.trim_end_matches("directory"))
        }
        _ if noun.ends_with('h') => format!("{noun}es"),
        _ => format!("{noun}s"),
    }
}

/// Returns `is` or `are`, as it must follow `number` things.
pub(crate) fn are(number: u64) -> &'static str {
    if number == 1 { "is" } else { "are" }
}

/// Formats a number of bytes and returns it apart from its unit: `("1,023", "B")`, `("1.23",
/// "KB")`.
///
/// The number has two decimals, computed from the exact value; a half is rounded to even.
pub(crate) fn bytes(number: u64) -> (String, &'static str) {
    let mut power = 0;
    while power + 1 < UNITS.len() && number >= 1 << (10 * (power + 1)) {
        power += 1;
    }
    if power == 0 {
        return (count(number), UNITS[0]);
    }
    let unit = 1_u128 << (10 * power);
    let hundredths = u128::from(number) * 100;
    let (whole, rest) = (hundredths / unit, hundredths % unit);
    let up = rest * 2 > unit || (rest * 2 == unit && whole % 2 == 1);
    let rounded = whole + u128::from(up);
    let text = format!("{}.{:02}", rounded / 100, rounded % 100);
    (grouped(&text), UNITS[power])
}

/// Formats a number of bytes as `1.23 KB`.
pub(crate) fn bytes_with_unit(number: u64) -> String {
    let (value, unit) = bytes(number);
    format!("{value} {unit}")
}

/// Formats a number as `25,740.56`.
pub(crate) fn hundredths(number: f64) -> String {
    grouped(&format!("{number:.2}"))
}

/// Formats a percentage as `37%` or `37.47%`, by the number of `decimals`.
pub(crate) fn percent(number: f64, decimals: usize) -> String {
    let text = format!("{number:.decimals$}%");
    let is_zero = text.bytes().all(|byte| b"-0.%".contains(&byte));
    // A small negative number is shown as zero, without its sign.
    if is_zero { text.trim_start_matches('-').to_owned() } else { text }
}

/// Formats a duration as `hh:mm:ss`. The hours may have more than two digits.
pub(crate) fn clock(time: Duration) -> String {
    let secs = time.as_secs();
    format!("{:02}:{:02}:{:02}", secs / 3600, secs / 60 % 60, secs % 60)
}

/// Puts commas between the thousands of the digits before the point.
fn grouped(text: &str) -> String {
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let (sign, digits) = whole.split_at(usize::from(whole.starts_with('-')));
    let mut grouped = String::with_capacity(text.len() + digits.len() / 3 + 1);
    grouped.push_str(sign);
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped.push_str(fraction);
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        for (number, expected) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (27_812_345, "27,812,345"),
            (u64::MAX, "18,446,744,073,709,551,615"),
        ] {
            assert_eq!(count(number), expected);
        }
        assert_eq!(hundredths(25_740.561), "25,740.56");
        assert_eq!(hundredths(0.0), "0.00");
        assert_eq!(hundredths(-1234.5), "-1,234.50");
    }

    #[test]
    fn bytes_are_told_in_powers_of_1024() {
        for (number, expected) in [
            (0, "0 B"),
            (1_023, "1,023 B"),
            (1_024, "1.00 KB"),
            (4_096, "4.00 KB"),
            (1_048_575, "1,024.00 KB"),
            (1_048_576, "1.00 MB"),
            (3_400_000_000, "3.17 GB"),
            (1 << 40, "1.00 TB"),
            (u64::MAX, "16,384.00 PB"),
        ] {
            assert_eq!(bytes_with_unit(number), expected);
        }
    }

    #[test]
    fn nouns_follow_their_numbers() {
        for (number, noun, expected) in [
            (0, "node", "0 nodes"),
            (1, "node", "1 node"),
            (1_234, "pack", "1,234 packs"),
            (1, "directory", "1 directory"),
            (2, "directory", "2 directories"),
            (2, "quantum", "2 quanta"),
            (2, "inactive version", "2 inactive versions"),
        ] {
            assert_eq!(counted(number, noun), expected);
        }
        assert_eq!([0, 1, 2].map(are), ["are", "is", "are"]);
    }

    /// 1152 bytes are 1.125 KB, half-way between 1.12 and 1.13. 1408 bytes are 1.375 KB.
    #[test]
    fn halves_go_to_the_even_digit() {
        assert_eq!(bytes_with_unit(1_152), "1.12 KB");
        assert_eq!(bytes_with_unit(1_408), "1.38 KB");
    }

    #[test]
    fn percent_are_rounded_half_to_even_and_never_less_than_nothing_by_nothing() {
        for (number, decimals, expected) in [
            (36.7, 0, "37%"),
            (0.5, 0, "0%"),
            (1.5, 0, "2%"),
            (37.469_6, 2, "37.47%"),
            (100.0, 2, "100.00%"),
            (-12.345_6, 2, "-12.35%"),
            (-0.001, 2, "0.00%"),
        ] {
            assert_eq!(percent(number, decimals), expected);
        }
    }

    #[test]
    fn hours_go_on_beyond_a_day() {
        assert_eq!(clock(Duration::from_millis(999)), "00:00:00");
        assert_eq!(clock(Duration::from_secs(3_725)), "01:02:05");
        assert_eq!(clock(Duration::from_secs(89_778)), "24:56:18");
        assert_eq!(clock(Duration::from_secs(1_000_000)), "277:46:40");
    }
}
