//! Statements of batches: each write goes to the statements of its noun.

use std::collections::BTreeSet;
use std::path::Path;

use model::{FilespaceId, ServerTime};

use super::digest_sums::SumChanges;
use super::{
    Engine, Sql, amounts, archives, deletions, events, expiry, filespaces, marks, packs, pages,
    sessions, tasks, versions, volumes,
};
use crate::{Batches, Catalog, CatalogError, CommitError, CommitTimes, Write};

impl<E: Engine> Batches for E {
    fn commit(&self, writes: Vec<Write>) -> Result<(), CatalogError> {
        Engine::commit(self, writes)
    }

    fn commit_at(&self, generation: u64, writes: Vec<Write>) -> Result<(), CommitError> {
        Engine::commit_at(self, generation, writes)
    }

    fn condemn(&self, writes: Vec<Write>) -> Result<u64, CatalogError> {
        self.write(move |sql| condemn(sql, &writes))
    }
}

impl<E: Engine> Catalog for E {
    fn copy_to(&self, path: &Path) -> Result<(), CatalogError> {
        Engine::copy_to(self, path)
    }

    fn database_time(&self) -> Result<Option<ServerTime>, CatalogError> {
        Engine::database_time(self)
    }

    fn commit_times(&self) -> CommitTimes {
        Engine::commit_times(self)
    }
}

/// Performs the writes of a batch in their order.
pub(crate) fn perform(sql: &dyn Sql, writes: &[Write]) -> Result<(), CatalogError> {
    let filespaces: BTreeSet<FilespaceId> = writes.iter().filter_map(Write::filespace).collect();
    filespaces
        .into_iter()
        .try_for_each(|filespace| filespaces::find(sql, filespace))?;
    let mut sums = SumChanges::default();
    writes.iter().try_for_each(|write| perform_one(sql, write, &mut sums))?;
    sums.keep(sql)
}

/// Performs one write; its filespace exists. The caller keeps `sums`.
pub(crate) fn perform_one(
    sql: &dyn Sql,
    write: &Write,
    sums: &mut SumChanges,
) -> Result<(), CatalogError> {
    match write {
        Write::PutPage { filespace, page } => pages::put(sql, *filespace, page, sums),
        Write::RemovePage { filespace, key } => pages::remove(sql, *filespace, key, sums),
        Write::AddVersion { filespace, version } => versions::add(sql, *filespace, version),
        Write::DropVersions { filespace, directory, versions } => {
            versions::remove(sql, *filespace, directory, versions)
        }
        Write::FreeVersions { filespace, directory, versions } => {
            versions::free(sql, *filespace, directory, versions)
        }
        Write::Grow { filespace, growth } => amounts::grow(sql, *filespace, *growth),
        Write::MarkDirectory { filespace, directory, day } => {
            expiry::mark(sql, *filespace, directory, *day)
        }
        Write::UnmarkDirectory { filespace, directory, day } => {
            expiry::unmark(sql, *filespace, directory, *day)
        }
        Write::SetExpiry { filespace, state } => expiry::set(sql, *filespace, *state),
        Write::BeginTask { task, due, started } => tasks::begin(sql, task, *due, *started),
        Write::EndTask { task, end } => tasks::end(sql, task, end),
        Write::AddEvent(event) => events::add(sql, event),
        Write::SetMark { name, value } => marks::set(sql, name, *value),
        Write::SetArchive { number, change } => archives::change(sql, *number, change),
        Write::Trash { deletion, filespace, version } => {
            deletions::add_to_trash(sql, *deletion, *filespace, version)
        }
        Write::EmptyTrash { deletion } => deletions::empty_trash(sql, *deletion),
        Write::PurgeTrash { deletion } => {
            amounts::free_trash(sql, *deletion)?;
            deletions::empty_trash(sql, *deletion)
        }
        Write::RewritePage { filespace, key, old, new } => {
            pages::rewrite(sql, *filespace, key, old, new)
        }
        Write::RewriteVersion { filespace, version, new } => {
            versions::rewrite(sql, None, *filespace, version, new)
        }
        Write::RewriteTrash { deletion, filespace, version, new } => {
            versions::rewrite(sql, Some(*deletion), *filespace, version, new)
        }
        Write::RemovePack(pack) => packs::remove(sql, *pack),
        Write::PutPack(pack) => packs::put(sql, pack),
        Write::PutVolume(volume) => volumes::put_volume(sql, volume),
        Write::PutParts { pool, stored, parts } => volumes::put_parts(sql, *pool, stored, parts),
        Write::RemoveParts { pool, pack } => volumes::remove_parts(sql, *pool, *pack),
        Write::AddSession(session) => sessions::add(sql, session),
    }
}

fn condemn(sql: &dyn Sql, writes: &[Write]) -> Result<u64, CatalogError> {
    perform(sql, writes)?;
    let count = "INSERT INTO counter VALUES('generation', 1)
                 ON CONFLICT(name) DO UPDATE SET value = counter.value + 1 RETURNING value";
    sql.one(count, &[], |row| row.get(0))
}
