//! Big-endian fields at fixed offsets in the bytes that a device has sent.

use format::DamageError;

/// The bytes that a device has sent, read by offset.
#[derive(Clone, Copy)]
pub struct Answer<'a> {
    bytes: &'a [u8],
    what: &'static str,
}

impl<'a> Answer<'a> {
    /// Returns a reader of `bytes`. Errors name `what` as the kind of the answer.
    pub fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { bytes, what }
    }

    pub fn damaged(&self, why: &'static str) -> DamageError {
        DamageError { what: self.what, why }
    }

    pub fn slice(&self, at: usize, count: usize) -> Result<&'a [u8], DamageError> {
        let end = at.checked_add(count).ok_or(self.damaged("a length is out of range"))?;
        self.bytes.get(at..end).ok_or(self.damaged("it ends too early"))
    }

    pub fn u8(&self, at: usize) -> Result<u8, DamageError> {
        Ok(self.slice(at, 1)?[0])
    }

    pub fn u16(&self, at: usize) -> Result<u16, DamageError> {
        Ok(u16::from_be_bytes(self.array(at)?))
    }

    pub fn u24(&self, at: usize) -> Result<u32, DamageError> {
        let [a, b, c] = self.array(at)?;
        Ok(u32::from_be_bytes([0, a, b, c]))
    }

    pub fn u32(&self, at: usize) -> Result<u32, DamageError> {
        Ok(u32::from_be_bytes(self.array(at)?))
    }

    pub fn u64(&self, at: usize) -> Result<u64, DamageError> {
        Ok(u64::from_be_bytes(self.array(at)?))
    }

    /// Returns a number of `count` bytes, at most 8.
    pub fn number(&self, at: usize, count: usize) -> Result<u64, DamageError> {
        let bytes = self.slice(at, count)?;
        if count > 8 {
            return Err(self.damaged("a number has more than 64 bits"));
        }
        Ok(bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    /// Returns the text in `count` bytes, without its padding.
    pub fn text(&self, at: usize, count: usize) -> Result<String, DamageError> {
        let bytes = self.slice(at, count)?;
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(count);
        Ok(String::from_utf8_lossy(&bytes[..end]).trim().to_owned())
    }

    /// Returns all bytes from `at` on; none if the answer ends before `at`.
    pub fn from(&self, at: usize) -> &'a [u8] {
        self.bytes.get(at..).unwrap_or(&[])
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn array<const N: usize>(&self, at: usize) -> Result<[u8; N], DamageError> {
        let mut array = [0; N];
        array.copy_from_slice(self.slice(at, N)?);
        Ok(array)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_big_endian_and_end_with_the_answer() {
        let answer = Answer::new(&[1, 2, 3, 4, 5, 6, 7, 8], "test");
        assert_eq!(answer.u16(1), Ok(0x0203));
        assert_eq!(answer.u24(5), Ok(0x06_07_08));
        assert_eq!(answer.number(0, 6), Ok(0x0102_0304_0506));
        assert!(answer.u32(5).is_err());
        assert!(answer.number(0, 9).is_err());
        assert!(answer.slice(usize::MAX, 2).is_err());
        assert_eq!(Answer::new(b"ab \0x", "test").text(0, 5), Ok("ab".to_owned()));
    }
}
