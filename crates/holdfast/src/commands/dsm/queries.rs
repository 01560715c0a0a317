//! `dsmc query ...`: answers about what is stored, the node, and its options.

use client::{Class, Client, FilespaceSummary, Image};
use dsm::client::Action;
use dsm::forms::Forms;
use dsm::lines::{
    archive_heading, archive_line, backup_heading, backup_line, detail_line, filespace_heading,
    filespace_line, statement_lines,
};
use dsm::selection::{ListedStatement, listed_of_server, listing};
use policy::statement::{self, Source};
use serde::Serialize;
use serde_json::json;

use super::access;
use super::clock;
use super::deleting;
use super::joining;
use super::links;
use super::retrieving;
use super::scheduled;
use super::session::Session;
use super::stored::{self, Filter, StoredObject};
use crate::error::{CommandError, DONE, WARNED};
use crate::moment;
use crate::output;
use crate::path::JsonPath;

pub(super) fn run(session: &mut Session<'_>) -> Result<u8, CommandError> {
    session.heading();
    match session.action() {
        Action::QueryInclexcl => inclexcl(session),
        Action::QueryOptions => options(session),
        Action::QueryAccess => access::query(session),
        Action::QuerySchedule => scheduled::query(session),
        Action::QueryRestore => {
            session.say("No restore waits: one that is run again goes on where it ended.");
            session.document(&json!({"restores_waiting": 0}));
            Ok(DONE)
        }
        _ => with_server(session),
    }
}

fn with_server(session: &mut Session<'_>) -> Result<u8, CommandError> {
    let client = joining::connect_at_once(session)?;
    match session.action() {
        Action::QueryBackup => backup(session, &client),
        Action::QueryArchive => archive(session, &client),
        Action::QueryFilespace => filespaces(session, &client),
        Action::QueryImage => images(session, &client),
        Action::QueryMgmtclass => classes(session, &client),
        Action::QuerySysteminfo => system_facts(session, &client),
        _ => node(session, &client),
    }
}

/// A version of a query with -json, one document per line.
#[derive(Serialize)]
struct VersionDocument<'a> {
    path: JsonPath<'a>,
    size: u64,
    stored: String,
    mgmt_class: &'a str,
    active: bool,
    directory: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    archive: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
}

impl<'a> VersionDocument<'a> {
    fn new(object: &'a StoredObject) -> Self {
        Self {
            path: JsonPath(&object.path),
            size: object.bytes,
            stored: moment::rfc3339(object.stored),
            mgmt_class: &object.class,
            active: object.is_active,
            directory: object.is_directory(),
            archive: None,
            description: None,
        }
    }
}

/// Number and size of the versions of a query.
#[derive(Default)]
struct Summary {
    objects: u64,
    directories: u64,
    bytes: u64,
}

impl Summary {
    fn add(&mut self, object: &StoredObject) {
        self.objects += 1;
        self.directories += u64::from(object.is_directory());
        self.bytes = self.bytes.saturating_add(object.bytes);
    }

    /// Writes the end of a query, and returns its exit code. `absent` are the names that stand for
    /// nothing.
    fn end(&self, session: &mut Session<'_>, absent: &[String]) -> u8 {
        if self.objects == 0 {
            session.complain("ANS1092W No stored object has such a name");
            return WARNED;
        }
        if session.command.has("QUERYSUMMARY") {
            let files = session.forms.count(self.objects - self.directories);
            let directories = session.forms.count(self.directories);
            let bytes = size(self.bytes, session.forms);
            session.say("");
            session.say(&format!("Files: {files}  Directories: {directories}  Size: {bytes}"));
        }
        for name in absent {
            session.complain(&format!("ANS1092W The query finds nothing under the name '{name}'"));
        }
        if absent.is_empty() { DONE } else { WARNED }
    }
}

fn backup(session: &mut Session<'_>, client: &Client) -> Result<u8, CommandError> {
    let (written, filter) = (stored::named(session)?, Filter::of(session)?);
    let specs = links::follow_all(session, client, &written, &filter)?;
    let (descends, only_sum) = (session.descends(), session.command.has("QUERYSUMMARY"));
    let has_details = session.command.has("DETAIL");
    let (mut summary, mut is_found) = (Summary::default(), vec![false; specs.len()]);
    let is_listed = session.options().has("FILELIST") && !descends;
    let mut show = |index: usize, object: StoredObject| {
        is_found[index] = true;
        if summary.objects == 0 && !only_sum {
            session.say_all(backup_heading());
        }
        summary.add(&object);
        if session.is_json() {
            session.context.output.json(&VersionDocument::new(&object));
        } else if !only_sum {
            let path = shown_path(&object);
            let line = backup_line(&object.shown(&path), session.forms);
            session.say(&line);
            if has_details {
                session.say(&detail_line(&object.details(), session.forms));
            }
        }
        session.context.output.is_open()
    };
    if is_listed {
        stored::select_in_order(client, &specs, &filter, &mut show)?;
    } else {
        for (index, spec) in specs.iter().enumerate() {
            stored::select(client, spec, descends, &filter, &mut |object| show(index, object))?;
        }
    }
    let inactive = if filter.all_versions { " -inactive" } else { "" };
    for operand in stored::elsewhere_of(session, client, &specs, &filter) {
        output::say(&format!(
            "Another file space may have such versions, too: 'query backup {operand}{inactive}'"
        ));
    }
    Ok(summary.end(session, &stored::absent_names(&written, &is_found)))
}

fn shown_path(object: &StoredObject) -> String {
    model::escaped(&object.path)
}

fn archive(session: &mut Session<'_>, client: &Client) -> Result<u8, CommandError> {
    let (written, own) = (stored::named(session)?, Filter::of(session)?);
    let specs = links::follow_all(session, client, &written, &own)?;
    let (descends, only_sum) = (session.descends(), session.command.has("QUERYSUMMARY"));
    let (mut summary, mut is_found) = (Summary::default(), vec![false; specs.len()]);
    let kinds = Filter {
        files_only: own.files_only,
        directories_only: own.directories_only,
        ..Filter::default()
    };
    for archive in stored::archives(session, client)? {
        let mut show = |index: usize, object: StoredObject| {
            is_found[index] = true;
            if summary.objects == 0 && !only_sum {
                session.say_all(archive_heading());
            }
            summary.add(&object);
            let path = shown_path(&object);
            if session.is_json() {
                session.context.output.json(&VersionDocument {
                    archive: Some(archive.number),
                    description: Some(&archive.description),
                    ..VersionDocument::new(&object)
                });
            } else if !only_sum {
                let expires = retrieving::expires(session, client, &object);
                let version = object.shown(&path);
                let text = &archive.description;
                let line = archive_line(&version, &expires, text, session.forms);
                session.say(&line);
            }
            session.context.output.is_open()
        };
        stored::select_in_archive(client, &archive, &specs, descends, &kinds, &mut show)?;
    }
    Ok(summary.end(session, &stored::absent_names(&written, &is_found)))
}

/// A file space of a query with -json, one document per line.
#[derive(Serialize)]
struct FilespaceDocument<'a> {
    number: usize,
    filespace: JsonPath<'a>,
    last_backup: Option<String>,
}

fn filespaces(session: &mut Session<'_>, client: &Client) -> Result<u8, CommandError> {
    let filespaces = stored::filespaces(client)?;
    let wanted = session.command.operands.first().map(|word| deleting::bare_filespace(word));
    let is_wanted = |name: &[u8]| {
        let name = model::escaped(name);
        wanted.as_ref().is_none_or(|wanted| dsm::words::is_like(wanted, &name))
    };
    let mut named: Vec<(usize, &FilespaceSummary)> = Vec::new();
    for (number, filespace) in (1..).zip(&filespaces) {
        if is_wanted(&filespace.name) && stored::has_versions(client, filespace)? {
            named.push((number, filespace));
        }
    }
    if named.is_empty() {
        session.complain(&match wanted {
            Some(wanted) => format!("ANS1092W No file space is called '{wanted}'"),
            None => "ANS1092W Nothing is backed up yet".to_owned(),
        });
        return Ok(WARNED);
    }
    let virtual_filespaces = session.virtual_filespaces()?;
    session.say_all(filespace_heading());
    for (number, filespace) in named {
        if session.is_json() {
            session.context.output.json(&FilespaceDocument {
                number,
                filespace: JsonPath(&filespace.name),
                last_backup: filespace.last_backup.map(moment::rfc3339),
            });
            continue;
        }
        let kind = virtual_filespaces.filesystem_type(&filespace.name);
        let kind = kind.unwrap_or_else(|| "unknown".to_owned());
        let last = filespace.last_backup.map(clock::moment);
        let name = model::escaped(&filespace.name);
        let line = filespace_line(number, last, &kind, &name, session.forms);
        session.say(&line);
    }
    Ok(DONE)
}

fn images(session: &mut Session<'_>, client: &Client) -> Result<u8, CommandError> {
    let mut images = client.images(session.command.operands.first().map(Vec::as_slice))?;
    let (all, filter) = (session.command.has("INACTIVE"), Filter::of(session)?);
    images.retain(|image| {
        let is_newest = match filter.which.at {
            Some(at) if image.taken > at => return false,
            Some(at) => image.replaced.is_none_or(|replaced| replaced > at),
            None => image.replaced.is_none(),
        };
        (all || is_newest) && filter.range.has(clock::moment(image.taken))
    });
    if images.is_empty() {
        session.complain("ANS1092W No image is stored, or none of this name or these times");
        return Ok(WARNED);
    }
    if session.is_json() {
        for image in &images {
            session.context.output.json(&json!({
                "image": JsonPath(&image.name),
                "bytes": image.facts.layout.bytes,
                "stored_bytes": image.facts.data_bytes,
                "kind": image.facts.kind.clone(),
                "taken": moment::rfc3339(image.taken),
                "mgmt_class": image.class,
                "active": image.replaced.is_none(),
            }));
        }
        return Ok(DONE);
    }
    session.say(IMAGE_HEADING);
    for image in &images {
        let line = image_line(image, session.forms);
        session.say(&line);
    }
    Ok(DONE)
}

const IMAGE_HEADING: &str =
    "        Image Size   Stored Size  Type          Backup Date          Mgmt Class  A/I Image";

/// Returns the line of an image. Each column but the last, and the time, is one word.
fn image_line(image: &Image, forms: Forms) -> String {
    format!(
        "{:>18} {:>13}  {:<12}  {}  {:<10}  {:<3} {}",
        size(image.facts.layout.bytes, forms),
        size(image.facts.data_bytes, forms),
        image.facts.kind.replace(' ', "-"),
        forms.stamp(clock::moment(image.taken)),
        image.class,
        if image.replaced.is_none() { "A" } else { "I" },
        model::escaped(&image.name)
    )
}

/// Returns a number of bytes with its unit, in the form of NUMBERFORMAT.
fn size(bytes: u64, forms: Forms) -> String {
    forms.marked(&crate::quantity::bytes_with_unit(bytes))
}

fn inclexcl(session: &mut Session<'_>) -> Result<u8, CommandError> {
    let of_server = match session.context.client() {
        Ok(client) => of_server(&client)?,
        // Without the server the list is that of the node.
        Err(_) => Vec::new(),
    };
    let statements = listing(&session.site.translation, &of_server);
    let is_json = session.is_json();
    for one in statements.iter().filter(|_| is_json) {
        session.context.output.json(&json!({
            "mode": one.mode,
            "function": one.function,
            "pattern": one.pattern,
            "mgmt_class": one.class,
            "source": one.source,
        }));
    }
    session.say_all(statement_lines(&statements));
    Ok(DONE)
}

/// Returns the statements that the server gives the node.
fn of_server(client: &Client) -> Result<Vec<ListedStatement>, CommandError> {
    let Some(set) = &client.hello().option_set else { return Ok(Vec::new()) };
    let source = |line| Source::OptionSet { name: set.name.clone(), line };
    let statements = statement::parse_list(&set.text, source)
        .map_err(|error| CommandError::new(error.to_string()))?;
    Ok(listed_of_server(&set.name, statements.iter().map(|one| &one.rule)))
}

fn options(session: &mut Session<'_>) -> Result<u8, CommandError> {
    let files: Vec<String> =
        session.site.files.iter().map(|file| file.display().to_string()).collect();
    session.say(&format!(
        "Option files: {}",
        if files.is_empty() { "none".to_owned() } else { files.join(", ") }
    ));
    let wanted = session.command.operands.first().map(|word| model::escaped(word).to_uppercase());
    let options: Vec<(String, String)> = session
        .options()
        .entries()
        .iter()
        .filter(|entry| entry.definition.kind != dsm::options::Kind::Statement)
        .map(|entry| (entry.definition.name(), entry))
        .filter(|(name, _)| wanted.as_ref().is_none_or(|wanted| dsm::words::is_like(wanted, name)))
        .filter(|(_, entry)| session.options().is_in_force(entry))
        .map(|(name, entry)| match name.as_str() {
            "PASSWORD" => (name, "...".to_owned()),
            _ => (name, model::escaped(&entry.value)),
        })
        .collect();
    let is_json = session.is_json();
    for (name, value) in options.iter().filter(|_| is_json) {
        session.context.output.json(&json!({"option": name, "value": value}));
    }
    session.say_all(options.iter().map(|(name, value)| format!("{name:>24}: {value}")));
    Ok(DONE)
}

fn classes(session: &mut Session<'_>, client: &Client) -> Result<u8, CommandError> {
    let hello = client.hello();
    let details = session.command.has("DETAIL");
    for (id, class) in &hello.classes {
        if session.is_json() {
            session.context.output.json(&json!({
                "mgmt_class": class.name,
                "default": *id == hello.default_class,
                "backup": class.backup,
                "archive": class.archive,
            }));
            continue;
        }
        let is_default = if *id == hello.default_class { "Yes" } else { "No" };
        session.say(&format!("MgmtClass Name                : {}", class.name));
        session.say(&format!("Default                       : {is_default}"));
        if details {
            session.say_all(class_lines(class));
        }
        session.say("");
    }
    Ok(DONE)
}

fn class_lines(class: &Class) -> Vec<String> {
    let mut lines = Vec::new();
    let mut add = |name: &str, value: String| lines.push(format!("       {name:<23}: {value}"));
    if let Some(group) = &class.backup {
        add("Copy Group Type", "Backup".to_owned());
        add("Versions Data Exists", group.versions_existing_max.to_string());
        add("Versions Data Deleted", group.versions_deleted_max.to_string());
        add("Retain Extra Versions", group.extra_days.to_string());
        add("Retain Only Version", group.only_days.to_string());
        add("Copy Frequency", group.frequency_days.to_string());
        add("Copy Mode", group.mode.to_string());
        add("Copy Serialization", group.serialization.to_string());
    }
    if let Some(group) = &class.archive {
        add("Copy Group Type", "Archive".to_owned());
        add("Retain Version", group.keep_days.to_string());
        add("Retention Initiation", group.starts.to_string());
        add("Retain Minimum Days", group.minimum_days.to_string());
    }
    lines
}

fn node(session: &mut Session<'_>, client: &Client) -> Result<u8, CommandError> {
    let hello = client.hello();
    if session.is_json() {
        session.context.output.json(&json!({
            "server": client.server(),
            "server_version": hello.server_version,
            "node": hello.node,
            "folder": session.home.display().to_string(),
            "option_set": hello.option_set.as_ref().map(|set| &set.name),
        }));
        return Ok(DONE);
    }
    let lines = [
        ("Server Name", client.server().to_owned()),
        ("Server Version", hello.server_version.clone()),
        ("Node Name", hello.node.to_uppercase()),
        ("Node Folder", session.home.display().to_string()),
        ("Secure Sockets", "TLS 1.3".to_owned()),
        ("Archive Retention", "by class".to_owned()),
        (
            "Option Set",
            hello
                .option_set
                .as_ref()
                .map_or_else(|| "none".to_owned(), |set| set.name.clone()),
        ),
    ];
    session.say_all(lines.map(|(name, value)| format!("  {name:.<24}: {value}")));
    Ok(DONE)
}

/// `dsmc query systeminfo`: the facts that somebody who helps needs, in a file.
fn system_facts(session: &mut Session<'_>, client: &Client) -> Result<u8, CommandError> {
    if !session.command.operands.is_empty() {
        output::say("The facts are not divided: all of them are shown, whatever is named.");
    }
    let mut lines = vec![format!("Holdfast {}", env!("CARGO_PKG_VERSION"))];
    lines.push(format!("Server {} {}", client.server(), client.hello().server_version));
    lines.push(format!("Node {} in {}", client.hello().node, session.home.display()));
    for file in &session.site.files {
        lines.push(format!("\nOption file {}", file.display()));
        let text = std::fs::read(file).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let is_secret = |line: &&str| {
            let word = line.split_whitespace().next().unwrap_or_default();
            dsm::options::find(word)
                .is_some_and(|option| matches!(option.name().as_str(), "PASSWORD" | "VMCPW"))
        };
        lines.extend(text.lines().filter(|line| !is_secret(line)).map(str::to_owned));
    }
    lines.push("\nStatements".to_owned());
    lines.extend(statement_lines(&listing(&session.site.translation, &of_server(client)?)));
    lines.push("\nMounts".to_owned());
    let mounts = sys::mount::table().unwrap_or_default();
    lines.extend(String::from_utf8_lossy(&mounts).lines().map(str::to_owned));
    if session.command.has("CONSOLE") {
        if session.is_json() {
            session.context.output.json(&json!({"lines": lines}));
        }
        session.say_all(lines.iter().flat_map(|line| line.lines()).map(str::to_owned));
        return Ok(DONE);
    }
    let file = session.options().text("FILENAME").unwrap_or_else(|| "dsminfo.txt".to_owned());
    std::fs::write(&file, lines.join("\n") + "\n")
        .map_err(|error| CommandError::new(format!("cannot write {file}: {error}")))?;
    if session.is_json() {
        session.context.output.json(&json!({"file": file}));
    }
    session.say(&format!("The facts about this system are in {file}."));
    Ok(DONE)
}
