//! The keys by which a node encrypts what it backs up, in a file of its own.
//!
//! The file holds one key a line as it is written down by people, oldest first; the last one
//! encrypts, all of them open. No key leaves this machine but by the hand of its owner: what is
//! encrypted with a key that is lost is lost.

use std::path::{Path, PathBuf};

use chunk::{KeyName, SealKey};
use data_encoding::BASE32_NOPAD;

use crate::home::Home;
use crate::{ClientError, ErrorKind};

/// In the node's folder, unless `client.toml` names another file.
const KEY_FILE: &str = "encryption.keys";
const PREFIX: &str = "HFK1";
/// Bytes of a hash behind the key, so that a slip of the pen is noticed.
const CHECK_BYTES: usize = 3;
/// Letters that are written without a dash between them.
const GROUP: usize = 4;
/// Bytes of the file at most.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A key, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeySummary {
    pub name: KeyName,
    /// Whether it is the one that encrypts.
    pub is_in_use: bool,
    /// All that is needed to open what it has encrypted.
    pub written: String,
}

/// The keys of the node in `home`, oldest first.
pub(crate) fn load(home: &Home) -> Result<Vec<SealKey>, ClientError> {
    let path = path(home);
    let failed = |error: &std::io::Error| ClientError::file("read", &path, error);
    match std::fs::metadata(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(&error)),
        Ok(found) if found.len() > FILE_BYTES_MAX => {
            let message = format!("{} is no file of keys: it is too large", path.display());
            return Err(ClientError::new(ErrorKind::Usage, message));
        }
        Ok(_) => {}
    }
    let text = std::fs::read_to_string(&path).map_err(|error| failed(&error))?;
    let lines = (1..).zip(text.lines().map(str::trim));
    let keys = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let parsed = |(number, line): (u32, &str)| {
        parse(line).ok_or_else(|| {
            let message = format!("{} line {number} is no key", path.display());
            ClientError::new(ErrorKind::Damaged, message)
        })
    };
    keys.map(parsed).collect()
}

fn path(home: &Home) -> PathBuf {
    let named = home.config.encryption_keys.clone();
    named.unwrap_or_else(|| home.folder.join(KEY_FILE))
}

/// The keys of the node in `folder`, oldest first.
pub fn list(folder: &Path) -> Result<Vec<KeySummary>, ClientError> {
    let keys = load(&Home::load(folder)?)?;
    let last = keys.len();
    let summary = |(number, key): (usize, &SealKey)| summary(key, number == last);
    Ok((1..).zip(&keys).map(summary).collect())
}

fn summary(key: &SealKey, is_in_use: bool) -> KeySummary {
    KeySummary { name: key.name(), is_in_use, written: written(key) }
}

/// Makes a key, which encrypts from the next backup on.
pub fn create(folder: &Path) -> Result<KeySummary, ClientError> {
    add(folder, SealKey::new(sys::entropy::bytes()), true)
}

/// Takes a key that was written down. It opens what it has encrypted; where there is no other, it
/// encrypts too.
pub fn import(folder: &Path, text: &str) -> Result<KeySummary, ClientError> {
    let key = parse(text.trim()).ok_or_else(|| {
        let message = format!("this is no key; keys begin with {PREFIX}, check every letter");
        ClientError::new(ErrorKind::Usage, message)
    })?;
    add(folder, key, false)
}

fn add(folder: &Path, key: SealKey, is_new: bool) -> Result<KeySummary, ClientError> {
    let home = Home::load(folder)?;
    let mut keys = load(&home)?;
    if !keys.iter().any(|known| known.name() == key.name()) {
        let at = if is_new { keys.len() } else { keys.len().saturating_sub(1) };
        keys.insert(at, key.clone());
        store(&home, &keys)?;
    }
    let is_in_use = keys.last().is_some_and(|last| last.name() == key.name());
    Ok(summary(&key, is_in_use))
}

fn store(home: &Home, keys: &[SealKey]) -> Result<(), ClientError> {
    let lines = keys.iter().map(|key| format!("{}\n", written(key)));
    let text: String = std::iter::once(HEAD.to_owned()).chain(lines).collect();
    let path = path(home);
    sys::durable::write(&path, text.as_bytes(), 0o600)
        .map_err(|error| ClientError::file("write", &path, &error))
}

const HEAD: &str = "\
# The keys of this node, oldest first; the last one encrypts. Without them what they have encrypted
# cannot be read by anybody: keep a copy of each line in a safe place.
";

fn check(secret: &[u8]) -> [u8; CHECK_BYTES] {
    let hash = blake3::hash(secret);
    let mut check = [0; CHECK_BYTES];
    check.copy_from_slice(&hash.as_bytes()[..CHECK_BYTES]);
    check
}

fn written(key: &SealKey) -> String {
    let bytes = [&key.secret()[..], &check(key.secret())].concat();
    let letters = BASE32_NOPAD.encode(&bytes);
    let groups = letters.as_bytes().chunks(GROUP).map(String::from_utf8_lossy);
    groups.fold(PREFIX.to_owned(), |text, group| text + "-" + &group)
}

fn parse(text: &str) -> Option<SealKey> {
    let letters: String = text.chars().filter(|c| !c.is_whitespace() && *c != '-').collect();
    let letters = letters.to_ascii_uppercase();
    let bytes = BASE32_NOPAD.decode(letters.strip_prefix(PREFIX)?.as_bytes()).ok()?;
    let (secret, found) = bytes.split_at_checked(SealKey::BYTES)?;
    let secret = <[u8; SealKey::BYTES]>::try_from(secret).ok()?;
    (found == check(&secret)).then(|| SealKey::new(secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_being_written_down() {
        let key = SealKey::new([0x5a; 32]);
        let text = written(&key);
        assert!(text.starts_with("HFK1-"), "{text}");
        let carelessly = text.to_lowercase().replace('-', " ");
        for text in [&text, &carelessly] {
            assert_eq!(parse(text).expect("a key").secret(), key.secret());
        }
    }

    #[test]
    fn a_slip_of_the_pen_is_noticed() {
        let text = written(&SealKey::new([0x5a; 32]));
        for at in PREFIX.len()..text.len() {
            let old = text.as_bytes()[at];
            if old == b'-' {
                continue;
            }
            let new = if old == b'A' { 'B' } else { 'A' };
            let slip = format!("{}{new}{}", &text[..at], &text[at + 1..]);
            assert!(parse(&slip).is_none(), "{slip}");
        }
        assert!(parse("").is_none() && parse("HFK1").is_none() && parse("HFK1-A").is_none());
    }
}
