//! The option files of an agent that runs for months.
//!
//! The agent and the backups that it starts read `client.toml` and the list of statements in the
//! folder of the node. TSM's scheduler reads the option files anew for each event, so the folder
//! follows them: a statement that is added today counts tonight.

use std::path::Path;

use dsm::configuration::{Identity, identity};
use dsm::options::{Entry, Options};

use super::errors::numbered;
use super::files::{self, Places, Site};
use super::import::Import;
use crate::error::CommandError;

/// Option files, and what they said when they were read last.
pub(super) struct FollowedFiles {
    places: Places,
    line: Vec<Entry>,
    node: Node,
    import: Import,
    /// Content that the last look has found, if it is new.
    seen: Option<Import>,
    /// Reasons why the files are not taken over, which were told.
    told: Vec<String>,
}

/// Node that option files name, with its folder.
type Node = (Identity, Option<String>);

fn node(options: &Options) -> Node {
    (identity(options), options.text("PASSWORDDIR"))
}

impl FollowedFiles {
    /// Begins with files that were read. Returns `None` if there are none, and fails for a line
    /// that would have to be ignored.
    pub(super) fn new(
        places: Places,
        line: Vec<Entry>,
        site: &Site,
    ) -> Result<Option<Self>, CommandError> {
        if site.files.is_empty() {
            return Ok(None);
        }
        let import = Import::of_node(site);
        if let Some(lost) = import.lost.first() {
            return Err(CommandError::new(format!("ANS1036S {lost}"))
                .with_hint("'holdfast dsm check' shows all lines of the option files"));
        }
        Ok(Some(Self {
            places,
            line,
            node: node(&site.options),
            import,
            seen: None,
            told: Vec::new(),
        }))
    }

    /// Writes what the files said into the folder of the node.
    pub(super) fn write(&self, home: &Path) -> Result<(), CommandError> {
        self.import.write(home)
    }

    /// Reads the files again, and writes what they say if that has changed. Fails with the reasons
    /// why it is not taken over; each reason is told once.
    pub(super) fn look(&mut self, home: &Path) -> Result<bool, Vec<String>> {
        match self.changed(home) {
            Ok(is_changed) => {
                self.told.clear();
                Ok(is_changed)
            }
            Err(reasons) if reasons == self.told => Ok(false),
            Err(reasons) => {
                self.told.clone_from(&reasons);
                Err(reasons)
            }
        }
    }

    fn changed(&mut self, home: &Path) -> Result<bool, Vec<String>> {
        let failed = |error: CommandError| vec![numbered(&error)];
        let site = files::load(&self.places, &self.line).map_err(failed)?;
        if node(&site.options) != self.node {
            let line = "the option files name another node, server or folder than at the start; \
                        start this program anew";
            return Err(vec![line.to_owned()]);
        }
        let import = Import::of_node(&site);
        if !import.lost.is_empty() {
            let line = |lost: &String| format!("ANS1036S {lost}; the former options still count");
            return Err(import.lost.iter().map(line).collect());
        }
        if import == self.import {
            self.seen = None;
            return Ok(false);
        }
        // A file may be half written.
        if self.seen.as_ref() != Some(&import) {
            self.seen = Some(import);
            return Ok(false);
        }
        import.write(home).map_err(failed)?;
        self.import = import;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A schedule left a file in the backups that the list had excluded since the start of the
    /// agent.
    #[test]
    fn the_folder_of_the_node_follows_the_option_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let home = folder.path();
        let [file, list] = ["dsm.opt", "list"].map(|name| home.join(name));
        let read = |name: &str| std::fs::read_to_string(home.join(name)).expect("there");
        let write = |path: &Path, text: &str| std::fs::write(path, text).expect("written");
        write(&home.join("client.toml"), "node = 'anna'\n");
        write(&file, &format!("domain /home\ninclexcl {}\n", list.display()));
        write(&list, "exclude /srv/.../*.o\n");
        let places = || Places { system: None, user: Some(file.clone()) };
        let site = files::load(&places(), &[]).expect("a site");
        let followed = FollowedFiles::new(places(), Vec::new(), &site).expect("no fault");
        let mut followed = followed.expect("files");
        followed.write(home).expect("written");
        assert!(read("client.toml").contains("paths = [\"/home\"]"), "{}", read("client.toml"));
        assert_eq!(followed.look(home), Ok(false));

        write(&list, "exclude.dir /srv/cache\n");
        assert_eq!(followed.look(home), Ok(false), "it may be half written");
        assert_eq!(followed.look(home), Ok(true));
        assert_eq!(read("inclexcl"), "exclude.dir /srv/cache\n");

        write(&list, "exclude.dri /srv/cache\n");
        let reasons = followed.look(home).expect_err("a wrong line");
        assert!(reasons[0].starts_with("ANS1036S ") && reasons.len() == 1, "{reasons:?}");
        assert_eq!(followed.look(home), Ok(false), "it is told once");
        assert_eq!(read("inclexcl"), "exclude.dir /srv/cache\n");

        write(&file, "nodename BERT\ndomain /srv\n");
        let reasons = followed.look(home).expect_err("another node");
        assert!(reasons[0].contains("another node"), "{reasons:?}");
        assert!(read("client.toml").contains("/home"), "{}", read("client.toml"));
    }

    #[test]
    fn without_option_files_the_folder_stays_and_a_wrong_line_stops_the_start() {
        let site = files::load(&Places::default(), &[]).expect("a site");
        let none = FollowedFiles::new(Places::default(), Vec::new(), &site).expect("no fault");
        assert!(none.is_none());
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("dsm.opt");
        std::fs::write(&file, "followsymbolic yes\n").expect("written");
        let places = || Places { system: None, user: Some(file.clone()) };
        let site = files::load(&places(), &[]).expect("a site");
        let error = FollowedFiles::new(places(), Vec::new(), &site).err().expect("is refused");
        assert!(error.message.starts_with("ANS1036S "), "{}", error.message);
    }
}
