//! Backup of file systems and of streams.
//!
//! ```text
//! journal (if it proves that most directories have not changed, only the others are walked)
//!   v
//! walk (threads) --same digest--> counted, done
//!   | new            | other digest
//!   |                v
//!   |          pages (one stream of requests)
//!   v                v
//! examine (threads): compare, read, cut, digest, deduplicate, compress --or--> press (threads)
//!   | page changes, quanta                                                        | quanta
//!   v                                                                             v
//! outbox (one thread): sends a change after the quanta that it names; transactions; answers
//! ```
//!
//! Queues are bounded and all arrows point down, so threads never wait for each other in a circle.

mod aim;
mod answers;
mod assembler;
mod chunks;
mod clock_step;
mod compare;
mod comparison;
mod context;
mod crew;
mod digest;
mod draft;
mod ending;
mod examine;
mod expiry;
mod figures;
#[cfg(test)]
mod fixtures;
mod gpu;
mod hidden;
mod image;
mod image_parts;
mod image_read;
mod image_source;
mod inventory;
mod journal;
mod matches;
mod names;
mod open_target;
mod outbox;
mod outbox_message;
mod own_pools;
mod pipeline;
mod presented;
mod press;
mod read;
mod scope;
mod seal_key;
mod segment;
mod sendable;
mod session;
mod snapshot;
mod space;
mod stream;
mod stub;
mod tally;
mod threads;
mod transit;
mod trials;
mod tuner;
mod walk;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use model::archive_filespace;
use policy::Operation;

pub(crate) use self::clock_step::NO_CHANGE_TIME;
pub use self::ending::ActiveObjects;
pub(crate) use self::ending::{find as active_objects, run as end_versions};
pub use self::hidden::is_hidden;
pub(crate) use self::image::back_up as back_up_image;
pub use self::image::{ImageOptions, ImageReport};
pub use self::image_source::ImageSource;
use self::scope::Scope;
pub(crate) use self::scope::locate;
use self::seal_key::seal_key;
use self::session::Run;
pub use self::space::{BATCH_FILES_MAX, CopyFailure, Migrant, StoredCopy};
pub(crate) use self::space::{backed_up, content, migrate, path_of, release};
use self::stream::StreamPlace;
#[cfg(test)]
pub(crate) use self::stream::stat_of_stream;
use self::tally::Tally;
use crate::error::{ClientError, ErrorKind};
use crate::link::Link;
use crate::node::home::Home;
use crate::options::{BackupOptions, STREAM_FILESPACE, Stream};
use crate::path::split;
use crate::progress::{Phase, Progress};
use crate::report::{BackupReport, Failure};
use crate::rules::Rules;
use crate::tuning::Stillness;

/// Backs up the targets, one filespace after the other. An attempt that loses its connection leaves
/// its report to the next one, which goes on from what is committed.
pub(crate) fn run(
    link: &Link,
    home: &Home,
    options: &BackupOptions,
    progress: &Arc<Progress>,
) -> Result<BackupReport, ClientError> {
    progress.attempts.begin(link.hello().now);
    let tally = Tally::new(Arc::clone(progress));
    let done = attempt(link, home, options, &tally);
    // Without any filespace, nothing has noted it.
    tally.note_authentication(link.authentication);
    let (filespaces, archive) = done.inspect_err(|_| keep(&tally))?;
    let mut report = concluded(link, tally, filespaces);
    report.dry_run = options.dry_run;
    report.archive = archive;
    let Some(number) = archive else { return Ok(report) };
    progress.attempts.fill_archive(&report);
    complete(link, BackupReport { archive: Some(number), ..report })
}

/// Completes the archive of `report`, which has all its objects.
pub(crate) fn complete(link: &Link, report: BackupReport) -> Result<BackupReport, ClientError> {
    let archive_objects = report.archive.map(|number| link.complete_archive(number)).transpose()?;
    Ok(BackupReport { archive_objects, ..report })
}

/// Keeps the report of an attempt that has failed, for the attempt that may follow.
fn keep(tally: &Tally) {
    tally.progress.attempts.keep_backup(tally.report_of_lost());
}

/// Returns the report of all attempts of a command that has worked in these `filespaces`.
fn concluded(link: &Link, tally: Tally, filespaces: Vec<Vec<u8>>) -> BackupReport {
    let progress = Arc::clone(&tally.progress);
    progress.enter(Phase::Finishing);
    let report = tally.into_report();
    let mut report = progress.attempts.join_backup(report, progress.committed.load(Relaxed));
    report.elapsed = progress.attempts.elapsed();
    report.interruptions = progress.interruptions();
    report.node = link.hello().node.clone();
    report.filespaces = filespaces;
    report
}

/// Backs up the targets, as far as the connection lasts. Returns the filespaces, and the number of
/// the archive.
fn attempt(
    link: &Link,
    home: &Home,
    options: &BackupOptions,
    tally: &Tally,
) -> Result<(Vec<Vec<u8>>, Option<u64>), ClientError> {
    sys::process::raise_open_files();
    let progress = &tally.progress;
    let paths = options.targets.paths();
    let operation = if options.archive.is_some() { Operation::Archive } else { Operation::Backup };
    let mut rules =
        Rules::load(home, link.hello(), options.inclexcl.as_deref(), &options.excludes, operation)?;
    let scopes = match options.expands_wildcards {
        true => {
            let paths = matches::expanded(paths, tally);
            if progress.is_stopped() {
                return Err(ClientError::interrupted());
            }
            scopes(&paths, options, &rules, tally)?
        }
        false => scopes(paths, options, &rules, tally)?,
    };
    if let Some(class) = options.archive.as_ref().and_then(|archive| archive.class.as_ref()) {
        rules.bind_all_to(class)?;
    }
    rules.warnings.iter().for_each(|warning| tally.warn(warning.clone()));
    rules
        .virtual_filespaces
        .warnings()
        .into_iter()
        .for_each(|warning| tally.warn(warning));
    let of_own_pools = own_pools::warnings(home, options, &rules, &scopes);
    of_own_pools.into_iter().for_each(|warning| tally.warn(warning));
    let seal_key = seal_key(link, &rules)?;
    progress.enter(Phase::Running);
    let archive = open_archive(link, options, progress)?;
    let rules = &rules;
    let run = Run { link, home, options, rules, seal_key, tally };
    let choice = snapshot_choice(home, options)?;
    // Inner filespaces come first: what has become a part of one is stored there before the
    // filespace around it expires it.
    for (mount_point, targets) in scopes.iter().rev() {
        match rules.excludes_filesystem(mount_point) {
            Some(rule_index) => {
                tally.exclude(rules.exclusion(mount_point, rule_index), options.lists_excluded);
            }
            None => {
                let filespace = match archive {
                    Some(number) => archive_filespace(number, mount_point),
                    None => mount_point.clone(),
                };
                // A change between this question and the snapshot is in the snapshot, and is named
                // again for the next backup.
                let prospect = journal::prospect(run, mount_point, targets);
                let held = snapshot::hold(mount_point, choice, tally)?;
                let (root, reflinks) = (held.root(mount_point), held.reflinks);
                if hidden::is_hidden_at(root) {
                    let error = "the files are hidden; start 'holdfast hsm run'".to_owned();
                    tally.fail(Failure { path: mount_point.clone(), error });
                    held.end(mount_point, tally);
                    continue;
                }
                let scope = Scope { filespace: &filespace, root, reflinks, targets };
                let outcome = pipeline::back_up(run, &scope, prospect);
                held.end(mount_point, tally);
                outcome?;
            }
        }
    }
    Ok((scopes.into_keys().collect(), archive))
}

/// Groups the paths of a backup by their filespaces.
fn scopes(
    paths: &[Vec<u8>],
    options: &BackupOptions,
    rules: &Rules,
    tally: &Tally,
) -> Result<BTreeMap<Vec<u8>, Vec<Vec<u8>>>, ClientError> {
    let (without_content, managed) = (options.without_content, &options.managed);
    scope::by_filespace(paths, &rules.virtual_filespaces, without_content, managed, tally)
}

/// Returns the number of the archive to fill; `None` for a backup. A later attempt fills the
/// archive of the first one.
fn open_archive(
    link: &Link,
    options: &BackupOptions,
    progress: &Progress,
) -> Result<Option<u64>, ClientError> {
    let Some(archive) = options.archive.as_ref().filter(|_| !options.dry_run) else {
        return Ok(None);
    };
    if let Some(number) = progress.attempts.archive() {
        return Ok(Some(number));
    }
    let number = link.open_archive(&archive.description)?.number;
    progress.attempts.set_archive(number);
    Ok(Some(number))
}

/// Returns the way in which filespaces are held still while a backup reads them.
fn snapshot_choice(home: &Home, options: &BackupOptions) -> Result<Stillness, ClientError> {
    let choice = options.snapshot.unwrap_or(home.config.snapshot);
    if options.dry_run || options.archive.is_some() || choice == Stillness::Off {
        return Ok(Stillness::Off);
    }
    if options.cross_filesystems {
        // A snapshot does not contain the file systems that are mounted below, so their objects
        // would expire.
        let message = "a snapshot covers one file system: leave out --cross-filesystems and name \
                       the other file systems, or give --snapshot off";
        return Err(ClientError::new(ErrorKind::Usage, message));
    }
    Ok(choice)
}

/// Backs up a stream as the file `name`.
pub(crate) fn run_stream(
    link: &Link,
    home: &Home,
    options: &BackupOptions,
    name: &[u8],
    stream: &mut dyn Stream,
    progress: &Arc<Progress>,
) -> Result<BackupReport, ClientError> {
    progress.attempts.begin(link.hello().now);
    let tally = Tally::new(Arc::clone(progress));
    let target = [b"/", name].concat();
    let is_name = !name.contains(&b'/') && !matches!(name, b"" | b"." | b"..");
    let (directory, file_name) = is_name.then(|| split(&target)).flatten().ok_or_else(|| {
        let message = format!("'{}' is not the name of a file", model::escaped(name));
        ClientError::new(ErrorKind::Usage, message)
    })?;
    let excludes = &options.excludes;
    let list = options.inclexcl.as_deref();
    let rules = Rules::load(home, link.hello(), list, excludes, Operation::Backup)?;
    rules.warnings.iter().for_each(|warning| tally.warn(warning.clone()));
    let seal_key = seal_key(link, &rules)?;
    progress.enter(Phase::Running);
    let rules = &rules;
    let run = Run { link, home, options, rules, seal_key, tally: &tally };
    let targets = [target];
    let filespace = STREAM_FILESPACE;
    let scope = Scope { filespace, root: b"/", reflinks: false, targets: &targets };
    let place = StreamPlace { directory, name: file_name };
    tally.note_authentication(link.authentication);
    let sent = stream::back_up_stream(run, &scope, &place, stream);
    sent.inspect_err(|_| keep(&tally))?;
    Ok(concluded(link, tally, vec![STREAM_FILESPACE.to_vec()]))
}
