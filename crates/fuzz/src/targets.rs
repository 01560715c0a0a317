//! The list of all targets.

mod administration;
mod configuration;
mod exports;
mod lvm;
mod names;
mod packs;
mod pages;
mod policies;
mod quanta;
mod runs;
mod scratch;
mod scsi;
mod space;
mod thin_pool;
mod volumes;
mod wire;

use crate::Target;

/// All targets, in the order of the crates. Each has a test of its name.
pub const TARGETS: &[Target] = &[
    names::NAME,
    names::TEXT,
    pages::PAGE,
    pages::CATALOG_COPY,
    packs::PACK_HEADER,
    packs::PACK_FOOTER,
    quanta::QUANTUM,
    quanta::SEAL,
    volumes::VOLUME_BLOCK,
    volumes::VOLUME_INDEX,
    volumes::FILE_VOLUME,
    space::STUB,
    space::HSM_SETTINGS,
    space::HSM_REQUEST,
    policies::PATTERN,
    policies::STATEMENTS,
    policies::POLICY_SET,
    policies::SETTING,
    policies::SCHEDULE,
    wire::DIGEST_ROWS,
    wire::GRANTS,
    wire::TOKEN,
    wire::GREETING,
    wire::PLAIN_CONNECTION,
    wire::BASELINE,
    runs::INDEX_RUN,
    runs::INDEX_MANIFEST,
    exports::NBD_URI,
    exports::NBD_SERVER,
    lvm::LVM_DISK,
    lvm::LVM_TEXT,
    thin_pool::THIN_DELTA,
    scsi::SCSI_ANSWER,
    configuration::ADDRESS,
    configuration::SERVER_TOML,
    configuration::CLIENT_TOML,
    configuration::TAPE_TOML,
    configuration::KEY_FILE,
    configuration::MOUNT_TABLE,
    administration::ADMIN_COMMAND,
    administration::SELECT_STATEMENT,
];
