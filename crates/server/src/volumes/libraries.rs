//! Libraries made, changed and served by an administrator.

use std::path::Path;
use std::sync::Arc;

use catalog::LibraryRow;
use format::volume::VolumeName;
use tape::library::{Library, LibraryError};
use tape::transport::Address;
use tonic::Status;
use wire::proto;
use wire::proto::serve_library_request::Work;

use super::site::{Site, is_same};
use super::{ADMINISTRATOR, Volumes, library_of, site};
use crate::domains;
use crate::refusal;

const RETAIN_SECS: u32 = 300;
const RETAIN_SECS_MAX: u32 = 86_400;
const DRIVES_MAX: u32 = 256;
/// Less is not even a few blocks.
const CAPACITY_BYTES_MIN: u64 = 1 << 20;

fn failed(error: catalog::CatalogError) -> Status {
    refusal::catalog(&error)
}

fn of_library(error: &LibraryError) -> Status {
    Status::failed_precondition(model::chain(error))
}

impl Volumes {
    pub(super) fn open_site(self: &Arc<Self>, row: LibraryRow) -> Arc<Site> {
        let listener = self.listener(&row.name);
        let volumes: Vec<_> = self.rows().values().cloned().collect();
        Arc::new(Site::open(row, &volumes, listener))
    }

    /// Tries again to take over libraries that could not be used.
    pub(crate) fn look_after_sites(self: &Arc<Self>) {
        for site in self.sites() {
            match &site.operator {
                Ok(operator) if operator.has_drives() => operator.try_again(),
                // The way to the devices may have been cut, and be there again.
                _ => self.replace_site(site),
            }
        }
    }

    /// Opens a library anew that nobody uses.
    fn replace_site(self: &Arc<Self>, before: Arc<Site>) {
        let row = before.row();
        self.sites_mut().retain(|site| !Arc::ptr_eq(site, &before));
        // It keeps others from the library, this process too.
        drop(before);
        let site = self.open_site(row);
        self.sites_mut().push(site);
    }

    /// Makes a library, or changes one.
    pub(crate) fn put_library(
        self: &Arc<Self>,
        request: &proto::PutLibraryRequest,
    ) -> Result<proto::Library, Status> {
        let site = if request.is_new {
            self.add_library(request)?
        } else {
            let site = self.site(&request.name).map_err(Status::not_found)?;
            let row = changed(site.row(), request)?;
            self.catalog.put_library(&row).map_err(failed)?;
            site.configure(row);
            site
        };
        let what = if request.is_new { "library added" } else { "library changed" };
        self.commit(vec![self.event(ADMINISTRATOR, what, site.name.clone())])?;
        Ok(self.describe_library(&site, false))
    }

    fn add_library(
        self: &Arc<Self>,
        request: &proto::PutLibraryRequest,
    ) -> Result<Arc<Site>, Status> {
        domains::check_name(&request.name, "a library")?;
        if self.site(&request.name).is_ok() {
            let message = format!("there is a library {} already", request.name);
            return Err(Status::already_exists(message));
        }
        let row = changed(new_row(request)?, request)?;
        if let Some(folder) = &row.folder {
            let made = std::fs::create_dir_all(folder).and_then(|()| site::mark(folder));
            made.map_err(|error| Status::invalid_argument(format!("{folder}: {error}")))?;
        }
        let site = self.open_site(row.clone());
        if let Err(problem) = &site.operator {
            return Err(Status::failed_precondition(problem.clone()));
        }
        self.catalog.put_library(&row).map_err(failed)?;
        self.sites_mut().push(Arc::clone(&site));
        Ok(site)
    }

    /// Forgets a library that no pool and no volume needs.
    pub(crate) fn remove_library(&self, name: &str) -> Result<proto::Library, Status> {
        let site = self.site(name).map_err(Status::not_found)?;
        let refuse = |message: String| Err(Status::failed_precondition(message));
        let pools = self.catalog.pools().map_err(failed)?;
        let is_of = |url: &str| library_of(url).is_some_and(|library| is_same(library, name));
        if let Some(pool) = pools.iter().find(|pool| is_of(&pool.url)) {
            return refuse(format!("pool {} is in library {name}; remove it first", pool.name));
        }
        if let Some(row) = self.rows().values().find(|row| is_same(&row.library, name)) {
            return refuse(format!(
                "volume {} is of library {name}; 'holdfast admin volume remove' forgets it",
                row.name
            ));
        }
        let described = self.describe_library(&site, false);
        self.catalog.remove_library(name).map_err(failed)?;
        self.sites_mut().retain(|other| !Arc::ptr_eq(other, &site));
        self.commit(vec![self.event(ADMINISTRATOR, "library removed", described.name.clone())])?;
        Ok(described)
    }

    /// What a person at the library wants done.
    pub(crate) fn serve_library(
        &self,
        request: proto::ServeLibraryRequest,
    ) -> Result<proto::Library, Status> {
        let site = self.site(&request.name).map_err(Status::not_found)?;
        let operator = site.operator().map_err(Status::failed_precondition)?;
        let work = request.work.ok_or_else(|| refusal::malformed("no work"))?;
        if let Work::RestoreDrive(address) = work {
            let is_known =
                u16::try_from(address).is_ok_and(|address| operator.restore_drive(address));
            if !is_known {
                let message = format!("drive {address} is not out of service");
                return Err(Status::failed_precondition(message));
            }
            return Ok(self.describe_library(&site, true));
        }
        let done = operator.with_library(|library| carry_out(library, work));
        done.unwrap_or_else(|| {
            let message = format!("library {} is a folder: it has no robot", request.name);
            Err(Status::failed_precondition(message))
        })?;
        Ok(self.describe_library(&site, true))
    }

    /// The volume is in the library again, or has left it.
    pub(super) fn move_volume(
        &self,
        site: &Site,
        name: &VolumeName,
        is_out: bool,
    ) -> Result<(), Status> {
        let operator = site.operator().map_err(Status::failed_precondition)?;
        let moved = operator.with_library(|library| {
            if is_out {
                library.check_out(name).map(drop)
            } else {
                library.check_in_volume(name).map(drop)
            }
        });
        moved.unwrap_or(Ok(())).map_err(|error| of_library(&error))
    }

    pub(super) fn event_of(&self, what: &str, details: String) -> Result<(), Status> {
        self.commit(vec![self.event(ADMINISTRATOR, what, details)])
    }
}

fn carry_out(library: &mut Library, work: Work) -> Result<(), Status> {
    let done = match work {
        Work::CheckIn(_) => library.check_in().map(drop),
        Work::CheckOut(volume) => {
            let name = VolumeName::new(&volume);
            let name =
                name.map_err(|error| Status::invalid_argument(format!("{volume}: {error}")))?;
            library.check_out(&name).map(drop)
        }
        Work::Clean(drive) => library.clean(u16::try_from(drive).unwrap_or(u16::MAX)),
        Work::LookAgain(_) => library.look_again(),
        // That is the operator's, not the robot's.
        Work::RestoreDrive(_) => Ok(()),
    };
    done.map_err(|error| of_library(&error))
}

fn new_row(request: &proto::PutLibraryRequest) -> Result<LibraryRow, Status> {
    let refuse = |message: String| Err(Status::invalid_argument(message));
    let (changer, folder) = (&request.changer, &request.folder);
    if changer.is_empty() == folder.is_empty() {
        return refuse("name either a changer with its drives or a folder".to_owned());
    }
    if !changer.is_empty() && request.drive_addresses.is_empty() {
        return refuse("name the drives too".to_owned());
    }
    if !folder.is_empty() && !Path::new(folder).is_absolute() {
        return refuse(format!("{folder}: give the whole path"));
    }
    for text in request.drive_addresses.iter().chain((!changer.is_empty()).then_some(changer)) {
        text.parse::<Address>()
            .map_err(|error| Status::invalid_argument(format!("{text}: {error}")))?;
    }
    if request.capacity_bytes.is_some_and(|bytes| bytes < CAPACITY_BYTES_MIN) {
        return refuse("a volume takes at least 1 MiB".to_owned());
    }
    let some = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    Ok(LibraryRow {
        name: request.name.clone(),
        changer: some(changer),
        drives: request.drive_addresses.clone(),
        folder: some(folder),
        capacity_bytes: request.capacity_bytes,
        drives_max: 0,
        retain_secs: RETAIN_SECS,
        optimised_only: false,
    })
}

fn changed(mut row: LibraryRow, request: &proto::PutLibraryRequest) -> Result<LibraryRow, Status> {
    if let Some(drives) = request.drives_max {
        if drives > DRIVES_MAX {
            return Err(Status::invalid_argument(format!("at most {DRIVES_MAX} mounts")));
        }
        row.drives_max = drives;
    }
    if let Some(secs) = request.retain_secs {
        if secs > RETAIN_SECS_MAX {
            return Err(Status::invalid_argument("a volume stays mounted for a day at most"));
        }
        row.retain_secs = secs;
    }
    if let Some(optimised_only) = request.optimised_only {
        row.optimised_only = optimised_only;
    }
    Ok(row)
}
