//! Densities of a drive or of the loaded medium (SSC-4 7.8).

use format::DamageError;

use super::answer::Answer;

/// One recording density.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Density {
    pub code: u8,
    pub is_writable: bool,
    /// Capacity in bytes; the drive reports it in units of 10^6 bytes.
    pub capacity_bytes: u64,
    pub tracks: u16,
    /// Name given by the organisation that assigns density codes, such as `U-816`.
    pub name: String,
}

impl Density {
    /// Returns the densities in the answer to REPORT DENSITY SUPPORT. A density that was cut off is
    /// left out.
    pub fn parse_all(bytes: &[u8]) -> Result<Vec<Self>, DamageError> {
        const DESCRIPTOR_BYTES: usize = 52;
        let answer = Answer::new(bytes, "densities");
        let end = (2 + usize::from(answer.u16(0)?)).min(answer.len());
        let starts = (4..end).step_by(DESCRIPTOR_BYTES);
        starts
            .take_while(|at| at + DESCRIPTOR_BYTES <= end)
            .map(|at| {
                Ok(Self {
                    code: answer.u8(at)?,
                    is_writable: answer.u8(at + 2)? & 0x80 != 0,
                    tracks: answer.u16(at + 10)?,
                    capacity_bytes: u64::from(answer.u32(at + 12)?) * 1_000_000,
                    name: answer.text(at + 24, 8)?,
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_density_names_its_capacity() {
        let mut bytes = vec![0, 54, 0, 0, 0x5e, 0x5e, 0xa0, 0, 47, 0, 0x50, 0xa2, 0, 127];
        bytes.extend(6656_u16.to_be_bytes());
        bytes.extend(12_000_000_u32.to_be_bytes());
        bytes.extend(b"LTO-CVE U-816   Ultrium 8/32T       ");
        let found = Density::parse_all(&bytes).expect("whole");
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].code, found[0].is_writable), (0x5e, true));
        assert_eq!(found[0].capacity_bytes, 12_000_000_000_000);
        assert_eq!((found[0].tracks, found[0].name.as_str()), (6656, "U-816"));
        assert_eq!(Density::parse_all(&bytes[..50]), Ok(vec![]));
    }
}
