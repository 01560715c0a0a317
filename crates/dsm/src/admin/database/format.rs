//! The forms of VARCHAR_FORMAT and TO_CHAR: times as `YYYY-MM-DD HH24:MI`, numbers as `999,990.00`.

use jiff::civil::DateTime;

/// Parts of the form of a time, each before those that it begins with.
const PARTS: [(&str, &str); 20] = [
    ("YYYY", "%Y"),
    ("YY", "%y"),
    ("MONTH", "%B"),
    ("MON", "%b"),
    ("MM", "%m"),
    ("MI", "%M"),
    ("DDD", "%j"),
    ("DD", "%d"),
    ("DAY", "%A"),
    ("DY", "%a"),
    ("HH24", "%H"),
    ("HH12", "%I"),
    ("HH", "%I"),
    ("SS", "%S"),
    ("FF3", "%3f"),
    ("FF6", "%6f"),
    ("FF", "%6f"),
    ("AM", "%p"),
    ("PM", "%p"),
    ("NNNNNN", "%6f"),
];
/// Signs of the form of a time that stand for themselves.
const SIGNS: &str = "-/.,:;' _T";
/// Maximum length of a form, in bytes, as in DB2.
const FORM_BYTES_MAX: usize = 254;

/// Returns a time in a form. Fails for a form with other parts.
pub(super) fn of_time(time: DateTime, form: &str) -> Result<String, String> {
    let mut shown = String::new();
    let mut rest = form;
    while let Some(first) = rest.chars().next() {
        let begins = |part: &str| {
            rest.get(..part.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(part))
        };
        if let Some((part, code)) = PARTS.into_iter().find(|(part, _)| begins(part)) {
            let (written, after) = rest.split_at(part.len());
            shown.push_str(&in_case_of(written, &time.strftime(code).to_string()));
            rest = after;
        } else if SIGNS.contains(first) {
            shown.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            return Err(unknown(form));
        }
    }
    Ok(shown)
}

/// Returns the time that a text in a form means; `None` for another text. Fails for a form with
/// other parts.
pub(super) fn to_time(text: &str, form: &str) -> Result<Option<DateTime>, String> {
    let mut codes = String::new();
    let mut rest = form;
    while let Some(first) = rest.chars().next() {
        let begins = |part: &str| {
            rest.get(..part.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(part))
        };
        if let Some((part, code)) = PARTS.into_iter().find(|(part, _)| begins(part)) {
            codes.push_str(code);
            rest = &rest[part.len()..];
        } else if SIGNS.contains(first) {
            codes.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            return Err(unknown(form));
        }
    }
    let parsed = jiff::fmt::strtime::parse(&codes, text.trim());
    Ok(parsed.and_then(|parsed| parsed.to_datetime()).ok())
}

/// Returns a name in the case in which its part is written, as in MON, Mon and mon.
fn in_case_of(written: &str, name: &str) -> String {
    let mut letters = written.chars().map(|letter| letter.is_ascii_uppercase());
    match (letters.next(), letters.next()) {
        (Some(true), Some(false)) => name.to_owned(),
        (Some(true), _) => name.to_uppercase(),
        _ => name.to_lowercase(),
    }
}

/// Returns a number in a form of 9 and 0, with blanks before it and a place for its sign. A number
/// with more digits becomes a row of signs.
pub(super) fn of_number(value: f64, form: &str) -> Result<String, String> {
    let form = form.to_ascii_uppercase();
    let (whole_form, rest_form) = form.split_once(['.', 'D']).unwrap_or((&form, ""));
    let is_known = |form: &str, signs: &str| form.chars().all(|sign| signs.contains(sign));
    let is_short = (1..=FORM_BYTES_MAX).contains(&form.len());
    if !is_short || !is_known(whole_form, "90,G") || !is_known(rest_form, "90") {
        return Err(unknown(&form));
    }
    let (decimals, width) = (rest_form.len(), form.len() + 1);
    let text = format!("{:.decimals$}", value.abs());
    let (whole, rest) = text.split_once('.').unwrap_or((&text, ""));
    let mut digits = whole.chars().rev().peekable();
    let forced = whole_form.find('0').unwrap_or(usize::MAX);
    let place = |(at, sign): (usize, char)| {
        let blank = if at >= forced { '0' } else { ' ' };
        match sign {
            ',' | 'G' if digits.peek().is_some() || at >= forced => ',',
            ',' | 'G' => ' ',
            _ => digits.next().unwrap_or(blank),
        }
    };
    let reversed: String = whole_form.char_indices().rev().map(place).collect();
    if digits.any(|digit| digit != '0') {
        return Ok("#".repeat(width));
    }
    let shown: String = reversed.chars().rev().collect();
    let sign = if value < 0.0 { "-" } else { "" };
    let point = if form.len() > whole_form.len() { "." } else { "" };
    let number = format!("{sign}{}{point}{rest}", shown.trim_start());
    Ok(format!("{number:>width$}"))
}

fn unknown(form: &str) -> String {
    format!("the form '{}' is not supported", model::printable(form))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_parts_of_their_form() {
        let time: DateTime = "2026-11-26T15:04:09.25".parse().expect("a time");
        for (form, expected) in [
            ("YYYY-MM-DD HH24:MI:SS", "2026-11-26 15:04:09"),
            ("mm/dd/yy hh:mi pm", "11/26/26 03:04 pm"),
            ("DD MON YYYY", "26 NOV 2026"),
            ("Day, DD. Month", "Thursday, 26. November"),
            ("DDD HH12 FF3", "330 03 250"),
            ("", ""),
        ] {
            assert_eq!(of_time(time, form).as_deref(), Ok(expected), "{form}");
        }
        assert!(of_time(time, "YYYY-QQ").is_err());
        assert!(of_time(time, "\u{e9}").is_err());
    }

    #[test]
    fn numbers_have_the_places_of_their_form() {
        for (value, form, expected) in [
            (1_234.5, "999,990.00", "   1,234.50"),
            (0.0, "999,990.00", "       0.00"),
            (-7.0, "999", "  -7"),
            (5.0, "0,000", " 0,005"),
            (12_345.0, "999", "####"),
            (0.126, "9D99", " 0.13"),
        ] {
            assert_eq!(of_number(value, form).as_deref(), Ok(expected), "{value} {form}");
        }
        assert!(of_number(1.0, "").is_err() && of_number(1.0, "9.9.9").is_err());
        assert!(of_number(1.0, "$99").is_err());
    }
}
