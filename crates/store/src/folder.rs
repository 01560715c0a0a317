//! A server's folder: its configuration, its keys, and the place of its catalogue.

pub mod alerting;
pub mod config;
pub(crate) mod database;
pub(crate) mod error;
pub(crate) mod hold;
mod oidc;
pub(crate) mod secrets;

pub use alerting::{
    AlertSettings, AlertSettingsError, MailEncryption, MailSettings, WebhookSettings, Zone,
};
pub use config::{Config, ConfigError, Credentials, InitError};
pub use database::{Database, Membership, check_catalog, move_catalog};
pub use error::OpenError;
pub use oidc::{OidcGroup, OidcSettings};
