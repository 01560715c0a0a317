//! Libraries, volumes and the queue of readers, as administrators see them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use catalog::{LibraryRow, VolumeAccess, VolumeRow};
use model::ServerTime;
use tape::library::{Library, LibraryError};
use tape::operator::DriveStatus;
use tape::scsi::Element;

use super::holdings::Volumes;
use super::site::{Site, is_same};
use super::wait::{Reader, Wait};
use crate::error::StoreError;

/// Returns the word for an access in messages.
pub(crate) fn access_word(access: VolumeAccess) -> &'static str {
    match access {
        VolumeAccess::ReadWrite => "read-write",
        VolumeAccess::ReadOnly => "read-only",
        VolumeAccess::Offsite => "offsite",
        VolumeAccess::Unavailable => "unavailable",
        VolumeAccess::Destroyed => "destroyed",
    }
}

/// A library with the state of its devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LibrarySummary {
    pub row: LibraryRow,
    /// The reason why the library cannot be used.
    pub problem: Option<String>,
    /// Time since which the library cannot be used, because it or its changer is away.
    pub away_since: Option<ServerTime>,
    /// Drives of the library; for a folder, only the drives that are in use.
    pub drives: Vec<DriveSummary>,
    /// The elements of a changer, if an inventory was asked for.
    pub elements: Vec<Element>,
}

/// A library or a drive that does not answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LibraryOutage {
    pub library: String,
    /// Element address of the drive; `None` if nothing in the library can be used.
    pub drive: Option<u16>,
    pub since: ServerTime,
}

/// Errors at a drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveErrors {
    pub library: String,
    /// Element address of the drive, or its number if the library is a folder.
    pub drive: u16,
    /// Number of errors since the server opened the library.
    pub errors: u64,
}

/// A drive of a library.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveSummary {
    /// Element address of the drive, or its number if the library is a folder.
    pub address: u16,
    /// Model of the drive; `None` if the library is a folder.
    pub product: Option<String>,
    pub serial: Option<String>,
    pub volume: Option<String>,
    pub state: DriveState,
    /// The reason why the drive has failed or is away.
    pub problem: Option<String>,
    /// Time since which the connection to the drive is away.
    pub away_since: Option<ServerTime>,
    pub wants_cleaning: bool,
    /// Number of errors at the drive since the server opened the library.
    pub errors: u64,
}

/// State of a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DriveState {
    Empty,
    Mounting,
    /// A volume is mounted, and nobody uses it.
    Idle,
    Reading,
    Writing,
    Failed,
    /// The connection to the drive is away. It is made again by itself.
    Away,
}

/// A volume with its pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeSummary {
    pub row: VolumeRow,
    /// Name of the pool that the volume belongs to.
    pub pool: Option<String>,
    /// Size of the needed packs on the volume.
    pub live_bytes: u64,
}

impl VolumeSummary {
    fn key(&self) -> VolumeKey {
        VolumeKey { library: self.row.library.clone(), name: self.row.name.clone() }
    }
}

/// Key by which lists of volumes are sorted: the library, then the name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct VolumeKey {
    pub library: String,
    pub name: String,
}

/// A filter of volumes. A field that is `None` lets all volumes pass.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VolumeFilter {
    pub library: Option<String>,
    pub pool: Option<String>,
    pub volume: Option<String>,
}

/// A wait of a reader in the queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueEntry {
    pub number: u64,
    pub reader: Reader,
    pub since: ServerTime,
    /// Name of the volume of the last request.
    pub volume: Option<String>,
    pub packs: u32,
    pub packs_done: u32,
    /// Number of requests for the same volume that are served before the last request.
    pub ahead: u32,
    /// Estimated time until the last request is served.
    pub estimate: Option<Duration>,
}

impl Volumes {
    /// Lists the library `name`, or all libraries sorted by name.
    pub fn libraries(
        &self,
        name: Option<&str>,
        has_inventory: bool,
    ) -> Result<Vec<LibrarySummary>, StoreError> {
        let mut sites = match name {
            Some(name) => vec![self.site(name)?],
            None => self.sites(),
        };
        sites.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(sites.iter().map(|site| self.describe_library(site, has_inventory)).collect())
    }

    /// Lists the drives of all changers with their errors, and those of folders that had some. No
    /// device is asked.
    pub fn drive_errors(&self) -> Vec<DriveErrors> {
        let mut all = Vec::new();
        for site in self.sites() {
            let Ok(operator) = &site.operator else { continue };
            let drives = operator.drives().into_iter();
            let shown = drives.filter(|drive| drive.errors > 0 || !site.is_folder());
            all.extend(shown.map(|drive| DriveErrors {
                library: site.name.clone(),
                drive: drive.address,
                errors: drive.errors,
            }));
        }
        all.sort_unstable_by(|a, b| (&a.library, a.drive).cmp(&(&b.library, b.drive)));
        all
    }

    /// Lists the libraries and drives that do not answer.
    pub fn outages(&self) -> Vec<LibraryOutage> {
        let mut outages = Vec::new();
        for site in self.sites() {
            let mut note = |drive, since| {
                outages.push(LibraryOutage { library: site.name.clone(), drive, since });
            };
            match &site.operator {
                Err(_) => site.fault_since.into_iter().for_each(|since| note(None, since)),
                Ok(operator) => {
                    if let Some(outage) = operator.outage() {
                        note(None, outage.since);
                        continue;
                    }
                    for drive in operator.drives() {
                        if let Some(outage) = drive.outage {
                            note(Some(drive.address), outage.since);
                        }
                    }
                }
            }
        }
        outages.sort_by(|a, b| (&a.library, a.drive).cmp(&(&b.library, b.drive)));
        outages
    }

    pub(crate) fn describe_library(&self, site: &Site, has_inventory: bool) -> LibrarySummary {
        let mut info = LibrarySummary {
            row: site.row(),
            problem: None,
            away_since: site.fault_since,
            drives: Vec::new(),
            elements: Vec::new(),
        };
        match &site.operator {
            Err(fault) => info.problem = Some(fault.to_string()),
            Ok(operator) => {
                info.drives = operator.drives().iter().map(drive).collect();
                if let Some(outage) = operator.outage() {
                    // The changer is not asked: its answer would have to be waited for.
                    info.problem = Some(format!("the changer does not answer: {}", outage.reason));
                    info.away_since = Some(outage.since);
                    return info;
                }
                if site.is_folder() {
                    info.drives.retain(|drive| drive.state != DriveState::Empty);
                    return info;
                }
                // Without an inventory, nobody waits for a changer that moves a cartridge.
                let added = match has_inventory {
                    true => operator.with_library(|library| add_devices(library, &mut info, true)),
                    false => {
                        operator.with_idle_library(|library| add_devices(library, &mut info, false))
                    }
                };
                if let Some(Err(error)) = added {
                    info.problem = Some(model::chain(&error));
                }
            }
        }
        info
    }

    /// Lists at most `limit` volumes that pass the filter, sorted by library and name, from `from`
    /// on. Fails if the filter names a volume that does not pass or does not exist.
    pub fn list(
        &self,
        filter: &VolumeFilter,
        from: &VolumeKey,
        limit: usize,
    ) -> Result<Vec<VolumeSummary>, StoreError> {
        let live = self.catalog.volume_bytes()?;
        let pools = self.catalog.pools()?;
        let passes = |name: &Option<String>, value: &str| {
            name.as_ref().is_none_or(|name| is_same(name, value))
        };
        let mut volumes: Vec<VolumeSummary> = Vec::new();
        for row in self.rows().values() {
            let pool = pools.iter().find(|pool| Some(pool.id) == row.pool);
            let pool = pool.map(|pool| pool.name.clone());
            if passes(&filter.library, &row.library)
                && passes(&filter.pool, pool.as_deref().unwrap_or_default())
                && passes(&filter.volume, &row.name)
            {
                volumes.push(describe(row, pool, &live));
            }
        }
        if let Some(name) = filter.volume.as_ref().filter(|_| volumes.is_empty()) {
            return Err(StoreError::not_found(format!("there is no volume {name}")));
        }
        volumes.sort_by_cached_key(VolumeSummary::key);
        let first = volumes.partition_point(|volume| volume.key() < *from);
        Ok(volumes.into_iter().skip(first).take(limit).collect())
    }

    pub(crate) fn describe_volume(&self, row: &VolumeRow) -> Result<VolumeSummary, StoreError> {
        let (library, volume) = (Some(row.library.clone()), Some(row.name.clone()));
        let filter = VolumeFilter { library, volume, pool: None };
        let mut volumes = self.list(&filter, &VolumeKey::default(), 1)?;
        volumes
            .pop()
            .ok_or_else(|| StoreError::not_found(format!("there is no volume {}", row.name)))
    }

    /// Lists the waits of readers. First cancels the wait with the number `cancel`, if given.
    pub fn queue(&self, cancel: Option<u64>) -> Result<Vec<QueueEntry>, StoreError> {
        let waits = self.waits.all();
        if let Some(number) = cancel {
            let wait = waits.get(&number).ok_or_else(|| {
                StoreError::not_found(format!(
                    "no request has the number {number}; 'holdfast admin queue' shows all"
                ))
            })?;
            wait.is_cancelled.store(true, Ordering::Relaxed);
        }
        let describe = |(number, wait): (&u64, &Arc<Wait>)| self.describe_wait(*number, wait);
        Ok(waits.iter().map(describe).collect())
    }

    /// Lists the waits of the readers of the node with this name.
    pub fn queue_of(&self, node: &str) -> Vec<QueueEntry> {
        let own = self.waits.of_node(node);
        own.iter().map(|(number, wait)| self.describe_wait(*number, wait)).collect()
    }

    fn describe_wait(&self, number: u64, wait: &Wait) -> QueueEntry {
        let last = wait.last();
        let forecast = last.as_ref().and_then(|request| {
            let site = self.site(&request.library).ok()?;
            site.operator.as_ref().ok()?.forecast(request.waiter)
        });
        let ahead = forecast.map_or(0, |forecast| forecast.ahead);
        QueueEntry {
            number,
            reader: wait.reader.clone(),
            since: wait.since,
            volume: last.map(|request| request.volume),
            packs: wait.packs.load(Ordering::Relaxed),
            packs_done: wait.packs_done.load(Ordering::Relaxed),
            ahead: u32::try_from(ahead).unwrap_or(u32::MAX),
            estimate: forecast.map(|forecast| forecast.served_at),
        }
    }
}

fn drive(status: &DriveStatus) -> DriveSummary {
    let state = match status {
        DriveStatus { outage: Some(_), .. } => DriveState::Away,
        DriveStatus { problem: Some(_), .. } => DriveState::Failed,
        DriveStatus { volume: None, is_idle: true, .. } => DriveState::Empty,
        DriveStatus { volume: None, .. } => DriveState::Mounting,
        DriveStatus { is_idle: true, .. } => DriveState::Idle,
        DriveStatus { is_writing: true, .. } => DriveState::Writing,
        _ => DriveState::Reading,
    };
    DriveSummary {
        address: status.address,
        product: None,
        serial: None,
        volume: status.volume.as_ref().map(ToString::to_string),
        state,
        problem: match &status.outage {
            Some(outage) => Some(outage.reason.clone()),
            None => status.problem.clone(),
        },
        away_since: status.outage.as_ref().map(|outage| outage.since),
        wants_cleaning: false,
        errors: status.errors,
    }
}

/// Adds the data that a changer and its drives report about themselves.
fn add_devices(
    library: &mut Library,
    info: &mut LibrarySummary,
    has_inventory: bool,
) -> Result<(), LibraryError> {
    for listed in library.drives() {
        let drive = info.drives.iter_mut().find(|drive| drive.address == listed.address);
        if let Some(drive) = drive {
            drive.product = Some(listed.product);
            drive.serial = Some(listed.serial);
            drive.wants_cleaning = listed.wants_cleaning;
        }
    }
    if has_inventory {
        library.refresh()?;
        info.elements = library.elements().to_vec();
    }
    Ok(())
}

fn describe(row: &VolumeRow, pool: Option<String>, live: &BTreeMap<u64, u64>) -> VolumeSummary {
    VolumeSummary { row: row.clone(), pool, live_bytes: live.get(&row.id).copied().unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use format::volume::VolumeName;

    use super::*;

    #[test]
    fn a_drive_has_one_state() {
        let name = || VolumeName::new("A00001").ok();
        let check = |volume, is_idle, is_writing, problem: Option<&str>, expected| {
            let problem = problem.map(str::to_owned);
            let (address, errors, outage) = (7, 0, None);
            let status =
                DriveStatus { address, volume, is_idle, is_writing, problem, errors, outage };
            assert_eq!(drive(&status).state, expected);
        };
        check(None, true, false, None, DriveState::Empty);
        check(None, false, false, None, DriveState::Mounting);
        check(name(), true, false, None, DriveState::Idle);
        check(name(), false, false, None, DriveState::Reading);
        check(name(), false, true, None, DriveState::Writing);
        check(name(), false, true, Some("no answer"), DriveState::Failed);
    }
}
