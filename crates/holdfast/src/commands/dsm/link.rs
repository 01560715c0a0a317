//! `holdfast dsm link`: names of TSM's commands for this program.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::faces;
use crate::context::Context;
use crate::error::{CommandError, DONE, FAILED};
use crate::output;

/// Make links with the names of TSM's commands
///
/// A link to this program stays, and is renewed. Another file of that name is not touched.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast dsm link /usr/local/bin
  holdfast dsm link --list

Exit codes: 0 all links are there; 4 other files have some of the names.")]
pub(super) struct Args {
    /// Folder for the links, which exists
    #[arg(value_name = "DIR", required_unless_present = "list")]
    folder: Option<PathBuf>,
    /// List the commands, and what does the same, and make no links
    #[arg(long)]
    list: bool,
}

/// `dsm link --json`, one document per line.
#[derive(Serialize)]
struct LinkDocument<'a> {
    name: &'a str,
    link: Option<String>,
    error: Option<String>,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<u8, CommandError> {
    let folder = args.folder.as_deref().filter(|_| !args.list);
    let program = std::env::current_exe()
        .map_err(|error| CommandError::new(format!("cannot find this program: {error}")))?;
    if let Some(missing) = folder.filter(|folder| !folder.is_dir()) {
        let message = format!("there is no folder {}; make it first", missing.display());
        return Err(CommandError::new(message));
    }
    let (mut code, mut count) = (DONE, 0);
    for (name, does) in faces::names() {
        let made = folder.map(|folder| make(&program, &folder.join(name)));
        let error = made.and_then(Result::err);
        match error {
            Some(_) => code = FAILED,
            None => count += 1,
        }
        if context.output.is_json() {
            let link = folder.map(|folder| folder.join(name).display().to_string());
            context.output.json(&LinkDocument { name, link, error });
        } else if let Some(error) = error {
            output::say(&error);
        } else if args.list {
            context.output.line(&format!("{name:<16} {does}"));
        }
    }
    if let Some(folder) = folder {
        context
            .output
            .note(&format!("{count} commands have links in {}.", folder.display()));
    }
    Ok(code)
}

fn make(program: &Path, link: &Path) -> Result<(), String> {
    let shown = link.display();
    match std::fs::read_link(link) {
        Ok(target) if target == program => return Ok(()),
        Ok(target) if target.file_name() == program.file_name() => {
            std::fs::remove_file(link).map_err(|error| format!("cannot renew {shown}: {error}"))?;
        }
        Ok(_) => return Err(format!("{shown} is a link to something else; remove it first")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(_) => return Err(format!("{shown} is another file; remove it first")),
    }
    symlink(program, link).map_err(|error| format!("cannot make {shown}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_made_and_renewed_and_nothing_else_is_touched() {
        let folder = tempfile::tempdir().expect("a folder");
        let (old, new) = (Path::new("/old/holdfast"), Path::new("/new/holdfast"));
        let link = folder.path().join("dsmc");
        make(old, &link).expect("made");
        make(new, &link).expect("renewed");
        assert_eq!(std::fs::read_link(&link).expect("a link"), new);
        let file = folder.path().join("dsmls");
        std::fs::write(&file, "TSM's own").expect("written");
        assert!(make(new, &file).is_err_and(|error| error.contains("another file")));
        assert_eq!(std::fs::read(&file).expect("there"), b"TSM's own");
    }
}
