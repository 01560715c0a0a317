//! Mode parameters and block limits (SPC-4 7.5, SSC-4 8.3, SMC-3 7.3).

use format::DamageError;

use super::answer::Answer;

/// Header and block descriptor in the answer to MODE SENSE(6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModeHeader {
    pub write_protected: bool,
    pub density: u8,
    /// Length of a block; 0 for blocks of variable length.
    pub block_bytes: u32,
    /// Offset of the first page.
    pages_at: usize,
}

impl ModeHeader {
    pub fn parse(bytes: &[u8]) -> Result<Self, DamageError> {
        let answer = Answer::new(bytes, "mode parameters");
        let write_protected = answer.u8(2)? & 0x80 != 0;
        let descriptors = usize::from(answer.u8(3)?);
        let has_descriptor = descriptors >= 8;
        Ok(Self {
            write_protected,
            density: if has_descriptor { answer.u8(4)? } else { 0 },
            block_bytes: if has_descriptor { answer.u24(9)? } else { 0 },
            pages_at: 4 + descriptors,
        })
    }
}

/// Returns the bytes of `page` in mode parameters, including its header of two bytes.
fn mode_page<'a>(answer: &Answer<'a>, page: u8) -> Result<&'a [u8], DamageError> {
    let header = ModeHeader::parse(answer.from(0))?;
    let at = header.pages_at;
    if answer.u8(at)? & 0x3f != page {
        return Err(answer.damaged("it has another page than requested"));
    }
    answer.slice(at, 2 + usize::from(answer.u8(at + 1)?))
}

/// Returns the parameters of MODE SELECT(6) for buffered writes, blocks of variable length, and an
/// unchanged density.
pub fn mode_select_variable(density: u8) -> [u8; 12] {
    const BUFFERED: u8 = 0x10;
    const DESCRIPTOR_BYTES: u8 = 8;
    [0, 0, BUFFERED, DESCRIPTOR_BYTES, density, 0, 0, 0, 0, 0, 0, 0]
}

/// Returns the data compression page (0Fh) of `sensed` with compression off, as parameters of MODE
/// SELECT(6); `None` if compression is off already or the drive cannot compress.
///
/// Quanta are compressed already: compression by the drive only makes sizes hard to predict.
pub fn without_compression(sensed: &[u8]) -> Result<Option<Vec<u8>>, DamageError> {
    const PAGE: u8 = 0x0f;
    const ENABLED: u8 = 0x80;
    const CAPABLE: u8 = 0x40;
    let answer = Answer::new(sensed, "data compression page");
    let density = ModeHeader::parse(sensed)?.density;
    let mut page = mode_page(&answer, PAGE)?.to_vec();
    let flags = page.get_mut(2).ok_or(answer.damaged("it ends too early"))?;
    if *flags & (ENABLED | CAPABLE) != ENABLED | CAPABLE {
        return Ok(None);
    }
    *flags &= !ENABLED;
    page[0] &= 0x3f;
    Ok(Some([&mode_select_variable(density)[..], &page].concat()))
}

/// Limits of the length of a block, from READ BLOCK LIMITS (SSC-4 7.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockLimits {
    pub bytes_min: u32,
    pub bytes_max: u32,
}

impl BlockLimits {
    pub fn parse(bytes: &[u8]) -> Result<Self, DamageError> {
        let answer = Answer::new(bytes, "block limits");
        let limits = Self { bytes_max: answer.u24(1)?, bytes_min: u32::from(answer.u16(4)?) };
        // 0 means that only the field in a command limits the length.
        let bytes_max = if limits.bytes_max == 0 { 0x00ff_ffff } else { limits.bytes_max };
        Ok(Self { bytes_max, ..limits })
    }
}

/// A run of elements of one kind, with consecutive addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    pub first: u16,
    pub count: u16,
}

/// Addresses of the elements of a changer, from page 1Dh (SMC-3 7.3.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ElementAddresses {
    pub changers: Run,
    pub slots: Run,
    pub import_export: Run,
    pub drives: Run,
}

impl ElementAddresses {
    pub fn parse(sensed: &[u8]) -> Result<Self, DamageError> {
        const PAGE: u8 = 0x1d;
        let answer = Answer::new(sensed, "element address page");
        let page = Answer::new(mode_page(&answer, PAGE)?, "element address page");
        let run = |at| Ok(Run { first: page.u16(at)?, count: page.u16(at + 2)? });
        Ok(Self { changers: run(2)?, slots: run(6)?, import_export: run(10)?, drives: run(14)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_protection_and_block_length() {
        let bytes = [11, 0, 0x90, 8, 0x5e, 0, 0, 0, 0, 8, 0, 0];
        let header = ModeHeader::parse(&bytes).expect("whole");
        assert!(header.write_protected);
        assert_eq!((header.density, header.block_bytes), (0x5e, 524_288));
        assert!(ModeHeader::parse(&bytes[..9]).is_err());
        let bare = ModeHeader::parse(&[3, 0, 0x10, 0]).expect("without a descriptor");
        assert_eq!((bare.write_protected, bare.block_bytes), (false, 0));
    }

    #[test]
    fn compression_is_turned_off_where_it_is_on() {
        let mut sensed = vec![27, 0, 0x10, 8, 0x5e, 0, 0, 0, 0, 0, 0, 0];
        sensed.extend([0x8f, 14, 0xc0, 0x80, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0]);
        let select = without_compression(&sensed).expect("whole").expect("compression was on");
        assert_eq!(select[..4], [0, 0, 0x10, 8]);
        assert_eq!(select[12..16], [0x0f, 14, 0x40, 0x80]);
        assert_eq!(select.len(), 28);
        sensed[14] = 0x40;
        assert_eq!(without_compression(&sensed), Ok(None));
        assert!(without_compression(&sensed[..20]).is_err());
    }

    #[test]
    fn limits_and_addresses() {
        let limits = BlockLimits::parse(&[0, 0x80, 0, 0, 0, 1]).expect("whole");
        assert_eq!((limits.bytes_min, limits.bytes_max), (1, 8 << 20));
        let mut page = vec![23, 0, 0, 0, 0x1d, 18, 0, 1, 0, 1, 3, 0xe8, 0, 10];
        page.extend([2, 0xbc, 0, 2, 1, 0xf4, 0, 2, 0, 0]);
        let addresses = ElementAddresses::parse(&page).expect("whole");
        assert_eq!(addresses.slots, Run { first: 1000, count: 10 });
        assert_eq!(addresses.drives, Run { first: 500, count: 2 });
        assert!(ElementAddresses::parse(&page[..18]).is_err());
    }
}
