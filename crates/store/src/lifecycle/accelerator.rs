//! The GPU of a server, for work that threads do otherwise.

use std::path::Path;

use gpu::{Gpu, Settings};

use crate::folder::Config;

/// Opens the GPU, if the configuration allows one. `work` says in the log what it does, as in
/// "compresses data anew". Without a GPU that works, the log says why.
pub(super) fn open(config: &Config, settings: Settings, work: &str) -> Option<Gpu> {
    if !config.gpu {
        return None;
    }
    match Gpu::open(config.nvcomp.as_deref().map(Path::as_os_str), settings) {
        Ok(gpu) => {
            tracing::info!(gpu = gpu.device_name(), "a GPU {work}");
            Some(gpu)
        }
        Err(error) => {
            let error = error.to_string();
            tracing::warn!(error, "no GPU {work}; threads do");
            None
        }
    }
}
