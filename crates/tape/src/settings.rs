//! `tape.toml` in a node's folder: the libraries that have a name on this machine.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::address::Address;
use crate::site::Site;

const FILE: &str = "tape.toml";
const NAME_BYTES_MAX: usize = 64;

/// Reason why the libraries could not be read or stored.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("cannot read {path}")]
    Read { path: PathBuf, source: io::Error },
    /// A person has to correct the file.
    #[error("{path} is not valid: {why}")]
    Invalid { path: PathBuf, why: String },
    #[error("cannot write {path}")]
    Write { path: PathBuf, source: io::Error },
    #[error("the name of a library must have 1 to 64 letters, digits, '.', '-' or '_'")]
    Name,
    #[error("the name of {0} is not UTF-8")]
    Folder(PathBuf),
}

/// A library with its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedSite {
    pub name: String,
    pub site: Site,
}

/// All libraries that have a name on this machine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    /// Libraries, sorted by name; each name occurs once.
    libraries: Vec<NamedSite>,
}

/// Content of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default, rename = "library")]
    libraries: Vec<LibraryTable>,
}

/// One library, as a table of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LibraryTable {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    changer: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    drives: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    folder: Option<String>,
    /// Capacity of each volume in the folder, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    capacity: Option<u64>,
}

/// Reason why a table of the file does not describe a library.
#[derive(Debug, thiserror::Error)]
enum TableError {
    #[error(
        "{text} is not an address: it must have the form /dev/sgN or iscsi://HOST[:PORT]/TARGET/LUN"
    )]
    Address { text: String },
    #[error("the table must have a changer and drives, or a folder")]
    Incomplete,
}

impl LibraryTable {
    fn new(library: &NamedSite) -> Result<Self, SettingsError> {
        let name = library.name.clone();
        Ok(match &library.site {
            Site::Folder { path, capacity_bytes } => {
                let folder = path.to_str().ok_or_else(|| SettingsError::Folder(path.clone()))?;
                let folder = Some(folder.to_owned());
                Self { name, changer: None, drives: Vec::new(), folder, capacity: *capacity_bytes }
            }
            Site::Devices { changer, drives } => {
                assert!(!drives.is_empty(), "a library of devices has drives");
                let drives = drives.iter().map(ToString::to_string).collect();
                let changer = Some(changer.to_string());
                Self { name, changer, drives, folder: None, capacity: None }
            }
        })
    }

    fn site(&self) -> Result<Site, TableError> {
        match (&self.folder, &self.changer, self.drives.as_slice(), self.capacity) {
            (Some(folder), None, [], capacity_bytes) => {
                Ok(Site::Folder { path: folder.into(), capacity_bytes })
            }
            (None, Some(changer), [_, ..], None) => {
                let parse = |text: &String| {
                    text.parse::<Address>().map_err(|_| TableError::Address { text: text.clone() })
                };
                let drives = self.drives.iter().map(parse).collect::<Result<_, _>>()?;
                Ok(Site::Devices { changer: parse(changer)?, drives })
            }
            _ => Err(TableError::Incomplete),
        }
    }
}

impl Settings {
    /// Reads the file in the node's folder `home`. Without a file, the list of libraries is empty.
    pub fn load(home: &Path) -> Result<Self, SettingsError> {
        let path = home.join(FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(source) => return Err(SettingsError::Read { path, source }),
        };
        let invalid = |why: String| SettingsError::Invalid { path: path.clone(), why };
        let document: Document = toml::from_str(&text)
            .map_err(|error| invalid(model::located(&text, error.span(), error.message())))?;
        let mut settings = Self::default();
        for table in &document.libraries {
            let named = |error: TableError| invalid(format!("library {}: {error}", table.name));
            settings.put(&table.name, table.site().map_err(named)?)?;
        }
        Ok(settings)
    }

    /// Writes the file into the node's folder `home`.
    pub fn store(&self, home: &Path) -> Result<(), SettingsError> {
        debug_assert!(self.libraries.is_sorted_by(|a, b| a.name < b.name), "names occur once");
        let path = home.join(FILE);
        let libraries = self.libraries.iter().map(LibraryTable::new).collect::<Result<_, _>>()?;
        let text = toml::to_string(&Document { libraries }).expect("settings are a table");
        std::fs::create_dir_all(home)
            .and_then(|()| sys::durable::write(&path, text.as_bytes(), 0o644))
            .map_err(|source| SettingsError::Write { path, source })
    }

    /// Returns the libraries, sorted by name.
    pub fn libraries(&self) -> &[NamedSite] {
        &self.libraries
    }

    /// Returns the site of the library called `name`.
    pub fn site(&self, name: &str) -> Option<&Site> {
        self.libraries
            .iter()
            .find(|library| library.name == name)
            .map(|library| &library.site)
    }

    /// Adds a library, or replaces the library of the same name.
    pub fn put(&mut self, name: &str, site: Site) -> Result<(), SettingsError> {
        if !is_name(name) {
            return Err(SettingsError::Name);
        }
        self.remove(name);
        self.libraries.push(NamedSite { name: name.to_owned(), site });
        self.libraries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(())
    }

    /// Removes a library; returns true if it existed.
    pub fn remove(&mut self, name: &str) -> bool {
        let count = self.libraries.len();
        self.libraries.retain(|library| library.name != name);
        debug_assert!(self.libraries.len() + 1 >= count, "a name occurs once");
        self.libraries.len() < count
    }
}

fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_survive() {
        let home = tempfile::tempdir().expect("a folder");
        let mut settings = Settings::default();
        let devices = Site::of_addresses("/dev/sg5,iscsi://h:99/t/1").expect("a library");
        let folder = Site::Folder { path: "/srv/tapes".into(), capacity_bytes: Some(1 << 30) };
        settings.put("vault", devices).expect("a name");
        settings.put("files", folder.clone()).expect("a name");
        settings.store(home.path()).expect("a folder");
        let loaded = Settings::load(home.path()).expect("valid");
        assert_eq!(loaded, settings);
        assert_eq!(loaded.site("files"), Some(&folder));
        assert!(settings.remove("files") && !settings.remove("files"));
        assert!(matches!(settings.put("a/b", folder), Err(SettingsError::Name)));
    }

    #[test]
    fn a_table_that_is_no_library_is_refused() {
        let home = tempfile::tempdir().expect("a folder");
        for bad in [
            "[[library]]\nname = \"a\"\n",
            "[[library]]\nname = \"a\"\nchanger = \"/dev/sg1\"\n",
            "[[library]]\nname = \"a\"\nfolder = \"/srv\"\ndrives = [\"/dev/sg1\"]\n",
            "[[library]]\nname = \"a\"\nchanger = \"sg1\"\ndrives = [\"/dev/sg1\"]\n",
            "[[library]]\nname = \"a\"\nfolder = \"/srv\"\nslots = 3\n",
        ] {
            std::fs::write(home.path().join(FILE), bad).expect("a folder");
            let refused = Settings::load(home.path());
            assert!(matches!(refused, Err(SettingsError::Invalid { .. })), "{bad}");
        }
    }
}
