//! The past of a node: inactive versions, written directly into the catalogue of a server that is
//! not running.

use std::path::Path;
use std::sync::Arc;

use catalog::sqlite::Sqlite;
use catalog::{Batches as _, Filespaces as _, Nodes as _, PageKey, PageRow, VersionRow, Write};
use format::page;
use model::{
    ClassId, DirPath, Extent, FilespaceId, Kind, Name, NodeName, Object, Payload, ServerTime, Stat,
    Timestamp,
};

use crate::trouble::{Context as _, Trouble};

/// Number of files in a directory.
const FILES: usize = 20;
/// Ages of the inactive versions of a file, in days since they became inactive, the newest first.
/// Two of them are due.
const ENDED_DAYS: [i64; 4] = [10, 25, 40, 55];
const DAY_MICROS: i64 = 86_400_000_000;
/// Number of directories that are written in one batch.
const BATCH: usize = 250;
/// Number of subdirectories of a directory.
const FAN: usize = 250;

/// The name of the filespace that has the past.
const FILESPACE: &[u8] = b"/past";

/// Returns the number of inactive versions in `directories`, and the number of those that are due.
pub(super) fn versions(directories: usize) -> (usize, usize) {
    let all = directories * FILES * ENDED_DAYS.len();
    (all, all / 2)
}

/// Returns the number of directories that are needed for at least `versions` inactive versions.
pub(super) fn directories(versions: usize) -> usize {
    versions.div_ceil(FILES * ENDED_DAYS.len())
}

/// Writes inactive versions of the node `name` into this number of directories, in the catalogue
/// `file`.
pub(super) fn write(file: &Path, name: &str, directories: usize) -> Result<(), Trouble> {
    let what = || format!("write inactive versions into {}", file.display());
    let catalog = Sqlite::open(file).while_doing(what)?;
    let name = NodeName::new(name).while_doing(what)?;
    let node = catalog.node(&name).while_doing(what)?;
    let now = sys::clock::now();
    let filespace = catalog.open_filespace(node.id, FILESPACE, now).while_doing(what)?.id;
    let numbers: Vec<usize> = (0..directories).collect();
    for batch in numbers.chunks(BATCH) {
        crate::process::check_interrupted()?;
        let writes = batch.iter().flat_map(|number| directory(filespace, *number, now));
        catalog.commit(writes.collect()).while_doing(what)?;
    }
    Ok(())
}

fn directory(filespace: FilespaceId, number: usize, now: ServerTime) -> Vec<Write> {
    let path = format!("/folder-{}/folder-{}/", number / FAN, number % FAN);
    let directory = DirPath::new(path.as_bytes()).expect("the path is valid");
    let objects: Vec<Object> = (0..FILES)
        .map(|file| object(file, ServerTime(now.0 - ENDED_DAYS[0] * DAY_MICROS)))
        .collect();
    let mut writes = vec![Write::PutPage {
        filespace,
        page: PageRow {
            key: PageKey::first_of(directory.clone()),
            object_count: u32::try_from(FILES).expect("there are few files"),
            digest: None,
            body: page::encode(&objects),
        },
    }];
    for object in objects {
        for days in ENDED_DAYS {
            let deactivated = ServerTime(now.0 - days * DAY_MICROS);
            let inserted = ServerTime(deactivated.0 - DAY_MICROS);
            let name = object.name.clone();
            let body = page::encode(&[Object { inserted, ..object.clone() }]);
            let directory = directory.clone();
            let version = VersionRow { directory, name, inserted, deactivated, body };
            writes.push(Write::AddVersion { filespace, version });
        }
    }
    writes
}

fn object(file: usize, inserted: ServerTime) -> Object {
    let size = 19 << 10;
    let time = Timestamp { secs: 1_700_000_000 + i64::try_from(file).unwrap_or(0), nanos: 5 };
    Object {
        name: Name::new(format!("file-{file:03}.dat").as_bytes()).expect("the name is valid"),
        stat: Stat {
            kind: Kind::File,
            mode: 0o644,
            uid: 1000,
            gid: 1000,
            size,
            mtime: time,
            ctime: time,
            inode: 1_000_000 + file as u64,
            linked: false,
            device: 0,
        },
        attributes: Arc::default(),
        class: ClassId(1),
        inserted,
        payload: Payload::Extents(vec![Extent::Hole { bytes: size }]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_a_past_is_due() {
        assert_eq!(versions(directories(5_000_000)), (5_000_000, 2_500_000));
        assert_eq!(versions(directories(1)), (80, 40));
    }
}
