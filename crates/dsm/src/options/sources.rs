//! Stanzas of `dsm.sys`, and the options in force.

use super::definition::Kind;
use super::entry::{Entry, Place};
use super::table;

/// Options of one server in `dsm.sys`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stanza {
    pub name: String,
    pub place: Place,
    pub entries: Vec<Entry>,
}

/// Content of `dsm.sys`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct System {
    /// Options before the first stanza.
    pub globals: Vec<Entry>,
    pub stanzas: Vec<Stanza>,
}

/// Reason why no stanza of `dsm.sys` can be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StanzaError {
    #[error("dsm.sys has no stanza {name}, which {wanted} names; it has {known}")]
    Unknown { wanted: String, name: String, known: String },
    #[error("{place} has a second stanza {name}; the first one is at {first}")]
    Twice { name: String, place: Place, first: Place },
}

impl System {
    /// Divides the entries of `dsm.sys` into stanzas.
    pub fn new(entries: Vec<Entry>) -> Self {
        let mut system = Self::default();
        for entry in entries {
            if is(&entry, "SERVERNAME") {
                let (name, place) = (entry.text(), entry.place);
                system.stanzas.push(Stanza { name, place, entries: Vec::new() });
            } else if let Some(stanza) = system.stanzas.last_mut() {
                stanza.entries.push(entry);
            } else {
                system.globals.push(entry);
            }
        }
        system
    }

    /// Finds the stanza that the command line or `dsm.opt` names, otherwise the default server,
    /// otherwise the first stanza. Returns `None` if there is no stanza at all.
    pub fn stanza(&self, user: &[Entry], line: &[Entry]) -> Result<Option<&Stanza>, StanzaError> {
        self.check()?;
        let named = |entries: &[Entry], name: &str| {
            entries.iter().rev().find(|entry| is(entry, name)).cloned()
        };
        // The place of a default server is before the first stanza, and one elsewhere is meant so.
        let of_stanzas =
            || self.stanzas.iter().find_map(|stanza| named(&stanza.entries, "DEFAULTSERVER"));
        let wanted = named(line, "SERVERNAME")
            .or_else(|| named(user, "SERVERNAME"))
            .or_else(|| named(user, "DEFAULTSERVER"))
            .or_else(|| named(&self.globals, "DEFAULTSERVER"))
            .or_else(of_stanzas);
        let Some(wanted) = wanted else { return Ok(self.stanzas.first()) };
        let name = wanted.text();
        let found = self.stanzas.iter().find(|stanza| stanza.name.eq_ignore_ascii_case(&name));
        let known: Vec<_> = self.stanzas.iter().map(|stanza| stanza.name.as_str()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let unknown = || StanzaError::Unknown { wanted: wanted.place.to_string(), name, known };
        found.map(Some).ok_or_else(unknown)
    }

    fn check(&self) -> Result<(), StanzaError> {
        for (index, stanza) in self.stanzas.iter().enumerate() {
            let same = |other: &&Stanza| other.name.eq_ignore_ascii_case(&stanza.name);
            if let Some(first) = self.stanzas[..index].iter().find(same) {
                let (name, place) = (stanza.name.clone(), stanza.place.clone());
                return Err(StanzaError::Twice { name, place, first: first.place.clone() });
            }
        }
        Ok(())
    }
}

fn is(entry: &Entry, name: &str) -> bool {
    entry.definition.spelling.eq_ignore_ascii_case(name)
}

/// Options in force: those of `dsm.sys`, of `dsm.opt` and of the command line, in this order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    entries: Vec<Entry>,
}

impl Options {
    /// Joins the sources. Of one option, the last entry is in force.
    pub fn new(system: &System, stanza: Option<&Stanza>, user: &[Entry], line: &[Entry]) -> Self {
        let stanza = stanza.map(|stanza| stanza.entries.as_slice()).unwrap_or_default();
        let sources = [&system.globals, stanza, user, line];
        let entries = sources.into_iter().flat_map(|entries| entries.iter().cloned()).collect();
        Self { entries }
    }

    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the entry of the option `name` that is in force.
    pub fn get(&self, name: &str) -> Option<&Entry> {
        debug_assert!(table::find_exactly(name).is_some(), "{name} is an option");
        self.entries.iter().rev().find(|entry| is(entry, name))
    }

    /// Returns all entries of the option `name`, of the source that comes first.
    pub fn all(&self, name: &str) -> Vec<&Entry> {
        let Some(last) = self.get(name) else { return Vec::new() };
        let same = |entry: &&Entry| {
            is(entry, name)
                && match (&entry.place, &last.place) {
                    (Place::File { path, .. }, Place::File { path: other, .. }) => path == other,
                    (place, other) => place == other,
                }
        };
        self.entries.iter().filter(same).collect()
    }

    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(Entry::text)
    }

    /// Returns the value of an option that is yes or no.
    pub fn yes(&self, name: &str) -> Option<bool> {
        self.get(name).map(Entry::is_yes)
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    /// Returns the include and exclude statements and the names of lists, in their order.
    pub fn statements(&self) -> impl Iterator<Item = &Entry> {
        let is_list = |entry: &&Entry| is(entry, "INCLEXCL");
        self.entries
            .iter()
            .filter(move |entry| entry.definition.kind == Kind::Statement || is_list(entry))
    }

    /// Returns the entries that are refused and in force.
    pub fn refused(&self) -> impl Iterator<Item = &Entry> {
        self.entries
            .iter()
            .filter(move |entry| entry.fate().is_refused() && self.is_in_force(entry))
    }

    /// Returns true if the entry has an effect: the last one of its option, or one of several that
    /// count together.
    pub fn is_in_force(&self, entry: &Entry) -> bool {
        let name = entry.definition.name();
        match name.as_str() {
            "INCLEXCL" => true,
            _ if entry.definition.kind == Kind::Statement => true,
            "DOMAIN" | "DOMAIN.IMAGE" | "SCHEDCMDEXCEPTION" | "VIRTUALMOUNTPOINT" => {
                self.all(&name).contains(&entry)
            }
            _ => self.get(&name) == Some(entry),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::file::parse;
    use super::*;

    const SYSTEM: &str = "defaultserver two\nservername one\nnodename anna\ncompression yes\n\
                          servername TWO\nnodename bert\ndomain /home\ndomain /srv\n";

    fn system(text: &str) -> System {
        let (entries, faults) = parse("dsm.sys", text.as_bytes());
        assert_eq!(faults, []);
        System::new(entries)
    }

    fn user(text: &str) -> Vec<Entry> {
        parse("dsm.opt", text.as_bytes()).0
    }

    #[track_caller]
    fn check(user_file: &str, line: &str, expected: &str) {
        let system = system(SYSTEM);
        let (user_file, line) = (user(user_file), user(line));
        let found = system.stanza(&user_file, &line).map(|found| found.map(|one| one.name.clone()));
        match found {
            Ok(found) => assert_eq!(found.as_deref(), Some(expected)),
            Err(error) => assert!(error.to_string().contains(expected), "{error}"),
        }
    }

    #[test]
    fn the_command_line_goes_before_dsm_opt_and_this_before_the_default() {
        check("", "", "TWO");
        check("se one", "", "one");
        check("se one", "se two", "TWO");
        check("se three", "", "it has one, TWO");
    }

    /// Otherwise the data would go to the server of the first stanza without a word.
    #[test]
    fn a_default_server_counts_wherever_it_stands() {
        let system = system("se one\ndefaults two\nse two\n");
        let name = |user_file: &str| {
            let stanza = system.stanza(&user(user_file), &[]).expect("found");
            stanza.map(|stanza| stanza.name.clone())
        };
        assert_eq!(name("").as_deref(), Some("two"));
        assert_eq!(name("defaultserver one").as_deref(), Some("one"));
        assert_eq!(name("defaultserver one\nse two").as_deref(), Some("two"));
    }

    #[test]
    fn a_stanza_is_there_once() {
        let system = system("se one\nse ONE\n");
        let error = system.stanza(&[], &[]).expect_err("twice");
        assert!(error.to_string().contains("the first one is at dsm.sys line 1"), "{error}");
    }

    #[test]
    fn without_a_name_the_first_stanza_counts() {
        let system = system("se one\nnodename anna\nse two\n");
        let stanza = system.stanza(&[], &[]).expect("found");
        assert_eq!(stanza.map(|stanza| stanza.name.as_str()), Some("one"));
        assert_eq!(System::default().stanza(&[], &[]), Ok(None));
    }

    #[test]
    fn the_last_source_wins_and_lists_are_of_one_source() {
        let system = system(SYSTEM);
        let stanza = system.stanzas.last();
        let own = user("nodename carl\n");
        let options = Options::new(&system, stanza, &own, &[]);
        assert_eq!(options.text("NODENAME").as_deref(), Some("carl"));
        let domains: Vec<_> = options.all("DOMAIN").iter().map(|entry| entry.text()).collect();
        assert_eq!(domains, ["/home", "/srv"]);
        let own = user("domain all-local\n");
        let options = Options::new(&system, stanza, &own, &[]);
        let domains: Vec<_> = options.all("DOMAIN").iter().map(|entry| entry.text()).collect();
        assert_eq!(domains, ["all-local"]);
        assert!(!options.has("COMPRESSION"));
        let in_force = options.entries().iter().filter(|entry| options.is_in_force(entry));
        let in_force: Vec<_> = in_force.map(Entry::text).collect();
        assert_eq!(in_force, ["two", "bert", "all-local"]);
    }
}
