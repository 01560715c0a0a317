//! What is backed up and how it is bound: the node's statements, the server's, and the classes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use model::{ClassId, Kind};
use policy::statement::{self, CACHE_TAG, CACHE_TAG_SIGNATURE, Rule};
use policy::{BackupCopyGroup, Mode, Operation, Selection, Source, Statement, Treatment, Verdict};
use sys::Dir;

use crate::home::Home;
use crate::link::{Class, Hello, Link};
use crate::{ClientError, ErrorKind};

/// The node's own statements, unless `client.toml` names another file.
const LIST_FILE: &str = "inclexcl";

/// The rules of one run.
pub(crate) struct Rules {
    pub(crate) selection: Selection,
    classes: BTreeMap<ClassId, Class>,
    default_class: ClassId,
    directory_class: ClassId,
    operation: Operation,
    /// The class of everything, whatever the statements say.
    all_class: Option<ClassId>,
    /// The class that each statement binds to.
    bound: Vec<Option<ClassId>>,
    has_treatments: bool,
    has_tags: bool,
    /// What the user should know of them.
    pub(crate) warnings: Vec<String>,
}

/// What the node's statements and the server's say of files that are to migrate.
#[derive(Clone, Debug, Default)]
pub struct SpaceRules(Selection);

impl SpaceRules {
    pub(crate) fn load(home: &Home, link: &Link) -> Result<Self, ClientError> {
        let rules = Rules::load(home, link, None, &[], Operation::Backup)?;
        Ok(Self(rules.selection))
    }

    /// Where the statement stands that keeps the file `path` of the node from migrating.
    pub fn excludes(&self, path: &[u8]) -> Option<String> {
        match self.0.treating(path, Treatment::SpaceManagement)? {
            (true, _) => None,
            (false, source) => Some(source.to_string()),
        }
    }
}

/// What the rules say of one object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ruling {
    pub(crate) verdict: Verdict,
    pub(crate) class: ClassId,
}

impl Rules {
    /// Reads the node's list and puts the server's statements and `excludes` behind it.
    pub(crate) fn load(
        home: &Home,
        link: &Link,
        list: Option<&Path>,
        excludes: &[Vec<u8>],
        operation: Operation,
    ) -> Result<Self, ClientError> {
        let usage = |message: String| ClientError::new(ErrorKind::Usage, message);
        let own = own_statements(home, list)?;
        let hello = link.hello();
        let of_server = match &hello.option_set {
            Some((name, text)) => {
                let source = |line| Source::OptionSet { name: name.clone(), line };
                statement::parse_list(text, source).map_err(|error| usage(error.to_string()))?
            }
            None => Vec::new(),
        };
        let patterns = excludes.iter().map(Vec::as_slice);
        let selection = Selection::new(own, of_server, patterns)
            .map_err(|(index, error)| usage(format!("--exclude number {}: {error}", index + 1)))?;
        Ok(Self::new(selection, hello, home.config.dirmc.as_deref(), operation))
    }

    fn new(selection: Selection, hello: &Hello, dirmc: Option<&str>, operation: Operation) -> Self {
        let mut warnings = Vec::new();
        let mut find = |name: &str, source: String| {
            let named = |(_, class): &(&ClassId, &Class)| class.name.eq_ignore_ascii_case(name);
            let found = hello.classes.iter().find(named).map(|(id, _)| *id);
            if found.is_none() {
                warnings.push(format!(
                    "{source}: the server has no class {name}; the default class {} is taken",
                    hello.class_name(hello.default_class)
                ));
            }
            found
        };
        let mut bound = vec![None; selection.statements().len()];
        for (index, name) in selection.classes() {
            bound[index] = find(name, selection.statements()[index].source.to_string());
        }
        let dirmc = dirmc.and_then(|name| find(name, "dirmc in client.toml".to_owned()));
        let has_tags = selection.tags().next().is_some();
        let is_archived =
            |id: &ClassId| hello.classes.get(id).is_some_and(|class| class.archive.is_some());
        // Nothing compares archives: their directories go with what is in them.
        let directory_class = match operation {
            Operation::Backup => dirmc.unwrap_or(hello.directory_class),
            Operation::Archive => dirmc.filter(is_archived).unwrap_or(hello.default_class),
        };
        Self {
            operation,
            all_class: None,
            has_treatments: selection.has_treatments(),
            has_tags,
            classes: hello.classes.clone(),
            default_class: hello.default_class,
            directory_class,
            bound,
            selection,
            warnings,
        }
    }

    /// Whether every object is included, and none stands out but by being a directory.
    pub(crate) fn is_plain(&self) -> bool {
        self.selection.statements().is_empty()
    }

    /// Decides on one object in a directory that is not left out; `path` makes its path on the
    /// node, which is not asked for where it does not matter.
    pub(crate) fn ruling(&self, path: impl FnOnce() -> Vec<u8>, kind: Kind) -> Ruling {
        let by_kind = match kind {
            Kind::Directory => self.directory_class,
            _ => self.default_class,
        };
        if self.is_plain() {
            let class = self.all_class.unwrap_or(by_kind);
            return Ruling { verdict: Verdict::Included { rule_index: None }, class };
        }
        let verdict = self.selection.verdict(&path(), kind, self.operation);
        let bound = verdict.rule_index().and_then(|index| self.bound[index]);
        Ruling { verdict, class: self.all_class.or(bound).unwrap_or(by_kind) }
    }

    /// Binds everything to the class called `name`.
    pub(crate) fn bind_all_to(&mut self, name: &str) -> Result<(), ClientError> {
        let named = |(_, class): &(&ClassId, &Class)| class.name.eq_ignore_ascii_case(name);
        let found = self.classes.iter().find(named).map(|(id, _)| *id);
        let known: Vec<&str> = self.classes.values().map(|class| class.name.as_str()).collect();
        let unknown = || {
            let message = format!("there is no class {name}; there are {}", known.join(", "));
            ClientError::new(ErrorKind::Usage, message)
        };
        let class = found.ok_or_else(unknown)?;
        if let Some(refusal) = self.refuses(class) {
            let message = format!("nothing can be bound to it: {refusal}");
            return Err(ClientError::new(ErrorKind::Usage, message));
        }
        self.all_class = Some(class);
        Ok(())
    }

    /// Why objects of the class cannot be taken, if so.
    pub(crate) fn refuses(&self, class: ClassId) -> Option<String> {
        let known = self.classes.get(&class);
        let (has_group, group) = match self.operation {
            Operation::Backup => (known.is_some_and(|c| c.backup.is_some()), "backup"),
            Operation::Archive => (known.is_some_and(|c| c.archive.is_some()), "archive"),
        };
        let name = self.class_name(class);
        (!has_group).then(|| format!("its class {name} has no {group} copy group"))
    }

    pub(crate) fn class_name(&self, class: ClassId) -> &str {
        self.classes.get(&class).map_or("", |class| &class.name)
    }

    /// How objects of the class are backed up; `None` where they are not.
    pub(crate) fn group(&self, class: ClassId) -> Option<&BackupCopyGroup> {
        self.classes.get(&class)?.backup.as_ref()
    }

    /// Whether objects of the class are sent each time.
    pub(crate) fn is_absolute(&self, class: ClassId) -> bool {
        self.operation == Operation::Backup
            && self.group(class).is_some_and(|group| group.mode == Mode::Absolute)
    }

    /// What statements say of the file's compression, deduplication and encryption.
    pub(crate) fn treatment(&self, path: impl FnOnce() -> Vec<u8>) -> FileTreatment {
        if !self.has_treatments {
            return FileTreatment::default();
        }
        let path = path();
        let says = |treatment| self.selection.treats(&path, treatment);
        FileTreatment {
            compresses: says(Treatment::Compression).unwrap_or(true),
            deduplicates: says(Treatment::Deduplication).unwrap_or(true),
            encrypts: says(Treatment::Encryption).unwrap_or(false),
        }
    }

    /// Where the first statement by which files are encrypted stands, if there is one.
    pub(crate) fn encrypts(&self) -> Option<String> {
        let encrypts = |statement: &&Statement| {
            let encryption = Treatment::Encryption;
            matches!(&statement.rule,
                Rule::Treat { treatment, is_on: true, .. } if *treatment == encryption)
        };
        let found = self.selection.statements().iter().find(encrypts);
        found.map(|statement| statement.source.to_string())
    }

    /// The statement, and the name of the file, by which what is in the directory `dir` is left
    /// out. `names` are its entries.
    pub(crate) fn tag_in<'a>(
        &self,
        dir: &Dir,
        names: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Option<(usize, &[u8])> {
        if !self.has_tags || self.operation == Operation::Archive {
            return None;
        }
        let is_there = |tag: &[u8]| names.clone().any(|name| name == tag);
        let is_tag = |tag: &[u8]| tag != CACHE_TAG || has_signature(dir, tag);
        self.selection.tags().find(|(_, tag)| is_there(tag) && is_tag(tag))
    }

    /// The statement by which the file system mounted at `path` is left out.
    pub(crate) fn excludes_filesystem(&self, path: &[u8]) -> Option<usize> {
        if self.is_plain() || self.operation == Operation::Archive {
            return None;
        }
        // A type that cannot be told matches no statement; its path still may.
        let name = sys::mount::filesystem_type(path).ok().flatten().unwrap_or_default();
        self.selection.excludes_filesystem(path, &name)
    }

    /// Where the statement stands and what it says.
    pub(crate) fn shown(&self, rule_index: usize) -> (String, String) {
        let Statement { source, rule } = &self.selection.statements()[rule_index];
        (source.to_string(), model::escaped(&rule.written()))
    }

    /// Bytes that differ whenever objects could be chosen, bound or sent otherwise.
    pub(crate) fn canonical(&self) -> Vec<u8> {
        let mut bytes = self.selection.canonical();
        for class in &self.bound {
            bytes.extend_from_slice(&class.map_or(0, |class| class.0).to_le_bytes());
        }
        for class in [self.default_class, self.directory_class] {
            bytes.extend_from_slice(&class.0.to_le_bytes());
        }
        for (id, class) in &self.classes {
            let how = match &class.backup {
                None => 0,
                Some(group) if group.mode == Mode::Modified => 1,
                Some(_) => 2,
            };
            bytes.extend_from_slice(&id.0.to_le_bytes());
            bytes.push(how);
        }
        bytes
    }
}

/// How a file's data is to be treated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileTreatment {
    pub compresses: bool,
    pub deduplicates: bool,
    pub encrypts: bool,
}

impl Default for FileTreatment {
    fn default() -> Self {
        Self { compresses: true, deduplicates: true, encrypts: false }
    }
}

/// A cache directory is tagged only by a file with the right content.
fn has_signature(dir: &Dir, name: &[u8]) -> bool {
    let mut start = [0; CACHE_TAG_SIGNATURE.len()];
    let read = dir.open_file(name).and_then(|file| file.read_at(&mut start, 0));
    read.is_ok_and(|bytes| start[..bytes] == *CACHE_TAG_SIGNATURE)
}

fn own_statements(home: &Home, list: Option<&Path>) -> Result<Vec<Statement>, ClientError> {
    let named = list.map(Path::to_owned).or_else(|| home.config.inclexcl.clone());
    let path: PathBuf = named.clone().unwrap_or_else(|| home.folder.join(LIST_FILE));
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(ClientError::file("read", &path, &error)),
    };
    let shown = path.display().to_string();
    let source = |line| Source::File { path: shown.clone(), line };
    statement::parse_list(&text, source)
        .map_err(|error| ClientError::new(ErrorKind::Usage, error.to_string()))
}
