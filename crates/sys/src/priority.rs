//! Priority of this process for the processors and the disks.

use std::io;

use rustix::process::Pid;

/// Niceness of work that may take longer.
const NICENESS: i32 = 10;
/// Class and level for disks, as `ionice -c 2 -n 7` sets them: the last among all that use a disk
/// as usual. The idle class could wait without end on a busy disk.
const IO_PRIORITY: libc::c_int = IO_CLASS_BEST_EFFORT << IO_CLASS_SHIFT | IO_LEVEL_LAST;
const IO_CLASS_BEST_EFFORT: libc::c_int = 2;
const IO_CLASS_SHIFT: libc::c_int = 13;
const IO_LEVEL_LAST: libc::c_int = 7;
/// The number stands for a thread.
const IO_PRIORITY_OF_THREAD: libc::c_int = 1;

/// Lowers the priority of all threads of this process. Threads and programs that they start later
/// inherit it. A thread that has a lower priority keeps it.
pub fn lower() -> io::Result<()> {
    for thread in std::fs::read_dir("/proc/self/task")? {
        let name = thread?.file_name();
        let number = name.to_str().and_then(|name| name.parse::<i32>().ok());
        let Some(thread) = number.and_then(Pid::from_raw) else { continue };
        match lower_thread(thread) {
            // The thread has ended.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            lowered => lowered?,
        }
    }
    Ok(())
}

fn lower_thread(thread: Pid) -> io::Result<()> {
    if rustix::process::getpriority_process(Some(thread))? < NICENESS {
        rustix::process::setpriority_process(Some(thread), NICENESS)?;
    }
    let number = thread.as_raw_nonzero().get();
    // SAFETY: the call takes numbers only.
    let status =
        unsafe { libc::syscall(libc::SYS_ioprio_set, IO_PRIORITY_OF_THREAD, number, IO_PRIORITY) };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns niceness and priority for disks of the calling thread.
    fn priorities() -> (i32, i64) {
        // SAFETY: the call takes numbers only.
        let of_disks = unsafe { libc::syscall(libc::SYS_ioprio_get, IO_PRIORITY_OF_THREAD, 0) };
        (rustix::process::getpriority_process(None).expect("a niceness"), of_disks)
    }

    #[test]
    fn all_threads_and_later_ones_have_the_lower_priority() {
        let (ready, wait) = std::sync::mpsc::channel::<()>();
        let earlier = std::thread::spawn(move || {
            // The channel is closed after the priority was lowered.
            assert!(wait.recv().is_err());
            priorities()
        });
        lower().expect("anybody may lower it");
        lower().expect("a second time changes nothing");
        drop(ready);
        let later = std::thread::spawn(priorities);
        let expected = (NICENESS, i64::from(IO_PRIORITY));
        assert_eq!(earlier.join().expect("it ends"), expected);
        assert_eq!(later.join().expect("it ends"), expected);
    }
}
