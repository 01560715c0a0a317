//! Requests that wait for the approval of a second person.
//!
//! ```text
//!   waiting -> approved -> done
//!      |           `-----> failed
//!      |`-> refused
//!      |`-> withdrawn, by the person who asked
//!      `--> expired, after a week
//! ```
//!
//! The catalogue has no state for an expired request: it is one that waits for too long.

use catalog::{ApprovalRow, ApprovalState, CatalogError, Decision};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use server::{NumberKind, Numbering};
use store::nodes::note;

use super::orders::{self, Reach};
use crate::approval;
use crate::call::{Answer, Call};
use crate::caller::{Caller, Subject};
use crate::cursor::ListQuery;
use crate::desk::Desk;
use crate::fields::{Empty, Page, Time};
use crate::operation::Operation;
use crate::problem::{Kind, Problem};
use crate::roles::{Area, Right};
use crate::routes::Routes;

/// Maximum number of requests that a list looks at.
const LISTED_MAX: usize = 10_000;
/// Maximum length of a reason, in bytes.
const REASON_BYTES_MAX: usize = 500;

/// A request for approval.
#[derive(Serialize, JsonSchema)]
struct ApprovalDocument {
    number: u64,
    /// Name of the operation.
    operation: String,
    /// Effect of the operation.
    summary: String,
    asked_by: String,
    /// True if the caller has asked, or acted with the person who asked: another person decides.
    is_own: bool,
    asked: Time,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    decided_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decided: Option<Time>,
    reason: String,
}

/// A decision.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DecisionBody {
    decision: Choice,
    #[serde(default)]
    reason: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Choice {
    Approve,
    Refuse,
}

#[derive(Deserialize, JsonSchema)]
struct ApprovalPath {
    /// Number of the request.
    approval: u64,
}

pub(super) fn add(routes: &mut Routes) {
    let area = Area::Approvals;
    let summary = "Lists requests for approval, the last asked first";
    routes.add(Operation::read("approvals.list", "/v1/approvals", area, summary), list);
    let summary = "Approves or refuses a request; an approved one is carried out";
    let path = "/v1/approvals/{approval}/decision";
    let operation = Operation::post("approvals.decide", path, area, summary);
    let body = json!({ "decision": "approve", "reason": "the machine is gone" });
    routes.add(operation.example("approve", body), decide);
    // A person takes the own request back whatever the role.
    let summary = "Withdraws a request of one's own";
    let path = "/v1/approvals/{approval}";
    routes.add(Operation::delete("approvals.withdraw", path, Area::Account, summary), withdraw);
}

fn describe(numbering: &Numbering, caller: &Caller, row: ApprovalRow) -> ApprovalDocument {
    let is_own = approval::is_own(caller, &row);
    let state = match row.state {
        ApprovalState::Waiting if approval::is_late(&row) => "expired",
        ApprovalState::Waiting => "waiting",
        ApprovalState::Approved => "approved",
        ApprovalState::Refused => "refused",
        ApprovalState::Withdrawn => "withdrawn",
        ApprovalState::Done => "done",
        ApprovalState::Failed => "failed",
    };
    ApprovalDocument {
        number: numbering.shown(NumberKind::Approval, row.number),
        operation: row.operation,
        summary: row.summary,
        asked_by: row.asked_by,
        is_own,
        asked: Time(row.asked),
        state,
        decided_by: Some(row.decided_by).filter(|name| !name.is_empty()),
        decided: row.decided.map(Time),
        reason: row.reason,
    }
}

/// Returns true if there is a request, and the caller may do with it what needs `right`: it must be
/// about an object with which the caller may do it, or the caller has asked.
fn may(desk: &Desk, caller: &Caller, row: Option<&ApprovalRow>, right: Right) -> bool {
    let sees_all = caller.may(Area::Approvals, right, Subject::Service);
    if sees_all || row.is_some_and(|row| approval::is_own(caller, row)) {
        return row.is_some();
    }
    let order = row.and_then(orders::read);
    orders::may(desk, caller, order.as_ref().map(|order| order.target()), right)
}

fn list(call: &mut Call<Empty, ListQuery, Empty>) -> Answer<Page<ApprovalDocument>> {
    let portion = call.query.portion()?;
    let numbering = call.desk.numbering(&call.caller);
    let first = portion
        .first_number()?
        .map(|first| numbering.given(NumberKind::Approval, first));
    let mut rows = call.desk.store().catalog.approvals(first, LISTED_MAX)?;
    let caller = &call.caller;
    if !caller.may(Area::Approvals, Right::Read, Subject::Service) {
        let reach = Reach::read(&call.desk, caller)?;
        let covers =
            |row: &ApprovalRow| orders::read(row).is_some_and(|order| reach.covers(order.target()));
        rows.retain(|row| approval::is_own(caller, row) || covers(row));
    }
    rows.truncate(portion.read_max());
    let requests = rows.into_iter().map(|row| describe(&numbering, caller, row)).collect();
    Ok(portion.page(requests, |one: &ApprovalDocument| one.number.to_string().into_bytes()))
}

/// Finds a request that the caller may see, by the number that the caller gives.
fn find(desk: &Desk, caller: &Caller, given: u64) -> Answer<ApprovalRow> {
    let absent = || Problem::not_found("request for approval", &given.to_string());
    let number = desk.numbering(caller).given(NumberKind::Approval, given);
    if i64::try_from(number).is_err() {
        return Err(absent());
    }
    let row = match desk.store().catalog.approval(number) {
        Ok(row) => Some(row),
        Err(CatalogError::NotFound { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let sees = may(desk, caller, row.as_ref(), Right::Read);
    row.filter(|_| sees).ok_or_else(absent)
}

/// Fails if the caller may not decide so about the request.
fn check(desk: &Desk, caller: &Caller, row: &ApprovalRow, choice: Choice) -> Answer<()> {
    if approval::is_own(caller, row) {
        let text = "another person has to decide about your own request";
        return Err(Problem::new(Kind::Forbidden, text));
    }
    if caller.acting.is_some() {
        let text = "nobody decides in the place of another person";
        return Err(Problem::new(Kind::Forbidden, text));
    }
    if !may(desk, caller, Some(row), Right::Write) {
        return Err(Problem::forbidden());
    }
    if choice == Choice::Approve && approval::is_late(row) {
        return Err(Problem::conflict("the request is older than a week; ask again"));
    }
    match choice {
        Choice::Approve => approval::check_askers(desk, row),
        Choice::Refuse => Ok(()),
    }
}

fn decide(call: &mut Call<ApprovalPath, Empty, DecisionBody>) -> Answer<ApprovalDocument> {
    let (desk, caller) = (&call.desk, &call.caller);
    let row = find(desk, caller, call.path.approval)?;
    let DecisionBody { decision: choice, reason } = &call.body;
    if reason.len() > REASON_BYTES_MAX || reason.chars().any(char::is_control) {
        let text = format!("a reason has at most {REASON_BYTES_MAX} bytes, on one line");
        return Err(Problem::invalid(text));
    }
    check(desk, caller, &row, *choice)?;
    match choice {
        Choice::Approve => {
            let decision = end_waiting(desk, caller, &row, ApprovalState::Approved, reason)?;
            note(desk.store(), &caller.name, "approval given", told(&row))?;
            carry_out(desk, &row, &decision)?;
        }
        Choice::Refuse => {
            end_waiting(desk, caller, &row, ApprovalState::Refused, reason)?;
            note(desk.store(), &caller.name, "approval refused", told(&row))?;
        }
    }
    Ok(describe(&desk.numbering(caller), caller, desk.store().catalog.approval(row.number)?))
}

fn withdraw(call: &mut Call<ApprovalPath, Empty, Empty>) -> Answer<ApprovalDocument> {
    let (desk, caller) = (&call.desk, &call.caller);
    let row = find(desk, caller, call.path.approval)?;
    if !approval::is_own(caller, &row) {
        let text = "only the person who asked withdraws a request; others refuse it";
        return Err(Problem::new(Kind::Forbidden, text));
    }
    end_waiting(desk, caller, &row, ApprovalState::Withdrawn, "")?;
    note(desk.store(), &caller.name, "approval withdrawn", told(&row))?;
    Ok(describe(&desk.numbering(caller), caller, desk.store().catalog.approval(row.number)?))
}

fn told(row: &ApprovalRow) -> String {
    format!("{}: {}", row.number, row.summary)
}

/// Records the decision about a request that waits. Fails if it waits no more.
fn end_waiting(
    desk: &Desk,
    caller: &Caller,
    row: &ApprovalRow,
    state: ApprovalState,
    reason: &str,
) -> Answer<Decision> {
    let (by, at) = (caller.name.clone(), sys::clock::now());
    let decision = Decision { state, by, at, reason: reason.to_owned() };
    if !desk.store().catalog.decide(row.number, ApprovalState::Waiting, &decision)? {
        return Err(Problem::conflict("the request was decided already"));
    }
    Ok(decision)
}

/// Carries out an approved request, and records the result. Both names are in the activity log.
fn carry_out(desk: &Desk, row: &ApprovalRow, decision: &Decision) -> Answer<()> {
    let wrong = || Problem::new(Kind::Damaged, "the request cannot be read");
    let order = orders::read(row).ok_or_else(wrong)?;
    let actor = format!("{}, approved by {}", row.asked_by, decision.by);
    let done = order.carry_out(desk, &actor);
    let (state, reason) = match done {
        Ok(()) => (ApprovalState::Done, decision.reason.clone()),
        Err(error) => (ApprovalState::Failed, error.to_string()),
    };
    let end = Decision { state, reason, ..decision.clone() };
    desk.store().catalog.decide(row.number, ApprovalState::Approved, &end)?;
    Ok(())
}
