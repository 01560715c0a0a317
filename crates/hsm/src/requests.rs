//! The requests of users: each is carried out in a thread of its own, and answered file by file.

mod entry;
mod files;
mod listed;
mod plan;
mod reconcile;
mod undelete;

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use self::files::{migrate, purge};
use self::listed::recall;
use self::reconcile::{Treatment, reconcile};
use self::undelete::{undelete, undelete_path};
use crate::caller::Caller;
use crate::connection::Connection;
use crate::control::{FilesystemState, PathText, Reply, Request, RequestState};
use crate::desk::{Desk, RequestError};
use crate::migrate::Target;
use crate::monitor::{Goal, Monitor};
use crate::outcome::Outcome;
use crate::recall::{RecallStatus, Recaller, Stage};
use crate::remake;
use crate::requester::Requester;
use crate::tender::Tender;

/// Maximum size of a request of root, in bytes.
const REQUEST_BYTES_MAX: u64 = 1 << 30;
/// Maximum size of a request of another user, in bytes.
const USER_REQUEST_BYTES_MAX: u64 = 1 << 20;
/// Time within which a user has to send the request.
const REQUEST_WAIT: Duration = Duration::from_secs(30);

/// Reads the request from `socket`, carries it out and answers it.
pub(crate) fn serve(
    recaller: &Recaller,
    connection: &Connection,
    tender: &Tender,
    socket: UnixStream,
) {
    let Ok((pid, uid)) = sys::net::peer(&socket) else { return };
    let Ok(reading) = socket.try_clone() else { return };
    let requester = Requester { uid, ..Requester::of(pid) };
    let bytes_max = if requester.is_root() { REQUEST_BYTES_MAX } else { USER_REQUEST_BYTES_MAX };
    let mut line = String::new();
    let timed = reading.set_read_timeout(Some(REQUEST_WAIT));
    let read = timed.and_then(|()| BufReader::new(reading.take(bytes_max)).read_line(&mut line));
    if read.is_err() {
        return;
    }
    let caller = Caller::new(socket, requester);
    let mounts = recaller.mounts();
    let desk = Desk { recaller, connection, caller: &caller, tender, mounts: &mounts };
    let carried_out = serde_json::from_str(&line)
        .map_err(RequestError::from)
        .and_then(|request| desk.carry_out(request));
    caller.send(&match carried_out {
        Ok(()) => Reply::Done,
        Err(error) => Reply::Refused { reason: error.to_string() },
    });
}

impl Desk<'_> {
    fn carry_out(&self, request: Request) -> Result<(), RequestError> {
        if !self.caller.requester.is_root() && !request.is_for_everybody() {
            return Err(RequestError::Forbidden);
        }
        match request {
            Request::Purge { paths } => purge(self, &paths)?,
            Request::Migrate { paths, only_copies, any_size } => {
                let target = if only_copies { Target::Premigrated } else { Target::Migrated };
                migrate(self, &paths, target, any_size);
            }
            Request::Recall { paths, resident, preview } => {
                recall(self, &paths, listed::Manner::of(resident, preview))?;
            }
            Request::Relieve { mount_point } => self.relieve(&mount_point.0)?,
            Request::Reconcile { mount_point, dry_run, is_confirmed } => {
                let treatment = Treatment::of(dry_run, is_confirmed);
                self.caller.send(&reconcile(self, self.mount_at(&mount_point.0)?, treatment)?);
            }
            Request::Undelete { mount_point } => {
                undelete(self, self.mount_at(&mount_point.0)?)?;
            }
            Request::UndeletePaths { paths } => {
                for PathText(path) in &paths {
                    undelete_path(self, path)?;
                }
            }
            Request::MakeStubs { paths, bytes_min } => {
                for PathText(path) in &paths {
                    let mount = self.mount_holding(path)?;
                    let client = self.connection.client()?;
                    remake::remake(&client, mount, self.caller, path, bytes_min)?;
                }
            }
            Request::Status => self.send_statuses(),
            Request::Filesystems => self.send_filesystems(self.tender.states()),
            Request::Reread => self.send_filesystems(self.tender.tend()),
            Request::Release { mount_point } => {
                self.recaller.catch_up();
                self.tender.release(&mount_point.0)?;
            }
            Request::Cancel { number } => {
                if !self.recaller.cancel(number, &self.caller.requester) {
                    return Err(RequestError::NoRecall(number));
                }
            }
        }
        Ok(())
    }

    fn relieve(&self, mount_point: &[u8]) -> Result<(), RequestError> {
        let mount = self.mount_at(mount_point)?;
        let monitor = Monitor { recaller: self.recaller, connection: self.connection, mount };
        let mut report = |path: &[u8], outcome: Outcome| {
            self.caller.send_file(&mount.absolute(path), outcome);
        };
        Ok(monitor.relieve(Goal::Policy, &mut report, &|| self.caller.listens())?)
    }

    fn send_filesystems(&self, states: Vec<FilesystemState>) {
        states.into_iter().for_each(|state| self.caller.send(&Reply::Filesystem(state)));
    }

    fn send_statuses(&self) {
        let requester = &self.caller.requester;
        for status in self.recaller.statuses() {
            if requester.may_act_for(&status.requester) {
                self.caller.send(&Reply::Request(request_state(status)));
            }
        }
    }
}

fn request_state(status: RecallStatus) -> RequestState {
    let state = match status.stage {
        Stage::Waiting { .. } => "waiting",
        Stage::AtServer => "at the server",
        Stage::Coming => "recalling",
    };
    RequestState {
        number: status.number,
        path: PathText(status.path),
        uid: status.requester.uid,
        pid: status.requester.pid,
        program: status.requester.program,
        since: status.since.0,
        state: state.to_owned(),
        place: status.stage.place(),
        waiters: status.waiters,
        bytes: status.bytes,
        done_bytes: status.done_bytes,
        estimate_secs: status.estimate.map(|estimate| estimate.as_secs_f64()),
        volume: status.volume,
        volume_place: status.volume_place,
    }
}

#[cfg(test)]
mod tests;
