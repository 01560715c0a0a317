//! The report of a month about a domain.

use alerts::monthly::{self, Month};
use schemars::JsonSchema;
use serde::Deserialize;

use super::domains::{DomainPath, find};
use crate::call::{Answer, Call};
use crate::caller::Subject;
use crate::download::Download;
use crate::fields::Empty;
use crate::operation::Operation;
use crate::problem::Problem;
use crate::roles::{Area, Right};
use crate::routes::Routes;

const HTML: &str = "text/html; charset=utf-8";
const CSV: &str = "text/csv; charset=utf-8";

/// Form of a report.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum ReportFormat {
    Html,
    Csv,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReportQuery {
    /// The month, as in 2026-11; the present month by default.
    month: Option<String>,
    /// Form of the report; html by default.
    format: Option<ReportFormat>,
}

pub(super) fn add(routes: &mut Routes) {
    let summary = "Returns the report of a month about a domain: backups, events, restores";
    let path = "/v1/domains/{domain}/report";
    routes.stream(Operation::read("domains.report", path, Area::Reports, summary), "*/*", report);
}

fn report(call: &mut Call<DomainPath, ReportQuery, Empty>) -> Answer<Download> {
    let domain = find(&call.desk, &call.caller, &call.path.domain)?;
    call.caller.check(Area::Reports, Right::Read, Subject::Domain(domain.id))?;
    let store = call.desk.store();
    let zone = &store.config.alerts.zone;
    let present = Month::of(sys::clock::now(), zone);
    let month = match &call.query.month {
        None => present,
        Some(text) => text
            .parse()
            .map_err(|error: monthly::MonthError| Problem::invalid(error.to_string()))?,
    };
    if month > present {
        return Err(Problem::invalid(format!("the month {month} has not begun")));
    }
    let report = monthly::read(store, &domain, month)?;
    let (media, text, end) = match call.query.format.unwrap_or(ReportFormat::Html) {
        ReportFormat::Html => (HTML, report.html(), "html"),
        ReportFormat::Csv => (CSV, report.csv(), "csv"),
    };
    let bytes = Some(text.len() as u64);
    let name = Some(format!("backup-{}-{month}.{end}", domain.name));
    let source = Box::new(move |sink: &mut dyn std::io::Write| sink.write_all(text.as_bytes()));
    Ok(Download { media, bytes, name, node: None, source })
}
