//! `holdfast admin user`: people who use the REST API.

use client::admin::Admin;
use serde_json::{Value, json};

use super::request::{ask, pages};
use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::table::{self, Align};
use crate::values::ValueError;

/// Register, show and remove people who use the REST API
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin user add anna --role system
  holdfast admin user add bert --role tenant@LAB --password-file bert.txt")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: UserCommand,
}

#[derive(clap::Subcommand, Debug)]
enum UserCommand {
    Add(AddArgs),
    /// List all people
    #[command(after_help = "Example:\n  holdfast admin user list")]
    List,
    /// Show one person
    #[command(after_help = "Example:\n  holdfast admin user show anna")]
    Show(NameArgs),
    Set(SetArgs),
    /// Refuse a person until the person is unlocked, and end all sign-ins
    #[command(after_help = "Example:\n  holdfast admin user lock anna")]
    Lock(NameArgs),
    /// Admit a locked person again
    #[command(after_help = "Example:\n  holdfast admin user unlock anna")]
    Unlock(NameArgs),
    /// Remove a person with roles, keys and sign-ins
    #[command(after_help = "Example:\n  holdfast admin user remove anna")]
    Remove(NameArgs),
}

/// Register a person
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin user add anna --role system --password-file password.txt")]
struct AddArgs {
    /// The login: 1 to 64 letters, digits, '.', '-', '_' or '@'
    #[arg(value_name = "LOGIN")]
    login: String,
    /// The name by which others know the person
    #[arg(long, value_name = "TEXT", default_value = "")]
    name: String,
    /// The address for mail
    #[arg(long, value_name = "ADDRESS", default_value = "")]
    mail: String,
    /// A role: system, policy, storage, operator, auditor, tenant@DOMAIN or owner@DOMAIN; may be
    /// given several times
    #[arg(long, value_name = "ROLE", value_parser = known_role)]
    role: Vec<String>,
    /// File whose first line is the first password; without it, the person can only use keys
    #[arg(long, value_name = "FILE")]
    password_file: Option<std::path::PathBuf>,
}

/// Change a person
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin user set anna --role auditor --role operator
  holdfast admin user set anna --no-second-factor")]
struct SetArgs {
    /// The login
    #[arg(value_name = "LOGIN")]
    login: String,
    /// A role, as in 'user add'; the given roles replace all that the person has
    #[arg(long, value_name = "ROLE", value_parser = known_role)]
    role: Vec<String>,
    /// File whose first line is the new password
    #[arg(long, value_name = "FILE")]
    password_file: Option<std::path::PathBuf>,
    /// Remove the second factor of a person who has lost it
    #[arg(long)]
    no_second_factor: bool,
}

#[derive(clap::Args, Debug)]
struct NameArgs {
    /// The login
    #[arg(value_name = "LOGIN")]
    login: String,
}

pub(super) fn run(
    args: Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    match args.command {
        UserCommand::Add(args) => add(&args, admin, context)?,
        UserCommand::List => list(&pages(admin, "/v1/users")?, context),
        UserCommand::Show(args) => {
            let user = ask(admin, "GET", &path(&args.login)?, None)?;
            tell(&user, &description(&user), context);
        }
        UserCommand::Set(args) => set(&args, admin, context)?,
        UserCommand::Lock(args) => lock(&args, true, admin, context)?,
        UserCommand::Unlock(args) => lock(&args, false, admin, context)?,
        UserCommand::Remove(args) => remove(&args, admin, context)?,
    }
    Ok(DONE)
}

/// Returns the path of a person, whose login must be plain.
pub(super) fn path(login: &str) -> Result<String, CommandError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_@".contains(&byte);
    if login.is_empty() || !login.bytes().all(is_plain) {
        let message = format!("'{}' is not the login of a user", login.escape_debug());
        return Err(CommandError::usage(&message, "holdfast admin user"));
    }
    Ok(format!("/v1/users/{login}"))
}

/// Takes a role, with or without a domain.
fn known_role(text: &str) -> Result<String, ValueError> {
    let name = text.split_once('@').map_or(text, |(name, _)| name);
    if api::role_names().any(|role| role == name) {
        Ok(text.to_owned())
    } else {
        Err(ValueError::Rule(
            "the role must be system, policy, storage, operator, auditor, tenant@DOMAIN or \
             owner@DOMAIN",
        ))
    }
}

/// Parses `ROLE` or `ROLE@DOMAIN`.
fn role(text: &str) -> Value {
    match text.split_once('@') {
        Some((role, domain)) => json!({ "role": role, "domain": domain }),
        None => json!({ "role": text }),
    }
}

fn roles(texts: &[String]) -> Vec<Value> {
    texts.iter().map(|text| role(text)).collect()
}

/// Returns the first line of a file.
fn first_line(file: &std::path::Path) -> Result<String, CommandError> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        CommandError::new(format!("cannot read the password in {}: {error}", file.display()))
    })?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

fn add(args: &AddArgs, admin: &mut Admin, context: &mut Context) -> Result<(), CommandError> {
    let mut body = json!({
        "login": args.login,
        "name": args.name,
        "mail": args.mail,
        "roles": roles(&args.role),
    });
    if let Some(file) = &args.password_file {
        body["password"] = first_line(file)?.into();
    }
    let user = ask(admin, "POST", "/v1/users", Some(&body))?;
    tell(&user, &format!("User {} is registered.", args.login), context);
    Ok(())
}

fn set(args: &SetArgs, admin: &mut Admin, context: &mut Context) -> Result<(), CommandError> {
    let mut body = json!({});
    if !args.role.is_empty() {
        body["roles"] = roles(&args.role).into();
    }
    if let Some(file) = &args.password_file {
        body["password"] = first_line(file)?.into();
    }
    if args.no_second_factor {
        body["has_second_factor"] = false.into();
    }
    if body == json!({}) {
        let message = "nothing is to be changed; give an option";
        return Err(CommandError::usage(message, "holdfast admin user set"));
    }
    let path = path(&args.login)?;
    let before = ask(admin, "GET", &path, None)?;
    let user = ask(admin, "PATCH", &path, Some(&body))?;
    tell(&user, &format!("User {} is changed.", args.login), context);
    say_if_last(&before, admin, context)
}

fn lock(
    args: &NameArgs,
    locked: bool,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<(), CommandError> {
    let body = json!({ "locked": locked });
    let path = path(&args.login)?;
    let before = ask(admin, "GET", &path, None)?;
    let user = ask(admin, "PATCH", &path, Some(&body))?;
    let state = if locked { "locked" } else { "unlocked" };
    tell(&user, &format!("User {} is {state}.", args.login), context);
    say_if_last(&before, admin, context)
}

fn remove(args: &NameArgs, admin: &mut Admin, context: &mut Context) -> Result<(), CommandError> {
    let path = path(&args.login)?;
    let user = ask(admin, "GET", &path, None)?;
    ask(admin, "DELETE", &path, None)?;
    let removed = json!({ "login": args.login });
    tell(&removed, &format!("User {} is removed.", args.login), context);
    say_if_last(&user, admin, context)
}

/// Says so if a change of a person has left nobody who may do everything. `before` is the person
/// before the change.
fn say_if_last(before: &Value, admin: &mut Admin, context: &Context) -> Result<(), CommandError> {
    if may_do_everything(before) && !pages(admin, "/v1/users")?.iter().any(may_do_everything) {
        context.output.note(
            "nobody has the role system any more: only the administrator of this machine may do \
             everything; 'holdfast admin user set LOGIN --role system' gives the role to a person",
        );
    }
    Ok(())
}

fn may_do_everything(user: &Value) -> bool {
    let is_locked = user["locked"].as_bool() == Some(true);
    let mut roles = user["roles"].as_array().into_iter().flatten();
    !is_locked && roles.any(|role| role["role"] == "system" && role["domain"].is_null())
}

pub(super) fn tell(document: &Value, text: &str, context: &mut Context) {
    if context.output.is_json() {
        context.output.json(document);
    } else if !context.output.quiet {
        context.output.text(text);
    }
}

/// Returns the roles of a person in words.
fn role_words(user: &Value) -> String {
    let roles = user["roles"].as_array().cloned().unwrap_or_default();
    let word = |role: &Value| {
        let name = role["role"].as_str().unwrap_or_default();
        match role["domain"].as_str() {
            Some(domain) => format!("{name}@{domain}"),
            None => name.to_owned(),
        }
    };
    roles.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn yes_no(value: &Value) -> &'static str {
    if value.as_bool() == Some(true) { "yes" } else { "no" }
}

pub(super) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn description(user: &Value) -> String {
    format!(
        "Login:          {}\nName:           {}\nMail:           {}\nRoles:          {}\n\
         Password:       {}\nSecond factor:  {}\nLocked:         {}",
        text(user, "login"),
        text(user, "name"),
        text(user, "mail"),
        role_words(user),
        yes_no(&user["has_password"]),
        yes_no(&user["has_second_factor"]),
        yes_no(&user["locked"]),
    )
}

fn list(users: &[Value], context: &mut Context) {
    if context.output.is_json() {
        users.iter().for_each(|user| context.output.json(user));
        return;
    }
    let columns = [
        ("Login", Align::Left),
        ("Name", Align::Left),
        ("Roles", Align::Left),
        ("Second factor", Align::Left),
        ("Locked", Align::Left),
    ];
    let rows = users.iter().map(|user| {
        [
            text(user, "login").to_owned(),
            text(user, "name").to_owned(),
            role_words(user),
            yes_no(&user["has_second_factor"]).to_owned(),
            yes_no(&user["locked"]).to_owned(),
        ]
    });
    let table = table::render(columns, &rows.collect::<Vec<_>>());
    context.output.text(&table);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message was that of the server's parser, with the column of the request.
    #[test]
    fn an_unknown_role_is_refused_with_the_known_ones() {
        for known in ["system", "auditor@LAB", "tenant@LAB"] {
            assert_eq!(known_role(known), Ok(known.to_owned()));
        }
        let refusal = known_role("").expect_err("refused").to_string();
        for role in api::role_names() {
            assert_eq!(known_role(role), Ok(role.to_owned()));
            assert!(refusal.contains(role), "{role}: {refusal}");
        }
        for unknown in ["root", "", "@LAB", "system "] {
            let refusal = known_role(unknown).expect_err("refused").to_string();
            assert!(refusal.starts_with("the role must be system, policy"), "{refusal}");
        }
    }

    #[test]
    fn a_role_may_have_a_domain() {
        assert_eq!(role("system"), json!({ "role": "system" }));
        assert_eq!(role("tenant@LAB"), json!({ "role": "tenant", "domain": "LAB" }));
        let user = json!({ "roles": [{ "role": "auditor" }, { "role": "owner", "domain": "A" }] });
        assert_eq!(role_words(&user), "auditor owner@A");
    }

    #[test]
    fn a_locked_person_or_a_role_in_a_domain_may_not_do_everything() {
        let may = |user: Value| may_do_everything(&user);
        assert!(may(json!({ "roles": [{ "role": "auditor" }, { "role": "system" }] })));
        assert!(!may(json!({ "roles": [{ "role": "system" }], "locked": true })));
        assert!(!may(json!({ "roles": [{ "role": "tenant", "domain": "A" }] })));
    }

    #[test]
    fn a_login_is_not_a_path() {
        assert_eq!(path("a@b.org").expect("is plain"), "/v1/users/a@b.org");
        for bad in ["", "a/b", "a?b", "a b"] {
            assert!(path(bad).is_err(), "{bad}");
        }
    }
}
