//! `holdfast image files`: lists files in an image.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use image::{FoundFile, PartName};
use model::{Kind, ServerTime, escaped};
use serde::Serialize;

use super::opened;
use crate::context::Context;
use crate::error::{CommandError, DONE, FAILED};
use crate::output::{self, Output};
use crate::path::JsonPath;
use crate::waiter::LinkArgs;
use crate::{moment, quantity};

/// List files in an image, without restoring it
///
/// Only the needed parts of the image are read. Needs root, a Linux kernel that knows the file
/// system, and /dev/fuse. Nothing is mounted where others see it.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast image files /dev/sda / --partition 2
  holdfast image files /dev/sda /etc --partition vg0/root
  holdfast image files /dev/vg0/home /ann --at '2026-10-24' --recursive")]
pub(crate) struct Args {
    /// Name of the image, as 'holdfast image list' shows it
    #[arg(value_name = "IMAGE")]
    name: OsString,
    /// Path of a directory or a file, from the root of the file system in the image
    #[arg(value_name = "PATH", default_value = "/")]
    path: PathBuf,
    /// Look into the newest image that is not newer than this time
    #[arg(long, value_name = "TIME", value_parser = moment::parse)]
    at: Option<ServerTime>,
    /// Number of the partition, or logical volume as VG/LV, if the image has several
    #[arg(long, value_name = "PART")]
    partition: Option<PartName>,
    /// Also list everything below the directories
    #[arg(long, short)]
    recursive: bool,
    #[command(flatten)]
    link: LinkArgs,
}

pub(super) fn run(args: &Args, context: &mut Context) -> Result<u8, CommandError> {
    let opened = opened::open(context, &args.link, &args.name, args.at, args.partition.as_ref())?;
    let output = &mut context.output;
    let mut code = DONE;
    let mut visit = |file: &FoundFile| {
        write(file, output);
        output.is_open()
    };
    let mut fail = |path: &[u8], error: &io::Error| {
        code = FAILED;
        output::say(&format!("{}: {}", escaped(path), opened.reason(error)));
    };
    let listed = image::list(opened.root(), &args.path, args.recursive, &mut visit, &mut fail);
    listed.map_err(|error| {
        let path = args.path.display();
        CommandError::new(format!("cannot list {path} in the image: {}", opened.reason(&error)))
    })?;
    Ok(code)
}

/// `image files --json`, one document per line.
#[derive(Serialize)]
struct FileDocument<'a> {
    path: JsonPath<'a>,
    kind: &'static str,
    size: u64,
    mtime: String,
    mode: String,
    uid: u32,
    gid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<JsonPath<'a>>,
}

fn write(file: &FoundFile, output: &mut Output) {
    let stat = &file.stat;
    let mtime = moment::file_time(stat.mtime);
    let mode = format!("{:04o}", stat.mode);
    if output.is_json() {
        output.json(&FileDocument {
            path: JsonPath(&file.path),
            kind: kind_name(stat.kind),
            size: stat.size,
            mtime,
            mode,
            uid: stat.uid,
            gid: stat.gid,
            target: file.target.as_deref().map(JsonPath),
        });
        return;
    }
    let target = file.target.as_ref().map(|target| format!(" -> {}", escaped(target)));
    let line = format!(
        "{}{mode}  {:>5}  {:>5}  {:>15}  {}  {}{}",
        kind_letter(stat.kind),
        stat.uid,
        stat.gid,
        quantity::count(stat.size),
        mtime,
        escaped(&file.path),
        target.unwrap_or_default(),
    );
    output.line(&line);
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink => "symlink",
        Kind::Fifo => "fifo",
        Kind::CharDevice => "character device",
        Kind::BlockDevice => "block device",
    }
}

/// Returns the letter of `ls -l`.
fn kind_letter(kind: Kind) -> char {
    match kind {
        Kind::File => '-',
        Kind::Directory => 'd',
        Kind::Symlink => 'l',
        Kind::Fifo => 'p',
        Kind::CharDevice => 'c',
        Kind::BlockDevice => 'b',
    }
}
