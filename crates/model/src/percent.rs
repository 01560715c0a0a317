//! Bytes as text that people can read in files and messages, and that can be read back.

use std::fmt::Write as _;

/// Returns `bytes` as text. Bytes that are not UTF-8, and `%`, become `%` and two digits.
pub fn percent_encoded(bytes: &[u8]) -> String {
    let mut text = String::new();
    for part in bytes.utf8_chunks() {
        text.push_str(&part.valid().replace('%', "%25"));
        for byte in part.invalid() {
            write!(text, "%{byte:02x}").expect("a string takes everything");
        }
    }
    text
}

/// Returns the bytes from which [`percent_encoded`] has made `text`; `None` if two digits are
/// missing after a `%`.
pub fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first == b'%' {
            let (digits, tail) = tail.split_at_checked(2)?;
            // The number alone could have a sign.
            if !digits.iter().all(u8::is_ascii_hexdigit) {
                return None;
            }
            bytes.push(u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?);
            rest = tail;
        } else {
            bytes.push(first);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bytes_survive_as_text(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(percent_decoded(&percent_encoded(&bytes)), Some(bytes));
        }
    }

    #[test]
    fn text_that_means_no_bytes_is_refused() {
        for text in ["%", "%1", "%2", "%zz", "%+1", "a%g0", "%2\u{e9}"] {
            assert_eq!(percent_decoded(text), None, "{text}");
        }
        assert_eq!(percent_decoded("/a%0a%ff").as_deref(), Some(&b"/a\n\xff"[..]));
    }
}
