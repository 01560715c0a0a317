//! `holdfast tape add`, `remove` and `list`: the libraries of `tape.toml`.

use std::path::PathBuf;

use ::tape::address::Address;
use ::tape::settings::NamedSite;
use ::tape::site::Site;
use serde::Serialize;

use super::site::{self, of_settings};
use crate::context::Context;
use crate::error::{CommandError, DONE};
use crate::path::JsonPath;
use crate::table::{self, Align};
use crate::values::{ValueError, size};
use crate::{path, quantity};

/// Name a library: a changer with its drives, or a folder of files that stand for tapes
///
/// An existing library of that name is replaced. Nothing on any volume changes. Give the drives in
/// the order of their elements: not every changer reports which drive is which.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast tape add vault --changer /dev/sg5 --drive /dev/sg3 --drive /dev/sg4
  holdfast tape add virtual --changer iscsi://vtl/iqn.2026-01.org.example:vtl/4 \\
      --drive iscsi://vtl/iqn.2026-01.org.example:vtl/1
  holdfast tape add files --folder /srv/tapes --capacity 100G")]
pub(super) struct AddArgs {
    /// The library: 1 to 64 letters, digits, '.', '-' or '_'
    #[arg(value_name = "NAME")]
    name: String,
    /// The changer: /dev/sgN or iscsi://HOST[:PORT]/TARGET/LUN
    #[arg(long, value_name = "ADDR", value_parser = crate::values::address, requires = "drives")]
    #[arg(required_unless_present = "folder", conflicts_with = "folder")]
    changer: Option<Address>,
    /// A drive of the changer; may be given several times
    #[arg(long = "drive", value_name = "ADDR", value_parser = crate::values::address)]
    #[arg(requires = "changer")]
    drives: Vec<Address>,
    /// The folder, which is made if it does not exist
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// The capacity of each volume in the folder, as in 100G [default: the free space of the
    /// folder]
    #[arg(long, value_name = "SIZE", value_parser = capacity, requires = "folder")]
    capacity: Option<u64>,
}

/// Smallest capacity of a volume in bytes, enough for some blocks.
const CAPACITY_BYTES_MIN: u64 = 1 << 20;

/// Parses the capacity of a volume, as in `100G`.
pub(crate) fn capacity(text: &str) -> Result<u64, ValueError> {
    match size(text)? {
        bytes if bytes < CAPACITY_BYTES_MIN => {
            Err(ValueError::Rule("the capacity must be at least 1M"))
        }
        bytes => Ok(bytes),
    }
}

/// Remove a library from the list; nothing on any volume changes
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast tape remove vault")]
pub(super) struct RemoveArgs {
    /// The library
    #[arg(value_name = "NAME")]
    name: String,
}

/// List the libraries that have names
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast tape list")]
pub(super) struct ListArgs {}

/// `tape list --json`, one document per line.
#[derive(Serialize)]
struct LibraryDocument<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    folder: Option<JsonPath<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    capacity_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    changer: Option<String>,
    drives: Vec<String>,
}

impl<'a> LibraryDocument<'a> {
    fn new(NamedSite { name, site }: &'a NamedSite) -> Self {
        let empty =
            Self { name, folder: None, capacity_bytes: None, changer: None, drives: Vec::new() };
        match site {
            Site::Folder { path, capacity_bytes } => {
                let folder = Some(JsonPath(path.as_os_str().as_encoded_bytes()));
                Self { folder, capacity_bytes: *capacity_bytes, ..empty }
            }
            Site::Devices { changer, drives } => {
                let drives = drives.iter().map(ToString::to_string).collect();
                Self { changer: Some(changer.to_string()), drives, ..empty }
            }
        }
    }
}

pub(super) fn add(args: AddArgs, context: &mut Context) -> Result<u8, CommandError> {
    let home = context.home()?;
    let mut settings = site::settings(&home)?;
    let site = match (args.folder, args.changer) {
        (Some(folder), _) => {
            let path = site::absolute(folder.as_os_str())?;
            std::fs::create_dir_all(&path).map_err(|error| {
                CommandError::new(format!("cannot make {}: {error}", path.display()))
            })?;
            Site::Folder { path, capacity_bytes: args.capacity }
        }
        (None, Some(changer)) => Site::Devices { changer, drives: args.drives },
        (None, None) => {
            return Err(CommandError::usage("give --changer or --folder", "holdfast tape add"));
        }
    };
    settings.put(&args.name, site.clone()).map_err(|error| of_settings(&error))?;
    settings.store(&home).map_err(|error| of_settings(&error))?;
    show(&[NamedSite { name: args.name, site }], context);
    Ok(DONE)
}

pub(super) fn remove(args: &RemoveArgs, context: &Context) -> Result<u8, CommandError> {
    let home = context.home()?;
    let mut settings = site::settings(&home)?;
    if !settings.remove(&args.name) {
        let error = CommandError::new(format!("there is no library {}", args.name));
        return Err(error.with_hint("'holdfast tape list' shows the libraries"));
    }
    settings.store(&home).map_err(|error| of_settings(&error))?;
    context.output.note(&format!("Library {} is removed from the list.", args.name));
    Ok(DONE)
}

pub(super) fn list(_: &ListArgs, context: &mut Context) -> Result<u8, CommandError> {
    let settings = site::settings(&context.home()?)?;
    let sites = settings.libraries();
    if sites.is_empty() && !context.output.is_json() {
        context
            .output
            .note("No library has a name; 'holdfast tape add' names a library.");
    } else {
        show(sites, context);
    }
    Ok(DONE)
}

fn show(sites: &[NamedSite], context: &mut Context) {
    if context.output.is_json() {
        return sites.iter().for_each(|site| context.output.json(&LibraryDocument::new(site)));
    }
    let columns =
        [("Library", Align::Left), ("Changer or folder", Align::Left), ("Drives", Align::Left)];
    let row = |NamedSite { name, site }: &NamedSite| match site {
        Site::Folder { path, capacity_bytes } => {
            let room = capacity_bytes.map_or_else(String::new, |bytes| {
                format!("files of {}", quantity::bytes_with_unit(bytes))
            });
            [name.clone(), model::escaped(&path::bytes(path)), room]
        }
        Site::Devices { changer, drives } => {
            let drives: Vec<_> = drives.iter().map(ToString::to_string).collect();
            [name.clone(), changer.to_string(), drives.join(" ")]
        }
    };
    let rows: Vec<_> = sites.iter().map(row).collect();
    context.output.text(&table::render(columns, &rows));
}
