//! `bench space`: the cost of space management for programs that use files, and the speed of
//! recalls.
//!
//! ```text
//!   one server, one node, one file system in an image
//!   a file is read and opened: before the file system is managed, and after
//!   rounds: small files are migrated, and read by several threads; migrated, and recalled by a
//!     list; then the tree is copied
//!   rounds: one large file is migrated, and read; then its bytes are copied into the file system
//! ```
//!
//! Server, node and file system share the machine and its disk.

mod text;

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use e2e::clock;
use e2e::harness::Image;

use crate::arguments::{PageArgs, WorkArgs, number};
use crate::process::{self, Runner};
use crate::random::Random;
use crate::site::Site;
use crate::spread::{Spread, float};
use crate::trouble::{Context as _, Trouble};
use crate::workplace::Workplace;
use crate::{output, page};

/// Measure space management on an ext4 file system in an image, as root
///
/// Measures the time of a question of the kernel, recalls of small files, and the recall of a large
/// file compared with a copy of it.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Number of small files
    #[arg(long, value_name = "N")]
    #[arg(default_value_t = FILES_DEFAULT, value_parser = number(100..=FILES_MAX))]
    files: usize,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    work: WorkArgs,
}

const FILES_DEFAULT: usize = 20_000;
const FILES_MAX: usize = 1_000_000;
const SMALL_BYTES: usize = 4096;
const LARGE_BYTES: usize = 512 << 20;
const IMAGE_BYTES: u64 = 4 << 30;
const MKFS: [&str; 4] = ["mkfs.ext4", "-q", "-i", "4096"];
const ROUNDS: usize = 5;
const CALLS: u32 = 20_000;
const READERS: usize = 4;
const READY_MAX: Duration = Duration::from_secs(30);

/// Times of two calls, in microseconds: a read of 4 KiB, and opening and closing a file.
#[derive(Clone, Copy, Debug)]
struct Calls {
    read: Spread,
    open: Spread,
}

/// Small files per second.
#[derive(Clone, Copy, Debug)]
struct SmallFiles {
    /// Recalled because several readers open them.
    opened: Spread,
    /// Recalled by one command for all of them.
    listed: Spread,
    /// Copied within the file system, without a recall.
    copied: Spread,
}

#[derive(Debug)]
struct Results {
    /// Times before the file system is managed; the next field has the times after that.
    alone: Calls,
    managed: Calls,
    files: usize,
    migrating: Duration,
    /// Small files per second, with a value for each round.
    small: SmallFiles,
    /// MiB per second of the recalls of the large file, with a value for each round.
    recall: Spread,
    copy: Spread,
    /// Ratio of the rate of the recall to the rate of the copy in the same round.
    ratio: Spread,
}

pub(crate) fn run(args: &Args) -> Result<(), Trouble> {
    let results = measure(&args.work.folder(), args.files)?;
    let text = text::page(&results);
    page::write(&args.page.out, "space.md", &text)?;
    let document = || text::document(&results).to_string();
    output::result(&if args.page.json { document() } else { text })
}

fn measure(work: &Path, files: usize) -> Result<Results, Trouble> {
    let workplace = Workplace::below(work, Path::new("/nonexistent"))?;
    let runner = Runner::new(process::find_program()?, workplace.folder("outputs")?);
    let site = Site::new(&runner, workplace.folder("site")?);
    let server = site.enrolled()?;
    let (file, folder) = (workplace.path().join("image"), workplace.path().join("fs"));
    let image = Image::mount(&file, IMAGE_BYTES, &MKFS, &folder).ok_or_else(|| {
        Trouble::new("cannot mount a file system in an image: run the bench as root")
    })?;
    let fs = image.path().to_owned();
    output::step("writing files");
    let mut random = Random::new(7);
    let folder = fs.join("small");
    let small = write_small(&folder, files, &mut random)?;
    let large = fs.join("large");
    write(&large, LARGE_BYTES, &mut random)?;
    let resident = fs.join("resident");
    write(&resident, 1 << 20, &mut random)?;
    let alone = calls(&resident)?;
    let add = ["hsm".as_ref(), "add".as_ref(), fs.as_os_str()];
    let settings = ["--min-size", "1", "--high", "100", "--low", "100"].map(OsStr::new);
    site.client(&[&add[..], &settings[..]].concat())?;
    let keeper = Keeper::start(&site, image)?;
    let managed = calls(&resident)?;
    output::step("migrating small files");
    let (migrated, migrating) = clock::timed(|| migrate(&site, &folder));
    migrated?;
    let small = small_files(&site, &folder, &small)?;
    let (mut recall, mut copy) = (Vec::new(), Vec::new());
    let copied = workplace.path().join("copied");
    for round in 0..ROUNDS {
        output::step(&format!("recalling a large file, round {} of {ROUNDS}", round + 1));
        migrate(&site, &large)?;
        recall.push(mebibytes_per_second(&large)?);
        copy.push(copy_speed(&large, &copied, &fs.join("copy"))?);
    }
    let ratio = recall.iter().zip(&copy).map(|(recall, copy)| recall / copy);
    let results = Results {
        alone,
        managed,
        files,
        migrating,
        small,
        ratio: Spread::of(ratio),
        recall: Spread::of(recall),
        copy: Spread::of(copy),
    };
    drop(keeper);
    server.stop()?;
    Ok(results)
}

/// The process of the keeper, and the file system that it manages.
struct Keeper {
    child: Child,
    image: Option<Image>,
}

impl Keeper {
    fn start(site: &Site<'_>, image: Image) -> Result<Self, Trouble> {
        let child = Command::new(process::find_program()?)
            .args(["hsm", "run", "--home"])
            .arg(site.home())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .while_doing(|| "start space management".to_owned())?;
        let keeper = Self { child, image: Some(image) };
        let begun = clock::now();
        while site.client(&["hsm".as_ref(), "status".as_ref()]).is_err() {
            if begun.elapsed() > READY_MAX {
                return Err(Trouble::new("space management did not start within 30 s"));
            }
            clock::pause(Duration::from_millis(100));
        }
        Ok(keeper)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.image.take());
        // At the first signal the keeper refuses programs that use stubs. At the second signal it
        // ends.
        for _ in 0..2 {
            drop(sys::process::terminate(self.child.id()));
            clock::pause(Duration::from_millis(500));
        }
        drop(self.child.wait());
    }
}

fn write(path: &Path, bytes: usize, random: &mut Random) -> Result<(), Trouble> {
    let mut content = vec![0; bytes];
    random.fill(&mut content);
    std::fs::write(path, content).while_doing(|| format!("write {}", path.display()))
}

fn write_small(folder: &Path, files: usize, random: &mut Random) -> Result<Vec<PathBuf>, Trouble> {
    let mut paths = Vec::with_capacity(files);
    for number in 0..files {
        let sub = folder.join(format!("d{:03}", number / 200));
        std::fs::create_dir_all(&sub).while_doing(|| format!("make {}", sub.display()))?;
        let path = sub.join(format!("f{number}"));
        write(&path, SMALL_BYTES, random)?;
        paths.push(path);
    }
    Ok(paths)
}

fn migrate(site: &Site<'_>, path: &Path) -> Result<(), Trouble> {
    hsm(site, "migrate", path)
}

/// Runs a command of space management for `path`.
fn hsm(site: &Site<'_>, command: &str, path: &Path) -> Result<(), Trouble> {
    let program = process::find_program()?;
    let arguments = ["hsm", command, "--quiet", "--home"].map(Path::new);
    execute(program, &[&arguments[..], &[&site.home(), path]].concat())
}

fn execute(program: impl AsRef<OsStr>, arguments: &[&Path]) -> Result<(), Trouble> {
    let what = || format!("run {arguments:?}");
    // Some commands write one line for each file.
    let mut command = Command::new(program);
    let status = command.args(arguments).stdout(Stdio::null()).status().while_doing(what)?;
    if status.success() { Ok(()) } else { Err(Trouble::new(format!("{}: {status}", what()))) }
}

/// Measures the times of a read of 4 KiB from the page cache, and of opening and closing a file.
fn calls(path: &Path) -> Result<Calls, Trouble> {
    let what = || format!("read {}", path.display());
    let (mut read, mut open) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let file = File::open(path).while_doing(what)?;
        let mut buffer = [0; SMALL_BYTES];
        file.read_exact_at(&mut buffer, 65_536).while_doing(what)?;
        let (done, wall) =
            clock::timed(|| (0..CALLS).try_for_each(|_| file.read_exact_at(&mut buffer, 65_536)));
        done.while_doing(what)?;
        read.push(wall.as_secs_f64() * 1e6 / f64::from(CALLS));
        let (done, wall) = clock::timed(|| (0..CALLS).try_for_each(|_| File::open(path).map(drop)));
        done.while_doing(what)?;
        open.push(wall.as_secs_f64() * 1e6 / f64::from(CALLS));
    }
    Ok(Calls { read: Spread::of(read), open: Spread::of(open) })
}

/// Measures what is done with the small files in `folder`, which are migrated.
fn small_files(site: &Site<'_>, folder: &Path, paths: &[PathBuf]) -> Result<SmallFiles, Trouble> {
    let (mut opened, mut listed, mut copied) = (Vec::new(), Vec::new(), Vec::new());
    let copy = folder.with_extension("copy");
    let rate = |wall: Duration| float(paths.len() as u64) / wall.as_secs_f64();
    for round in 0..ROUNDS {
        output::step(&format!("recalling small files, round {} of {ROUNDS}", round + 1));
        migrate(site, folder)?;
        opened.push(recall_small(paths)?);
        migrate(site, folder)?;
        let (done, wall) = clock::timed(|| hsm(site, "recall", folder));
        done?;
        listed.push(rate(wall));
        let (done, wall) = clock::timed(|| execute("cp", &["-r".as_ref(), folder, &copy]));
        done?;
        copied.push(rate(wall));
        std::fs::remove_dir_all(&copy).while_doing(|| format!("remove {}", copy.display()))?;
    }
    let [opened, listed, copied] = [opened, listed, copied].map(Spread::of);
    Ok(SmallFiles { opened, listed, copied })
}

/// Recalls small files with several readers. Returns the files per second.
fn recall_small(paths: &[PathBuf]) -> Result<f64, Trouble> {
    let read = |paths: &[PathBuf]| paths.iter().try_for_each(|path| std::fs::read(path).map(drop));
    let (done, wall) = clock::timed(|| {
        std::thread::scope(|threads| {
            let shares = paths.chunks(paths.len().div_ceil(READERS));
            let readers: Vec<_> = shares.map(|share| threads.spawn(move || read(share))).collect();
            readers
                .into_iter()
                .try_for_each(|reader| reader.join().expect("reading does not panic"))
        })
    });
    done.while_doing(|| "recall small files".to_owned())?;
    Ok(float(paths.len() as u64) / wall.as_secs_f64())
}

fn mebibytes_per_second(path: &Path) -> Result<f64, Trouble> {
    let (read, wall) = clock::timed(|| std::io::copy(&mut File::open(path)?, &mut std::io::sink()));
    let bytes = read.while_doing(|| format!("recall {}", path.display()))?;
    Ok(float(bytes) / f64::from(1 << 20) / wall.as_secs_f64())
}

/// Copies `large` to the file `outside`, and then to the file `inside` of the managed file system.
/// Returns the speed of the second copy, in MiB per second.
fn copy_speed(large: &Path, outside: &Path, inside: &Path) -> Result<f64, Trouble> {
    let what = || format!("copy {}", large.display());
    std::fs::copy(large, outside).while_doing(what)?;
    let (copied, wall) = clock::timed(|| std::fs::copy(outside, inside));
    let bytes = copied.while_doing(what)?;
    std::fs::remove_file(inside).while_doing(what)?;
    Ok(float(bytes) / f64::from(1 << 20) / wall.as_secs_f64())
}
