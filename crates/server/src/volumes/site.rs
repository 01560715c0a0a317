//! The libraries that the server uses, each with its operator.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use catalog::{LibraryRow, VolumeAccess, VolumeRow};
use format::volume::{VolumeId as LabelId, VolumeName};
use sys::durable::Lock;
use tape::file_volume::FileVolumes;
use tape::generation::{DriveModel, LTO7, LTO8, LTO9};
use tape::geometry::Geometry;
use tape::library::Library;
use tape::operator::{Known, Listener, Operator, Stock};
use tape::schedule::{Absence, Config, Schedule, VolumeId};
use tape::timing::Timing;
use tape::transport::{self, Address};

/// What a host takes from a drive at most: 10 Gbit/s.
const HOST_BYTES_PER_SEC: u64 = 1_250_000_000;
/// Volumes of a folder that are used at once, unless the library says otherwise, and at most.
const FOLDER_DRIVES: usize = 4;
const FOLDER_DRIVES_MAX: u32 = 16;

/// A library that is in use, or cannot be.
pub(crate) struct Site {
    pub(crate) name: String,
    row: Mutex<LibraryRow>,
    pub(crate) operator: Result<Operator, String>,
    _lock: Option<Lock>,
}

impl Site {
    /// Takes over the library. What is wrong with it is kept, and said to who needs it.
    pub(crate) fn open(row: LibraryRow, volumes: &[VolumeRow], listener: Listener) -> Self {
        let opened = begin(&row).and_then(|(stock, lock)| {
            let schedule = schedule(&row, &stock);
            let operator = Operator::start(schedule, stock, listener);
            operator.map(|operator| (operator, lock)).map_err(|error| error.to_string())
        });
        match opened {
            Ok((operator, lock)) => {
                for volume in volumes.iter().filter(|volume| is_same(&volume.library, &row.name)) {
                    if let Some(absence) = absence(volume.access) {
                        operator.volume_absent(VolumeId(volume.id), absence);
                    }
                }
                Self {
                    name: row.name.clone(),
                    row: Mutex::new(row),
                    operator: Ok(operator),
                    _lock: lock,
                }
            }
            Err(problem) => {
                tracing::error!(library = row.name, problem, "a library cannot be used");
                Self {
                    name: row.name.clone(),
                    row: Mutex::new(row),
                    operator: Err(problem),
                    _lock: None,
                }
            }
        }
    }

    pub(crate) fn row(&self) -> LibraryRow {
        self.row.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Goes on as `row` says.
    pub(super) fn configure(&self, row: LibraryRow) {
        if let Ok(operator) = &self.operator {
            let drives = operator.with_stock(|stock| drives_used(&row, stock));
            let retain = Duration::from_secs(row.retain_secs.into());
            operator.configure(drives, retain, row.optimised_only);
        }
        *self.row.lock().unwrap_or_else(PoisonError::into_inner) = row;
    }

    /// Why no file may be made in the folder, if so; `bytes` are to find room.
    pub(super) fn check_room(&self, bytes: u64) -> Result<(), String> {
        let Some(folder) = self.row().folder else { return Ok(()) };
        if !is_marked(&folder) {
            return Err(format!("{folder} is not there; is its disk mounted?"));
        }
        match sys::durable::free_bytes(Path::new(&folder)) {
            Ok(free) if free < bytes => Err(format!("the disk of {folder} is full")),
            Ok(_) => Ok(()),
            Err(error) => Err(format!("{folder}: {error}")),
        }
    }

    pub(crate) fn is_folder(&self) -> bool {
        self.row().folder.is_some()
    }

    /// The operator, or why there is none.
    pub(crate) fn operator(&self) -> Result<&Operator, String> {
        let problem = |problem: &String| format!("library {}: {problem}", self.name);
        self.operator.as_ref().map_err(problem)
    }
}

/// Names of libraries are the same in whatever case.
pub(crate) fn is_same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
}

/// Why a volume with this access is not to be had for reading.
pub(crate) fn absence(access: VolumeAccess) -> Option<Absence> {
    match access {
        VolumeAccess::ReadWrite | VolumeAccess::ReadOnly => None,
        VolumeAccess::Offsite => Some(Absence::Offsite),
        VolumeAccess::Unavailable => Some(Absence::Missing),
        VolumeAccess::Destroyed => Some(Absence::Damaged),
    }
}

/// The volume as its operator knows it.
pub(crate) fn known(row: &VolumeRow) -> Result<Known, String> {
    let name = VolumeName::new(&row.name);
    Ok(Known {
        id: VolumeId(row.id),
        name: name.map_err(|error| format!("{}: {error}", row.name))?,
        label: Some(LabelId(row.label)),
        block_bytes: row.block_bytes,
    })
}

/// What tells a library's folder from a mount point whose disk is away.
const MARK: &str = "holdfast-library";

/// Marks the folder of a new library.
pub(super) fn mark(folder: &str) -> std::io::Result<()> {
    sys::durable::write(&Path::new(folder).join(MARK), b"", 0o644)
}

fn is_marked(folder: &str) -> bool {
    std::fs::metadata(Path::new(folder).join(MARK)).is_ok()
}

fn begin(row: &LibraryRow) -> Result<(Stock, Option<Lock>), String> {
    if let Some(folder) = &row.folder {
        if !is_marked(folder) {
            return Err(format!("{folder} is not there, or not its own; is its disk mounted?"));
        }
        let capacity_bytes = row.capacity_bytes.unwrap_or(u64::MAX);
        let volumes = FileVolumes::open(Path::new(folder), capacity_bytes);
        let volumes = volumes.map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => format!("another process uses {folder}"),
            _ => format!("{folder}: {error}"),
        })?;
        return Ok((Stock::Folder { volumes, drives: FOLDER_DRIVES_MAX }, None));
    }
    let address = |text: &str| text.parse::<Address>().map_err(|error| format!("{text}: {error}"));
    let changer = address(row.changer.as_deref().unwrap_or_default())?;
    let lock = transport::lock(&changer).map_err(|error| format!("{changer}: {error}"))?;
    let lock = lock.ok_or_else(|| "another process uses it".to_owned())?;
    let open = |address: &Address| {
        address
            .open()
            .map_err(|error| format!("{address}: {}", error.to_string().trim_end()))
    };
    let drives = row.drives.iter().map(|text| open(&address(text)?)).collect::<Result<_, _>>()?;
    let library = Library::open(open(&changer)?, drives).map_err(|error| model::chain(&error))?;
    Ok((Stock::Library(Box::new(library)), Some(lock)))
}

/// How many drives are used at once.
fn drives_used(row: &LibraryRow, stock: &Stock) -> usize {
    let (all, usual) = match stock {
        Stock::Folder { drives, .. } => (*drives as usize, FOLDER_DRIVES),
        Stock::Library(library) => (library.drives().len(), usize::MAX),
    };
    let wanted = if row.drives_max == 0 { usual } else { row.drives_max as usize };
    wanted.min(all).max(1)
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

/// The drives' model by what they call themselves, as in ULT3580-TD8 or Ultrium 9-SCSI.
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
    fn drives_are_known_by_their_products() {
        let bytes = |product| model(product).medium.name;
        assert_eq!(bytes("ULT3580-TD7"), "LTO-7");
        assert_eq!(bytes("ULTRIUM-HH9"), "LTO-9");
        assert_eq!(bytes("Ultrium 9-SCSI"), "LTO-9");
        assert_eq!(bytes("VIRTUAL TAPE"), "LTO-8");
    }
}
