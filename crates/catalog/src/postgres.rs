//! PostgreSQL, or a database that speaks its protocol, for a catalogue that several servers share.
//!
//! A reader or writer takes a connection from a free list. Two threads drive all connections;
//! callers wait for an answer as they would for a disk.
//!
//! 1. `Engine::write` excludes all other writers, batches included: its work reads before it
//!    writes, and the rows that it has read must not change until it ends. Batches run at the same
//!    time. Both take an advisory lock in their transaction: `write` an exclusive lock, a batch a
//!    shared lock.
//! 2. A transaction that fails because of a deadlock or a lost connection is begun again on another
//!    connection. Each transaction writes its number into the row of its connection: if the answer
//!    to a commit is lost, this row shows whether the transaction is durable. (The database's own
//!    transaction numbers cannot show that: after a crash the database may give some of them
//!    again.)
//! 3. A caller waits a bounded time for a database that does not answer, and then gets an error.
//!
//! ```text
//!   fleet, attendance -> engine -> connections -> session -> block, connect
//!                        (Postgres)            (one transaction)
//! ```

mod attendance;
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

pub use attendance::Attendant;
pub use connect::is_postgres;
pub use engine::Postgres;
pub use fleet::{Beat, PackChanges, Roll, SILENCE, ServerRow};
