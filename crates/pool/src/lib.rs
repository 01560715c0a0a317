//! Storage pools, which hold quanta.
//!
//! | to read about | see |
//! |---|---|
//! | all pools of a server, their invariants | [`Pools`] and its module |
//! | the interface between a pool and its storage | `storage.rs` |
//! | packs in local folders | `storage/folder.rs`, `layout.rs` |
//! | packs in buckets of object stores | `storage/bucket.rs`, [`Bucket`] and its module |
//! | packs on volumes | `storage/shelf.rs`, [`Shelf`] |
//! | open packs, to which quanta are appended | `open.rs` |
//! | packs of one number in two pools | `namesakes.rs` |
//! | errors of disks | `disk.rs` |
//! | space that new data may not use | `reserve.rs` |
//!
//! ```text
//!   Pools --> Member --> PackStorage --> folder   files of a local folder
//!                                    --> bucket   objects; sealed by each sync
//!                                    --> shelf    volumes, which another crate manages
//! ```

mod bucket;
mod disk;
mod error;
mod hold;
mod layout;
mod mark;
mod member;
mod namesakes;
mod numbers;
mod open;
mod owner;
mod pack;
mod pools;
mod reserve;
mod shelf;
mod source;
mod spec;
mod state;
mod storage;
mod table;
mod table_file;

pub use bucket::Bucket;
pub use bucket::credentials::use_variables;
pub use bucket::location::{BucketUrl, BucketUrlError};
pub use error::{AppendError, PutError, ReadError};
pub use hold::Hold;
pub use mark::{Mark, lock, mark};
pub use member::Usage;
pub use numbers::{NumberSource, Numbers};
pub use owner::Owner;
pub use pack::{Filler, PACK_BYTES, PACK_CHUNKS, PackNews, PackRecord, SealedPack};
pub use pools::fleet::PackLimits;
pub use pools::presence::Arrivals;
pub use pools::volumes::PackReader;
pub use pools::{Inventory, Pools};
pub use reserve::{Purpose, Reserve};
pub use shelf::Shelf;
pub use spec::{PoolSpec, Role, Storage, is_marked};
pub use state::WriteFailure;
