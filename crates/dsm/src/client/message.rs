//! Messages of `dsmc` that scripts look for, by TSM's numbers, and what to do about each.

/// All messages with numbers: what each is about, and what to do.
const MESSAGES: [(&str, &str, &str); 30] = [
    ("ANS1017E", "the server cannot be reached", "look at TCPSERVERADDRESS and TCPPORT"),
    ("ANS1025E", "the server does not accept the password", "ask its administrator for a new one"),
    ("ANS1035S", "an option file is not there", "correct -optfile, DSM_CONFIG or DSM_DIR"),
    ("ANS1036S", "a line of an option file is wrong or refused", "run 'holdfast dsm check'"),
    ("ANS1081E", "a name of a file is none", "correct it as the message says"),
    ("ANS1089E", "the command needs one name more", "give it"),
    ("ANS1092W", "nothing is found under a name or a pattern", "look at it, and at -inactive"),
    ("ANS1102E", "there is one name too many", "quote names with wildcards"),
    ("ANS1107E", "a command or an option is wrong or refused", "do what the message says"),
    ("ANS1108E", "the command would ignore an option that chooses objects", "leave it out"),
    ("ANS1115W", "a statement leaves out a named file", "run 'dsmc query inclexcl'"),
    ("ANS1126E", "the node may not delete what it has stored", "ask its administrator"),
    ("ANS1148I", "another node has got access", "'dsmc query access' shows all rules"),
    ("ANS1149E", "the domain has no such file system", "correct DOMAIN"),
    ("ANS1217E", "there is no such stanza in dsm.sys", "correct SERVERNAME"),
    ("ANS1228E", "an object was not sent", "the reason stands in the message"),
    ("ANS1302E", "nothing is stored under the name", "'dsmc query backup' shows what is"),
    ("ANS1345E", "nothing is stored under one of several names", "correct this name"),
    ("ANS1398E", "a log cannot be written", "correct ERRORLOGNAME, or the rights of its folder"),
    ("ANS1512E", "a scheduled event has failed", "the reason stands in the next line"),
    ("ANS1592E", "the CA of the server is not known", "put its ca.pem beside dsm.sys"),
    ("ANS1802E", "an incremental backup has ended with failures", "look at the lines before it"),
    ("ANS1803E", "an archive has ended with failures", "look at the lines before it"),
    ("ANS1804E", "a selective backup has ended with failures", "look at the lines before it"),
    ("ANS1898I", "number of the objects so far", "nothing needs to be done"),
    ("ANS1901I", "highest exit code of a macro", "nothing needs to be done"),
    ("ANS1999E", "the command has ended before it was done", "the reason stands in the message"),
    ("ANS2050E", "the machine is not enrolled", "give -password, as in the guide"),
    ("ANS4005E", "an object did not come back", "the reason stands in the message"),
    ("ANS9085E", "space management does not have the file system", "run 'dsmmigfs add'"),
];

/// A message that a person asks about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    pub number: &'static str,
    pub about: &'static str,
    pub what_to_do: &'static str,
}

/// Finds a message by its number, with or without its letters.
pub fn message(word: &[u8]) -> Option<Message> {
    let word = String::from_utf8_lossy(word).to_ascii_uppercase();
    let digits = word.strip_prefix("ANS").unwrap_or(&word);
    let digits = digits.trim_end_matches(|letter: char| letter.is_ascii_uppercase());
    let (number, about, what_to_do) =
        MESSAGES.into_iter().find(|(number, _, _)| &number[3..7] == digits)?;
    Some(Message { number, about, what_to_do })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_message_is_found_by_its_number() {
        for word in ["ANS1228E", "ans1228e", "ANS1228", "1228"] {
            assert_eq!(message(word.as_bytes()).map(|one| one.number), Some("ANS1228E"), "{word}");
        }
        for word in ["", "ANS", "122", "12288", "q", "\u{fc}"] {
            assert_eq!(message(word.as_bytes()), None, "{word}");
        }
    }

    #[test]
    fn the_guide_has_the_same_messages() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/from-tsm.md");
        let page = std::fs::read_to_string(page).expect("the page can be read");
        let rows = page.lines().filter(|line| line.starts_with("| ANS"));
        let cells = rows.filter_map(|row| row.split('|').nth(1));
        let mut told: Vec<&str> = cells.flat_map(|cell| cell.split(',')).map(str::trim).collect();
        told.sort_unstable();
        assert_eq!(told, MESSAGES.map(|(number, _, _)| number));
    }
}
