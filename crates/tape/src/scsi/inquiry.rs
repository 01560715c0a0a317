//! The identity of a device: INQUIRY and two pages of vital product data (SPC-4 6.6, 7.8).

use format::DamageError;

use super::answer::Answer;

/// Kind of a device (SPC-4 table 141). A library consists of the first two kinds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceKind {
    Tape,
    Changer,
    Other(u8),
}

/// Standard INQUIRY data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inquiry {
    pub kind: DeviceKind,
    pub vendor: String,
    pub product: String,
    pub revision: String,
}

impl Inquiry {
    pub fn parse(bytes: &[u8]) -> Result<Self, DamageError> {
        const NO_DEVICE: u8 = 0x60;
        let answer = Answer::new(bytes, "inquiry");
        let peripheral = answer.u8(0)?;
        if peripheral & 0xe0 == NO_DEVICE {
            return Err(answer.damaged("the logical unit does not exist"));
        }
        let kind = match peripheral & 0x1f {
            0x01 => DeviceKind::Tape,
            0x08 => DeviceKind::Changer,
            other => DeviceKind::Other(other),
        };
        Ok(Self {
            kind,
            vendor: answer.text(8, 8)?,
            product: answer.text(16, 16)?,
            revision: answer.text(32, 4)?,
        })
    }
}

/// Returns the serial number in page 80h.
pub fn serial_number(page: &[u8]) -> Result<String, DamageError> {
    let answer = Answer::new(page, "serial number page");
    answer.text(4, usize::from(answer.u16(2)?))
}

/// One name of a device or port, from page 83h (SPC-4 7.8.6).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Designator {
    /// Owner of the name: 0 for the logical unit, 1 for the port, 2 for the device.
    pub association: u8,
    /// Kind of the name: 1 for vendor and serial number, 2 for EUI-64, 3 for NAA, and others.
    pub kind: u8,
    pub bytes: Vec<u8>,
}

impl Designator {
    /// Returns the name as a text without padding, the form in which a changer names its drives.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).trim_matches(['\0', ' ']).to_owned()
    }
}

/// Returns the designators in page 83h.
pub fn designators(page: &[u8]) -> Result<Vec<Designator>, DamageError> {
    let answer = Answer::new(page, "identification page");
    let end = 4 + usize::from(answer.u16(2)?);
    let mut found = Vec::new();
    let mut at = 4;
    while at < end {
        let kind = answer.u8(at + 1)?;
        let count = usize::from(answer.u8(at + 3)?);
        let bytes = answer.slice(at + 4, count)?.to_vec();
        found.push(Designator { association: kind >> 4 & 3, kind: kind & 0x0f, bytes });
        at += 4 + count;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_says_what_it_is() {
        let mut bytes = vec![0x01, 0x80, 6, 2, 91, 0, 0, 2];
        bytes.extend(b"IBM     ULT3580-TD8     0001");
        let inquiry = Inquiry::parse(&bytes).expect("whole");
        assert_eq!(inquiry.kind, DeviceKind::Tape);
        assert_eq!((inquiry.vendor.as_str(), inquiry.product.as_str()), ("IBM", "ULT3580-TD8"));
        assert!(Inquiry::parse(&bytes[..30]).is_err());
        bytes[0] = 0x7f;
        assert!(Inquiry::parse(&bytes).is_err());
    }

    #[test]
    fn pages_name_the_device() {
        assert_eq!(serial_number(b"\x01\x80\0\x08DRV00001"), Ok("DRV00001".to_owned()));
        let page = b"\x01\x83\0\x0e\x02\x01\0\x02AB\x01\x03\0\x04\x50\x01\x02\x03";
        let found = designators(page).expect("whole");
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].text(), "AB");
        assert_eq!((found[1].kind, found[1].bytes.len()), (3, 4));
        assert!(designators(&page[..16]).is_err());
    }
}
