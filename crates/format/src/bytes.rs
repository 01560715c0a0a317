//! Little-endian integers, LEB128 varints and length-prefixed byte strings.

use crate::Damaged;

/// Maximum number of bytes in a varint of 64 bits.
const VARINT_BYTES_MAX: usize = 10;
const ENDS_EARLY: &str = "it ends too early";
/// Reason of damage for reserved bits or bytes that are not zero: a later version may have set
/// them.
pub(crate) const RESERVED: &str = "a reserved field is not zero";

/// Appends primitive values to a buffer.
#[derive(Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub fn raw(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
    }

    /// LEB128: 7 bits a byte, least significant first.
    pub fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(low_byte(value) | 0x80);
            value >>= 7;
        }
        self.bytes.push(low_byte(value));
    }

    pub fn signed(&mut self, value: i64) {
        self.varint(zigzag(value));
    }

    /// A varint length, then the bytes.
    pub fn string(&mut self, value: &[u8]) {
        self.varint(value.len() as u64);
        self.raw(value);
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

fn low_byte(value: u64) -> u8 {
    value.to_le_bytes()[0]
}

/// Maps small magnitudes of either sign to small unsigned numbers.
pub fn zigzag(value: i64) -> u64 {
    (value.cast_unsigned() << 1) ^ (value >> 63).cast_unsigned()
}

/// The inverse of [`zigzag`].
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

/// Takes primitive values off a slice. Every method fails, rather than panics, at the end.
pub struct Reader<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// Reads `bytes`, which should be of the kind `what`.
    pub fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { rest: bytes, what }
    }

    /// The error for an impossible value.
    pub fn damaged(&self, why: &'static str) -> Damaged {
        Damaged { what: self.what, why }
    }

    pub fn raw(&mut self, count: usize) -> Result<&'a [u8], Damaged> {
        let (taken, rest) =
            self.rest.split_at_checked(count).ok_or_else(|| self.damaged(ENDS_EARLY))?;
        self.rest = rest;
        Ok(taken)
    }

    pub fn u8(&mut self) -> Result<u8, Damaged> {
        Ok(self.raw(1)?[0])
    }

    pub fn u32(&mut self) -> Result<u32, Damaged> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64, Damaged> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Takes `N` reserved bytes, which are zero in this version.
    pub fn zeros<const N: usize>(&mut self) -> Result<(), Damaged> {
        if self.array::<N>()? == [0; N] { Ok(()) } else { Err(self.damaged(RESERVED)) }
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Damaged> {
        let mut array = [0; N];
        array.copy_from_slice(self.raw(N)?);
        Ok(array)
    }

    #[inline]
    pub fn varint(&mut self) -> Result<u64, Damaged> {
        match self.rest {
            [byte @ ..0x80, rest @ ..] => {
                self.rest = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, Damaged> {
        let mut value = 0_u64;
        for (at, &byte) in self.rest.iter().take(VARINT_BYTES_MAX).enumerate() {
            let bits = u64::from(byte & 0x7f);
            if at == VARINT_BYTES_MAX - 1 && bits > 1 {
                break;
            }
            value |= bits << (7 * at);
            if byte < 0x80 {
                self.rest = &self.rest[at + 1..];
                return Ok(value);
            }
        }
        let is_cut = self.rest.len() < VARINT_BYTES_MAX;
        Err(self.damaged(if is_cut { ENDS_EARLY } else { "a number has more than 64 bits" }))
    }

    /// A varint that must fit a `T`.
    pub fn number<T: TryFrom<u64>>(&mut self) -> Result<T, Damaged> {
        T::try_from(self.varint()?).map_err(|_| self.damaged("a number is out of range"))
    }

    /// A varint count of items. Each item takes at least one more byte, which bounds allocations.
    pub fn count(&mut self) -> Result<usize, Damaged> {
        let count = self.number::<usize>()?;
        if count > self.rest.len() {
            return Err(self.damaged("a count is larger than the rest"));
        }
        Ok(count)
    }

    pub fn signed(&mut self) -> Result<i64, Damaged> {
        Ok(unzigzag(self.varint()?))
    }

    pub fn string(&mut self) -> Result<&'a [u8], Damaged> {
        let count = self.number::<usize>()?;
        self.raw(count)
    }

    /// Succeeds only if no bytes are left.
    pub fn end(&self) -> Result<(), Damaged> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.damaged("bytes are left over")) }
    }

    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut writer = Writer::new();
            writer.varint(value);
            writer.signed(value.cast_signed());
            let bytes = writer.finish();
            let mut reader = Reader::new(&bytes, "test");
            assert_eq!(reader.varint(), Ok(value));
            assert_eq!(reader.signed(), Ok(value.cast_signed()));
            assert_eq!(reader.end(), Ok(()));
        }
    }

    #[test]
    fn overlong_and_torn_numbers_are_damage() {
        assert!(Reader::new(&[0xff; 11], "test").varint().is_err());
        assert!(Reader::new(&[0x80], "test").varint().is_err());
        let too_big = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert!(Reader::new(&too_big, "test").varint().is_err());
    }

    #[test]
    fn counts_are_bounded_by_what_is_there() {
        let mut writer = Writer::new();
        writer.varint(1 << 40);
        assert!(Reader::new(&writer.finish(), "test").count().is_err());
    }
}
