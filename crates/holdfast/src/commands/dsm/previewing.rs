//! `dsmc preview`: what a backup or an archive would send, and by which statement.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::os::unix::ffi::OsStringExt as _;

use dsm::client::{self as plan, Action, Last, Spec};
use serde_json::Value;

use super::child::{self, Child, Event, Outcome};
use super::joining;
use super::sending::{List, Origin, shown_path, with_places};
use super::session::Session;
use super::stored;
use crate::error::CommandError;
use crate::output;

const HEADING: &str =
    "Name                                     Size  Status    Mgmt Class  Pattern  Source";

/// `dsmc preview`: each object, whether it would be sent, and by which statement.
pub(super) fn preview(session: &mut Session<'_>) -> Result<u8, CommandError> {
    session.heading();
    joining::connect_at_once(session)?;
    let list = List::write(session, &session.site.translation.list())?;
    let specs = stored::operands(session)?;
    let is_archive = session.action() == Action::PreviewArchive;
    let mut line = plan::preview(session.options(), list.path.as_deref(), is_archive);
    line.push("--".into());
    line.extend(specs.iter().map(|spec| OsString::from_vec(spec.path())));
    let descends = goes_into_directories(session);
    session.say(HEADING);
    let mut transcript = Transcript::open(session)?;
    transcript.add(HEADING)?;
    let mut copied = Ok(());
    let home = session.home.clone();
    let child = Child { home: &home, words: &line, input: Vec::new(), tells_objects: false };
    let is_named = |document: &Value| {
        let path = crate::path::from_json(&document["path"]).unwrap_or_default();
        specs.iter().any(|spec| is_previewed(spec, &path, descends))
    };
    let outcome = child::run(child, &mut |event| match event {
        Event::Document(document) if !is_named(&document) => {}
        Event::Document(mut document) if session.is_json() => {
            if let Some(Value::String(source)) = document.pointer_mut("/rule/source") {
                *source = with_places(session, source, Origin::Named);
            }
            session.context.output.json(&document);
        }
        Event::Document(document) => {
            let line = preview_line(session, &document);
            session.say(&line);
            if copied.is_ok() {
                copied = transcript.add(&line);
            }
        }
        Event::Object { path, .. } => output::say(&path),
        Event::Note { line: note, .. } => {
            output::say(&with_places(session, &note, Origin::Named));
        }
    })?;
    drop(list);
    let code = Outcome::checked(outcome)?;
    copied.and_then(|()| transcript.finish())?;
    Ok(code)
}

/// The file that gets the lines of a preview, too, if -filename names one.
struct Transcript(Option<(String, BufWriter<File>)>);

impl Transcript {
    fn open(session: &Session<'_>) -> Result<Self, CommandError> {
        let Some(name) = session.options().text("FILENAME") else { return Ok(Self(None)) };
        let file = File::create(&name).map_err(|error| unwritten(&name, &error))?;
        Ok(Self(Some((name, BufWriter::new(file)))))
    }

    fn add(&mut self, line: &str) -> Result<(), CommandError> {
        let Some((name, file)) = &mut self.0 else { return Ok(()) };
        writeln!(file, "{line}").map_err(|error| unwritten(name, &error))
    }

    fn finish(self) -> Result<(), CommandError> {
        let Some((name, mut file)) = self.0 else { return Ok(()) };
        file.flush().map_err(|error| unwritten(&name, &error))
    }
}

fn unwritten(file: &str, error: &std::io::Error) -> CommandError {
    CommandError::new(format!("cannot write {file}: {error}"))
}

/// Returns true if a preview goes into directories below, as it does unless -traverse or -subdir of
/// the command says no.
fn goes_into_directories(session: &Session<'_>) -> bool {
    let given = |name| session.command.given(name).map(dsm::options::Entry::is_yes);
    given("TRAVERSE").or_else(|| given("SUBDIR")).unwrap_or(true)
}

/// Returns true if the operand of a preview names the object, or stands for the directory itself.
fn is_previewed(spec: &Spec, path: &[u8], descends: bool) -> bool {
    let is_top = !matches!(spec.last, Last::Matching(_)) && spec.path() == path;
    is_top || spec.names(path, descends)
}

fn preview_line(session: &Session<'_>, document: &Value) -> String {
    let path = shown_path(&document["path"]);
    let bytes = session.forms.count(document["bytes"].as_u64().unwrap_or(0));
    let is_included = document["included"].as_bool().unwrap_or(false);
    let status = if is_included { "Included" } else { "Excluded" };
    let class = document["mgmt_class"].as_str().unwrap_or("-");
    let rule = &document["rule"];
    let statement = rule["statement"].as_str().unwrap_or("-");
    let source = rule["source"].as_str().unwrap_or("-");
    let source = with_places(session, source, Origin::Named);
    format!("{path:<30} {bytes:>14}  {status}  {class:<10}  {statement}  {source}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_shows_what_its_operand_names() {
        let check = |operand: &str, path: &str, descends| {
            let spec = Spec::parse(operand.as_bytes(), b"/").expect("an operand");
            is_previewed(&spec, path.as_bytes(), descends)
        };
        assert!(check("/home/ann/", "/home/ann", false));
        assert!(check("/home/ann/", "/home/ann/a", false));
        assert!(!check("/home/ann/", "/home/ann/below/a", false));
        assert!(check("/home/ann", "/home/ann/below/a", true));
        assert!(!check("/home/ann", "/home/ann/below/a", false));
        assert!(check("/home/ann/*.c", "/home/ann/below/a.c", true));
        assert!(!check("/home/ann/*.c", "/home/ann/below/a.c", false));
        assert!(!check("/home/ann/*.c", "/home/ann", true));
        assert!(!check("/home/ann/*.c", "/home/ann/a.o", true));
    }
}
