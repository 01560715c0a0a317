//! A mount that others see: it begins, ends, and is removed even if the process is killed.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use client::ClientError;
use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};

use crate::connection::{Connection, Opener};
use crate::contents::Contents;
use crate::kernel::KernelCache;
use crate::messages::Log;
use crate::stored::StoredFiles;
use crate::tree::{Times, Tree};

/// Number of threads that answer the kernel.
const THREADS: usize = 8;
/// Size of the buffer in which each of them reads questions. Source: fuser 0.18, `read_buf.rs`.
const READ_BUFFER_BYTES: usize = (16 << 20) + 4096;
/// Program that waits for the end of this process, and then removes the mount. It gets the mount
/// point as its first argument.
const GUARD: &str = "trap '' INT TERM HUP; read -r word; \
                     [ \"$word\" = done ] || umount -l -- \"$1\" 2>/dev/null || \
                     fusermount3 -uz -- \"$1\" 2>/dev/null || fusermount -uz -- \"$1\" 2>/dev/null";

#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The user looks after the server.
    #[error(transparent)]
    Server(#[from] ClientError),
    /// The user names an empty directory.
    #[error("{} must be an empty directory", path.display())]
    NotEmpty { path: PathBuf },
    /// The user becomes root, or installs what is missing.
    #[error("cannot mount at {}: {error}", path.display())]
    Mount { path: PathBuf, error: io::Error },
}

/// Settings of a mount.
pub struct MountSettings {
    /// Directory at which the files appear.
    pub path: PathBuf,
    /// Time for which a program waits for a server that is away.
    pub patience: Duration,
    /// True to let all users in; each sees what the permissions of the files let him see.
    pub for_all: bool,
    pub times: Times,
}

/// Mount of the stored files. It ends when it is dropped.
pub struct StoredMount {
    session: Option<BackgroundSession>,
    guard: Child,
    /// Memory that no thread gets. See [`StoredMount::start`].
    _used: Vec<u8>,
}

impl StoredMount {
    /// Mounts the files of the node that `opener` connects as.
    pub fn start(settings: MountSettings, opener: Opener, log: Log) -> Result<Self, MountError> {
        let MountSettings { path, patience, for_all, times } = settings;
        let failed = |error| MountError::Mount { path: path.clone(), error };
        let is_empty = std::fs::read_dir(&path).map_err(failed)?.next().is_none();
        if !is_empty {
            return Err(MountError::NotEmpty { path });
        }
        let connection = Arc::new(Connection::open(opener, patience)?);
        let tree = Tree::new(Arc::clone(&connection), times);
        let kernel = KernelCache::default();
        let files = StoredFiles::new(tree, Contents::new(connection), kernel.clone(), log);
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::RO,
            MountOption::NoSuid,
            MountOption::NoDev,
            MountOption::DefaultPermissions,
            MountOption::FSName("holdfast".to_owned()),
            MountOption::Subtype("holdfast".to_owned()),
        ];
        config.acl = if for_all { SessionACL::All } else { SessionACL::Owner };
        config.n_threads = Some(THREADS);
        config.clone_fd = true;
        let guard = guard(&path).map_err(failed)?;
        let begin = |session: Session<StoredFiles>| {
            kernel.connect(session.notifier());
            // The first question was read in a buffer that is free by now. A thread that gets the
            // same memory for its own buffer clears all of it, and then it takes room. Memory that
            // nobody has used takes none until it is needed. So this piece stays taken.
            // Nobody reads it, so the compiler might leave it out.
            let used: Vec<u8> = std::hint::black_box(Vec::with_capacity(READ_BUFFER_BYTES));
            session.spawn().map(|session| (session, used))
        };
        let session = Session::new(files, &path, &config).and_then(begin);
        match session {
            Ok((session, used)) => Ok(Self { session: Some(session), guard, _used: used }),
            Err(error) => {
                dismiss(guard);
                Err(failed(error))
            }
        }
    }

    /// Returns true if somebody has unmounted the files.
    pub fn has_ended(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.guard.is_finished())
    }
}

impl Drop for StoredMount {
    fn drop(&mut self) {
        // The guard removes the mount if a program still uses it.
        drop(self.session.take());
        drop(self.guard.stdin.take());
        drop(self.guard.wait());
    }
}

/// Starts the guard. It notices the end of this process by the end of its input.
fn guard(path: &Path) -> io::Result<Child> {
    Command::new("/bin/sh")
        .args(["-c", GUARD, "holdfast-mount"])
        .arg(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

/// Ends a guard that has nothing to guard.
fn dismiss(mut guard: Child) {
    use std::io::Write as _;
    if let Some(mut input) = guard.stdin.take() {
        // If the guard is gone already, all is well.
        drop(input.write_all(b"done\n"));
    }
    drop(guard.wait());
}
