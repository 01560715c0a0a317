//! `holdfast key`: the keys with which this node encrypts its files.

use std::io::Read as _;

use client::keys::{self, KeySummary};
use serde::Serialize;

use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::output;
use crate::table::{self, Align};

/// Maximum number of bytes that are read as a written key.
const KEY_BYTES_MAX: u64 = 4096;

/// Make, list, show and import the keys that encrypt this node's files
///
/// Files that 'include.encrypt' statements name are encrypted. The keys are on this machine only.
/// Nobody can restore a file that is encrypted with a lost key.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast key create
  holdfast key show > /mnt/safe/key-of-this-node")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Make a key; it encrypts from the next backup on, and older keys still decrypt
    #[command(after_help = "\
Example:
  holdfast key create")]
    Create,
    /// List the names of this node's keys
    #[command(after_help = "\
Example:
  holdfast key list")]
    List,
    /// Write the keys to standard output, so that they can be kept in a safe place
    #[command(after_help = "\
Example:
  holdfast key show > /mnt/safe/key-of-this-node")]
    Show,
    /// Add a key that 'holdfast key show' has written
    #[command(after_help = "\
Example:
  holdfast key import - < key-of-this-node")]
    Import {
        /// The key as 'holdfast key show' wrote it; - reads it from standard input
        #[arg(value_name = "KEY")]
        key: String,
    },
}

pub(super) fn run(args: Args, context: &mut Context) -> Result<u8, CommandError> {
    let home = context.home()?;
    match args.action {
        Action::Create => {
            let key = keys::create(&home)?;
            if context.output.is_json() {
                context.output.json(&KeyDocument::with_key(&key));
            } else {
                context.output.text(&advice(&key));
            }
        }
        Action::List => list(&keys::list(&home)?, context),
        Action::Show => show(&keys::list(&home)?, context),
        Action::Import { key } => {
            let key = if key == "-" { key_from_stdin()? } else { key };
            let key = keys::import(&home, &key)?;
            if context.output.is_json() {
                context.output.json(&KeyDocument::new(&key));
            } else {
                let use_of = if key.is_in_use { "encrypts and decrypts" } else { "decrypts" };
                let text = format!("Key {} {use_of} this node's files.\n", key.name);
                context.output.text(&text);
            }
        }
    }
    Ok(DONE)
}

fn advice(key: &KeySummary) -> String {
    format!(
        "Key {} encrypts the files that 'include.encrypt' statements name, from the next backup\n\
         on. Keep a copy of this key in a safe place outside this machine. If all copies are\n\
         lost, nobody can restore the files that the key has encrypted:\n\n  {}\n",
        key.name, key.written
    )
}

fn list(keys: &[KeySummary], context: &mut Context) {
    if context.output.is_json() {
        return keys.iter().for_each(|key| context.output.json(&KeyDocument::new(key)));
    }
    if keys.is_empty() {
        return context.output.note("This node has no key: nothing is encrypted.");
    }
    let columns = [("Key", Align::Left), ("Use", Align::Left)];
    let row = |key: &KeySummary| [key.name.to_string(), use_of(key).to_owned()];
    let rows: Vec<_> = keys.iter().map(row).collect();
    context.output.text(&table::render(columns, &rows));
}

fn use_of(key: &KeySummary) -> &'static str {
    if key.is_in_use { "encrypts" } else { "decrypts" }
}

fn show(keys: &[KeySummary], context: &mut Context) {
    for key in keys {
        if context.output.is_json() {
            context.output.json(&KeyDocument::with_key(key));
        } else {
            context.output.text(&format!("{}\n", key.written));
        }
    }
    if keys.is_empty() && !context.output.is_json() {
        output::say("This node has no key.");
    }
}

fn key_from_stdin() -> Result<String, CommandError> {
    let mut key = String::new();
    let read = std::io::stdin().lock().take(KEY_BYTES_MAX).read_to_string(&mut key);
    read.map_err(|error| {
        CommandError::new(format!("cannot read the key from standard input: {error}"))
    })?;
    Ok(key)
}

/// `key --json`, one document per line.
#[derive(Serialize)]
struct KeyDocument<'a> {
    name: String,
    encrypts: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
}

impl<'a> KeyDocument<'a> {
    fn new(key: &'a KeySummary) -> Self {
        Self { name: key.name.to_string(), encrypts: key.is_in_use, key: None }
    }

    fn with_key(key: &'a KeySummary) -> Self {
        Self { key: Some(&key.written), ..Self::new(key) }
    }
}
