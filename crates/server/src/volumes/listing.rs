//! Libraries, volumes and who waits for them, as administrators see them.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use catalog::{VolumeAccess, VolumeRow, VolumeState};
use tape::library::Library;
use tape::operator::ShownDrive;
use tape::schedule::Kind;
use tape::scsi::ElementKind;
use tonic::Status;
use wire::proto;

use super::Volumes;
use super::fetch::Wait;
use super::site::{Site, is_same};
use crate::refusal;

pub(super) fn state_word(state: VolumeState) -> &'static str {
    match state {
        VolumeState::Scratch => "scratch",
        VolumeState::Filling => "filling",
        VolumeState::Full => "full",
        VolumeState::Pending => "pending",
    }
}

const ACCESSES: [(VolumeAccess, &str); 5] = [
    (VolumeAccess::ReadWrite, "read-write"),
    (VolumeAccess::ReadOnly, "read-only"),
    (VolumeAccess::Offsite, "offsite"),
    (VolumeAccess::Unavailable, "unavailable"),
    (VolumeAccess::Destroyed, "destroyed"),
];

pub(super) fn access_word(access: VolumeAccess) -> &'static str {
    let found = ACCESSES.iter().find(|(known, _)| *known == access);
    found.map_or("", |(_, word)| word)
}

pub(super) fn access_of(word: &str) -> Option<VolumeAccess> {
    ACCESSES.iter().find(|(_, known)| *known == word).map(|(access, _)| *access)
}

fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Open => "open",
        Kind::List => "list",
        Kind::Restore => "restore",
    }
}

impl Volumes {
    /// One library, or all.
    pub(crate) fn libraries(
        &self,
        request: &proto::LibrariesRequest,
    ) -> Result<proto::LibrariesReply, Status> {
        let mut sites = self.sites();
        if !request.name.is_empty() {
            sites = vec![self.site(&request.name).map_err(Status::not_found)?];
        }
        sites.sort_by(|a, b| a.name.cmp(&b.name));
        let describe = |site: &std::sync::Arc<Site>| self.describe_library(site, request.inventory);
        Ok(proto::LibrariesReply { libraries: sites.iter().map(describe).collect() })
    }

    pub(super) fn describe_library(&self, site: &Site, inventory: bool) -> proto::Library {
        let row = site.row();
        let mut described = proto::Library {
            name: row.name,
            changer: row.changer.unwrap_or_default(),
            drive_addresses: row.drives,
            folder: row.folder.unwrap_or_default(),
            capacity_bytes: row.capacity_bytes,
            drives_max: row.drives_max,
            retain_secs: row.retain_secs,
            optimised_only: row.optimised_only,
            ..proto::Library::default()
        };
        match &site.operator {
            Err(problem) => described.problem.clone_from(problem),
            Ok(operator) => {
                described.drives = operator.drives().iter().map(drive).collect();
                let asked =
                    operator.with_library(|library| look(library, &mut described, inventory));
                match asked {
                    Some(Err(problem)) => described.problem = problem,
                    Some(Ok(())) => {}
                    // Of a folder's drives those count that do something.
                    None => described.drives.retain(|drive| drive.state != "empty"),
                }
            }
        }
        described
    }

    /// The volumes asked for, by library and name.
    pub(crate) fn list(
        &self,
        request: &proto::VolumesRequest,
    ) -> Result<proto::VolumesReply, Status> {
        let failed = |error: catalog::CatalogError| refusal::catalog(&error);
        let live = self.catalog.volume_bytes().map_err(failed)?;
        let pools = self.catalog.pools().map_err(failed)?;
        let pool_name = |row: &VolumeRow| {
            let pool = pools.iter().find(|pool| Some(pool.id) == row.pool);
            pool.map(|pool| pool.name.clone()).unwrap_or_default()
        };
        let mut volumes: Vec<proto::VolumeInfo> = Vec::new();
        for row in self.rows().values() {
            let pool = pool_name(row);
            let is_wanted = |wanted: &str, is: &str| wanted.is_empty() || is_same(wanted, is);
            if is_wanted(&request.library, &row.library)
                && is_wanted(&request.pool, &pool)
                && is_wanted(&request.volume, &row.name)
            {
                volumes.push(describe(row, pool, &live));
            }
        }
        if volumes.is_empty() && !request.volume.is_empty() {
            return Err(Status::not_found(format!("there is no volume {}", request.volume)));
        }
        volumes.sort_by(|a, b| (&a.library, &a.name).cmp(&(&b.library, &b.name)));
        Ok(proto::VolumesReply { volumes })
    }

    pub(super) fn describe_volume(&self, row: &VolumeRow) -> Result<proto::VolumeInfo, Status> {
        let (library, volume) = (row.library.clone(), row.name.clone());
        let request = proto::VolumesRequest { library, volume, pool: String::new() };
        let mut found = self.list(&request)?.volumes;
        found
            .pop()
            .ok_or_else(|| Status::not_found(format!("there is no volume {}", row.name)))
    }

    /// Who waits, after sending away who is to be.
    pub(crate) fn queue(&self, cancel: u64) -> Result<proto::TapeQueueReply, Status> {
        let waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if cancel != 0 {
            let Some(wait) = waits.get(&cancel) else {
                return Err(Status::not_found(format!("nobody waits under the number {cancel}")));
            };
            wait.is_cancelled.store(true, Ordering::Relaxed);
        }
        let shown =
            |(number, wait): (&u64, &std::sync::Arc<Wait>)| self.describe_wait(*number, wait);
        Ok(proto::TapeQueueReply { waits: waits.iter().map(shown).collect() })
    }

    fn describe_wait(&self, number: u64, wait: &Wait) -> proto::TapeWait {
        let last = wait.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let forecast = last.as_ref().and_then(|(library, waiter, _)| {
            self.site(library).ok()?.operator.as_ref().ok()?.forecast(*waiter)
        });
        let is_server = wait.who.node.is_empty();
        proto::TapeWait {
            number,
            kind: if is_server { "server" } else { kind_word(wait.who.kind) }.to_owned(),
            node: wait.who.node.clone(),
            user: wait.who.user,
            program: wait.who.program.clone(),
            since: wait.since.0,
            volume: last.map(|(.., volume)| volume).unwrap_or_default(),
            packs: wait.packs.load(Ordering::Relaxed),
            packs_done: wait.packs_done.load(Ordering::Relaxed),
            ahead: forecast.map_or(0, |found| u32::try_from(found.ahead).unwrap_or(u32::MAX)),
            estimate_secs: forecast.map(|forecast| forecast.served_at.as_secs()),
        }
    }
}

fn drive(shown: &ShownDrive) -> proto::LibraryDrive {
    let state = match shown {
        ShownDrive { problem: Some(_), .. } => "failed",
        ShownDrive { volume: None, is_idle: true, .. } => "empty",
        ShownDrive { volume: None, .. } => "mounting",
        ShownDrive { is_idle: true, .. } => "idle",
        ShownDrive { is_writing: true, .. } => "writing",
        _ => "reading",
    };
    proto::LibraryDrive {
        address: shown.address.into(),
        volume: shown.volume.as_ref().map(ToString::to_string).unwrap_or_default(),
        state: state.to_owned(),
        problem: shown.problem.clone().unwrap_or_default(),
        ..proto::LibraryDrive::default()
    }
}

/// Adds what the library knows of its drives and elements.
fn look(
    library: &mut Library,
    described: &mut proto::Library,
    inventory: bool,
) -> Result<(), String> {
    for listed in library.drives() {
        let known = described
            .drives
            .iter_mut()
            .find(|drive| drive.address == u32::from(listed.address));
        if let Some(drive) = known {
            drive.product = listed.product;
            drive.serial = listed.serial;
            drive.wants_cleaning = listed.wants_cleaning;
        }
    }
    if !inventory {
        return Ok(());
    }
    library.refresh().map_err(|error| model::chain(&error))?;
    let element = |element: &tape::scsi::Element| proto::LibraryElement {
        kind: match element.kind {
            ElementKind::Slot => "slot",
            ElementKind::Drive => "drive",
            ElementKind::ImportExport => "import/export",
            ElementKind::Robot => "robot",
        }
        .to_owned(),
        address: element.address.into(),
        is_full: element.is_full,
        barcode: element.barcode.clone().unwrap_or_default(),
    };
    described.elements = library.elements().iter().map(element).collect();
    Ok(())
}

fn describe(row: &VolumeRow, pool: String, live: &BTreeMap<u64, u64>) -> proto::VolumeInfo {
    proto::VolumeInfo {
        library: row.library.clone(),
        name: row.name.clone(),
        pool,
        group: row.group.clone(),
        state: state_word(row.state).to_owned(),
        access: access_word(row.access).to_owned(),
        location: row.location.clone(),
        written_bytes: row.written_bytes,
        live_bytes: live.get(&row.id).copied().unwrap_or(0),
        errors: row.errors,
        changed: row.changed.0,
    }
}
