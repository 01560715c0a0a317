//! The server's network edge: TLS, enrolment, sessions of nodes, administration, and tasks that are
//! due from time to time. It serves the [`store`].
//!
//! [`init`] makes a server in a folder, and [`run`] serves from it. One process serves a folder.
//! The folder has everything that the server needs to start again: configuration, keys, catalogue,
//! packs. Nodes connect by TLS with the certificate that the server gave them. Administrators
//! connect to a socket in the folder, which its permissions guard.
//!
//! | module | work |
//! |---|---|
//! | `sessions` | requests of nodes: backup, restore, lists, archives, recalls |
//! | `admin` | requests of administrators |
//! | `messages` | conversions between messages of the wire and types of the store |
//! | `port`, `gate` | the port of nodes with its threads, and the check of each request |
//! | `enrol`, `attempts`, `issued`, `authority` | certificates |
//! | `tls`, `connection` | connections |
//! | `identities` | nodes that are connected, and from where |
//! | `activities` | what nodes do at this moment |
//! | `limits`, `quota`, `guesses`, `origin` | limits on clients |
//! | `inbox`, `metered` | memory of the messages of nodes while they arrive |
//! | `outbox` | memory of the answers that nodes have not taken |
//! | `budget` | memory that the backups of one node may take |
//! | `measurements`, `plain` | measurements of the network, over TLS and without it |
//! | `numbering` | numbers of objects, as callers get and give them |
//! | `office` | the server as the service above it sees it |
//! | `upkeep` | tasks that are due from time to time |
//! | `refusal` | errors of the store as a client gets them |

mod activities;
mod actor;
mod admin;
mod attempts;
mod attendance;
mod attendances;
mod authority;
mod budget;
mod bugs;
mod connection;
mod disk_errors;
mod edge;
mod enrol;
mod full_pools;
mod gate;
mod guesses;
mod identities;
mod inbox;
mod init;
mod issued;
mod limits;
#[cfg(test)]
mod lists;
mod measurements;
mod messages;
mod metered;
mod numbering;
mod office;
mod origin;
mod outbox;
mod plain;
mod port;
mod quota;
mod refusal;
mod run;
mod sessions;
mod stop;
mod succession;
mod timetable;
mod tls;
mod unknown;
mod upkeep;
mod usage;

pub use activities::{Activity, ActivityKind};
pub use actor::{Actor, FoundNodes, OptionSetSight, ReviewMark, ScheduleSight, Sight};
pub use admin::keys::{EnrolmentKey, FoundKey, KeySight, NewEnrolmentKey};
pub use authority::{AuthorityError, Identity};
pub use guesses::Guesses;
pub use identities::ConnectedNode;
pub use init::{InitError, init};
pub use numbering::{NumberKind, Numbering};
pub use office::{Office, Registration};
pub use origin::Origin;
pub use run::{Beside, Readiness, RunError, run};
pub use tls::TlsError;

/// The administration socket's name in the server's folder.
pub const ADMIN_SOCKET: &str = "admin.sock";
