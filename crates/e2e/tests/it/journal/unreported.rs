//! Changes of which the kernel makes no report, or one without a place: they are found, or lead to
//! a walk.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;

use e2e::harness::{binary, succeeds};
use serde_json::Value;
use sys::map::MappedWords;

use super::{FILE_SYSTEMS, Site, run};

/// A file that this process has mapped for writing.
pub(super) struct MappedFile {
    path: PathBuf,
    words: MappedWords,
}

impl MappedFile {
    /// Maps a new file of the site, which a backup by the journal has seen.
    pub(super) fn of(site: &Site) -> Self {
        let path = site.top().join("tree/folder-02/words");
        fs::write(&path, [0; 8192]).unwrap();
        site.by_journal();
        Self::open(path)
    }

    fn open(path: PathBuf) -> Self {
        let words = MappedWords::open(&path, 1024).unwrap();
        Self { path, words }
    }

    /// Writes through the mapping, down to the disk.
    pub(super) fn write(&self, value: u64) {
        self.words.words()[3].store(value, Relaxed);
        rustix::fs::fsync(File::open(&self.path).unwrap()).unwrap();
    }
}

/// Backs the site up by a program that `starter` starts. Returns its exit code and its report.
fn back_up_by(site: &Site, starter: &str, words: &[&str]) -> (Option<i32>, Value) {
    let done = Command::new(starter)
        .args(words)
        .arg(binary())
        .arg("--home")
        .arg(site.scene.node.home())
        .args(["backup", "--json"])
        .arg(site.top())
        .output()
        .unwrap();
    (done.status.code(), serde_json::from_slice(&done.stdout).unwrap())
}

/// Program whose first thread ends, while another one writes the lines of its input through a
/// mapping.
const WRITE_WITHOUT_FIRST_THREAD: &str = r#"
import ctypes, mmap, platform, sys, threading
file = open(sys.argv[1], "r+b")
words = mmap.mmap(file.fileno(), 4096)
file.close()
def write():
    for line in sys.stdin:
        words[: len(line)] = line.encode()
        words.flush()
        print("written", flush=True)
threading.Thread(target=write).start()
# The system call ends this thread only.
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)
"#;

/// The kernel shows nothing that is open or mapped in the place of a thread that has ended.
#[test]
fn a_process_without_its_first_thread_is_looked_at() {
    let Some(site) = Site::ext4() else { return };
    let site = site.anchored();
    let path = site.top().join("tree/folder-02/words");
    fs::write(&path, [0; 8192]).unwrap();
    let mut process = Command::new("python3")
        .args(["-c", WRITE_WITHOUT_FIRST_THREAD])
        .arg(&path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = process.stdin.take().unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap());
    for line in ["one\n", "two\n"] {
        site.by_journal();
        input.write_all(line.as_bytes()).unwrap();
        let mut said = String::new();
        output.read_line(&mut said).unwrap();
        assert_eq!(said, "written\n");
        site.by_journal();
        site.nothing_is_missing("a write by a process without its first thread");
    }
    drop(input);
    process.wait().unwrap();
}

/// The kernel writes to the file behind a loop device without a report, and shows its path as the
/// container sees it that has made the device.
#[test]
fn a_loop_device_of_a_container_leads_to_a_walk() {
    let Some(site) = Site::ext4() else { return };
    let site = site.anchored();
    let (tree, inside) = (site.top().join("tree"), site.scene.scratch.folder("inside"));
    File::create(tree.join("loop-file")).unwrap().set_len(4 << 20).unwrap();
    site.by_journal();
    let made = Command::new("unshare")
        .args(["--mount", "sh", "-ec"])
        .arg("mount --bind \"$1\" \"$2\"; losetup --find --show \"$2/loop-file\"")
        .arg("sh")
        .args([&tree, &inside])
        .output()
        .unwrap();
    let device = String::from_utf8(made.stdout).unwrap();
    let device = Path::new(device.trim());
    fs::write(device, [7; 4096]).unwrap();
    rustix::fs::fsync(File::open(device).unwrap()).unwrap();
    site.walks("is open for writing, and its directory is not known here");
    site.nothing_is_missing("a write through a loop device");
    run("losetup", &["--detach"], device);
    let backing = Path::new("/sys/block").join(device.file_name().unwrap());
    let is_attached = || fs::metadata(backing.join("loop/backing_file")).is_ok();
    assert!(crate::fleet::eventually(|| !is_attached()), "the loop device stays");
    site.by_journal();
    site.nothing_is_missing("the end of a loop device");
}

/// Program that writes to a file that it opens by its handle, as servers of NFS do, after the
/// kernel has forgotten the path of the file.
const WRITE_BY_HANDLE: &str = r#"
import ctypes, os, struct, sys
folder, path = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
handle, mount = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128)), ctypes.c_int()
if libc.name_to_handle_at(-100, path.encode(), handle, ctypes.byref(mount), 0) != 0:
    sys.exit("no handle: " + os.strerror(ctypes.get_errno()))
top = os.open(folder, os.O_RDONLY)
for _ in range(50):
    os.sync()
    open("/proc/sys/vm/drop_caches", "w").write("2")
    file = libc.open_by_handle_at(top, handle, os.O_WRONLY | os.O_APPEND)
    if file < 0:
        sys.exit("not opened: " + os.strerror(ctypes.get_errno()))
    if os.readlink("/proc/self/fd/%d" % file) == "/":
        break
    os.close(file)
else:
    sys.exit("the kernel knows the path of the file")
os.write(file, b"more")
"#;

/// The kernel cannot name the directory of such a file, and made no report for a group that asked
/// for directories only.
#[test]
fn a_write_to_a_file_without_a_known_path_leads_to_a_walk() {
    for mkfs in FILE_SYSTEMS {
        let Some(site) = Site::new(mkfs) else { continue };
        let site = site.anchored();
        let path = site.top().join("tree/folder-00/file-0001");
        let mut command = Command::new("python3");
        command.args(["-c", WRITE_BY_HANDLE]).arg(site.top()).arg(&path);
        assert!(succeeds(&mut command), "{}: not written", mkfs[0]);
        site.walks("a change without a place");
        site.nothing_is_missing("a write by a handle");
        site.by_journal();
        // Changes of names make such reports, too, and lead to no walk.
        let tree = site.top().join("tree");
        fs::write(tree.join("new"), "replaces").unwrap();
        fs::rename(tree.join("new"), tree.join("folder-00/file-0000")).unwrap();
        fs::remove_file(tree.join("folder-01/file-0051")).unwrap();
        site.by_journal();
        site.nothing_is_missing("changes of names");
    }
}

/// A container writes through an overlay. A file that it has mapped is one of the overlay, and what
/// changes is a file of the watched file system.
#[test]
fn files_that_are_mapped_through_an_overlay_are_looked_at() {
    let Some(site) = Site::ext4() else { return };
    let (layers, merged) = (site.top().join("layers"), site.scene.scratch.join("merged"));
    for folder in [layers.join("lower"), layers.join("upper"), layers.join("work"), merged.clone()]
    {
        fs::create_dir_all(folder).unwrap();
    }
    fs::write(layers.join("lower/words"), [0; 8192]).unwrap();
    let layers = layers.display();
    let options = format!("lowerdir={layers}/lower,upperdir={layers}/upper,workdir={layers}/work");
    run("mount", &["-t", "overlay", "none", "-o", &options], &merged);
    let site = site.anchored();
    let file = MappedFile::open(merged.join("words"));
    site.by_journal();
    for value in 1..4 {
        file.write(value);
        site.by_journal();
        site.nothing_is_missing("a write through a mapping of an overlay");
    }
    drop(file);
    run("umount", &[], &merged);
    site.by_journal();
    site.nothing_is_missing("the end of the overlay");
}

/// Files of processes that the backup may not look at counted as closed.
#[test]
fn a_backup_that_may_not_see_what_is_open_walks() {
    let Some(site) = Site::ext4() else { return };
    let site = site.anchored();
    let file = MappedFile::of(&site);
    file.write(7);
    let limits = ["--bounding-set", "-sys_admin,-sys_ptrace"];
    let (_, report) = back_up_by(&site, "setpriv", &limits);
    let journal = &report["journals"][0];
    let reason = journal["reason"].as_str().unwrap_or_default();
    assert_eq!(journal["used"], false, "{report}");
    assert!(reason.contains("the files that are open cannot be listed"), "{report}");
    site.nothing_is_missing("a walk of a backup with few rights");
    drop(file);
}

/// A backup that does not see the processes of the machine does not find files that they have
/// mapped. The kernel reports no write through a mapping before its end.
#[test]
fn a_walk_that_finds_more_than_the_journal_reports_it_as_a_bug() {
    let Some(site) = Site::ext4() else { return };
    let site = site.anchored();
    let file = MappedFile::of(&site);
    file.write(7);
    site.set("journal_full_walk_days", "0");
    let (code, report) = back_up_by(&site, "unshare", &["--pid", "--fork", "--mount-proc"]);
    assert_eq!(code, Some(8), "{report}");
    assert_eq!(report["journals"][0]["missed"], 1, "{report}");
    let warning = report["warnings"][0].as_str().unwrap();
    assert!(warning.contains("words (changed)") && warning.contains("bug"), "{warning}");
    assert_eq!(site.status()["last_difference"]["objects"], 1);
    site.nothing_is_missing("a walk that compares");
    drop(file);
    // The walk was complete, so the journal goes on.
    site.set("journal_full_walk_days", "7");
    site.by_journal();
}
