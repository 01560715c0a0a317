//! The bytes of all messages. Numbers are big-endian.
//!
//! ```text
//!   greeting       magic 8, option magic 8, handshake flags 2
//!   option         option magic 8, option 4, length 4, data
//!   option reply   magic 8, option 4, type 4, length 4, data
//!   request        magic 4, flags 2, type 2, cookie 8, offset 8, length 4, data of a write
//!   simple reply   magic 4, error 4, cookie 8, data of a read
//!   chunk          magic 4, flags 2, type 2, cookie 8, length 4, payload
//! ```

use crate::error::{Command, Fault, NbdError, Refusal};
use crate::uri::NAME_BYTES_MAX;

/// Maximum length of the data of an option reply: a text with the fields around it.
pub(crate) const OPTION_REPLY_BYTES_MAX: u32 = 8192;
/// Maximum length of the payload of an error chunk: a text with the fields around it.
pub(crate) const ERROR_BYTES_MAX: u32 = 8192;
/// Maximum number of statuses in a chunk, by the protocol.
pub(crate) const STATUSES_MAX: u32 = 1 << 20;
/// Length of a status in a chunk.
pub(crate) const STATUS_BYTES: u32 = 8;
/// Length of the zeros after the reply to [`Choice::ExportName`].
pub(crate) const RESERVED_BYTES: usize = 124;
/// Maximum of the minimum block, by the protocol.
const BLOCK_BYTES_MAX: u32 = 1 << 16;

const MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OLDSTYLE_MAGIC: u64 = 0x0000_4202_8186_1253;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Fields of a message, from its start.
#[derive(Debug)]
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], NbdError> {
        let short = NbdError::protocol("a message is too short");
        let (array, rest) = self.0.split_first_chunk().ok_or(short)?;
        self.0 = rest;
        Ok(*array)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, NbdError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, NbdError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, NbdError> {
        self.array().map(u64::from_be_bytes)
    }

    fn bytes(&mut self, count: usize) -> Result<&'a [u8], NbdError> {
        let short = NbdError::protocol("a message is shorter than a length in it");
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(short)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    fn end(&self) -> Result<(), NbdError> {
        if self.is_at_end() { Ok(()) } else { Err(NbdError::protocol("a message is too long")) }
    }
}

/// Handshake flags of a server that speaks the fixed newstyle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Greeting {
    pub(crate) no_zeroes: bool,
}

impl Greeting {
    pub(crate) const BYTES: usize = 18;
    const FIXED_NEWSTYLE: u16 = 1;
    const NO_ZEROES: u16 = 2;

    pub(crate) fn parse(bytes: &[u8; Self::BYTES]) -> Result<Self, NbdError> {
        let mut fields = Fields::new(bytes);
        if fields.u64()? != MAGIC {
            return Err(NbdError::protocol("it is not an NBD server"));
        }
        match fields.u64()? {
            OPTION_MAGIC => {}
            OLDSTYLE_MAGIC => return Err(NbdError::protocol("it speaks only the oldstyle")),
            _ => return Err(NbdError::protocol("its greeting has an unknown style")),
        }
        let flags = fields.u16()?;
        if flags & Self::FIXED_NEWSTYLE == 0 {
            return Err(NbdError::protocol("it does not speak the fixed newstyle"));
        }
        Ok(Self { no_zeroes: flags & Self::NO_ZEROES != 0 })
    }

    /// Returns the client's answer: the flags that both ends know.
    pub(crate) fn answer(self) -> [u8; 4] {
        let no_zeroes = if self.no_zeroes { Self::NO_ZEROES } else { 0 };
        u32::from(Self::FIXED_NEWSTYLE | no_zeroes).to_be_bytes()
    }
}

/// Option that a client sends in the handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Choice {
    ExportName = 1,
    Abort = 2,
    Go = 7,
    StructuredReply = 8,
    SetMetaContext = 10,
}

impl Choice {
    /// Returns the bytes of this option with `data`.
    pub(crate) fn encode(self, data: &[u8]) -> Vec<u8> {
        let length = u32::try_from(data.len()).expect("names are short and few");
        let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
        bytes.extend((self as u32).to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.extend(data);
        bytes
    }
}

/// Returns the data of [`Choice::Go`], which asks for the block sizes.
pub(crate) fn go(export: &[u8]) -> Vec<u8> {
    let mut data = text(export);
    data.extend(1_u16.to_be_bytes());
    data.extend(Detail::BLOCK_SIZES.to_be_bytes());
    data
}

/// Returns the data of [`Choice::SetMetaContext`].
pub(crate) fn meta_contexts(export: &[u8], contexts: &[&str]) -> Vec<u8> {
    let count = u32::try_from(contexts.len()).expect("contexts are few");
    let mut data = text(export);
    data.extend(count.to_be_bytes());
    data.extend(contexts.iter().flat_map(|context| text(context.as_bytes())));
    data
}

/// Returns the length of a text and the text.
fn text(text: &[u8]) -> Vec<u8> {
    assert!(text.len() <= NAME_BYTES_MAX, "names are compared with the limit before");
    let length = u32::try_from(text.len()).expect("compared with a limit");
    [&length.to_be_bytes(), text].concat()
}

/// Header of a reply to an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OptionReplyHeader {
    kind: u32,
    /// Length of the data, at most [`OPTION_REPLY_BYTES_MAX`].
    pub(crate) bytes: u32,
}

impl OptionReplyHeader {
    pub(crate) const BYTES: usize = 20;

    /// Parses the header of a reply to `choice`.
    pub(crate) fn parse(bytes: &[u8; Self::BYTES], choice: Choice) -> Result<Self, NbdError> {
        let mut fields = Fields::new(bytes);
        if fields.u64()? != OPTION_REPLY_MAGIC {
            return Err(NbdError::protocol("an option reply has a wrong magic number"));
        }
        if fields.u32()? != choice as u32 {
            return Err(NbdError::protocol("a reply is for another option"));
        }
        let header = Self { kind: fields.u32()?, bytes: fields.u32()? };
        if header.bytes > OPTION_REPLY_BYTES_MAX {
            return Err(NbdError::protocol("an option reply is too long"));
        }
        Ok(header)
    }
}

/// Reply to an option.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum OptionReply {
    Ack,
    Detail(Detail),
    Context(Context),
    Refusal(Refusal, String),
}

impl OptionReply {
    const ACK: u32 = 1;
    const DETAIL: u32 = 3;
    const CONTEXT: u32 = 4;

    pub(crate) fn parse(header: OptionReplyHeader, data: &[u8]) -> Result<Self, NbdError> {
        if let Some(refusal) = Refusal::from_wire(header.kind) {
            return Ok(Self::Refusal(refusal, remark(data)));
        }
        let mut fields = Fields::new(data);
        match header.kind {
            Self::ACK => Ok(Self::Ack),
            Self::DETAIL => Detail::parse(&mut fields).map(Self::Detail),
            Self::CONTEXT => Context::parse(&mut fields).map(Self::Context),
            _ => Err(NbdError::protocol("an option reply has an unknown type")),
        }
    }
}

/// Context of block status that the server has agreed to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Context {
    /// Number with which replies name the context.
    pub(crate) id: u32,
    pub(crate) name: String,
}

impl Context {
    fn parse(fields: &mut Fields<'_>) -> Result<Self, NbdError> {
        let id = fields.u32()?;
        let name = String::from_utf8(fields.rest().to_vec());
        let name = name.map_err(|_| NbdError::protocol("the name of a context is not UTF-8"))?;
        Ok(Self { id, name })
    }
}

/// Detail of an export.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Detail {
    Export(Shape),
    BlockSizes(BlockSizes),
    /// Detail that this client does not use.
    Other,
}

impl Detail {
    const EXPORT: u16 = 0;
    const BLOCK_SIZES: u16 = 3;

    fn parse(fields: &mut Fields<'_>) -> Result<Self, NbdError> {
        let detail = match fields.u16()? {
            Self::EXPORT => Self::Export(Shape::parse(fields)?),
            Self::BLOCK_SIZES => Self::BlockSizes(BlockSizes::parse(fields)?),
            _ => return Ok(Self::Other),
        };
        fields.end()?;
        Ok(detail)
    }
}

/// Size and abilities of an export.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    /// Size in bytes, at most `i64::MAX`.
    pub(crate) bytes: u64,
    pub(crate) flags: Abilities,
}

impl Shape {
    pub(crate) const BYTES: usize = 10;

    pub(crate) fn parse(fields: &mut Fields<'_>) -> Result<Self, NbdError> {
        let (bytes, flags) = (fields.u64()?, Abilities(fields.u16()?));
        if i64::try_from(bytes).is_err() {
            return Err(NbdError::protocol("the size of the export is out of range"));
        }
        Ok(Self { bytes, flags })
    }
}

/// Transmission flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Abilities(u16);

impl Abilities {
    pub(crate) fn is_read_only(self) -> bool {
        self.has(1)
    }

    pub(crate) fn can_flush(self) -> bool {
        self.has(2)
    }

    pub(crate) fn can_write_zeroes(self) -> bool {
        self.has(6)
    }

    pub(crate) fn can_multi_conn(self) -> bool {
        self.has(8)
    }

    fn has(self, bit: u32) -> bool {
        self.0 & (1 << bit) != 0
    }
}

/// Sizes to which a server limits requests, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockSizes {
    /// Alignment of offsets and lengths: a power of 2, at most 64 KiB.
    pub(crate) min: u32,
    /// Size at which requests are efficient: a power of 2, at least `min`.
    pub(crate) preferred: u32,
    /// Maximum of the data of a request, at least `min`.
    pub(crate) payload_max: u32,
}

impl Default for BlockSizes {
    /// Returns the sizes of a server that sends none.
    fn default() -> Self {
        Self { min: 1, preferred: 4096, payload_max: 32 << 20 }
    }
}

impl BlockSizes {
    fn parse(fields: &mut Fields<'_>) -> Result<Self, NbdError> {
        let (min, preferred, payload_max) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let is_sound = min.is_power_of_two()
            && min <= BLOCK_BYTES_MAX
            && preferred.is_power_of_two()
            && preferred >= min
            && payload_max >= min;
        if is_sound {
            Ok(Self { min, preferred, payload_max })
        } else {
            Err(NbdError::protocol("the block sizes contradict each other"))
        }
    }
}

/// Request of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Request {
    pub(crate) command: Command,
    pub(crate) cookie: u64,
    pub(crate) offset: u64,
    pub(crate) bytes: u32,
}

impl Request {
    const BYTES: usize = 28;
    const DISCONNECT: u16 = 2;

    pub(crate) fn encode(self) -> [u8; Self::BYTES] {
        let kind = match self.command {
            Command::Read => 0,
            Command::Write => 1,
            Command::Flush => 3,
            Command::WriteZeroes => 6,
            Command::BlockStatus => 7,
        };
        encode_request(kind, self)
    }

    /// Returns the message with which a client ends the connection. No reply comes.
    pub(crate) fn disconnect() -> [u8; Self::BYTES] {
        let empty = Self { command: Command::Flush, cookie: 0, offset: 0, bytes: 0 };
        encode_request(Self::DISCONNECT, empty)
    }
}

fn encode_request(kind: u16, request: Request) -> [u8; Request::BYTES] {
    let mut bytes = [0; Request::BYTES];
    bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
    bytes[6..8].copy_from_slice(&kind.to_be_bytes());
    bytes[8..16].copy_from_slice(&request.cookie.to_be_bytes());
    bytes[16..24].copy_from_slice(&request.offset.to_be_bytes());
    bytes[24..].copy_from_slice(&request.bytes.to_be_bytes());
    bytes
}

/// Start of a reply: all of a simple reply, or what a chunk has before its length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReplyStart {
    Simple {
        fault: Option<Fault>,
        cookie: u64,
    },
    Chunk {
        kind: ChunkKind,
        /// True for the last chunk of a reply.
        is_last: bool,
        cookie: u64,
    },
}

/// Type of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ChunkKind {
    None,
    Data,
    Hole,
    BlockStatus,
    Error,
    ErrorOffset,
    /// Error of a type that this client does not know. It begins as the others do.
    OtherError,
}

impl ReplyStart {
    pub(crate) const BYTES: usize = 16;
    const LAST: u16 = 1;

    pub(crate) fn parse(bytes: &[u8; Self::BYTES]) -> Result<Self, NbdError> {
        let mut fields = Fields::new(bytes);
        match fields.u32()? {
            SIMPLE_REPLY_MAGIC => {
                Ok(Self::Simple { fault: Fault::from_wire(fields.u32()?), cookie: fields.u64()? })
            }
            CHUNK_MAGIC => {
                let is_last = fields.u16()? & Self::LAST != 0;
                let kind = ChunkKind::from_wire(fields.u16()?)?;
                Ok(Self::Chunk { kind, is_last, cookie: fields.u64()? })
            }
            _ => Err(NbdError::protocol("a reply has a wrong magic number")),
        }
    }

    pub(crate) fn cookie(self) -> u64 {
        match self {
            Self::Simple { cookie, .. } | Self::Chunk { cookie, .. } => cookie,
        }
    }
}

impl ChunkKind {
    const ERROR_BIT: u16 = 1 << 15;

    fn from_wire(kind: u16) -> Result<Self, NbdError> {
        Ok(match kind {
            0 => Self::None,
            1 => Self::Data,
            2 => Self::Hole,
            5 => Self::BlockStatus,
            0x8001 => Self::Error,
            0x8002 => Self::ErrorOffset,
            error if error & Self::ERROR_BIT != 0 => Self::OtherError,
            _ => return Err(NbdError::protocol("a chunk has an unknown type")),
        })
    }
}

/// Payload of an error chunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ErrorChunk {
    pub(crate) fault: Fault,
    pub(crate) message: String,
    /// Place of the error, if the chunk names one.
    pub(crate) offset: Option<u64>,
}

impl ErrorChunk {
    pub(crate) fn parse(kind: ChunkKind, payload: &[u8]) -> Result<Self, NbdError> {
        let mut fields = Fields::new(payload);
        let success = NbdError::protocol("an error chunk has no error");
        let fault = Fault::from_wire(fields.u32()?).ok_or(success)?;
        let length = fields.u16()?;
        let message = remark(fields.bytes(usize::from(length))?);
        let offset = match kind {
            ChunkKind::ErrorOffset => Some(fields.u64()?),
            _ => None,
        };
        Ok(Self { fault, message, offset })
    }
}

/// Returns the server's words to people, cut to the length that the protocol allows.
fn remark(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(NAME_BYTES_MAX)]).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(kind: u32, bytes: u32) -> [u8; 20] {
        let mut header = [0; 20];
        header[..8].copy_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
        header[8..12].copy_from_slice(&(Choice::Go as u32).to_be_bytes());
        header[12..16].copy_from_slice(&kind.to_be_bytes());
        header[16..].copy_from_slice(&bytes.to_be_bytes());
        header
    }

    fn option_reply(kind: u32, data: &[u8]) -> Result<OptionReply, NbdError> {
        let header = header(kind, u32::try_from(data.len()).unwrap());
        OptionReply::parse(OptionReplyHeader::parse(&header, Choice::Go)?, data)
    }

    #[track_caller]
    fn refuse<T: std::fmt::Debug>(parsed: Result<T, NbdError>, part: &str) {
        let error = parsed.unwrap_err();
        assert!(matches!(error, NbdError::Protocol { .. }), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }

    #[test]
    fn greetings_of_other_styles_are_told_apart() {
        let greeting = |style: u64, flags: u16| {
            let mut bytes = [0; 18];
            bytes[..8].copy_from_slice(b"NBDMAGIC");
            bytes[8..16].copy_from_slice(&style.to_be_bytes());
            bytes[16..].copy_from_slice(&flags.to_be_bytes());
            Greeting::parse(&bytes)
        };
        let both = greeting(OPTION_MAGIC, 3).unwrap();
        assert_eq!((both, both.answer()), (Greeting { no_zeroes: true }, [0, 0, 0, 3]));
        assert_eq!(greeting(OPTION_MAGIC, 1).unwrap().answer(), [0, 0, 0, 1]);
        refuse(greeting(OPTION_MAGIC, 2), "fixed newstyle");
        refuse(greeting(OLDSTYLE_MAGIC, 0), "oldstyle");
        refuse(greeting(7, 0), "unknown style");
        refuse(Greeting::parse(b"SSH-2.0-OpenSSH_9."), "not an NBD server");
    }

    #[test]
    fn an_option_is_encoded_with_its_length() {
        let expected = b"IHAVEOPT\0\0\0\x07\0\0\0\x0c\0\0\0\x04disk\0\x01\0\x03";
        assert_eq!(Choice::Go.encode(&go(b"disk")), expected);
        let expected = b"\0\0\0\x01d\0\0\0\x02\0\0\0\x03a:b\0\0\0\x02c:";
        assert_eq!(meta_contexts(b"d", &["a:b", "c:"]), expected);
    }

    #[test]
    fn option_replies_are_bounded_and_belong_to_their_option() {
        refuse(OptionReplyHeader::parse(&header(1, 8193), Choice::Go), "too long");
        refuse(OptionReplyHeader::parse(&header(1, 0), Choice::Abort), "another option");
        refuse(OptionReplyHeader::parse(&[0; 20], Choice::Go), "magic");
        refuse(option_reply(2, b"\0\0\0\0"), "unknown type");
    }

    #[test]
    fn details_are_parsed() {
        let sizes = b"\0\x03\0\0\x02\0\0\0\x10\0\x02\0\0\0";
        let expected = BlockSizes { min: 512, preferred: 4096, payload_max: 32 << 20 };
        let reply = option_reply(3, sizes).unwrap();
        assert_eq!(reply, OptionReply::Detail(Detail::BlockSizes(expected)));
        let export = b"\0\0\0\0\0\0\0\0\x10\0\x01\x07";
        let OptionReply::Detail(Detail::Export(export)) = option_reply(3, export).unwrap() else {
            panic!("another detail")
        };
        assert_eq!(export.bytes, 4096);
        assert!(export.flags.is_read_only() && export.flags.can_multi_conn());
        assert!(export.flags.can_flush() && !export.flags.can_write_zeroes());
        let other = option_reply(3, b"\0\x02words").unwrap();
        assert_eq!(other, OptionReply::Detail(Detail::Other));
        refuse(option_reply(3, b"\0\0\xff\0\0\0\0\0\0\0\0\0"), "out of range");
        refuse(option_reply(3, b"\0\0\0\0\0\0\0\0\x10\0\x01"), "too short");
        refuse(option_reply(3, b"\0\0\0\0\0\0\0\0\x10\0\x01\0\0"), "too long");
    }

    #[test]
    fn block_sizes_must_fit_each_other() {
        let sizes = |min: u32, preferred: u32, payload_max: u32| {
            let bytes = [min, preferred, payload_max].map(u32::to_be_bytes).concat();
            BlockSizes::parse(&mut Fields::new(&bytes))
        };
        assert!(sizes(1, 512, u32::MAX).is_ok());
        assert!(sizes(1 << 16, 1 << 16, 1 << 16).is_ok());
        for (min, preferred, max) in [
            (0, 4096, 4096),
            (3, 4096, 4096),
            (1 << 17, 1 << 17, 1 << 20),
            (512, 256, 4096),
            (512, 0, 4096),
            (4096, 4096, 512),
        ] {
            refuse(sizes(min, preferred, max), "contradict");
        }
    }

    #[test]
    fn a_refusal_brings_the_words_of_the_server() {
        let reply = option_reply((1 << 31) | 6, b"no disk").unwrap();
        assert_eq!(reply, OptionReply::Refusal(Refusal::UnknownExport, "no disk".to_owned()));
        let long = option_reply((1 << 31) | 77, &[b'x'; 5000]).unwrap();
        assert_eq!(long, OptionReply::Refusal(Refusal::Other(77), "x".repeat(4096)));
    }

    #[test]
    fn errors_name_a_place() {
        let payload = b"\0\0\0\x05\0\x03bad\0\0\0\0\0\0\x10\0";
        let chunk = ErrorChunk::parse(ChunkKind::ErrorOffset, payload).unwrap();
        assert_eq!((chunk.fault, chunk.offset), (Fault::Io, Some(4096)));
        assert_eq!(chunk.message, "bad");
        refuse(ErrorChunk::parse(ChunkKind::Error, b"\0\0\0\0\0\0"), "no error");
        refuse(ErrorChunk::parse(ChunkKind::Error, b"\0\0\0\x05\0\x04bad"), "shorter");
        refuse(ErrorChunk::parse(ChunkKind::ErrorOffset, b"\0\0\0\x05\0\0\0\0"), "too short");
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(
            bytes in proptest::collection::vec(any::<u8>(), 20..60),
        ) {
            let start = bytes.first_chunk().unwrap();
            drop(Greeting::parse(bytes.first_chunk().unwrap()));
            drop(ReplyStart::parse(start));
            for kind in [ChunkKind::Error, ChunkKind::ErrorOffset, ChunkKind::OtherError] {
                drop(ErrorChunk::parse(kind, &bytes));
            }
            for kind in [1, 3, 4, u32::from_be_bytes(*bytes.first_chunk().unwrap())] {
                drop(option_reply(kind, &bytes));
            }
        }
    }
}
