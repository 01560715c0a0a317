//! Places to which answers go: standard output, or files.

use std::fs::{File, OpenOptions};
use std::io::Write as _;

use dsm::admin::grammar::Redirection;
use dsm::admin::message::{Message, ReturnCode};

use crate::output::Output;

/// Place of the answers.
pub(super) enum Destination {
    Terminal,
    File { file: File, name: String },
}

impl Destination {
    /// Opens the file of a redirection.
    pub(super) fn open(redirection: &Redirection) -> Result<Self, Message> {
        let Redirection { file: name, appends } = redirection;
        let opened = OpenOptions::new()
            .create(true)
            .write(true)
            .append(*appends)
            .truncate(!appends)
            .open(name);
        let file = opened.map_err(|error| unwritten(name, &error))?;
        Ok(Self::File { file, name: name.clone() })
    }

    /// Writes the lines of `text`.
    pub(super) fn write(&mut self, text: &str, output: &mut Output) -> Result<(), Message> {
        match self {
            Self::Terminal => {
                output.tabbed(text);
                Ok(())
            }
            Self::File { file, name } => {
                let end = if text.ends_with('\n') { "" } else { "\n" };
                let written = file.write_all(format!("{text}{end}").as_bytes());
                written.map_err(|error| unwritten(name, &error))
            }
        }
    }

    /// Writes a document on a line of its own.
    pub(super) fn document(
        &mut self,
        document: &serde_json::Map<String, serde_json::Value>,
        output: &mut Output,
    ) -> Result<(), Message> {
        match self {
            Self::Terminal => {
                output.json(document);
                Ok(())
            }
            Self::File { file, name } => {
                let line = serde_json::Value::Object(document.clone());
                writeln!(file, "{line}").map_err(|error| unwritten(name, &error))
            }
        }
    }
}

fn unwritten(name: &str, error: &std::io::Error) -> Message {
    let text = format!("The file {} cannot be written: {error}.", model::printable(name));
    Message::refusal("ANS8011E", ReturnCode::InputOutput, text)
}
