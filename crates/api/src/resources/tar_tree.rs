//! Trees as archives of tar, in the form of GNU.

use std::io::{self, Write};
use std::path::Path;

use model::{Kind, Object, Payload};
use store::selection::ContentReader;
use tar::{Builder, EntryType, Header};

use super::trees::Archive;

/// An archive of tar that is being written.
pub(super) struct TarTree<'a>(Builder<&'a mut dyn Write>);

impl<'a> TarTree<'a> {
    pub(super) fn new(sink: &'a mut dyn Write) -> Self {
        Self(Builder::new(sink))
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.0.finish()
    }
}

impl Archive for TarTree<'_> {
    fn add(
        &mut self,
        path: &[u8],
        object: &Object,
        reader: &mut ContentReader<'_>,
    ) -> io::Result<()> {
        use std::os::unix::ffi::OsStrExt as _;
        let archive = &mut self.0;
        let path = Path::new(std::ffi::OsStr::from_bytes(path));
        let mut header = Header::new_gnu();
        header.set_mode(object.stat.mode.into());
        header.set_uid(object.stat.uid.into());
        header.set_gid(object.stat.gid.into());
        header.set_mtime(u64::try_from(object.stat.mtime.secs).unwrap_or(0));
        header.set_size(0);
        match (object.stat.kind, &object.payload) {
            (Kind::File, _) => {
                header.set_entry_type(EntryType::Regular);
                header.set_size(object.stat.size);
                archive.append_data(&mut header, path, reader.content(object))
            }
            (Kind::Directory, _) => {
                header.set_entry_type(EntryType::Directory);
                archive.append_data(&mut header, path, io::empty())
            }
            (Kind::Symlink, Payload::Target(target)) => {
                header.set_entry_type(EntryType::Symlink);
                let target = Path::new(std::ffi::OsStr::from_bytes(target));
                archive.append_link(&mut header, path, target)
            }
            (Kind::Fifo, _) => {
                header.set_entry_type(EntryType::Fifo);
                archive.append_data(&mut header, path, io::empty())
            }
            // Device nodes and links without a target mean nothing in a download.
            _ => Ok(()),
        }
    }
}
