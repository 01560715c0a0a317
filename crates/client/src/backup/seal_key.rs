//! Choice of the key that encrypts files.

use chunk::SealKey;

use crate::error::{ClientError, ErrorKind};
use crate::link::Link;
use crate::rules::Rules;

/// Returns the key for the files that the rules encrypt; `None` if they encrypt none.
pub(super) fn seal_key<'a>(
    link: &'a Link,
    rules: &Rules,
) -> Result<Option<&'a SealKey>, ClientError> {
    let Some(source) = rules.encrypts() else { return Ok(None) };
    let missing = || {
        let message = format!(
            "{source} encrypts files, but this node has no key; make one with 'holdfast key \
             create'"
        );
        ClientError::new(ErrorKind::Usage, message)
    };
    link.seal_keys.last().ok_or_else(missing).map(Some)
}
