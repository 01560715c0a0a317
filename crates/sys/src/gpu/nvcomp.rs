//! The functions of nvCOMP. Source: the headers `nvcomp.h`, `nvcomp/shared_types.h` and
//! `nvcomp/zstd.h` of nvCOMP 6.0.

use std::ffi::{OsStr, c_int, c_void};
use std::io;

use cudarc::driver::sys::{CUdeviceptr, CUstream};
use libloading::Library;

/// Versions whose functions are those below: a thousand for each major version.
const VERSION_MIN: u32 = 6_000;
const VERSION_END: u32 = 7_000;
pub(super) const SUCCESS: c_int = 0;

/// Options of a function. All bytes are zero: the defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Options([u32; 16]);

const DEFAULTS: Options = Options([0; 16]);

#[repr(C)]
#[derive(Default)]
struct Properties {
    version: u32,
    runtime_version: u32,
}

type TempBytes = unsafe extern "C" fn(usize, usize, Options, *mut usize, usize, CUstream) -> c_int;
type MaxBytes = unsafe extern "C" fn(usize, Options, *mut usize) -> c_int;
type Compress = unsafe extern "C" fn(
    *const *const c_void,
    *const usize,
    usize,
    usize,
    *mut c_void,
    usize,
    *const *mut c_void,
    *mut usize,
    Options,
    *mut c_int,
    CUstream,
) -> c_int;
type Decompress = unsafe extern "C" fn(
    *const *const c_void,
    *const usize,
    *const usize,
    *mut usize,
    usize,
    *mut c_void,
    usize,
    *const *mut c_void,
    Options,
    *mut c_int,
    CUstream,
) -> c_int;

/// The loaded library.
#[derive(Debug)]
pub(super) struct Nvcomp {
    compress_temp: TempBytes,
    compress_max: MaxBytes,
    compress: Compress,
    decompress_temp: TempBytes,
    decompress: Decompress,
    /// The functions above are valid as long as the library is loaded.
    _library: Library,
}

/// Addresses on the GPU of the tables of a batch, and the number of their entries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    pub(super) count: usize,
    pub(super) inputs: CUdeviceptr,
    pub(super) input_bytes: CUdeviceptr,
    pub(super) outputs: CUdeviceptr,
    pub(super) output_bytes: CUdeviceptr,
    pub(super) statuses: CUdeviceptr,
    pub(super) temp: CUdeviceptr,
    pub(super) temp_bytes: usize,
}

impl Nvcomp {
    /// Loads the library `name`, a file name that the system's loader looks for, or a path.
    pub(super) fn load(name: &OsStr) -> io::Result<Self> {
        let shown = name.display();
        // SAFETY: loading nvCOMP runs its initialization, which has no conditions.
        let library = unsafe { Library::new(name) }.map_err(|error| {
            // The loader's reason is the source: no such file, or what is wrong with it.
            let reason = model::chain(&error);
            let text = format!("nvCOMP cannot be loaded as {shown}: {reason}");
            io::Error::new(io::ErrorKind::NotFound, text)
        })?;
        let version = version(&library, name)?;
        if !(VERSION_MIN..VERSION_END).contains(&version) {
            let (major, minor) = (version / 1000, version % 1000 / 100);
            let text = format!("{shown} is nvCOMP {major}.{minor}; version 6 is needed");
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        Ok(Self {
            compress_temp: symbol(&library, name, "nvcompBatchedZstdCompressGetTempSize")?,
            compress_max: symbol(&library, name, "nvcompBatchedZstdCompressGetMaxOutputChunkSize")?,
            compress: symbol(&library, name, "nvcompBatchedZstdCompressAsync")?,
            decompress_temp: symbol(&library, name, "nvcompBatchedZstdDecompressGetTempSize")?,
            decompress: symbol(&library, name, "nvcompBatchedZstdDecompressAsync")?,
            _library: library,
        })
    }

    /// Returns the working memory for compressing `pieces` pieces of at most `piece_bytes` bytes,
    /// together at most `bytes` bytes.
    pub(super) fn compress_temp_bytes(
        &self,
        (pieces, piece_bytes, bytes): (usize, usize, usize),
        stream: CUstream,
    ) -> io::Result<usize> {
        temp_bytes(self.compress_temp, (pieces, piece_bytes, bytes), stream)
    }

    /// Returns the working memory for decompressing, as [`Self::compress_temp_bytes`] does.
    pub(super) fn decompress_temp_bytes(
        &self,
        (frames, frame_bytes, bytes): (usize, usize, usize),
        stream: CUstream,
    ) -> io::Result<usize> {
        temp_bytes(self.decompress_temp, (frames, frame_bytes, bytes), stream)
    }

    /// Returns the maximum length of a compressed piece.
    pub(super) fn compressed_bytes_max(&self, piece_bytes: usize) -> io::Result<usize> {
        let mut most = 0;
        // SAFETY: `most` is valid for writes.
        check(unsafe { (self.compress_max)(piece_bytes, DEFAULTS, &raw mut most) })?;
        Ok(most)
    }

    /// Begins to compress a batch.
    ///
    /// # Safety
    /// The tables have `batch.count` entries, the memory that they name lies on the GPU, and
    /// nothing else uses it before the stream has done this work. No piece is longer than
    /// `piece_bytes`, and each output has the room of [`Self::compressed_bytes_max`].
    pub(super) unsafe fn compress(
        &self,
        batch: Batch,
        piece_bytes: usize,
        stream: CUstream,
    ) -> io::Result<()> {
        // SAFETY: by the conditions of this function.
        check(unsafe {
            (self.compress)(
                pointer(batch.inputs),
                pointer(batch.input_bytes),
                piece_bytes,
                batch.count,
                pointer::<c_void>(batch.temp).cast_mut(),
                batch.temp_bytes,
                pointer(batch.outputs),
                pointer::<usize>(batch.output_bytes).cast_mut(),
                DEFAULTS,
                pointer::<c_int>(batch.statuses).cast_mut(),
                stream,
            )
        })
    }

    /// Begins to decompress a batch. `rooms` is the address of the table of the outputs' lengths.
    ///
    /// # Safety
    /// As for [`Self::compress`]; the outputs have the lengths of `rooms`.
    pub(super) unsafe fn decompress(
        &self,
        batch: Batch,
        rooms: CUdeviceptr,
        stream: CUstream,
    ) -> io::Result<()> {
        // SAFETY: by the conditions of this function.
        check(unsafe {
            (self.decompress)(
                pointer(batch.inputs),
                pointer(batch.input_bytes),
                pointer(rooms),
                pointer::<usize>(batch.output_bytes).cast_mut(),
                batch.count,
                pointer::<c_void>(batch.temp).cast_mut(),
                batch.temp_bytes,
                pointer(batch.outputs),
                DEFAULTS,
                pointer::<c_int>(batch.statuses).cast_mut(),
                stream,
            )
        })
    }
}

fn pointer<T>(address: CUdeviceptr) -> *const T {
    std::ptr::without_provenance(usize::try_from(address).expect("addresses have 64 bits"))
}

fn temp_bytes(
    ask: TempBytes,
    (count, each, bytes): (usize, usize, usize),
    stream: CUstream,
) -> io::Result<usize> {
    let mut needed = 0;
    // SAFETY: `needed` is valid for writes; nothing else is written.
    check(unsafe { ask(count, each, DEFAULTS, &raw mut needed, bytes, stream) })?;
    Ok(needed)
}

fn version(library: &Library, name: &OsStr) -> io::Result<u32> {
    type Ask = unsafe extern "C" fn(*mut Properties) -> c_int;
    let ask: Ask = symbol(library, name, "nvcompGetProperties")?;
    let mut properties = Properties::default();
    // SAFETY: `properties` is valid for writes.
    check(unsafe { ask(&raw mut properties) })?;
    Ok(properties.version)
}

fn symbol<T: Copy>(library: &Library, name: &OsStr, function: &str) -> io::Result<T> {
    // SAFETY: the callers' types are those of the library's headers.
    let found = unsafe { library.get::<T>(function) }.map_err(|_| {
        let text = format!("{} is not nvCOMP 6: it lacks {function}", name.display());
        io::Error::new(io::ErrorKind::Unsupported, text)
    })?;
    Ok(*found)
}

fn check(status: c_int) -> io::Result<()> {
    match status {
        SUCCESS => Ok(()),
        status => Err(io::Error::other(format!("nvCOMP failed with status {status}"))),
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use super::*;

    /// Compiles a library with the functions of `source`.
    fn library(folder: &Path, source: &str) -> PathBuf {
        let (code, built) = (folder.join("it.c"), folder.join("it.so"));
        std::fs::write(&code, source).expect("room");
        let built_it = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .args([&built, &code])
            .status()
            .expect("a C compiler, which the build needs too");
        assert!(built_it.success());
        built
    }

    #[track_caller]
    fn check_refused(name: &OsStr, says: &str) {
        let error = Nvcomp::load(name).expect_err("no nvCOMP 6").to_string();
        assert!(error.contains(says), "{error}");
        assert!(error.contains(&name.display().to_string()), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }

    #[test]
    fn a_library_that_cannot_be_used_is_named_with_the_reason() {
        let folder = tempfile::tempdir().expect("room");
        check_refused(OsStr::new("libnvcomp.so.0"), "No such file");
        let broken = folder.path().join("broken.so");
        std::fs::write(&broken, b"\x7fELF and nothing more").expect("room");
        check_refused(broken.as_os_str(), "file too short");
        let other = library(folder.path(), "int other(void) { return 0; }");
        check_refused(other.as_os_str(), "it lacks nvcompGetProperties");
    }

    #[test]
    fn a_library_of_another_version_is_refused() {
        for (version, shown) in [(4_200, "nvCOMP 4.2"), (7_000, "nvCOMP 7.0")] {
            let folder = tempfile::tempdir().expect("room");
            let source = format!(
                "int nvcompGetProperties(unsigned *p) {{ p[0] = {version}; p[1] = 0; return 0; }}"
            );
            check_refused(library(folder.path(), &source).as_os_str(), shown);
        }
        let folder = tempfile::tempdir().expect("room");
        let source = "int nvcompGetProperties(unsigned *p) { p[0] = 6000; p[1] = 0; return 0; }";
        let partial = library(folder.path(), source);
        check_refused(partial.as_os_str(), "it lacks nvcompBatchedZstdCompressGetTempSize");
    }
}
