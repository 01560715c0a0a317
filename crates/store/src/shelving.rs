//! Shelving: writing packs to volumes, emptying volumes whose data is mostly dead, and importing
//! volumes that an older catalogue does not know.

mod crew;
pub(crate) mod import;
pub(crate) mod reclaim;
pub(crate) mod write;

pub(crate) use crew::PackListener;
pub(crate) use import::import;
pub(crate) use reclaim::{
    VolumeListener, audit, bring, free, reclaim, staged_max, vacate, worth_rewriting,
};
pub(crate) use write::write;
