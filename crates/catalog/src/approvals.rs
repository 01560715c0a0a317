//! Requests that wait for the approval of a second person.

use model::ServerTime;

use crate::CatalogError;

/// The operation that activates a draft, and the field of its requests with the domain's number.
pub const ACTIVATE_POLICY: AboutDomain =
    AboutDomain { operation: "policies.activate", field: "id" };
/// The operation that moves a node, and the field of its requests with the new domain's number.
pub const MOVE_NODE: AboutDomain = AboutDomain { operation: "nodes.change", field: "domain_id" };

/// An operation whose requests name a domain by its number. The catalogue ends the requests about
/// a domain that is removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AboutDomain {
    /// Name of the operation.
    pub operation: &'static str,
    /// Field of the request, as JSON, that has the number.
    pub field: &'static str,
}

impl AboutDomain {
    /// All such operations.
    pub(crate) const ALL: [Self; 2] = [ACTIVATE_POLICY, MOVE_NODE];
}

/// State of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ApprovalState {
    Waiting,
    Approved,
    Refused,
    /// The person who asked has withdrawn the request.
    Withdrawn,
    /// The approved request was carried out.
    Done,
    /// The approved request failed.
    Failed,
}

impl ApprovalState {
    /// All states. The catalogue numbers them in this order.
    pub const ALL: [Self; 6] =
        [Self::Waiting, Self::Approved, Self::Refused, Self::Withdrawn, Self::Done, Self::Failed];
}

/// A request that waits, or that was decided.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApprovalRow {
    pub number: u64,
    /// Name of the operation.
    pub operation: String,
    /// The request, as JSON. The catalogue only looks for the number of a domain that is removed.
    pub request: String,
    /// Effect of the request, for people.
    pub summary: String,
    pub asked_by: String,
    pub asked: ServerTime,
    pub decided_by: String,
    pub decided: Option<ServerTime>,
    pub state: ApprovalState,
    /// Reason of the decision, or the error of a failure.
    pub reason: String,
}

/// A decision about a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    pub state: ApprovalState,
    pub by: String,
    pub at: ServerTime,
    pub reason: String,
}

/// The requests for approval.
pub trait Approvals {
    /// Adds a request and returns its number; the number in `row` does not count.
    fn add_approval(&self, row: &ApprovalRow) -> Result<u64, CatalogError>;

    /// At most `limit` requests, the last asked first, from the number `from` on.
    fn approvals(&self, from: Option<u64>, limit: usize) -> Result<Vec<ApprovalRow>, CatalogError>;

    /// The request with this number. Fails with `NotFound`.
    fn approval(&self, number: u64) -> Result<ApprovalRow, CatalogError>;

    /// Decides about a request that is in the state `from`. Returns false if it is in another one.
    fn decide(
        &self,
        number: u64,
        from: ApprovalState,
        decision: &Decision,
    ) -> Result<bool, CatalogError>;
}
