//! `dsmc delete backup`, `delete archive`, `delete filespace` and `set event`.

use std::collections::BTreeSet;

use client::{
    ArchiveSummary, Client, ClientError, DeleteOptions, DeletionScope, DeletionSummary, ErrorKind,
    ListContent, ListOptions, PathDeletion,
};
use dsm::client::{Last, Spec, TimeRange};
use dsm::forms::Forms;
use model::Kind;
use serde_json::json;

use super::clock;
use super::joining;
use super::links;
use super::questions;
use super::retrieving;
use super::session::Session;
use super::stored::{self, Filter, StoredObject};
use crate::error::{CommandError, DONE, FAILED, NOT_DONE, WARNED};
use crate::moment;
use crate::output;
use crate::path::JsonPath;

/// Sums over several deletions.
#[derive(Default)]
struct Sum {
    versions: u64,
    undone_by: Vec<(u64, String)>,
    filespaces: BTreeSet<Vec<u8>>,
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
        let undone_by: Vec<_> = self
            .undone_by
            .iter()
            .map(|(number, until)| json!({"number": number, "until": until}))
            .collect();
        let filespaces: Vec<_> = self.filespaces.iter().map(|name| JsonPath(name)).collect();
        session.document(&json!({
            "deleted": self.versions,
            "filespaces": filespaces,
            "undone_by": undone_by,
        }));
        for filespace in &self.filespaces {
            session.say(&format!("File space: {}", model::escaped(filespace)));
        }
        let versions = session.forms.count(self.versions);
        session.say(&format!("Total number of objects deleted:{versions:>15}"));
        let lines = undo_lines(&self.undone_by, session.forms);
        session.say_all(lines);
        Ok(if self.damaged { FAILED } else { DONE })
    }
}

/// Maximum number of deletions that are named one by one.
const UNDONE_BY_MAX: usize = 10;

/// Returns the lines that say how deletions are undone. Each has its number, and the end of the
/// time in which that can be done.
fn undo_lines(undone_by: &[(u64, String)], forms: Forms) -> Vec<String> {
    let (Some((_, until)), true) = (undone_by.first(), undone_by.len() > UNDONE_BY_MAX) else {
        let line = |(number, until): &(u64, String)| {
            format!("'holdfast undelete {number}' brings them back until {until}.")
        };
        return undone_by.iter().map(line).collect();
    };
    // A list of files may have thousands.
    let count = forms.count(undone_by.len() as u64);
    vec![format!(
        "These are {count} deletions. 'holdfast undelete' lists them, and each can be undone until \
         {until}."
    )]
}

/// Objects that the names of a deletion stand for.
struct Deletion {
    orders: Vec<DeleteOptions>,
    /// For each name of the command, whether something is stored under it.
    is_found: Vec<bool>,
    /// Directories that are named and stay: a deletion of one takes all in it.
    directories: BTreeSet<Vec<u8>>,
}

impl Deletion {
    fn new(names: usize) -> Self {
        Self { orders: Vec::new(), is_found: vec![false; names], directories: BTreeSet::new() }
    }

    /// Adds a version that the name with this index stands for. Returns its path, if it is deleted
    /// by itself.
    fn add(&mut self, index: usize, spec: &Spec, object: StoredObject) -> Option<Vec<u8>> {
        // The server is asked for what a link leads to, too. Only what has the name is deleted.
        if !spec.names(&object.path, true) {
            return None;
        }
        self.is_found[index] = true;
        if !object.is_directory() {
            return Some(object.path);
        }
        if matches!(spec.last, Last::Named(_)) && object.path == spec.path() {
            self.directories.insert(object.path);
        }
        None
    }

    /// Tells what is not deleted of the names as they are `written`. Returns true if something is
    /// stored under each. Fails if nothing but directories is named.
    fn tell(&self, session: &Session<'_>, written: &[Spec]) -> Result<bool, CommandError> {
        let is_whole = stored::tell_absent(session, written, &self.is_found);
        // With -filesonly, directories are meant to stay.
        let first = self.directories.first().filter(|_| !session.command.has("FILESONLY"));
        match first {
            Some(first) if self.orders.is_empty() => {
                return Err(stored::only_directories(session, first));
            }
            Some(_) if !session.descends() => {
                stored::tell_directories(session, self.directories.len());
            }
            _ => {}
        }
        Ok(is_whole)
    }
}

pub(super) fn backup(session: &mut Session<'_>) -> Result<u8, CommandError> {
    session.heading();
    let written = stored::named(session)?;
    let kind = session.options().text("DELTYPE").unwrap_or_else(|| "active".to_owned());
    let states @ (_, inactive) = (kind != "inactive", kind != "active");
    let client = joining::connect(session)?;
    if session
        .options()
        .text("OBJTYPE")
        .is_some_and(|kind| kind.eq_ignore_ascii_case("image"))
    {
        return images(session, &client, states);
    }
    let filter = Filter { all_versions: inactive, ..Filter::of(session)? };
    check_range(&filter, inactive)?;
    let specs = links::follow_all(session, &client, &written, &filter)?;
    let others = stored::elsewhere_of(session, &client, &specs, &filter);
    let found = backup_orders(session, &client, &specs, &filter, states)?;
    let is_whole = found.tell(session, &written)?;
    if !is_agreed(session, &client, &found.orders, "Delete these backups?")? {
        return Ok(NOT_DONE);
    }
    let code = delete_all(session, &client, &found.orders)?.end(session)?;
    let deltype = if kind == "active" { String::new() } else { format!(" -deltype={kind}") };
    for operand in others {
        output::say(&format!(
            "Another file space may have such versions, too: 'delete backup {operand}{deltype}'"
        ));
    }
    Ok(if is_whole { code } else { NOT_DONE })
}

/// Returns the orders for the versions that the operands name. `states` tells whether active ones
/// are meant, and inactive ones.
fn backup_orders(
    session: &Session<'_>,
    client: &Client,
    specs: &[Spec],
    filter: &Filter,
    states: (bool, bool),
) -> Result<Deletion, CommandError> {
    let descends = session.descends();
    let mut found = Deletion::new(specs.len());
    let (active, inactive) = states;
    let order = |spec: &Spec, path, scope| DeleteOptions {
        path,
        scope,
        filespace: spec.filespace.clone(),
        archive: None,
        active,
        inactive,
        dry_run: false,
    };
    // A directory is deleted with everything in it, as one deletion.
    let is_whole =
        |spec: &Spec| matches!(spec.last, Last::Everything) && descends && filter.is_open();
    let (whole, others): (Vec<_>, Vec<_>) =
        specs.iter().enumerate().partition(|(_, spec)| is_whole(spec));
    for (index, spec) in whole {
        found.is_found[index] = stored::is_stored(client, spec, filter)?;
        found.orders.push(order(spec, spec.path(), DeletionScope::Subtree));
    }
    let mut paths = BTreeSet::new();
    stored::select_each(client, &others, descends, filter, &mut |index, object| {
        if is_meant(object.is_active, states) {
            let path = found.add(index, &specs[index], object);
            paths.extend(path.map(|path| (index, path)));
        }
        true
    })?;
    let of_object =
        |(index, path): (usize, Vec<u8>)| order(&specs[index], path, DeletionScope::Object);
    found.orders.extend(paths.into_iter().map(of_object));
    if !(filter.is_open() && active) {
        // A name that only the options of the command leave out is no wrong name.
        // An operand that names a version of another kind or time names something.
        let open = Filter {
            which: filter.which.clone(),
            all_versions: filter.all_versions,
            ..Filter::default()
        };
        let names = specs.iter().enumerate();
        let missed: Vec<(usize, &Spec)> =
            names.filter(|(index, _)| !found.is_found[*index]).collect();
        stored::select_each(client, &missed, descends, &open, &mut |index, _| {
            found.is_found[index] = true;
            false
        })?;
    }
    Ok(found)
}

/// Refuses dates for inactive versions: those of a file are deleted together, whatever their dates.
fn check_range(filter: &Filter, inactive: bool) -> Result<(), CommandError> {
    if inactive && filter.range != TimeRange::default() {
        let message = "ANS1108E dates do not choose among the inactive versions of a file, which \
                       are deleted together";
        return Err(CommandError::new(message).with_hint(
            "leave the dates out; the class of the files removes old versions by itself",
        ));
    }
    Ok(())
}

/// Asks a person whether all of this is deleted, unless the command has -noprompt. Rights, and that
/// something is there, are known before.
fn is_agreed(
    session: &mut Session<'_>,
    client: &Client,
    orders: &[DeleteOptions],
    question: &str,
) -> Result<bool, CommandError> {
    if session.command.has("NOPROMPT") {
        return Ok(true);
    }
    let mut versions = 0;
    let planned = orders.iter().map(|order| DeleteOptions { dry_run: true, ..order.clone() });
    let planned: Vec<_> = planned.collect();
    client
        .delete_each(&planned, &mut |deletion| versions += deletion.summary.versions)
        .map_err(refused)?;
    if versions == 0 {
        return Err(stored::nothing());
    }
    questions::is_agreed(session, question)
}

/// Deletes the images that the operands name. `states` tells whether active ones are meant, and
/// inactive ones.
fn images(
    session: &mut Session<'_>,
    client: &Client,
    states: (bool, bool),
) -> Result<u8, CommandError> {
    let range = Filter::of(session)?.range;
    let (mut named, mut absent) = (Vec::new(), Vec::new());
    for name in &session.command.operands {
        let mut images = client.images(Some(name))?;
        images.retain(|image| is_meant(image.replaced.is_none(), states));
        images.retain(|image| range.has(clock::moment(image.taken)));
        match images.is_empty() {
            true => absent.push(model::escaped(name)),
            false => named.push(images),
        }
    }
    if named.is_empty() {
        return Err(stored::nothing());
    }
    for name in &absent {
        session.complain(&format!("ANS1345E No image of this choice has the name '{name}'"));
    }
    for images in &named {
        client.delete_images(images, true).map_err(refused)?;
    }
    if !questions::is_agreed(session, "Delete these images?")? {
        return Ok(NOT_DONE);
    }
    let mut code = if absent.is_empty() { DONE } else { NOT_DONE };
    let mut count = 0_u64;
    for images in &named {
        let deletion = client.delete_images(images, false).map_err(refused)?;
        if let Some(damage) = &deletion.damage {
            session.complain(&format!("ANS1228E not all could be deleted: {damage}"));
            code = code.max(FAILED);
        }
        count += images.len() as u64;
    }
    session.document(&json!({"deleted": count}));
    let count = session.forms.count(count);
    session.say(&format!("Total number of objects deleted:{count:>15}"));
    Ok(code)
}

/// Returns true if a version or an image of this state is to be deleted.
fn is_meant(is_active: bool, (active, inactive): (bool, bool)) -> bool {
    if is_active { active } else { inactive }
}

fn delete_all(
    session: &Session<'_>,
    client: &Client,
    orders: &[DeleteOptions],
) -> Result<Sum, CommandError> {
    let mut sum = Sum::default();
    let mut add = |PathDeletion { filespace, summary }: PathDeletion| {
        sum.add(session, &summary);
        sum.filespaces.insert(filespace);
    };
    client.delete_each(orders, &mut add).map_err(refused)?;
    Ok(sum)
}

/// Returns the error of a deletion, with TSM's number for a node that has no right to it.
fn refused(error: ClientError) -> CommandError {
    let is_refused = error.kind == ErrorKind::Refused;
    let error = CommandError::from(error);
    match is_refused {
        true => CommandError { message: format!("ANS1126E {}", error.message), ..error },
        false => error,
    }
}

pub(super) fn archive(session: &mut Session<'_>) -> Result<u8, CommandError> {
    session.heading();
    let written = stored::named(session)?;
    let client = joining::connect(session)?;
    let specs = links::follow_all(session, &client, &written, &Filter::default())?;
    let found = match session.command.has("PICK") {
        true => {
            let picked = retrieving::pick(session, &client, &specs)?.into_iter();
            let orders =
                picked.map(|file| everything(file.path, file.filespace, Some(file.archive)));
            // A person has chosen, so that no name is missed.
            let is_found = vec![true; specs.len()];
            Deletion { orders: orders.collect(), is_found, directories: BTreeSet::new() }
        }
        false => archive_orders(session, &client, &specs)?,
    };
    let is_whole = found.tell(session, &written)?;
    if !is_agreed(session, &client, &found.orders, "Delete these archived objects?")? {
        return Ok(NOT_DONE);
    }
    let code = delete_all(session, &client, &found.orders)?.end(session)?;
    Ok(if is_whole { code } else { NOT_DONE })
}

/// Returns the orders for the archived files that the operands name.
fn archive_orders(
    session: &Session<'_>,
    client: &Client,
    specs: &[Spec],
) -> Result<Deletion, CommandError> {
    let mut found = Deletion::new(specs.len());
    for archive in stored::archives(session, client)? {
        let mut take = |index: usize, object: StoredObject| {
            let spec = &specs[index];
            let path = found.add(index, spec, object);
            let order = |path| everything(path, spec.filespace.clone(), Some(archive.number));
            let scope = DeletionScope::Object;
            found.orders.extend(path.map(|path| DeleteOptions { scope, ..order(path) }));
            true
        };
        let (descends, all) = (session.descends(), Filter::default());
        stored::select_in_archive(client, &archive, specs, descends, &all, &mut take)?;
    }
    Ok(found)
}

/// Returns the order for all versions at and below a path of a filespace.
fn everything(path: Vec<u8>, filespace: Option<Vec<u8>>, archive: Option<u64>) -> DeleteOptions {
    DeleteOptions { path, filespace, archive, active: true, inactive: true, ..Default::default() }
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
    let order = |archive| everything(name.clone(), Some(name.clone()), archive);
    let mut orders = vec![order(None)];
    for archive in client.archives()? {
        if archive.mount_points.contains(&name) {
            orders.push(order(Some(archive.number)));
        }
    }
    let question = format!("Delete everything of the file space {shown}?");
    if !is_agreed(session, &client, &orders, &question)? {
        return Ok(NOT_DONE);
    }
    delete_all(session, &client, &orders)?.end(session)
}

/// Finds a file space by its name, in braces or not, or by the number that a query shows.
fn chosen_filespace(operand: &[u8], known: &[Vec<u8>]) -> Result<Vec<u8>, CommandError> {
    let bare = bare_filespace(operand);
    let by_number = bare.parse::<usize>().ok().and_then(|number| known.get(number.checked_sub(1)?));
    let by_name = known.iter().find(|name| name[..] == *bare.as_bytes());
    by_name.or(by_number).cloned().ok_or_else(|| stored::no_filespace(operand))
}

/// Returns the name of a file space without the braces around it.
pub(super) fn bare_filespace(operand: &[u8]) -> String {
    let text = String::from_utf8_lossy(operand);
    text.trim_start_matches('{').trim_end_matches('}').to_owned()
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
    let written = stored::operands(session)?;
    let client = joining::connect(session)?;
    let specs = links::follow_all(session, &client, &written, &Filter::default())?;
    let descends = session.descends();
    let mut named = Vec::new();
    for archive in stored::archives(session, &client)? {
        // Only what has a named object is listed in full.
        if !is_hit(&client, archive.number, &specs, descends)? {
            continue;
        }
        let coverage = Coverage::of(&client, archive.number, &specs, descends)?;
        if !coverage.is_empty() {
            named.push((archive, coverage));
        }
    }
    if named.is_empty() {
        session.complain("ANS1092W No archived object has such a name");
        return Ok(WARNED);
    }
    // Nothing is changed unless everything can be done as it was asked for.
    let mut parts = named.iter().filter(|(_, coverage)| !coverage.is_whole());
    if let Some((archive, coverage)) = parts.next() {
        return Err(of_a_part(&kind, archive, coverage, parts.count()));
    }
    for (archive, _) in named {
        client.set_archive(archive.number, event, held)?;
        session.say(&format!("{kind} of archive {} '{}'", archive.number, archive.description));
        session.document(&json!({
            "archive": archive.number,
            "description": archive.description,
            "event": kind,
        }));
    }
    Ok(DONE)
}

/// Returns true if a name of a command stands for an object of the archive.
fn is_hit(
    client: &Client,
    archive: u64,
    specs: &[Spec],
    descends: bool,
) -> Result<bool, CommandError> {
    let filter = Filter { archive: Some(archive), ..Filter::default() };
    for spec in specs {
        let mut is_hit = false;
        stored::select(client, spec, descends, &filter, &mut |_| {
            is_hit = true;
            false
        })?;
        if is_hit {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Number of objects of an archive that the names of a command stand for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Coverage {
    files: u64,
    files_named: u64,
    directories_named: u64,
}

impl Coverage {
    fn of(
        client: &Client,
        archive: u64,
        specs: &[Spec],
        descends: bool,
    ) -> Result<Self, CommandError> {
        let options = ListOptions {
            content: ListContent::Everything,
            archive: Some(archive),
            ..ListOptions::default()
        };
        let mut coverage = Self::default();
        client.list(&options, &mut |version| {
            let is_directory = version.object.stat.kind == Kind::Directory;
            coverage.add(&version.path, is_directory, specs, descends);
            true
        })?;
        Ok(coverage)
    }

    fn add(&mut self, path: &[u8], is_directory: bool, specs: &[Spec], descends: bool) {
        let is_named = specs.iter().any(|spec| spec.names(path, descends));
        if is_directory {
            self.directories_named += u64::from(is_named);
        } else {
            self.files += 1;
            self.files_named += u64::from(is_named);
        }
    }

    /// Returns true if nothing of the archive is named.
    fn is_empty(&self) -> bool {
        self.files_named == 0 && self.directories_named == 0
    }

    /// Returns true if every file of the archive is named. Directories come with their files.
    fn is_whole(&self) -> bool {
        self.files_named == self.files
    }
}

/// The error for names that stand for a part of an archive. `others` is the number of other
/// archives of which a part is named.
fn of_a_part(
    kind: &str,
    archive: &ArchiveSummary,
    coverage: &Coverage,
    others: usize,
) -> CommandError {
    let Coverage { files, files_named, .. } = coverage;
    let are = if *files == 1 { "file" } else { "files" };
    let more = match others {
        0 => String::new(),
        1 => ", and for a part of 1 other archive".to_owned(),
        others => format!(", and for parts of {others} other archives"),
    };
    let message = format!(
        "ANS1107E {kind} is about whole archives; the names stand for {files_named} of the {files} \
         {are} of archive {} '{}'{more}; nothing was changed",
        archive.number,
        model::escaped(archive.description.as_bytes())
    );
    CommandError::new(message).with_hint(
        "name all files of the archive, as in '/srv/project/*' with -subdir=yes, and choose it by \
         -description; for an event of a single file, archive the file by itself",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_an_archive_is_told_from_a_whole_one() {
        let coverage = |operands: &[&str], descends| {
            let specs = operands.iter().map(|operand| Spec::parse(operand.as_bytes(), b"/"));
            let specs: Vec<Spec> = specs.map(|spec| spec.expect("an operand")).collect();
            let mut coverage = Coverage::default();
            coverage.add(b"/srv", true, &specs, descends);
            for file in [&b"/srv/a"[..], b"/srv/below/b"] {
                coverage.add(file, false, &specs, descends);
            }
            (coverage.is_empty(), coverage.is_whole())
        };
        assert_eq!(coverage(&["/srv/*"], true), (false, true));
        assert_eq!(coverage(&["/srv/*"], false), (false, false));
        assert_eq!(coverage(&["/srv/a"], false), (false, false));
        assert_eq!(coverage(&["/srv/a", "/srv/below/b"], false), (false, true));
        assert_eq!(coverage(&["/home/*"], true), (true, false));
    }

    #[test]
    fn many_deletions_are_not_named_one_by_one() {
        let lines = |count: u64| {
            let undone_by: Vec<_> = (1..=count).map(|number| (number, "noon".to_owned())).collect();
            undo_lines(&undone_by, Forms::default())
        };
        assert_eq!(lines(0), [] as [&str; 0]);
        assert_eq!(lines(1), ["'holdfast undelete 1' brings them back until noon."]);
        assert_eq!(lines(10).len(), 10);
        let many = "These are 1,200 deletions. 'holdfast undelete' lists them, and each can be \
                    undone until noon.";
        assert_eq!(lines(1_200), [many]);
    }

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
