//! Views, filled from the server's administration interface.

mod backups;
mod bounds;
mod cell;
mod contents;
mod events;
mod log;
mod nodes;
mod policy;
mod schedules;
mod schema;
mod server;
mod storage;
mod transfers;
mod versions;

use client::ClientError;
use dsm::admin::command::Noun;
use dsm::admin::report::{self, Report};
use dsm::admin::view::{self, Table, Value, View};

pub(super) use self::bounds::Bounds;
pub(super) use self::cell::{name_of, shown_time};
use super::link::Link;
use super::refusal::{Refusal, refusal};
use crate::error::CommandError;

/// Fills a view for a command.
pub(super) fn fetch(
    view: &'static View,
    bounds: &Bounds,
    command: &str,
    link: &mut Link,
) -> Result<Table, Refusal> {
    let mut table = Table::new(view);
    fill(&mut table, bounds, link).map_err(|error| refusal(command, &error))?;
    table.capitalise_names();
    Ok(table)
}

fn fill(table: &mut Table, bounds: &Bounds, link: &mut Link) -> Result<(), CommandError> {
    let admin = &mut link.admin;
    match table.view.name {
        "NODES" => nodes::nodes(table, bounds, admin),
        "FILESPACES" => nodes::filespaces(table, bounds, admin),
        "OCCUPANCY" => nodes::occupancy(table, bounds, admin),
        "AUDITOCC" => nodes::audit_occupancy(table, bounds, admin),
        "COLLOCGROUP" => nodes::collocation_groups(table, admin),
        "BACKUPS" => versions::backups(table, bounds, admin),
        "ARCHIVES" => versions::archives(table, bounds, admin),
        "CONTENTS" => contents::contents(table, bounds, admin),
        "DOMAINS" => policy::domains(table, admin),
        "POLICYSETS" => policy::sets(table, admin),
        "MGMTCLASSES" => policy::classes(table, admin),
        "BU_COPYGROUPS" => policy::backup_groups(table, admin),
        "AR_COPYGROUPS" => policy::archive_groups(table, admin),
        "CLOPTSETS" => policy::option_sets(table, admin),
        "CLIENTOPTS" => policy::options(table, admin),
        "CLIENT_SCHEDULES" => schedules::of_nodes(table, admin),
        "ADMIN_SCHEDULES" => schedules::of_server(table, admin),
        "ASSOCIATIONS" => schedules::associations(table, admin),
        "EVENTS" => events::events(table, bounds, admin),
        "SUMMARY" | "SUMMARY_EXTENDED" => events::summary(table, bounds, admin),
        "SESSIONS" => events::sessions(table, admin),
        "PROCESSES" => events::processes(table, admin),
        "ACTLOG" => log::log(table, bounds, admin),
        "STGPOOLS" => storage::pools(table, admin),
        "VOLUMES" => storage::volumes(table, admin),
        "LIBVOLUMES" => storage::library_volumes(table, admin),
        "LIBRARIES" => storage::libraries(table, admin),
        "DRIVES" => storage::drives(table, admin),
        "PATHS" => storage::paths(table, admin),
        "MOUNTS" => storage::mounts(table, admin),
        "REQUESTS" => storage::requests(table, admin),
        "STATUS" => server::status(table, admin),
        "DB" => server::database(table, admin, &link.folder),
        "LOG" => {
            server::log(table, &link.folder);
            Ok(())
        }
        "VOLHISTORY" => server::history(table, admin),
        "ADMINS" => server::administrators(table, &link.folder),
        "TABLES" => {
            schema::tables(table);
            Ok(())
        }
        "COLUMNS" => {
            schema::columns(table);
            Ok(())
        }
        "SYSDUMMY1" => {
            table.add([("IBMREQD", "Y".into())]);
            Ok(())
        }
        _ => Ok(()),
    }?;
    Ok(())
}

/// Returns the line before the answer about the server, by which scripts find its version.
pub(super) fn title() -> String {
    let [version, release, level, sublevel] = server::INTERFACE;
    format!(
        "Storage Management Server for {} - Version {version}, Release {release}, Level \
         {level}.{sublevel} (the interface of Holdfast {})",
        std::env::consts::OS,
        env!("CARGO_PKG_VERSION")
    )
}

/// Keeps the rows of nodes, or those of the server, as the report asks for.
pub(super) fn keep_side(report: &'static Report, table: &mut Table) {
    if table.view.name != view::EVENTS.name {
        return;
    }
    let of_server = std::ptr::eq(report, &raw const report::ADMIN_EVENT);
    let node = table.view.index("NODE_NAME");
    table.rows.retain(|row| (row[node] == Value::Missing) == of_server);
}

/// Adds a row for each option set without options, which QUERY CLOPTSET shows, too.
pub(super) fn add_empty_sets(
    report: &'static Report,
    table: &mut Table,
    command: &str,
    link: &mut Link,
) -> Result<(), Refusal> {
    if !std::ptr::eq(report, &raw const report::CLOPTSET) {
        return Ok(());
    }
    let sets = link.admin.option_sets(None).map_err(|error| refusal(command, &error.into()))?;
    let column = table.view.index("OPTIONSET_NAME");
    for set in sets {
        let name = Value::Text(set.name.to_ascii_uppercase());
        if table.rows.iter().all(|row| row[column] != name) {
            table.add([("OPTIONSET_NAME", name)]);
        }
    }
    Ok(())
}

/// Returns the names of all objects of a kind.
pub(super) fn names(noun: Noun, command: &str, link: &mut Link) -> Result<Vec<String>, Refusal> {
    let admin = &mut link.admin;
    let found: Result<Vec<String>, ClientError> = match noun {
        Noun::Node => admin.nodes(None).map(|all| all.into_iter().map(|each| each.name).collect()),
        Noun::Domain => {
            admin.domains(None).map(|all| all.into_iter().map(|each| each.name).collect())
        }
        Noun::Schedule => {
            admin.schedules(None).map(|all| all.into_iter().map(|each| each.name).collect())
        }
        Noun::OptionSet => admin
            .option_sets(None)
            .map(|all| all.into_iter().map(|each| each.name).collect()),
        Noun::Pool => admin.pools(None).map(|all| all.into_iter().map(|each| each.name).collect()),
        Noun::Volume => admin
            .volumes(&client::admin::VolumeFilter::default())
            .map(|all| all.into_iter().map(|each| each.name).collect()),
        Noun::Library => admin
            .libraries(None, false)
            .map(|all| all.into_iter().map(|each| each.name).collect()),
    };
    found.map_err(|error| refusal(command, &error.into()))
}
