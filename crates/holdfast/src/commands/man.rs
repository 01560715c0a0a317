//! `holdfast man`: the manual pages of all commands, one file each, for packages.

use std::io;
use std::path::PathBuf;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::context::Context;
use crate::error::{CommandError, DONE};

const SECTION: &str = "1";
/// Indentation of the lines of an example in the help.
const INDENT: &str = "  ";

/// Write the manual pages of all commands
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Folder of the pages
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// A manual page: the name of its file, and its text.
struct Page {
    name: String,
    text: Vec<u8>,
}

/// Writes the pages of `definition`, the definition of the whole command line.
pub(super) fn run(
    args: &Args,
    definition: &Command,
    context: &Context,
) -> Result<u8, CommandError> {
    let failed = |error: io::Error| {
        let folder = args.folder.display();
        CommandError::new(format!("cannot write the manual pages to {folder}: {error}"))
    };
    std::fs::create_dir_all(&args.folder).map_err(failed)?;
    let pages = pages(definition).map_err(failed)?;
    for page in &pages {
        std::fs::write(args.folder.join(&page.name), &page.text).map_err(failed)?;
    }
    context.output.note(&format!("{} manual pages are written.", pages.len()));
    Ok(DONE)
}

/// Returns the pages of all visible commands, those of groups of commands too.
fn pages(definition: &Command) -> io::Result<Vec<Page>> {
    let mut whole = definition.clone().disable_help_subcommand(true);
    whole.build();
    let mut pages = Vec::new();
    add_pages(&whole, None, &mut pages)?;
    Ok(pages)
}

fn add_pages(command: &Command, group: Option<&str>, pages: &mut Vec<Page>) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    pages.push(Page { name: format!("{name}.{SECTION}"), text: page(command, name, group)? });
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        add_pages(inner, Some(name), pages)?;
    }
    Ok(())
}

fn page(command: &Command, name: &str, group: Option<&str>) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone());
    let mut text = Vec::new();
    // The date is empty, so that the same sources give the same pages.
    let version = env!("CARGO_PKG_VERSION");
    let title = name.to_uppercase();
    text.extend(format!(".TH {title} {SECTION} \"\" \"holdfast {version}\" Holdfast\n").as_bytes());
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.get_subcommands().any(|inner| !inner.is_hide_set()) {
        man.render_subcommands_section(&mut text)?;
    }
    let mut end = Roff::new();
    if let Some(help) = command.get_after_long_help().or_else(|| command.get_after_help()) {
        add_help(&mut end, &help.to_string());
    }
    if let Some(group) = group {
        end.control("SH", ["SEE ALSO"]);
        end.text([roman(format!("{group}({SECTION})"))]);
    }
    end.to_writer(&mut text)?;
    Ok(text)
}

/// Adds the end of a command's help: examples, whose lines stay as they are, and other text.
fn add_help(page: &mut Roff, help: &str) {
    for line in help.lines() {
        match (line.strip_suffix(':'), line.strip_prefix(INDENT)) {
            (_, Some(example)) => {
                page.control("RS", []);
                page.control("nf", []);
                page.text([roman(example)]);
                page.control("fi", []);
                page.control("RE", []);
            }
            (Some(heading), None) => {
                page.control("SH", [heading.to_uppercase().as_str()]);
            }
            (None, None) if line.is_empty() => {
                page.control("PP", []);
            }
            (None, None) => {
                page.text([roman(line)]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::arguments::Arguments;

    fn made() -> Vec<Page> {
        pages(&Arguments::command()).expect("memory takes every page")
    }

    #[test]
    fn every_command_has_a_page_of_its_path() {
        let names: Vec<String> = made().into_iter().map(|page| page.name).collect();
        for name in ["holdfast.1", "holdfast-admin.1", "holdfast-admin-schedule-define.1"] {
            assert!(names.iter().any(|known| known == name), "{name} is missing");
        }
        for hidden in ["holdfast-man.1", "holdfast-agent-keep.1", "holdfast-help.1"] {
            assert!(!names.iter().any(|known| known == hidden), "{hidden} exists");
        }
        let mut once = names.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), names.len(), "two commands have the same page");
    }

    #[test]
    fn a_page_has_the_options_and_the_examples_of_its_command() {
        let page = made().into_iter().find(|page| page.name == "holdfast-agent.1");
        let text = String::from_utf8(page.expect("the page exists").text).expect("is text");
        insta::assert_snapshot!(text);
    }
}
