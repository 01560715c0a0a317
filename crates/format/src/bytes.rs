//! Little-endian integers, LEB128 varints and length-prefixed byte strings.

use crate::DamageError;

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

    /// Appends `value` as LEB128: 7 bits in each byte, least significant first.
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

    /// Appends the length as a varint, then the bytes.
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

/// Inverse of [`zigzag`].
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

/// Reads primitive values from a slice. At the end of the slice every method returns an error; none
/// panics.
pub struct Reader<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// Makes a reader of `bytes`. Its errors name `what` as the expected format.
    pub fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { rest: bytes, what }
    }

    /// Returns the error for an impossible value.
    pub fn damaged(&self, why: &'static str) -> DamageError {
        DamageError { what: self.what, why }
    }

    pub fn raw(&mut self, count: usize) -> Result<&'a [u8], DamageError> {
        let (taken, rest) =
            self.rest.split_at_checked(count).ok_or_else(|| self.damaged(ENDS_EARLY))?;
        self.rest = rest;
        Ok(taken)
    }

    pub fn u8(&mut self) -> Result<u8, DamageError> {
        Ok(self.raw(1)?[0])
    }

    pub fn u32(&mut self) -> Result<u32, DamageError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64, DamageError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Reads `N` reserved bytes, which are zero in this version.
    pub fn zeros<const N: usize>(&mut self) -> Result<(), DamageError> {
        if self.array::<N>()? == [0; N] { Ok(()) } else { Err(self.damaged(RESERVED)) }
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DamageError> {
        let mut array = [0; N];
        array.copy_from_slice(self.raw(N)?);
        Ok(array)
    }

    #[inline]
    pub fn varint(&mut self) -> Result<u64, DamageError> {
        match self.rest {
            [byte @ ..0x80, rest @ ..] => {
                self.rest = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, DamageError> {
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

    /// Reads a varint that must fit a `T`.
    pub fn number<T: TryFrom<u64>>(&mut self) -> Result<T, DamageError> {
        T::try_from(self.varint()?).map_err(|_| self.damaged("a number is out of range"))
    }

    /// Reads a varint count of items. Each item takes at least one byte, so the count is at most
    /// the number of bytes left. This bounds allocations.
    pub fn count(&mut self) -> Result<usize, DamageError> {
        let count = self.number::<usize>()?;
        if count > self.rest.len() {
            return Err(self.damaged("a count is larger than the number of bytes left"));
        }
        Ok(count)
    }

    pub fn signed(&mut self) -> Result<i64, DamageError> {
        Ok(unzigzag(self.varint()?))
    }

    pub fn string(&mut self) -> Result<&'a [u8], DamageError> {
        let count = self.number::<usize>()?;
        self.raw(count)
    }

    /// Succeeds only if no bytes are left.
    pub fn end(&self) -> Result<(), DamageError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(self.damaged("there are bytes after its end"))
        }
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
