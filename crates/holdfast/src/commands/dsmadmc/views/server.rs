//! The servers of the catalogue, the catalogue, and the administrators.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use client::admin::Admin;
use dsm::admin::view::{Table, Value};

use super::cell::{name_of, time};
use crate::error::CommandError;

pub(super) fn status(table: &mut Table, admin: &mut Admin) -> Result<(), CommandError> {
    for server in admin.servers()? {
        let port = server.address.rsplit_once(':').map(|(_, port)| port.to_owned());
        let mut numbers = server.version.split(['.', '-']).map(|part| part.parse::<u64>().ok());
        let mut number = || Value::from(numbers.next().flatten());
        let (version, release, level) = (number(), number(), number());
        table.add([
            ("SERVER_NAME", name_of(&server.address).into()),
            ("SERVER_HLA", name_of(&server.address).into()),
            ("SERVER_LLA", port.into()),
            ("PLATFORM", if server.is_this { std::env::consts::OS.into() } else { Value::Missing }),
            ("VERSION", version),
            ("RELEASE", release),
            ("LEVEL", level),
            ("RESTART_DATE", time(server.started)),
            ("AVAILABILITY", "Enabled".into()),
            ("KEEPS_HOUSE", (if server.keeps_house { "Yes" } else { "No" }).into()),
            ("SILENT_SECONDS", server.silence.as_secs().into()),
            ("BACKUPS", server.backups.into()),
            ("DISK_ERRORS", server.disk_errors.into()),
            ("LAST_DISK_ERROR", server.last_disk_error.into()),
        ]);
    }
    Ok(())
}

/// Adds what the newest copy tells about the catalogue: its size, and when it was copied.
pub(super) fn database(table: &mut Table, admin: &mut Admin) -> Result<(), CommandError> {
    let copies = admin.catalog_copies()?;
    let newest = copies.first();
    table.add([
        ("DATABASE_NAME", "CATALOGUE".into()),
        ("USED_DB_SPACE_MB", newest.map(|copy| copy.bytes >> 20).into()),
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
