//! Which folder holds this node's configuration and keys.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::error::CommandError;

/// What the choice depends on.
#[derive(Default)]
struct Surroundings {
    option: Option<PathBuf>,
    holdfast_home: Option<OsString>,
    is_root: bool,
    xdg_config_home: Option<OsString>,
    home: Option<OsString>,
}

/// Chooses the folder: `option`, else `HOLDFAST_HOME`, else the system's for root and the user's
/// own for everybody else.
pub(crate) fn folder(option: Option<&PathBuf>) -> Result<PathBuf, CommandError> {
    let folder = choose(Surroundings {
        option: option.cloned(),
        holdfast_home: std::env::var_os("HOLDFAST_HOME"),
        is_root: sys::process::is_root(),
        xdg_config_home: std::env::var_os("XDG_CONFIG_HOME"),
        home: std::env::var_os("HOME"),
    });
    let folder = folder.ok_or_else(|| {
        CommandError::new("there is no folder for keys: HOME is not set; name one with --home DIR")
    })?;
    std::path::absolute(&folder)
        .map_err(|error| CommandError::new(format!("cannot use {}: {error}", folder.display())))
}

fn choose(surroundings: Surroundings) -> Option<PathBuf> {
    let set = |value: Option<OsString>| value.filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(folder) = surroundings.option.or_else(|| set(surroundings.holdfast_home)) {
        return Some(folder);
    }
    if surroundings.is_root {
        return Some(PathBuf::from(client::SYSTEM_FOLDER));
    }
    // The XDG specification has relative values ignored.
    let configuration = set(surroundings.xdg_config_home).filter(|folder| folder.is_absolute());
    let configuration =
        configuration.or_else(|| set(surroundings.home).map(|home| home.join(".config")))?;
    Some(configuration.join("holdfast"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user() -> Surroundings {
        Surroundings { home: Some("/home/ann".into()), ..Surroundings::default() }
    }

    #[track_caller]
    fn check(surroundings: Surroundings, expected: Option<&str>) {
        assert_eq!(choose(surroundings), expected.map(PathBuf::from));
    }

    #[test]
    fn what_is_said_more_plainly_wins() {
        let named = || Surroundings { holdfast_home: Some("/named".into()), ..user() };
        check(Surroundings { option: Some("/option".into()), ..named() }, Some("/option"));
        check(named(), Some("/named"));
        check(Surroundings { is_root: true, ..named() }, Some("/named"));
        check(Surroundings { is_root: true, ..user() }, Some("/etc/holdfast"));
        check(user(), Some("/home/ann/.config/holdfast"));
        check(Surroundings::default(), None);
    }

    #[test]
    fn a_configuration_folder_counts_when_it_is_absolute() {
        let with = |value: &str| Surroundings { xdg_config_home: Some(value.into()), ..user() };
        check(with("/home/ann/conf"), Some("/home/ann/conf/holdfast"));
        check(with("conf"), Some("/home/ann/.config/holdfast"));
        check(with(""), Some("/home/ann/.config/holdfast"));
    }
}
