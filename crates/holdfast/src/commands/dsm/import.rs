//! `holdfast dsm import`: writes what TSM's option files say into the node's folder.

use std::path::Path;

use dsm::configuration::{self, Key, Value, domain, identity};
use dsm::options::Options;
use serde::Serialize;
use toml::Table;

use super::files::{self, FileArgs, Site};
use super::folders::is_same_server;
use crate::context::Context;
use crate::error::{CommandError, DONE, FAILED};

const CONFIG_FILE: &str = "client.toml";
const LIST_FILE: &str = "inclexcl";
/// Keys that the last import has written, so that a key that an option file loses goes again.
const RECORD_FILE: &str = "dsm.imported";
/// Key of the record. It is there if the list of statements is that of the last import.
const STATEMENTS: &str = "statements";
/// Key of the address of the server in `client.toml`.
const SERVER: &str = "server";

/// Write what TSM's option files say into client.toml and into the list of statements
///
/// Keys that the option files do not give stay as they are. The machine must be enrolled.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast dsm import --dry-run
  holdfast dsm import /etc/adsm/dsm.sys /etc/adsm/dsm.opt

Exit codes: 0 all is carried over; 4 some lines could not be.")]
pub(super) struct Args {
    #[command(flatten)]
    files: FileArgs,
    /// Write the keys and the list to standard output, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// `dsm import --json`.
#[derive(Serialize)]
struct ImportDocument {
    home: String,
    dry_run: bool,
    keys: Table,
    statements: usize,
    not_carried_over: Vec<String>,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<u8, CommandError> {
    let site = files::load_for(&args.files)?;
    let home = super::folders::folder(&site, context)?;
    let import = Import::of(&site);
    let mut keys = import.table();
    // A user who may not read the file still sees the keys of the option files.
    let config = read_table(&home.join(CONFIG_FILE)).ok().flatten().unwrap_or_default();
    if let Some(server) = import.new_server(&config) {
        keys.insert(SERVER.to_owned(), server.clone().into());
    }
    if !args.dry_run {
        import.write(&home)?;
    }
    let code = if import.lost.is_empty() { DONE } else { FAILED };
    if context.output.is_json() {
        context.output.json(&ImportDocument {
            home: home.display().to_string(),
            dry_run: args.dry_run,
            keys,
            statements: site.translation.statements.len(),
            not_carried_over: import.lost,
        });
        return Ok(code);
    }
    let keys = toml::to_string(&keys).unwrap_or_default();
    let list = String::from_utf8_lossy(&import.list);
    if args.dry_run {
        context.output.text(&format!("# {CONFIG_FILE}\n{keys}\n# {LIST_FILE}\n{list}"));
    } else if !context.global.quiet {
        let shown = home.display();
        context
            .output
            .text(&format!("{keys}\nThese keys are in {shown}/{CONFIG_FILE}.\n"));
        if !import.list.is_empty() {
            context.output.text(&format!("The statements are in {shown}/{LIST_FILE}.\n"));
        }
    }
    for line in &import.lost {
        crate::output::say(&format!("Not carried over: {line}"));
    }
    Ok(code)
}

/// Keys and statements that option files give to a node.
#[derive(PartialEq, Eq)]
pub(super) struct Import {
    /// Address of the server that the option files name.
    server: Option<String>,
    keys: Vec<Key>,
    paths: Option<Vec<String>>,
    list: Vec<u8>,
    /// Lines that could not be carried over, each with its reason.
    pub(super) lost: Vec<String>,
}

impl Import {
    /// Returns what the option files and the command line say.
    pub(super) fn of(site: &Site) -> Self {
        let server = identity(&site.options).server;
        Self { server, ..Self::with(site, &site.options) }
    }

    /// Returns what the option files and the command line say to a node whose server stays.
    pub(super) fn of_node(site: &Site) -> Self {
        Self::with(site, &site.options)
    }

    /// Returns what the option files say to a node that has just been enrolled, and has its server.
    /// Options of a command line are for one command only.
    pub(super) fn of_files(site: &Site) -> Self {
        Self::with(site, &options_of_files(site))
    }

    fn with(site: &Site, options: &Options) -> Self {
        let mut lost: Vec<String> = site.faults.iter().map(ToString::to_string).collect();
        lost.extend(options.refused().map(|entry| {
            format!("{}: {}: {}", entry.place, entry.definition.name(), entry.fate())
        }));
        let paths = match domain(options) {
            Ok(domain) => domain.map(|domain| path_words(&domain)),
            Err(error) => {
                // The files have the fault already, unless the command line has hidden it.
                let reason = error.to_string();
                if !lost.contains(&reason) {
                    lost.push(reason);
                }
                None
            }
        };
        let (keys, list) = (configuration::keys(options), site.translation.list());
        Self { server: None, keys, paths, list, lost }
    }

    /// Returns the keys in the form of `client.toml`.
    fn table(&self) -> Table {
        let mut table = Table::new();
        for key in &self.keys {
            set(&mut table, key.name, value(&key.value));
        }
        if let Some(paths) = &self.paths {
            set(&mut table, "paths", value(&Value::List(paths.clone())));
        }
        table
    }

    /// Returns the address of the server, if `client.toml` has addresses of another one only.
    fn new_server(&self, config: &Table) -> Option<&String> {
        let known = get(config, SERVER)?.as_str()?;
        self.server.as_ref().filter(|server| !is_same_server(server, known))
    }

    /// Writes the keys and the list into the folder of an enrolled node.
    pub(super) fn write(&self, home: &Path) -> Result<(), CommandError> {
        let failed = |path: &Path, error: &dyn std::fmt::Display| {
            CommandError::new(format!("cannot write {}: {error}", path.display()))
        };
        let path = home.join(CONFIG_FILE);
        let mut config = read_table(&path)?.ok_or_else(|| {
            CommandError::new(format!(
                "this machine is not enrolled ({} is absent)",
                path.display()
            ))
            .with_hint("run 'holdfast enroll', or a command of dsmc with -password=TOKEN")
        })?;
        let record = home.join(RECORD_FILE);
        let mut last = read_table(&record)?.unwrap_or_default();
        let had_list = last.remove(STATEMENTS).is_some();
        remove(&mut config, &last);
        let mut keys = self.table();
        add(&mut config, &keys);
        if let Some(server) = self.new_server(&config).cloned() {
            config.insert(SERVER.to_owned(), server.into());
        }
        let has_list = !self.list.is_empty();
        if has_list {
            keys.insert(STATEMENTS.to_owned(), true.into());
        }
        let write = |path: &Path, bytes: &[u8]| {
            sys::durable::write(path, bytes, 0o600).map_err(|error| failed(path, &error))
        };
        let text = |table: &Table| {
            toml::to_string(table)
                .map_err(|error| failed(&path, &error))
                .map(String::into_bytes)
        };
        write(&path, &text(&config)?)?;
        // Without statements, a list that no import has written is a person's, and stays.
        if has_list || had_list {
            write(&home.join(LIST_FILE), &self.list)?;
        }
        write(&record, &text(&keys)?)
    }

    /// Returns the options whose keys are not in `client.toml` with the same value, and that no
    /// command line can carry.
    fn missing(&self, home: &Path) -> Vec<&'static str> {
        let Ok(Some(config)) = read_table(&home.join(CONFIG_FILE)) else { return Vec::new() };
        let is_missing = |key: &&Key| {
            configuration::is_kept_only(key.name)
                && get(&config, key.name) != Some(&value(&key.value))
        };
        self.keys.iter().filter(is_missing).map(|key| key.option).collect()
    }
}

/// Returns the options of the files that have no effect until they are imported. What a command
/// line says is no matter of the files.
pub(super) fn missing(site: &Site, home: &Path) -> Vec<&'static str> {
    let keys = configuration::keys(&options_of_files(site));
    let (paths, list, lost) = (None, Vec::new(), Vec::new());
    Import { server: None, keys, paths, list, lost }.missing(home)
}

fn options_of_files(site: &Site) -> Options {
    Options::new(&site.system, site.stanza.as_ref(), &site.user, &[])
}

/// Returns the words of the key `paths`.
fn path_words(domain: &configuration::Domain) -> Vec<String> {
    let all = domain.all_local.then(|| "all-local".to_owned());
    let paths = domain.paths.iter().map(|path| model::escaped(path));
    let left_out = domain.left_out.iter().map(|path| format!("-{}", model::escaped(path)));
    let left_out = left_out.filter(|_| domain.all_local);
    all.into_iter().chain(paths).chain(left_out).collect()
}

fn read_table(path: &Path) -> Result<Option<Table>, CommandError> {
    let wrong = |error: &dyn std::fmt::Display| {
        CommandError::new(format!("cannot use {}: {error}", path.display()))
    };
    match std::fs::read_to_string(path) {
        Ok(text) => {
            text.parse().map(Some).map_err(|error: toml::de::Error| wrong(&error.message()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(wrong(&error)),
    }
}

fn value(value: &Value) -> toml::Value {
    match value {
        Value::Text(text) => text.clone().into(),
        Value::Number(number) => i64::try_from(*number).unwrap_or(i64::MAX).into(),
        Value::Flag(is_on) => (*is_on).into(),
        Value::List(words) => words.clone().into(),
    }
}

/// Sets a key, whose name may begin with that of a section and a dot.
fn set(table: &mut Table, name: &str, value: toml::Value) {
    match name.split_once('.') {
        None => drop(table.insert(name.to_owned(), value)),
        Some((section, key)) => {
            let entry = table.entry(section).or_insert_with(|| Table::new().into());
            if let Some(section) = entry.as_table_mut() {
                section.insert(key.to_owned(), value);
            }
        }
    }
}

fn get<'t>(table: &'t Table, name: &str) -> Option<&'t toml::Value> {
    match name.split_once('.') {
        None => table.get(name),
        Some((section, key)) => table.get(section)?.as_table()?.get(key),
    }
}

/// Adds the keys of `other`, in place of those that are there.
fn add(table: &mut Table, other: &Table) {
    for (name, value) in other {
        match (table.get_mut(name).and_then(toml::Value::as_table_mut), value.as_table()) {
            (Some(section), Some(keys)) => add(section, keys),
            _ => drop(table.insert(name.clone(), value.clone())),
        }
    }
}

/// Removes the keys of `other` that still have the same value.
fn remove(table: &mut Table, other: &Table) {
    for (name, value) in other {
        if let Some((section, keys)) =
            table.get_mut(name).and_then(toml::Value::as_table_mut).zip(value.as_table())
        {
            remove(section, keys);
            if section.is_empty() {
                table.remove(name);
            }
        } else if table.get(name) == Some(value) {
            table.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        text.parse().expect("TOML")
    }

    #[test]
    fn a_server_with_another_address_is_written() {
        let home = tempfile::tempdir().expect("a folder");
        let (file, config) = (home.path().join("dsm.sys"), home.path().join(CONFIG_FILE));
        std::fs::write(&config, "node = 'anna'\nserver = '127.0.0.1:1500,127.0.0.3:1500'\n")
            .expect("written");
        let import = |address: &str| {
            std::fs::write(&file, format!("se one\ntcps {address}\n")).expect("written");
            let places = files::Places { system: Some(file.clone()), user: None };
            let site = files::load(&places, &[]).expect("a site");
            Import::of(&site).write(home.path()).expect("imported");
            let config = std::fs::read_to_string(&config).expect("there");
            table(&config)[SERVER].as_str().map(str::to_owned)
        };
        assert_eq!(import("127.0.0.3").as_deref(), Some("127.0.0.1:1500,127.0.0.3:1500"));
        assert_eq!(import("127.0.0.2").as_deref(), Some("127.0.0.2:1500"));
    }

    /// The first command of a machine may be one for a single file system.
    #[test]
    fn options_of_one_command_are_not_kept() {
        let home = tempfile::tempdir().expect("a folder");
        let file = home.path().join("dsm.opt");
        std::fs::write(&file, "domain /home\ncompression yes\n").expect("written");
        let words = ["-domain=/srv", "-compression=no"].map(|word| word.as_bytes().to_vec());
        let (line, _) = dsm::client::options_of(&words).expect("options");
        let places = files::Places { system: None, user: Some(file) };
        let site = files::load(&places, &line).expect("a site");
        let shown = |import: Import| toml::to_string(&import.table()).expect("TOML");
        let of_files = shown(Import::of_files(&site));
        assert_eq!(of_files, "paths = [\"/home\"]\n\n[tuning]\ncompression = \"standard\"\n");
        let of_both = shown(Import::of(&site));
        assert_eq!(of_both, "paths = [\"/srv\"]\n\n[tuning]\ncompression = \"none\"\n");
    }

    /// Statements that the option files lose must not leave out files for ever.
    #[test]
    fn a_list_that_the_option_files_lose_is_empty_and_a_persons_list_stays() {
        let home = tempfile::tempdir().expect("a folder");
        let (file, list) = (home.path().join("dsm.opt"), home.path().join(LIST_FILE));
        std::fs::write(home.path().join(CONFIG_FILE), "node = 'anna'\n").expect("written");
        let import = |text: &str| {
            std::fs::write(&file, text).expect("written");
            let places = files::Places { system: None, user: Some(file.clone()) };
            let site = files::load(&places, &[]).expect("a site");
            Import::of(&site).write(home.path()).expect("imported");
            std::fs::read_to_string(&list).expect("a list")
        };
        std::fs::write(&list, "exclude /mine\n").expect("written");
        assert_eq!(import("compression no\n"), "exclude /mine\n");
        assert_eq!(import("exclude.dir /old\n"), "exclude.dir /old\n");
        assert_eq!(import("compression no\n"), "");
        let config = std::fs::read_to_string(home.path().join(CONFIG_FILE)).expect("there");
        assert!(!config.contains(STATEMENTS), "{config}");
        std::fs::write(&list, "exclude /mine\n").expect("written");
        assert_eq!(import("compression yes\n"), "exclude /mine\n");
    }

    #[test]
    fn keys_of_an_import_come_and_go_again() {
        let mut config = table("node = 'a'\ndirmc = 'X'\n[tuning]\ncompression = '3'\n");
        let first =
            table("dirmc = 'D'\n[tuning]\ntransaction_bytes = 5\n[agent]\nrestores = false\n");
        add(&mut config, &first);
        assert_eq!(
            config,
            table(
                "node = 'a'\ndirmc = 'D'\n[tuning]\ncompression = '3'\ntransaction_bytes = 5\n\
                 [agent]\nrestores = false\n"
            )
        );
        remove(&mut config, &first);
        assert_eq!(config, table("node = 'a'\n[tuning]\ncompression = '3'\n"));
    }

    #[test]
    fn a_key_that_a_person_has_changed_stays() {
        let mut config = table("dirmc = 'MINE'\n");
        remove(&mut config, &table("dirmc = 'D'\n"));
        assert_eq!(config, table("dirmc = 'MINE'\n"));
    }
}
