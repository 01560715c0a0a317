//! Encryption keys of a node, which are kept in a file.
//!
//! The file has one key on each line, oldest first, in the form in which people write keys down.
//! The last key encrypts; all keys decrypt. Only the owner of the node copies keys to other places.
//! If a key is lost, the data that it has encrypted is lost.

use std::path::{Path, PathBuf};

use chunk::{KeyName, SealKey};
use data_encoding::BASE32_NOPAD;

use super::home::Home;
use crate::error::{ClientError, ErrorKind};

/// Name of the file in the node's folder, unless `client.toml` names another file.
const KEY_FILE: &str = "encryption.keys";
const PREFIX: &str = "HFK1";
/// Bytes of the checksum that follows a key, so that a mistake in writing the key down is noticed.
const CHECK_BYTES: usize = 3;
/// Number of letters between two dashes.
const GROUP: usize = 4;
/// Maximum size of the file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Encryption key, as it is shown to people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeySummary {
    pub name: KeyName,
    /// True for the key that encrypts.
    pub is_in_use: bool,
    /// The key itself, as text. It is enough to decrypt all data that the key has encrypted.
    pub written: String,
}

/// Reads the keys of the node in `home`, oldest first.
pub(crate) fn load(home: &Home) -> Result<Vec<SealKey>, ClientError> {
    let path = path(home);
    let failed = |error: &std::io::Error| ClientError::file("read", &path, error);
    match std::fs::metadata(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(&error)),
        Ok(found) if found.len() > FILE_BYTES_MAX => {
            let message = format!("{} is not a file of keys: it is too large", path.display());
            return Err(ClientError::new(ErrorKind::Usage, message));
        }
        Ok(_) => {}
    }
    let text = std::fs::read_to_string(&path).map_err(|error| failed(&error))?;
    let lines = (1..).zip(text.lines().map(str::trim));
    let keys = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let parsed = |(number, line): (u32, &str)| {
        parse(line).ok_or_else(|| {
            let message = format!("line {number} of {} is not a key", path.display());
            ClientError::new(ErrorKind::Damaged, message)
        })
    };
    keys.map(parsed).collect()
}

fn path(home: &Home) -> PathBuf {
    let named = home.config.encryption_keys.clone();
    named.unwrap_or_else(|| home.folder.join(KEY_FILE))
}

/// Lists the keys of the node in `folder`, oldest first.
pub fn list(folder: &Path) -> Result<Vec<KeySummary>, ClientError> {
    let keys = load(&Home::load(folder)?)?;
    let last = keys.len();
    let summary = |(number, key): (usize, &SealKey)| summary(key, number == last);
    Ok((1..).zip(&keys).map(summary).collect())
}

fn summary(key: &SealKey, is_in_use: bool) -> KeySummary {
    KeySummary { name: key.name(), is_in_use, written: written(key) }
}

/// Creates a key, which encrypts from the next backup on.
pub fn create(folder: &Path) -> Result<KeySummary, ClientError> {
    add(folder, SealKey::new(sys::entropy::bytes()), true)
}

/// Imports a key that was written down. The key decrypts the data that it has encrypted. If the
/// node has no other key, it also encrypts new data.
pub fn import(folder: &Path, text: &str) -> Result<KeySummary, ClientError> {
    let key = parse(text.trim()).ok_or_else(|| {
        let message = format!("this is not a key; a key begins with {PREFIX}; check every letter");
        ClientError::new(ErrorKind::Usage, message)
    })?;
    add(folder, key, false)
}

fn add(folder: &Path, key: SealKey, is_new: bool) -> Result<KeySummary, ClientError> {
    let home = Home::load(folder)?;
    let mut keys = load(&home)?;
    if !keys.iter().any(|known| known.name() == key.name()) {
        let at = if is_new { keys.len() } else { keys.len().saturating_sub(1) };
        let in_use = keys.last().map(SealKey::name);
        keys.insert(at, key.clone());
        let stays = in_use.is_none_or(|name| keys.last().is_some_and(|last| last.name() == name));
        assert!(is_new || stays, "an imported key does not become the key in use");
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
# The keys of this node, oldest first; the last key encrypts. Data that a key has encrypted
# cannot be read without that key: keep a copy of each line in a safe place.
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
    use std::os::unix::fs::PermissionsExt as _;

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

    fn node() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let config = "server = \"one:1\"\nnode = \"alpha\"\n";
        std::fs::write(folder.path().join("client.toml"), config).expect("written");
        std::fs::write(folder.path().join("node.pem"), b"").expect("written");
        folder
    }

    fn names(folder: &Path) -> Vec<KeyName> {
        list(folder).expect("listed").iter().map(|key| key.name).collect()
    }

    #[test]
    fn a_new_key_encrypts_and_no_key_is_ever_lost() {
        let folder = node();
        assert_eq!(list(folder.path()).expect("listed"), []);
        let first = create(folder.path()).expect("created");
        let second = create(folder.path()).expect("created");
        assert!(first.is_in_use && second.is_in_use);
        assert_ne!(first.name, second.name);
        let listed = list(folder.path()).expect("listed");
        let in_use: Vec<bool> = listed.iter().map(|key| key.is_in_use).collect();
        assert_eq!(
            (names(folder.path()), in_use),
            (vec![first.name, second.name], vec![false, true])
        );
        let file = folder.path().join(KEY_FILE).metadata().expect("the file exists");
        assert_eq!(file.permissions().mode() & 0o777, 0o600, "only the owner may read the file");
    }

    #[test]
    fn an_imported_key_decrypts_and_encrypts_only_if_it_is_alone() {
        let (folder, other) = (node(), node());
        let old = create(other.path()).expect("created");
        let alone = import(folder.path(), &format!(" {}\n", old.written)).expect("imported");
        assert_eq!((alone.name, alone.is_in_use), (old.name, true));
        let own = create(folder.path()).expect("created");
        let older = create(other.path()).expect("created");
        let imported = import(folder.path(), &older.written).expect("imported");
        assert!(!imported.is_in_use);
        assert_eq!(names(folder.path()), [old.name, older.name, own.name]);
        // Importing a key that the node already has changes nothing.
        import(folder.path(), &old.written.to_lowercase()).expect("imported");
        assert_eq!(names(folder.path()), [old.name, older.name, own.name]);
        let error = import(folder.path(), "HFK1-AAAA").expect_err("no key");
        assert_eq!(error.kind, ErrorKind::Usage);
    }

    #[test]
    fn a_damaged_file_of_keys_is_refused_and_never_written_over() {
        let folder = node();
        let key = create(folder.path()).expect("created");
        let path = folder.path().join(KEY_FILE);
        let good = std::fs::read_to_string(&path).expect("read");
        let large = format!("{good}{}", "#".repeat(1 << 20));
        let cut = good.trim_end()[..good.len() - 3].to_owned();
        for (text, kind) in [(&large, ErrorKind::Usage), (&cut, ErrorKind::Damaged)] {
            std::fs::write(&path, text).expect("written");
            assert_eq!(list(folder.path()).expect_err("refused").kind, kind);
            assert_eq!(create(folder.path()).expect_err("refused").kind, kind);
            assert_eq!(&std::fs::read_to_string(&path).expect("read"), text);
        }
        // Notes and empty lines of the owner are allowed.
        std::fs::write(&path, format!("# mine\n\n  {}  \n", key.written)).expect("written");
        assert_eq!(names(folder.path()), [key.name]);
    }
}
