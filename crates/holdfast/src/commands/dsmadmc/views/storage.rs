//! Pools, volumes, libraries, and what waits for volumes.

use std::collections::BTreeMap;

use client::admin::{
    Admin, DriveState, ElementKind, Library, LibraryPlace, Pool, Volume, VolumeAccess,
    VolumeFilter, VolumeState,
};
use dsm::admin::view::{Table, Value};

use super::cell::{megabytes, optional_time, percent, time, yes_or_no};
use crate::error::CommandError;

/// Name of the server as the source of paths.
const SERVER: &str = "SERVER1";

pub(super) fn pools(table: &mut Table, admin: &mut Admin) -> Result<(), CommandError> {
    for pool in admin.pools(None)? {
        let used = percent(pool.bytes, pool.bytes_max);
        let volumes = pool.volume_use.as_ref();
        table.add([
            ("STGPOOL_NAME", pool.name.as_str().into()),
            ("POOLTYPE", (if pool.is_copy { "COPY" } else { "PRIMARY" }).into()),
            ("DEVCLASS", device(&pool).into()),
            ("STG_TYPE", (if volumes.is_some() { "DEVCLASS" } else { "DIRECTORY" }).into()),
            ("EST_CAPACITY_MB", pool.bytes_max.map_or(Value::Missing, megabytes)),
            ("SPACE_USED_MB", megabytes(pool.bytes)),
            ("PCT_UTILIZED", used.clone()),
            ("PCT_MIGR", used),
            ("HIGHMIG", u64::from(pool.high_percent).into()),
            ("LOWMIG", u64::from(pool.low_percent).into()),
            ("NEXTSTGPOOL", pool.next.clone().into()),
            ("ACCESS", (if pool.is_available { "READWRITE" } else { "UNAVAILABLE" }).into()),
            ("COLLOCATE", volumes.map(|volumes| volumes.collocation.word().to_uppercase()).into()),
            ("RECLAIM", volumes.map(|volumes| u64::from(volumes.reclaim_percent)).into()),
            ("NUMSCRATCHUSED", volumes.map(|volumes| volumes.volumes).into()),
            ("REUSEDELAY", volumes.map(|volumes| u64::from(volumes.reuse_delay_days)).into()),
            ("MIGDELAY", u64::from(pool.delay_days).into()),
            ("CRCDATA", "YES".into()),
            ("DEDUPLICATE", "YES".into()),
            ("URL", pool.url.as_str().into()),
            ("MISSING_MB", megabytes(pool.missing_bytes)),
        ]);
    }
    Ok(())
}

/// Returns the counterpart of TSM's device class: the library, or the kind of the place.
fn device(pool: &Pool) -> String {
    match &pool.volume_use {
        Some(volumes) => volumes.library.clone(),
        None => pool.url.split(':').next().unwrap_or_default().to_uppercase(),
    }
}

fn all_volumes(admin: &mut Admin) -> Result<Vec<Volume>, CommandError> {
    Ok(admin.volumes(&VolumeFilter::default())?)
}

/// Adds the volumes of pools. A scratch volume belongs to none, and is in LIBVOLUMES only.
pub(super) fn volumes(table: &mut Table, admin: &mut Admin) -> Result<(), CommandError> {
    for volume in all_volumes(admin)? {
        let Some(pool) = &volume.pool else { continue };
        let written = Some(volume.written_bytes);
        let is_full = volume.state == VolumeState::Full;
        let dead = volume.written_bytes.saturating_sub(volume.live_bytes);
        let pending = if volume.state == VolumeState::Pending { volume.changed } else { None };
        // The capacity of a volume is known only after it is full.
        let capacity = if is_full { megabytes(volume.written_bytes) } else { Value::Missing };
        let used = if is_full { percent(volume.live_bytes, written) } else { Value::Missing };
        table.add([
            ("VOLUME_NAME", volume.name.as_str().into()),
            ("STGPOOL_NAME", pool.as_str().into()),
            ("DEVCLASS_NAME", volume.library.as_str().into()),
            ("EST_CAPACITY_MB", capacity),
            ("PCT_UTILIZED", used),
            ("STATUS", volume.state.word().to_uppercase().into()),
            ("ACCESS", access(volume.access).into()),
            ("PCT_RECLAIM", percent(dead, written)),
            ("SCRATCH", "YES".into()),
            ("ERROR_STATE", yes_or_no(volume.errors > 0)),
            ("WRITE_ERRORS", volume.errors.into()),
            ("PENDING_DATE", optional_time(pending)),
            ("LOCATION", volume.location.clone().into()),
            ("CHG_TIME", optional_time(volume.changed)),
            ("COLLOCGROUP_NAME", volume.group.clone().into()),
        ]);
    }
    Ok(())
}

fn access(access: VolumeAccess) -> String {
    access.word().replace('-', "").to_uppercase()
}

/// Returns the libraries, with their elements where their changers answer.
fn inventories(admin: &mut Admin) -> Result<Vec<Library>, CommandError> {
    match admin.libraries(None, true) {
        Ok(libraries) => Ok(libraries),
        Err(_) => Ok(admin.libraries(None, false)?),
    }
}

pub(super) fn library_volumes(table: &mut Table, admin: &mut Admin) -> Result<(), CommandError> {
    let mut homes: BTreeMap<(String, String), u64> = BTreeMap::new();
    for library in inventories(admin)? {
        for element in library.elements.iter().filter(|element| element.kind == ElementKind::Slot) {
            if let Some(barcode) = &element.barcode {
                let place = (library.name.clone(), barcode.clone());
                homes.insert(place, u64::from(element.address));
            }
        }
    }
    for volume in all_volumes(admin)? {
        if volume.access == VolumeAccess::Offsite {
            continue;
        }
        let is_scratch = volume.state == VolumeState::Scratch;
        let home = homes.get(&(volume.library.clone(), volume.name.clone())).copied();
        table.add([
            ("LIBRARY_NAME", volume.library.into()),
            ("VOLUME_NAME", volume.name.into()),
            ("STATUS", (if is_scratch { "Scratch" } else { "Private" }).into()),
            ("LAST_USE", (if is_scratch { None } else { Some("Data") }).into()),
            ("HOME_ELEMENT", home.into()),
        ]);
    }
    Ok(())
}

pub(super) fn libraries(table: &mut Table, admin: &mut Admin) -> Result<(), CommandError> {
    for library in admin.libraries(None, false)? {
        let (kind, device) = match library.place {
            LibraryPlace::Changer { address } => ("SCSI", address),
            LibraryPlace::Folder { path, .. } => ("FILE", path),
        };
        table.add([
            ("LIBRARY_NAME", library.name.into()),
            ("LIBRARY_TYPE", kind.into()),
            ("DEVICE", device.into()),
            ("SHARED", "NO".into()),
            ("MOUNTRETENTION", u64::from(library.retain_secs).into()),
            ("MOUNTLIMIT", library.mounts_max.map(u64::from).into()),
            ("PROBLEM", library.problem.into()),
        ]);
    }
    Ok(())
}

/// Returns true if a drive can be used.
fn is_online(state: DriveState) -> bool {
    !matches!(state, DriveState::Failed | DriveState::Away | DriveState::Unknown)
}

pub(super) fn drives(table: &mut Table, admin: &mut Admin) -> Result<(), CommandError> {
    for library in admin.libraries(None, false)? {
        for drive in library.drives {
            let state = if drive.volume.is_some() { "LOADED" } else { "EMPTY" };
            let state = if is_online(drive.state) { state } else { "UNAVAILABLE" };
            table.add([
                ("LIBRARY_NAME", library.name.as_str().into()),
                ("DRIVE_NAME", drive.address.to_string().into()),
                ("DEVICE_TYPE", drive.product.into()),
                ("ONLINE", yes_or_no(is_online(drive.state))),
                ("ELEMENT", u64::from(drive.address).into()),
                ("DRIVE_STATE", state.into()),
                ("VOLUME_NAME", drive.volume.into()),
                ("DRIVE_SERIAL", drive.serial.into()),
                ("PROBLEM", drive.problem.into()),
            ]);
        }
    }
    Ok(())
}

pub(super) fn paths(table: &mut Table, admin: &mut Admin) -> Result<(), CommandError> {
    for library in admin.libraries(None, false)? {
        let device = match &library.place {
            LibraryPlace::Changer { address } => address,
            LibraryPlace::Folder { path, .. } => path,
        };
        table.add([
            ("SOURCE_NAME", SERVER.into()),
            ("SOURCE_TYPE", "SERVER".into()),
            ("DESTINATION_NAME", library.name.as_str().into()),
            ("DESTINATION_TYPE", "LIBRARY".into()),
            ("DEVICE", device.as_str().into()),
            ("ONLINE", yes_or_no(library.away_since.is_none())),
        ]);
        for (drive, address) in library.drives.iter().zip(&library.drive_addresses) {
            table.add([
                ("SOURCE_NAME", SERVER.into()),
                ("SOURCE_TYPE", "SERVER".into()),
                ("DESTINATION_NAME", drive.address.to_string().into()),
                ("DESTINATION_TYPE", "DRIVE".into()),
                ("LIBRARY_NAME", library.name.as_str().into()),
                ("DEVICE", address.as_str().into()),
                ("ONLINE", yes_or_no(is_online(drive.state))),
            ]);
        }
    }
    Ok(())
}

pub(super) fn mounts(table: &mut Table, admin: &mut Admin) -> Result<(), CommandError> {
    for library in admin.libraries(None, false)? {
        for drive in library.drives {
            let Some(volume) = drive.volume else { continue };
            let status = match drive.state {
                DriveState::Mounting => "RESERVED",
                DriveState::Reading | DriveState::Writing => "IN USE",
                _ => "IDLE",
            };
            table.add([
                ("VOLUME_NAME", volume.into()),
                ("LIBRARY_NAME", library.name.as_str().into()),
                ("DRIVE_NAME", drive.address.to_string().into()),
                ("STATUS", status.into()),
            ]);
        }
    }
    Ok(())
}

pub(super) fn requests(table: &mut Table, admin: &mut Admin) -> Result<(), CommandError> {
    for request in admin.tape_queue(None)? {
        let node = request.requester.as_ref().map(|requester| requester.node.clone());
        let user = request.requester.as_ref().map(|requester| u64::from(requester.uid));
        table.add([
            ("REQUEST_ID", request.number.into()),
            ("KIND", request.kind.word().into()),
            ("NODE_NAME", node.into()),
            ("USER_ID", user.into()),
            ("PROGRAM", request.program.into()),
            ("VOLUME_NAME", request.volume.into()),
            ("PACKS", request.packs.into()),
            ("PACKS_DONE", request.packs_done.into()),
            ("AHEAD", request.ahead.into()),
            ("ESTIMATE_SECONDS", request.estimate.map(|estimate| estimate.as_secs()).into()),
            ("SINCE", time(request.since)),
        ]);
    }
    Ok(())
}
