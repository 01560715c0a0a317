//! This agent among other agents of its node: a machine that was copied has a copy of the node's
//! folder, and both agents would carry out each event.
//!
//! The server admits one of them, and refuses the other while the first one lives. The refused
//! agent begins nothing, and a file keeps that in mind until the server admits it.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use client::AgentIdentity;
use sys::durable;

/// File with the reason why the server refuses this agent.
const REFUSED_FILE: &str = "refused";

/// Returns the reason why the server refuses the agent of the node in the folder `home` while
/// another agent lives; `None` if it has admitted it.
pub fn refusal(home: &Path) -> Option<String> {
    std::fs::read_to_string(home.join(crate::FOLDER).join(REFUSED_FILE)).ok()
}

/// Returns the identity of this agent, whose folder is `folder`. A copy of the folder is another
/// file, and a copy of the machine has another start.
pub(crate) fn identity(folder: &Path) -> io::Result<AgentIdentity> {
    let found = std::fs::metadata(folder)?;
    let numbers = [sys::process::boot_tag(), found.dev(), found.ino()];
    let mut place = [0; 24];
    for (part, number) in place.chunks_exact_mut(8).zip(numbers) {
        part.copy_from_slice(&number.to_le_bytes());
    }
    Ok(AgentIdentity { instance: sys::entropy::bytes(), place })
}

/// The server's verdict about this agent, on disk.
pub(crate) struct Verdict {
    file: PathBuf,
    is_refused: bool,
}

impl Verdict {
    pub(crate) fn load(folder: &Path) -> io::Result<Self> {
        let file = folder.join(REFUSED_FILE);
        let is_refused = file.try_exists()?;
        Ok(Self { file, is_refused })
    }

    /// Returns true while another agent lives, as far as this agent knows.
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Takes note that the server refuses this agent.
    pub(crate) fn refuse(&mut self, reason: &str) -> io::Result<()> {
        if !std::mem::replace(&mut self.is_refused, true) {
            tracing::error!(reason, "this agent begins nothing");
        }
        durable::write(&self.file, reason.as_bytes(), 0o600)
    }

    /// Takes note that the server has admitted this agent.
    pub(crate) fn admit(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.is_refused) {
            return Ok(());
        }
        tracing::info!("the server admits this agent again");
        std::fs::remove_file(&self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_the_folder_is_another_place() {
        let (one, copy) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir());
        let copy = copy.expect("a folder");
        let [first, again] = [(); 2].map(|()| identity(one.path()).expect("is found"));
        assert_eq!(first.place, again.place);
        assert_ne!(first.instance, again.instance, "each start has its own");
        assert_ne!(identity(copy.path()).expect("is found").place, first.place);
    }

    #[test]
    fn a_refusal_is_known_after_a_restart() {
        let home = tempfile::tempdir().expect("a folder");
        let folder = home.path().join(crate::FOLDER);
        std::fs::create_dir(&folder).expect("is made");
        let mut verdict = Verdict::load(&folder).expect("is read");
        assert!(!verdict.is_refused());
        verdict.admit().expect("changes nothing");
        verdict.refuse("another agent lives").expect("is kept");
        assert!(Verdict::load(&folder).expect("is read").is_refused());
        assert_eq!(refusal(home.path()).as_deref(), Some("another agent lives"));
        verdict.admit().expect("is kept");
        assert!(!Verdict::load(&folder).expect("is read").is_refused());
        assert_eq!(refusal(home.path()), None);
    }
}
