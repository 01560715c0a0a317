//! Images of virtual machines, through a `qemu-nbd` of our own.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use tempfile::TempDir;

use crate::error::NbdError;
use crate::status::DIRTY_BITMAP_PREFIX;
use crate::uri::{Endpoint, Uri};

const PROGRAM: &str = "qemu-nbd";
const PACKAGE: &str = "qemu-utils";
/// Maximum time until the program listens. It opens all files of the image before.
const START_MAX: Duration = Duration::from_secs(30);
/// Time between two looks at a program that starts.
const LOOK: Duration = Duration::from_millis(5);
/// Maximum length of the part of the program's output that an error has.
const MESSAGE_BYTES_MAX: u64 = 4096;

/// Image to serve.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    pub file: &'a Path,
    /// Format, such as `qcow2` or `raw`. Without it the program guesses the format from the
    /// content: a machine with a raw image can write a header that makes the program read other
    /// files of this host. So the format should be known.
    pub format: Option<&'a str>,
    /// Name of a persistent dirty bitmap in the image, whose context is
    /// [`dirty_bitmap_context`].
    pub bitmap: Option<&'a str>,
}

/// Returns the context of the dirty bitmap `name`.
pub fn dirty_bitmap_context(name: &str) -> String {
    format!("{DIRTY_BITMAP_PREFIX}{name}")
}

/// A `qemu-nbd` that serves an image read-only, to any number of connections of this user. It ends
/// when the value is dropped, and when this process ends in any way.
#[derive(Debug)]
pub struct QemuNbd {
    uri: Uri,
    child: Child,
    /// Thread that started the program, and the end of a channel that lets it end. The kernel kills
    /// the program with this thread.
    keeper: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
    /// Folder of the socket, which only this user may enter.
    _folder: TempDir,
}

impl QemuNbd {
    /// Starts the program, and waits until it listens. Fails with [`NbdError::Missing`] if it is
    /// not installed, and with [`NbdError::Program`] if it cannot serve the image.
    pub fn serve(image: &Image<'_>) -> Result<Self, NbdError> {
        let failure = |message: String| NbdError::Program {
            program: PROGRAM,
            file: image.file.to_owned(),
            message,
        };
        let folder = tempfile::Builder::new().prefix("holdfast-nbd-").tempdir();
        let folder = folder.map_err(|error| failure(format!("no temporary folder: {error}")))?;
        let socket = folder.path().join("socket");
        let output = folder.path().join("output");
        let output = File::create_new(&output).and_then(|file| Ok((file.try_clone()?, file)));
        let (output, mut said) = output.map_err(|error| failure(error.to_string()))?;
        let listening = folder.path().join("pid");
        let mut command = Command::new(PROGRAM);
        command.args(arguments(image, &socket, &listening));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
        let (child, keeper) = start(command).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => NbdError::Missing { program: PROGRAM, package: PACKAGE },
            _ => failure(error.to_string()),
        })?;
        let uri = Uri { endpoint: Endpoint::Unix(socket), export: Vec::new() };
        let mut server = Self { uri, child, keeper: Some(keeper), _folder: folder };
        match server.wait_until(&listening) {
            Ok(true) => Ok(server),
            Ok(false) => Err(failure(words(&mut said))),
            Err(error) => Err(failure(error.to_string())),
        }
    }

    /// Returns the address of the export, which has the size that the machine sees.
    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Waits until the program has written the file `listening`. Returns false if it has ended.
    fn wait_until(&mut self, listening: &Path) -> io::Result<bool> {
        let deadline = sys::clock::monotonic() + START_MAX;
        while !fs::metadata(listening).is_ok_and(|status| status.len() > 0) {
            if self.child.try_wait()?.is_some() {
                return Ok(false);
            }
            if sys::clock::monotonic() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            sys::clock::sleep(LOOK);
        }
        Ok(true)
    }
}

impl Drop for QemuNbd {
    fn drop(&mut self) {
        // Both calls fail only for a process that has been waited for.
        drop(self.child.kill());
        drop(self.child.wait());
        if let Some((end, keeper)) = self.keeper.take() {
            drop(end);
            drop(keeper.join());
        }
    }
}

fn arguments(image: &Image<'_>, socket: &Path, listening: &Path) -> Vec<OsString> {
    let with = |option: &str, path: &Path| {
        let mut argument = OsString::from(option);
        argument.push(path);
        argument
    };
    let mut arguments: Vec<OsString> =
        ["--read-only", "--persistent", "--shared=0"].map(OsString::from).into();
    arguments.push(with("--socket=", socket));
    arguments.push(with("--pid-file=", listening));
    arguments.extend(image.format.map(|format| OsString::from(format!("--format={format}"))));
    arguments.extend(image.bitmap.map(|bitmap| OsString::from(format!("--bitmap={bitmap}"))));
    arguments.push("--".into());
    // The program takes a name with a colon for an address, unless a slash comes first.
    arguments.push(Path::new(".").join(image.file).into());
    arguments
}

type Keeper = (mpsc::Sender<()>, JoinHandle<()>);

/// Starts a program from a thread of its own, because the kernel kills the program with the thread
/// that started it. The caller's thread may end before.
fn start(mut command: Command) -> io::Result<(Child, Keeper)> {
    sys::process::kill_with_thread(&mut command);
    let (end, ended) = mpsc::channel::<()>();
    let (report, reported) = mpsc::channel();
    let keep = move || {
        if report.send(command.spawn()).is_ok() {
            // Nothing is sent: the call returns when the other end is dropped.
            let _disconnected = ended.recv();
        }
    };
    let keeper = std::thread::Builder::new().name("qemu-nbd".to_owned()).spawn(keep)?;
    let child = reported.recv().map_err(io::Error::other)??;
    Ok((child, (end, keeper)))
}

/// Returns the end of the program's output.
fn words(said: &mut File) -> String {
    let read = |said: &mut File| -> io::Result<Vec<u8>> {
        let end = said.seek(SeekFrom::End(0))?;
        said.seek(SeekFrom::Start(end.saturating_sub(MESSAGE_BYTES_MAX)))?;
        let mut bytes = Vec::new();
        said.take(MESSAGE_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read(said).unwrap_or_default();
    let words = String::from_utf8_lossy(&bytes);
    let words = words.trim().trim_start_matches("qemu-nbd: ");
    if words.is_empty() { "it has ended without a message".to_owned() } else { words.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_told_apart() {
        let error = start(Command::new("no-such-program")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_name_is_never_taken_for_an_address_or_an_option() {
        let check = |file: &str, expected: &str| {
            let image = Image { file: Path::new(file), format: Some("raw"), bitmap: Some("b") };
            let arguments = arguments(&image, Path::new("/s"), Path::new("/p"));
            let end: Vec<_> = arguments.iter().rev().take(4).collect();
            assert_eq!(end, [expected, "--", "--bitmap=b", "--format=raw"]);
        };
        check("/a/disk", "/a/disk");
        check("nbd:host", "./nbd:host");
        check("--help", "./--help");
    }
}
