//! Images of a disk after power cuts.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cut::Cut;
use super::log::{Entry, Log, Position};

/// Image that goes forward through a log, from flush to flush.
#[derive(Debug)]
pub struct Replay<'a> {
    log: &'a Log,
    path: PathBuf,
    image: File,
    position: Position,
}

impl<'a> Replay<'a> {
    /// Begins with the image `path`, which is as the disk was when the log began. The image is
    /// changed.
    pub fn begin(log: &'a Log, path: &Path) -> io::Result<Self> {
        let image = File::options().write(true).open(path)?;
        Ok(Self { log, path: path.to_owned(), image, position: Position::default() })
    }

    /// Makes the image `target`, which is as the cut leaves the disk. The cuts come in the order of
    /// their positions.
    pub fn after(&mut self, cut: &Cut, target: &Path) -> io::Result<()> {
        self.advance(cut.settled)?;
        copy(&self.path, target)?;
        let image = File::options().write(true).open(target)?;
        cut.kept(self.log)
            .try_for_each(|fragment| image.write_all_at(fragment.data, fragment.offset))
    }

    fn advance(&mut self, to: Position) -> io::Result<()> {
        assert!(self.position <= to, "cuts come in the order of their positions");
        for entry in &self.log.entries()[self.position.0..to.0] {
            if let Entry::Write(write) = entry {
                self.image.write_all_at(&write.data, write.offset)?;
            }
        }
        self.position = to;
        Ok(())
    }
}

/// Copies an image. Its holes stay holes.
pub(super) fn copy(source: &Path, target: &Path) -> io::Result<()> {
    let mut command = Command::new("cp");
    command
        .args(["--sparse=always", "--reflink=auto", "--"])
        .arg(source)
        .arg(target);
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other("cp failed")) }
}

#[cfg(test)]
mod tests {
    use super::super::cut::Loss;
    use super::super::log::Write;
    use super::*;
    use crate::nasty::Random;
    use crate::scratch::Scratch;

    #[test]
    fn an_image_has_the_writes_before_its_cut_and_no_others() {
        let scratch = Scratch::new();
        let (base, target) = (scratch.join("base"), scratch.join("target"));
        std::fs::write(&base, [b'.'; 6]).unwrap();
        let mut log = Log::default();
        let write = |offset, data: &[u8]| Entry::Write(Write { offset, data: data.to_vec() });
        for entry in [write(0, b"ab"), Entry::Flush, write(1, b"cd"), write(2, b"e"), Entry::Flush]
        {
            log.push(entry);
        }
        let mut replay = Replay::begin(&log, &base).unwrap();
        let mut random = Random::new(1, b"replay");
        for (position, loss, expected) in [
            (1, Loss::Everything, b"......"),
            (2, Loss::Everything, b"ab...."),
            (3, Loss::Nothing, b"acd..."),
            (4, Loss::Nothing, b"ace..."),
            (4, Loss::Everything, b"ab...."),
            (5, Loss::Everything, b"ace..."),
        ] {
            let cut = Cut::choose(&log, Position(position), loss, &mut random);
            replay.after(&cut, &target).unwrap();
            assert_eq!(&std::fs::read(&target).unwrap(), expected, "cut at {position}");
        }
    }
}
