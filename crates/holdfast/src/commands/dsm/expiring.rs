//! `dsmc expire`: ends the active versions of what it names.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use client::Client;
use dsm::client::{self as plan, Last, PathSource, Spec};
use dsm::lines::session_report;

use super::joining;
use super::links;
use super::sending::{Origin, Part, Run};
use super::session::Session;
use super::stored::{self, Filter, StoredObject};
use crate::error::{CommandError, NOT_DONE};

/// Objects that the names of an expiration stand for.
struct Expiration {
    /// Paths by the filespace that braces name; `None` for the innermost one that has each.
    paths: BTreeMap<Option<Vec<u8>>, BTreeSet<Vec<u8>>>,
    /// For each name of the command, whether something is stored under it.
    is_found: Vec<bool>,
    /// Directories that are named, and stay.
    directories: BTreeSet<Vec<u8>>,
}

pub(super) fn expire(session: &mut Session<'_>) -> Result<u8, CommandError> {
    session.heading();
    let written = stored::named(session)?;
    let client = joining::connect(session)?;
    let specs = links::follow_all(session, &client, &written, &Filter::default())?;
    let found = Expiration::find(session, &client, &specs)?;
    let is_whole = found.tell(session, &written)?;
    if !super::questions::is_agreed(session, "End the active versions of these objects?")? {
        return Ok(NOT_DONE);
    }
    let mut run = Run::default();
    for (filespace, paths) in found.paths {
        let filespace = filespace.as_deref().map(|name| Path::new(OsStr::from_bytes(name)));
        let line = plan::expiry(session.options(), filespace);
        let part = Part { sending: PathSource::Listed, origin: Origin::Named };
        // A directory ends with everything in it.
        let paths = client::topmost(paths.into_iter().collect());
        run.part(session, line, part, &paths)?;
    }
    session.say("");
    let lines = session_report(&run.totals, session.forms);
    session.say_all(lines);
    Ok(if is_whole { run.code } else { NOT_DONE })
}

impl Expiration {
    fn find(session: &Session<'_>, client: &Client, specs: &[Spec]) -> Result<Self, CommandError> {
        let (paths, directories) = (BTreeMap::new(), BTreeSet::new());
        let mut found = Self { paths, is_found: vec![false; specs.len()], directories };
        let descends = session.descends();
        let names: Vec<(usize, &Spec)> = specs.iter().enumerate().collect();
        stored::select_each(client, &names, descends, &Filter::default(), &mut |index, object| {
            found.add(index, &specs[index], object, descends);
            true
        })?;
        found.leave_filespaces(client)?;
        Ok(found)
    }

    /// Adds an object that the name with this index stands for. A directory ends with everything in
    /// it, and that needs -subdir=yes.
    fn add(&mut self, index: usize, spec: &Spec, object: StoredObject, descends: bool) {
        // The server is asked for what a link leads to, too. Only what has the name expires.
        if !spec.names(&object.path, true) {
            return;
        }
        self.is_found[index] = true;
        if descends || !object.is_directory() {
            self.paths.entry(spec.filespace.clone()).or_default().insert(object.path);
        } else if matches!(spec.last, Last::Named(_)) {
            self.directories.insert(object.path);
        }
    }

    /// Leaves out the roots of file spaces, which no expiration ends.
    fn leave_filespaces(&mut self, client: &Client) -> Result<(), CommandError> {
        for filespace in stored::filespaces(client)? {
            self.paths.values_mut().for_each(|paths| {
                paths.remove(&filespace.name);
            });
        }
        self.paths.retain(|_, paths| !paths.is_empty());
        Ok(())
    }

    /// Tells what does not expire of the names as they are `written`. Returns true if something is
    /// stored under each. Fails if nothing expires.
    fn tell(&self, session: &Session<'_>, written: &[Spec]) -> Result<bool, CommandError> {
        let is_whole = stored::tell_absent(session, written, &self.is_found);
        if !self.paths.is_empty() {
            stored::tell_directories(session, self.directories.len());
            return Ok(is_whole);
        }
        Err(match self.directories.first() {
            Some(directory) => stored::only_directories(session, directory),
            None => stored::nothing(),
        })
    }
}
