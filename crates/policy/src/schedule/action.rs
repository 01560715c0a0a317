//! Actions of schedules.

use data_encoding::BASE64;
use model::SampleAmount;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::options::{self, LIBRARY, option_name};

/// Work of a schedule, with what it is done to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Action {
    pub work: Work,
    /// Paths, patterns, a device, a shell command, or names of pools or volumes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<Word>,
    /// Further options of the command, as on its command line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

/// Kinds of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    Incremental,
    Selective,
    Full,
    Archive,
    Restore,
    Verify,
    /// Restore of a random sample to nowhere. Its one object is the amount of the sample.
    Drill,
    Image,
    /// A shell command.
    Command,
    Expire,
    Reclaim,
    /// Audit of the catalogue.
    Audit,
    /// Audit that reads all stored data.
    Scrub,
    CopyCatalog,
    Drain,
    /// Copies to a copy pool, or to all copy pools, the packs that they lack.
    CopyPools,
    /// Repairs damaged packs from other pools.
    Repair,
    /// Empties volumes whose data is mostly dead: those of one pool or of all, or named ones.
    ReclaimVolumes,
    /// Moves the needed packs off volumes.
    MoveVolumes,
    /// Reads volumes from end to end, and checks their packs.
    AuditVolumes,
}

/// Place at which work is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Node,
    Server,
}

impl Work {
    /// All kinds of work, those of nodes first.
    pub const ALL: [Self; 20] = [
        Self::Incremental,
        Self::Selective,
        Self::Full,
        Self::Archive,
        Self::Restore,
        Self::Verify,
        Self::Drill,
        Self::Image,
        Self::Command,
        Self::Expire,
        Self::Reclaim,
        Self::Audit,
        Self::Scrub,
        Self::CopyCatalog,
        Self::Drain,
        Self::CopyPools,
        Self::Repair,
        Self::ReclaimVolumes,
        Self::MoveVolumes,
        Self::AuditVolumes,
    ];

    /// The name of the work, as commands show and take it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Incremental => "incremental",
            Self::Selective => "selective",
            Self::Full => "full",
            Self::Archive => "archive",
            Self::Restore => "restore",
            Self::Verify => "verify",
            Self::Drill => "drill",
            Self::Image => "image",
            Self::Command => "command",
            Self::Expire => "expire",
            Self::Reclaim => "reclaim",
            Self::Audit => "audit",
            Self::Scrub => "scrub",
            Self::CopyCatalog => "copy-catalog",
            Self::Drain => "drain",
            Self::CopyPools => "copy-pools",
            Self::Repair => "repair",
            Self::ReclaimVolumes => "reclaim-volumes",
            Self::MoveVolumes => "move-volumes",
            Self::AuditVolumes => "audit-volumes",
        }
    }

    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|work| work.name() == name)
    }

    /// Returns true if the objects of the work are paths at the node.
    fn takes_paths(self) -> bool {
        matches!(
            self,
            Self::Incremental
                | Self::Selective
                | Self::Full
                | Self::Archive
                | Self::Restore
                | Self::Verify
                | Self::Image
        )
    }

    pub fn place(self) -> Place {
        match self {
            Self::Incremental
            | Self::Selective
            | Self::Full
            | Self::Archive
            | Self::Restore
            | Self::Verify
            | Self::Drill
            | Self::Image
            | Self::Command => Place::Node,
            Self::Expire
            | Self::Reclaim
            | Self::Audit
            | Self::Scrub
            | Self::CopyCatalog
            | Self::Drain
            | Self::CopyPools
            | Self::Repair
            | Self::ReclaimVolumes
            | Self::MoveVolumes
            | Self::AuditVolumes => Place::Server,
        }
    }

    /// Returns true if the work may be done again though nobody knows how far it came: a shell
    /// command may have had its effect, and an archive would be stored twice.
    pub fn is_repeatable(self) -> bool {
        !matches!(self, Self::Command | Self::Archive)
    }
}

impl Action {
    /// Returns the action in words: the work, its objects and its options.
    pub fn words(&self) -> String {
        let objects = self.objects.iter().map(|word| model::escaped(&word.0));
        let options = self.options.iter().cloned();
        std::iter::once(self.work.name().to_owned())
            .chain(objects)
            .chain(options)
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Returns the amount of a drill's sample.
    fn sample(&self) -> Option<SampleAmount> {
        let [amount] = &self.objects[..] else { return None };
        str::from_utf8(&amount.0).ok()?.parse().ok()
    }

    /// Returns the library of the volumes that the action names, if it names one.
    pub fn library(&self) -> Option<&str> {
        self.options.iter().find_map(|option| {
            let (name, value) = option.split_once('=')?;
            (name == LIBRARY).then_some(value)
        })
    }

    /// Returns true if the action gets at the contents of files as their owner would: a restore
    /// writes them, and a shell command can do anything with them.
    pub fn reaches_contents(&self) -> bool {
        let runs_around = |option: &String| self.work.runs_around(option_name(option));
        matches!(self.work, Work::Restore | Work::Command) || self.options.iter().any(runs_around)
    }

    /// Fails with the reason if the action cannot be carried out.
    pub fn check(&self) -> Result<(), String> {
        self.check_objects()?;
        options::check_all(self.work, &self.options, self.objects.len())
    }

    fn check_objects(&self) -> Result<(), &'static str> {
        let is_without = self.objects.is_empty();
        if self.objects.iter().any(|object| object.0.is_empty()) {
            return Err("an object is empty");
        }
        // A node would look for another path from the folder in which its agent happens to be.
        if self.work.takes_paths() && !self.objects.iter().all(|one| one.0.starts_with(b"/")) {
            return Err("the objects of this action are paths, which begin with '/'");
        }
        match self.work {
            Work::Selective if is_without => {
                Err("a selective backup needs objects: name the files or directories")
            }
            Work::Archive if is_without => {
                Err("an archive needs objects: name the files or directories")
            }
            Work::Restore if is_without => Err("a restore needs objects: name what is restored"),
            Work::Drill if self.sample().is_none() => {
                Err("a drill needs one object: the amount of its sample, as in 500, 2G or 5%")
            }
            Work::Image if is_without => Err("an image needs an object: name the device"),
            Work::Command if self.objects.len() != 1 => {
                Err("a command is one object: the text for the shell")
            }
            Work::Drain if self.objects.len() != 1 => {
                Err("a drain needs one object: the name of the pool")
            }
            Work::CopyPools if self.objects.len() > 1 => {
                Err("name one pool, or none for all pools")
            }
            Work::ReclaimVolumes if is_without && self.library().is_some() => {
                Err("name the volumes of the library")
            }
            Work::MoveVolumes | Work::AuditVolumes if is_without => {
                Err("this action needs objects: name the volumes")
            }
            Work::Drain
            | Work::CopyPools
            | Work::ReclaimVolumes
            | Work::MoveVolumes
            | Work::AuditVolumes => Ok(()),
            work if work.place() == Place::Server && !is_without => {
                Err("this action takes no objects")
            }
            _ => Ok(()),
        }
    }
}

/// A word of any bytes. In JSON it is text, or `{"bytes": "<Base64>"}` if it is not UTF-8.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "WordForm", into = "WordForm")]
pub struct Word(pub Vec<u8>);

/// The form of a word in JSON.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum WordForm {
    Text(String),
    Encoded {
        bytes: String,
    },
    /// The form in definitions that were stored by older programs.
    #[schemars(skip)]
    List(Vec<u8>),
}

impl TryFrom<WordForm> for Word {
    type Error = &'static str;

    fn try_from(form: WordForm) -> Result<Self, &'static str> {
        match form {
            WordForm::Text(text) => Ok(Self(text.into_bytes())),
            WordForm::Encoded { bytes } => {
                let decoded = BASE64.decode(bytes.as_bytes());
                decoded.map(Self).map_err(|_| "the bytes of a word are not Base64")
            }
            WordForm::List(bytes) => Ok(Self(bytes)),
        }
    }
}

impl From<Word> for WordForm {
    fn from(word: Word) -> Self {
        match String::from_utf8(word.0) {
            Ok(text) => Self::Text(text),
            Err(error) => Self::Encoded { bytes: BASE64.encode(error.as_bytes()) },
        }
    }
}

impl From<Vec<u8>> for Word {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_any_bytes_survive_as_json() {
        let read = |json: &str| serde_json::from_str::<Word>(json);
        for (bytes, json) in [(&b"/etc"[..], r#""/etc""#), (b"\xff\0a", r#"{"bytes":"/wBh"}"#)] {
            let word = Word(bytes.to_vec());
            assert_eq!(serde_json::to_string(&word).expect("is text"), json);
            assert_eq!(read(json).expect("is read"), word);
        }
        assert_eq!(read("[255,0,97]").expect("is read").0, b"\xff\0a", "the form until 2026");
        assert!(read(r#"{"bytes":"*"}"#).is_err() && read("7").is_err());
    }

    #[test]
    fn a_drill_names_one_sample() {
        let check = |objects: &[&str]| {
            let objects = objects.iter().map(|text| Word(text.as_bytes().to_vec())).collect();
            Action { work: Work::Drill, objects, options: Vec::new() }.check().is_ok()
        };
        assert!(check(&["500"]) && check(&["2G"]) && check(&["0.5%"]));
        assert!(!check(&[]) && !check(&["x"]) && !check(&["1", "2"]) && !check(&["101%"]));
    }

    #[test]
    fn work_on_pools_and_volumes_names_them() {
        let check = |work, objects: &[&str], options: &[&str]| {
            let objects = objects.iter().map(|text| Word(text.as_bytes().to_vec())).collect();
            let options = options.iter().map(|&option| option.to_owned()).collect();
            Action { work, objects, options }.check().is_ok()
        };
        for work in [Work::CopyPools, Work::ReclaimVolumes] {
            assert!(check(work, &[], &[]) && check(work, &["A"], &[]));
            assert!(!check(work, &[], &["--library=TL"]));
        }
        for objects in [&["A"][..], &["A", "B"]] {
            assert!(check(Work::ReclaimVolumes, objects, &["--library=TL"]));
            assert!(!check(Work::CopyPools, objects, &["--library=TL"]));
        }
        assert!(check(Work::ReclaimVolumes, &["A", "B"], &[]));
        assert!(!check(Work::CopyPools, &["A", "B"], &[]));
        for work in [Work::MoveVolumes, Work::AuditVolumes] {
            assert!(check(work, &["A", "B"], &[]) && check(work, &["A"], &["--library=TL"]));
            assert!(!check(work, &[], &[]) && !check(work, &["A"], &["--library"]));
        }
        assert!(check(Work::Repair, &[], &[]) && !check(Work::Repair, &["A"], &[]));
    }

    #[test]
    fn what_restores_or_runs_a_command_reaches_contents() {
        let reaches = |work, option: Option<&str>| {
            let options = option.into_iter().map(str::to_owned).collect();
            Action { work, objects: Vec::new(), options }.reaches_contents()
        };
        assert!(reaches(Work::Restore, None) && reaches(Work::Command, None));
        assert!(reaches(Work::Incremental, Some("--pre-command=id")));
        assert!(reaches(Work::Image, Some("--freeze=sync")));
        for work in [Work::Incremental, Work::Archive, Work::Verify, Work::Drill, Work::Scrub] {
            assert!(!reaches(work, Some("--exclude=*.o")), "{}", work.name());
        }
    }

    #[test]
    fn names_are_those_of_the_json() {
        for work in Work::ALL {
            assert_eq!(Work::of_name(work.name()), Some(work));
            let json = serde_json::to_string(&work).expect("is text");
            assert_eq!(json, format!("{:?}", work.name()));
        }
    }
}
