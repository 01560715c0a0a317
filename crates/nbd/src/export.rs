//! An open export of a server.

use crate::assembly::Assembly;
use crate::connection::{Connection, Patience, Stream};
use crate::error::{Command, Fault, NbdError};
use crate::handshake::{Agreement, agree};
use crate::message::{Abilities, BlockSizes, Context};
use crate::status::{BlockStatus, StatusLists};
use crate::transfer::{Channel, Content};
use crate::uri::{NAME_BYTES_MAX, Uri};

/// Maximum length of the data of one request. Longer reads and writes become several requests.
pub const REQUEST_BYTES_MAX: u32 = 4 << 20;
/// Maximum number of contexts that an export is opened with.
pub const CONTEXTS_MAX: usize = 16;
/// Maximum length of one request to write zeros. A server may have to write all of them.
const ZEROES_BYTES_MAX: u32 = 32 << 20;
/// Maximum length of the range of one request for block status.
const STATUS_BYTES_MAX: u32 = 1 << 30;

/// An export that is open on a connection of its own. Several threads need an export each.
///
/// The connection ends when the value is dropped; the server is told so. After
/// [`NbdError::Lost`] and [`NbdError::Protocol`] every further call fails with
/// [`NbdError::Lost`].
#[derive(Debug)]
pub struct Export {
    channel: Channel,
    size: u64,
    abilities: Abilities,
    block_sizes: BlockSizes,
    contexts: Vec<Context>,
}

impl Export {
    /// Connects to the server and opens the export, with those of `contexts` that the server has.
    ///
    /// # Panics
    ///
    /// Panics if there are more than [`CONTEXTS_MAX`] contexts.
    pub fn connect(uri: &Uri, contexts: &[&str]) -> Result<Self, NbdError> {
        Self::connect_within(uri, contexts, Patience::default())
    }

    /// Does the same as [`Self::connect`], with other limits of time.
    pub fn connect_within(
        uri: &Uri,
        contexts: &[&str],
        patience: Patience,
    ) -> Result<Self, NbdError> {
        Self::open(Connection::open(uri, patience)?, &uri.export, contexts, patience)
    }

    /// Does the same as [`Self::connect_within`], on a connection to a server that exists already.
    pub fn over(
        stream: Box<dyn Stream>,
        export: &[u8],
        contexts: &[&str],
        patience: Patience,
    ) -> Result<Self, NbdError> {
        Self::open(Connection::over(stream, patience), export, contexts, patience)
    }

    fn open(
        mut connection: Connection,
        export: &[u8],
        contexts: &[&str],
        patience: Patience,
    ) -> Result<Self, NbdError> {
        assert!(contexts.len() <= CONTEXTS_MAX, "a caller knows its contexts");
        let names = contexts.iter().map(|context| context.as_bytes());
        if let Some(name) = names.chain([export]).find(|name| name.len() > NAME_BYTES_MAX) {
            let address = String::from_utf8_lossy(name).into_owned();
            return Err(NbdError::Address { address, reason: "it has more than 4096 bytes" });
        }
        let Agreement { shape, block_sizes, is_structured, contexts } =
            agree(&mut connection, export, contexts)?;
        let channel = Channel::new(connection, patience, is_structured);
        let (size, abilities) = (shape.bytes, shape.flags);
        Ok(Self { channel, size, abilities, block_sizes, contexts })
    }

    /// Returns the size of the export, in bytes. It is less than 2^63.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the alignment of offsets and lengths, in bytes: a power of 2, at most 64 KiB. The
    /// last bytes of an export whose size is not a multiple of it cannot be read.
    pub fn block_size_min(&self) -> u32 {
        self.block_sizes.min
    }

    /// Returns the size of blocks with which the server works best, in bytes: a power of 2.
    pub fn block_size_preferred(&self) -> u32 {
        self.block_sizes.preferred
    }

    pub fn is_read_only(&self) -> bool {
        self.abilities.is_read_only()
    }

    /// Returns true if [`Self::flush`] is supported.
    pub fn can_flush(&self) -> bool {
        self.abilities.can_flush()
    }

    /// Returns true if several connections see the same content. Without it, writing over several
    /// connections is not safe.
    pub fn can_multi_conn(&self) -> bool {
        self.abilities.can_multi_conn()
    }

    /// Returns the contexts that the server has of those that were asked for, in their order.
    pub fn contexts(&self) -> impl ExactSizeIterator<Item = &str> {
        self.contexts.iter().map(|context| context.name.as_str())
    }

    /// Fills `buffer` with the bytes at `offset`, which may have any alignment. After an error the
    /// content of the buffer has no meaning.
    pub fn read_at(&mut self, buffer: &mut [u8], offset: u64) -> Result<(), NbdError> {
        self.check_range(Command::Read, offset, buffer.len() as u64)?;
        let block_bytes = self.block_sizes.min as usize;
        let (mut rest, mut offset) = (buffer, offset);
        while !rest.is_empty() {
            let skipped = to_usize(offset % u64::from(self.block_sizes.min));
            let aligned_bytes = rest.len() - rest.len() % block_bytes;
            if skipped == 0 && aligned_bytes > 0 {
                let (aligned, tail) = rest.split_at_mut(aligned_bytes);
                self.read_aligned(aligned, offset)?;
                (rest, offset) = (tail, offset + aligned_bytes as u64);
                continue;
            }
            // A part of one block, before or after the aligned part.
            let mut block = vec![0; block_bytes];
            let start = offset - skipped as u64;
            self.check_range(Command::Read, start, block_bytes as u64)?;
            self.read_aligned(&mut block, start)?;
            let (head, tail) = rest.split_at_mut(rest.len().min(block_bytes - skipped));
            head.copy_from_slice(&block[skipped..skipped + head.len()]);
            offset += head.len() as u64;
            rest = tail;
        }
        Ok(())
    }

    fn read_aligned(&mut self, buffer: &mut [u8], mut offset: u64) -> Result<(), NbdError> {
        for piece in buffer.chunks_mut(self.payload_bytes() as usize) {
            let bytes = to_u32(piece.len());
            let mut content = Content::Read(Assembly::new(piece, offset));
            self.channel.perform(Command::Read, offset, bytes, &[], &mut content)?;
            offset += u64::from(bytes);
        }
        Ok(())
    }

    /// Writes `data` at `offset`. Both must be aligned to [`Self::block_size_min`]. The data are
    /// durable after [`Self::flush`].
    pub fn write_at(&mut self, data: &[u8], mut offset: u64) -> Result<(), NbdError> {
        self.check_write(Command::Write, offset, data.len() as u64)?;
        for piece in data.chunks(self.payload_bytes() as usize) {
            let bytes = to_u32(piece.len());
            self.channel
                .perform(Command::Write, offset, bytes, piece, &mut Content::Nothing)?;
            offset += u64::from(bytes);
        }
        Ok(())
    }

    /// Makes `bytes` bytes at `offset` zero. Both must be aligned to [`Self::block_size_min`]. The
    /// server may free their space. The zeros are sent if the server does not know the command.
    pub fn write_zeroes(&mut self, offset: u64, bytes: u64) -> Result<(), NbdError> {
        self.check_write(Command::WriteZeroes, offset, bytes)?;
        let end = offset + bytes;
        let (mut offset, zeros) = (offset, self.zeros(bytes));
        while offset < end {
            let left = end - offset;
            let piece_bytes = if zeros.is_empty() {
                let piece_bytes = capped(left, ZEROES_BYTES_MAX);
                let nothing = &mut Content::Nothing;
                self.channel.perform(Command::WriteZeroes, offset, piece_bytes, &[], nothing)?;
                piece_bytes
            } else {
                let piece_bytes = capped(left, to_u32(zeros.len()));
                self.write_at(&zeros[..piece_bytes as usize], offset)?;
                piece_bytes
            };
            offset += u64::from(piece_bytes);
        }
        Ok(())
    }

    /// Returns the zeros to send; none if the server makes them.
    fn zeros(&self, bytes: u64) -> Vec<u8> {
        let is_made = self.abilities.can_write_zeroes();
        if is_made { Vec::new() } else { vec![0; capped(bytes, self.payload_bytes()) as usize] }
    }

    /// Makes everything durable that has been written. Fails with [`Fault::Unsupported`] if the
    /// server has no such command; see [`Self::can_flush`].
    pub fn flush(&mut self) -> Result<(), NbdError> {
        if !self.can_flush() {
            return Err(failed(Command::Flush, 0, Fault::Unsupported));
        }
        self.channel.perform(Command::Flush, 0, 0, &[], &mut Content::Nothing)
    }

    /// Returns the status of the blocks from `offset`, for at most `bytes` bytes and at least one.
    /// The caller asks again for the rest, at the end of the result. Fails with
    /// [`Fault::Unsupported`] if no context was agreed to.
    ///
    /// # Panics
    ///
    /// Panics if `bytes` is 0.
    pub fn block_status(&mut self, offset: u64, bytes: u64) -> Result<BlockStatus, NbdError> {
        assert!(bytes > 0, "the status of nothing");
        self.check_range(Command::BlockStatus, offset, bytes)?;
        if self.contexts.is_empty() {
            return Err(failed(Command::BlockStatus, offset, Fault::Unsupported));
        }
        let block_bytes = u64::from(self.block_sizes.min);
        let start = offset - offset % block_bytes;
        let end = (offset + bytes).min(start + u64::from(STATUS_BYTES_MAX));
        let aligned_end = end.next_multiple_of(block_bytes);
        self.check_range(Command::BlockStatus, start, aligned_end - start)?;
        let request_bytes = u32::try_from(aligned_end - start).expect("at most the maximum");
        let lists = StatusLists::new(&self.contexts, start, end);
        let mut content = Content::Statuses(lists);
        self.channel
            .perform(Command::BlockStatus, start, request_bytes, &[], &mut content)?;
        let Content::Statuses(lists) = content else { unreachable!("it was made above") };
        lists.finish(offset)
    }

    /// Returns the maximum length of the data of one request: a multiple of the minimum block.
    fn payload_bytes(&self) -> u32 {
        let payload_max = self.block_sizes.payload_max.min(REQUEST_BYTES_MAX);
        let payload = payload_max - payload_max % self.block_sizes.min;
        assert!(payload > 0, "a payload has at least the minimum block");
        payload
    }

    fn check_range(&self, command: Command, offset: u64, bytes: u64) -> Result<(), NbdError> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.size => Ok(()),
            _ => Err(failed(command, offset, Fault::Invalid)),
        }
    }

    fn check_write(&self, command: Command, offset: u64, bytes: u64) -> Result<(), NbdError> {
        if self.is_read_only() {
            return Err(failed(command, offset, Fault::NotPermitted));
        }
        self.check_range(command, offset, bytes)?;
        let block_bytes = u64::from(self.block_sizes.min);
        if offset.is_multiple_of(block_bytes) && bytes.is_multiple_of(block_bytes) {
            Ok(())
        } else {
            Err(failed(command, offset, Fault::Invalid))
        }
    }
}

/// Returns the error of a command that is not sent, because the server would refuse it.
fn failed(command: Command, offset: u64, fault: Fault) -> NbdError {
    NbdError::Failed { command, offset, fault, message: String::new() }
}

fn capped(bytes: u64, max: u32) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX).min(max)
}

fn to_u32(piece_bytes: usize) -> u32 {
    u32::try_from(piece_bytes).expect("a piece is at most the maximum of a request")
}

fn to_usize(skipped: u64) -> usize {
    usize::try_from(skipped).expect("less than a block")
}
