//! `holdfast admin alert`: what needs a person, and who knows of it.

use client::admin::Admin;
use serde_json::{Value, json};

use super::request::{ask, pages};
use super::user::{tell, text};
use crate::context::Context;
use crate::error::{CommandError, DONE, FAILED};
use crate::moment;
use crate::table::{self, Align};

/// List and acknowledge alerts, and test the ways of their notices
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin alert list
  holdfast admin alert acknowledge 17 --note 'the disk is ordered'
  holdfast admin alert test --channel mail")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: AlertCommand,
}

#[derive(clap::Subcommand, Debug)]
enum AlertCommand {
    List(ListArgs),
    Acknowledge(AcknowledgeArgs),
    Test(TestArgs),
}

/// List open alerts, the last opened first
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin alert list
  holdfast admin alert list --all")]
struct ListArgs {
    /// List alerts that are over, too
    #[arg(long)]
    all: bool,
}

/// Say that you know of an alert: nobody is told of it again until it is over
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin alert acknowledge 17 --note 'the disk is ordered'")]
struct AcknowledgeArgs {
    /// The number of the alert, as in 'alert list'
    #[arg(value_name = "NUMBER")]
    number: u64,
    /// Words for others who see the alert
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
}

/// Send a test to the recipients that [alerts] in server.toml names
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin alert test
  holdfast admin alert test --channel webhook")]
struct TestArgs {
    /// Only this way
    #[arg(long, value_name = "WAY", value_parser = ["mail", "webhook"])]
    channel: Option<String>,
}

pub(super) fn run(
    args: Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    match args.command {
        AlertCommand::List(args) => list(&args, admin, context),
        AlertCommand::Acknowledge(args) => acknowledge(&args, admin, context),
        AlertCommand::Test(args) => test(&args, admin, context),
    }
}

fn list(args: &ListArgs, admin: &mut Admin, context: &mut Context) -> Result<u8, CommandError> {
    let path = if args.all { "/v1/alerts" } else { "/v1/alerts?state=open" };
    let alerts = pages(admin, path)?;
    if context.output.is_json() {
        alerts.iter().for_each(|alert| context.output.json(alert));
    } else if alerts.is_empty() {
        context
            .output
            .note(if args.all { "There is no alert." } else { "No alert is open." });
    } else {
        context.output.text(&table(&alerts));
    }
    Ok(DONE)
}

fn table(alerts: &[Value]) -> String {
    let columns = [
        ("Number", Align::Right),
        ("Since", Align::Left),
        ("State", Align::Left),
        ("Alert", Align::Left),
    ];
    let row = |alert: &Value| {
        let number = alert["number"].as_u64().unwrap_or_default();
        [number.to_string(), time(alert, "opened"), state(alert), text(alert, "text").to_owned()]
    };
    table::render(columns, &alerts.iter().map(row).collect::<Vec<_>>())
}

/// Returns the time in a field, as tables show it.
fn time(alert: &Value, field: &str) -> String {
    moment::parse(text(alert, field)).map(moment::shown).unwrap_or_default()
}

/// Returns the state of an alert in words.
fn state(alert: &Value) -> String {
    match (alert.get("ended"), text(alert, "acknowledged_by")) {
        (Some(_), _) => "over".to_owned(),
        (None, "") => "open".to_owned(),
        (None, by) => format!("known to {by}"),
    }
}

fn acknowledge(
    args: &AcknowledgeArgs,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    let path = format!("/v1/alerts/{}/acknowledgement", args.number);
    let alert = ask(admin, "POST", &path, Some(&json!({ "note": args.note })))?;
    let words = format!("Alert {} is acknowledged: {}", args.number, text(&alert, "text"));
    tell(&alert, &words, context);
    Ok(DONE)
}

fn test(args: &TestArgs, admin: &mut Admin, context: &mut Context) -> Result<u8, CommandError> {
    let body = match &args.channel {
        Some(channel) => json!({ "channel": channel }),
        None => json!({}),
    };
    let answer = ask(admin, "POST", "/v1/alerts/test", Some(&body))?;
    let attempts = answer["items"].as_array().cloned().unwrap_or_default();
    let lines: Vec<String> = attempts.iter().map(attempt).collect();
    tell(&answer, &lines.join("\n"), context);
    let is_sent = |attempt: &Value| attempt["is_sent"] == true;
    Ok(if attempts.iter().all(is_sent) { DONE } else { FAILED })
}

/// Returns what came of an attempt, in words.
fn attempt(attempt: &Value) -> String {
    let (channel, address) = (text(attempt, "channel"), text(attempt, "address"));
    match attempt["error"].as_str() {
        None => format!("A test was sent to {address} by {channel}."),
        Some(error) => format!("Nothing was sent to {address} by {channel}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_an_alert_is_in_words() {
        let states = [
            json!({}),
            json!({ "acknowledged_by": "anna" }),
            json!({ "acknowledged_by": "anna", "ended": "2026-11-20T18:00:00Z" }),
        ];
        assert_eq!(states.map(|alert| state(&alert)), ["open", "known to anna", "over"]);
    }

    #[test]
    fn an_attempt_says_what_came_of_it() {
        let sent = json!({ "channel": "mail", "address": "a@b.org", "is_sent": true });
        assert_eq!(attempt(&sent), "A test was sent to a@b.org by mail.");
        let failed = json!({ "channel": "webhook", "address": "chat", "error": "it is away" });
        assert_eq!(attempt(&failed), "Nothing was sent to chat by webhook: it is away");
    }
}
