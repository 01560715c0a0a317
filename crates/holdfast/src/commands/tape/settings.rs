//! `tape.toml` in the node's folder: which libraries there are.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::site::Site;
use crate::error::CommandError;

const FILE: &str = "tape.toml";
const NAME_BYTES_MAX: usize = 64;

/// All libraries that have a name on this machine.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    #[serde(default, rename = "library")]
    libraries: Vec<Named>,
}

/// One of them, as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    changer: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    drives: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    folder: Option<String>,
    /// Of each volume in the folder, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    capacity: Option<u64>,
}

impl Named {
    fn new(name: &str, site: &Site) -> Result<Self, CommandError> {
        let name = name.to_owned();
        Ok(match site {
            Site::Folder { path, capacity_bytes } => {
                let folder = path.to_str().ok_or_else(|| {
                    CommandError::new(format!("the name of {} is not UTF-8", path.display()))
                })?;
                let folder = Some(folder.to_owned());
                Self { name, changer: None, drives: Vec::new(), folder, capacity: *capacity_bytes }
            }
            Site::Devices { changer, drives } => {
                let drives = drives.iter().map(ToString::to_string).collect();
                let changer = Some(changer.to_string());
                Self { name, changer, drives, folder: None, capacity: None }
            }
        })
    }

    fn site(&self) -> Result<Site, String> {
        match (&self.folder, &self.changer, self.drives.as_slice(), self.capacity) {
            (Some(folder), None, [], capacity_bytes) => {
                Ok(Site::Folder { path: folder.into(), capacity_bytes })
            }
            (None, Some(changer), [_, ..], None) => {
                let parse =
                    |text: &String| text.parse().map_err(|error| format!("{text}: {error}"));
                let drives = self.drives.iter().map(parse).collect::<Result<_, _>>()?;
                Ok(Site::Devices { changer: parse(changer)?, drives })
            }
            _ => Err("it needs a changer and drives, or a folder".to_owned()),
        }
    }
}

impl Settings {
    /// What is in the node's folder; no file is no library.
    pub(super) fn load(home: &Path) -> Result<Self, CommandError> {
        let path = home.join(FILE);
        let shown = path.display();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(CommandError::new(format!("cannot read {shown}: {error}"))),
        };
        let settings: Self = toml::from_str(&text).map_err(|error| {
            let error = error.to_string().replace('\n', " ");
            CommandError::new(format!("{shown} is not valid: {}", error.trim_end()))
        })?;
        for named in &settings.libraries {
            let told = |why| CommandError::new(format!("{shown}: library {}: {why}", named.name));
            named.site().map_err(told)?;
        }
        Ok(settings)
    }

    pub(super) fn store(&self, home: &Path) -> Result<(), CommandError> {
        let path = home.join(FILE);
        let text = toml::to_string(self).expect("settings are a table");
        std::fs::create_dir_all(home)
            .and_then(|()| sys::durable::write(&path, text.as_bytes(), 0o644))
            .map_err(|error| CommandError::new(format!("cannot write {}: {error}", path.display())))
    }

    /// The libraries, by name.
    pub(super) fn sites(&self) -> Vec<(String, Site)> {
        let site = |named: &Named| Some((named.name.clone(), named.site().ok()?));
        self.libraries.iter().filter_map(site).collect()
    }

    /// Puts a library in, in place of one of that name.
    pub(super) fn put(&mut self, name: &str, site: &Site) -> Result<(), CommandError> {
        if !is_name(name) {
            let message = "a library's name has 1 to 64 letters, digits, '.', '-' or '_'";
            return Err(CommandError::new(message));
        }
        self.libraries.retain(|named| named.name != name);
        self.libraries.push(Named::new(name, site)?);
        self.libraries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(())
    }

    /// Takes a library out; returns whether it was there.
    pub(super) fn remove(&mut self, name: &str) -> bool {
        let count = self.libraries.len();
        self.libraries.retain(|named| named.name != name);
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
        for (name, word) in [("files", "/srv/tapes"), ("vault", "/dev/sg5,iscsi://h:99/t/1")] {
            let site = Site::of_path(word.as_ref()).expect("a site").expect("a path");
            settings.put(name, &site).expect("a name");
        }
        settings.store(home.path()).expect("a folder");
        let loaded = Settings::load(home.path()).expect("valid");
        assert_eq!(loaded.sites(), settings.sites());
        assert!(settings.remove("files") && !settings.remove("files"));
        assert!(settings.put("a/b", &loaded.sites()[0].1).is_err());
    }

    #[test]
    fn what_is_no_library_is_refused() {
        let home = tempfile::tempdir().expect("a folder");
        for bad in [
            "[[library]]\nname = \"a\"\n",
            "[[library]]\nname = \"a\"\nchanger = \"/dev/sg1\"\n",
            "[[library]]\nname = \"a\"\nfolder = \"/srv\"\ndrives = [\"/dev/sg1\"]\n",
            "[[library]]\nname = \"a\"\nchanger = \"sg1\"\ndrives = [\"/dev/sg1\"]\n",
            "[[library]]\nname = \"a\"\nfolder = \"/srv\"\nslots = 3\n",
        ] {
            std::fs::write(home.path().join(FILE), bad).expect("a folder");
            assert!(Settings::load(home.path()).is_err(), "{bad}");
        }
    }
}
