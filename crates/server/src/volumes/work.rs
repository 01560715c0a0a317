//! Volumes labelled and changed by an administrator.

use std::time::Duration;

use catalog::{VolumeAccess, VolumeRow, VolumeState};
use format::volume::{BLOCK_BYTES_MAX, BLOCK_BYTES_MIN, VolumeName};
use tape::schedule::{Absence, VolumeId};
use tape::scsi::ElementKind;
use tape::volume::Overwrite;
use tonic::Status;
use wire::proto;
use wire::proto::set_volume_request::Change;

use super::Volumes;
use super::choose::BLOCK_BYTES;
use super::listing::{access_of, access_word};
use super::site::{Site, absence, is_same, known};

/// What is being read or written is waited for so long: a filemark comes every few gigabytes.
const IN_USE_MAX: Duration = Duration::from_secs(300);

impl Volumes {
    /// Labels volumes, and tells of each; those that have a label of this program's only where they
    /// are to be overwritten and the server does not know them.
    pub(crate) fn label_all(
        &self,
        request: &proto::LabelVolumesRequest,
        tell: &mut dyn FnMut(proto::LabelVolumesReply) -> bool,
    ) -> Result<(), Status> {
        let site = self.site(&request.library).map_err(Status::not_found)?;
        let block_bytes = match request.block_bytes {
            0 => BLOCK_BYTES,
            bytes if (BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(&bytes) => bytes,
            _ => {
                let message =
                    format!("a block has from {BLOCK_BYTES_MIN} to {BLOCK_BYTES_MAX} bytes");
                return Err(Status::invalid_argument(message));
            }
        };
        let overwrite = if request.overwrite { Overwrite::Ours } else { Overwrite::Nothing };
        let names = self.to_label(&site, &request.volumes)?;
        let is_all = request.volumes.is_empty();
        for text in names {
            let problem = match self.label_one(&site, &text, block_bytes, overwrite) {
                Ok(()) => String::new(),
                // Whoever wants all that are blank does not mind those that are not.
                Err(_) if is_all => continue,
                Err(status) => status.message().to_owned(),
            };
            if !tell(proto::LabelVolumesReply { volume: text, problem }) {
                return Err(Status::cancelled("it was cancelled"));
            }
        }
        Ok(())
    }

    fn label_one(
        &self,
        site: &Site,
        text: &str,
        block_bytes: u32,
        overwrite: Overwrite,
    ) -> Result<(), Status> {
        let name = VolumeName::new(text);
        let name = name.map_err(|error| Status::invalid_argument(format!("{text}: {error}")))?;
        let known = self.find_row(Some(&site.name), text);
        if let Some(row) = known.as_ref().filter(|row| row.name != text) {
            let message = format!("{text}: it is called {}", row.name);
            return Err(Status::invalid_argument(message));
        }
        if known.is_some_and(|row| row.state != VolumeState::Scratch) {
            let message = format!("{text}: it is in use, see 'holdfast admin volume list {text}'");
            return Err(Status::failed_precondition(message));
        }
        self.label(site, &name, ("", block_bytes), overwrite).map(drop)
    }

    /// The volumes named, or all that the library has and the server does not know.
    fn to_label(&self, site: &Site, named: &[String]) -> Result<Vec<String>, Status> {
        if !named.is_empty() {
            return Ok(named.to_vec());
        }
        let operator = site.operator().map_err(Status::failed_precondition)?;
        let listed = operator.with_library(|library| {
            let refreshed = library.refresh();
            refreshed.map(|()| library.volumes())
        });
        let listed = listed.ok_or_else(|| {
            Status::invalid_argument("name the volumes that are to be made in the folder")
        })?;
        let listed = listed.map_err(|error| Status::unavailable(model::chain(&error)))?;
        let is_in_slot = |kind| matches!(kind, ElementKind::Slot | ElementKind::Drive);
        let unknown = listed
            .into_iter()
            .filter(|volume| !volume.is_cleaning && is_in_slot(volume.kind))
            .map(|volume| volume.name.to_string())
            .filter(|name| self.find_row(Some(&site.name), name).is_none());
        Ok(unknown.collect())
    }

    fn named(&self, library: Option<&str>, name: &str) -> Vec<VolumeRow> {
        let is_it = |row: &&VolumeRow| {
            is_same(&row.name, name) && library.is_none_or(|library| is_same(&row.library, library))
        };
        self.rows().values().filter(is_it).cloned().collect()
    }

    pub(super) fn find_row(&self, library: Option<&str>, name: &str) -> Option<VolumeRow> {
        self.named(library, name).into_iter().next()
    }

    /// The one volume of this name.
    pub(crate) fn find(&self, library: &str, name: &str) -> Result<VolumeRow, Status> {
        let found = self.named(Some(library).filter(|library| !library.is_empty()), name);
        match &found[..] {
            [row] => Ok(row.clone()),
            [] => Err(Status::not_found(format!(
                "there is no volume {name}; 'holdfast admin volume list' shows all"
            ))),
            _ => Err(Status::invalid_argument(format!(
                "several libraries have a volume {name}; say which with --library"
            ))),
        }
    }

    /// Changes what may be done with a volume, or where it is.
    pub(crate) fn set(
        &self,
        request: &proto::SetVolumeRequest,
    ) -> Result<proto::VolumeInfo, Status> {
        let row = self.find(&request.library, &request.volume)?;
        let site = self.site(&row.library).map_err(Status::not_found)?;
        let change = request.change.as_ref();
        let row = match change.ok_or_else(|| crate::refusal::malformed("no change"))? {
            Change::Access(word) => self.set_access(row, word)?,
            Change::Offsite(location) => self.take_offsite(&site, row, location)?,
            Change::Onsite(_) => self.take_onsite(&site, row)?,
            Change::Remove(_) => return self.remove(&site, &row),
        };
        self.announce(&site, &row);
        let details = format!("{}: {}", row.name, access_word(row.access));
        self.event_of("volume changed", details)?;
        self.describe_volume(&row)
    }

    /// Tells the queue whether the volume can be had.
    fn announce(&self, site: &Site, row: &VolumeRow) {
        self.forget_failures();
        if let Ok(operator) = &site.operator {
            match absence(row.access) {
                Some(absence) => operator.volume_absent(VolumeId(row.id), absence),
                None => operator.volume_present(VolumeId(row.id)),
            }
        }
    }

    fn set_access(&self, row: VolumeRow, word: &str) -> Result<VolumeRow, Status> {
        let access = access_of(word).filter(|access| *access != VolumeAccess::Offsite);
        let access = access.ok_or_else(|| {
            Status::invalid_argument(format!(
                "{word}: say read-write, read-only, unavailable or destroyed"
            ))
        })?;
        self.change(row.id, Vec::new(), |row| {
            row.access = access;
            if access == VolumeAccess::ReadWrite {
                row.errors = 0;
            }
            if absence(access).is_none() {
                row.location.clear();
            }
        })
    }

    /// What is offsite is written no more until it is back: it is closed.
    fn take_offsite(
        &self,
        site: &Site,
        row: VolumeRow,
        location: &str,
    ) -> Result<VolumeRow, Status> {
        if row.access == VolumeAccess::Offsite {
            return Err(Status::failed_precondition(format!("{} is offsite already", row.name)));
        }
        let operator = site.operator().map_err(Status::failed_precondition)?;
        let known = known(&row).map_err(Status::internal)?;
        let moved = if operator.set_aside(&known, Absence::Offsite, IN_USE_MAX) {
            self.move_volume(site, &known.name, true)
        } else {
            Err(Status::aborted(format!("{} is in use; try again in a while", row.name)))
        };
        if let Err(status) = moved {
            self.announce(site, &row);
            return Err(status);
        }
        self.change(row.id, Vec::new(), |row| {
            row.access = VolumeAccess::Offsite;
            location.clone_into(&mut row.location);
        })
    }

    fn take_onsite(&self, site: &Site, row: VolumeRow) -> Result<VolumeRow, Status> {
        if row.access != VolumeAccess::Offsite {
            let message = format!("{} is {}, not offsite", row.name, access_word(row.access));
            return Err(Status::failed_precondition(message));
        }
        let name = VolumeName::new(&row.name).map_err(|e| Status::internal(e.to_string()))?;
        if site.is_folder() {
            let operator = site.operator().map_err(Status::failed_precondition)?;
            let is_there = operator.with_stock(|stock| match stock {
                tape::operator::Stock::Folder { volumes, .. } => volumes.medium(&name).is_ok(),
                tape::operator::Stock::Library(_) => true,
            });
            if !is_there {
                let message = format!("{name} is not in its folder; put the file back first");
                return Err(Status::failed_precondition(message));
            }
        } else {
            self.move_volume(site, &name, false)?;
        }
        self.change(row.id, Vec::new(), |row| {
            // What has come back is not added to: what it holds was meant to be away.
            let is_used = matches!(row.state, VolumeState::Filling | VolumeState::Full);
            row.access = if is_used { VolumeAccess::ReadOnly } else { VolumeAccess::ReadWrite };
            row.location.clear();
        })
    }

    /// Forgets a volume that holds nothing; of a folder its file goes.
    fn remove(&self, site: &Site, row: &VolumeRow) -> Result<proto::VolumeInfo, Status> {
        let described = self.describe_volume(row)?;
        if described.live_bytes > 0 {
            return Err(Status::failed_precondition(format!(
                "{} holds packs that are needed; 'holdfast admin volume move {}' moves them off it",
                row.name, row.name
            )));
        }
        self.catalog
            .remove_volume(row.id)
            .map_err(|error| crate::refusal::catalog(&error))?;
        self.rows().remove(&row.id);
        if let Ok(operator) = &site.operator {
            operator.forget(VolumeId(row.id));
        }
        if site.is_folder()
            && let (Ok(operator), Ok(name)) = (&site.operator, VolumeName::new(&row.name))
        {
            operator.with_stock(|stock| {
                if let tape::operator::Stock::Folder { volumes, .. } = stock
                    && let Err(error) = volumes.remove(&name)
                {
                    tracing::warn!(%name, %error, "the file of a volume stays");
                }
            });
        }
        self.event_of("volume removed", row.name.clone())?;
        Ok(described)
    }
}
