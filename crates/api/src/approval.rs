//! Approval of what destroys by a second person, where that is switched on.
//!
//! An operation that destroys makes an [`Order`] and calls [`guard`]. Without two persons it may go
//! on at once. Otherwise the order waits, as JSON in the catalogue, until another person has
//! decided about it.

use catalog::{ApprovalRow, ApprovalState, CatalogError};
use model::{DomainId, NodeId, PersonId, PoolId};
use serde_json::Value;
use server::NumberKind;
use store::StoreError;
use store::nodes::note;

use crate::call::Answer;
use crate::caller::Caller;
use crate::desk::Desk;
use crate::problem::{Kind, Problem};

/// Maximum number of requests among which one for the same object is looked for.
const LOOKED_AT_MAX: usize = 10_000;
/// Time after which nobody can approve a request any more, in microseconds: a week.
const WAITING_MICROS: i64 = 7 * 86_400_000_000;
/// Fields of a kept request besides those of its order: the persons who asked, by number, and the
/// object.
const PERSONS: &str = "persons";
const OBJECT: &str = "object";

/// Object of an order, by its name and its number. The name may belong to another object when
/// somebody looks at the order.
#[derive(Clone, Copy)]
pub(crate) enum Target<'a> {
    Node(&'a str, NodeId),
    Domain(&'a str, DomainId),
    /// A node that moves to a domain.
    Move {
        node: (&'a str, NodeId),
        domain: (&'a str, DomainId),
    },
    Pool(&'a str, PoolId),
    /// Something of the libraries, for those who look after storage.
    Libraries,
}

/// An order that destroys something.
pub(crate) trait Order {
    /// Name of the operation, as the list of operations has it.
    fn operation(&self) -> &'static str;

    /// The order as a JSON object, from which it can be read again.
    fn json(&self) -> Value;

    /// Effect for people, as in "removes node web-1".
    fn summary(&self) -> String;

    /// Object of the order, as in "node web-1". For each operation, one order for an object waits.
    fn object(&self) -> String;

    /// Object of the order, as far as rights depend on it.
    fn target(&self) -> Target<'_>;

    /// Carries out the order for `actor`. Fails if its object is not what it was.
    fn carry_out(&self, desk: &Desk, actor: &str) -> Result<(), StoreError>;
}

/// Succeeds if the caller may carry out the order at once. Otherwise keeps the order until another
/// person has decided about it, and fails with [`Kind::ApprovalNeeded`].
pub(crate) fn guard(desk: &Desk, caller: &Caller, order: &dyn Order) -> Answer<()> {
    let store = desk.store();
    if !store.config.two_person {
        return Ok(());
    }
    let (operation, object) = (order.operation(), order.object());
    let waits = |row: &&ApprovalRow| {
        row.state == ApprovalState::Waiting
            && !is_late(row)
            && row.operation == operation
            && request(row)[OBJECT].as_str() == Some(&object)
    };
    let rows = store.catalog.approvals(None, LOOKED_AT_MAX)?;
    let shown = |number: u64| desk.numbering(caller).shown(NumberKind::Approval, number);
    if let Some(row) = rows.iter().find(waits) {
        let number = shown(row.number);
        let text = format!("such a request for {object} waits already, as number {number}");
        return Err(Problem::conflict(text));
    }
    let row = ApprovalRow {
        number: 0,
        operation: operation.to_owned(),
        request: kept(caller, order).to_string(),
        summary: order.summary(),
        asked_by: caller.name.clone(),
        asked: sys::clock::now(),
        decided_by: String::new(),
        decided: None,
        state: ApprovalState::Waiting,
        reason: String::new(),
    };
    let number = store.catalog.add_approval(&row)?;
    note(store, &caller.name, "approval asked", format!("{number}: {}", row.summary))?;
    let number = shown(number);
    let text = format!(
        "the request waits as number {number}; another person has to approve it: on the page, by \
         'holdfast admin approval approve {number}', or by POST /v1/approvals/{number}/decision"
    );
    Err(Problem::new(Kind::ApprovalNeeded, text))
}

/// Returns true if the request was asked so long ago that nobody can approve it any more. The same
/// may then be asked for anew.
pub(crate) fn is_late(row: &ApprovalRow) -> bool {
    sys::clock::now().0 - row.asked.0 > WAITING_MICROS
}

/// Returns the request of a caller as the catalogue keeps it.
fn kept(caller: &Caller, order: &dyn Order) -> Value {
    let mut request = order.json();
    let persons = [caller.person, caller.acting].into_iter().flatten();
    request[PERSONS] = persons.map(|person| person.0).collect();
    request[OBJECT] = order.object().into();
    request
}

/// Returns a kept request.
fn request(row: &ApprovalRow) -> Value {
    serde_json::from_str(&row.request).unwrap_or_default()
}

/// Returns the numbers of the persons who asked; none for the administrator of the machine.
fn askers(row: &ApprovalRow) -> Vec<PersonId> {
    let request = request(row);
    let persons = request[PERSONS].as_array().into_iter().flatten();
    let number = |person: &Value| u32::try_from(person.as_u64()?).ok();
    persons.filter_map(number).map(PersonId).collect()
}

/// Fails if a person who asked is locked or was removed since. Whoever approves answers for the
/// rest: roles that the person has lost since are not looked at.
pub(crate) fn check_askers(desk: &Desk, row: &ApprovalRow) -> Answer<()> {
    for person in askers(row) {
        let is_there = match desk.store().catalog.person_numbered(person) {
            Ok(person) => !person.locked,
            Err(CatalogError::NotFound { .. }) => false,
            Err(error) => return Err(error.into()),
        };
        if !is_there {
            let text = format!(
                "'{}' has asked, and is locked or was removed since; refuse the request, and ask \
                 anew if it is still wanted",
                row.asked_by
            );
            return Err(Problem::conflict(text));
        }
    }
    Ok(())
}

/// Returns true if the caller has asked: as the person who asked, or as one of the two who acted.
pub(crate) fn is_own(caller: &Caller, row: &ApprovalRow) -> bool {
    let askers = askers(row);
    let mut own = [caller.person, caller.acting].into_iter().flatten();
    row.asked_by == caller.name || own.any(|person| askers.contains(&person))
}
