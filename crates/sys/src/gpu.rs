//! An NVIDIA GPU that compresses, decompresses and digests batches of data.
//!
//! Nothing is linked: the driver (`libcuda.so.1`) and nvCOMP (`libnvcomp.so.6`, which NVIDIA
//! distributes as the Python package `nvidia-libnvcomp-cu12`) are loaded when a GPU is opened. The
//! kernels of our own are in `gpu/kernels.cu`; the driver compiles them for the GPU at hand.
//!
//! A lane has a stream of the GPU and all memory for one batch. Its methods return when their work
//! is done, so that no memory is used by two sides at once. Work overlaps with the transfers of
//! other lanes: a user of the GPU has several lanes, and a thread for each. A lane that has failed
//! is not used again; if the GPU may still use its memory, the memory is leaked.
//!
//! ```text
//!   pinned memory --copy--> GPU --nvCOMP, kernels--> GPU --copy--> pinned memory
//! ```

mod compress;
mod memory;
mod nvcomp;
mod open;

use std::ffi::OsStr;
use std::io;
use std::sync::Arc;

use cudarc::driver::sys::CUresult;
use cudarc::driver::{CudaContext, CudaFunction, DriverError, sys as cuda};
use cudarc::nvrtc::Ptx;
use libloading::Library;

pub use compress::CompressLane;
use nvcomp::Nvcomp;
pub use open::{Frame, OpenLane, Shape};

/// File name of the version of nvCOMP whose functions are declared in `nvcomp`.
pub const LIBRARY: &str = "libnvcomp.so.6";
/// File name of the driver.
const DRIVER: &str = "libcuda.so.1";
/// The kernels, compiled from `gpu/kernels.cu`.
pub const KERNELS: &str = include_str!("gpu/kernels.ptx");
/// Source of [`KERNELS`].
pub const KERNELS_SOURCE: &str = include_str!("gpu/kernels.cu");
/// Oldest driver that has all functions that are used: that of CUDA 12.1.
const DRIVER_VERSION_MIN: i32 = 12_010;
/// Alignment of the parts of a buffer. The GPU reads and writes aligned data faster.
const ALIGNMENT: usize = 256;

/// A GPU that is ready for use.
#[derive(Debug)]
pub struct Device {
    context: Arc<CudaContext>,
    nvcomp: Nvcomp,
    collect: CudaFunction,
    leaves: CudaFunction,
    parents: CudaFunction,
    name: String,
}

impl Device {
    /// Opens the first GPU. `library` is the file or the name of nvCOMP.
    ///
    /// The error says what is missing: the driver, a GPU, or nvCOMP in a version that is known.
    pub fn open(library: &OsStr) -> io::Result<Arc<Self>> {
        check_driver()?;
        let context = CudaContext::new(0).map_err(failed("cannot use the GPU"))?;
        // Lanes order their work themselves.
        // SAFETY: no slice of cudarc's own is used, so that none depends on tracking.
        unsafe { context.disable_event_tracking() };
        let nvcomp = Nvcomp::load(library)?;
        let module = context
            .load_module(Ptx::from_src(KERNELS))
            .map_err(failed("the driver refuses the kernels"))?;
        let kernel = |name| module.load_function(name).map_err(failed("a kernel is missing"));
        let name = context.name().map_err(failed("the GPU has no name"))?;
        Ok(Arc::new(Self {
            nvcomp,
            collect: kernel("collect")?,
            leaves: kernel("leaves")?,
            parents: kernel("parents")?,
            name,
            context,
        }))
    }

    /// Returns the GPU's name, such as `NVIDIA H100 80GB HBM3`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of free bytes of the GPU's memory.
    pub fn free_bytes(&self) -> io::Result<usize> {
        self.bind()?;
        let (free, _) = self.context.mem_get_info().map_err(failed("the GPU does not answer"))?;
        Ok(free)
    }

    /// Makes the calling thread one that uses this GPU.
    fn bind(&self) -> io::Result<()> {
        self.context.bind_to_thread().map_err(failed("the GPU does not answer"))
    }
}

/// Loads the driver. If there is none the answer takes no time, and the error has the reason of the
/// system's loader.
pub fn find_driver() -> io::Result<()> {
    // SAFETY: loading the driver runs its initialization, which has no conditions.
    if unsafe { cuda::is_culib_present() } {
        return Ok(());
    }
    // SAFETY: as above.
    let reason = match unsafe { Library::new(DRIVER) } {
        Ok(_) => return Ok(()),
        Err(error) => model::chain(&error),
    };
    let text = format!("the NVIDIA driver cannot be loaded: {reason}");
    Err(io::Error::new(io::ErrorKind::NotFound, text))
}

/// Fails if the driver is missing or too old.
fn check_driver() -> io::Result<()> {
    find_driver()?;
    check_functions()?;
    let mut version = 0;
    // SAFETY: the driver is there, and `version` is valid for writes.
    let result = unsafe { cuda::cuDriverGetVersion(&raw mut version) };
    result.result().map_err(failed("the NVIDIA driver does not answer"))?;
    if version < DRIVER_VERSION_MIN {
        let (major, minor) = (version / 1000, version % 1000 / 10);
        let text =
            format!("the NVIDIA driver is for CUDA {major}.{minor}; 12.1 or newer is needed");
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    }
    Ok(())
}

/// Functions of the driver that are used, here and by cudarc for what is used of it. cudarc panics
/// if it calls a function that a driver lacks.
const FUNCTIONS: [&str; 25] = [
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDriverGetVersion",
    "cuInit",
    "cuLaunchKernel",
    "cuMemAlloc_v2",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemGetInfo_v2",
    "cuMemHostAlloc",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamQuery",
    "cuStreamSynchronize",
];

/// Fails if the driver lacks a function. The driver must be there.
fn check_functions() -> io::Result<()> {
    // SAFETY: find_driver() has loaded the same library.
    let driver = unsafe { cuda::culib() };
    let is_missing = |name: &&&str| {
        // SAFETY: the function is looked up and not called.
        unsafe { driver.get::<unsafe extern "C" fn()>(**name) }.is_err()
    };
    match FUNCTIONS.iter().find(is_missing) {
        None => Ok(()),
        Some(name) => {
            let text =
                format!("the NVIDIA driver lacks {name}: libcuda.so or libcuda.so.1 is broken");
            Err(io::Error::new(io::ErrorKind::Unsupported, text))
        }
    }
}

/// Returns a function that makes an error of the driver an error of ours, after the words `what`.
fn failed(what: &'static str) -> impl Fn(DriverError) -> io::Error {
    move |DriverError(code)| {
        let kind = match code {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => io::ErrorKind::OutOfMemory,
            CUresult::CUDA_ERROR_NO_DEVICE => io::ErrorKind::NotFound,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, format!("{what}: {code:?}"))
    }
}

/// Rounds up to a multiple of [`ALIGNMENT`].
const fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_a_driver_is_told_so() {
        if find_driver().is_ok() {
            return;
        }
        let error = Device::open(OsStr::new(LIBRARY)).expect_err("no driver");
        let text = error.to_string();
        let says = "the NVIDIA driver cannot be loaded: ";
        assert!(text.starts_with(says) && text.contains("libcuda.so.1: "), "{text}");
        assert!(!text.contains('\n'), "{text}");
    }
}
