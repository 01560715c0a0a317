//! Finding stored objects by a pattern, in all filespaces.

use model::Kind;
use policy::Pattern;

use crate::error::{ClientError, ErrorKind};
use crate::link::Link;
use crate::link::list::Condition;
use crate::link::versions::Selection;
use crate::list::{ListedVersion, versions};
use crate::options::FindOptions;

/// Calls `visit` with each version that matches, until it returns false.
pub(crate) fn run(
    link: &Link,
    options: &FindOptions,
    visit: &mut dyn FnMut(&ListedVersion) -> bool,
) -> Result<(), ClientError> {
    let FindOptions { pattern, which, all_versions } = options;
    let parsed = Pattern::parse(pattern).map_err(|error| {
        let message = format!("'{}': {error}", model::escaped(pattern));
        ClientError::new(ErrorKind::Usage, message)
    })?;
    for filespace in link.filespaces_of(None)? {
        let selection = Selection::of_filespace(&filespace).with_versions(which);
        let selection = Selection { all_versions: *all_versions, ..selection };
        let condition = Condition { pattern: Some(parsed.clone()), absent_at: None };
        let mut listing = link.list_if(&selection, condition)?;
        while let Some(entries) = listing.next()? {
            for version in versions(link, &filespace, entries) {
                let is_left_out =
                    parsed.directories_only() && version.object.stat.kind != Kind::Directory;
                if !is_left_out && !visit(&version) {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}
