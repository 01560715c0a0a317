//! The folder with this node's configuration and keys.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::error::CommandError;

/// Facts on which the choice of the folder depends.
#[derive(Default)]
struct Environment {
    option: Option<PathBuf>,
    holdfast_home: Option<OsString>,
    is_root: bool,
    xdg_config_home: Option<OsString>,
    home: Option<OsString>,
}

/// Returns the node's folder: `option` if it is given, otherwise `HOLDFAST_HOME`, otherwise the
/// system's folder for root and a folder in the home directory for other users.
pub(crate) fn folder(option: Option<&PathBuf>) -> Result<PathBuf, CommandError> {
    let folder = choose(Environment {
        option: option.cloned(),
        holdfast_home: std::env::var_os("HOLDFAST_HOME"),
        is_root: sys::process::is_root(),
        xdg_config_home: std::env::var_os("XDG_CONFIG_HOME"),
        home: std::env::var_os("HOME"),
    });
    let folder = folder.ok_or_else(|| {
        CommandError::new(
            "there is no folder for keys: HOME is not set; name a folder with --home DIR",
        )
    })?;
    std::path::absolute(&folder)
        .map_err(|error| CommandError::new(format!("cannot use {}: {error}", folder.display())))
}

/// Variable with the name of the schedule that has started the command.
const SCHEDULE_VARIABLE: &str = "HOLDFAST_SCHEDULE";

/// Returns true if a schedule of the server has started this command. What is on its command line
/// then comes from the server, too.
pub(crate) fn is_scheduled() -> bool {
    std::env::var_os(SCHEDULE_VARIABLE).is_some()
}

fn choose(environment: Environment) -> Option<PathBuf> {
    let set = |value: Option<OsString>| value.filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(folder) = environment.option.or_else(|| set(environment.holdfast_home)) {
        return Some(folder);
    }
    if environment.is_root {
        return Some(PathBuf::from(client::SYSTEM_FOLDER));
    }
    // The XDG specification says that relative values are ignored.
    let configuration = set(environment.xdg_config_home).filter(|folder| folder.is_absolute());
    let configuration =
        configuration.or_else(|| set(environment.home).map(|home| home.join(".config")))?;
    Some(configuration.join("holdfast"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user() -> Environment {
        Environment { home: Some("/home/ann".into()), ..Environment::default() }
    }

    #[track_caller]
    fn check(environment: Environment, expected: Option<&str>) {
        assert_eq!(choose(environment), expected.map(PathBuf::from));
    }

    #[test]
    fn an_option_goes_before_variables_and_these_before_defaults() {
        let named = || Environment { holdfast_home: Some("/named".into()), ..user() };
        check(Environment { option: Some("/option".into()), ..named() }, Some("/option"));
        check(named(), Some("/named"));
        check(Environment { is_root: true, ..named() }, Some("/named"));
        check(Environment { is_root: true, ..user() }, Some("/etc/holdfast"));
        check(user(), Some("/home/ann/.config/holdfast"));
        check(Environment::default(), None);
    }

    #[test]
    fn a_configuration_folder_counts_when_it_is_absolute() {
        let with = |value: &str| Environment { xdg_config_home: Some(value.into()), ..user() };
        check(with("/home/ann/conf"), Some("/home/ann/conf/holdfast"));
        check(with("conf"), Some("/home/ann/.config/holdfast"));
        check(with(""), Some("/home/ann/.config/holdfast"));
    }
}
