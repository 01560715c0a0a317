//! `dsmc delete backup`, `delete archive`, `delete filespace` and `set event`.

use client::{Client, DeleteOptions, DeletionSummary};
use dsm::client::Last;

use super::joining;
use super::questions;
use super::retrieving;
use super::session::Session;
use super::stored::{self, Filter};
use crate::error::{CommandError, DONE, FAILED, NOT_DONE, WARNED};
use crate::moment;

/// Sums over several deletions.
#[derive(Default)]
struct Sum {
    versions: u64,
    undone_by: Vec<(u64, String)>,
    damaged: bool,
}

impl Sum {
    fn add(&mut self, session: &Session<'_>, deletion: &DeletionSummary) {
        self.versions += deletion.versions;
        if let Some((number, until)) = deletion.number.zip(deletion.until) {
            self.undone_by.push((number, moment::shown(until)));
        }
        if let Some(damage) = &deletion.damage {
            session.complain(&format!("ANS1228E not all could be deleted: {damage}"));
            self.damaged = true;
        }
    }

    fn end(self, session: &mut Session<'_>) -> Result<u8, CommandError> {
        if self.versions == 0 {
            return Err(stored::nothing());
        }
        let versions = session.forms.count(self.versions);
        session.say(&format!("Total number of objects deleted:{versions:>15}"));
        for (number, until) in &self.undone_by {
            session.say(&format!("'holdfast undelete {number}' brings them back until {until}."));
        }
        Ok(if self.damaged { FAILED } else { DONE })
    }
}

pub(super) fn backup(session: &mut Session<'_>) -> Result<u8, CommandError> {
    session.heading();
    let specs = stored::named(session)?;
    let kind = session.options().text("DELTYPE").unwrap_or_else(|| "active".to_owned());
    let (active, inactive) = (kind != "inactive", kind != "active");
    if !questions::is_agreed(session, "Delete these backups?")? {
        return Ok(DONE);
    }
    let client = joining::connect(session)?;
    if session
        .options()
        .text("OBJTYPE")
        .is_some_and(|kind| kind.eq_ignore_ascii_case("image"))
    {
        return images(session, &client);
    }
    let filter = Filter { all_versions: inactive, ..Filter::of(session)? };
    let mut sum = Sum::default();
    let descends = session.descends();
    for spec in specs {
        // A directory is deleted with everything in it, as one deletion.
        let paths = match (&spec.last, descends && filter.is_open()) {
            (Last::Everything, true) => vec![spec.path()],
            _ => {
                let mut paths = Vec::new();
                stored::select(&client, &spec, descends, &filter, &mut |object| {
                    if !object.is_directory() {
                        paths.push(object.path);
                    }
                    true
                })?;
                paths.dedup();
                paths
            }
        };
        for path in paths {
            let options = DeleteOptions { path, archive: None, active, inactive, dry_run: false };
            delete(session, &client, &options, &mut sum)?;
        }
    }
    sum.end(session)
}

/// Deletes the images that the operands name.
fn images(session: &mut Session<'_>, client: &Client) -> Result<u8, CommandError> {
    let mut count = 0_u64;
    for name in session.command.operands.clone() {
        let images = client.images(Some(&name))?;
        if !images.is_empty() {
            let deletion = client.delete_images(&images, false)?;
            if let Some(damage) = &deletion.damage {
                session.complain(&format!("ANS1228E not all could be deleted: {damage}"));
            }
            count += images.len() as u64;
        }
    }
    if count == 0 {
        return Err(stored::nothing());
    }
    let count = session.forms.count(count);
    session.say(&format!("Total number of objects deleted:{count:>15}"));
    Ok(DONE)
}

fn delete(
    session: &Session<'_>,
    client: &Client,
    options: &DeleteOptions,
    sum: &mut Sum,
) -> Result<(), CommandError> {
    match client.delete(options) {
        Err(error) if error.kind == client::ErrorKind::NotFound => Ok(()),
        deletion => {
            sum.add(session, &deletion?);
            Ok(())
        }
    }
}

pub(super) fn archive(session: &mut Session<'_>) -> Result<u8, CommandError> {
    session.heading();
    let specs = stored::named(session)?;
    if !questions::is_agreed(session, "Delete these archived objects?")? {
        return Ok(DONE);
    }
    let client = joining::connect(session)?;
    let mut sum = Sum::default();
    let (descends, mut is_found) = (session.descends(), vec![false; specs.len()]);
    for archive in retrieving::chosen(session, &client)? {
        let filter = Filter { archive: Some(archive.number), ..Filter::default() };
        for (spec, is_found) in specs.iter().zip(&mut is_found) {
            let mut paths = Vec::new();
            stored::select(&client, spec, descends, &filter, &mut |object| {
                *is_found = true;
                if !object.is_directory() {
                    paths.push(object.path);
                }
                true
            })?;
            for path in paths {
                let options = DeleteOptions {
                    path,
                    archive: Some(archive.number),
                    active: true,
                    inactive: true,
                    dry_run: false,
                };
                delete(session, &client, &options, &mut sum)?;
            }
        }
    }
    let is_whole = stored::tell_absent(session, &specs, &is_found);
    let code = sum.end(session)?;
    Ok(if is_whole { code } else { NOT_DONE })
}

pub(super) fn filespace(session: &mut Session<'_>) -> Result<u8, CommandError> {
    session.heading();
    let operands = session.command.operands.clone();
    let client = joining::connect(session)?;
    let known: Vec<Vec<u8>> =
        stored::filespaces(&client)?.into_iter().map(|one| one.name).collect();
    let name = match &operands[..] {
        [name] => chosen_filespace(name, &known)?,
        _ => return Err(CommandError::new("ANS1089E name one file space, or its number")),
    };
    let shown = model::escaped(&name);
    if !questions::is_agreed(session, &format!("Delete everything of the file space {shown}?"))? {
        return Ok(DONE);
    }
    let mut sum = Sum::default();
    let options = |archive| DeleteOptions {
        path: name.clone(),
        archive,
        active: true,
        inactive: true,
        dry_run: false,
    };
    delete(session, &client, &options(None), &mut sum)?;
    for archive in client.archives()? {
        if archive.mount_points.contains(&name) {
            delete(session, &client, &options(Some(archive.number)), &mut sum)?;
        }
    }
    sum.end(session)
}

/// Finds a file space by its name, in braces or not, or by the number that a query shows.
fn chosen_filespace(operand: &[u8], known: &[Vec<u8>]) -> Result<Vec<u8>, CommandError> {
    let text = String::from_utf8_lossy(operand);
    let bare = text.trim_start_matches('{').trim_end_matches('}');
    let by_number = bare.parse::<usize>().ok().and_then(|number| known.get(number.checked_sub(1)?));
    let by_name = known.iter().find(|name| name[..] == *bare.as_bytes());
    let absent = || {
        let shown = model::escaped(operand);
        CommandError::new(format!("ANS1092W no file space is called '{shown}'"))
    };
    by_name.or(by_number).cloned().ok_or_else(absent)
}

/// `dsmc set event`: reports the event of archives, or holds or releases them.
pub(super) fn set_event(session: &mut Session<'_>) -> Result<u8, CommandError> {
    session.heading();
    let kind = session.options().text("TYPE").ok_or_else(|| {
        CommandError::new("ANS1107E give -type=activateretention, -type=hold or -type=release")
    })?;
    let (event, held) = match kind.as_str() {
        "hold" => (false, Some(true)),
        "release" => (false, Some(false)),
        _ => (true, None),
    };
    let specs = stored::operands(session)?;
    let client = joining::connect(session)?;
    let descends = session.descends();
    let mut count = 0_u64;
    for archive in retrieving::chosen(session, &client)? {
        let filter = Filter { archive: Some(archive.number), ..Filter::default() };
        let mut is_named = false;
        for spec in &specs {
            stored::select(&client, spec, descends, &filter, &mut |_| {
                is_named = true;
                false
            })?;
        }
        if is_named {
            client.set_archive(archive.number, event, held)?;
            session.say(&format!("{kind} of archive {} '{}'", archive.number, archive.description));
            count += 1;
        }
    }
    if count == 0 {
        session.complain("ANS1092W No archived object has such a name");
        return Ok(WARNED);
    }
    Ok(DONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_space_has_a_name_or_a_number() {
        let known = [b"/".to_vec(), b"/home".to_vec()];
        let found = |operand: &str| chosen_filespace(operand.as_bytes(), &known).ok();
        assert_eq!(found("/home"), Some(b"/home".to_vec()));
        assert_eq!(found("{/home}"), Some(b"/home".to_vec()));
        assert_eq!(found("1"), Some(b"/".to_vec()));
        assert_eq!(found("3"), None);
        assert_eq!(found("0"), None);
        assert_eq!(found("/srv"), None);
    }
}
