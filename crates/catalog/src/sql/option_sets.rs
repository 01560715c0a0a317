//! Statements about option sets.
//!
//! 1. The name of a version is in lower case, so that it is found whatever case the name has.
//! 2. `option_set.body` has the statements of the version in force. A server of an older version
//!    may have changed them; so they count, and not those of the version.

use model::{NodeId, ServerTime};
use policy::settings::{SetOption, Share};
use serde::{Deserialize, Serialize};

use super::{Engine, Row, Sql, events, params, require};
use crate::{CatalogError, EventRow, OptionSet, OptionSetStage, OptionSetVersion, OptionSets};

impl<E: Engine> OptionSets for E {
    fn option_sets(&self) -> Result<Vec<OptionSet>, CatalogError> {
        self.read(option_sets)
    }

    fn option_set_versions(&self, name: &str) -> Result<Vec<OptionSetVersion>, CatalogError> {
        self.read(|sql| versions(sql, name))
    }

    fn add_option_set_version(
        &self,
        name: &str,
        version: &OptionSetVersion,
        stage: Option<(Share, &[NodeId])>,
        event: &EventRow,
    ) -> Result<(), CatalogError> {
        let (name, version, event) = (name.to_owned(), version.clone(), event.clone());
        let stage = stage.map(|(share, nodes)| StageDocument {
            version: version.number,
            share: share.hundredths(),
            nodes: nodes.iter().map(|node| node.0).collect(),
        });
        self.write(move |sql| {
            add_version(sql, &name, &version, stage.as_ref())?;
            events::add(sql, &event)
        })
    }

    fn end_option_set_stage(
        &self,
        name: &str,
        number: u64,
        promoted: Option<ServerTime>,
        event: &EventRow,
    ) -> Result<(), CatalogError> {
        let (name, event) = (name.to_owned(), event.clone());
        self.write(move |sql| {
            end_stage(sql, &name, number, promoted)?;
            events::add(sql, &event)
        })
    }

    fn remove_option_set(&self, name: &str, event: &EventRow) -> Result<(), CatalogError> {
        let (name, event) = (name.to_owned(), event.clone());
        self.write(move |sql| {
            remove(sql, &name)?;
            events::add(sql, &event)
        })
    }
}

/// Column `stage`, as JSON.
#[derive(Clone, Serialize, Deserialize)]
struct StageDocument {
    version: u64,
    /// Share of the nodes in hundredths of a per cent.
    share: u32,
    nodes: Vec<u32>,
}

const VERSION: &str = "version, body, options, changed, changed_by, comment, in_force";

fn option_sets(sql: &dyn Sql) -> Result<Vec<OptionSet>, CatalogError> {
    let select = "SELECT name, body, version, stage FROM option_set ORDER BY lower(name)";
    let rows: Vec<(String, Vec<u8>, u64, Option<String>)> =
        sql.all(select, &[], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    let set = |(name, text, number, stage): (String, Vec<u8>, u64, Option<String>)| {
        let known = version(sql, &name, number)?;
        let current = OptionSetVersion { number, text, ..known.unwrap_or_default() };
        let stage = stage.map(|stage| parse_stage(sql, &name, &stage)).transpose()?;
        Ok(OptionSet { name, current, stage })
    };
    rows.into_iter().map(set).collect()
}

fn parse_stage(sql: &dyn Sql, name: &str, text: &str) -> Result<OptionSetStage, CatalogError> {
    let damaged =
        |what: String| CatalogError::Damaged(format!("the stage of the option set {name} {what}"));
    let document: StageDocument = serde_json::from_str(text)
        .map_err(|error| damaged(format!("cannot be parsed: {error}")))?;
    let version = version(sql, name, document.version)?;
    Ok(OptionSetStage {
        version: version.ok_or_else(|| damaged("names no version".to_owned()))?,
        share: Share::of_hundredths(document.share)
            .map_err(|error| damaged(format!("has no share: {error}")))?,
        nodes: document.nodes.into_iter().map(NodeId).collect(),
    })
}

fn version(
    sql: &dyn Sql,
    name: &str,
    number: u64,
) -> Result<Option<OptionSetVersion>, CatalogError> {
    let select = format!("SELECT {VERSION} FROM option_set_version WHERE name = ? AND version = ?");
    sql.first(&select, params![name.to_ascii_lowercase(), number], version_columns)
}

fn versions(sql: &dyn Sql, name: &str) -> Result<Vec<OptionSetVersion>, CatalogError> {
    let select =
        format!("SELECT {VERSION} FROM option_set_version WHERE name = ? ORDER BY version DESC");
    let versions: Vec<OptionSetVersion> =
        sql.all(&select, params![name.to_ascii_lowercase()], version_columns)?;
    assert!(versions.is_sorted_by(|one, other| one.number > other.number), "newest first");
    Ok(versions)
}

fn version_columns(row: &Row<'_>) -> Result<OptionSetVersion, CatalogError> {
    let options: String = row.get(2)?;
    let in_force: Option<i64> = row.get(6)?;
    Ok(OptionSetVersion {
        number: row.get(0)?,
        text: row.get(1)?,
        options: parse_options(&options)?,
        changed: ServerTime(row.get(3)?),
        author: row.get(4)?,
        comment: row.get(5)?,
        in_force: in_force.map(ServerTime),
    })
}

fn add_version(
    sql: &dyn Sql,
    name: &str,
    version: &OptionSetVersion,
    stage: Option<&StageDocument>,
) -> Result<(), CatalogError> {
    let lower = name.to_ascii_lowercase();
    let newest = newest(sql, &lower)?;
    let is_staged = "SELECT 1 FROM option_set WHERE lower(name) = ? AND stage IS NOT NULL";
    if version.number != newest + 1 || sql.exists(is_staged, params![lower])? {
        return Err(CatalogError::Exists { what: "a newer version of the option set" });
    }
    assert!(stage.is_none() || newest > 0, "the first version has no version before it");
    let insert = "INSERT INTO option_set_version VALUES(?, ?, ?, ?, ?, ?, ?, ?)";
    let options = serde_json::to_string(&version.options).map_err(CatalogError::failed)?;
    let OptionSetVersion { number, text, changed, author, comment, .. } = version;
    let in_force = stage.is_none().then_some(changed.0);
    let values = params![lower, number, text, options, changed.0, author, comment, in_force];
    sql.execute(insert, values)?;
    if let Some(stage) = stage {
        let stage = serde_json::to_string(stage).map_err(CatalogError::failed)?;
        let update = "UPDATE option_set SET stage = ? WHERE lower(name) = ?";
        return require(sql.execute(update, params![stage, lower])?, "the option set");
    }
    let update = "UPDATE option_set SET body = ?, version = ? WHERE lower(name) = ?";
    if sql.execute(update, params![text, number, lower])? > 0 {
        return Ok(());
    }
    let insert = "INSERT INTO option_set(name, body, version) VALUES(?, ?, ?)";
    sql.execute(insert, params![name, text, number]).map(drop)
}

/// Returns the number of the newest version; 0 without an option set. A server of an older version
/// makes option sets without a row for their first version.
fn newest(sql: &dyn Sql, lower: &str) -> Result<u64, CatalogError> {
    let select = "SELECT coalesce(max(version), 0) FROM option_set_version WHERE name = ?";
    let recorded: u64 = sql.one(select, params![lower], |row| row.get(0))?;
    let select = "SELECT version FROM option_set WHERE lower(name) = ?";
    let in_force: Option<u64> = sql.first(select, params![lower], |row| row.get(0))?;
    Ok(recorded.max(in_force.unwrap_or(0)))
}

fn end_stage(
    sql: &dyn Sql,
    name: &str,
    number: u64,
    promoted: Option<ServerTime>,
) -> Result<(), CatalogError> {
    let lower = name.to_ascii_lowercase();
    let select = "SELECT stage FROM option_set WHERE lower(name) = ? AND stage IS NOT NULL";
    let stage: Option<String> = sql.first(select, params![lower], |row| row.get(0))?;
    let stage = stage.map(|stage| parse_stage(sql, name, &stage)).transpose()?;
    let stage = stage.filter(|stage| stage.version.number == number);
    let stage = stage.ok_or(CatalogError::NotFound { what: "the staged version" })?;
    sql.execute("UPDATE option_set SET stage = NULL WHERE lower(name) = ?", params![lower])?;
    let Some(promoted) = promoted else { return Ok(()) };
    let update = "UPDATE option_set SET body = ?, version = ? WHERE lower(name) = ?";
    sql.execute(update, params![stage.version.text, number, lower])?;
    let update = "UPDATE option_set_version SET in_force = ? WHERE name = ? AND version = ?";
    require(sql.execute(update, params![promoted.0, lower, number])?, "the staged version")
}

fn remove(sql: &dyn Sql, name: &str) -> Result<(), CatalogError> {
    let lower = name.to_ascii_lowercase();
    let update = "UPDATE node SET option_set = NULL WHERE lower(option_set) = ?";
    sql.execute(update, params![lower])?;
    sql.execute("DELETE FROM option_set_version WHERE name = ?", params![lower])?;
    let delete = "DELETE FROM option_set WHERE lower(name) = ?";
    require(sql.execute(delete, params![lower])?, "the option set")
}

fn parse_options(text: &str) -> Result<Vec<SetOption>, CatalogError> {
    serde_json::from_str(text).map_err(|error| {
        CatalogError::Damaged(format!("the options of an option set cannot be parsed: {error}"))
    })
}
