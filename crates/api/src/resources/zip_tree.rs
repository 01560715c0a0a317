//! Trees as archives of zip (Zip64), with permissions and symbolic links as on Unix. Names that are
//! not UTF-8 are kept as their bytes.

use std::io::{self, Write};

use async_zip::base::write::ZipFileWriter;
use async_zip::error::ZipError;
use async_zip::{
    AttributeCompatibility, Compression, StringEncoding, ZipDateTimeBuilder, ZipEntry,
    ZipEntryBuilder, ZipString,
};
use futures_lite::AsyncWriteExt as _;
use futures_lite::future::block_on;
use futures_lite::io::AssertAsync;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use model::{Kind, Object, Payload};
use store::selection::ContentReader;

use super::trees::Archive;

/// Types of files in the mode of Unix.
const FILE: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;
const SYMLINK: u32 = 0o120_000;
/// Size of the pieces in which content is copied.
const PIECE_BYTES: usize = 64 << 10;

/// An archive of zip that is being written.
pub(super) struct ZipTree<'a>(ZipFileWriter<AssertAsync<&'a mut dyn Write>>);

impl<'a> ZipTree<'a> {
    pub(super) fn new(sink: &'a mut dyn Write) -> Self {
        Self(ZipFileWriter::new(AssertAsync::new(sink)))
    }

    pub(super) fn finish(self) -> io::Result<()> {
        now(self.0.close()).map(drop)
    }

    fn file(&mut self, entry: ZipEntry, content: &mut dyn io::Read) -> io::Result<()> {
        let mut writer = now(self.0.write_entry_stream(entry))?;
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            match content.read(&mut piece)? {
                0 => return now(writer.close()),
                length => block_on(writer.write_all(&piece[..length]))?,
            }
        }
    }
}

impl Archive for ZipTree<'_> {
    fn add(
        &mut self,
        path: &[u8],
        object: &Object,
        reader: &mut ContentReader<'_>,
    ) -> io::Result<()> {
        match (object.stat.kind, &object.payload) {
            (Kind::File, _) => {
                let entry = entry(path, FILE, attributes(object));
                self.file(entry, &mut reader.content(object))
            }
            (Kind::Directory, _) => {
                let entry = entry(&[path, b"/"].concat(), DIRECTORY, attributes(object));
                now(self.0.write_entry_whole(entry, b""))
            }
            (Kind::Symlink, Payload::Target(target)) => {
                let entry = entry(path, SYMLINK, attributes(object));
                now(self.0.write_entry_whole(entry, target))
            }
            // Zip knows nothing else.
            _ => Ok(()),
        }
    }
}

/// Returns the result of a future, which never waits, because the sink blocks.
fn now<T>(future: impl Future<Output = Result<T, ZipError>>) -> io::Result<T> {
    block_on(future).map_err(|error| match error {
        ZipError::UpstreamReadError(error) => error,
        error => io::Error::other(error),
    })
}

/// Returns the permission bits of an object, and the time of its last change in seconds.
fn attributes(object: &Object) -> (u16, i64) {
    (object.stat.mode, object.stat.mtime.secs)
}

fn entry(path: &[u8], kind: u32, (mode, changed): (u16, i64)) -> ZipEntry {
    let encoding = match std::str::from_utf8(path) {
        Ok(_) => StringEncoding::Utf8,
        Err(_) => StringEncoding::Raw,
    };
    let name = ZipString::new(path.to_vec(), encoding);
    ZipEntryBuilder::new(name, Compression::Stored)
        .attribute_compatibility(AttributeCompatibility::Unix)
        .external_file_attribute((kind | u32::from(mode)) << 16)
        .last_modification_date(date(changed))
        .build()
}

/// Returns a time as zip has it: UTC, from 1980 to 2107, in steps of two seconds.
fn date(secs: i64) -> async_zip::ZipDateTime {
    let time = Timestamp::from_second(secs).unwrap_or(Timestamp::UNIX_EPOCH);
    let time = time.to_zoned(TimeZone::UTC);
    let of_year = |value: i8| u32::from(value.unsigned_abs());
    if !(1980..=2107).contains(&time.year()) {
        return ZipDateTimeBuilder::new().year(1980).month(1).day(1).build();
    }
    ZipDateTimeBuilder::new()
        .year(time.year().into())
        .month(of_year(time.month()))
        .day(of_year(time.day()))
        .hour(of_year(time.hour()))
        .minute(of_year(time.minute()))
        .second(of_year(time.second()))
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_keeps_names_of_any_bytes() {
        let mut bytes: Vec<u8> = Vec::new();
        let mut tree = ZipTree::new(&mut bytes);
        for name in [&b"plain"[..], "r\u{e9}sum\u{e9}".as_bytes(), b"\xff\xfe"] {
            tree.file(entry(name, FILE, (0o640, 0)), &mut &b"content"[..])
                .expect("is written");
        }
        tree.finish().expect("is written");
        for name in [&b"plain"[..], "r\u{e9}sum\u{e9}".as_bytes(), b"\xff\xfe"] {
            let count = bytes.windows(name.len()).filter(|window| *window == name).count();
            assert_eq!(count, 2, "{}: before its content, and in the list", name.escape_ascii());
        }
    }

    #[test]
    fn times_that_zip_cannot_say_are_its_first() {
        let first = date(0);
        assert_eq!(date(-5), first);
        assert_eq!(date(i64::MAX), first);
        assert_eq!(date(4_400_000_000), first, "the year is 2109");
        assert_ne!(date(1_700_000_000), first);
    }
}
