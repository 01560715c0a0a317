//! Alerts: who is told what, when something at the server needs a person.
//!
//! ```text
//!   store --collect--> facts --rules--> findings --book--> alerts (catalogue)
//!                                                             |
//!     mail, webhook <--delivery-- notices (catalogue) <--notices, digest
//! ```
//!
//! | module | work |
//! |---|---|
//! | `kind` | the kinds of alerts, and their words |
//! | `facts`, `collect` | the state of the server, as the rules see it |
//! | `rules`, `deletions`, `growth` | what is worth an alert (pure) |
//! | `book` | which alerts begin and end (pure) |
//! | `notices`, `digest`, `words` | who is told when, and in which words (pure) |
//! | `audience` | recipients |
//! | `outbox` | notices on their way, and when the next attempt is (pure) |
//! | `delivery`, `mail`, `webhook`, `failure` | the edge to mail servers and programs |
//! | `monthly` | the report of a month about a domain |
//! | `watch` | the work of a running server |
//!
//! 1. An alert is in the catalogue before anybody is told of it. Its notices are in the catalogue
//!    in the batch that marks it as told; those to a domain or an owner, in the batch with the
//!    marks of these. So a restart loses no notice.
//! 2. A notice stays until its recipient's server has taken it. A crash in between sends it again,
//!    under the same number.
//! 3. Alerts that begin together are told in one notice, whatever their number.
//! 4. A notice to the people of a domain has nothing of another domain, and one to an owner has
//!    nothing of the nodes of others.
//! 5. Only the server that keeps house looks and delivers.

mod audience;
mod book;
mod collect;
mod deletions;
mod delivery;
mod digest;
mod facts;
mod failure;
mod growth;
mod kind;
mod mail;
pub mod monthly;
mod notices;
mod outbox;
mod rules;
mod watch;
mod webhook;
mod words;

pub use delivery::{Attempt, try_channels};
pub use kind::Kind;
pub use mail::{MailError, is_address};
pub use rules::SERVER;
pub use watch::run_by_itself;
pub use webhook::{SIGNATURE, TIMESTAMP, WebhookError};
