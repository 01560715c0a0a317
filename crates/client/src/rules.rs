//! Rules of a run: the statements of the node and of the server, and the management classes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use model::{ClassId, Kind};
use policy::statement::{self, CACHE_TAG, CACHE_TAG_SIGNATURE, Rule};
use policy::{BackupCopyGroup, Mode, Operation, Selection, Source, Statement, Treatment, Verdict};
use sys::Dir;

use crate::error::{ClientError, ErrorKind};
use crate::link::hello::{Class, Hello, OptionSet};
use crate::node::home::Home;
use crate::report::Exclusion;
use crate::virtual_filespaces::VirtualFilespaces;

/// File with the node's own statements, unless `client.toml` names another file.
const LIST_FILE: &str = "inclexcl";

/// Rules of one run.
pub(crate) struct Rules {
    pub(crate) selection: Selection,
    classes: BTreeMap<ClassId, Class>,
    default_class: ClassId,
    directory_class: ClassId,
    pub(crate) operation: Operation,
    /// Class of every object. It overrides the statements.
    all_class: Option<ClassId>,
    /// Class that each statement binds to, by the index of the statement.
    bound: Vec<Option<ClassId>>,
    has_treatments: bool,
    has_tags: bool,
    has_left_contents: bool,
    /// Directories that are filespaces of their own.
    pub(crate) virtual_filespaces: VirtualFilespaces,
    /// Facts about the rules that the user should know.
    pub(crate) warnings: Vec<String>,
}

/// Rules that exclude files from migration.
#[derive(Clone, Debug, Default)]
pub struct SpaceRules(Selection);

impl SpaceRules {
    pub(crate) fn load(home: &Home, hello: &Hello) -> Result<Self, ClientError> {
        let rules = Rules::load(home, hello, None, &[], Operation::Backup)?;
        Ok(Self(rules.selection))
    }

    /// Returns the source of the statement that excludes the file `path` from migration; `None` if
    /// the file may migrate.
    pub fn excludes(&self, path: &[u8]) -> Option<String> {
        match self.0.treating(path, Treatment::SpaceManagement)? {
            (true, _) => None,
            (false, source) => Some(source.to_string()),
        }
    }
}

/// Decision of the rules about one object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ruling {
    pub(crate) verdict: Verdict,
    pub(crate) class: ClassId,
}

/// Refusal of objects whose class has no copy group for the operation.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the management class {class} has no {group} copy group")]
pub(crate) struct NoCopyGroup {
    class: String,
    group: &'static str,
}

impl Rules {
    /// Reads the node's statements, and adds the server's statements and `excludes` after them.
    pub(crate) fn load(
        home: &Home,
        hello: &Hello,
        list: Option<&Path>,
        excludes: &[Vec<u8>],
        operation: Operation,
    ) -> Result<Self, ClientError> {
        let usage = |message: String| ClientError::new(ErrorKind::Usage, message);
        let own = own_statements(home, list)?;
        let of_server = match &hello.option_set {
            Some(OptionSet { name, text, .. }) => {
                let source = |line| Source::OptionSet { name: name.clone(), line };
                statement::parse_list(text, source).map_err(|error| usage(error.to_string()))?
            }
            None => Vec::new(),
        };
        let patterns = excludes.iter().map(Vec::as_slice);
        let selection = Selection::new(own, of_server, patterns)
            .map_err(|(index, error)| usage(format!("--exclude number {}: {error}", index + 1)))?;
        let virtual_filespaces = VirtualFilespaces::of(&home.standing)?;
        let rules = Self::new(selection, hello, home.config.dirmc.as_deref(), operation);
        Ok(Self { virtual_filespaces, ..rules })
    }

    fn new(selection: Selection, hello: &Hello, dirmc: Option<&str>, operation: Operation) -> Self {
        let mut warnings = Vec::new();
        let mut find = |name: &str, source: String| {
            let named = |(_, class): &(&ClassId, &Class)| class.name.eq_ignore_ascii_case(name);
            let found = hello.classes.iter().find(named).map(|(id, _)| *id);
            if found.is_none() {
                warnings.push(format!(
                    "{source}: the server has no class {name}; the default class {} is used",
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
        // Archives are not compared, so their directories are kept only as long as their files.
        let directory_class = match operation {
            Operation::Backup => dirmc.unwrap_or(hello.directory_class),
            Operation::Archive => dirmc.filter(is_archived).unwrap_or(hello.default_class),
        };
        Self {
            operation,
            all_class: None,
            has_treatments: selection.has_treatments(),
            has_tags,
            has_left_contents: selection.has_left_contents(),
            classes: hello.classes.clone(),
            default_class: hello.default_class,
            directory_class,
            bound,
            selection,
            virtual_filespaces: VirtualFilespaces::default(),
            warnings,
        }
    }

    /// Returns the index of the statement that leaves the content of a directory alone: it is not
    /// backed up, and its versions stay. `path` returns the directory's path on the node.
    pub(crate) fn leaves_content(&self, path: impl FnOnce() -> Vec<u8>) -> Option<usize> {
        if !self.has_left_contents {
            return None;
        }
        self.selection.leaves_content(&path(), self.operation)
    }

    /// Returns true if the rules have no statements. Then only the kind of an object decides.
    pub(crate) fn is_plain(&self) -> bool {
        self.selection.statements().is_empty()
    }

    /// Decides about an object in a directory that is not excluded. `path` returns the object's
    /// path on the node. It is called only if the path matters.
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

    /// Returns the class of the images that the rules know by `path`. The user names each disk, so
    /// statements that exclude do not apply, and do not hide the statement with the class.
    pub(crate) fn class_of_images(&self, path: &[u8]) -> ClassId {
        let including = self.selection.including(path, self.operation);
        let bound = including.and_then(|index| self.bound[index]);
        self.all_class.or(bound).unwrap_or(self.default_class)
    }

    /// Binds all objects to the class `name`.
    pub(crate) fn bind_all_to(&mut self, name: &str) -> Result<(), ClientError> {
        let named = |(_, class): &(&ClassId, &Class)| class.name.eq_ignore_ascii_case(name);
        let found = self.classes.iter().find(named).map(|(id, _)| *id);
        let known: Vec<&str> = self.classes.values().map(|class| class.name.as_str()).collect();
        let unknown = || {
            let message = format!("there is no class {name}; the classes are {}", known.join(", "));
            ClientError::new(ErrorKind::Usage, message)
        };
        let class = found.ok_or_else(unknown)?;
        if let Err(refusal) = self.check(class) {
            let message = format!("no object can be bound to {name}: {refusal}");
            return Err(ClientError::new(ErrorKind::Usage, message));
        }
        self.all_class = Some(class);
        Ok(())
    }

    /// Fails if the class has no copy group for the operation.
    pub(crate) fn check(&self, class: ClassId) -> Result<(), NoCopyGroup> {
        let known = self.classes.get(&class);
        let (has_group, group) = match self.operation {
            Operation::Backup => (known.is_some_and(|c| c.backup.is_some()), "backup"),
            Operation::Archive => (known.is_some_and(|c| c.archive.is_some()), "archive"),
        };
        if has_group {
            return Ok(());
        }
        Err(NoCopyGroup { class: self.class_name(class).to_owned(), group })
    }

    pub(crate) fn class_name(&self, class: ClassId) -> &str {
        self.classes.get(&class).map_or("", |class| &class.name)
    }

    /// Returns the backup copy group of the class; `None` if its objects are not backed up.
    pub(crate) fn group(&self, class: ClassId) -> Option<&BackupCopyGroup> {
        self.classes.get(&class)?.backup.as_ref()
    }

    /// Returns true if objects of the class are sent by each backup.
    pub(crate) fn is_absolute(&self, class: ClassId) -> bool {
        self.operation == Operation::Backup
            && self.group(class).is_some_and(|group| group.mode == Mode::Absolute)
    }

    /// Returns the treatment of a file. `path` returns the file's path on the node.
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

    /// Returns the source of the first statement that encrypts files.
    pub(crate) fn encrypts(&self) -> Option<String> {
        let encrypts = |statement: &&Statement| {
            let encryption = Treatment::Encryption;
            matches!(&statement.rule,
                Rule::Treat { treatment, is_on: true, .. } if *treatment == encryption)
        };
        let found = self.selection.statements().iter().find(encrypts);
        found.map(|statement| statement.source.to_string())
    }

    /// Returns the index of the statement that excludes the content of the directory `dir`, and the
    /// name of the tag file that causes the exclusion. `names` are the entries of the directory.
    pub(crate) fn tag_in<'a>(
        &self,
        dir: &Dir,
        names: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Option<(usize, &[u8])> {
        self.tag(dir, |tag| names.clone().any(|name| name == tag))
    }

    /// Does the same as [`Self::tag_in`] for a directory that has not been listed.
    pub(crate) fn tag_in_unlisted(&self, dir: &Dir) -> Option<(usize, &[u8])> {
        self.tag(dir, |tag| dir.has(tag).unwrap_or(false))
    }

    fn tag(&self, dir: &Dir, is_there: impl Fn(&[u8]) -> bool) -> Option<(usize, &[u8])> {
        if !self.has_tags || self.operation == Operation::Archive {
            return None;
        }
        let is_tag = |tag: &[u8]| tag != CACHE_TAG || has_signature(dir, tag);
        self.selection.tags().find(|(_, tag)| is_there(tag) && is_tag(tag))
    }

    /// Returns the index of the statement that excludes the filespace `path`.
    pub(crate) fn excludes_filesystem(&self, path: &[u8]) -> Option<usize> {
        if self.is_plain() || self.operation == Operation::Archive {
            return None;
        }
        // An unknown type matches no statement, but the path may still match a statement.
        let name = self.virtual_filespaces.filesystem_type(path).unwrap_or_default();
        self.selection.excludes_filesystem(path, &name)
    }

    /// Returns the source and the text of a statement.
    pub(crate) fn shown(&self, rule_index: usize) -> (String, String) {
        let Statement { source, rule } = &self.selection.statements()[rule_index];
        (source.to_string(), model::escaped(&rule.written()))
    }

    /// Returns the exclusion of `path` by a statement.
    pub(crate) fn exclusion(&self, path: &[u8], rule_index: usize) -> Exclusion {
        let (source, statement) = self.shown(rule_index);
        Exclusion { path: path.to_vec(), statement, source }
    }

    /// Returns the canonical form of the rules. It differs for any two rules that may choose, bind
    /// or send objects differently.
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

/// Treatment of a file's data.
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

/// Returns true if the file `name` of `dir` has the content that tags a cache directory.
fn has_signature(dir: &Dir, name: &[u8]) -> bool {
    let mut start = [0; CACHE_TAG_SIGNATURE.len()];
    let read = dir.open_file(name).and_then(|file| file.read_at(&mut start, 0));
    read.is_ok_and(|bytes| start[..bytes] == *CACHE_TAG_SIGNATURE)
}

fn own_statements(home: &Home, list: Option<&Path>) -> Result<Vec<Statement>, ClientError> {
    let is_named = list.is_some() || home.config.inclexcl.is_some();
    let path = list_path(home, list);
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if !is_named && error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(ClientError::file("read", &path, &error)),
    };
    let shown = path.display().to_string();
    let source = |line| Source::File { path: shown.clone(), line };
    statement::parse_list(&text, source)
        .map_err(|error| ClientError::new(ErrorKind::Usage, error.to_string()))
}

/// Returns the file with the node's statements. `list` replaces the node's own file.
pub(crate) fn list_path(home: &Home, list: Option<&Path>) -> PathBuf {
    let named = list.map(Path::to_owned).or_else(|| home.config.inclexcl.clone());
    named.unwrap_or_else(|| home.folder.join(LIST_FILE))
}

#[cfg(test)]
pub(crate) mod tests {

    use model::ServerTime;

    use super::*;

    /// Makes the answer of a server with classes that send files if they differ (1), always (2) and
    /// never (3), and with a class for directories (4).
    pub(crate) fn hello() -> Hello {
        let class = |name: &str, mode: Option<Mode>| {
            let backup = mode.map(|mode| BackupCopyGroup { mode, ..BackupCopyGroup::default() });
            Class { name: name.to_owned(), backup, archive: None }
        };
        Hello {
            node: "alpha".to_owned(),
            server_version: String::new(),
            now: ServerTime(0),
            classes: BTreeMap::from([
                (ClassId(1), class("standard", Some(Mode::Modified))),
                (ClassId(2), class("always", Some(Mode::Absolute))),
                (ClassId(3), class("none", None)),
                (ClassId(4), class("dirs", Some(Mode::Modified))),
            ]),
            default_class: ClassId(1),
            directory_class: ClassId(4),
            option_set: None,
            outages: Vec::new(),
        }
    }

    /// Makes the rules of a node with the statements of `list`.
    pub(crate) fn rules(list: &str, operation: Operation) -> Rules {
        let source = |line| Source::File { path: "list".to_owned(), line };
        let own = statement::parse_list(list.as_bytes(), source).expect("a list");
        let selection = Selection::new(own, Vec::new(), std::iter::empty()).expect("a selection");
        Rules::new(selection, &hello(), None, operation)
    }

    /// Checks whether `list` includes `path`, and the class of `path`.
    #[track_caller]
    fn check(list: &str, path: &str, kind: Kind, expected: (bool, u16)) {
        let ruling = rules(list, Operation::Backup).ruling(|| path.as_bytes().to_vec(), kind);
        assert_eq!((ruling.verdict.is_included(), ruling.class.0), expected, "{path}");
    }

    #[test]
    fn a_statement_binds_and_the_kind_decides_otherwise() {
        check("", "/a", Kind::File, (true, 1));
        check("", "/a", Kind::Directory, (true, 4));
        check("include /a always", "/a", Kind::File, (true, 2));
        check("include /a always", "/b", Kind::File, (true, 1));
        check("exclude /a", "/a", Kind::File, (false, 1));
    }

    #[test]
    fn an_unknown_class_is_a_warning() {
        let rules = rules("include /a nosuch", Operation::Backup);
        let [warning] = &rules.warnings[..] else { panic!("one warning") };
        assert!(warning.contains("the server has no class nosuch"), "{warning}");
        assert_eq!(rules.ruling(|| b"/a".to_vec(), Kind::File).class, ClassId(1));
    }

    #[test]
    fn a_class_without_a_copy_group_takes_nothing() {
        let backup = rules("", Operation::Backup);
        assert_eq!(backup.check(ClassId(1)), Ok(()));
        let refusal = backup.check(ClassId(3)).expect_err("refused");
        assert_eq!(refusal.to_string(), "the management class none has no backup copy group");
        let archive = rules("", Operation::Archive);
        let refusal = archive.check(ClassId(1)).expect_err("refused");
        assert_eq!(refusal.to_string(), "the management class standard has no archive copy group");
    }

    #[test]
    fn everything_can_be_bound_to_one_class() {
        let mut backup = rules("include /a standard", Operation::Backup);
        backup.bind_all_to("ALWAYS").expect("a class");
        assert_eq!(backup.ruling(|| b"/a".to_vec(), Kind::File).class, ClassId(2));
        assert_eq!(backup.ruling(|| b"/d".to_vec(), Kind::Directory).class, ClassId(2));
        for name in ["nosuch", "none"] {
            let error = backup.bind_all_to(name).expect_err("refused");
            assert_eq!(error.kind, ErrorKind::Usage);
            assert!(error.message.contains(name), "{}", error.message);
        }
    }

    #[test]
    fn only_backups_send_objects_of_an_absolute_class_each_time() {
        for (operation, class, expected) in [
            (Operation::Backup, 2, true),
            (Operation::Backup, 1, false),
            (Operation::Backup, 3, false),
            (Operation::Archive, 2, false),
        ] {
            assert_eq!(rules("", operation).is_absolute(ClassId(class)), expected);
        }
    }

    #[test]
    fn rules_that_decide_differently_have_other_bytes() {
        let canonical = |list| rules(list, Operation::Backup).canonical();
        assert_eq!(canonical("exclude /a"), canonical("exclude /a"));
        assert_ne!(canonical("exclude /a"), canonical("exclude /b"));
        assert_ne!(canonical("include /a"), canonical("include /a always"));
    }

    #[test]
    fn a_cache_directory_is_tagged_by_content() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = Dir::open(folder.path().as_os_str().as_encoded_bytes()).expect("a folder");
        let tag = folder.path().join(std::str::from_utf8(CACHE_TAG).expect("text"));
        assert!(!has_signature(&dir, CACHE_TAG));
        std::fs::write(&tag, b"something else").expect("written");
        assert!(!has_signature(&dir, CACHE_TAG));
        std::fs::write(&tag, [CACHE_TAG_SIGNATURE, b" and more"].concat()).expect("written");
        assert!(has_signature(&dir, CACHE_TAG));
    }
}
