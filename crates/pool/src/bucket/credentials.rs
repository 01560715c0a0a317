//! Credentials from the files that other programs for object stores read.
//!
//! Sources of credentials, in this order: the file that the URL names; the environment, as the
//! store's library reads it; the shared credentials file; and, on a machine of a cloud, the cloud's
//! own service for keys.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use configparser::ini::{Ini, IniDefault};
use object_store::CredentialProvider;
use object_store::aws::AwsCredential;
use sys::lock::Mutex;

const DEFAULT_PROFILE: &str = "default";

/// A file with the keys of several profiles. It is read again when it has changed, because keys
/// that expire are replaced in it.
pub(super) struct SharedFile {
    path: PathBuf,
    profile: String,
    /// Credentials of the last read.
    last: Mutex<Option<DatedCredential>>,
}

/// Credentials from a file that was last modified at this time.
struct DatedCredential {
    modified: SystemTime,
    credential: Arc<AwsCredential>,
}

/// Reason why a file gives no credentials.
#[derive(Debug, thiserror::Error)]
enum CredentialError {
    #[error("cannot be read")]
    File(#[from] std::io::Error),
    #[error("is not a file of profiles: {reason}")]
    Format { reason: String },
    #[error("has no complete profile {0}")]
    Profile(String),
}

impl fmt::Debug for SharedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedFile({}, {})", self.path.display(), self.profile)
    }
}

/// Variables of the program's environment for object stores: those whose names begin with `AWS_`,
/// and `HOME`.
static VARIABLES: OnceLock<BTreeMap<String, String>> = OnceLock::new();

/// Sets the variables of the program's environment, at the first call only. Variables that have
/// nothing to do with object stores are left out.
pub fn use_variables(variables: impl Iterator<Item = (String, String)>) {
    let ours = variables.filter(|(name, _)| name.starts_with("AWS_") || name == "HOME");
    // A second call would set the same variables.
    drop(VARIABLES.set(ours.collect()));
}

pub(super) fn variables() -> impl Iterator<Item = (&'static str, &'static str)> {
    let all = VARIABLES.get().into_iter().flatten();
    all.map(|(name, value)| (name.as_str(), value.as_str()))
}

fn variable(name: &str) -> Option<String> {
    let value = VARIABLES.get()?.get(name)?.clone();
    (!value.is_empty()).then_some(value)
}

impl SharedFile {
    /// Returns the file from which credentials are read; `None` if they come from another source.
    pub(super) fn find(named: Option<&Path>, profile: Option<&str>) -> Option<Self> {
        let is_said = variable("AWS_ACCESS_KEY_ID").is_some()
            || variable("AWS_WEB_IDENTITY_TOKEN_FILE").is_some();
        if is_said && named.is_none() && profile.is_none() {
            return None;
        }
        let usual = || {
            let path = variable("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from);
            path.or_else(|| Some(Path::new(&variable("HOME")?).join(".aws/credentials")))
        };
        let path = named.map(Path::to_owned).or_else(usual)?;
        let is_there = path.try_exists().unwrap_or(true);
        let profile = profile.map(ToOwned::to_owned).or_else(|| variable("AWS_PROFILE"));
        if named.is_none() && profile.is_none() && !is_there {
            return None;
        }
        let profile = profile.unwrap_or_else(|| DEFAULT_PROFILE.to_owned());
        Some(Self { path, profile, last: Mutex::default() })
    }

    fn read(&self) -> Result<Arc<AwsCredential>, CredentialError> {
        let modified = std::fs::metadata(&self.path)?.modified()?;
        let mut last = self.last.lock();
        if let Some(last) = &*last
            && last.modified == modified
        {
            return Ok(Arc::clone(&last.credential));
        }
        let text = std::fs::read_to_string(&self.path)?;
        let credential = Arc::new(parse(&text, &self.profile)?);
        *last = Some(DatedCredential { modified, credential: Arc::clone(&credential) });
        Ok(credential)
    }
}

/// Reads the credentials of a profile: `[PROFILE]`, then lines of `aws_access_key_id = KEY`.
fn parse(text: &str, profile: &str) -> Result<AwsCredential, CredentialError> {
    // As in other programs, a comment takes a whole line, and `:` may be part of a value.
    let mut dialect = IniDefault::default();
    dialect.case_sensitive = true;
    dialect.delimiters = vec!['='];
    dialect.enable_inline_comments = false;
    let mut file = Ini::new_from_defaults(dialect);
    file.read(text.to_owned())
        .map_err(|reason| CredentialError::Format { reason })?;
    let missing = || CredentialError::Profile(profile.to_owned());
    Ok(AwsCredential {
        key_id: file.get(profile, "aws_access_key_id").ok_or_else(missing)?,
        secret_key: file.get(profile, "aws_secret_access_key").ok_or_else(missing)?,
        token: file.get(profile, "aws_session_token"),
    })
}

#[async_trait::async_trait]
impl CredentialProvider for SharedFile {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        self.read().map_err(|error| {
            let reason = model::chain(&error);
            let text = format!("the file of credentials {} {reason}", self.path.display());
            object_store::Error::Generic { store: "S3", source: text.into() }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# keys\n[default]\naws_access_key_id = A\naws_secret_access_key=B\n\
                        [other]\naws_access_key_id=C\naws_secret_access_key = D=E\n\
                        aws_session_token = F\n[half]\naws_access_key_id=G\n";

    #[test]
    fn profiles_are_read() {
        let default = parse(TEXT, "default").unwrap();
        assert_eq!((default.key_id.as_str(), default.secret_key.as_str()), ("A", "B"));
        let other = parse(TEXT, "other").unwrap();
        assert_eq!((other.key_id.as_str(), other.secret_key.as_str()), ("C", "D=E"));
        assert_eq!(other.token.as_deref(), Some("F"));
        for profile in ["half", "none"] {
            assert!(matches!(parse(TEXT, profile), Err(CredentialError::Profile(_))));
        }
    }

    #[test]
    fn values_are_taken_as_they_are_written() {
        for secret in ["a/b+c==", "a#b;c:d", "a\\nb", "\"quoted\"", "it's"] {
            let text = format!("[p]\naws_access_key_id=A\naws_secret_access_key = {secret}\n");
            assert_eq!(parse(&text, "p").unwrap().secret_key, secret);
        }
    }

    #[test]
    fn a_refusal_shows_no_secret() {
        let text = "[p]\naws_access_key_id = A\naws_secret_access_key = B\n= SECRET\n[q\n";
        let error = parse(text, "none").unwrap_err();
        assert!(!error.to_string().contains("SECRET"), "{error}");
    }

    #[test]
    fn keys_that_were_replaced_are_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        std::fs::write(&path, TEXT).unwrap();
        let file = SharedFile::find(Some(&path), None).unwrap();
        assert_eq!(file.read().unwrap().key_id, "A");
        std::fs::write(&path, TEXT.replace("= A", "= Z")).unwrap();
        let later = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(4_000_000_000);
        std::fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(later)
            .unwrap();
        assert_eq!(file.read().unwrap().key_id, "Z");
        std::fs::remove_file(&path).unwrap();
        assert!(file.read().is_err());
    }
}
