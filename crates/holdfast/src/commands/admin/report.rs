//! `holdfast admin report`: the report of a month about a domain.

use std::path::PathBuf;

use client::admin::Admin;
use serde_json::json;

use super::user::tell;
use crate::context::Context;
use crate::error::{CommandError, DONE};

/// Write the report of a month about a domain: occupancy, success, restores
///
/// The page needs nothing else and prints well. A table has a line for each node.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin report LAB --month 2026-10 --output lab-2026-10.html
  holdfast admin report LAB --format csv --output lab.csv")]
pub(crate) struct Args {
    /// The domain
    #[arg(value_name = "DOMAIN")]
    domain: String,
    /// The month, as in 2026-10 [default: the present month]
    #[arg(long, value_name = "MONTH")]
    month: Option<String>,
    /// The form
    #[arg(long, value_name = "FORM", value_parser = ["html", "csv"], default_value = "html")]
    format: String,
    /// The file to write
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

pub(super) fn run(
    args: &Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    let answer = admin.rest("GET", &path(args)?, None)?;
    if !answer.is_success() {
        return Err(super::request::failure(&answer));
    }
    std::fs::write(&args.output, &answer.body).map_err(|error| {
        CommandError::new(format!("cannot write {}: {error}", args.output.display()))
    })?;
    let file = args.output.display().to_string();
    let written = json!({ "file": file, "bytes": answer.body.len() });
    tell(&written, &format!("The report is in {file}."), context);
    Ok(DONE)
}

/// Returns the path of the request. A domain is part of a path, so it must be plain.
fn path(args: &Args) -> Result<String, CommandError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    for (what, text) in
        [("domain", &args.domain), ("month", args.month.as_ref().unwrap_or(&args.domain))]
    {
        if text.is_empty() || !text.bytes().all(is_plain) {
            let message = format!("'{}' is not a {what}", text.escape_debug());
            return Err(CommandError::usage(&message, "holdfast admin report"));
        }
    }
    let month = args.month.as_ref().map(|month| format!("&month={month}")).unwrap_or_default();
    Ok(format!("/v1/domains/{}/report?format={}{month}", args.domain, args.format))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(domain: &str, month: Option<&str>) -> Args {
        Args {
            domain: domain.to_owned(),
            month: month.map(str::to_owned),
            format: "csv".to_owned(),
            output: PathBuf::from("f"),
        }
    }

    #[test]
    fn a_domain_and_a_month_are_no_paths() {
        let good = path(&args("LAB", Some("2026-10"))).expect("is plain");
        assert_eq!(good, "/v1/domains/LAB/report?format=csv&month=2026-10");
        assert_eq!(
            path(&args("LAB", None)).expect("is plain"),
            "/v1/domains/LAB/report?format=csv"
        );
        for (domain, month) in [("", None), ("a/b", None), ("LAB", Some("2026-10&x=1"))] {
            assert!(path(&args(domain, month)).is_err());
        }
    }
}
