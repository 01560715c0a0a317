//! `holdfast admin enrolment-key`: keys by which many machines become nodes.

use std::time::Duration;

use client::admin::{Admin, EnrolmentKey, NewEnrolmentKey};
use serde::Serialize;

use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::table::{self, Align};
use crate::{moment, quantity};

/// Make, show and revoke keys that enrol many machines
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast enrolment-key add fleet --count 100 --expires 7d --label web
  holdfast admin --server /srv/holdfast enrolment-key revoke fleet")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(clap::Subcommand, Debug)]
enum KeyCommand {
    Add(AddArgs),
    /// List all keys; a key that has expired is listed for 90 days
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast enrolment-key list")]
    List,
    /// Show one key
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast enrolment-key show fleet")]
    Show(NameArgs),
    /// End a key; the nodes that it has enrolled stay
    #[command(after_help = "\
Example:\n  holdfast admin --server /srv/holdfast enrolment-key revoke fleet")]
    Revoke(NameArgs),
}

/// Make a key and print it; it is not shown again
///
/// A machine becomes a new node by 'holdfast enroll SERVER --token KEY', under the name of the
/// machine or the name that it gives with --name.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast enrolment-key add fleet --count 100 --expires 7d \\
    --label web --domain LONG --names 'web-*'")]
struct AddArgs {
    /// The key: 1 to 64 letters, digits, '.', '-' or '_'
    #[arg(value_name = "NAME")]
    name: String,
    /// Maximum number of nodes that the key enrols
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
    /// Time until the key expires, as in 12h, 7d; at most 366d [default: 7d]
    #[arg(long, value_name = "LENGTH", value_parser = moment::parse_length)]
    expires: Option<i64>,
    /// A label that its nodes get, by which schedules find them; may be given several times
    #[arg(long, value_name = "LABEL")]
    label: Vec<String>,
    /// The policy domain of its nodes [default: STANDARD]
    #[arg(long, value_name = "DOMAIN")]
    domain: Option<String>,
    /// The option set of its nodes
    #[arg(long, value_name = "NAME")]
    optionset: Option<String>,
    /// Names that its nodes may have, with the wildcards * and ?, as in 'web-*' [default: any]
    #[arg(long, value_name = "PATTERN")]
    names: Option<String>,
}

#[derive(clap::Args, Debug)]
struct NameArgs {
    /// The key
    #[arg(value_name = "NAME")]
    name: String,
}

pub(super) fn run(
    args: Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    match args.command {
        KeyCommand::Add(args) => add(args, admin, context)?,
        KeyCommand::List => list(&admin.enrolment_keys(None)?, context),
        KeyCommand::Show(args) => {
            for key in admin.enrolment_keys(Some(&args.name))? {
                show(&key, context);
            }
        }
        KeyCommand::Revoke(args) => {
            let key = admin.revoke_enrolment_key(&args.name)?;
            if context.output.is_json() {
                context.output.json(&KeyDocument::new(&key, None));
            } else if !context.output.quiet {
                let nodes = match key.nodes {
                    0 => "It has enrolled no node".to_owned(),
                    1 => "Its node stays".to_owned(),
                    nodes => format!("Its {} stay", quantity::counted(nodes.into(), "node")),
                };
                let text = format!("Enrolment key {} is revoked. {nodes}.", key.name);
                context.output.text(&text);
            }
        }
    }
    Ok(DONE)
}

/// An enrolment key as JSON. `enrolment-key list` has one document per line.
#[derive(Serialize)]
struct KeyDocument<'a> {
    key: &'a str,
    state: &'static str,
    count: u32,
    enrolled: u32,
    made: String,
    made_by: &'a str,
    expires: String,
    revoked: Option<String>,
    domain: &'a str,
    option_set: Option<&'a str>,
    labels: &'a [String],
    names: Option<&'a str>,
    /// Text of the key, after it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
}

impl<'a> KeyDocument<'a> {
    fn new(key: &'a EnrolmentKey, token: Option<&'a str>) -> Self {
        Self {
            key: &key.name,
            state: state(key),
            count: key.nodes_max,
            enrolled: key.nodes,
            made: moment::rfc3339(key.made),
            made_by: &key.made_by,
            expires: moment::rfc3339(key.expires),
            revoked: key.revoked.map(moment::rfc3339),
            domain: &key.domain,
            option_set: key.option_set.as_deref(),
            labels: &key.labels,
            names: key.names.as_deref(),
            token,
        }
    }
}

fn state(key: &EnrolmentKey) -> &'static str {
    match key {
        _ if key.is_valid => "valid",
        _ if key.revoked.is_some() => "revoked",
        _ if key.nodes >= key.nodes_max => "used up",
        _ => "expired",
    }
}

fn add(args: AddArgs, admin: &mut Admin, context: &mut Context) -> Result<(), CommandError> {
    let (key, token) = admin.add_enrolment_key(NewEnrolmentKey {
        name: args.name,
        nodes_max: args.count,
        lifetime: args.expires.map(|secs| Duration::from_secs(secs.unsigned_abs())),
        domain: args.domain,
        option_set: args.optionset,
        labels: args.label,
        names: args.names,
    })?;
    if context.output.is_json() {
        context.output.json(&KeyDocument::new(&key, Some(&token)));
    } else if context.output.quiet {
        context.output.text(&token);
    } else {
        let text = format!(
            "Enrolment key {} is made and is not shown again. Until {} it enrols {}, each \
             with:\n\n  holdfast enroll HOST:PORT --token {token}",
            key.name,
            moment::shown(key.expires),
            quantity::counted(key.nodes_max.into(), "node"),
        );
        context.output.text(&text);
    }
    Ok(())
}

fn list(keys: &[EnrolmentKey], context: &mut Context) {
    if context.output.is_json() {
        for key in keys {
            context.output.json(&KeyDocument::new(key, None));
        }
    } else if keys.is_empty() {
        context.output.note("There is no enrolment key.");
    } else {
        context.output.text(&keys_table(keys));
    }
}

fn keys_table(keys: &[EnrolmentKey]) -> String {
    let columns = [
        ("Key", Align::Left),
        ("State", Align::Left),
        ("Enrolled", Align::Right),
        ("Of", Align::Right),
        ("Expires", Align::Left),
        ("Domain", Align::Left),
        ("Labels", Align::Left),
        ("Names", Align::Left),
    ];
    let row = |key: &EnrolmentKey| {
        [
            key.name.clone(),
            state(key).to_owned(),
            quantity::count(key.nodes.into()),
            quantity::count(key.nodes_max.into()),
            moment::shown(key.expires),
            key.domain.clone(),
            labels(key, "-"),
            key.names.clone().unwrap_or_else(|| "any".to_owned()),
        ]
    };
    let rows: Vec<_> = keys.iter().map(row).collect();
    table::render(columns, &rows)
}

fn labels(key: &EnrolmentKey, none: &str) -> String {
    if key.labels.is_empty() { none.to_owned() } else { key.labels.join(", ") }
}

fn show(key: &EnrolmentKey, context: &mut Context) {
    if context.output.is_json() {
        context.output.json(&KeyDocument::new(key, None));
        return;
    }
    let revoked = key.revoked.map(|at| format!("Revoked:     {}\n", moment::shown(at)));
    context.output.text(&format!(
        "Key:         {}\nState:       {}\nEnrolled:    {} of {}\nMade:        {} by {}\n\
         Expires:     {}\n{}Domain:      {}\nOption set:  {}\nLabels:      {}\n\
         Names:       {}\n",
        key.name,
        state(key),
        quantity::count(key.nodes.into()),
        quantity::counted(key.nodes_max.into(), "node"),
        moment::shown(key.made),
        key.made_by,
        moment::shown(key.expires),
        revoked.unwrap_or_default(),
        key.domain,
        key.option_set.as_deref().unwrap_or("none"),
        labels(key, "none"),
        key.names.as_deref().unwrap_or("any"),
    ));
}

#[cfg(test)]
mod tests {
    use model::ServerTime;

    use super::*;

    fn key(name: &str, nodes: u32) -> EnrolmentKey {
        EnrolmentKey {
            name: name.to_owned(),
            nodes_max: 10,
            nodes,
            made: ServerTime::from_secs(1_700_000_000),
            made_by: "administrator (uid 0)".to_owned(),
            expires: ServerTime::from_secs(1_700_000_000),
            revoked: None,
            domain: "STANDARD".to_owned(),
            option_set: None,
            labels: vec!["web".to_owned()],
            names: Some("web-*".to_owned()),
            is_valid: nodes < 10,
        }
    }

    #[test]
    fn the_state_says_why_a_key_enrols_nobody() {
        assert_eq!((state(&key("a", 9)), state(&key("a", 10))), ("valid", "used up"));
        let revoked = Some(ServerTime::from_secs(1));
        let revoked = EnrolmentKey { revoked, is_valid: false, ..key("a", 10) };
        assert_eq!(state(&revoked), "revoked");
        assert_eq!(state(&EnrolmentKey { is_valid: false, ..key("a", 1) }), "expired");
    }

    #[test]
    fn a_document_has_the_text_of_the_key_only_once() {
        let key = key("fleet", 3);
        let document = serde_json::to_value(KeyDocument::new(&key, Some("hfk1.x")));
        assert_eq!(document.expect("a document")["token"], "hfk1.x");
        let document = serde_json::to_value(KeyDocument::new(&key, None)).expect("a document");
        assert_eq!((document.get("token"), &document["enrolled"]), (None, &3.into()));
        assert!(keys_table(&[key]).contains("web-*"));
    }
}
