//! Backup.
//!
//! ```text
//! walk (threads) --same digest--> counted, done
//!   | new            | other digest
//!   |                v
//!   |          pages (one stream of questions)
//!   v                v
//! examine (threads): compare, read, cut, digest, deduplicate, compress --or--> compress (threads)
//!   | page changes, records                                                       | records
//!   v                                                                             v
//! outbox (one thread): a change goes out behind the quanta that it names; transactions; answers
//! ```
//!
//! Queues are bounded and all arrows point down, so nothing can wait in a circle. Expirations are
//! held back to the end, when it is known how many there are: most of a filespace vanishing at once
//! is more likely an unmounted disk than a wish.

mod compare;
mod crew;
mod data;
mod digest;
mod examine;
mod inventory;
mod outbox;
mod pages;
mod presented;
mod press;
mod read;
mod session;
mod settled;
mod snapshot;
mod space;
mod streamed;
mod stub;
mod tally;
mod tuner;
mod walk;

use std::collections::BTreeMap;
use std::sync::Arc;

use chunk::SealKey;
use format::stub::{HIDDEN_FILES, HIDDEN_FOLDER};

use model::{DirPath, Kind, archive_filespace, mount_point};
pub use space::{BATCH_FILES_MAX, Copied, Migrant};
pub(crate) use space::{backed_up, content, migrate, path_of, release};

use policy::Operation;
use sys::{Dir, Found};

use crate::home::Home;
use crate::link::Link;
use crate::progress::{Phase, Progress};
use crate::report::{BackupReport, Failure};
use crate::rules::Rules;
use crate::{BackupOptions, ClientError, ErrorKind, STREAM_FILESPACE, Stillness, Stream};
pub(crate) use settled::NO_CHANGE_TIME;
use tally::Tally;

/// What is to be backed up.
#[derive(Clone, Debug)]
pub enum Targets {
    /// Everything at and below these paths, progressively: what has not changed is not sent, what
    /// is gone expires.
    Paths(Vec<Vec<u8>>),
    /// Everything at and below these paths is sent whether it has changed or not; nothing expires.
    Selective(Vec<Vec<u8>>),
}

impl Targets {
    fn paths(&self) -> &[Vec<u8>] {
        match self {
            Self::Paths(paths) | Self::Selective(paths) => paths,
        }
    }
}

/// Backs up filespace by filespace.
pub(crate) fn run(
    link: &Link,
    home: &Home,
    options: &BackupOptions,
    progress: &Arc<Progress>,
) -> Result<BackupReport, ClientError> {
    let started = sys::clock::monotonic();
    sys::process::raise_open_files();
    let tally = Tally::new(Arc::clone(progress));
    let scopes = scopes(options.targets.paths(), &tally)?;
    let operation = if options.archive.is_some() { Operation::Archive } else { Operation::Backup };
    let mut rules =
        Rules::load(home, link, options.inclexcl.as_deref(), &options.excludes, operation)?;
    if let Some(class) = options.archive.as_ref().and_then(|archive| archive.class.as_ref()) {
        rules.bind_all_to(class)?;
    }
    rules.warnings.iter().for_each(|warning| tally.warn(warning.clone()));
    let seal_key = seal_key(link, &rules)?;
    progress.enter(Phase::Running);
    let archive = match &options.archive {
        Some(archive) if !options.dry_run => Some(link.open_archive(&archive.description)?),
        _ => None,
    };
    let rules = &rules;
    let site = session::Site { link, home, options, rules, seal_key, tally: &tally };
    let choice = snapshot_choice(home, options)?;
    for (mount_point, targets) in &scopes {
        match rules.excludes_filesystem(mount_point) {
            Some(rule_index) => {
                let (source, rule) = rules.shown(rule_index);
                let mount_point = model::escaped(mount_point);
                tally.warn(format!("{mount_point} is left out by '{rule}' ({source})"));
            }
            None => {
                let filespace = match &archive {
                    Some(archive) => archive_filespace(archive.number, mount_point),
                    None => mount_point.clone(),
                };
                let held = snapshot::hold(mount_point, choice, &tally)?;
                let (root, reflinks) = (held.root(mount_point), held.reflinks);
                if is_hidden_at(root) {
                    let error = "its files are hidden; start 'holdfast hsm run'".to_owned();
                    tally.fail(Failure { path: mount_point.clone(), error });
                    held.end(mount_point, &tally);
                    continue;
                }
                let scope = session::Scope { filespace: &filespace, root, reflinks, targets };
                let done = session::back_up(site, scope);
                held.end(mount_point, &tally);
                done?;
            }
        }
    }
    if let Some(archive) = &archive {
        link.complete_archive(archive.number)?;
    }
    progress.enter(Phase::Finishing);
    let mut report = tally.into_report();
    report.node = link.hello().node.clone();
    report.filespaces = scopes.into_keys().collect();
    report.dry_run = options.dry_run;
    report.archive = archive.map(|archive| archive.number);
    report.elapsed = started.elapsed();
    Ok(report)
}

/// Whether `root` is the root directory of a file system whose files space management hides: what
/// is seen there is not what is backed up else. What cannot be looked at is not.
fn is_hidden_at(root: &[u8]) -> bool {
    Dir::open(root).is_ok_and(|root| is_hidden(&root).unwrap_or(false))
}

/// Whether the files that `root` had are hidden in it, and not seen unless space management runs.
pub fn is_hidden(root: &Dir) -> std::io::Result<bool> {
    if !root.has(HIDDEN_FOLDER)? {
        return Ok(false);
    }
    let Some(Found { stat, .. }) = root.stat(HIDDEN_FOLDER)? else { return Ok(false) };
    // Anybody may make a folder of that name.
    let is_ours = stat.kind == Kind::Directory && stat.uid == 0 && stat.mode & 0o7777 == 0o700;
    Ok(is_ours && root.open_dir(HIDDEN_FOLDER)?.has(HIDDEN_FILES)?)
}

/// The key that encrypts what the rules say, if they say that anything is encrypted.
fn seal_key<'a>(link: &'a Link, rules: &Rules) -> Result<Option<&'a SealKey>, ClientError> {
    let Some(source) = rules.encrypts() else { return Ok(None) };
    let missing = || {
        let message = format!(
            "{source} has files encrypted, but this node has no key; 'holdfast key create' makes \
             one"
        );
        ClientError::new(ErrorKind::Usage, message)
    };
    link.seal_keys.last().ok_or_else(missing).map(Some)
}

/// How the filespaces are to be read.
fn snapshot_choice(home: &Home, options: &BackupOptions) -> Result<Stillness, ClientError> {
    let choice = options.snapshot.unwrap_or(home.config.snapshot);
    if options.dry_run || options.archive.is_some() || choice == Stillness::Off {
        return Ok(Stillness::Off);
    }
    if options.cross_filesystems {
        // What is mounted below is not in a snapshot: it would be taken for gone.
        let message = "a snapshot is of one file system: leave out --cross-filesystems, and name \
                       the others, or give --snapshot off";
        return Err(ClientError::new(ErrorKind::Usage, message));
    }
    Ok(choice)
}

/// Backs up a stream as a file.
pub(crate) fn run_stream(
    link: &Link,
    home: &Home,
    options: &BackupOptions,
    (name, stream): (&[u8], &mut dyn Stream),
    progress: &Arc<Progress>,
) -> Result<BackupReport, ClientError> {
    let started = sys::clock::monotonic();
    let tally = Tally::new(Arc::clone(progress));
    let target = [b"/", name].concat();
    let is_name = !name.contains(&b'/') && !matches!(name, b"" | b"." | b"..");
    let place = is_name.then(|| split(&target)).flatten().ok_or_else(|| {
        let message = format!("'{}' is not the name of a file", model::escaped(name));
        ClientError::new(ErrorKind::Usage, message)
    })?;
    let excludes = &options.excludes;
    let list = options.inclexcl.as_deref();
    let rules = Rules::load(home, link, list, excludes, Operation::Backup)?;
    rules.warnings.iter().for_each(|warning| tally.warn(warning.clone()));
    let seal_key = seal_key(link, &rules)?;
    progress.enter(Phase::Running);
    let rules = &rules;
    let site = session::Site { link, home, options, rules, seal_key, tally: &tally };
    let targets = [target];
    let scope = session::Scope {
        filespace: STREAM_FILESPACE,
        root: b"/",
        reflinks: false,
        targets: &targets,
    };
    streamed::back_up_stream(site, scope, place, stream)?;
    progress.enter(Phase::Finishing);
    let mut report = tally.into_report();
    report.node = link.hello().node.clone();
    report.filespaces = vec![STREAM_FILESPACE.to_vec()];
    report.elapsed = started.elapsed();
    Ok(report)
}

/// Where a target lies in its filespace: the path of the object from the filespace's root.
type Target = Vec<u8>;

/// Sorts paths by the filespace that holds them. A path that is not there is an error of the whole
/// command when no other is left.
fn scopes(paths: &[Vec<u8>], tally: &Tally) -> Result<BTreeMap<Vec<u8>, Vec<Target>>, ClientError> {
    let mut scopes: BTreeMap<Vec<u8>, Vec<Target>> = BTreeMap::new();
    for path in paths {
        match sys::mount::filespace_root(path).and_then(real) {
            Ok((filespace, target)) => scopes.entry(filespace).or_default().push(target),
            Err(error) => {
                tally.fail(Failure { path: path.clone(), error: error.to_string() });
            }
        }
    }
    if scopes.is_empty() {
        let first = paths.first().map(|path| model::escaped(path)).unwrap_or_default();
        let failure = tally.first_failure().map(|failure| failure.error).unwrap_or_default();
        let message = format!("cannot back up {first}: {failure}");
        return Err(ClientError::new(ErrorKind::NotFound, message));
    }
    for targets in scopes.values_mut() {
        targets.sort();
        // A target below another is looked at with it.
        targets.dedup_by(|lower, upper| is_below(lower, upper));
    }
    Ok(scopes)
}

/// Refuses what the kernel makes up.
fn real((filespace, target): (Vec<u8>, Target)) -> std::io::Result<(Vec<u8>, Target)> {
    if Dir::open(&filespace)?.is_pseudo()? {
        return Err(std::io::Error::other("a pseudo file system is not backed up"));
    }
    Ok((filespace, target))
}

fn is_below(lower: &[u8], upper: &[u8]) -> bool {
    upper == b"/"
        || lower
            .strip_prefix(upper)
            .is_some_and(|rest| rest.is_empty() || rest.first() == Some(&b'/'))
}

/// The path on the node of what `path` names in `filespace`.
pub(crate) fn absolute(filespace: &[u8], path: &[u8]) -> Vec<u8> {
    match (mount_point(filespace), path) {
        (b"/", path) => path.to_vec(),
        (filespace, b"/") => filespace.to_vec(),
        (filespace, path) => [filespace, path].concat(),
    }
}

/// Splits a target into the directory that holds it and its name; the root is in no directory.
pub(crate) fn split(target: &[u8]) -> Option<(DirPath, model::Name)> {
    let with_slash = if target == b"/" { target.to_vec() } else { [target, b"/"].concat() };
    DirPath::new(&with_slash).ok()?.parent()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_below_others_are_looked_at_once() {
        for (lower, upper, below) in [
            (&b"/a/b"[..], &b"/a"[..], true),
            (b"/a", b"/a", true),
            (b"/ab", b"/a", false),
            (b"/anything", b"/", true),
        ] {
            assert_eq!(is_below(lower, upper), below);
        }
    }

    #[test]
    fn paths_of_a_filespace_are_paths_of_the_node() {
        assert_eq!(absolute(b"/", b"/usr"), b"/usr");
        assert_eq!(absolute(b"/home", b"/"), b"/home");
        assert_eq!(absolute(b"/home", b"/me"), b"/home/me");
    }
}
