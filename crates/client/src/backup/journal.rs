//! Backup by journal: the decision whether a backup looks only where something has changed, and the
//! end of such a backup.
//!
//! ```text
//! Prospect: the watcher's anchor and changes, taken before any snapshot
//!    | prove (in the session): fingerprint, directories without digest, open files
//!    v
//! ProvenJournal: Walk (reason) | Compare (aim) | Look (aim)
//!    | end                                  | give_up
//!    v                                      v
//! Ending: settle after the session       the same anchor with the new fingerprint
//! ```
//!
//! The states and the proof are in `docs/design/journal.md`.

use std::time::Duration;

use journal::{
    AnchorKey, ChangedDirectory, Conversation, ConversationError, Fingerprint, LastAnchor,
    OpenFile, Place, Places,
};
use model::{DirPath, escaped};

use super::aim::{Aim, AimedDirectories};
use super::comparison::{Comparison, Differences};
use super::names::NotedDirectories;
use super::session::{Run, Session, digester};
use super::tally::{Inspection, Tally};
use crate::error::ClientError;
use crate::link::fingerprint::PagesState;
use crate::options::{BackupOptions, Targets};
use crate::path::absolute;
use crate::report::JournalUse;
use crate::tuning::JournalChoice;
use crate::virtual_filespaces::VirtualFilespaces;

/// Maximum number of changed directories that are looked at one by one. With more of them a walk is
/// not much slower.
const CHANGED_MAX: usize = 1 << 17;
/// Maximum number of open files that are looked for.
const OPEN_FILES_MAX: usize = 1 << 16;

/// Journal of a filespace, before its backup begins.
pub(super) struct Prospect {
    filespace: Vec<u8>,
    places: Places,
    conversation: Conversation,
    last: Result<LastAnchor, String>,
    full_walk_after: Duration,
}

/// Journal of a filespace whose session is open.
pub(super) struct ProvenJournal {
    filespace: Vec<u8>,
    places: Places,
    conversation: Conversation,
    way: Way,
    /// True if the server has the pages that the last backup has left.
    fits: bool,
    usage: JournalUse,
    /// Counts of the report before this filespace.
    before: Inspection,
}

/// Way of a backup through its filespace.
enum Way {
    /// Everything is walked.
    Walk,
    /// Everything is walked and compared with the journal.
    Compare,
    /// Only the directories of the aim are looked at.
    Look(Aim),
}

/// End of a complete backup, after its session has been closed.
pub(super) struct Ending {
    conversation: Conversation,
    filespace: Vec<u8>,
    fingerprint: [u8; 16],
    noted: NotedDirectories,
    is_walk: bool,
}

/// Asks the watcher about the filespace at `mount_point`. Returns `None` if the journal is not
/// wanted or cannot be used; the report then says why, unless nobody expects a journal.
pub(super) fn prospect(run: Run<'_>, mount_point: &[u8], targets: &[Vec<u8>]) -> Option<Prospect> {
    let choice = run.home.config.journal;
    if choice == JournalChoice::No || run.options.no_journal || run.options.archive.is_some() {
        return None;
    }
    let without = |reason: String| {
        run.tally.note_journal(JournalUse::without(mount_point, reason));
        None
    };
    match ask(run, mount_point, targets) {
        Ok(prospect) => Some(prospect),
        // A node without a watcher does not ask for a journal.
        Err(Refusal::NoWatcher) if choice == JournalChoice::Auto => None,
        Err(Refusal::Reason(_))
            if choice == JournalChoice::Auto && !journal::is_watched(&run.home.folder) =>
        {
            None
        }
        Err(Refusal::NoWatcher) => {
            let reason = ConversationError::NoWatcher.to_string();
            run.tally.warn(format!("the journal is not used: {reason}"));
            without(reason)
        }
        Err(Refusal::Reason(reason)) => without(reason),
    }
}

/// Reason why there is no journal for a backup.
enum Refusal {
    NoWatcher,
    Reason(String),
}

fn ask(run: Run<'_>, mount_point: &[u8], targets: &[Vec<u8>]) -> Result<Prospect, Refusal> {
    let reason = |text: String| Refusal::Reason(text);
    ordinary(run.options, targets).map_err(|text| reason(text.to_owned()))?;
    let virtual_filespaces = &run.rules.virtual_filespaces;
    let places = Places::of(mount_point).map_err(|error| {
        let is_mounted = || sys::mount::mounted(mount_point).is_ok_and(|found| found.is_some());
        let is_virtual = virtual_filespaces.has(|| mount_point.to_vec()) && !is_mounted();
        reason(if is_virtual { VIRTUAL.to_owned() } else { error.to_string() })
    })?;
    let key = AnchorKey(digester(run).key_of(&anchored(mount_point, virtual_filespaces)));
    let begun = Conversation::begin(&run.home.folder, mount_point, key);
    let (conversation, beginning) = begun.map_err(|error| match error {
        ConversationError::NoWatcher => Refusal::NoWatcher,
        error => reason(error.to_string()),
    })?;
    if places.identity() != (beginning.device_id, beginning.inode) {
        return Err(reason("the watcher sees another file system there".to_owned()));
    }
    let days = run.home.config.journal_full_walk_days;
    Ok(Prospect {
        filespace: mount_point.to_vec(),
        places,
        conversation,
        last: beginning.last,
        full_walk_after: Duration::from_secs(u64::from(days) * 86_400),
    })
}

/// Reason why a virtual filespace is walked.
const VIRTUAL: &str =
    "the journal is that of a file system, and this is a virtual filespace in one";

/// Returns the text that an anchor of the filespace is made for: its mount point, and the virtual
/// filespaces in it. Another list of them changes what is in the filespace, without a report of the
/// kernel.
fn anchored(mount_point: &[u8], virtual_filespaces: &VirtualFilespaces) -> Vec<u8> {
    let mut text = mount_point.to_vec();
    for path in virtual_filespaces.below(mount_point) {
        // No path has a NUL byte.
        text.push(0);
        text.extend_from_slice(path);
    }
    text
}

/// Fails if the backup is not an ordinary incremental of a whole filespace.
fn ordinary(options: &BackupOptions, targets: &[Vec<u8>]) -> Result<(), &'static str> {
    let is_whole = targets.iter().any(|target| target == b"/");
    match options {
        BackupOptions { targets: Targets::Selective(_), .. } => Err("the backup is selective"),
        BackupOptions { full: true, .. } => Err("the backup reads every object again"),
        BackupOptions { cross_filesystems: true, .. } => Err("the backup crosses file systems"),
        BackupOptions { is_partial: true, .. } => Err("only a part of the filespace is backed up"),
        _ if !is_whole => Err("only a part of the filespace is backed up"),
        _ => Ok(()),
    }
}

/// Returns the directories without a digest if the server has the pages that the last backup has
/// left.
fn fitting(last: &LastAnchor, state: Option<PagesState>) -> Result<Vec<DirPath>, &'static str> {
    let state = state.ok_or("the server is older than the journal; upgrade it")?;
    if Fingerprint(state.fingerprint) != last.fingerprint {
        return Err("the server has other pages than the last backup has left");
    }
    state.undigested.ok_or("too many directories are not backed up completely")
}

impl Prospect {
    /// Decides the way of the backup, in its open session.
    pub(super) fn prove(self, session: &Session<'_>) -> Result<ProvenJournal, ClientError> {
        let Self { filespace, places, conversation, last, full_walk_after } = self;
        let mut usage = JournalUse { filespace: filespace.clone(), ..JournalUse::default() };
        let mut fits = false;
        let planned = match &last {
            Err(reason) => Err(reason.clone()),
            Ok(last) => {
                let state = session.context.link.pages_state(&filespace, true)?;
                match fitting(last, state) {
                    Ok(undigested) => {
                        fits = true;
                        plan(&places, last, &undigested).map(|aim| (aim, last.walked_ago))
                    }
                    Err(reason) => Err(reason.to_owned()),
                }
            }
        };
        let way = match planned {
            Err(reason) => {
                usage.reason = Some(reason);
                Way::Walk
            }
            Ok((aim, walked_ago)) if walked_ago >= full_walk_after => {
                usage.is_compared = true;
                let reason = "this backup walks everything, to compare it with the journal";
                usage.reason = Some(reason.to_owned());
                let comparison = Comparison::with(aim);
                let is_first = session.context.comparison.set(comparison).is_ok();
                assert!(is_first, "a session has one journal");
                Way::Compare
            }
            Ok((aim, _)) => {
                let AimedDirectories { single, subtrees } = aim.directories();
                usage.is_used = true;
                usage.directories = single.len() as u64;
                usage.subtrees = subtrees.len() as u64;
                Way::Look(aim)
            }
        };
        let before = session.tally().inspection();
        Ok(ProvenJournal { filespace, places, conversation, way, fits, usage, before })
    }
}

/// Returns the directories to look at: all that may have changed since the last backup.
fn plan(places: &Places, last: &LastAnchor, undigested: &[DirPath]) -> Result<Aim, String> {
    let mut aim = Aim::default();
    add_changed(&mut aim, places, &last.changed)?;
    undigested.iter().for_each(|directory| aim.add(directory));
    let parse = |path: &Vec<u8>| {
        DirPath::new(path).map_err(|error| format!("the watcher names a wrong path: {error}"))
    };
    for path in &last.again {
        aim.add(&parse(path)?);
    }
    for path in &last.again_below {
        let path = parse(path)?;
        aim.add_entry(&path);
        aim.add_subtree(&path);
    }
    for point in places.mount_points() {
        aim.add_entry(point);
    }
    add_open_files(&mut aim, places)?;
    Ok(aim)
}

fn add_changed(aim: &mut Aim, places: &Places, changed: &[ChangedDirectory]) -> Result<(), String> {
    if changed.len() > CHANGED_MAX {
        return Err(format!("{} directories have changed", changed.len()));
    }
    for ChangedDirectory { directory, is_own, is_moved } in changed {
        let place = places.find(directory);
        match place.map_err(|error| format!("a changed directory cannot be found: {error}"))? {
            Place::Gone | Place::Elsewhere => {}
            Place::Nameless => return Err("a changed directory has no usable path".to_owned()),
            Place::Directory(path) => {
                match is_moved {
                    true => aim.add_subtree(&path),
                    false => aim.add(&path),
                }
                if *is_own || *is_moved {
                    aim.add_entry(&path);
                }
            }
        }
    }
    Ok(())
}

/// Adds the directories of files that may change without a report.
fn add_open_files(aim: &mut Aim, places: &Places) -> Result<(), String> {
    let (mut count, mut nameless) = (0_usize, None);
    let scanned = places.open_files(&mut |file| {
        count += 1;
        match file {
            OpenFile::In(directory) => aim.add(&directory),
            OpenFile::Nameless(path) => nameless = Some(path),
        }
    });
    scanned.map_err(|error| format!("the files that are open cannot be listed: {error}"))?;
    match nameless {
        _ if count > OPEN_FILES_MAX => Err("too many files are open for writing".to_owned()),
        Some(path) => Err(format!(
            "{} is open for writing, and its directory is not known here",
            escaped(&path)
        )),
        None => Ok(()),
    }
}

impl ProvenJournal {
    /// Returns the directories to look at; `None` if the backup walks everything.
    pub(super) fn aim(&mut self, session: &Session<'_>) -> Option<Aim> {
        match std::mem::replace(&mut self.way, Way::Walk) {
            Way::Look(aim) => {
                session.context.notes.count_names();
                self.way = Way::Look(Aim::default());
                Some(aim)
            }
            way => {
                self.way = way;
                None
            }
        }
    }

    /// Makes the backup walk everything, because it has not seen all names of an object.
    pub(super) fn walk_instead(&mut self, session: &Session<'_>) {
        session.context.notes.restart();
        session.tally().restart_inspection(&self.before);
        self.way = Way::Walk;
        self.usage.is_used = false;
        self.usage.reason = Some(
            "an object has got a further name (hard link), and the journal does not know where \
             its other names are"
                .to_owned(),
        );
    }

    /// Ends a complete backup before its session closes.
    pub(super) fn end(mut self, session: &Session<'_>) -> Result<Option<Ending>, ClientError> {
        if let Some(comparison) = session.context.comparison.get() {
            self.compare(comparison, session.tally());
        }
        let link = session.context.link;
        let state = link.pages_state(&self.filespace, false)?;
        let noted = session.context.notes.take();
        // Another file system could have been mounted at the root while the backup ran.
        let is_same = Places::of(&self.filespace)
            .is_ok_and(|places| places.identity() == self.places.identity());
        let outcome = match (state, noted) {
            _ if !is_same => Err("another file system was mounted there meanwhile"),
            (None, _) => Err("the server is older than the journal; upgrade it"),
            (_, None) => Err("the next backup walks, because too many directories have hard links"),
            (Some(state), Some(noted)) => Ok((state.fingerprint, noted)),
        };
        let is_walk = !matches!(self.way, Way::Look(_));
        let Self { filespace, conversation, mut usage, .. } = self;
        let ending = match outcome {
            Err(reason) => {
                usage.reason.get_or_insert_with(|| reason.to_owned());
                None
            }
            Ok((fingerprint, noted)) => {
                Some(Ending { conversation, filespace, fingerprint, noted, is_walk })
            }
        };
        session.tally().note_journal(usage);
        Ok(ending)
    }

    /// Ends a backup that is not complete. If the server answers, the next backup goes on from the
    /// same anchor.
    pub(super) fn give_up(self, session: &Session<'_>) {
        let Self { filespace, conversation, usage, fits, .. } = self;
        session.tally().note_journal(usage);
        if !fits || session.options.dry_run || session.answers.has_failed() {
            return;
        }
        if let Ok(Some(state)) = session.context.link.pages_state(&filespace, false)
            && let Err(error) = conversation.renew(Fingerprint(state.fingerprint))
        {
            tracing::info!(%error, "the next backup walks");
        }
    }

    fn compare(&mut self, comparison: &Comparison, tally: &Tally) {
        let meanwhile = match self.changed_meanwhile() {
            Ok(meanwhile) => meanwhile,
            Err(reason) => {
                self.usage.is_compared = false;
                self.usage.reason = Some(format!("the comparison is void: {reason}"));
                return;
            }
        };
        let Differences { missed, first, silent } = comparison.differences(&meanwhile);
        (self.usage.missed, self.usage.silent) = (missed, silent);
        let Some((path, _)) = first.first() else { return };
        let place = |(path, words): &(Vec<u8>, &str)| {
            format!("{} ({words})", escaped(&absolute(&self.filespace, path)))
        };
        let places: Vec<String> = first.iter().map(place).collect();
        let warning = format!(
            "the journal has missed {missed} changed {} in {}: {}; this is a bug of Holdfast, \
             please report it; this backup has walked everything and has them",
            if missed == 1 { "object" } else { "objects" },
            escaped(&self.filespace),
            places.join(", "),
        );
        tracing::error!("{warning}");
        tally.warn(warning);
        let first = absolute(&self.filespace, path);
        if let Err(error) = self.conversation.distrust(missed, &first) {
            tracing::warn!(%error, "the watcher does not learn of the difference");
        }
    }

    /// Returns the directories that have changed since the backup began.
    fn changed_meanwhile(&mut self) -> Result<Aim, String> {
        let changed = self.conversation.changes().map_err(|error| error.to_string())?;
        let mut aim = Aim::default();
        add_changed(&mut aim, &self.places, &changed)?;
        add_open_files(&mut aim, &self.places)?;
        Ok(aim)
    }
}

impl Ending {
    /// Makes the anchor for the next backup.
    pub(super) fn settle(self, tally: &Tally) {
        let Self { conversation, filespace, fingerprint, noted, is_walk } = self;
        let paths = |paths: std::collections::BTreeSet<DirPath>| {
            paths.into_iter().map(|path| path.as_bytes().to_vec()).collect()
        };
        let noted = (paths(noted.single), paths(noted.subtrees));
        let settled = conversation.complete(&filespace, Fingerprint(fingerprint), noted, is_walk);
        if let Err(error) = settled {
            tracing::info!(%error, "the next backup walks");
            tally.note_next_walk(&filespace, error.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::virtual_filespaces::tests::virtual_filespaces;

    fn options() -> BackupOptions {
        BackupOptions {
            targets: Targets::Paths(vec![b"/data".to_vec()]),
            ..super::super::space::options(crate::tuning::Tuning::default())
        }
    }

    #[test]
    fn only_an_ordinary_incremental_of_a_whole_filespace_goes_by_the_journal() {
        let (whole, part) = ([b"/".to_vec()], [b"/sub".to_vec()]);
        let selective = Targets::Selective(vec![b"/data".to_vec()]);
        assert_eq!(ordinary(&options(), &whole), Ok(()));
        for (options, targets) in [
            (options(), &part),
            (BackupOptions { full: true, ..options() }, &whole),
            (BackupOptions { is_partial: true, ..options() }, &whole),
            (BackupOptions { cross_filesystems: true, ..options() }, &whole),
            (BackupOptions { targets: selective, ..options() }, &whole),
        ] {
            ordinary(&options, targets).expect_err("no ordinary incremental");
        }
    }

    #[test]
    fn an_anchor_is_for_the_virtual_filespaces_too() {
        let list = virtual_filespaces(&["/data/own", "/srv/own"]);
        assert_eq!(anchored(b"/data", &list), b"/data\0/data/own");
        assert_eq!(anchored(b"/", &list), b"/\0/data/own\0/srv/own");
        assert_eq!(anchored(b"/data/own", &list), b"/data/own");
        assert_eq!(anchored(b"/data", &VirtualFilespaces::default()), b"/data");
    }

    #[test]
    fn the_server_must_have_what_the_last_backup_has_left() {
        let last = LastAnchor {
            fingerprint: Fingerprint([1; 16]),
            again: Vec::new(),
            again_below: Vec::new(),
            walked_ago: Duration::ZERO,
            changed: Vec::new(),
        };
        let directory = DirPath::new(b"/a/").expect("a directory");
        let state = |fingerprint, undigested| Some(PagesState { fingerprint, undigested });
        let undigested = Some(vec![directory.clone()]);
        assert_eq!(fitting(&last, state([1; 16], undigested.clone())), Ok(vec![directory]));
        for refuted in [None, state([2; 16], undigested), state([1; 16], None)] {
            fitting(&last, refuted).expect_err("the proof has a gap");
        }
    }
}
