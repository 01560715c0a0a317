//! Names that lead through symbolic links.
//!
//! A backup follows the links above an object, and stores the object under its name without them.
//! So a name through a link stands for that object, unless something is stored below its directory
//! as it is written, from a time when no link was there. A command that deletes or expires follows
//! no link: given again, it would delete what the link leads to.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use client::Client;
use dsm::client::{Action, Spec};

use super::session::Session;
use super::stored::{self, Filter};
use crate::error::CommandError;
use crate::output;
use crate::path::bytes;

/// Returns the names of a command under which the server has their objects. `filter` chooses the
/// versions of a command about backups.
pub(super) fn follow_all(
    session: &Session<'_>,
    client: &Client,
    specs: &[Spec],
    filter: &Filter,
) -> Result<Vec<Spec>, CommandError> {
    // The names of a list may be many, and are in few directories.
    let mut directories = BTreeMap::new();
    let choices = Choices::new(session, client, filter);
    let mut followed = Vec::with_capacity(specs.len());
    for spec in specs {
        let directory =
            match directories.entry((spec.filespace.as_deref(), spec.directory.as_slice())) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(free) => free.insert(directory_of(&choices, spec)?),
            };
        followed.push(Spec { directory: directory.clone(), ..spec.clone() });
    }
    Ok(followed)
}

/// Returns one name of a command in the same way.
pub(super) fn follow(
    session: &Session<'_>,
    client: &Client,
    spec: Spec,
    filter: &Filter,
) -> Result<Spec, CommandError> {
    let directory = directory_of(&Choices::new(session, client, filter), &spec)?;
    Ok(Spec { directory, ..spec })
}

/// Choices of versions of a command, which are the same for all its names. The server is asked for
/// its archives at the first name through a link, and once.
struct Choices<'a, 'c> {
    session: &'a Session<'c>,
    client: &'a Client,
    filter: &'a Filter,
    known: OnceCell<Vec<Filter>>,
}

impl<'a, 'c> Choices<'a, 'c> {
    fn new(session: &'a Session<'c>, client: &'a Client, filter: &'a Filter) -> Self {
        Self { session, client, filter, known: OnceCell::new() }
    }

    fn filters(&self) -> Result<&[Filter], CommandError> {
        if let Some(known) = self.known.get() {
            return Ok(known);
        }
        let found = filters(self.session, self.client, self.filter)?;
        Ok(self.known.get_or_init(|| found))
    }
}

/// Returns the directory under which the server has what the operand names.
fn directory_of(choices: &Choices<'_, '_>, spec: &Spec) -> Result<Vec<u8>, CommandError> {
    let real = without_links(&spec.directory);
    if real == spec.directory {
        return Ok(real);
    }
    for filter in choices.filters()? {
        if stored::is_stored_below(choices.client, spec, filter)? {
            return Ok(spec.directory.clone());
        }
    }
    let action = choices.session.action();
    if matches!(action, Action::DeleteBackup | Action::DeleteArchive | Action::Expire) {
        let (written, real) = (model::escaped(&spec.directory), model::escaped(&real));
        output::say(&format!(
            "'{written}' leads through a symbolic link to '{real}'; what is stored there has to be \
             named by this path"
        ));
        return Ok(spec.directory.clone());
    }
    Ok(real)
}

/// Returns the choices of versions of a command: the one about backups, or one for each archive. A
/// rule of access is about either.
fn filters(
    session: &Session<'_>,
    client: &Client,
    filter: &Filter,
) -> Result<Vec<Filter>, CommandError> {
    let action = session.action();
    let is_about_archives = matches!(
        action,
        Action::QueryArchive | Action::Retrieve | Action::DeleteArchive | Action::SetEvent
    );
    let mut filters = Vec::new();
    if !is_about_archives {
        filters.push(filter.clone());
    }
    if is_about_archives || action == Action::SetAccess {
        let of_archive = |number| Filter { archive: Some(number), ..Filter::default() };
        let archives = stored::archives(session, client)?.into_iter();
        filters.extend(archives.map(|archive| of_archive(archive.number)));
    }
    Ok(filters)
}

/// Returns the path of a directory without links. Parts at its end that are not there stay as they
/// are written.
fn without_links(directory: &[u8]) -> Vec<u8> {
    let mut end = directory.len();
    while end > 0 {
        let (there, gone) = directory.split_at(end);
        if let Ok(real) = std::fs::canonicalize(OsStr::from_bytes(there)) {
            let real = bytes(&real);
            let real = real.strip_suffix(b"/").unwrap_or(&real);
            return [real, gone].concat();
        }
        end = there.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
    }
    directory.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_a_path_without_links() {
        let folder = tempfile::tempdir().expect("a folder");
        let top = folder.path().canonicalize().expect("a path");
        std::fs::create_dir_all(top.join("real/below")).expect("made");
        std::os::unix::fs::symlink("real", top.join("link")).expect("linked");
        std::os::unix::fs::symlink("/", top.join("slash")).expect("linked");
        std::os::unix::fs::symlink("nowhere", top.join("dead")).expect("linked");
        let top = bytes(&top);
        let check = |directory: &str, expected: &str| {
            let found = without_links(&[&top[..], directory.as_bytes()].concat());
            assert_eq!(found, [&top[..], expected.as_bytes()].concat(), "{directory}");
        };
        check("", "");
        check("/link", "/real");
        check("/link/below", "/real/below");
        check("/link/gone/deep", "/real/gone/deep");
        check("/dead/x", "/dead/x");
        let at_root = without_links(&[&top[..], b"/slash/no such"].concat());
        assert_eq!(at_root, b"/no such");
        assert_eq!(without_links(b""), b"");
    }
}
