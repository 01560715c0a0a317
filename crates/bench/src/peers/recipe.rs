//! The commands of the other programs, with their arguments and their environment.
//!
//! In an argument, `{source}`, `{repo}`, `{cache}`, `{restored}` and `{number}` stand for the tree,
//! the repository, a folder for caches and keys, the folder to restore to, and the number of the
//! backup. A shell script gets these values in its environment, where no path needs quotes.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One program and its commands.
#[derive(Debug)]
pub(crate) struct Recipe {
    pub(crate) name: &'static str,
    /// True for a program that keeps no history. It is shown, but is never "the fastest peer".
    pub(crate) is_baseline: bool,
    /// Names of the program, the preferred name first.
    pub(crate) programs: &'static [&'static str],
    /// Other programs that the program needs.
    pub(crate) companions: &'static [&'static str],
    pub(crate) install: &'static str,
    pub(crate) version: &'static str,
    /// Prefix that the version must have. A program with another version is not used.
    pub(crate) version_prefix: &'static str,
    environment: &'static [(&'static str, &'static str)],
    init: &'static [&'static [&'static str]],
    backup: &'static [&'static str],
    backup_in: &'static str,
    restore: &'static [&'static str],
    restore_in: &'static str,
    /// Exit codes, besides 0, of a command that is done with remarks.
    pub(crate) remarks: &'static [i32],
}

/// Name of the shell. Words that begin with this name are a command for the shell.
const SHELL: &str = "bash";

const BORG_ENVIRONMENT: &[(&str, &str)] = &[
    ("BORG_PASSPHRASE", "bench"),
    ("BORG_BASE_DIR", "{cache}"),
    ("BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK", "yes"),
];

const BORG: Recipe = Recipe {
    name: "borg",
    is_baseline: false,
    programs: &["borg14", "borg"],
    companions: &[],
    install: "pip install 'borgbackup==1.4.*'",
    version: "--version",
    version_prefix: "1.",
    environment: BORG_ENVIRONMENT,
    init: &[&["init", "-e", "repokey-blake2", "{repo}"]],
    backup: &["create", "-C", "lz4", "{repo}::a{number}", "."],
    backup_in: "{source}",
    restore: &["extract", "{repo}::a{number}"],
    restore_in: "{restored}",
    remarks: &[1],
};

pub(crate) const RECIPES: &[Recipe] = &[
    Recipe {
        name: "restic",
        is_baseline: false,
        programs: &["restic"],
        companions: &[],
        install: "apt-get install restic",
        version: "version",
        version_prefix: "",
        environment: &[
            ("RESTIC_PASSWORD", "bench"),
            ("RESTIC_REPOSITORY", "{repo}"),
            ("RESTIC_CACHE_DIR", "{cache}"),
        ],
        init: &[&["-q", "init"]],
        backup: &["backup", "."],
        backup_in: "{source}",
        restore: &["restore", "latest", "--target", "{restored}"],
        restore_in: "/",
        remarks: &[3],
    },
    Recipe {
        name: "rustic",
        is_baseline: false,
        programs: &["rustic"],
        companions: &[],
        install: "cargo install --locked rustic-rs",
        version: "--version",
        version_prefix: "",
        environment: &[
            ("RUSTIC_REPOSITORY", "{repo}"),
            ("RUSTIC_PASSWORD", "bench"),
            ("RUSTIC_CACHE_DIR", "{cache}"),
            ("RUSTIC_NO_PROGRESS", "true"),
        ],
        init: &[&["init"]],
        backup: &["backup", "."],
        backup_in: "{source}",
        restore: &["restore", "latest", "{restored}"],
        restore_in: "/",
        remarks: &[],
    },
    BORG,
    Recipe {
        name: "borg-zstd",
        backup: &["create", "-C", "zstd,3", "{repo}::a{number}", "."],
        ..BORG
    },
    Recipe {
        name: "bupstash",
        is_baseline: false,
        programs: &["bupstash"],
        companions: &[],
        install: "cargo install --locked bupstash",
        version: "version",
        version_prefix: "",
        environment: &[("BUPSTASH_REPOSITORY", "{repo}"), ("BUPSTASH_KEY", "{cache}/key")],
        init: &[&["init"], &["new-key", "-o", "{cache}/key"]],
        backup: &[
            "put",
            "--xattrs",
            "--no-progress",
            "--send-log",
            "{cache}/send-log",
            "name=a{number}",
            "{source}",
        ],
        backup_in: "/",
        restore: &[
            "restore",
            "--ownership",
            "--xattrs",
            "--no-progress",
            "--query-cache",
            "{cache}/query-cache",
            "--into",
            "{restored}",
            "name=a{number}",
        ],
        restore_in: "/",
        remarks: &[],
    },
    Recipe {
        name: "rsync",
        is_baseline: true,
        programs: &["rsync"],
        companions: &[],
        install: "apt-get install rsync",
        version: "--version",
        version_prefix: "",
        environment: &[],
        init: &[],
        backup: &["-aHAX", "--delete", "{source}/", "{repo}/"],
        backup_in: "/",
        restore: &["-aHAX", "{repo}/", "{restored}/"],
        restore_in: "/",
        remarks: &[],
    },
    Recipe {
        name: "tar-zstd",
        is_baseline: true,
        programs: &["tar"],
        companions: &["zstd", SHELL],
        install: "apt-get install tar zstd",
        version: "--version",
        version_prefix: "",
        environment: &[
            ("SOURCE", "{source}"),
            ("REPO", "{repo}"),
            ("CACHE", "{cache}"),
            ("RESTORED", "{restored}"),
            ("NUMBER", "{number}"),
        ],
        init: &[],
        backup: &[
            SHELL,
            "-c",
            "set -o pipefail; mkdir -p \"$REPO\"; \
             tar --format=posix -C \"$SOURCE\" --listed-incremental=\"$CACHE/snar\" -cf - . | \
             zstd -q -3 -T0 -o \"$REPO/$NUMBER.tar.zst\"",
        ],
        backup_in: "/",
        restore: &[
            SHELL,
            "-c",
            "set -o pipefail; for i in $(seq 1 $NUMBER); do \
             zstd -qdc \"$REPO/$i.tar.zst\" | \
             tar -C \"$RESTORED\" --listed-incremental=/dev/null -xpf - || exit; done",
        ],
        restore_in: "/",
        remarks: &[],
    },
];

/// The folders of one program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ground {
    pub(crate) source: PathBuf,
    pub(crate) repo: PathBuf,
    pub(crate) cache: PathBuf,
    pub(crate) restored: PathBuf,
}

impl Ground {
    pub(crate) fn in_folder(source: &Path, folder: &Path) -> Self {
        Self {
            source: source.to_owned(),
            repo: folder.join("repo"),
            cache: folder.join("cache"),
            restored: folder.join("restored"),
        }
    }

    /// Replaces the names in braces in `word` by their values.
    fn expand(&self, word: &str, number: usize) -> OsString {
        let number = number.to_string();
        let names: [(&str, &[u8]); 5] = [
            ("{source}", self.source.as_os_str().as_encoded_bytes()),
            ("{repo}", self.repo.as_os_str().as_encoded_bytes()),
            ("{cache}", self.cache.as_os_str().as_encoded_bytes()),
            ("{restored}", self.restored.as_os_str().as_encoded_bytes()),
            ("{number}", number.as_bytes()),
        ];
        let (mut bytes, mut rest) = (Vec::new(), word);
        while let Some(first) = rest.chars().next() {
            let named = names.iter().find(|(name, _)| rest.starts_with(name));
            let taken = named.map_or(first.len_utf8(), |(name, _)| name.len());
            bytes.extend_from_slice(named.map_or(&rest.as_bytes()[..taken], |(_, value)| value));
            rest = &rest[taken..];
        }
        OsString::from_vec(bytes)
    }
}

/// A command line of a recipe, before its words are expanded.
struct Words<'a> {
    words: &'a [&'a str],
    /// Folder in which the command runs.
    folder: &'a str,
    /// Number of the backup.
    number: usize,
}

impl Recipe {
    /// Returns the commands that make an empty repository.
    pub(crate) fn inits(&self, program: &Path, ground: &Ground) -> Vec<Command> {
        self.init
            .iter()
            .map(|words| self.command(program, ground, Words { words, folder: "/", number: 0 }))
            .collect()
    }

    /// Returns the command of backup `number`, which counts from 1.
    pub(crate) fn backup(&self, program: &Path, ground: &Ground, number: usize) -> Command {
        self.command(program, ground, Words { words: self.backup, folder: self.backup_in, number })
    }

    /// Returns the command that restores backup `number`, which must be the newest.
    pub(crate) fn restore(&self, program: &Path, ground: &Ground, number: usize) -> Command {
        self.command(
            program,
            ground,
            Words { words: self.restore, folder: self.restore_in, number },
        )
    }

    fn command(
        &self,
        program: &Path,
        ground: &Ground,
        Words { words, folder, number }: Words<'_>,
    ) -> Command {
        let expand = |word: &str| ground.expand(word, number);
        let mut command = match words.split_first() {
            Some((&SHELL, words)) => {
                let mut command = Command::new(SHELL);
                command.args(words);
                command
            }
            _ => {
                let mut command = Command::new(program);
                command.args(words.iter().map(|word| expand(word)));
                command
            }
        };
        command.env("LC_ALL", "C").current_dir(expand(folder));
        for (name, value) in self.environment {
            command.env(name, expand(value));
        }
        command
    }
}

/// Returns the version in `text`: the first word that begins with a digit and has a dot.
pub(crate) fn version_in(text: &str) -> Option<String> {
    let begins = |word: &&str| word.starts_with(|first: char| first.is_ascii_digit());
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '.')
        .filter(begins)
        .find(|word| word.contains('.'))
        .map(|word| word.trim_end_matches('.').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ground() -> Ground {
        Ground::in_folder(Path::new("/a tree"), Path::new("/folder"))
    }

    #[track_caller]
    fn check(word: &str, expected: &str) {
        assert_eq!(ground().expand(word, 2), expected);
    }

    #[test]
    fn names_in_braces_stand_for_places() {
        check("backup", "backup");
        check("{repo}::a{number}", "/folder/repo::a2");
        check("{source}/", "/a tree/");
        check("{other}{cache}", "{other}/folder/cache");
        check("", "");
    }

    #[test]
    fn a_shell_gets_its_script_unchanged_and_places_in_the_environment() {
        let tar = RECIPES.iter().find(|recipe| recipe.name == "tar-zstd").unwrap();
        let command = tar.backup(Path::new("/usr/bin/tar"), &ground(), 1);
        assert_eq!(command.get_program(), "bash");
        let source = command.get_envs().find(|(name, _)| *name == "SOURCE").unwrap();
        assert_eq!(source.1, Some("/a tree".as_ref()));
    }

    #[test]
    fn borg_is_run_in_the_tree() {
        let command = BORG.backup(Path::new("/opt/borg"), &ground(), 1);
        let words: Vec<_> = command.get_args().collect();
        assert_eq!(words, ["create", "-C", "lz4", "/folder/repo::a1", "."]);
        assert_eq!(command.get_current_dir(), Some(Path::new("/a tree")));
    }

    #[test]
    fn versions_are_found_in_what_programs_say() {
        let version = |text| version_in(text).unwrap_or_default();
        assert_eq!(version("restic 0.14.0 compiled with go1.19.8 on linux/amd64"), "0.14.0");
        assert_eq!(version("borg14 1.4.5"), "1.4.5");
        assert_eq!(version("bupstash-0.12.0"), "0.12.0");
        assert_eq!(version("rsync  version 3.5.0  protocol version 32"), "3.5.0");
        assert_eq!(version("tar (GNU tar) 1.34\nCopyright 2021."), "1.34");
        assert_eq!(version("none"), "");
    }

    #[test]
    fn names_are_told_apart() {
        for recipe in RECIPES {
            let same = RECIPES.iter().filter(|other| other.name == recipe.name);
            assert_eq!(same.count(), 1, "{}", recipe.name);
        }
    }
}
