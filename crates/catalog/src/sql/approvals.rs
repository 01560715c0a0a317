//! Statements about requests for approval.

use model::{DomainId, ServerTime};

use super::{Engine, NO_DOMAIN, Row, Sql, code, params, row_count, row_number};
use crate::actor::SERVER;
use crate::{AboutDomain, ApprovalRow, ApprovalState, Approvals, CatalogError, Decision};

impl<E: Engine> Approvals for E {
    fn add_approval(&self, row: &ApprovalRow) -> Result<u64, CatalogError> {
        let row = row.clone();
        self.write(move |sql| {
            let insert = "INSERT INTO approval(operation, request, summary, asked_by, asked,
                            decided_by, decided, state, reason)
                          VALUES(?, ?, ?, ?, ?, '', NULL, ?, '')";
            let ApprovalRow { operation, request, summary, asked_by, asked, state, .. } = &row;
            let state = code(*state, &ApprovalState::ALL);
            sql.execute(insert, params![operation, request, summary, asked_by, asked.0, state])?;
            let number = "SELECT max(number) FROM approval WHERE asked_by = ? AND asked = ?";
            sql.one(number, params![asked_by, asked.0], |row| row.get(0))
        })
    }

    fn approvals(&self, from: Option<u64>, limit: usize) -> Result<Vec<ApprovalRow>, CatalogError> {
        let select = format!("{APPROVAL} WHERE number <= ? ORDER BY number DESC LIMIT ?");
        self.read(|sql| sql.all(&select, params![row_number(from), row_count(limit)], columns))
    }

    fn approval(&self, number: u64) -> Result<ApprovalRow, CatalogError> {
        self.read(|sql| {
            let found =
                sql.first(&format!("{APPROVAL} WHERE number = ?"), params![number], columns)?;
            found.ok_or(CatalogError::NotFound { what: "the request for approval" })
        })
    }

    fn decide(
        &self,
        number: u64,
        from: ApprovalState,
        decision: &Decision,
    ) -> Result<bool, CatalogError> {
        let decision = decision.clone();
        self.write(move |sql| {
            let update = "UPDATE approval SET state = ?, decided_by = ?, decided = ?, reason = ?
                          WHERE number = ? AND state = ?";
            let Decision { state, by, at, reason } = &decision;
            let states = [*state, from].map(|state| code(state, &ApprovalState::ALL));
            let values = params![states[0], by, at.0, reason, number, states[1]];
            Ok(sql.execute(update, values)? > 0)
        })
    }
}

const APPROVAL: &str = "SELECT number, operation, request, summary, asked_by, asked, decided_by,
                          decided, state, reason FROM approval";

/// Ends the requests about a domain that is gone, and leaves them to those who run the service:
/// another domain may get its number and its name.
pub(super) fn forget_domain(
    sql: &dyn Sql,
    domain: DomainId,
    now: ServerTime,
) -> Result<(), CatalogError> {
    let end = "UPDATE approval SET state = ?, decided_by = ?, decided = ?, reason = ?
               WHERE operation = ? AND request LIKE ? AND state = ?";
    let leave = "UPDATE approval SET request = replace(request, ?, ?)
                 WHERE operation = ? AND request LIKE ?";
    let [refused, waiting] = [ApprovalState::Refused, ApprovalState::Waiting]
        .map(|state| code(state, &ApprovalState::ALL));
    for AboutDomain { operation, field } in AboutDomain::ALL {
        // Within the texts of a request, a quotation mark has a backslash before it.
        let [own, nobodys] = [domain, NO_DOMAIN].map(|one| format!("\"{field}\":{},", one.0));
        let like = format!("%{own}%");
        let reason = "the domain was removed";
        let values = params![refused, SERVER, now.0, reason, operation, like, waiting];
        sql.execute(end, values)?;
        sql.execute(leave, params![own, nobodys, operation, like])?;
    }
    Ok(())
}

fn columns(row: &Row<'_>) -> Result<ApprovalRow, CatalogError> {
    let decided: Option<i64> = row.get(7)?;
    Ok(ApprovalRow {
        number: row.get(0)?,
        operation: row.get(1)?,
        request: row.get(2)?,
        summary: row.get(3)?,
        asked_by: row.get(4)?,
        asked: ServerTime(row.get(5)?),
        decided_by: row.get(6)?,
        decided: decided.map(ServerTime),
        state: row.coded(8, &ApprovalState::ALL)?,
        reason: row.get(9)?,
    })
}
