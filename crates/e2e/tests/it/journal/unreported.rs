//! Changes of which the kernel makes no report, or one without a place: they are found, or lead to
//! a walk.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use e2e::harness::{binary, succeeds};
use serde_json::Value;

use super::{FILE_SYSTEMS, START_MAX, Site, run};

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
    let began = e2e::clock::now();
    while is_attached() && began.elapsed() < START_MAX {
        e2e::clock::pause(Duration::from_millis(20));
    }
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
    let words = sys::map::MappedWords::open(&merged.join("words"), 1024).unwrap();
    site.by_journal();
    for value in 1..4 {
        words.words()[3].store(value, std::sync::atomic::Ordering::Relaxed);
        rustix::fs::fsync(File::open(merged.join("words")).unwrap()).unwrap();
        site.by_journal();
        site.nothing_is_missing("a write through a mapping of an overlay");
    }
    drop(words);
    run("umount", &[], &merged);
    site.by_journal();
    site.nothing_is_missing("the end of the overlay");
}

/// Files of processes that the backup may not look at counted as closed.
#[test]
fn a_backup_that_may_not_see_what_is_open_walks() {
    let Some(site) = Site::ext4() else { return };
    let site = site.anchored();
    let path = site.top().join("tree/folder-02/words");
    fs::write(&path, [0; 8192]).unwrap();
    site.by_journal();
    let words = sys::map::MappedWords::open(&path, 1024).unwrap();
    words.words()[3].store(7, std::sync::atomic::Ordering::Relaxed);
    rustix::fs::fsync(File::open(&path).unwrap()).unwrap();
    let limited = Command::new("setpriv")
        .args(["--bounding-set", "-sys_admin,-sys_ptrace"])
        .arg(binary())
        .arg("--home")
        .arg(site.scene.node.home())
        .args(["backup", "--json"])
        .arg(site.top())
        .output()
        .unwrap();
    let text = String::from_utf8(limited.stdout).unwrap();
    let report: Value = serde_json::from_str(&text).unwrap();
    let journal = &report["journals"][0];
    let reason = journal["reason"].as_str().unwrap_or_default();
    assert_eq!(journal["used"], false, "{text}");
    assert!(reason.contains("the files that are open cannot be listed"), "{text}");
    site.nothing_is_missing("a walk of a backup with few rights");
}
