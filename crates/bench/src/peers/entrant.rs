//! Entrants: Holdfast, the installed peers, and the creation of files as the lower limit of a
//! restore.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::recipe::{RECIPES, Recipe, version_in};
use crate::trouble::{Context as _, Trouble};

pub(crate) const HOLDFAST: &str = "holdfast";

/// Numbers of threads with which the creation of files is measured.
const CREATION_THREADS: [usize; 2] = [1, 2];

#[derive(Clone, Debug)]
pub(crate) struct Entrant {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) role: Role,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    Holdfast,
    Peer,
    /// A program that is shown but is no peer, because it keeps no history or only makes files.
    Baseline,
}

#[derive(Clone, Debug)]
pub(crate) enum Role {
    Holdfast,
    Peer {
        recipe: &'static Recipe,
        program: PathBuf,
    },
    /// Makes the files of the tree from memory, with this number of threads.
    Creation {
        threads: usize,
    },
}

/// A peer that is not installed, and the way to install it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MissingPeer {
    pub(crate) name: &'static str,
    pub(crate) install: &'static str,
}

impl Entrant {
    pub(crate) fn standing(&self) -> Standing {
        match self.role {
            Role::Holdfast => Standing::Holdfast,
            Role::Peer { recipe, .. } if !recipe.is_baseline => Standing::Peer,
            Role::Peer { .. } | Role::Creation { .. } => Standing::Baseline,
        }
    }
}

/// Returns the entrants, and the peers that are not installed. `only` names the peers that take
/// part; if it is empty, all take part.
pub(crate) fn gather(
    only: &[String],
    holdfast: &Path,
) -> Result<(Vec<Entrant>, Vec<MissingPeer>), Trouble> {
    check_names(only)?;
    let wanted = |name: &str| only.is_empty() || only.iter().any(|one| one == name);
    let folders = folders();
    let mut entrants = vec![Entrant {
        name: HOLDFAST.to_owned(),
        version: version_of(holdfast, "--version")?,
        role: Role::Holdfast,
    }];
    let mut missing = Vec::new();
    for recipe in RECIPES.iter().filter(|recipe| wanted(recipe.name)) {
        match find(recipe, &folders)? {
            Some((program, version)) => {
                let role = Role::Peer { recipe, program };
                entrants.push(Entrant { name: recipe.name.to_owned(), version, role });
            }
            None => missing.push(MissingPeer { name: recipe.name, install: recipe.install }),
        }
    }
    for threads in CREATION_THREADS {
        let name = format!("creation-{threads}");
        let role = Role::Creation { threads };
        entrants.push(Entrant { name, version: String::new(), role });
    }
    Ok((entrants, missing))
}

/// Returns the order of `count` entrants in a round. Each round begins with another entrant.
pub(crate) fn order(round: usize, count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |place| (place + round) % count)
}

fn check_names(only: &[String]) -> Result<(), Trouble> {
    let known: Vec<&str> = RECIPES.iter().map(|recipe| recipe.name).collect();
    let unknown = only.iter().find(|name| !known.contains(&name.as_str()) && *name != HOLDFAST);
    unknown.map_or(Ok(()), |name| {
        let known = known.join(", ");
        Err(Trouble::new(format!("--only: there is no peer {name}: choose from {known}")))
    })
}

/// Returns the folders in which peers are looked for.
fn folders() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let own = std::env::var_os("HOLDFAST_PEERS").map(PathBuf::from);
    let cache = || {
        let home: OsString = std::env::var_os("HOME")?;
        Some(PathBuf::from(home).join(".cache/holdfast-peers/bin"))
    };
    folders.extend(own.or_else(cache));
    folders
}

/// Returns the program of `recipe` and its version; `None` if it is not installed.
fn find(recipe: &Recipe, folders: &[PathBuf]) -> Result<Option<(PathBuf, String)>, Trouble> {
    let file =
        |name: &str| folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
    if recipe.companions.iter().any(|name| file(name).is_none()) {
        return Ok(None);
    }
    for program in recipe.programs.iter().filter_map(|name| file(name)) {
        let version = version_of(&program, recipe.version)?;
        if version.starts_with(recipe.version_prefix) {
            return Ok(Some((program, version)));
        }
    }
    Ok(None)
}

fn version_of(program: &Path, argument: &str) -> Result<String, Trouble> {
    let output = Command::new(program)
        .arg(argument)
        .stdin(Stdio::null())
        .output()
        .while_doing(|| format!("run {} {argument}", program.display()))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(version_in(&said).unwrap_or_else(|| "unknown".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_begins_with_another() {
        let order = |round| order(round, 3).collect::<Vec<_>>();
        assert_eq!(order(0), [0, 1, 2]);
        assert_eq!(order(1), [1, 2, 0]);
        assert_eq!(order(3), [0, 1, 2]);
    }

    #[test]
    fn a_peer_that_is_not_known_is_refused() {
        assert_eq!(check_names(&["restic".to_owned(), "holdfast".to_owned()]), Ok(()));
        let message = check_names(&["tape".to_owned()]).unwrap_err().to_string();
        assert!(message.contains("there is no peer tape: choose from restic"), "{message}");
    }

    #[test]
    fn what_is_not_installed_is_not_found() {
        let found = find(&RECIPES[0], &[PathBuf::from("/nonexistent")]);
        assert!(matches!(found, Ok(None)));
    }
}
