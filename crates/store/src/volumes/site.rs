//! Sites: the libraries that the server uses, each with its operator.

use std::path::Path;
use std::time::Duration;
use sys::lock::Mutex;

use catalog::{LibraryRow, VolumeAccess, VolumeRow, VolumeState};
use format::volume::{VolumeId as LabelId, VolumeName};
use model::ServerTime;
use sys::durable::Lock;
use tape::address::{self, Address};
use tape::file_volume::FileVolumes;
use tape::generation::{DriveModel, LTO7, LTO8, LTO9};
use tape::geometry::Geometry;
use tape::library::Library;
use tape::operator::{Listener, Operator, Stock, VolumeRef};
use tape::schedule::{Absence, Config, Schedule, VolumeId};
use tape::timing::Timing;

use super::error::{InvalidName, LibraryError, SiteFault};

/// Maximum rate at which a host takes data from a drive: 10 Gbit/s.
const HOST_BYTES_PER_SEC: u64 = 1_250_000_000;
/// Number of volumes of a folder that are used at once by default.
const FOLDER_DRIVES: usize = 4;
/// Maximum number of volumes of a folder that are used at once.
const FOLDER_DRIVES_MAX: u32 = 16;

/// A library of the server. A library without an operator cannot be used now.
pub(crate) struct Site {
    pub name: String,
    row: Mutex<LibraryRow>,
    pub operator: Result<Operator, SiteFault>,
    /// Time since which there is no operator.
    pub fault_since: Option<ServerTime>,
    _lock: Option<Lock>,
}

impl Site {
    /// Opens the library. If the library cannot be used, keeps the reason for later callers.
    pub(crate) fn open(row: LibraryRow, volumes: &[VolumeRow], listener: Listener) -> Self {
        let opened = begin(&row).and_then(|(stock, lock)| {
            let schedule = schedule(&row, &stock);
            let operator = Operator::start(schedule, stock, listener);
            let broken = |error| SiteFault::broken("the operator of the drives", &error);
            operator.map(|operator| (operator, lock)).map_err(broken)
        });
        match opened {
            Ok((operator, lock)) => {
                introduce(&operator, &row, volumes);
                Self {
                    name: row.name.clone(),
                    row: Mutex::new(row),
                    operator: Ok(operator),
                    fault_since: None,
                    _lock: lock,
                }
            }
            Err(fault) => {
                tracing::error!(library = row.name, %fault, "a library cannot be used");
                Self {
                    name: row.name.clone(),
                    row: Mutex::new(row),
                    operator: Err(fault),
                    fault_since: Some(sys::clock::now()),
                    _lock: None,
                }
            }
        }
    }

    pub(crate) fn row(&self) -> LibraryRow {
        self.row.lock().clone()
    }

    /// Applies the settings of `row`.
    pub(crate) fn configure(&self, row: LibraryRow) {
        if let Ok(operator) = &self.operator {
            let drives = operator.with_stock(|stock| drives_used(&row, stock));
            let retain = Duration::from_secs(row.retain_secs.into());
            operator.configure(drives, retain, row.optimised_only);
        }
        *self.row.lock() = row;
    }

    /// Fails with the reason if the folder has no room for a file of `bytes` bytes.
    pub(crate) fn check_room(&self, bytes: u64) -> Result<(), LibraryError> {
        let Some(folder) = self.row().folder else { return Ok(()) };
        if !is_marked(&folder) {
            return Err(self.unusable(SiteFault::Unmounted { folder }));
        }
        match sys::durable::free_bytes(Path::new(&folder)) {
            Ok(free) if free < bytes => Err(self.unusable(SiteFault::Full { folder })),
            Ok(_) => Ok(()),
            Err(error) => Err(self.unusable(SiteFault::broken(folder, &error))),
        }
    }

    /// Returns the number of drives that may write at once.
    pub(crate) fn writers(&self) -> Result<Writers, LibraryError> {
        let row = self.row();
        let drives = self.operator()?.with_stock(|stock| drives_used(&row, stock));
        Ok(writers(row.writers_max, drives))
    }

    pub(crate) fn is_folder(&self) -> bool {
        self.row().folder.is_some()
    }

    /// Returns the operator, or the reason why there is none.
    pub(crate) fn operator(&self) -> Result<&Operator, LibraryError> {
        self.operator.as_ref().map_err(|fault| self.unusable(fault.clone()))
    }

    fn unusable(&self, fault: SiteFault) -> LibraryError {
        LibraryError::Unusable { library: self.name.clone(), fault }
    }
}

/// Tells the operator which volumes are not available, and lets it take over those that are in
/// drives already.
fn introduce(operator: &Operator, row: &LibraryRow, volumes: &[VolumeRow]) {
    let of_library = volumes.iter().filter(|volume| is_same(&volume.library, &row.name));
    let mut there = Vec::new();
    for volume in of_library {
        match absence(volume.access) {
            Some(absence) => operator.volume_absent(VolumeId(volume.id), absence),
            None => there.extend(to_write_or_read(volume)),
        }
    }
    if let Err(error) = operator.take_over(&there) {
        let error = model::chain(&error);
        tracing::warn!(library = row.name, error, "it is not known which volumes are in drives");
    }
}

/// Returns the volume as its operator knows it. The label of a scratch volume is checked when the
/// volume gets its new label.
pub(crate) fn to_write_or_read(row: &VolumeRow) -> Result<VolumeRef, InvalidName> {
    let known = known(row)?;
    Ok(VolumeRef { label: known.label.filter(|_| row.state != VolumeState::Scratch), ..known })
}

/// Returns true for equal names. Upper and lower case are the same.
pub(crate) fn is_same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
}

/// Returns the reason why a volume with this access cannot be read; `None` if it can be read.
pub(crate) fn absence(access: VolumeAccess) -> Option<Absence> {
    match access {
        VolumeAccess::ReadWrite | VolumeAccess::ReadOnly => None,
        VolumeAccess::Offsite => Some(Absence::Offsite),
        VolumeAccess::Unavailable => Some(Absence::Missing),
        VolumeAccess::Destroyed => Some(Absence::Damaged),
    }
}

/// Returns the volume as its operator knows it.
pub(crate) fn known(row: &VolumeRow) -> Result<VolumeRef, InvalidName> {
    let name = VolumeName::new(&row.name);
    Ok(VolumeRef {
        id: VolumeId(row.id),
        name: name.map_err(|source| InvalidName { volume: row.name.clone(), source })?,
        label: Some(LabelId(row.label)),
        block_bytes: row.block_bytes,
    })
}

/// File by which a library's folder differs from a mount point without its disk.
const MARK: &str = "holdfast-library";

/// Marks the folder of a new library.
pub(crate) fn mark(folder: &str) -> std::io::Result<()> {
    sys::durable::write(&Path::new(folder).join(MARK), b"", 0o644)
}

fn is_marked(folder: &str) -> bool {
    std::fs::metadata(Path::new(folder).join(MARK)).is_ok()
}

fn begin(row: &LibraryRow) -> Result<(Stock, Option<Lock>), SiteFault> {
    if let Some(folder) = &row.folder {
        if !is_marked(folder) {
            return Err(SiteFault::Unmounted { folder: folder.clone() });
        }
        let capacity_bytes = row.capacity_bytes.unwrap_or(u64::MAX);
        let volumes = FileVolumes::open(Path::new(folder), capacity_bytes);
        let volumes = volumes.map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => SiteFault::InUse { place: folder.clone() },
            _ => SiteFault::broken(folder, &error),
        })?;
        return Ok((Stock::Folder { volumes, drives: FOLDER_DRIVES_MAX }, None));
    }
    let address =
        |text: &str| text.parse::<Address>().map_err(|error| SiteFault::broken(text, &error));
    let changer = address(row.changer.as_deref().unwrap_or_default())?;
    let lock = address::lock(&changer).map_err(|error| SiteFault::broken(&changer, &error))?;
    let lock = lock.ok_or_else(|| SiteFault::InUse { place: changer.to_string() })?;
    let open =
        |address: &Address| address.open().map_err(|error| SiteFault::broken(address, &error));
    let drives = row.drives.iter().map(|text| open(&address(text)?)).collect::<Result<_, _>>()?;
    let library = Library::open(open(&changer)?, drives);
    let library = library.map_err(|error| SiteFault::broken(&changer, &error))?;
    Ok((Stock::Library(Box::new(library)), Some(lock)))
}

/// Returns the number of drives that are used at once.
fn drives_used(row: &LibraryRow, stock: &Stock) -> usize {
    let (all, usual) = match stock {
        Stock::Folder { drives, .. } => (*drives as usize, FOLDER_DRIVES),
        Stock::Library(library) => (library.drives().len(), usize::MAX),
    };
    let limit = if row.drives_max == 0 { usual } else { row.drives_max as usize };
    limit.min(all).max(1)
}

/// The drives that a run may use for writing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Writers {
    /// Maximum number of drives at once.
    pub max: usize,
    /// True if the administrator has set the number: then a few packs are worth a mount.
    pub is_set: bool,
}

/// Returns the number of drives that may write at once in a library that uses `drives` drives. By
/// default one of several drives is left to readers.
fn writers(writers_max: u32, drives: usize) -> Writers {
    assert!(drives > 0, "a library keeps at least one drive");
    match writers_max {
        0 => Writers { max: (drives - 1).max(1), is_set: false },
        max => Writers { max: drives.min(max as usize), is_set: true },
    }
}

fn schedule(row: &LibraryRow, stock: &Stock) -> Schedule {
    let (timing, model) = match stock {
        Stock::Folder { .. } => (Timing::files(), LTO8),
        Stock::Library(library) => {
            let drives = library.drives();
            let product = drives.first().map(|drive| drive.product.as_str()).unwrap_or_default();
            let model = model(product);
            (Timing::calibrated(&model, HOST_BYTES_PER_SEC), model)
        }
    };
    let config = Config {
        retain: Duration::from_secs(row.retain_secs.into()),
        optimised_only: row.optimised_only,
        ..Config::new(timing, drives_used(row, stock))
    };
    Schedule::new(config, Geometry::even(model.medium))
}

/// Returns the model of a drive by its product name, such as ULT3580-TD8 or Ultrium 9-SCSI.
fn model(product: &str) -> DriveModel {
    let is_of = |generation: char| {
        let marks = ["TD", "HH", "TH", "Ultrium "];
        marks.iter().any(|mark| {
            product
                .find(mark)
                .is_some_and(|at| product[at + mark.len()..].starts_with(generation))
        })
    };
    if is_of('7') {
        LTO7
    } else if is_of('9') {
        LTO9
    } else {
        LTO8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_several_drives_is_left_to_readers_unless_a_number_is_set() {
        let max = |set, drives| writers(set, drives).max;
        assert_eq!([max(0, 1), max(0, 2), max(0, 4)], [1, 1, 3]);
        assert_eq!([max(1, 4), max(4, 4), max(9, 4)], [1, 4, 4]);
    }

    #[test]
    fn drives_are_known_by_their_products() {
        let bytes = |product| model(product).medium.name;
        assert_eq!(bytes("ULT3580-TD7"), "LTO-7");
        assert_eq!(bytes("ULTRIUM-HH9"), "LTO-9");
        assert_eq!(bytes("Ultrium 9-SCSI"), "LTO-9");
        assert_eq!(bytes("VIRTUAL TAPE"), "LTO-8");
    }
}
