//! PostgreSQL, or a database that speaks its protocol: for several servers over one catalogue.
//!
//! A reader or writer takes a connection from a free list. Two threads drive all connections;
//! callers wait for an answer as they would for a disk.
//!
//! 1. `Engine::write` excludes all other writers, batches too: its work looks before it writes, and
//!    what it has seen must hold until its end. Batches go on side by side. Both take an advisory
//!    lock in their transaction, the first alone and the second shared.
//! 2. A transaction that the database gives up, because of a deadlock or a lost connection, is
//!    begun again on another connection. Each transaction writes its number into the row of its
//!    connection: after the answer to a commit was lost, this row shows whether the transaction is
//!    durable. (The database's own transaction numbers do not: after a crash it may give some of
//!    them again.)
//! 3. A caller waits a bounded time for a database that does not answer, and then gets an error.
//!
//! ```text
//!   fleet -> engine -> connections -> session -> block, connect
//!            (Postgres)            (one transaction)
//! ```

mod batch;
mod block;
mod connect;
mod connections;
mod engine;
mod fleet;
mod membership;
mod pages;
mod schema;
mod session;

pub use connect::is_postgres;
pub use engine::Postgres;
pub use fleet::{Beat, PackChanges, Roll, SILENCE, ServerRow};
