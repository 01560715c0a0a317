//! `holdfast hsm ls`, `du`, `df` and `status`: the states of files, and the waiting recalls.

use std::collections::BTreeMap;
use std::time::Duration;

use ::hsm::{ListedFile, PathText, Reply, Request, RequestState, Settings};
use model::{ServerTime, escaped};
use serde::Serialize;
use sys::Dir;

use super::ask::ask;
use super::files::PathArgs;
use crate::context::Context;
use crate::error::{CommandError, DONE, FAILED};
use crate::path::JsonPath;
use crate::table::{self, Align};
use crate::{moment, output, quantity};

/// List files with their states: r resident, p premigrated, m migrated
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast hsm ls /data/2024")]
pub(super) struct LsArgs {
    #[command(flatten)]
    paths: PathArgs,
}

/// `hsm ls --json`, one document per line.
#[derive(Serialize)]
struct ListedDocument<'a> {
    path: JsonPath<'a>,
    state: String,
    size: u64,
    resident_bytes: u64,
}

/// Returns the mount point of a path, and the path within that file system.
fn place(path: &[u8]) -> Result<(Vec<u8>, Vec<u8>), CommandError> {
    sys::mount::filespace_root(path)
        .map_err(|error| CommandError::new(format!("cannot look at {}: {error}", escaped(path))))
}

/// Says why one of several paths cannot be looked at.
fn tell(error: &CommandError) {
    output::say(&error.message);
    if let Some(hint) = &error.hint {
        output::say(hint);
    }
}

pub(super) fn ls(args: &LsArgs, context: &mut Context) -> Result<u8, CommandError> {
    root_only()?;
    let paths = args.paths.paths()?;
    let mut failed = 0;
    if !context.output.is_json() {
        context.output.text("           Size        Resident  State  Path\n");
    }
    for path in &paths {
        match list(&path.0, &mut failed, context) {
            // A path that cannot be looked at stops no other.
            Err(error) if paths.len() > 1 => {
                failed += 1;
                tell(&error);
            }
            done => done?,
        }
    }
    Ok(if failed > 0 { FAILED } else { DONE })
}

/// Lists the files at and below `path`, and counts those that cannot be looked at.
fn list(path: &[u8], failed: &mut u64, context: &mut Context) -> Result<(), CommandError> {
    let (mount_point, within) = place(path)?;
    let mut visit = |listed: ListedFile| {
        show_listed(&listed, context);
        context.output.is_open()
    };
    let mut fail = |path: &[u8], error: &std::io::Error| {
        *failed += 1;
        output::say(&format!("{}: {error}", escaped(path)));
    };
    ::hsm::list(&mount_point, &within, &mut visit, &mut fail)
        .map_err(|error| CommandError::new(format!("{}: {error}", escaped(path))))
}

/// Fails for every user except root, because only root can read the records of files.
fn root_only() -> Result<(), CommandError> {
    if sys::process::is_root() {
        return Ok(());
    }
    Err(CommandError::new("only root can see which files are migrated; run this command as root"))
}

fn show_listed(listed: &ListedFile, context: &mut Context) {
    let size = listed.found.stat.size;
    let state = listed.state.letter().to_owned();
    let resident = listed.found.allocated_bytes.min(size);
    if context.output.is_json() {
        let path = JsonPath(&listed.path);
        context
            .output
            .json(&ListedDocument { path, state, size, resident_bytes: resident });
        return;
    }
    let state = if state == "m" && resident > 0 { "m (p)".to_owned() } else { state };
    let line = format!(
        "{:>15} {:>15}  {state:<5}  {}\n",
        quantity::count(size),
        quantity::count(resident),
        escaped(&listed.path)
    );
    context.output.text(&line);
}

/// Add up the sizes of files, resident or migrated
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast hsm du /data/2024")]
pub(super) struct DuArgs {
    #[command(flatten)]
    paths: PathArgs,
}

/// `hsm du --json`, one document per line.
#[derive(Serialize)]
struct CountsDocument<'a> {
    path: JsonPath<'a>,
    files: u64,
    bytes: u64,
    allocated_bytes: u64,
    premigrated_files: u64,
    premigrated_bytes: u64,
    migrated_files: u64,
    migrated_bytes: u64,
}

fn counted(
    mount_point: &[u8],
    within: &[u8],
    failed: &mut u64,
) -> Result<::hsm::Counts, CommandError> {
    let mut fail = |path: &[u8], error: &std::io::Error| {
        *failed += 1;
        output::say(&format!("{}: {error}", escaped(path)));
    };
    ::hsm::count(mount_point, within, &mut fail)
        .map_err(|error| CommandError::new(format!("{}: {error}", escaped(mount_point))))
}

pub(super) fn du(args: &DuArgs, context: &mut Context) -> Result<u8, CommandError> {
    root_only()?;
    let paths = args.paths.paths()?;
    let mut rows = Vec::new();
    let mut failed = 0;
    for (path, counts) in paths.iter().zip(count_all(&paths, &mut failed)) {
        match counts {
            Ok(counts) => rows.push(show_counts(&path.0, &counts, context)),
            // A path that cannot be looked at stops no other.
            Err(error) if paths.len() > 1 => {
                failed += 1;
                tell(&error);
            }
            Err(error) => return Err(error),
        }
    }
    if !context.output.is_json() {
        let columns = [
            ("Size", Align::Right),
            ("On disk", Align::Right),
            ("Files", Align::Right),
            ("Premigrated", Align::Right),
            ("Migrated", Align::Right),
            ("Path", Align::Left),
        ];
        context.output.text(&table::render(columns, &rows));
    }
    Ok(if failed > 0 { FAILED } else { DONE })
}

/// Adds up the sizes at and below each of `paths`. The paths of one file system are counted
/// together, because one may be above the others.
fn count_all(paths: &[PathText], failed: &mut u64) -> Vec<Result<::hsm::Counts, CommandError>> {
    let places: Vec<_> = paths.iter().map(|path| place(&path.0)).collect();
    let mut by_mount: BTreeMap<Vec<u8>, Vec<Vec<u8>>> = BTreeMap::new();
    for (mount_point, within) in places.iter().flatten() {
        by_mount.entry(mount_point.clone()).or_default().push(within.clone());
    }
    let mut fail = |path: &[u8], error: &std::io::Error| {
        *failed += 1;
        output::say(&format!("{}: {error}", escaped(path)));
    };
    let mut counted: BTreeMap<Vec<u8>, _> = BTreeMap::new();
    for (mount_point, within) in by_mount {
        let counts = ::hsm::count_each(&mount_point, &within, &mut fail);
        counted.insert(mount_point, counts.into_iter());
    }
    let mut all = Vec::with_capacity(paths.len());
    for (path, place) in paths.iter().zip(places) {
        all.push(place.and_then(|(mount_point, _)| {
            let counts = counted.get_mut(&mount_point).and_then(Iterator::next);
            let counts = counts.expect("each place is counted, in the order of the paths");
            counts.map_err(|error| CommandError::new(format!("{}: {error}", escaped(&path.0))))
        }));
    }
    all
}

/// Shows the sizes at and below `path`. Returns the row of a table.
fn show_counts(path: &[u8], counts: &::hsm::Counts, context: &mut Context) -> [String; 6] {
    if context.output.is_json() {
        context.output.json(&CountsDocument {
            path: JsonPath(path),
            files: counts.files,
            bytes: counts.bytes,
            allocated_bytes: counts.allocated_bytes,
            premigrated_files: counts.premigrated_files,
            premigrated_bytes: counts.premigrated_bytes,
            migrated_files: counts.migrated_files,
            migrated_bytes: counts.migrated_bytes,
        });
    }
    [
        quantity::bytes_with_unit(counts.bytes),
        quantity::bytes_with_unit(counts.allocated_bytes),
        quantity::count(counts.files),
        quantity::count(counts.premigrated_files),
        quantity::count(counts.migrated_files),
        escaped(path),
    ]
}

/// Show the space of the managed file systems, and their migrated files
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast hsm df")]
pub(super) struct DfArgs {}

/// `hsm df --json`, one document per line.
#[derive(Serialize)]
struct RoomDocument<'a> {
    mount_point: JsonPath<'a>,
    mounted: bool,
    bytes: Option<u64>,
    free_bytes: Option<u64>,
    /// Absent where the file system has no limit.
    files: Option<u64>,
    free_files: Option<u64>,
    premigrated_files: Option<u64>,
    premigrated_bytes: Option<u64>,
    migrated_files: Option<u64>,
    migrated_bytes: Option<u64>,
}

/// Space of a mounted file system, and its migrated files.
struct Occupancy {
    room: sys::space::Room,
    counts: ::hsm::Counts,
}

impl Occupancy {
    /// Measures the file system that is mounted at `mount_point`; `None` if none is mounted there.
    fn of(mount_point: &[u8], failed: &mut u64) -> Result<Option<Self>, CommandError> {
        let wrong = |error| CommandError::new(format!("{}: {error}", escaped(mount_point)));
        // Without the file system, the folder shows the space of another one.
        let is_mounted = sys::mount::filespace_root(mount_point)
            .is_ok_and(|(filespace, within)| filespace == mount_point && within == b"/");
        if !is_mounted {
            return Ok(None);
        }
        let room =
            Dir::open(mount_point).and_then(|root| sys::space::room(&root)).map_err(wrong)?;
        Ok(Some(Self { room, counts: counted(mount_point, b"/", failed)? }))
    }
}

impl<'a> RoomDocument<'a> {
    fn new(mount_point: &'a [u8], found: Option<&Occupancy>) -> Self {
        let room = found.map(|found| &found.room);
        let counts = found.map(|found| &found.counts);
        Self {
            mount_point: JsonPath(mount_point),
            mounted: found.is_some(),
            bytes: room.map(|room| room.bytes),
            free_bytes: room.map(|room| room.free_bytes),
            files: room.and_then(|room| room.inodes).map(|inodes| inodes.all),
            free_files: room.and_then(|room| room.inodes).map(|inodes| inodes.free),
            premigrated_files: counts.map(|counts| counts.premigrated_files),
            premigrated_bytes: counts.map(|counts| counts.premigrated_bytes),
            migrated_files: counts.map(|counts| counts.migrated_files),
            migrated_bytes: counts.map(|counts| counts.migrated_bytes),
        }
    }
}

fn occupancy_row(mount_point: &[u8], found: Option<&Occupancy>) -> [String; 7] {
    let Some(Occupancy { room, counts }) = found else {
        let empty = String::new;
        let state = "not mounted".to_owned();
        return [escaped(mount_point), state, empty(), empty(), empty(), empty(), empty()];
    };
    let inodes = room.inodes.map(|inodes| quantity::count(inodes.free));
    [
        escaped(mount_point),
        quantity::bytes_with_unit(room.bytes),
        quantity::bytes_with_unit(room.free_bytes),
        quantity::bytes_with_unit(counts.migrated_bytes),
        quantity::bytes_with_unit(counts.premigrated_bytes),
        quantity::count(counts.migrated_files),
        inodes.unwrap_or_else(|| "no limit".to_owned()),
    ]
}

pub(super) fn df(_: &DfArgs, context: &mut Context) -> Result<u8, CommandError> {
    root_only()?;
    let settings = Settings::load(&context.home()?).map_err(|error| CommandError::chain(&error))?;
    let mut rows = Vec::new();
    let mut failed = 0;
    for filesystem in &settings.filesystems {
        let mount_point = &filesystem.mount_point;
        let found = Occupancy::of(mount_point, &mut failed)?;
        failed += u64::from(found.is_none());
        if context.output.is_json() {
            context.output.json(&RoomDocument::new(mount_point, found.as_ref()));
        }
        rows.push(occupancy_row(mount_point, found.as_ref()));
    }
    if !context.output.is_json() {
        let columns = [
            ("File system", Align::Left),
            ("Size", Align::Right),
            ("Free", Align::Right),
            ("Migrated", Align::Right),
            ("Premigrated", Align::Right),
            ("Files migrated", Align::Right),
            ("Free inodes", Align::Right),
        ];
        context.output.text(&table::render(columns, &rows));
    }
    Ok(if failed > 0 { FAILED } else { DONE })
}

/// Show the recalls that programs and users wait for: the user, the file, its place in the queue,
/// the time
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast hsm status")]
pub(super) struct StatusArgs {}

/// `hsm status --json`, one document per line.
#[derive(Serialize)]
struct RequestDocument<'a> {
    number: u64,
    path: JsonPath<'a>,
    uid: u32,
    pid: u32,
    program: &'a str,
    since: String,
    state: &'a str,
    place: usize,
    waiters: usize,
    bytes: u64,
    done_bytes: u64,
    eta_secs: Option<f64>,
    volume: Option<&'a str>,
    volume_place: Option<u32>,
}

pub(super) fn status(_: &StatusArgs, context: &mut Context) -> Result<u8, CommandError> {
    let mut requests: Vec<RequestState> = Vec::new();
    ask(context, &Request::Status, &mut |reply| {
        if let Reply::Request(state) = reply {
            requests.push(state);
        }
        true
    })?;
    if context.output.is_json() {
        for request in &requests {
            context.output.json(&RequestDocument {
                number: request.number,
                path: JsonPath(&request.path.0),
                uid: request.uid,
                pid: request.pid,
                program: &request.program,
                since: moment::rfc3339(ServerTime(request.since)),
                state: &request.state,
                place: request.place,
                waiters: request.waiters,
                bytes: request.bytes,
                done_bytes: request.done_bytes,
                eta_secs: request.estimate_secs,
                volume: request.volume.as_deref(),
                volume_place: request.volume_place,
            });
        }
        return Ok(DONE);
    }
    if requests.is_empty() {
        context.output.note("Space management is ready, and no recall is waiting.");
        return Ok(DONE);
    }
    let columns = [
        ("Request", Align::Right),
        ("State", Align::Left),
        ("Volume", Align::Left),
        ("Place", Align::Right),
        ("ETA", Align::Right),
        ("Done", Align::Right),
        ("User", Align::Right),
        ("Program", Align::Left),
        ("Path", Align::Left),
    ];
    let rows: Vec<_> = requests.iter().map(row).collect();
    context.output.text(&table::render(columns, &rows));
    Ok(DONE)
}

fn row(request: &RequestState) -> [String; 9] {
    let estimate = request.estimate_secs.map_or_else(
        || "?".to_owned(),
        |secs| quantity::clock(Duration::try_from_secs_f64(secs).unwrap_or_default()),
    );
    let (done, bytes) = (u128::from(request.done_bytes), u128::from(request.bytes));
    let percent = done.min(bytes) * 100 / bytes.max(1);
    [
        request.number.to_string(),
        request.state.clone(),
        request
            .volume
            .as_ref()
            .map_or_else(|| "-".to_owned(), |volume| escaped(volume.as_bytes())),
        request.volume_place.map_or(request.place, |place| place as usize).to_string(),
        estimate,
        format!("{percent} %"),
        request.uid.to_string(),
        request.program.clone(),
        escaped(&request.path.0),
    ]
}
