//! Credentials from the files that other programs for object stores read.
//!
//! In this order: what the URL names; what the environment says, as the store's library reads it;
//! the shared credentials file; and what a machine of the cloud is told by its host.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

use object_store::CredentialProvider;
use object_store::aws::AwsCredential;

const DEFAULT_PROFILE: &str = "default";

/// A file with keys, by profile. It is read again when it changes: keys that end are replaced
/// there.
pub(super) struct SharedFile {
    path: PathBuf,
    profile: String,
    last: Mutex<Option<(SystemTime, Arc<AwsCredential>)>>,
}

impl fmt::Debug for SharedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedFile({}, {})", self.path.display(), self.profile)
    }
}

/// What the program's environment says of object stores: variables whose names begin with `AWS_`,
/// and `HOME`.
static VARIABLES: OnceLock<BTreeMap<String, String>> = OnceLock::new();

/// Says what the environment of the program says; the first word holds. Variables that have nothing
/// to do with object stores are left out.
pub fn use_variables(variables: impl Iterator<Item = (String, String)>) {
    let ours = variables.filter(|(name, _)| name.starts_with("AWS_") || name == "HOME");
    // Whoever comes second says the same.
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
    /// The file that is to be read, if one is.
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

    fn read(&self) -> Result<Arc<AwsCredential>, String> {
        let said = |error: std::io::Error| error.to_string();
        let changed = std::fs::metadata(&self.path).and_then(|found| found.modified());
        let changed = changed.map_err(said)?;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, credential)) = &*last
            && *of == changed
        {
            return Ok(Arc::clone(credential));
        }
        let text = std::fs::read_to_string(&self.path).map_err(said)?;
        let found = parse(&text, &self.profile);
        let found = found.ok_or_else(|| format!("it has no whole profile {}", self.profile))?;
        let credential = Arc::new(found);
        *last = Some((changed, Arc::clone(&credential)));
        Ok(credential)
    }
}

/// What the profile says: `[PROFILE]`, then lines of `aws_access_key_id = KEY` and so on.
fn parse(text: &str, profile: &str) -> Option<AwsCredential> {
    let (mut is_meant, mut key_id, mut secret_key, mut token) = (false, None, None, None);
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            is_meant = section.trim() == profile;
        } else if is_meant && let Some((name, value)) = line.split_once('=') {
            let value = Some(value.trim().to_owned());
            match name.trim() {
                "aws_access_key_id" => key_id = value,
                "aws_secret_access_key" => secret_key = value,
                "aws_session_token" => token = value,
                _ => {}
            }
        }
    }
    Some(AwsCredential { key_id: key_id?, secret_key: secret_key?, token })
}

#[async_trait::async_trait]
impl CredentialProvider for SharedFile {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        self.read().map_err(|reason| object_store::Error::Generic {
            store: "S3",
            source: format!("the credentials in {}: {reason}", self.path.display()).into(),
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
        let found = parse(TEXT, "default").unwrap();
        assert_eq!((found.key_id.as_str(), found.secret_key.as_str()), ("A", "B"));
        let found = parse(TEXT, "other").unwrap();
        assert_eq!((found.key_id.as_str(), found.secret_key.as_str()), ("C", "D=E"));
        assert_eq!(found.token.as_deref(), Some("F"));
        assert!(parse(TEXT, "half").is_none() && parse(TEXT, "none").is_none());
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
