//! Codec of all calls: protobuf, after the fields of a message have been counted.
//!
//! The sender of a message chooses how much memory the message takes. An empty message within a
//! message takes two bytes on the wire and some hundred bytes in memory, so that 32 MiB would
//! become gigabytes. So a message is refused before it is decoded if it has more than
//! [`MESSAGES_MAX`] messages or [`FIELDS_MAX`] fields in it, at all levels together, or more than
//! [`PACKED_BYTES_MAX`] bytes of packed numbers. The look costs a few steps for each field, and
//! skips texts and bytes.
//!
//! Fields of bytes are parts of the buffer in which their message has arrived. A message of which
//! little is known would keep a large buffer for a few bytes, so such a message is copied: what it
//! keeps is at most twice what its fields take.
//!
//! The outlines of the messages are generated from the proto file: they say which fields are
//! messages, and which are packed numbers.

use std::marker::PhantomData;

use bytes::{Buf as _, Bytes};
use prost::encoding::decode_varint;
use prost::{DecodeError, Message};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

use crate::proto;

/// Maximum number of messages in a message.
pub const MESSAGES_MAX: usize = 1 << 19;

/// Maximum number of fields of a message and of all messages in it. A backup names each object that
/// is gone in a field, so there may be more of them than messages. They take less memory.
pub const FIELDS_MAX: usize = 1 << 23;

/// Maximum number of bytes of packed numbers in a message.
pub const PACKED_BYTES_MAX: usize = 16 << 20;

/// Minimum number of bytes of a message whose buffer is worth a copy.
const SPARSE_BYTES_MIN: usize = 64 << 10;

/// Part of a message that takes more memory than bytes on the wire.
enum Part {
    Message(&'static Outline),
    Packed,
}

/// Parts of a message, each with the number of its field.
struct Outline(&'static [(u32, Part)]);

/// Message with an outline. All messages of the protocol have one.
trait ProtocolMessage {
    fn outline() -> &'static Outline;
}

include!(concat!(env!("OUT_DIR"), "/outlines.rs"));

/// Reason why a message is not decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
enum Excess {
    #[error("a message has more than {} messages in it", MESSAGES_MAX)]
    Messages,
    #[error("a message has more than {} fields", FIELDS_MAX)]
    Fields,
    #[error("a message has more than {} bytes of packed numbers", PACKED_BYTES_MAX)]
    Packed,
    #[error("a message is malformed")]
    Malformed,
}

/// Room that a message has left.
struct Room {
    messages: usize,
    fields: usize,
    packed_bytes: usize,
}

impl Room {
    fn new() -> Self {
        Self { messages: MESSAGES_MAX, fields: FIELDS_MAX, packed_bytes: PACKED_BYTES_MAX }
    }

    /// Counts the fields of the message `bytes`.
    fn count(&mut self, mut bytes: &[u8], outline: &Outline) -> Result<(), Excess> {
        while !bytes.is_empty() {
            self.fields = self.fields.checked_sub(1).ok_or(Excess::Fields)?;
            let key = varint(&mut bytes)?;
            match key & 7 {
                0 => _ = varint(&mut bytes)?,
                1 => _ = take(&mut bytes, 8)?,
                2 => {
                    let length = varint(&mut bytes)?;
                    let body = take(&mut bytes, length)?;
                    let part = outline.0.iter().find(|(number, _)| u64::from(*number) == key >> 3);
                    match part {
                        Some((_, Part::Message(outline))) => {
                            let left = self.messages.checked_sub(1);
                            self.messages = left.ok_or(Excess::Messages)?;
                            self.count(body, outline)?;
                        }
                        Some((_, Part::Packed)) => {
                            let left = self.packed_bytes.checked_sub(body.len());
                            self.packed_bytes = left.ok_or(Excess::Packed)?;
                        }
                        None => {}
                    }
                }
                5 => _ = take(&mut bytes, 4)?,
                // The protocol has no groups.
                _ => return Err(Excess::Malformed),
            }
        }
        Ok(())
    }
}

fn varint(bytes: &mut &[u8]) -> Result<u64, Excess> {
    decode_varint(bytes).map_err(|_| Excess::Malformed)
}

fn take<'a>(bytes: &mut &'a [u8], count: u64) -> Result<&'a [u8], Excess> {
    let count = usize::try_from(count).map_err(|_| Excess::Malformed)?;
    let (taken, rest) = bytes.split_at_checked(count).ok_or(Excess::Malformed)?;
    *bytes = rest;
    Ok(taken)
}

/// Codec that counts the fields of a message before it decodes the message.
pub(crate) struct CountingCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for CountingCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for CountingCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + ProtocolMessage + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = CountingDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::default().encoder()
    }

    fn decoder(&mut self) -> Self::Decoder {
        CountingDecoder(ProstCodec::<T, U>::default().decoder())
    }
}

/// Decoder of the messages `U`.
pub(crate) struct CountingDecoder<U>(ProstDecoder<U>);

impl<U: Message + ProtocolMessage + Default> Decoder for CountingDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        let bytes = buffer.chunk();
        let length = bytes.len();
        assert_eq!(length, buffer.remaining(), "a message is in one piece");
        Room::new()
            .count(bytes, U::outline())
            .map_err(|excess| Status::internal(excess.to_string()))?;
        let message = self.0.decode(buffer)?.map(|message| compacted(message, length));
        message.transpose().map_err(|error| Status::internal(error.to_string()))
    }
}

/// Returns a message that had `length` bytes on the wire. Copies its fields if they take less than
/// half of that, so that the buffer of the message is given back.
fn compacted<U: Message + Default>(message: U, length: usize) -> Result<U, DecodeError> {
    if length < SPARSE_BYTES_MIN || message.encoded_len() >= length / 2 {
        return Ok(message);
    }
    U::decode(Bytes::from(message.encode_to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count<M: Message + ProtocolMessage>(message: &M) -> Result<(), Excess> {
        Room::new().count(&message.encode_to_vec(), M::outline())
    }

    fn versions(directories: usize) -> proto::VersionsReply {
        let directories = vec![proto::DirectoryVersions::default(); directories];
        proto::VersionsReply { directories }
    }

    #[test]
    fn messages_are_counted_at_all_levels() {
        assert_eq!(count(&versions(MESSAGES_MAX)), Ok(()));
        assert_eq!(count(&versions(MESSAGES_MAX + 1)), Err(Excess::Messages));
        let entries = proto::restore_reply::Message::Entries(versions(MESSAGES_MAX));
        let reply = proto::RestoreReply { message: Some(entries) };
        assert_eq!(count(&reply), Err(Excess::Messages), "one message holds the others");
    }

    #[test]
    fn fields_are_counted_at_all_levels() {
        let change = |fields| proto::PageChange {
            expired: vec![Bytes::new(); fields],
            ..Default::default()
        };
        assert_eq!(count(&change(FIELDS_MAX)), Ok(()));
        assert_eq!(count(&change(FIELDS_MAX + 1)), Err(Excess::Fields));
        // The change is a field too.
        let changes = proto::Changes { changes: vec![change(FIELDS_MAX)] };
        assert_eq!(count(&changes), Err(Excess::Fields));
    }

    #[test]
    fn packed_numbers_are_counted_by_their_bytes() {
        let reply = |numbers| proto::CountSubtreesReply { objects: vec![1; numbers] };
        assert_eq!(count(&reply(PACKED_BYTES_MAX)), Ok(()));
        assert_eq!(count(&reply(PACKED_BYTES_MAX + 1)), Err(Excess::Packed));
    }

    #[test]
    fn texts_and_bytes_may_look_like_anything() {
        let page = Bytes::from(vec![0x0a; 1 << 20]);
        let pages = proto::PagesReply { page, ..Default::default() };
        assert_eq!(count(&pages), Ok(()));
    }

    /// A field that nobody knows kept 32 MiB in memory beside one byte of a page.
    #[test]
    fn a_message_of_which_little_is_known_keeps_no_large_buffer() {
        let kept = |unknown: usize, known: usize| {
            let page = Bytes::from(vec![7; known]);
            let first = Bytes::from_static(b"a");
            let reply = proto::PagesReply { page: page.clone(), first, ..Default::default() };
            let mut wire = reply.encode_to_vec();
            // Field 1000 is in no message.
            prost::encoding::bytes::encode(1000, &vec![0_u8; unknown], &mut wire);
            let wire = Bytes::from(wire);
            let message = proto::PagesReply::decode(wire.clone()).expect("decoded");
            let message = compacted(message, wire.len()).expect("decoded again");
            assert_eq!((&message.page, &message.first[..]), (&page, &b"a"[..]));
            !wire.is_unique()
        };
        assert!(!kept(1 << 20, 1), "the buffer is given back");
        assert!(kept(1 << 20, 2 << 20), "most of the buffer is needed");
        assert!(kept(1 << 10, 1), "a small message is not copied");
    }

    #[test]
    fn a_malformed_message_is_refused() {
        for bytes in [&[0x0a, 5, 0][..], &[0x0b], &[0x0d, 1], &[0x80], &[0x0a, 0xff, 0xff, 0xff]] {
            let counted = Room::new().count(bytes, proto::VersionsReply::outline());
            assert_eq!(counted, Err(Excess::Malformed), "{bytes:?}");
        }
    }
}
