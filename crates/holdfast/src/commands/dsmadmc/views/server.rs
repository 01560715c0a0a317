//! The servers of the catalogue, the catalogue, and the administrators.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use client::admin::Admin;
use dsm::admin::view::{Table, Value};

use super::cell::{name_of, time};
use crate::error::CommandError;

/// Version, release, level and sublevel of TSM whose tables and answers these are. Scripts choose
/// their statements by it.
pub(super) const INTERFACE: [u64; 4] = [8, 1, 0, 0];
/// Files of a catalogue in the server's folder.
const CATALOGUE: &str = "catalog.sqlite";
const CATALOGUE_LOG: &str = "catalog.sqlite-wal";
/// Length of the head of a file of SQLite.
const SQLITE_HEAD_BYTES: usize = 100;

pub(super) fn status(table: &mut Table, admin: &mut Admin) -> Result<(), CommandError> {
    for server in admin.servers()? {
        let port = server.address.rsplit_once(':').map(|(_, port)| port.to_owned());
        table.add([
            ("SERVER_NAME", name_of(&server.address).into()),
            ("SERVER_HLA", name_of(&server.address).into()),
            ("SERVER_LLA", port.into()),
            ("PLATFORM", if server.is_this { std::env::consts::OS.into() } else { Value::Missing }),
            ("VERSION", INTERFACE[0].into()),
            ("RELEASE", INTERFACE[1].into()),
            ("LEVEL", INTERFACE[2].into()),
            ("SUBLEVEL", INTERFACE[3].into()),
            ("RESTART_DATE", time(server.started)),
            ("AVAILABILITY", "Enabled".into()),
            ("KEEPS_HOUSE", (if server.keeps_house { "Yes" } else { "No" }).into()),
            ("SILENT_SECONDS", server.silence.as_secs().into()),
            ("BACKUPS", server.backups.into()),
            ("DISK_ERRORS", server.health.disk_errors.into()),
            ("LAST_DISK_ERROR", server.health.last_disk_error.into()),
            ("HOLD", server.hold.into()),
        ]);
    }
    Ok(())
}

/// Space of the catalogue of this machine: of its file system, and of one of its files.
struct Space {
    all: u64,
    free: u64,
    used: u64,
}

impl Space {
    /// Measures the catalogue in the server's folder; `None` if it is in PostgreSQL. `files` are
    /// the names of the measured files.
    fn of(folder: &Path, files: &[&str]) -> Option<Self> {
        let bytes = |name: &str| std::fs::metadata(folder.join(name)).map(|found| found.len());
        bytes(CATALOGUE).ok()?;
        let room = sys::space::room(&File::open(folder).ok()?).ok()?;
        let used = files.iter().map(|name| bytes(name).unwrap_or(0)).sum();
        Some(Self { all: room.bytes, free: room.free_bytes, used })
    }

    /// Returns the share of the file system that is not free, in per cent.
    fn percent(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
        let share = 1.0 - self.free as f64 / self.all.max(1) as f64;
        (share * 1000.0).round() / 10.0
    }
}

/// Pages of the file of the catalogue, as they were when the engine last emptied its log.
struct Pages {
    all: u64,
    free: u64,
}

impl Pages {
    /// Reads the numbers in the head of the file; `None` if the catalogue is in PostgreSQL.
    fn of(folder: &Path) -> Option<Self> {
        let mut file = File::open(folder.join(CATALOGUE)).ok()?;
        let bytes = file.metadata().ok()?.len();
        let mut head = [0; SQLITE_HEAD_BYTES];
        file.read_exact(&mut head).ok()?;
        Self::parse(bytes, &head)
    }

    /// Parses the head of a file of `bytes`.
    fn parse(bytes: u64, head: &[u8; SQLITE_HEAD_BYTES]) -> Option<Self> {
        // The largest size has no room in its field.
        let page_bytes = match u16::from_be_bytes([head[16], head[17]]) {
            1 => 1 << 16,
            size => u64::from(size),
        };
        let free = u32::from_be_bytes([head[36], head[37], head[38], head[39]]);
        let all = bytes.checked_div(page_bytes)?;
        Some(Self { all, free: u64::from(free).min(all) })
    }
}

/// Adds the log of the catalogue, which the engine empties by itself.
pub(super) fn log(table: &mut Table, folder: &Path) {
    if let Some(space) = Space::of(folder, &[CATALOGUE_LOG]) {
        table.add([
            ("TOTAL_SPACE_MB", ((space.used + space.free) >> 20).into()),
            ("USED_SPACE_MB", (space.used >> 20).into()),
            ("FREE_SPACE_MB", (space.free >> 20).into()),
            ("PCT_UTILIZED", (space.used * 100 / (space.used + space.free).max(1)).into()),
        ]);
    }
}

/// Adds the space of the catalogue, and what its newest copy tells.
pub(super) fn database(
    table: &mut Table,
    admin: &mut Admin,
    folder: &Path,
) -> Result<(), CommandError> {
    let copies = admin.catalog_copies()?;
    let newest = copies.first();
    let space = Space::of(folder, &[CATALOGUE, CATALOGUE_LOG]);
    let used = space.as_ref().map(|space| space.used).or(newest.map(|copy| copy.bytes));
    let pages = Pages::of(folder);
    let all_pages = pages.as_ref().map(|pages| pages.all);
    table.add([
        ("DATABASE_NAME", "CATALOGUE".into()),
        ("TOT_FILE_SYSTEM_MB", space.as_ref().map(|space| space.all >> 20).into()),
        ("USED_DB_SPACE_MB", used.map(|bytes| bytes >> 20).into()),
        ("FREE_SPACE_MB", space.as_ref().map(|space| space.free >> 20).into()),
        ("TOTAL_PAGES", all_pages.into()),
        ("USABLE_PAGES", all_pages.into()),
        ("USED_PAGES", pages.as_ref().map(|pages| pages.all - pages.free).into()),
        ("FREE_PAGES", pages.as_ref().map(|pages| pages.free).into()),
        ("PCT_UTILIZED", space.as_ref().map_or(Value::Missing, |space| space.percent().into())),
        ("LAST_BACKUP_DATE", newest.map_or(Value::Missing, |copy| time(copy.taken))),
        ("NUM_BACKUPS", (copies.len() as u64).into()),
    ]);
    Ok(())
}

pub(super) fn history(table: &mut Table, admin: &mut Admin) -> Result<(), CommandError> {
    for copy in admin.catalog_copies()? {
        table.add([
            ("DATE_TIME", time(copy.taken)),
            ("TYPE", "BACKUPFULL".into()),
            ("BACKUP_SERIES", copy.number.into()),
            ("VOLUME_NAME", copy.number.to_string().into()),
            ("LOCATION", copy.pools.join(",").into()),
            ("BYTES", copy.bytes.into()),
            ("IS_DOUBTFUL", (if copy.is_doubtful { "Yes" } else { "No" }).into()),
        ]);
    }
    Ok(())
}

/// Adds the users who may open the socket: root, and the owner of the folder.
pub(super) fn administrators(table: &mut Table, folder: &Path) -> Result<(), CommandError> {
    let owner = std::fs::metadata(folder).map(|found| found.uid()).ok().filter(|uid| *uid != 0);
    let names = std::iter::once("root".to_owned()).chain(owner.map(|uid| format!("uid {uid}")));
    for name in names {
        table.add([
            ("ADMIN_NAME", name.into()),
            ("LOCKED", "NO".into()),
            ("SYSTEM_PRIV", "Yes".into()),
        ]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_counted_by_the_head_of_the_file() {
        let mut head = [0; SQLITE_HEAD_BYTES];
        assert!(Pages::parse(8192, &head).is_none(), "this is no file of SQLite");
        head[16..18].copy_from_slice(&4096_u16.to_be_bytes());
        head[36..40].copy_from_slice(&3_u32.to_be_bytes());
        let pages = Pages::parse(10 * 4096, &head).expect("has pages");
        assert_eq!((pages.all, pages.free), (10, 3));
        head[16..18].copy_from_slice(&1_u16.to_be_bytes());
        let pages = Pages::parse(2 << 16, &head).expect("has pages");
        assert_eq!((pages.all, pages.free), (2, 2), "no more is free than there is");
    }
}
