//! This process: its limits, its rights and its use of the machine; and other processes by number.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Resource, Rlimit};

pub use rustix::process::Signal;

/// Returns the release of the kernel, as in `6.1.0-18-amd64`.
pub fn kernel_release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// Raises the limit of open files as far as the process may and returns the new limit.
pub fn raise_open_files() -> u64 {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match rustix::process::setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum.unwrap_or(u64::MAX),
        Err(_) => limit.current.unwrap_or(u64::MAX),
    }
}

/// Makes the kernel give this process memory in small pages only. Huge pages make unused memory
/// resident: several MiB for each thread that allocates at all. Memory for which huge pages pay is
/// [`HugeMemory`](crate::huge_memory::HugeMemory).
pub fn use_small_pages() {
    // A kernel without huge pages refuses the call, which does no harm.
    let _refused = rustix::thread::disable_transparent_huge_pages(true);
}

/// Returns the processor time of all threads of this process, user and system.
pub fn cpu_time() -> Duration {
    let usage = usage(libc::RUSAGE_SELF);
    duration(usage.ru_utime) + duration(usage.ru_stime)
}

/// Returns the processor time of all child processes that have ended and were waited for.
pub fn cpu_time_of_children() -> Duration {
    let usage = usage(libc::RUSAGE_CHILDREN);
    duration(usage.ru_utime) + duration(usage.ru_stime)
}

/// Returns the number of times that the calling thread has waited since it began: for a disk, a
/// lock or a queue. An interruption of a thread that has work does not count.
pub fn waits_of_thread() -> u64 {
    u64::try_from(usage(libc::RUSAGE_THREAD).ru_nvcsw).unwrap_or(0)
}

/// Returns the time that all processors of the machine have spent idle since it started, waiting
/// for disks included; `None` if the kernel does not report it.
pub fn idle_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let mut fields = stat.lines().next()?.split_ascii_whitespace().skip(4);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let idle = ticks()? + ticks()?;
    Some(Duration::from_millis(idle * 1000 / rustix::param::clock_ticks_per_second()))
}

/// Returns the number of processors that this process may use; 2 if the number is unknown.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

/// Returns the memory of the machine that programs may take without swapping, in bytes; `None` if
/// the kernel does not report it.
pub fn available_bytes() -> Option<u64> {
    available_in(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

/// Returns the available memory in the text of `/proc/meminfo`, which counts in KiB.
fn available_in(memory: &str) -> Option<u64> {
    let value = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = value.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kib.checked_mul(1 << 10)
}

/// Returns the resident memory of this process, in bytes; 0 if the system does not tell.
pub fn resident_bytes() -> u64 {
    let sizes = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: Option<u64> = sizes.split(' ').nth(1).and_then(|word| word.parse().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

/// Returns the number of files and connections that this process has open; 0 if the system does not
/// tell.
pub fn open_files() -> u64 {
    std::fs::read_dir("/proc/self/fd").map_or(0, |open| open.count() as u64)
}

/// Returns the maximum of resident memory so far, in bytes.
pub fn peak_memory_bytes() -> u64 {
    u64::try_from(usage(libc::RUSAGE_SELF).ru_maxrss).unwrap_or(0) * 1024
}

/// Ends the process at once: no destructor runs, no buffer is written, no other thread goes on.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: _exit takes any number and does not return.
    unsafe { libc::_exit(status) }
}

/// Kills the processes of the group that `leader` leads.
pub fn kill_group(leader: u32) -> io::Result<()> {
    let leader = i32::try_from(leader).ok().and_then(rustix::process::Pid::from_raw);
    let leader = leader.ok_or(io::ErrorKind::NotFound)?;
    Ok(rustix::process::kill_process_group(leader, Signal::KILL)?)
}

/// Makes the kernel kill the program that `command` starts as soon as the thread ends that starts
/// it. So the program does not survive this process, however this process ends.
pub fn kill_with_thread(command: &mut Command) {
    signal_with_thread(command, Signal::KILL);
}

/// Makes the kernel send `signal` to the program that `command` starts as soon as the thread ends
/// that starts it.
pub fn signal_with_thread(command: &mut Command, signal: Signal) {
    let parent = rustix::process::getpid();
    let follow = move || {
        rustix::process::set_parent_process_death_signal(Some(signal))?;
        // No signal comes if the parent ended before the call.
        let is_alive = rustix::process::getppid() == Some(parent);
        if is_alive { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    };
    // SAFETY: between fork and exec, the closure makes two system calls. It allocates nothing and
    // takes no lock.
    unsafe { command.pre_exec(follow) };
}

/// Returns a number that differs after each start of the machine; 0 if the kernel reports no such
/// number.
pub fn boot_tag() -> u64 {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = id.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    u64::from_str_radix(&digits, 16).unwrap_or(0)
}

/// Returns the start of a process, in clock ticks since the machine was started. Together with the
/// number of the process it identifies the process, because numbers are used again. `None` if there
/// is no such process.
///
/// Source: field 22 of `proc_pid_stat(5)`.
pub fn began(pid: u32) -> Option<u64> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The program's name, the second field, may contain any bytes.
    let name_end = stat.iter().rposition(|&byte| byte == b')')?;
    let fields = std::str::from_utf8(&stat[name_end + 1..]).ok()?;
    fields.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Ignores the signal of a terminal that hangs up, which the keeper takes for the worker too.
pub fn ignore_hangup() {
    // SAFETY: ignoring a signal runs no code of ours.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
}

/// Sends a signal to the processes of the group that `leader` leads.
pub fn signal_group(leader: u32, signal: Signal) -> io::Result<()> {
    let leader = i32::try_from(leader).ok().and_then(rustix::process::Pid::from_raw);
    let leader = leader.ok_or(io::ErrorKind::NotFound)?;
    Ok(rustix::process::kill_process_group(leader, signal)?)
}

/// Sends a signal to a process.
pub fn signal(pid: u32, signal: Signal) -> io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    let pid = pid.ok_or(io::ErrorKind::NotFound)?;
    Ok(rustix::process::kill_process(pid, signal)?)
}

/// Ignores the two signals that programs give a meaning of their own, which otherwise end a
/// process. A program may catch them later.
pub fn ignore_user_signals() {
    for signal in [libc::SIGUSR1, libc::SIGUSR2] {
        // SAFETY: ignoring a signal runs no code of ours.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Lets the program that `command` starts ignore these two signals from its first moment on, as
/// [`ignore_user_signals`] does later. The program may catch them.
pub fn ignore_user_signals_in(command: &mut Command) {
    let ignore = || {
        ignore_user_signals();
        Ok(())
    };
    // SAFETY: between fork and exec, the closure makes two system calls. It allocates nothing and
    // takes no lock.
    unsafe { command.pre_exec(ignore) };
}

/// Asks a process to end.
pub fn terminate(pid: u32) -> io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    let pid = pid.ok_or(io::ErrorKind::NotFound)?;
    Ok(rustix::process::kill_process(pid, Signal::TERM)?)
}

/// Takes over a descriptor that another program has left open for this program, by its number. May
/// be called once for each descriptor.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the call only asks for the flags of the descriptor.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open, and the caller promises that nothing else here owns it.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
    Ok(fd)
}

/// Sets whether the programs that this process starts from now on inherit the descriptor.
pub fn set_inheritable(number: RawFd, inheritable: bool) -> io::Result<()> {
    let flags = if inheritable { 0 } else { libc::FD_CLOEXEC };
    // SAFETY: the call takes numbers only.
    let status = unsafe { libc::fcntl(number, libc::F_SETFD, flags) };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns true if the effective user is root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns the effective user and group.
pub fn effective_ids() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

fn usage(of: libc::c_int) -> libc::rusage {
    let mut usage = MaybeUninit::uninit();
    // SAFETY: the pointer is to writable memory of the right size and alignment.
    let status = unsafe { libc::getrusage(of, usage.as_mut_ptr()) };
    assert_eq!(status, 0, "getrusage fails only for bad arguments");
    // SAFETY: a successful getrusage fills the whole structure.
    unsafe { usage.assume_init() }
}

fn duration(time: libc::timeval) -> Duration {
    let micros = time.tv_sec * 1_000_000 + time.tv_usec;
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn the_limit_of_open_files_is_the_hard_one() {
        let raised = raise_open_files();
        let limit = rustix::process::getrlimit(Resource::Nofile);
        assert_eq!(limit.current.unwrap_or(u64::MAX), raised);
        assert_eq!(limit.current, limit.maximum);
    }

    #[test]
    fn work_costs_processor_time_and_memory() {
        let (before, start) = (cpu_time(), clock::monotonic());
        let memory = vec![1_u8; 32 << 20];
        assert!(memory.iter().map(|&byte| u64::from(byte)).sum::<u64>() == 32 << 20);
        while clock::monotonic() - start < Duration::from_millis(30) {}
        assert!(cpu_time() - before >= Duration::from_millis(5));
        assert!(peak_memory_bytes() >= 32 << 20);
    }

    #[test]
    fn sleeping_is_waiting_and_idles_processors() {
        let (waits, idle) = (waits_of_thread(), idle_time().expect("Linux tells"));
        clock::sleep(Duration::from_millis(30));
        assert!(waits_of_thread() > waits);
        assert!(idle_time().expect("Linux tells") >= idle);
    }

    #[test]
    fn processes_are_told_apart_by_when_they_began() {
        let this = began(std::process::id()).expect("this one is there");
        clock::sleep(Duration::from_millis(30));
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let later = began(child.id()).expect("it sleeps");
        assert!(later > this, "{later} {this}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(began(child.id()), None);
    }

    #[test]
    fn a_program_ends_with_the_thread_that_started_it() {
        let start = || {
            let mut command = Command::new("sleep");
            command.arg("60");
            kill_with_thread(&mut command);
            command.spawn().unwrap()
        };
        let mut child = std::thread::spawn(start).join().unwrap();
        assert!(!child.wait().unwrap().success(), "it was killed");
    }

    #[test]
    fn available_memory_is_read() {
        let text = "MemTotal:  24652340 kB\nMemFree:  1 kB\nMemAvailable:   2048 kB\n";
        assert_eq!(available_in(text), Some(2 << 20));
        for text in ["", "MemAvailable: many kB", "MemAvailable: 5"] {
            assert_eq!(available_in(text), None, "{text}");
        }
        assert!(available_bytes().is_some_and(|bytes| bytes > 0));
    }

    #[test]
    fn effective_ids_own_new_files() {
        use std::os::unix::fs::MetadataExt as _;
        let file = tempfile::tempfile().unwrap().metadata().unwrap();
        assert_eq!(effective_ids().0, file.uid());
        assert_eq!(is_root(), file.uid() == 0);
    }
}
