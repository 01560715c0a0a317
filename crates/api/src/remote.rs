//! The administrator's service for machines elsewhere: the calls of `holdfast admin`, over the
//! listener of the API, for callers with a key.
//!
//! Each call belongs to an area and a right, as the operations of REST do. Most calls are about the
//! whole service, so a role counts only where it is held everywhere. Those of the module `scope`
//! can also be about objects of a domain.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{Response, header};
use axum::middleware::{self, Next};
use server::{Actor, ReviewMark};
use tonic::Status;

use crate::authentication::{self, Evidence};
use crate::call::Answer;
use crate::caller::{Caller, Limit, Subject};
use crate::desk::Desk;
use crate::problem::{Kind, Problem};
use crate::resources::{guard_call, is_guarded};
use crate::roles::{Area, Right};
use crate::routes::{BODY_TIME, ClientAddress};
use crate::scope::{self, Permit, ScopedCall};

use Area::{
    Domains, Enrolment, Inventory, Log, Nodes, Policies, Reports, Schedules, Storage, Tasks, Work,
};
use Right::{Read, Write};

/// A call of the administrator's service.
struct AdminCall {
    name: &'static str,
    area: Area,
    right: Right,
}

const CALLS: [AdminCall; 59] = [
    // The call also makes a new token for a node that exists.
    call("AddNode", Enrolment, Write),
    call("ListNodes", Nodes, Read),
    call("SetNode", Nodes, Write),
    call("RemoveNode", Nodes, Write),
    call("RevokeNode", Enrolment, Write),
    call("AddEnrolmentKey", Enrolment, Write),
    call("EnrolmentKeys", Enrolment, Read),
    call("RevokeEnrolmentKey", Enrolment, Write),
    call("Domains", Domains, Read),
    call("AddDomain", Domains, Write),
    call("RemoveDomain", Domains, Write),
    call("SetDomain", Domains, Write),
    call("EditPolicy", Policies, Write),
    call("ReviewPolicy", Policies, Read),
    call("SimulatePolicy", Policies, Read),
    call("ActivatePolicy", Policies, Write),
    call("Expire", Tasks, Write),
    call("Audit", Tasks, Write),
    call("Reclaim", Tasks, Write),
    call("Pools", Storage, Read),
    call("PutPool", Storage, Write),
    call("RemovePool", Storage, Write),
    call("TendPool", Storage, Write),
    call("CatalogCopies", Tasks, Read),
    call("CopyCatalog", Tasks, Write),
    call("OptionSets", Policies, Read),
    call("PutOptionSet", Policies, Write),
    call("RemoveOptionSet", Policies, Write),
    call("OptionSetUses", Policies, Read),
    call("OptionSetVersions", Policies, Read),
    call("ChangeOptionSet", Policies, Write),
    call("EndOptionSetStage", Policies, Write),
    call("Events", Log, Read),
    call("TaskRuns", Tasks, Read),
    call("FinishedBackups", Work, Read),
    call("FinishedArchives", Work, Read),
    call("FinishedRestores", Work, Read),
    call("Schedules", Schedules, Read),
    call("PutSchedule", Schedules, Write),
    call("RemoveSchedule", Schedules, Write),
    call("FollowSchedule", Schedules, Write),
    call("RunAction", Work, Write),
    call("ScheduledEvents", Work, Read),
    call("ScheduledEventLog", Work, Read),
    call("ControlEvents", Work, Write),
    call("Libraries", Storage, Read),
    call("PutLibrary", Storage, Write),
    call("RemoveLibrary", Storage, Write),
    call("ServeLibrary", Storage, Write),
    call("Volumes", Storage, Read),
    call("LabelVolumes", Storage, Write),
    call("SetVolume", Storage, Write),
    call("TendVolumes", Storage, Write),
    // The call also cancels.
    call("TapeQueue", Storage, Write),
    call("Servers", Area::Service, Read),
    call("Stats", Reports, Read),
    call("NodeVersions", Inventory, Read),
    call("NodeArchives", Inventory, Read),
    call("VolumeVersions", Inventory, Read),
];

const fn call(name: &'static str, area: Area, right: Right) -> AdminCall {
    AdminCall { name, area, right }
}

/// Returns the area and right of the call at `path`.
fn find(path: &str) -> Option<&'static AdminCall> {
    CALLS.iter().find(|call| call.name == name(path))
}

/// Returns the name of the call at `path`.
fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns the routes of the administrator's service, behind the check of its callers.
pub(crate) fn routes(desk: &Arc<Desk>) -> Router {
    let check = middleware::from_fn_with_state(Arc::clone(desk), admit);
    desk.office.operations().layer(check)
}

/// Way in which a caller may make a call.
enum Admission {
    /// For the whole service.
    Everywhere,
    /// For the objects that its message names.
    Scoped(&'static ScopedCall),
}

async fn admit(State(desk): State<Arc<Desk>>, mut request: Request, next: Next) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let headers = request.headers().clone();
    let address = request.extensions().get::<ClientAddress>().map(|address| address.0);
    let method = request.method().clone();
    let work = desk.begin_work().await;
    let (checked, asked) = (Arc::clone(&desk), path.clone());
    let checking = tokio::task::spawn_blocking(move || {
        let _work = work;
        let evidence = Evidence { headers: &headers, method: &method, address, local: None };
        let has_key = headers.contains_key(header::AUTHORIZATION);
        let caller = authentication::identify(&checked, &evidence)?.caller;
        let admission = check(&checked, &caller, has_key, &asked)?;
        Ok::<_, Problem>((caller, admission))
    });
    let (caller, admission) = match checking.await {
        Ok(Ok(admitted)) => admitted,
        Ok(Err(problem)) => return status(&problem).into_http(),
        Err(_) => return Status::internal("the call was ended by a bug").into_http(),
    };
    request.extensions_mut().insert(Actor(caller.name.clone()));
    request.extensions_mut().insert(desk.numbering(&caller));
    match admission {
        Admission::Everywhere if !may_wait(&desk, &path) => next.run(request).await,
        admission => {
            let answer = run_checked(desk, caller, (admission, path), request, next).await;
            answer.unwrap_or_else(|problem| status(&problem).into_http())
        }
    }
}

/// Returns true if another person may have to approve the call at `path`.
fn may_wait(desk: &Desk, path: &str) -> bool {
    desk.store().config.two_person && is_guarded(name(path))
}

/// Makes a call after a look at the objects that its message names.
async fn run_checked(
    desk: Arc<Desk>,
    caller: Caller,
    (admission, path): (Admission, String),
    request: Request,
    next: Next,
) -> Result<Response<Body>, Problem> {
    let (mut parts, body) = request.into_parts();
    let coming = tokio::time::timeout(BODY_TIME, to_bytes(body, scope::MESSAGE_BYTES_MAX));
    let body = coming.await.map_err(|_| Problem::invalid("the call came too slowly"))?;
    let body = body.map_err(|_| Problem::new(Kind::TooLarge, "the call is too long"))?;
    let (work, message) = (desk.begin_work().await, body.clone());
    let checking = tokio::task::spawn_blocking(move || {
        let _work = work;
        let permit = match admission {
            Admission::Everywhere => Permit::Call,
            Admission::Scoped(call) => scope::check(&desk, &caller, call, rights(&path), &message)?,
        };
        Ok::<_, Problem>((permit, guard(&desk, &caller, &path, &message)?))
    });
    let checked = checking.await;
    let (permit, reviewed) =
        checked.map_err(|_| Problem::new(Kind::Bug, "the call was ended by a bug"))??;
    if let Some(reviewed) = reviewed {
        parts.extensions.insert(reviewed);
    }
    let mut body = Body::from(body);
    match permit {
        Permit::Call => {}
        Permit::Body(other) => {
            parts.headers.remove(header::CONTENT_LENGTH);
            body = Body::from(other);
        }
        Permit::Nodes(found) => {
            parts.extensions.insert(found);
        }
        Permit::Sight(sight) => {
            parts.extensions.insert(sight);
        }
        Permit::Schedules(sight) => {
            parts.extensions.insert(sight);
        }
        Permit::Schedule(owner) => {
            parts.extensions.insert(owner);
        }
        Permit::Keys(sight) => {
            parts.extensions.insert(sight);
        }
        Permit::OptionSets(sight) => {
            parts.extensions.insert(sight);
        }
        Permit::Key(found) => {
            parts.extensions.insert(found);
        }
    }
    Ok(next.run(Request::from_parts(parts, body)).await)
}

/// Asks for approval of a call, and fails then, if another person has to approve it. Returns the
/// review under which an activation may go on.
fn guard(desk: &Desk, caller: &Caller, path: &str, body: &[u8]) -> Answer<Option<ReviewMark>> {
    if !may_wait(desk, path) {
        return Ok(None);
    }
    guard_call(desk, caller, name(path), scope::message(body)?)
}

/// Returns the area and the right of the call at `path`. A call that the table does not have is
/// only for the role that may do everything.
fn rights(path: &str) -> (Area, Right) {
    find(path).map_or((Area::Service, Write), |call| (call.area, call.right))
}

/// Fails unless the caller may make the call at `path`.
fn check(desk: &Desk, caller: &Caller, has_key: bool, path: &str) -> Result<Admission, Problem> {
    if matches!(caller.limit, Limit::Enroller { .. }) {
        let text = "this key registers nodes by POST /v1/nodes of the REST API only";
        return Err(Problem::new(Kind::Forbidden, text));
    }
    if !has_key || caller.limit == Limit::Stranger {
        let text = "give a key: 'holdfast admin --key-file FILE', or HOLDFAST_KEY";
        return Err(Problem::new(Kind::Unauthenticated, text));
    }
    desk.rates.take(&caller.account(), sys::clock::monotonic())?;
    let (area, right) = rights(path);
    let scoped = scope::find(path);
    let needs_look = scoped.is_some_and(|call| call.needs_look);
    if caller.may(area, right, Subject::Service) && !needs_look {
        return Ok(Admission::Everywhere);
    }
    match scoped {
        Some(call) if caller.may_somewhere(area, right) => Ok(Admission::Scoped(call)),
        Some(_) => Err(Problem::forbidden()),
        None => Err(scope::of_service(caller)),
    }
}

/// Returns a problem as the status of a call.
fn status(problem: &Problem) -> Status {
    let text = problem.detail.clone();
    match problem.kind {
        Kind::Unauthenticated | Kind::SecondFactor => Status::unauthenticated(text),
        Kind::TooMany | Kind::Unavailable => Status::unavailable(text),
        Kind::NotFound => Status::not_found(text),
        Kind::Invalid | Kind::TooLarge => Status::invalid_argument(text),
        Kind::Bug => Status::internal(text),
        _ => Status::permission_denied(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition of the services.
    const SERVICES: &str = include_str!("../../wire/proto/holdfast.proto");

    #[test]
    fn the_table_has_each_call_and_no_other() {
        let start = SERVICES.find("service Admin {").expect("the service");
        let end = SERVICES[start..].find("\n}").expect("its end") + start;
        let lines = SERVICES[start..end].lines().map(str::trim);
        let named = lines.filter_map(|line| line.strip_prefix("rpc ")?.split('(').next());
        let mut defined: Vec<&str> = named.collect();
        let mut known: Vec<&str> = CALLS.iter().map(|call| call.name).collect();
        defined.sort_unstable();
        known.sort_unstable();
        assert_eq!(known, defined);
    }

    #[test]
    fn a_call_is_found_by_its_path() {
        let found = find("/holdfast.v1.Admin/ListNodes").expect("is known");
        assert_eq!((found.area, found.right), (Nodes, Read));
        assert!(find("/holdfast.v1.Admin/Empty").is_none());
    }
}
