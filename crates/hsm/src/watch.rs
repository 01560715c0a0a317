//! Watching one file system: the kernel asks about its files, and its files are shown. Keeper and
//! worker both do this, so every step may be repeated.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use model::escaped;
use sys::Dir;
use sys::fanotify::Group;

use crate::hidden;
use crate::settings::FilesystemSettings;

/// Reason why a file system is not watched. Its stubs cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// This program or its folder is in the file system: move it, because the program would wait
    /// for itself.
    #[error(
        "cannot watch {}: this program or its folder {} is in it",
        escaped(.mount_point), .home.display()
    )]
    OnManaged { mount_point: Vec<u8>, home: PathBuf },
    /// Mount the file system.
    #[error("{} is not mounted; mount it", escaped(.mount_point))]
    NotMounted { mount_point: Vec<u8> },
    /// Check the system.
    #[error("{what}")]
    System {
        what: String,
        #[source]
        error: io::Error,
    },
}

impl WatchError {
    /// The error and its cause, on one line.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::System { what, error } => format!("{what}: {error}"),
            Self::OnManaged { .. } | Self::NotMounted { .. } => self.to_string(),
        }
    }
}

fn failed(what: impl Into<String>) -> impl FnOnce(io::Error) -> WatchError {
    let what = what.into();
    move |error| WatchError::System { what, error }
}

/// Opens the root directory of a file system that is to be watched. Fails if it is not mounted, or
/// if a file that this program needs is in it: the program would wait for itself.
pub(crate) fn root_to_watch(mount_point: &[u8], home: &Path) -> Result<Dir, WatchError> {
    let cannot_watch = || failed(format!("cannot watch {}", escaped(mount_point)));
    if sys::mount::mounted(mount_point).map_err(cannot_watch())?.is_none() {
        return Err(WatchError::NotMounted { mount_point: mount_point.to_vec() });
    }
    let device = |path: &Path| {
        std::fs::metadata(path)
            .map(|metadata| metadata.dev())
            .map_err(failed(format!("cannot examine {}", path.display())))
    };
    let own = [device(Path::new("/proc/self/exe"))?, device(home)?];
    let root = Dir::open(mount_point).map_err(cannot_watch())?;
    let device_id = root.stat_self().map_err(cannot_watch())?.device_id;
    if own.contains(&device_id) {
        let (mount_point, home) = (mount_point.to_vec(), home.to_owned());
        return Err(WatchError::OnManaged { mount_point, home });
    }
    Ok(root)
}

/// Makes the kernel ask about the file system of `root`, and shows its files, or gives up hiding
/// them if the settings say so. Calls `say` with what the user should know.
pub(crate) fn watch(
    filesystem: &FilesystemSettings,
    root: Dir,
    group: &Group,
    say: &dyn Fn(&str),
) -> Result<(), WatchError> {
    let mount_point = &filesystem.mount_point;
    let cannot_watch = || failed(format!("cannot watch {}", escaped(mount_point)));
    group.mark_filesystem(&root).map_err(cannot_watch())?;
    drop(root);
    if filesystem.hidden {
        show(mount_point, say)
    } else {
        hidden::give_up(mount_point).map_err(cannot_watch())
    }
}

/// Shows the files of a file system about which the kernel asks.
fn show(mount_point: &[u8], say: &dyn Fn(&str)) -> Result<(), WatchError> {
    let shown = escaped(mount_point);
    let left = hidden::show(mount_point)
        .map_err(failed(format!("cannot hide the files of {shown} from others")))?;
    for name in left {
        say(&format!(
            "{} was made in {shown} while the files were hidden, and a file of the same name is \
             shown: the new one stays hidden",
            escaped(&name)
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_that_holds_the_program_is_not_watched() {
        let home = tempfile::tempdir().expect("a folder");
        let program = std::env::current_exe().expect("a test knows its program");
        let (mount_point, _) = sys::mount::filespace_root(program.as_os_str().as_encoded_bytes())
            .expect("a program has a file system");
        let error = root_to_watch(&mount_point, home.path()).expect_err("refused");
        assert!(matches!(error, WatchError::OnManaged { .. }), "{error}");
        let folder = home.path().as_os_str().as_encoded_bytes();
        let error = root_to_watch(folder, home.path()).expect_err("refused");
        assert!(matches!(error, WatchError::NotMounted { .. }), "{error}");
    }
}
