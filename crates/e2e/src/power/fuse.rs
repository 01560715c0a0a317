//! The part of the FUSE protocol that a file system with a single file needs: its root is the file.
//!
//! Numbers and layouts are those of `linux/fuse.h`. The kernel's messages are in the byte order of
//! the machine; this module knows the little one.

const _: () = assert!(cfg!(target_endian = "little"), "FUSE uses the machine's byte order");

/// Maximum number of bytes in one write.
pub(super) const WRITE_BYTES_MAX: u32 = 1 << 20;
/// Maximum number of bytes in a message of the kernel.
pub(super) const MESSAGE_BYTES_MAX: usize = (1 << 20) + (64 << 10);

const HEADER_BYTES: usize = 40;
const WRITE_HEADER_BYTES: usize = 40;

/// A message of the kernel.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Question<'a> {
    pub(super) id: u64,
    pub(super) request: Request<'a>,
}

#[derive(PartialEq, Eq, Debug)]
pub(super) enum Request<'a> {
    Init {
        readahead_bytes: u32,
    },
    Attributes,
    Open,
    Read {
        offset: u64,
        bytes: u32,
    },
    Write {
        offset: u64,
        data: &'a [u8],
    },
    /// The disk has to put everything on the medium.
    Sync,
    Close,
    /// A message that gets no answer.
    Notice,
    Other,
}

/// Returns the question in a message; `None` if the message ends too early.
pub(super) fn decode(message: &[u8]) -> Option<Question<'_>> {
    let (code, id) = (u32_at(message, 4)?, u64_at(message, 8)?);
    let body = message.get(HEADER_BYTES..)?;
    let request = match code {
        26 => Request::Init { readahead_bytes: u32_at(body, 8)? },
        3 => Request::Attributes,
        14 => Request::Open,
        15 => Request::Read { offset: u64_at(body, 8)?, bytes: u32_at(body, 16)? },
        16 => {
            let bytes = usize::try_from(u32_at(body, 16)?).ok()?;
            let data = body.get(WRITE_HEADER_BYTES..)?.get(..bytes)?;
            Request::Write { offset: u64_at(body, 8)?, data }
        }
        20 => Request::Sync,
        // FLUSH and RELEASE, DESTROY.
        25 | 18 | 38 => Request::Close,
        // FORGET, INTERRUPT, BATCH_FORGET.
        2 | 36 | 42 => Request::Notice,
        _ => Request::Other,
    };
    Some(Question { id, request })
}

/// Returns the message that answers the question `id` with `body`.
pub(super) fn answer(id: u64, body: &[u8]) -> Vec<u8> {
    message(id, 0, body)
}

/// Returns the message that refuses the question `id`: this file system does not have the request.
pub(super) fn unknown(id: u64) -> Vec<u8> {
    message(id, libc::ENOSYS, &[])
}

fn message(id: u64, errno: i32, body: &[u8]) -> Vec<u8> {
    let bytes = u32::try_from(16 + body.len()).expect("an answer is at most a read");
    let mut all = Vec::with_capacity(16 + body.len());
    all.extend_from_slice(&bytes.to_le_bytes());
    all.extend_from_slice(&(-errno).to_le_bytes());
    all.extend_from_slice(&id.to_le_bytes());
    all.extend_from_slice(body);
    all
}

/// Body of the answer to [`Request::Init`].
pub(super) fn init(readahead_bytes: u32) -> Vec<u8> {
    const ASYNC_READ: u32 = 1;
    const BIG_WRITES: u32 = 1 << 5;
    const MAX_PAGES: u32 = 1 << 22;
    let flags = ASYNC_READ | BIG_WRITES | MAX_PAGES;
    let mut body = words(&[7, 31, readahead_bytes, flags]);
    // Number of requests in the background, and number of them from which on the kernel waits.
    body.extend([16_u16, 12].iter().flat_map(|word| word.to_le_bytes()));
    body.extend(words(&[WRITE_BYTES_MAX, 1]));
    let pages = u16::try_from(WRITE_BYTES_MAX / 4096).expect("a write has few pages");
    body.extend([pages, 0].iter().flat_map(|word| word.to_le_bytes()));
    body.resize(64, 0);
    body
}

/// Body of the answer to [`Request::Attributes`] for a file of `bytes`.
pub(super) fn attributes(bytes: u64) -> Vec<u8> {
    const MODE: u32 = libc::S_IFREG | 0o600;
    let mut body = Vec::with_capacity(104);
    // The kernel keeps the attributes for an hour: they never change.
    body.extend([3600_u64, 0].iter().flat_map(|word| word.to_le_bytes()));
    body.extend([1, bytes, bytes / 512, 0, 0, 0].iter().flat_map(|word| word.to_le_bytes()));
    body.extend(words(&[0, 0, 0, MODE, 1, 0, 0, 0, 4096, 0]));
    body
}

/// Body of the answer to [`Request::Open`].
pub(super) fn opened() -> Vec<u8> {
    vec![0; 16]
}

/// Body of the answer to a [`Request::Write`] of `bytes`.
pub(super) fn written(bytes: usize) -> Vec<u8> {
    words(&[u32::try_from(bytes).expect("a write is bounded"), 0])
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a message of the kernel with the question 7.
    fn message_of(code: u32, body: &[u8]) -> Vec<u8> {
        let mut message = words(&[0, code, 7, 0]);
        message.resize(HEADER_BYTES, 0);
        message.extend_from_slice(body);
        message
    }

    #[test]
    fn a_write_has_its_place_and_its_bytes() {
        let mut body = vec![0; WRITE_HEADER_BYTES];
        body[8..16].copy_from_slice(&8192_u64.to_le_bytes());
        body[16..20].copy_from_slice(&3_u32.to_le_bytes());
        body.extend_from_slice(b"abc");
        let message = message_of(16, &body);
        let expected = Question { id: 7, request: Request::Write { offset: 8192, data: b"abc" } };
        assert_eq!(decode(&message), Some(expected));
        for bytes in 0..message.len() {
            assert_eq!(decode(&message[..bytes]), None, "{bytes} bytes");
        }
    }

    #[test]
    fn answers_have_the_sizes_of_the_protocol() {
        let sizes = [init(4096), attributes(1 << 20), opened(), written(9)].map(|body| body.len());
        assert_eq!(sizes, [64, 104, 16, 8]);
        assert_eq!(
            answer(7, b"ab"),
            [&[18, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0][..], b"ab"].concat()
        );
    }
}
