//! The option files of a command: their places, their content, and the options in force.
//!
//! `dsm.opt` is the file that `-optfile` names, otherwise `DSM_CONFIG`, otherwise `dsm.opt` in
//! `DSM_DIR`, in Holdfast's folder for them, or in TSM's own folder. `dsm.sys` is in `DSM_DIR`,
//! otherwise beside a `dsm.opt` that is named, otherwise in one of the same folders.

use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use dsm::configuration::{domain, virtual_faults, virtual_points};
use dsm::options::{Entry, Fault, Options, Place, Stanza, StanzaError, System};
use dsm::selection::{Translation, parse_list, translate};

use crate::error::CommandError;

/// Folders with option files: those for Holdfast alone, and those of TSM's client.
const FOLDERS: [&str; 5] = [
    "/etc/holdfast/tsm",
    "/opt/tivoli/tsm/client/ba/bin",
    "/usr/tivoli/tsm/client/ba/bin64",
    "/usr/tivoli/tsm/client/ba/bin",
    "/etc/adsm",
];
const SYSTEM_FILE: &str = "dsm.sys";
const USER_FILE: &str = "dsm.opt";

/// Places of the option files
#[derive(clap::Args, Debug, Default)]
pub(super) struct FileArgs {
    /// Option files to read, in place of those that DSM_DIR and DSM_CONFIG name: dsm.sys, dsm.opt,
    /// or both
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Stanza of dsm.sys [default: the one that dsm.opt names, otherwise the first]
    #[arg(long, value_name = "SERVERNAME")]
    stanza: Option<String>,
}

/// The option files, and the options in force.
pub(super) struct Site {
    pub(super) system: System,
    pub(super) user: Vec<Entry>,
    /// Paths of the files that were read.
    pub(super) files: Vec<PathBuf>,
    pub(super) stanza: Option<Stanza>,
    pub(super) options: Options,
    pub(super) translation: Translation,
    pub(super) faults: Vec<Fault>,
}

/// Places of the files of a command.
#[derive(Default)]
pub(super) struct Places {
    pub(super) system: Option<PathBuf>,
    pub(super) user: Option<PathBuf>,
}

impl Places {
    /// Finds the files for a command with these options.
    pub(super) fn of_command(line: &[Entry]) -> Result<Self, CommandError> {
        let folder = folder_named();
        let given = given(line, "OPTFILE").map(|path| PathBuf::from(OsStr::from_bytes(&path)));
        let named = given.or_else(|| variable("DSM_CONFIG"));
        if let Some(named) = named.as_ref().filter(|path| !is_there(path)) {
            let message = format!(
                "ANS1035S The option file {} cannot be read; -optfile or DSM_CONFIG names it",
                named.display()
            );
            return Err(CommandError::new(message));
        }
        if let (Some(folder), None) = (&folder, &named) {
            check_folder(folder)?;
        }
        let user_folders = folder.into_iter().chain(standard());
        let user = named.clone().or_else(|| first(user_folders, USER_FILE));
        Ok(Self { system: system_beside(named.as_deref()), user })
    }

    /// Finds the files that a person names.
    pub(super) fn of_arguments(files: &[PathBuf]) -> Result<Self, CommandError> {
        if files.is_empty() {
            return Self::of_command(&[]);
        }
        let mut places = Self::default();
        for file in files {
            let is_system = file.extension().is_some_and(|end| end.eq_ignore_ascii_case("sys"));
            let place = if is_system { &mut places.system } else { &mut places.user };
            if let Some(other) = place.replace(file.clone()) {
                let message = format!(
                    "{} and {} are of the same kind; give one dsm.sys and one dsm.opt",
                    other.display(),
                    file.display()
                );
                return Err(CommandError::usage(&message, "holdfast dsm check"));
            }
        }
        if places.system.is_none() {
            places.system = system_beside(places.user.as_deref());
        }
        Ok(places)
    }
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Returns the folder that DSM_DIR names.
fn folder_named() -> Option<PathBuf> {
    variable("DSM_DIR")
}

/// Fails if there are no option files in the folder that DSM_DIR names. Without them a command
/// would know no statement.
fn check_folder(folder: &Path) -> Result<(), CommandError> {
    if [SYSTEM_FILE, USER_FILE].iter().any(|name| is_there(&folder.join(name))) {
        return Ok(());
    }
    let message = format!(
        "ANS1035S The folder {} has neither dsm.sys nor dsm.opt; DSM_DIR names it",
        folder.display()
    );
    Err(CommandError::new(message).with_hint("correct DSM_DIR, or unset it"))
}

fn standard() -> impl Iterator<Item = PathBuf> {
    FOLDERS.iter().map(PathBuf::from)
}

/// Finds `dsm.sys` for a `dsm.opt` that is named, or for none.
fn system_beside(named: Option<&Path>) -> Option<PathBuf> {
    let beside = named.and_then(Path::parent).map(Path::to_owned);
    first(folder_named().into_iter().chain(beside).chain(standard()), SYSTEM_FILE)
}

fn is_there(path: &Path) -> bool {
    path.try_exists().unwrap_or(false)
}

fn first(folders: impl Iterator<Item = PathBuf>, name: &str) -> Option<PathBuf> {
    folders.map(|folder| folder.join(name)).find(|path| is_there(path))
}

fn given(line: &[Entry], name: &str) -> Option<Vec<u8>> {
    let is_called = |entry: &&Entry| entry.definition.spelling.eq_ignore_ascii_case(name);
    line.iter().rev().find(is_called).map(|entry| entry.value.clone())
}

/// Reads a file of options or commands. Of a file that is too long, the parser gets one byte more
/// than the maximum.
pub(super) fn content(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let most = dsm::options::FILE_BYTES_MAX as u64 + 1;
    std::fs::File::open(path)?.take(most).read_to_end(&mut content)?;
    Ok(content)
}

fn read(path: &Path) -> Result<Vec<u8>, CommandError> {
    content(path)
        .map_err(|error| CommandError::new(format!("cannot read {}: {error}", path.display())))
}

/// Reads the files and puts the options of a command line after them.
pub(super) fn load(places: &Places, line: &[Entry]) -> Result<Site, CommandError> {
    match load_all(places, line)? {
        (site, None) => Ok(site),
        (_, Some(error)) => Err(CommandError::new(format!("ANS1217E {error}"))),
    }
}

/// Does the same as [`load`] for a command of space management, whose stanza MIGRATESERVER names
/// unless the command line does.
pub(super) fn load_for_space(places: &Places, line: &[Entry]) -> Result<Site, CommandError> {
    let site = load(places, line)?;
    let named = site.options.get("MIGRATESERVER");
    match named.filter(|_| given(line, "SERVERNAME").is_none()) {
        Some(named) => {
            let name = Entry { place: named.place.clone(), ..server_name(&named.text()) };
            load(places, &[line, &[name]].concat())
        }
        None => Ok(site),
    }
}

/// Does the same as [`load`], and returns the reason why no stanza is in force apart.
fn load_all(places: &Places, line: &[Entry]) -> Result<(Site, Option<StanzaError>), CommandError> {
    let mut faults = Vec::new();
    let mut entries = |path: &Option<PathBuf>| match path {
        None => Ok::<_, CommandError>(Vec::new()),
        Some(path) => {
            let (entries, found) = dsm::options::parse(&path.display().to_string(), &read(path)?);
            faults.extend(found);
            Ok(entries)
        }
    };
    let system = System::new(entries(&places.system)?);
    let user = entries(&places.user)?;
    let (stanza, error) = match system.stanza(&user, line) {
        Ok(stanza) => (stanza.cloned(), None),
        Err(error) => (None, Some(error)),
    };
    let options = Options::new(&system, stanza.as_ref(), &user, line);
    let translation = statements(&options, &mut faults);
    faults.extend(domain_fault(&options));
    let files = [&places.system, &places.user].into_iter().flatten().cloned().collect();
    Ok((Site { system, user, files, stanza, options, translation, faults }, error))
}

/// Returns the fault of a line with DOMAIN in a file. The command itself refuses one of its own
/// line.
fn domain_fault(options: &Options) -> Option<Fault> {
    let error = domain(options).err().filter(|error| error.place != Place::CommandLine)?;
    Some(Fault { place: error.place, reason: error.reason })
}

/// Reads the files for an import.
pub(super) fn load_for(args: &FileArgs) -> Result<Site, CommandError> {
    let places = Places::of_arguments(&args.files)?;
    let stanza = args.stanza.as_ref().map(|name| server_name(name));
    load(&places, &stanza.into_iter().collect::<Vec<_>>())
}

/// Reads the files for a check: first with the stanza in force, and then with each other one,
/// unless a person has named the stanza.
pub(super) fn load_each_for(args: &FileArgs) -> Result<Vec<Site>, CommandError> {
    let places = Places::of_arguments(&args.files)?;
    let first = match args.stanza {
        Some(_) => load_for(args)?,
        None => load_in_any_case(&places)?,
    };
    let chosen = first.stanza.as_ref().map(|stanza| stanza.name.clone());
    let others = first.system.stanzas.iter().map(|stanza| stanza.name.clone());
    let others: Vec<String> = match args.stanza {
        Some(_) => Vec::new(),
        None => others.filter(|name| Some(name) != chosen.as_ref()).collect(),
    };
    let mut sites = vec![first];
    for name in others {
        // A stanza that is there twice is a fault of the first site.
        if let (site, None) = load_all(&places, &[server_name(&name)])? {
            sites.push(site);
        }
    }
    Ok(sites)
}

/// Reads the files. The reason why no stanza is in force is a fault of theirs.
fn load_in_any_case(places: &Places) -> Result<Site, CommandError> {
    let (mut site, error) = load_all(places, &[])?;
    if let Some(error) = error {
        let stanzas = site.system.stanzas.iter().flat_map(|stanza| &stanza.entries);
        let entries = site.system.globals.iter().chain(stanzas).chain(&site.user);
        let mut places = entries.map(|entry| &entry.place);
        let place = match &error {
            StanzaError::Twice { place, .. } => place.clone(),
            StanzaError::Unknown { wanted, .. } => places
                .find(|place| place.to_string() == *wanted)
                .cloned()
                .unwrap_or(Place::CommandLine),
        };
        site.faults.push(Fault { place, reason: error.to_string() });
    }
    Ok(site)
}

/// Returns the option that names a stanza.
fn server_name(name: &str) -> Entry {
    Entry {
        place: Place::CommandLine,
        definition: dsm::options::find_exactly("SERVERNAME").expect("the table has it"),
        value: name.as_bytes().to_vec(),
    }
}

/// Reads the lists, and translates all statements in their order.
fn statements(options: &Options, faults: &mut Vec<Fault>) -> Translation {
    let mut entries = Vec::new();
    for entry in options.statements() {
        if !entry.definition.spelling.eq_ignore_ascii_case("INCLEXCL") {
            entries.push(entry.clone());
            continue;
        }
        let path = Path::new(OsStr::from_bytes(&entry.value));
        match content(path) {
            Ok(bytes) => {
                let (list, found) = parse_list(&path.display().to_string(), &bytes);
                entries.extend(list);
                faults.extend(found);
            }
            Err(error) => faults.push(Fault {
                place: entry.place.clone(),
                reason: format!("cannot read the list {}: {error}", path.display()),
            }),
        }
    }
    let mut translation = translate(&entries);
    translation.leave_out_points(&virtual_points(options));
    faults.extend(virtual_faults(options));
    faults.append(&mut translation.faults);
    translation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_management_has_a_stanza_of_its_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("dsm.sys");
        std::fs::write(&file, "migrateserver two\nse one\nse two\nse three\n").expect("written");
        let places = Places { system: Some(file), user: None };
        let stanza = |site: Result<Site, CommandError>| {
            site.expect("a site").stanza.map(|stanza| stanza.name)
        };
        assert_eq!(stanza(load(&places, &[])).as_deref(), Some("one"));
        assert_eq!(stanza(load_for_space(&places, &[])).as_deref(), Some("two"));
        let line = [server_name("three")];
        assert_eq!(stanza(load_for_space(&places, &line)).as_deref(), Some("three"));
    }

    #[test]
    fn a_folder_without_option_files_is_no_folder_of_theirs() {
        let folder = tempfile::tempdir().expect("a folder");
        for absent in [folder.path().to_owned(), folder.path().join("absent")] {
            let error = check_folder(&absent).expect_err("no files");
            assert!(error.message.starts_with("ANS1035S "), "{}", error.message);
        }
        std::fs::write(folder.path().join(USER_FILE), "").expect("written");
        assert!(check_folder(folder.path()).is_ok());
    }
}
