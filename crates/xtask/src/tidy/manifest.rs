//! Checks of a crate's `Cargo.toml`: its name, its dependencies within the workspace, its features.

use toml::{Table, Value};

use super::finding::{Finding, Rule};
use super::layers;

/// Maximum number of features of a crate, without `default`.
const FEATURES_MAX: usize = 4;

/// Checks `text`, the content of `crates/<folder>/Cargo.toml`.
pub(crate) fn check(path: &str, text: &str) -> Vec<Finding> {
    let Ok(manifest) = text.parse::<Table>() else {
        return vec![Finding::new(
            path,
            1,
            Rule::Layers,
            "the file is not TOML, write it as cargo does",
        )];
    };
    let name = package_name(&manifest);
    let mut found: Vec<Finding> = own_name(path, text, name).into_iter().collect();
    for dependency in dependencies(&manifest) {
        if let Some(objection) = layers::objection(name, &dependency) {
            let message = format!(
                "{name} depends on {dependency}: {objection}, reverse or remove the dependency"
            );
            found.push(Finding::new(path, line_of(text, &dependency), Rule::Layers, message));
        }
    }
    found.extend(features(path, text, &manifest));
    found
}

fn package_name(manifest: &Table) -> &str {
    let package = manifest.get("package").and_then(Value::as_table);
    package
        .and_then(|package| package.get("name"))
        .and_then(Value::as_str)
        .unwrap_or("")
}

fn own_name(path: &str, text: &str, name: &str) -> Option<Finding> {
    let folder = path.split('/').nth_back(1)?;
    let message = if folder != name {
        format!("the crate '{name}' lies in the folder '{folder}', give both the same name")
    } else if layers::layer(name).is_none() {
        format!("the crate '{name}' has no layer, add it to the table in xtask's layers.rs")
    } else {
        return None;
    };
    Some(Finding::new(path, line_of(text, "name"), Rule::Layers, message))
}

/// Returns the packages that are needed to build the crate on any platform, without packages that
/// only its tests need.
fn dependencies(manifest: &Table) -> Vec<String> {
    let targets = manifest.get("target").and_then(Value::as_table);
    let platforms = targets.into_iter().flat_map(Table::values).filter_map(Value::as_table);
    let mut names = Vec::new();
    for part in std::iter::once(manifest).chain(platforms) {
        for kind in ["dependencies", "build-dependencies"] {
            let listed = part.get(kind).and_then(Value::as_table).into_iter().flatten();
            names.extend(listed.map(|(key, value)| {
                let package = value.as_table().and_then(|table| table.get("package"));
                package.and_then(Value::as_str).unwrap_or(key).to_owned()
            }));
        }
    }
    names
}

fn features(path: &str, text: &str, manifest: &Table) -> Option<Finding> {
    let features = manifest.get("features").and_then(Value::as_table)?;
    let count = features.keys().filter(|key| *key != "default").count();
    let message =
        format!("{count} features, at most {FEATURES_MAX}: decide instead of offering a choice");
    (count > FEATURES_MAX)
        .then(|| Finding::new(path, line_of(text, "[features]"), Rule::Features, message))
}

/// Returns the number of the first line that begins with `key`; 1 if there is none.
fn line_of(text: &str, key: &str) -> usize {
    let speaks = |line: &str| {
        let rest = line.trim_start().strip_prefix(key);
        rest.is_some_and(|rest| {
            !rest.starts_with(|c: char| c.is_alphanumeric() || "-_".contains(c))
        })
    };
    text.lines().position(speaks).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_rest(folder: &str, rest: &str, expected: &[(usize, Rule)]) {
        let text = format!("[package]\nname = \"{folder}\"\n{rest}");
        let found = check(&format!("crates/{folder}/Cargo.toml"), &text);
        let found: Vec<_> = found.iter().map(|finding| (finding.line, finding.rule)).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn dependencies_point_downwards() {
        let wrong =
            "[dependencies]\nmodel.workspace = true\npool-x = \"1\"\npool.workspace = true\n";
        check_rest("catalog", wrong, &[(6, Rule::Layers)]);
        check_rest("server", wrong, &[]);
    }

    #[test]
    fn every_way_to_depend_counts() {
        check_rest(
            "pool",
            "[build-dependencies]\nserver = { path = \"x\" }\n",
            &[(4, Rule::Layers)],
        );
        check_rest("pool", "[dependencies.server]\npath = \"x\"\n", &[(1, Rule::Layers)]);
        check_rest("pool", "[dependencies]\nx = { package = \"server\" }\n", &[(1, Rule::Layers)]);
        check_rest(
            "pool",
            "[target.'cfg(unix)'.dependencies]\nserver = \"1\"\n",
            &[(4, Rule::Layers)],
        );
    }

    #[test]
    fn dependencies_of_tests_are_free() {
        check_rest("pool", "[dev-dependencies]\nserver.workspace = true\n", &[]);
    }

    #[test]
    fn crates_are_named_as_their_folder_and_have_a_layer() {
        check_rest("novel", "", &[(2, Rule::Layers)]);
        let found = check("crates/pool/Cargo.toml", "[package]\nname = \"catalog\"\n");
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn features_are_four_at_most() {
        let four = "[features]\ndefault = []\na = []\nb = []\nc = []\nd = []\n";
        check_rest("pool", four, &[]);
        check_rest("pool", &format!("{four}e = []\n"), &[(3, Rule::Features)]);
    }

    #[test]
    fn what_is_no_toml_is_said() {
        assert_eq!(check("crates/pool/Cargo.toml", "[").len(), 1);
    }
}
