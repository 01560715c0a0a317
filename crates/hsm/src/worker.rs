//! The worker: reads the keeper's questions, fills stubs, serves requests, and watches how full the
//! file systems are.

use std::collections::{BTreeMap, HashSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use client::ErrorKind;
use model::{Attributes, CopyId};
use sys::Dir;
use sys::fanotify::{Asks, Group};
use sys::space::SpaceFile;

use crate::control::{
    FileOutcome, PathText, PlanState, PlannedVolume, Reply, Request, RequestState,
};
use crate::migrate::{Candidate, Migrated, Migrator};
use crate::monitor::{Until, relieve};
use crate::recall::{Mount, Recaller, Shown, Stage, Who};
use crate::record::{self, FileState, state_of};
use crate::relay::Relay;
use crate::settings::Settings;
use crate::{PUBLIC_FOLDER, SOCKET, remake, stub, tree};

/// Whether more threads are to recall is looked at so often.
const TEND: Duration = Duration::from_millis(250);
/// Records are brought up to date so often.
const CATCH_UP: Duration = Duration::from_secs(2);
/// File systems are looked at so often.
const LOOK: Duration = Duration::from_secs(10);
/// Files that a request takes from a tree at once: each holds its directory.
const TAKEN_AT_ONCE: usize = 2048;
/// Questions that go on a command line at most; the others are refused.
const QUESTIONS_HANDED_ON_MAX: usize = 10_000;
/// Bytes of a request at most, of root's and of others'.
const REQUEST_BYTES_MAX: u64 = 1 << 30;
const REQUEST_BYTES_OF_OTHERS_MAX: u64 = 1 << 20;
/// Requests that are served at once.
const CONNECTIONS_MAX: usize = 256;
/// Whether who waits for a list still listens is looked at so often.
const LISTENS: Duration = Duration::from_millis(500);
/// Who has not said what he wants by then is not listened to.
const REQUEST_WAIT: Duration = Duration::from_secs(30);
/// A copy that no file names is let go of once it is so old: the file may be about to.
const ORPHAN_AGE_MICROS: i64 = 3600 * 1_000_000;

/// What the keeper has given to the worker.
pub struct Inherited {
    pub group: OwnedFd,
    pub relay: OwnedFd,
    pub asks: Asks,
}

/// Becomes the keeper in place of one that has died: with the group's descriptor, and the questions
/// that wait with the descriptors of their files. Returns only if that is impossible.
pub type BecomeKeeper<'a> = &'a dyn Fn(RawFd, &[(String, RawFd)]) -> std::io::Error;

/// Works until the keeper ends it.
pub fn work(
    home: &Path,
    settings: &Settings,
    inherited: Inherited,
    become_keeper: BecomeKeeper<'_>,
) -> std::io::Result<()> {
    sys::space::ignore_lease_signals();
    sys::process::raise_open_files();
    let group = Arc::new(Group::inherited(inherited.group, inherited.asks));
    let relay = Arc::new(Relay::inherited(inherited.relay));
    let recaller = Recaller::new(Arc::clone(&group), Arc::clone(&relay), mounts(settings)?, home);
    let recaller = &*Box::leak(Box::new(recaller));
    let sockets = [Some(listen(home)?), public_socket(home)];
    start("recalls", move || tend(recaller))?;
    start("records", move || {
        loop {
            sys::clock::sleep(CATCH_UP);
            recaller.catch_up();
        }
    })?;
    start("monitor", move || watch(recaller))?;
    for socket in sockets.into_iter().flatten() {
        start("control", move || serve_all(recaller, &socket))?;
    }
    while let Some(question) = relay.next_question()? {
        recaller.take(question);
    }
    // The keeper kills its worker before it lets go of the relay: so it has died itself.
    tracing::warn!("the keeper has died; taking its place");
    recaller.catch_up();
    let waiting = recaller.waiting();
    let mut waiting: Vec<(String, RawFd)> = waiting
        .iter()
        .map(|(asked, file)| (asked.written(), file.as_fd().as_raw_fd()))
        .take(QUESTIONS_HANDED_ON_MAX)
        .collect();
    loop {
        let error = become_keeper(group.as_fd().as_raw_fd(), &waiting);
        // To end would let everybody read stubs. What waits is refused by whoever comes.
        tracing::error!(%error, "cannot become the keeper; trying again");
        waiting.clear();
        sys::clock::sleep(CATCH_UP);
    }
}

fn start(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
}

fn mounts(settings: &Settings) -> std::io::Result<Vec<Mount>> {
    let mut mounts = Vec::new();
    for filesystem in &settings.filesystems {
        let root = Dir::open(&filesystem.mount_point)?;
        let device_id = root.stat_self()?.device_id;
        mounts.push(Mount::new(filesystem.clone(), Arc::new(root), device_id));
    }
    Ok(mounts)
}

fn serve_all(recaller: &'static Recaller, socket: &UnixListener) {
    static SERVED: AtomicUsize = AtomicUsize::new(0);
    for connection in socket.incoming().flatten() {
        if SERVED.fetch_add(1, Relaxed) >= CONNECTIONS_MAX {
            SERVED.fetch_sub(1, Relaxed);
            continue;
        }
        let started = start("request", move || {
            serve(recaller, connection);
            SERVED.fetch_sub(1, Relaxed);
        });
        // A thread that cannot be had costs the one who asked his answer, and nothing else.
        if started.is_err() {
            SERVED.fetch_sub(1, Relaxed);
        }
    }
}

/// The socket for those who may not look into the node's folder: of the system's node, or where the
/// service manager has made a folder for it.
fn public_socket(home: &Path) -> Option<UnixListener> {
    let given = std::env::var_os("RUNTIME_DIRECTORY").filter(|folder| !folder.is_empty());
    let folder = match given {
        Some(given) => PathBuf::from(given),
        None if home == Path::new(client::SYSTEM_FOLDER) => PathBuf::from(PUBLIC_FOLDER),
        None => return None,
    };
    let for_all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    let made = std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::set_permissions(&folder, for_all))
        .and_then(|()| listen(&folder));
    let failed = |error: &std::io::Error| {
        let folder = folder.display();
        tracing::warn!(%folder, %error, "only root can ask for recalls");
    };
    made.inspect_err(failed).ok()
}

fn listen(folder: &Path) -> std::io::Result<UnixListener> {
    let path = folder.join(SOCKET);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let socket = sys::net::bind_unix(folder, SOCKET)?;
    socket.set_nonblocking(false)?;
    // Everybody may ask for his own files; who asks is looked at.
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o666))?;
    Ok(socket)
}

/// Has as many threads recall as there are files to recall beside those that wait at the server.
fn tend(recaller: &'static Recaller) {
    loop {
        for _ in 0..recaller.further_threads() {
            if let Err(error) = start("recall", move || recaller.serve()) {
                tracing::error!(%error, "no thread to recall with");
                recaller.thread_is_gone();
            }
        }
        sys::clock::sleep(TEND);
    }
}

fn watch(recaller: &Recaller) {
    loop {
        for mount in recaller.mounts() {
            let mut report = |path: &[u8], outcome: Migrated| {
                if let Err(reason) = outcome {
                    tracing::debug!(path = model::escaped(path), reason, "not migrated");
                }
            };
            if let Err(error) = relieve(recaller, mount, Until::PolicyIfFull, &mut report, &|| true)
            {
                let mount_point = model::escaped(&mount.settings.mount_point);
                tracing::error!(mount_point, %error, "cannot be relieved");
            }
        }
        sys::clock::sleep(LOOK);
    }
}

/// One connection: who is at its other end, and whether he still listens.
pub(crate) struct Caller {
    socket: UnixStream,
    who: Who,
    is_gone: AtomicBool,
}

impl Caller {
    fn tell(&self, reply: &Reply) {
        let text = serde_json::to_string(reply).expect("a reply is a document");
        if (&self.socket).write_all(format!("{text}\n").as_bytes()).is_err() {
            self.is_gone.store(true, Relaxed);
        }
    }

    pub(crate) fn listens(&self) -> bool {
        if !self.is_gone.load(Relaxed) && sys::net::is_closed(&self.socket) {
            self.is_gone.store(true, Relaxed);
        }
        !self.is_gone.load(Relaxed)
    }

    pub(crate) fn tell_file(&self, path: &[u8], outcome: Result<(FileState, u64), String>) {
        let (state, bytes, error) = match outcome {
            Ok((state, bytes)) => (Some(state.letter().to_owned()), bytes, None),
            Err(error) => (None, 0, Some(error)),
        };
        let path = PathText(path.to_vec());
        self.tell(&Reply::File(FileOutcome { path, state, bytes, error }));
    }
}

fn serve(recaller: &Recaller, socket: UnixStream) {
    let Ok((pid, uid)) = sys::net::peer(&socket) else { return };
    let Ok(reading) = socket.try_clone() else { return };
    let bytes_max = if uid == 0 { REQUEST_BYTES_MAX } else { REQUEST_BYTES_OF_OTHERS_MAX };
    let mut line = String::new();
    let timed = reading.set_read_timeout(Some(REQUEST_WAIT));
    let read = timed.and_then(|()| BufReader::new(reading.take(bytes_max)).read_line(&mut line));
    if read.is_err() {
        return;
    }
    let who = Who { uid, ..Who::of(pid) };
    let caller = Caller { socket, who, is_gone: AtomicBool::new(false) };
    let done = match serde_json::from_str(&line) {
        Ok(request) => perform(recaller, &caller, request),
        Err(error) => Err(format!("this is no request: {error}")),
    };
    caller.tell(&match done {
        Ok(()) => Reply::Done,
        Err(reason) => Reply::Refused { reason },
    });
}

fn perform(recaller: &Recaller, caller: &Caller, request: Request) -> Result<(), String> {
    let is_for_all =
        matches!(request, Request::Recall { .. } | Request::Status | Request::Cancel { .. });
    if caller.who.uid != 0 && !is_for_all {
        return Err("only root may ask for this".to_owned());
    }
    match request {
        Request::Purge { paths } => purge(recaller, caller, &paths)?,
        Request::Migrate { paths, only_copies } => {
            paths.iter().for_each(|path| migrate(recaller, caller, &path.0, only_copies));
        }
        Request::Recall { paths, resident, preview } => {
            recall(recaller, caller, &paths, (resident, preview))?;
        }
        Request::Relieve { mount_point } => {
            let mount = managed(recaller, &mount_point.0)?;
            let mut report =
                |path: &[u8], outcome: Migrated| caller.tell_file(&mount.absolute(path), outcome);
            relieve(recaller, mount, Until::Policy, &mut report, &|| caller.listens())
                .map_err(|error| error.to_string())?;
        }
        Request::Reconcile { mount_point, dry_run } => {
            let mount = managed(recaller, &mount_point.0)?;
            caller.tell(&reconcile(recaller, mount, dry_run)?);
        }
        Request::Undelete { mount_point } => {
            undelete(recaller, caller, managed(recaller, &mount_point.0)?)?;
        }
        Request::MakeStubs { paths, bytes_min } => {
            for path in &paths {
                remake::remake(recaller, caller, &path.0, bytes_min)?;
            }
        }
        Request::Status => {
            let is_shown = |shown: &Shown| caller.who.uid == 0 || shown.who.uid == caller.who.uid;
            for shown in recaller.shown().into_iter().filter(is_shown) {
                caller.tell(&Reply::Request(state_of_request(shown)));
            }
        }
        Request::Cancel { number } => {
            if !recaller.cancel(number, caller.who.uid) {
                return Err(format!("there is no request {number} of yours"));
            }
        }
    }
    Ok(())
}

fn state_of_request(shown: Shown) -> RequestState {
    RequestState {
        number: shown.number,
        path: PathText(shown.path),
        uid: shown.who.uid,
        pid: shown.who.pid,
        program: shown.who.program,
        since: shown.since.0,
        state: match shown.stage {
            Stage::Waiting { .. } => "waiting",
            Stage::AtServer => "at the server",
            Stage::Coming => "recalling",
        }
        .to_owned(),
        place: shown.stage.place(),
        waiters: shown.waiters,
        bytes: shown.bytes,
        done_bytes: shown.done_bytes,
        estimate_secs: shown.estimate.map(|estimate| estimate.as_secs_f64()),
    }
}

fn managed<'a>(recaller: &'a Recaller, mount_point: &[u8]) -> Result<&'a Mount, String> {
    let is_meant = |mount: &&Mount| mount.settings.mount_point == mount_point;
    recaller.mounts().iter().find(is_meant).ok_or_else(|| {
        format!("{} is not managed by what runs; restart it", model::escaped(mount_point))
    })
}

/// The managed file system that `path` lies in, and where in it.
fn place<'a>(recaller: &'a Recaller, path: &[u8]) -> Result<(&'a Mount, Vec<u8>), String> {
    let (mount_point, within) =
        sys::mount::filespace_root(path).map_err(|error| error.to_string())?;
    let is_meant = |mount: &&Mount| mount.settings.mount_point == mount_point;
    let mount = recaller.mounts().iter().find(is_meant);
    let not_managed = || format!("its file system {} is not managed", model::escaped(&mount_point));
    mount.map(|mount| (mount, within)).ok_or_else(not_managed)
}

fn migrate(recaller: &Recaller, caller: &Caller, path: &[u8], only_copies: bool) {
    let (mount, within) = match place(recaller, path) {
        Ok(place) => place,
        Err(reason) => return caller.tell_file(path, Err(reason)),
    };
    let rules = match recaller.rules() {
        Ok(rules) => rules,
        Err(error) => return caller.tell_file(path, Err(error.to_string())),
    };
    let migrator = Migrator { recaller, mount, only_copies, rules: &rules };
    let flush = |taken: &mut Vec<Candidate>| {
        let paths: Vec<Vec<u8>> =
            taken.iter().map(|one| mount.absolute(&one.path.join(&one.name))).collect();
        let mut report = |index: usize, outcome: Migrated| caller.tell_file(&paths[index], outcome);
        migrator.migrate(taken, &mut report, &|| caller.listens());
        taken.clear();
        caller.listens()
    };
    let mut taken: Vec<Candidate> = Vec::new();
    let mut visit = |visited: tree::Visited<'_>| {
        let (directory, path) = (Arc::clone(visited.directory), visited.path.clone());
        taken.push(Candidate { directory, path, name: visited.name.clone() });
        taken.len() < TAKEN_AT_ONCE || flush(&mut taken)
    };
    let mut fail = |failed: &[u8], error: &std::io::Error| {
        caller.tell_file(&mount.absolute(failed), Err(error.to_string()));
    };
    if let Err(error) = tree::walk(&mount.settings.mount_point, &within, &mut visit, &mut fail) {
        caller.tell_file(path, Err(error.to_string()));
    }
    flush(&mut taken);
}

/// Removes files, and lets go of their copies.
fn purge(recaller: &Recaller, caller: &Caller, paths: &[PathText]) -> Result<(), String> {
    let mut copies: BTreeMap<Vec<u8>, Vec<CopyId>> = BTreeMap::new();
    for PathText(path) in paths {
        let removed = place(recaller, path).and_then(|(mount, within)| {
            let copy = remove(mount, &within).map_err(|error| error.to_string())?;
            copies.entry(mount.settings.mount_point.clone()).or_default().extend(copy);
            Ok(())
        });
        let (state, error) = match removed {
            Ok(()) => (Some("purged".to_owned()), None),
            Err(error) => (None, Some(error)),
        };
        let path = PathText(path.clone());
        caller.tell(&Reply::File(FileOutcome { path, state, bytes: 0, error }));
    }
    for (mount_point, mut copies) in copies {
        copies.sort();
        let released = recaller.client().and_then(|client| {
            if copies.is_empty() { Ok(()) } else { client.release(&mount_point, &copies) }
        });
        released.map_err(|error| {
            recaller.disconnect();
            format!(
                "the files are gone, their copies are not let go of: {error}; 'holdfast hsm \
                 reconcile' does it"
            )
        })?;
    }
    Ok(())
}

/// Removes a file; the copy that nothing names any more.
fn remove(mount: &Mount, within: &[u8]) -> std::io::Result<Option<CopyId>> {
    let is_none = || std::io::Error::other("this is no file");
    let path = model::DirPath::new(&[within, b"/"].concat()).map_err(|_| is_none())?;
    let (directory, name) = path.parent().ok_or_else(is_none)?;
    let directory = mount.directory(&directory)?;
    let file = SpaceFile::open(&directory, name.as_bytes())?;
    let has_other_names = file.stat()?.stat.linked;
    let stub = record::read(&file)?;
    directory.remove(name.as_bytes(), false)?;
    Ok(stub.filter(|_| !has_other_names).map(|stub| stub.copy))
}

/// A file that a request wants back.
struct Asked<'a> {
    mount: &'a Mount,
    directory: model::DirPath,
    name: model::Name,
    copy: Option<CopyId>,
    bytes: u64,
}

impl Asked<'_> {
    fn path(&self) -> Vec<u8> {
        self.mount.absolute(&self.directory.join(&self.name))
    }

    fn open(&self) -> std::io::Result<SpaceFile> {
        SpaceFile::open(&*self.mount.directory(&self.directory)?, self.name.as_bytes())
    }
}

fn recall(
    recaller: &Recaller,
    caller: &Caller,
    paths: &[PathText],
    (resident, preview): (bool, bool),
) -> Result<(), String> {
    let asked = wanted(recaller, caller, paths, resident);
    let bytes = asked.iter().map(|asked| asked.bytes).sum();
    caller.tell(&Reply::Expect { files: asked.len() as u64, bytes });
    let (asked, plan, _staging) = staged(recaller, caller, asked, preview)?;
    if preview {
        caller.tell(&Reply::Plan(plan));
        return Ok(());
    }
    for some in asked.chunks(TAKEN_AT_ONCE) {
        if !caller.listens() {
            break;
        }
        recall_some(recaller, caller, some, resident);
    }
    Ok(())
}

/// Has the server plan the recall and read volumes for it while what is returned last is there.
/// The files come back in its order, those of one file system behind those of another; files
/// without a copy are the last.
fn staged<'a>(
    recaller: &Recaller,
    caller: &Caller,
    asked: Vec<Asked<'a>>,
    preview: bool,
) -> Result<(Vec<Asked<'a>>, PlanState, Vec<client::Staging>), String> {
    let purpose = caller.who.purpose(client::purpose::Kind::List);
    let mut by_mount: BTreeMap<Vec<u8>, Vec<Asked<'a>>> = BTreeMap::new();
    let (asked, without): (Vec<_>, Vec<_>) =
        asked.into_iter().partition(|asked| asked.copy.is_some());
    for one in asked {
        by_mount.entry(one.mount.settings.mount_point.clone()).or_default().push(one);
    }
    let (mut ordered, mut plan, mut staging) = (Vec::new(), PlanState::default(), Vec::new());
    for (mount_point, of_mount) in by_mount {
        let copies: Vec<CopyId> = of_mount.iter().filter_map(|asked| asked.copy).collect();
        let stage = || {
            let how = (preview, purpose.clone());
            recaller.client()?.stage(&mount_point, &copies, how)
        };
        // The connection may be of a server that has gone since.
        let staged = stage().or_else(|error| match error.kind {
            ErrorKind::Retry => {
                recaller.disconnect();
                stage()
            }
            _ => Err(error),
        });
        let of_server = match staged {
            Ok((of_server, stage)) => {
                staging.push(stage);
                of_server
            }
            Err(error) if preview => {
                recaller.disconnect();
                return Err(error.message);
            }
            // Recalling says it, after trying again; what is nearest together comes together.
            Err(error) => {
                tracing::warn!(error = error.message, "no plan for a recall");
                recaller.disconnect();
                in_order_of_copies(&copies)
            }
        };
        let paths: Vec<Vec<u8>> = of_mount.iter().map(Asked::path).collect();
        plan.add(plan_state(&of_server, &paths));
        let mut left: Vec<Option<Asked<'a>>> = of_mount.into_iter().map(Some).collect();
        let known = of_server.order.iter().chain(&of_server.unknown);
        ordered.extend(known.filter_map(|index| left.get_mut(*index as usize)?.take()));
        ordered.extend(left.into_iter().flatten());
    }
    ordered.extend(without);
    Ok((ordered, plan, staging))
}

/// The plan where the server gives none.
fn in_order_of_copies(copies: &[CopyId]) -> client::RecallPlan {
    let mut order: Vec<u32> = (0..).zip(copies).map(|(index, _)| index).collect();
    order.sort_by_key(|index| copies[*index as usize]);
    client::RecallPlan { order, ..client::RecallPlan::default() }
}

fn plan_state(plan: &client::RecallPlan, paths: &[Vec<u8>]) -> PlanState {
    let path = |index: &u32| paths.get(*index as usize).cloned().map(PathText);
    let volume = |volume: &client::PlannedVolume| PlannedVolume {
        library: volume.library.clone(),
        volume: volume.volume.clone(),
        is_mounted: volume.is_mounted,
        files: volume.files,
        bytes: volume.bytes,
        packs: volume.packs,
        estimate_secs: volume.estimate_secs,
        problem: Some(volume.problem.clone()).filter(|problem| !problem.is_empty()),
    };
    PlanState {
        order: plan.order.iter().filter_map(path).collect(),
        volumes: plan.volumes.iter().map(volume).collect(),
        disk_files: plan.disk_files,
        disk_bytes: plan.disk_bytes,
        unknown: plan.unknown.iter().filter_map(path).collect(),
        mounts: plan.mounts,
        estimate_secs: plan.estimate_secs,
    }
}

/// The files at and below the paths that are to be recalled, and that the caller may have recalled;
/// of the others he is told.
fn wanted<'a>(
    recaller: &'a Recaller,
    caller: &Caller,
    paths: &[PathText],
    resident: bool,
) -> Vec<Asked<'a>> {
    let mut asked: Vec<Asked<'_>> = Vec::new();
    for path in paths {
        let (mount, within) = match place(recaller, &path.0) {
            Ok(place) => place,
            Err(reason) => {
                let told = if caller.who.uid == 0 { &reason } else { "there is nothing of yours" };
                caller.tell_file(&path.0, Err(told.to_owned()));
                continue;
            }
        };
        let mut has_own = false;
        let mut visit = |visited: tree::Visited<'_>| {
            let path = mount.absolute(&visited.path.join(visited.name));
            // What others have is nobody's affair, not even that it is there.
            if caller.who.uid != 0 && visited.found.stat.uid != caller.who.uid {
                return caller.listens();
            }
            has_own = true;
            let state = state_of(&visited.found.stat, visited.stub.as_ref());
            if state != FileState::Migrated && !(resident && visited.stub.is_some()) {
                caller.tell_file(&path, Ok((state, 0)));
                return caller.listens();
            }
            asked.push(Asked {
                mount,
                directory: visited.path.clone(),
                name: visited.name.clone(),
                copy: visited.stub.map(|stub| stub.copy),
                bytes: visited.found.stat.size,
            });
            caller.listens()
        };
        let mut fail = |failed: &[u8], error: &std::io::Error| {
            if caller.who.uid == 0 {
                caller.tell_file(&mount.absolute(failed), Err(error.to_string()));
            }
        };
        let walked = tree::walk(&mount.settings.mount_point, &within, &mut visit, &mut fail);
        if caller.who.uid != 0 && !has_own {
            caller.tell_file(&path.0, Err("there is nothing of yours".to_owned()));
        } else if let Err(error) = walked {
            caller.tell_file(&path.0, Err(error.to_string()));
        }
    }
    asked
}

fn recall_some(recaller: &Recaller, caller: &Caller, asked: &[Asked<'_>], resident: bool) {
    let (done, outcomes) = crossbeam_channel::unbounded();
    let mut left = 0;
    for (index, asked) in asked.iter().enumerate() {
        let opened = asked.open().and_then(|file| Ok((file.stat()?, file)));
        match opened {
            Ok((found, file)) => {
                recaller.request(file, &found, caller.who.clone(), (index, done.clone()));
                left += 1;
            }
            Err(error) => caller.tell_file(&asked.path(), Err(error.to_string())),
        }
    }
    while left > 0 {
        let told = outcomes.recv_timeout(LISTENS);
        if !caller.listens() {
            return recaller.withdraw(&done);
        }
        let Ok((index, outcome)) = told else { continue };
        left -= 1;
        let asked = &asked[index];
        let outcome = outcome.and_then(|bytes| {
            if resident {
                forget(recaller, asked).map_err(|error| error.to_string())?;
                return Ok((FileState::Resident, bytes));
            }
            Ok((FileState::Premigrated, bytes))
        });
        caller.tell_file(&asked.path(), outcome);
    }
}

/// Takes the record off a file whose content is here, if it is still the one that was recalled.
fn forget(recaller: &Recaller, asked: &Asked<'_>) -> std::io::Result<()> {
    recaller.catch_up();
    let _alone = asked.mount.migrating();
    let file = asked.open()?;
    if !file.lock_alone()? {
        return Err(std::io::Error::other("it is here, but somebody has it open"));
    }
    let forgotten = match record::read(&file)? {
        Some(stub) if stub.is_resident() && Some(stub.copy) == asked.copy => {
            file.sync().and_then(|()| file.remove_attribute(format::stub::STUB_ATTRIBUTE))
        }
        Some(_) => Err(std::io::Error::other("it was migrated again meanwhile")),
        None => Ok(()),
    };
    file.unlock()?;
    forgotten
}

/// Makes stubs again for copies that no file names any more, where their files were.
fn undelete(recaller: &Recaller, caller: &Caller, mount: &Mount) -> Result<(), String> {
    let mount_point = &mount.settings.mount_point;
    let client = recaller.client().map_err(|error| error.to_string())?;
    let mut copies = client.copies(mount_point, true).map_err(|error| error.to_string())?;
    let named = Named::collect(recaller, mount)?;
    // Of several states of one file the last.
    copies.sort_by(|a, b| (&a.path, b.since).cmp(&(&b.path, a.since)));
    copies.dedup_by(|later, first| later.path == first.path);
    for copy in copies.iter().filter(|copy| !named.copies.contains(&copy.id)) {
        let made = stub::make(mount, copy, &Attributes::default());
        match made {
            // Something is there: it is no deleted file.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => caller.tell_file(&copy.path, Err(error.to_string())),
            Ok(()) => caller.tell_file(&copy.path, Ok((FileState::Migrated, 0))),
        }
        if !caller.listens() {
            break;
        }
    }
    Ok(())
}

/// What the records of a file system name.
struct Named {
    copies: HashSet<CopyId>,
    migrated: Vec<(CopyId, Vec<u8>)>,
}

impl Named {
    /// Fails if not everything can be read: what could not be may name any copy.
    fn collect(recaller: &Recaller, mount: &Mount) -> Result<Self, String> {
        recaller.catch_up();
        let mut named = Self { copies: HashSet::new(), migrated: Vec::new() };
        let mut failure = None;
        let mut visit = |visited: tree::Visited<'_>| {
            if let Some(stub) = &visited.stub {
                named.copies.insert(stub.copy);
                if state_of(&visited.found.stat, Some(stub)) == FileState::Migrated {
                    let path = mount.absolute(&visited.path.join(visited.name));
                    named.migrated.push((stub.copy, path));
                }
            }
            true
        };
        let mut fail = |path: &[u8], error: &std::io::Error| {
            failure = Some(format!("{}: {error}", model::escaped(&mount.absolute(path))));
        };
        tree::walk(&mount.settings.mount_point, b"/", &mut visit, &mut fail)
            .map_err(|error| error.to_string())?;
        match failure {
            None => Ok(named),
            Some(failure) => Err(format!("not everything could be read: {failure}")),
        }
    }
}

fn reconcile(recaller: &Recaller, mount: &Mount, dry_run: bool) -> Result<Reply, String> {
    let mount_point = &mount.settings.mount_point;
    let client = recaller.client().map_err(|error| error.to_string())?;
    let disconnect = |error: client::ClientError| {
        if error.kind == ErrorKind::Retry {
            recaller.disconnect();
        }
        error.to_string()
    };
    // By the server's clock, as the copies' ages are; when it was last asked is early enough.
    let before = client.hello().now.0 - ORPHAN_AGE_MICROS;
    let copies = client.copies(mount_point, false).map_err(disconnect)?;
    let Named { copies: named, migrated } = Named::collect(recaller, mount)?;
    let at_server: HashSet<CopyId> = copies.iter().map(|copy| copy.id).collect();
    let is_lost = |(copy, _): &(CopyId, Vec<u8>)| !at_server.contains(copy);
    let lost = migrated.into_iter().filter(is_lost).map(|(_, path)| PathText(path)).collect();
    let is_orphan = |copy: &&client::ListedCopy| !named.contains(&copy.id) && copy.since.0 < before;
    let mut orphans: Vec<CopyId> = copies.iter().filter(is_orphan).map(|copy| copy.id).collect();
    orphans.sort();
    if !dry_run && !orphans.is_empty() {
        client.release(mount_point, &orphans).map_err(disconnect)?;
    }
    let released = orphans.len() as u64;
    Ok(Reply::Reconciled { kept: copies.len() as u64 - released, released, lost })
}
