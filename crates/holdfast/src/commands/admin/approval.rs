//! `holdfast admin approval`: what waits for a second person.

use client::admin::Admin;
use serde_json::{Value, json};

use super::request::{ask, pages};
use super::user::{tell, text};
use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::moment;
use crate::table::{self, Align};

/// List, approve, refuse and withdraw requests that wait for a second person
///
/// Requests wait where server.toml says 'two_person = true'.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin approval list
  holdfast admin approval approve 17 --reason 'the machine is gone'")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: ApprovalCommand,
}

#[derive(clap::Subcommand, Debug)]
enum ApprovalCommand {
    List(ListArgs),
    Approve(ApproveArgs),
    Refuse(RefuseArgs),
    Withdraw(WithdrawArgs),
}

/// List requests that wait, the last asked first
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin approval list
  holdfast admin approval list --all")]
struct ListArgs {
    /// List requests that somebody has decided about, too
    #[arg(long)]
    all: bool,
}

/// Approve a request of another person: it is carried out at once
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin approval approve 17 --reason 'the machine is gone'")]
struct ApproveArgs {
    #[command(flatten)]
    request: RequestArgs,
    #[command(flatten)]
    words: WordsArgs,
}

/// Refuse a request of another person
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin approval refuse 17 --reason 'it is still used'")]
struct RefuseArgs {
    #[command(flatten)]
    request: RequestArgs,
    #[command(flatten)]
    words: WordsArgs,
}

/// Withdraw a request of your own
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin approval withdraw 17")]
struct WithdrawArgs {
    #[command(flatten)]
    request: RequestArgs,
}

#[derive(clap::Args, Debug)]
struct RequestArgs {
    /// The number of the request, as in 'approval list'
    #[arg(value_name = "NUMBER")]
    number: u64,
}

#[derive(clap::Args, Debug)]
struct WordsArgs {
    /// Words for others who see the decision
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

pub(super) fn run(
    args: Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    match args.command {
        ApprovalCommand::List(args) => list(&args, admin, context),
        ApprovalCommand::Approve(ApproveArgs { request, words }) => {
            decide(request.number, ("approve", &words.reason), admin, context)
        }
        ApprovalCommand::Refuse(RefuseArgs { request, words }) => {
            decide(request.number, ("refuse", &words.reason), admin, context)
        }
        ApprovalCommand::Withdraw(WithdrawArgs { request }) => {
            let path = format!("/v1/approvals/{}", request.number);
            let decided = ask(admin, "DELETE", &path, None)?;
            tell(&decided, &outcome(&decided), context);
            Ok(DONE)
        }
    }
}

fn list(args: &ListArgs, admin: &mut Admin, context: &mut Context) -> Result<u8, CommandError> {
    let mut requests = pages(admin, "/v1/approvals")?;
    requests.retain(|request| args.all || text(request, "state") == "waiting");
    if context.output.is_json() {
        requests.iter().for_each(|request| context.output.json(request));
    } else if requests.is_empty() {
        let note =
            if args.all { "Nobody has asked for approval." } else { "Nothing waits for approval." };
        context.output.note(note);
    } else {
        context.output.text(&table(&requests));
    }
    Ok(DONE)
}

fn table(requests: &[Value]) -> String {
    let columns = [
        ("Number", Align::Right),
        ("Asked", Align::Left),
        ("Asked by", Align::Left),
        ("State", Align::Left),
        ("Request", Align::Left),
    ];
    let row = |request: &Value| {
        [
            request["number"].to_string(),
            moment::parse(text(request, "asked")).map(moment::shown).unwrap_or_default(),
            text(request, "asked_by").to_owned(),
            state(request),
            text(request, "summary").to_owned(),
        ]
    };
    table::render(columns, &requests.iter().map(row).collect::<Vec<_>>())
}

/// Returns the state of a request in words, with the reason of a decision.
fn state(request: &Value) -> String {
    let [state, by, reason] = ["state", "decided_by", "reason"].map(|name| text(request, name));
    match (by, reason) {
        ("", _) => state.to_owned(),
        (by, "") => format!("{state} by {by}"),
        (by, reason) => format!("{state} by {by}: {reason}"),
    }
}

fn decide(
    number: u64,
    (decision, reason): (&str, &str),
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    let path = format!("/v1/approvals/{number}/decision");
    let body = json!({ "decision": decision, "reason": reason });
    let decided = ask(admin, "POST", &path, Some(&body))?;
    if text(&decided, "state") == "failed" {
        if context.output.is_json() {
            context.output.json(&decided);
        }
        return Err(CommandError::new(outcome(&decided)));
    }
    tell(&decided, &outcome(&decided), context);
    Ok(DONE)
}

/// Returns what came of a decision, in words.
fn outcome(request: &Value) -> String {
    let (number, summary) = (&request["number"], text(request, "summary"));
    match text(request, "state") {
        "done" => format!("Request {number} is approved and carried out: {summary}"),
        "failed" => {
            let reason = text(request, "reason");
            format!("request {number} is approved, but could not be carried out: {reason}")
        }
        state => format!("Request {number} is {state}: {summary}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_says_what_happened() {
        let request = |state: &str| {
            let reason = "there is no node 'a'";
            json!({ "number": 7, "summary": "removes node a", "state": state, "reason": reason })
        };
        let told = ["done", "failed", "refused"].map(|state| outcome(&request(state)));
        let expected = [
            "Request 7 is approved and carried out: removes node a",
            "request 7 is approved, but could not be carried out: there is no node 'a'",
            "Request 7 is refused: removes node a",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn the_list_shows_why_somebody_has_decided_so() {
        let request = |by: &str, reason: &str| {
            let name = if by.is_empty() { "waiting" } else { "refused" };
            state(&json!({ "state": name, "decided_by": by, "reason": reason }))
        };
        assert_eq!(request("", ""), "waiting");
        assert_eq!(request("vera", ""), "refused by vera");
        assert_eq!(request("vera", "is used"), "refused by vera: is used");
    }
}
