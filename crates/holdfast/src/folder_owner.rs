//! The user to whom the folder of a server belongs.
//!
//! A service works in its folder as this user. Files that root makes there belong to root, and most
//! of them are for their owner only: the service could not start any more.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use store::folder::config::CONFIG_FILE;

use crate::error::CommandError;

const ROOT: u32 = 0;
/// Name of the file that shows to whom the files of root belong.
const PROBE: &str = ".holdfast-owner";

/// Refuses root to a command that makes files in `folder`, if the server there is another user's.
pub(crate) fn check(folder: &Path) -> Result<(), CommandError> {
    // An absent folder is made, and belongs to whoever makes it. Other errors are for the command.
    let owner = |path: &Path| fs::metadata(path).ok().map(|found| found.uid());
    // A folder that root has given away, or a server.toml that a person has replaced, makes no
    // server of another user: both must be that user's.
    let owners = [owner(&folder.join(CONFIG_FILE)), owner(folder)];
    let Some(owner) = owners.into_iter().flatten().next() else { return Ok(()) };
    if owners.contains(&Some(ROOT)) || !sys::process::is_root() || gives_away(folder) {
        return Ok(());
    }
    Err(refusal(folder, owner, sys::users::name_of(owner).as_deref()))
}

/// Returns whether the file system gives the files of root to another user, as NFS may do, and as
/// a mount with an option for the owner does.
fn gives_away(folder: &Path) -> bool {
    let probe = folder.join(PROBE);
    let made = fs::File::create_new(&probe).and_then(|file| file.metadata());
    // A file that stays is empty, and in nobody's way.
    drop(fs::remove_file(&probe));
    made.is_ok_and(|made| made.uid() != ROOT)
}

fn refusal(folder: &Path, owner: u32, name: Option<&str>) -> CommandError {
    let folder = folder.display();
    let whose = name.map_or_else(|| format!("uid {owner}"), str::to_owned);
    let refusal = format!(
        "{folder} belongs to {whose}, and a server of this user cannot use what root makes there"
    );
    let hint = match name {
        Some(name) => format!("run it as this user: 'runuser -u {name} -- holdfast ...'"),
        None => format!(
            "run it as this user, or give the folder to root first: 'chown -R root {folder}'"
        ),
    };
    CommandError::new(refusal).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_user_and_the_way() {
        let folder = Path::new("/var/lib/holdfast");
        let named = refusal(folder, 997, Some("holdfast"));
        assert!(named.message.starts_with("/var/lib/holdfast belongs to holdfast, "));
        assert!(named.hint.is_some_and(|hint| hint.contains("'runuser -u holdfast -- holdfast")));
        let numbered = refusal(folder, 997, None);
        assert!(numbered.message.contains("belongs to uid 997"), "{}", numbered.message);
    }

    #[test]
    fn a_folder_of_this_user_or_none_is_taken() {
        let folder = tempfile::tempdir().expect("is made");
        check(folder.path()).expect("it is that of this user");
        check(&folder.path().join("absent")).expect("it will be that of this user");
    }
}
