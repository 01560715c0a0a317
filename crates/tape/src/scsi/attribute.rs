//! Attributes in the memory of a cartridge, MAM (SPC-4 7.4).

use format::DamageError;

use super::answer::Answer;

/// Identifiers of attributes.
pub mod attribute_id {
    /// Remaining capacity, in MiB.
    pub const REMAINING_CAPACITY: u16 = 0x0000;
    /// Capacity of the whole medium, in MiB.
    pub const MAXIMUM_CAPACITY: u16 = 0x0001;
    pub const LOAD_COUNT: u16 = 0x0003;
    pub const MEDIUM_MANUFACTURER: u16 = 0x0400;
    /// Vendor of the application, a text of 8 bytes. The manufacturer and the version of the
    /// application are texts of 8 bytes, too.
    pub const APPLICATION_VENDOR: u16 = 0x0800;
    /// Name of the application, a text of 32 bytes.
    pub const APPLICATION_NAME: u16 = 0x0801;
    /// Barcode of the cartridge, a text of 32 bytes.
    pub const BARCODE: u16 = 0x0806;
}

/// One attribute of a cartridge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attribute {
    pub id: u16,
    pub value: Vec<u8>,
}

/// Code of the text format of an attribute's value (SPC-4 table 363).
const ASCII: u8 = 1;

impl Attribute {
    /// Returns an attribute with a text of exactly `width` bytes, padded with spaces.
    pub fn text(id: u16, text: &str, width: usize) -> Self {
        let mut value: Vec<u8> = text.bytes().take(width).collect();
        value.resize(width, b' ');
        Self { id, value }
    }

    /// Returns the value as a number; `None` if it has more than 8 bytes.
    pub fn number(&self) -> Option<u64> {
        Answer::new(&self.value, "attribute").number(0, self.value.len()).ok()
    }

    /// Returns the attributes in an answer to READ ATTRIBUTE. An attribute that was cut off is left
    /// out.
    pub fn parse_all(bytes: &[u8]) -> Result<Vec<Self>, DamageError> {
        let answer = Answer::new(bytes, "attributes");
        let length = usize::try_from(answer.u32(0)?).unwrap_or(usize::MAX);
        let end = length.saturating_add(4).min(answer.len());
        let mut attributes = Vec::new();
        let mut at = 4;
        while at + 5 <= end {
            let count = usize::from(answer.u16(at + 3)?);
            let Ok(value) = answer.slice(at + 5, count) else { break };
            attributes.push(Self { id: answer.u16(at)?, value: value.to_vec() });
            at += 5 + count;
        }
        Ok(attributes)
    }

    /// Encodes texts as the parameters of WRITE ATTRIBUTE.
    pub fn encode_texts(attributes: &[Self]) -> Vec<u8> {
        let mut body = Vec::new();
        for attribute in attributes {
            let count = u16::try_from(attribute.value.len()).expect("attributes are short");
            body.extend(attribute.id.to_be_bytes());
            body.push(ASCII);
            body.extend(count.to_be_bytes());
            body.extend(&attribute.value);
        }
        let count = u32::try_from(body.len()).expect("attributes are few");
        [&count.to_be_bytes()[..], &body].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_survive() {
        let sent = [
            Attribute::text(attribute_id::BARCODE, "A00001L8", 32),
            Attribute::text(attribute_id::APPLICATION_VENDOR, "HOLDFAST AND MORE", 8),
        ];
        let bytes = Attribute::encode_texts(&sent);
        assert_eq!(bytes[..9], [0, 0, 0, 50, 0x08, 0x06, 1, 0, 32]);
        assert_eq!(Attribute::parse_all(&bytes), Ok(sent.to_vec()));
        assert_eq!(Attribute::parse_all(&bytes[..45]).expect("cut off").len(), 1);
        assert!(Attribute::parse_all(&bytes[..3]).is_err());
    }

    #[test]
    fn numbers_have_the_width_that_they_have() {
        let load_count = Attribute { id: attribute_id::LOAD_COUNT, value: vec![0, 0, 1, 2] };
        assert_eq!(load_count.number(), Some(258));
        assert_eq!(Attribute { value: vec![0; 9], ..load_count }.number(), None);
    }
}
