//! Log pages (SPC-4 7.3, SSC-4 8.2).

use format::DamageError;

use super::answer::Answer;

/// Numbers of log pages.
pub mod log_page {
    pub const SUPPORTED: u8 = 0x00;
    /// Page of tape alerts (SSC-4 8.2.3).
    pub const TAPE_ALERT: u8 = 0x2e;
    /// Page of the free and total capacity of the medium, in LTO drives.
    pub const TAPE_CAPACITY: u8 = 0x31;
}

/// Returns the parameters of a log page, each with its code and its value. A parameter that was cut
/// off is left out.
pub fn log_parameters(page: &[u8]) -> Result<Vec<(u16, &[u8])>, DamageError> {
    let answer = Answer::new(page, "log page");
    let end = (4 + usize::from(answer.u16(2)?)).min(answer.len());
    let mut parameters = Vec::new();
    let mut at = 4;
    while at + 4 <= end {
        let count = usize::from(answer.u8(at + 3)?);
        let Ok(value) = answer.slice(at + 4, count) else { break };
        parameters.push((answer.u16(at)?, value));
        at += 4 + count;
    }
    Ok(parameters)
}

/// Returns the numbers of the pages that page 0 lists.
pub fn supported_log_pages(page: &[u8]) -> Result<Vec<u8>, DamageError> {
    let answer = Answer::new(page, "supported log pages");
    Ok(answer.slice(4, usize::from(answer.u16(2)?))?.to_vec())
}

/// A condition that a drive reports for people, by its number in SSC-4 annex A.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TapeAlert(pub u16);

impl TapeAlert {
    pub const CLEAN_NOW: Self = Self(20);
    pub const CLEAN_PERIODIC: Self = Self(21);

    /// Names of the flags that present drives raise, from SSC-4 table A.1.
    const NAMES: [(u16, &'static str); 30] = [
        (1, "read warning"),
        (2, "write warning"),
        (3, "hard error"),
        (4, "medium"),
        (5, "read failure"),
        (6, "write failure"),
        (7, "medium life"),
        (8, "not data grade"),
        (9, "write protect"),
        (10, "medium removal prevented"),
        (11, "cleaning medium"),
        (12, "unsupported format"),
        (13, "recoverable mechanical cartridge failure"),
        (14, "unrecoverable mechanical cartridge failure"),
        (15, "memory chip in cartridge failure"),
        (16, "forced eject"),
        (17, "read only format"),
        (18, "tape directory corrupted on load"),
        (19, "nearing medium life"),
        (20, "cleaning required"),
        (21, "cleaning requested"),
        (22, "expired cleaning medium"),
        (23, "invalid cleaning tape"),
        (30, "hardware A"),
        (31, "hardware B"),
        (32, "interface"),
        (33, "eject medium"),
        (36, "drive temperature"),
        (51, "tape directory invalid at unload"),
        (55, "loading failure"),
    ];
}

impl std::fmt::Display for TapeAlert {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match Self::NAMES.iter().find(|(number, _)| *number == self.0) {
            Some((number, name)) => write!(f, "tape alert {number}: {name}"),
            None => write!(f, "tape alert {}", self.0),
        }
    }
}

/// Returns the raised alerts. The drive clears them when the page is read.
pub fn tape_alerts(page: &[u8]) -> Result<Vec<TapeAlert>, DamageError> {
    let raised = log_parameters(page)?
        .into_iter()
        .filter(|(_, value)| value.last().is_some_and(|byte| byte & 1 != 0));
    Ok(raised.map(|(code, _)| TapeAlert(code)).collect())
}

/// Free and total capacity of the loaded medium, in bytes without compression.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TapeCapacity {
    pub remaining_bytes: u64,
    pub bytes_max: u64,
}

/// Parses page 31h, whose parameters 1 and 3 are in MiB (IBM LTO reference).
pub fn tape_capacity(page: &[u8]) -> Result<TapeCapacity, DamageError> {
    const REMAINING: u16 = 1;
    const MAXIMUM: u16 = 3;
    let answer = Answer::new(page, "tape capacity page");
    let parameters = log_parameters(page)?;
    let bytes = |wanted| {
        let found = parameters.iter().find(|(code, _)| *code == wanted);
        let (_, value) = found.ok_or(answer.damaged("a parameter is missing"))?;
        let mebibytes = Answer::new(value, "tape capacity page").number(0, value.len())?;
        Ok(mebibytes.saturating_mul(1 << 20))
    };
    Ok(TapeCapacity { remaining_bytes: bytes(REMAINING)?, bytes_max: bytes(MAXIMUM)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raised_alerts_are_found() {
        let page = [0x2e, 0, 0, 15, 0, 3, 0, 1, 0, 0, 20, 0, 1, 1, 0, 21, 0, 1, 1];
        assert_eq!(tape_alerts(&page), Ok(vec![TapeAlert::CLEAN_NOW, TapeAlert::CLEAN_PERIODIC]));
        assert_eq!(TapeAlert::CLEAN_NOW.to_string(), "tape alert 20: cleaning required");
        assert_eq!(TapeAlert(64).to_string(), "tape alert 64");
        assert_eq!(tape_alerts(&page[..14]).expect("cut off").len(), 1);
    }

    #[test]
    fn capacity_is_in_mebibytes() {
        let mut page = vec![0x31, 0, 0, 16];
        page.extend([0, 1, 0, 4, 0, 0, 0, 5, 0, 3, 0, 4, 0, 0, 0x10, 0]);
        let capacity = tape_capacity(&page).expect("whole");
        assert_eq!((capacity.remaining_bytes, capacity.bytes_max), (5 << 20, 4096 << 20));
        assert!(tape_capacity(&page[..12]).is_err());
    }

    #[test]
    fn pages_are_listed() {
        assert_eq!(supported_log_pages(&[0, 0, 0, 3, 0, 0x2e, 0x31]), Ok(vec![0, 0x2e, 0x31]));
        assert!(supported_log_pages(&[0, 0, 0, 9, 0]).is_err());
    }
}
