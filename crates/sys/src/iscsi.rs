//! SCSI commands over iSCSI, by libiscsi, which is loaded at its first use: a program runs without
//! it until a user names an iSCSI address.
//!
//! One session has one logical unit. A session that breaks is not opened again without the caller's
//! knowledge: a tape's position would be lost, and a block written twice. The caller drops such a
//! session and opens another.

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_uint, c_void};
use std::io;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::time::Duration;

use crate::scsi::{Answer, Exchange};

/// File name of the library with the structures below: libiscsi 1.18 to 1.19.
const LIBRARY: &CStr = c"libiscsi.so.7";
const SESSION_NORMAL: c_int = 2;
const DIRECTION_NONE: c_int = 0;
const DIRECTION_IN: c_int = 1;
const DIRECTION_OUT: c_int = 2;
const STATUS_CHECK_CONDITION: c_int = 2;
/// Status with which the library reports that no answer came in time.
const STATUS_TIMEOUT: c_int = 0x0f00_0002;
/// Maximum status of a device; the library's own statuses are higher.
const STATUS_MAX: c_int = 0xff;
const RESIDUAL_UNDERFLOW: c_uint = 1;
/// Time limit for the connection and the login.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// `struct scsi_sense`; three bit fields share the byte `flags`.
#[repr(C)]
struct TaskSense {
    error_type: c_uchar,
    key: c_uint,
    code: c_int,
    flags: c_uchar,
    bit_pointer: c_uchar,
    field_pointer: u16,
}

/// `struct scsi_task`, up to the last field that is read.
#[repr(C)]
struct Task {
    status: c_int,
    cdb_bytes: c_int,
    direction: c_int,
    transfer_bytes: c_int,
    cdb: [c_uchar; 16],
    residual_status: c_uint,
    residual: usize,
    sense: TaskSense,
    data_bytes: c_int,
    data: *mut c_uchar,
}

/// `struct iscsi_data`.
#[repr(C)]
struct OutgoingBuffer {
    bytes: usize,
    data: *mut c_uchar,
}

/// `struct iscsi_context`, which is opaque.
#[repr(C)]
struct Context {
    _private: [u8; 0],
}

type NumberSetter = unsafe extern "C" fn(*mut Context, c_int) -> c_int;
type ContextFunction = unsafe extern "C" fn(*mut Context) -> c_int;

/// Functions of the library that this module calls.
struct Functions {
    create_context: unsafe extern "C" fn(*const c_char) -> *mut Context,
    destroy_context: ContextFunction,
    set_target: unsafe extern "C" fn(*mut Context, *const c_char) -> c_int,
    set_session_type: NumberSetter,
    set_timeout: NumberSetter,
    set_no_reconnect: unsafe extern "C" fn(*mut Context, c_int),
    connect: unsafe extern "C" fn(*mut Context, *const c_char, c_int) -> c_int,
    logout: ContextFunction,
    descriptor: ContextFunction,
    error: unsafe extern "C" fn(*mut Context) -> *const c_char,
    create_task: unsafe extern "C" fn(c_int, *mut c_uchar, c_int, c_int) -> *mut Task,
    add_buffer: unsafe extern "C" fn(*mut Task, c_int, *mut c_uchar) -> c_int,
    free_task: unsafe extern "C" fn(*mut Task),
    command: unsafe extern "C" fn(*mut Context, c_int, *mut Task, *mut OutgoingBuffer) -> *mut Task,
}

impl Functions {
    /// Loads the library at the first call; it stays loaded.
    fn get() -> io::Result<&'static Self> {
        static LOADED: OnceLock<Option<Functions>> = OnceLock::new();
        LOADED.get_or_init(Self::load).as_ref().ok_or_else(|| {
            let message = "libiscsi is not installed (libiscsi.so.7; package libiscsi7)";
            io::Error::new(io::ErrorKind::Unsupported, message)
        })
    }

    fn load() -> Option<Self> {
        // SAFETY: the name is a C string; loading the library only sets up the library's own data.
        // The library is never unloaded, so that its functions stay where they are.
        let handle = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        let handle = NonNull::new(handle)?;
        // SAFETY: each function has the type that the header of this version declares for it.
        unsafe {
            Some(Self {
                create_context: symbol(handle, c"iscsi_create_context")?,
                destroy_context: symbol(handle, c"iscsi_destroy_context")?,
                set_target: symbol(handle, c"iscsi_set_targetname")?,
                set_session_type: symbol(handle, c"iscsi_set_session_type")?,
                set_timeout: symbol(handle, c"iscsi_set_timeout")?,
                set_no_reconnect: symbol(handle, c"iscsi_set_noautoreconnect")?,
                connect: symbol(handle, c"iscsi_full_connect_sync")?,
                logout: symbol(handle, c"iscsi_logout_sync")?,
                descriptor: symbol(handle, c"iscsi_get_fd")?,
                error: symbol(handle, c"iscsi_get_error")?,
                create_task: symbol(handle, c"scsi_create_task")?,
                add_buffer: symbol(handle, c"scsi_task_add_data_in_buffer")?,
                free_task: symbol(handle, c"scsi_free_scsi_task")?,
                command: symbol(handle, c"iscsi_scsi_command_sync")?,
            })
        }
    }
}

/// Returns the function `name` of a loaded library.
///
/// # Safety
///
/// `F` must be a function pointer of the type of that function.
unsafe fn symbol<F: Copy>(library: NonNull<c_void>, name: &CStr) -> Option<F> {
    assert_eq!(size_of::<F>(), size_of::<*mut c_void>(), "a function pointer");
    // SAFETY: the handle is of a loaded library, the name is a C string.
    let address = unsafe { libc::dlsym(library.as_ptr(), name.as_ptr()) };
    // SAFETY: not null, as large as a pointer, and of this type by the caller's promise.
    NonNull::new(address).map(|address| unsafe { std::mem::transmute_copy(&address) })
}

/// Returns true if iSCSI addresses can be used on this machine.
pub fn is_available() -> bool {
    Functions::get().is_ok()
}

/// A session with one logical unit.
#[derive(Debug)]
pub struct Session {
    context: NonNull<Context>,
    lun: c_int,
    /// True after a failure that leaves memory to the library: the library may still write to
    /// memory of a call that has returned, so the context is not used again.
    is_broken: bool,
}

// SAFETY: a context belongs to one session, is used through `&mut` only, and the library keeps no
// state for a thread.
unsafe impl Send for Session {}

impl Session {
    /// Connects to the unit `lun` of `target` at `portal` (host and port) and logs in, as
    /// `initiator`. Fails with `Unsupported` if libiscsi is not installed.
    pub fn connect(initiator: &str, portal: &str, target: &str, lun: u16) -> io::Result<Self> {
        let functions = Functions::get()?;
        let text = |text: &str| CString::new(text).map_err(|_| io::ErrorKind::InvalidInput);
        let (initiator, portal, target) = (text(initiator)?, text(portal)?, text(target)?);
        // SAFETY: the argument is a C string, which the library copies.
        let context = unsafe { (functions.create_context)(initiator.as_ptr()) };
        let context = NonNull::new(context).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut session = Self { context, lun: c_int::from(lun), is_broken: false };
        let context = session.context.as_ptr();
        // SAFETY: the context is valid until it is destroyed, the target is a C string that the
        // library copies.
        let set = unsafe {
            (functions.set_no_reconnect)(context, 1);
            (functions.set_target)(context, target.as_ptr())
                | (functions.set_session_type)(context, SESSION_NORMAL)
        };
        session.set_timeout(functions, CONNECT_TIMEOUT);
        // SAFETY: as above; the portal is a C string.
        let connected = unsafe { (functions.connect)(context, portal.as_ptr(), session.lun) };
        if set == 0 && connected == 0 { Ok(session) } else { Err(session.error(functions)) }
    }

    fn set_timeout(&mut self, functions: &Functions, timeout: Duration) {
        let secs = c_int::try_from(timeout.as_secs().max(1)).unwrap_or(c_int::MAX);
        // SAFETY: the context is valid.
        unsafe { (functions.set_timeout)(self.context.as_ptr(), secs) };
    }

    fn error(&mut self, functions: &Functions) -> io::Error {
        // SAFETY: the context is valid; the result is null or a C string that stays until the next
        // call with this context.
        let message = unsafe { (functions.error)(self.context.as_ptr()) };
        if message.is_null() {
            return io::ErrorKind::ConnectionAborted.into();
        }
        // SAFETY: not null, hence a C string.
        let message = unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned();
        io::Error::new(io::ErrorKind::ConnectionAborted, message)
    }

    /// Executes a command and waits for its answer. `TimedOut` means that no answer came; after any
    /// other error the session is unusable.
    pub fn execute(
        &mut self,
        command: &[u8],
        exchange: Exchange<'_>,
        timeout: Duration,
    ) -> io::Result<Answer> {
        let functions = Functions::get()?;
        if self.is_broken {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        self.set_timeout(functions, timeout);
        let (direction, data, bytes) = match exchange {
            Exchange::None => (DIRECTION_NONE, ptr::null_mut(), 0),
            Exchange::In(bytes) => (DIRECTION_IN, bytes.as_mut_ptr(), bytes.len()),
            Exchange::Out(bytes) => (DIRECTION_OUT, bytes.as_ptr().cast_mut(), bytes.len()),
        };
        let task = create_task(functions, command, direction, bytes)?;
        if direction == DIRECTION_IN {
            let length = c_int::try_from(bytes).expect("checked for the task");
            // SAFETY: the task is valid, the buffer has that length and outlives it: it is freed
            // below, or the session is given up and nothing is received any more.
            let added = unsafe { (functions.add_buffer)(task.as_ptr(), length, data) };
            if added != 0 {
                // SAFETY: nobody else has the task.
                unsafe { (functions.free_task)(task.as_ptr()) };
                return Err(io::ErrorKind::OutOfMemory.into());
            }
        }
        self.run(functions, task, OutgoingBuffer { bytes, data }, direction)
    }

    fn run(
        &mut self,
        functions: &Functions,
        task: NonNull<Task>,
        mut out: OutgoingBuffer,
        direction: c_int,
    ) -> io::Result<Answer> {
        let data = if direction == DIRECTION_OUT { &raw mut out } else { ptr::null_mut() };
        // SAFETY: context and task are valid; the data live until the call returns, and the
        // library only reads what it sends.
        let done =
            unsafe { (functions.command)(self.context.as_ptr(), self.lun, task.as_ptr(), data) };
        let Some(done) = NonNull::new(done) else {
            // The library may have kept the task: the task is not freed, and the context is not
            // used again.
            self.is_broken = true;
            return Err(self.error(functions));
        };
        // SAFETY: a task that came back is complete, and nobody else has it.
        let answer = answer(unsafe { done.as_ref() });
        // SAFETY: as above; everything that was taken from it has been copied.
        unsafe { (functions.free_task)(done.as_ptr()) };
        answer
    }
}

fn create_task(
    functions: &Functions,
    command: &[u8],
    direction: c_int,
    bytes: usize,
) -> io::Result<NonNull<Task>> {
    let mut cdb = [0; 16];
    let room = cdb.get_mut(..command.len()).ok_or(io::ErrorKind::InvalidInput)?;
    room.copy_from_slice(command);
    let too_long = |_| io::ErrorKind::InvalidInput;
    let cdb_bytes = c_int::try_from(command.len()).map_err(too_long)?;
    let bytes = c_int::try_from(bytes).map_err(too_long)?;
    // SAFETY: the command has that many bytes, which the library copies.
    let task = unsafe { (functions.create_task)(cdb_bytes, cdb.as_mut_ptr(), direction, bytes) };
    NonNull::new(task).ok_or(io::ErrorKind::OutOfMemory.into())
}

/// Returns the device's answer from a finished task. After a CHECK CONDITION, the task's data are
/// the length of the sense bytes and then the sense bytes.
fn answer(task: &Task) -> io::Result<Answer> {
    const LENGTH_BYTES: usize = 2;
    match task.status {
        0..=STATUS_MAX => {}
        STATUS_TIMEOUT => return Err(io::ErrorKind::TimedOut.into()),
        _ => return Err(io::ErrorKind::ConnectionReset.into()),
    }
    let mut sense = Vec::new();
    let count = usize::try_from(task.data_bytes).unwrap_or(0);
    if task.status == STATUS_CHECK_CONDITION && !task.data.is_null() && count > LENGTH_BYTES {
        // SAFETY: the library says that it has put so many bytes there; they stay until the task
        // is freed.
        let bytes = unsafe { std::slice::from_raw_parts(task.data, count) };
        let length = usize::from(u16::from_be_bytes([bytes[0], bytes[1]]));
        let end = (LENGTH_BYTES + length).min(count);
        sense = bytes[LENGTH_BYTES..end].to_vec();
    }
    let is_short = task.residual_status == RESIDUAL_UNDERFLOW;
    Ok(Answer {
        status: u8::try_from(task.status).expect("at most STATUS_MAX"),
        sense,
        residual: if is_short { task.residual as u64 } else { 0 },
    })
}

impl Drop for Session {
    fn drop(&mut self) {
        let Ok(functions) = Functions::get() else { return };
        if self.is_broken {
            // Destroying the context would call back into a call that has returned. Only its
            // socket is closed, so that a line that is cut again and again costs no descriptors.
            // SAFETY: the context is valid; nothing uses it or its descriptor after this call.
            unsafe {
                let descriptor = (functions.descriptor)(self.context.as_ptr());
                if descriptor >= 0 {
                    libc::close(descriptor);
                }
            }
            return;
        }
        // SAFETY: the context is valid and not used again. Logging out fails if the session has
        // already ended, which does no harm.
        unsafe {
            (functions.logout)(self.context.as_ptr());
            (functions.destroy_context)(self.context.as_ptr());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn structures_are_laid_out_as_the_library_has_them() {
        assert_eq!(offset_of!(Task, cdb), 16);
        assert_eq!(offset_of!(Task, residual_status), 32);
        assert_eq!(offset_of!(Task, residual), 40);
        assert_eq!(offset_of!(Task, sense), 48);
        assert_eq!(size_of::<TaskSense>(), 16);
        assert_eq!(offset_of!(Task, data_bytes), 64);
        assert_eq!(offset_of!(Task, data), 72);
    }

    #[test]
    fn nobody_listening_is_an_error_and_so_is_a_missing_library() {
        let refused =
            Session::connect("iqn.2026-01.test:x", "127.0.0.1:1", "iqn.2026-01.test:y", 0);
        let kind = refused.unwrap_err().kind();
        if is_available() {
            assert_eq!(kind, io::ErrorKind::ConnectionAborted);
        } else {
            assert_eq!(kind, io::ErrorKind::Unsupported);
        }
    }
}
