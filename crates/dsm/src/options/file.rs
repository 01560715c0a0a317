//! Lines of an option file, parsed into entries.

use super::definition::Kind;
use super::entry::{Entry, Fault, Place};
use super::table;

/// Maximum number of bytes in an option file or a macro.
pub const FILE_BYTES_MAX: usize = 4 << 20;
/// Maximum number of bytes in a line. TSM's own limit is lower.
pub const LINE_BYTES_MAX: usize = 8 << 10;
/// Maximum number of faults of one file.
const FAULTS_MAX: usize = 1000;

/// Parses an option file. `path` is its name for messages.
pub fn parse(path: &str, bytes: &[u8]) -> (Vec<Entry>, Vec<Fault>) {
    let place = |line| Place::File { path: path.to_owned(), line };
    if let Some(reason) = unreadable(bytes) {
        return (Vec::new(), vec![Fault { place: place(1), reason: reason.to_owned() }]);
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let (mut entries, mut faults) = (Vec::new(), Vec::new());
    for (line, text) in (1..).zip(bytes.split(|&byte| byte == b'\n')) {
        match parse_line(text) {
            Ok(None) => {}
            Ok(Some((definition, value))) => {
                entries.push(Entry { place: place(line), definition, value });
            }
            Err(reason) => faults.push(Fault { place: place(line), reason }),
        }
        if faults.len() == FAULTS_MAX {
            let reason = "there are more faults; this is no option file".to_owned();
            faults.push(Fault { place: place(line + 1), reason });
            break;
        }
    }
    (entries, faults)
}

/// Returns the reason why no line of a file can be read.
pub fn unreadable(bytes: &[u8]) -> Option<&'static str> {
    if bytes.len() > FILE_BYTES_MAX {
        return Some("the file is larger than 4 MiB, which is the maximum");
    }
    let is_utf16 = bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff");
    is_utf16.then_some("the file is in UTF-16; convert it to UTF-8, as with 'iconv -f UTF-16'")
}

/// Returns the reason why a line cannot be read.
pub fn unreadable_line(line: &[u8]) -> Option<String> {
    if line.len() > LINE_BYTES_MAX {
        let length = line.len();
        return Some(format!("the line has {length} bytes, and at most {LINE_BYTES_MAX} are read"));
    }
    line.contains(&0).then(|| "the line has a NUL byte; remove it".to_owned())
}

type ParsedLine = (&'static super::Definition, Vec<u8>);

fn parse_line(line: &[u8]) -> Result<Option<ParsedLine>, String> {
    let line = line.trim_ascii();
    if line.is_empty() || line.starts_with(b"*") {
        return Ok(None);
    }
    if let Some(reason) = unreadable_line(line) {
        return Err(reason);
    }
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let (word, value) = (model::escaped(&line[..end]), line[end..].trim_ascii());
    let definition = table::find(&word).ok_or_else(|| unknown(&word))?;
    if definition.kind == Kind::Statement {
        return Ok(Some((definition, line.to_vec())));
    }
    // An empty text in quotes takes back a command that another file names.
    if definition.kind == Kind::Text && matches!(value, b"\"\"" | b"''") {
        return Ok(Some((definition, Vec::new())));
    }
    if has_open_quote(value, definition.kind) {
        return Err(format!("{}: the quote before its value is not closed", definition.name()));
    }
    let value = unquoted(value, definition.kind);
    let usual = definition.kind.usual(value);
    let value = usual.map_err(|fault| format!("{}: {fault}", definition.name()))?;
    Ok(Some((definition, value)))
}

/// Returns true if the quote that a value begins with is its only one.
fn has_open_quote(value: &[u8], kind: Kind) -> bool {
    // A list of file systems is divided into words later, and tells its place then.
    match value {
        [quote @ (b'"' | b'\''), rest @ ..] => kind != Kind::Domain && !rest.contains(quote),
        _ => false,
    }
}

/// Returns a value without the quotes around it.
pub(crate) fn unquoted(value: &[u8], kind: Kind) -> &[u8] {
    // Quotes in a list are around its words.
    if kind == Kind::Domain {
        return value;
    }
    match value {
        [b'"', within @ .., b'"'] if !within.contains(&b'"') || kind == Kind::Text => within,
        [b'\'', within @ .., b'\''] if !within.contains(&b'\'') || kind == Kind::Text => within,
        value => value,
    }
}

/// Returns the reason for the refusal of an unknown option, with the name that is meant.
pub(crate) fn unknown(word: &str) -> String {
    let shown: String = word.chars().take(40).collect();
    match table::similar(word) {
        Some(similar) => {
            format!("'{shown}' is no option of the client; did you mean {}?", similar.name())
        }
        None => format!("'{shown}' is no option of the client; remove the line or correct it"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Vec<String> {
        let (entries, faults) = parse("dsm.opt", text.as_bytes());
        let entries = entries.iter().map(|entry| {
            let Place::File { line, .. } = &entry.place else { panic!("a line of a file") };
            (*line, format!("{line} {}={}", entry.definition.name(), entry.text()))
        });
        let faults = faults.iter().map(|fault| {
            let Place::File { line, .. } = &fault.place else { panic!("a line of a file") };
            (*line, format!("{line} ! {}", fault.reason))
        });
        let mut all: Vec<(usize, String)> = entries.chain(faults).collect();
        all.sort();
        all.into_iter().map(|(_, line)| line).collect()
    }

    #[test]
    fn comments_blanks_and_case_have_no_effect() {
        let text = "* a comment\n\n\t  * another\r\n  SErvername   tsm1  \r\nservername tsm2\n\
                    SERVERN tsm3\nse tsm4\n";
        assert_eq!(
            read(text),
            ["4 SERVERNAME=tsm1", "5 SERVERNAME=tsm2", "6 SERVERNAME=tsm3", "7 SERVERNAME=tsm4"]
        );
    }

    #[test]
    fn quotes_are_around_values() {
        let text = "errorlogname \"/var/log/my errors.log\"\nschedlogname '/var/log/s.log'\n\
                    presched \"run 'this' \\\"now\\\"\"\ndomain \"/my disk\" /home\n";
        assert_eq!(
            read(text),
            [
                "1 ERRORLOGNAME=/var/log/my errors.log",
                "2 SCHEDLOGNAME=/var/log/s.log",
                "3 PRESCHEDULECMD=run 'this' \\\"now\\\"",
                "4 DOMAIN=\"/my disk\" /home"
            ]
        );
    }

    #[test]
    fn an_open_quote_is_told() {
        let lines = read("errorlogname \"/var/log/errors\nnodename 'anna\nschedlogname /a'b\n");
        assert_eq!(
            lines,
            [
                "1 ! ERRORLOGNAME: the quote before its value is not closed",
                "2 ! NODENAME: the quote before its value is not closed",
                "3 SCHEDLOGNAME=/a'b",
            ]
        );
    }

    #[test]
    fn a_short_form_of_inclexcl_names_a_list() {
        assert_eq!(read("incl /etc/list"), ["1 INCLEXCL=/etc/list"]);
        assert_eq!(read("inclexcl /etc/list"), ["1 INCLEXCL=/etc/list"]);
        assert_eq!(read("include /a CLASS"), ["1 INCLUDE=include /a CLASS"]);
        assert_eq!(read("Exclude.Dir /a"), ["1 EXCLUDE.DIR=Exclude.Dir /a"]);
    }

    #[test]
    fn each_wrong_line_is_told_once() {
        let long = format!("domain {}", "x".repeat(100_000));
        let text = format!("nodname anna\ntxnbyte lots\nsubdir\n{long}\na\u{0}b\nfoo bar\n");
        let lines = read(&text);
        assert_eq!(lines.len(), 6, "{lines:?}");
        assert!(lines[0].contains("did you mean NODENAME?"), "{}", lines[0]);
        assert!(lines[1].contains("'lots' is not a number of kilobytes"), "{}", lines[1]);
        assert!(lines[2].contains("it needs a value: yes or no"), "{}", lines[2]);
        assert!(lines[3].contains("the line has 100007 bytes"), "{}", lines[3]);
        assert!(lines[4].contains("NUL"), "{}", lines[4]);
        assert!(lines[5].contains("'foo' is no option"), "{}", lines[5]);
    }

    #[test]
    fn a_file_in_another_encoding_is_one_fault() {
        for bytes in [&b"\xff\xfes\0u\0"[..], b"\xfe\xff\0s\0u"] {
            let (entries, faults) = parse("dsm.opt", bytes);
            assert_eq!((entries.len(), faults.len()), (0, 1));
            assert!(faults[0].to_string().contains("UTF-16"), "{}", faults[0]);
        }
        assert_eq!(read("\u{feff}subdir yes"), ["1 SUBDIR=yes"]);
        let (_, faults) = parse("dsm.opt", &vec![b'\n'; FILE_BYTES_MAX + 1]);
        assert_eq!(faults.len(), 1);
    }

    #[test]
    fn faults_end() {
        let (_, faults) = parse("dsm.opt", &b"x\n".repeat(100_000));
        assert_eq!(faults.len(), FAULTS_MAX + 1);
    }

    proptest! {
        #[test]
        fn any_bytes_give_entries_or_faults(
            bytes in proptest::collection::vec(any::<u8>(), 0..2000),
        ) {
            let (entries, faults) = parse("dsm.opt", &bytes);
            let lines = bytes.split(|&byte| byte == b'\n').count();
            prop_assert!(entries.len() + faults.len() <= lines);
            for fault in &faults {
                prop_assert_eq!(fault.to_string().lines().count(), 1);
            }
        }

        #[test]
        fn a_line_of_words_is_read_or_told(
            words in proptest::collection::vec("[ -~]{0,20}", 1..5),
            index in 0..300_usize,
        ) {
            let all: Vec<_> = table::definitions().collect();
            let name = all[index % all.len()].spelling;
            let line = format!("{name} {}", words.join(" "));
            let (entries, faults) = parse("dsm.opt", line.as_bytes());
            prop_assert_eq!(entries.len() + faults.len(), 1);
        }
    }
}
