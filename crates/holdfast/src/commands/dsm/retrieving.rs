//! `dsmc retrieve`: objects of archives, of each the newest that the command names.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use client::{ArchiveSummary, Client};
use dsm::client::{self as plan, Preservation, Spec};
use dsm::words::is_like;

use super::joining;
use super::questions;
use super::restoring::{self, Tally};
use super::session::Session;
use super::stored::{self, Filter};
use crate::error::{CommandError, NOT_DONE};

/// Paths that come from each archive, by its number.
type PathsByArchive = BTreeMap<u64, Vec<Vec<u8>>>;

/// Maximum number of paths on one command line.
const PATHS_MAX: usize = 2_000;

pub(super) fn retrieve(session: &mut Session<'_>) -> Result<u8, CommandError> {
    session.heading();
    let client = joining::connect(session)?;
    let is_listed = session.options().has("FILELIST");
    let (specs, destination) = match is_listed {
        true => (stored::named(session)?, session.command.operands.first().cloned()),
        false => {
            let (spec, destination) = restoring::places(session)?;
            (vec![spec], destination)
        }
    };
    let (found, is_whole) = newest(session, &client, &specs)?;
    if found.is_empty() {
        return Err(stored::nothing());
    }
    let word = session.options().text("PRESERVEPATH").unwrap_or_default();
    let replaces = session.command.prompts(session.options())
        && questions::is_agreed_if_asked(session, "Replace objects that exist and differ?")?;
    let mut tally = Tally::default();
    for (archive, paths) in found {
        let to = destination.clone();
        let batches = match (is_listed, to) {
            (true, to) => vec![restoring::batch(paths, to.as_deref())?],
            (false, to) => {
                restoring::placed(&specs[0], paths, &client, to, Preservation::of(&word))?
            }
        };
        for batch in batches {
            let to = batch.folder.as_ref().map(|to| PathBuf::from(OsString::from_vec(to.clone())));
            restoring::make_folder(to.as_deref())?;
            for paths in batch.paths.chunks(PATHS_MAX) {
                let options = session.options();
                let mut line = plan::retrieve(&session.command, options, archive, to.as_deref());
                if replaces && let Some(last) = line.last_mut() {
                    *last = "all".into();
                }
                line.push("--".into());
                line.extend(paths.iter().map(|path| OsString::from_vec(path.clone())));
                tally.run(session, &line, Vec::new())?;
            }
        }
    }
    let code = tally.end(session, true);
    Ok(if is_whole { code } else { NOT_DONE })
}

/// Returns the archives that the description and the times of a command choose, newest first.
pub(super) fn chosen(
    session: &Session<'_>,
    client: &Client,
) -> Result<Vec<ArchiveSummary>, CommandError> {
    let filter = Filter::of(session)?;
    let wanted = session.options().text("DESCRIPTION");
    let mut archives = client.archives()?;
    archives.retain(|archive| {
        wanted.as_ref().is_none_or(|wanted| is_like(wanted, &archive.description))
            && filter.range.has(super::clock::moment(archive.created))
    });
    Ok(archives)
}

/// Returns the paths that come from each archive: each path from the newest one that has it. Also
/// returns whether something is stored under each name of a list.
fn newest(
    session: &Session<'_>,
    client: &Client,
    specs: &[Spec],
) -> Result<(PathsByArchive, bool), CommandError> {
    let mut from: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    let mut is_found = vec![false; specs.len()];
    for archive in chosen(session, client)? {
        let filter = Filter { archive: Some(archive.number), ..Filter::default() };
        for (spec, is_found) in specs.iter().zip(&mut is_found) {
            stored::select(client, spec, session.descends(), &filter, &mut |object| {
                *is_found = true;
                if !object.is_directory() {
                    from.entry(object.path).or_insert(archive.number);
                }
                true
            })?;
        }
    }
    let is_whole = stored::tell_absent(session, specs, &is_found);
    let mut archives = PathsByArchive::new();
    for (path, archive) in from {
        archives.entry(archive).or_default().push(path);
    }
    Ok((archives, is_whole))
}
