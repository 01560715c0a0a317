//! The site of a library: a changer and its drives, or a folder of files that stand for tapes.

use std::path::PathBuf;

use crate::address::{Address, AddressError};

/// The devices of a library, or the folder in its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Site {
    Folder {
        path: PathBuf,
        /// Capacity of each volume; `None` if only the file system limits it.
        capacity_bytes: Option<u64>,
    },
    Devices {
        changer: Address,
        /// Addresses of the drives; at least one.
        drives: Vec<Address>,
    },
}

/// Reason why a list of addresses does not describe a library.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SiteError {
    #[error("{text}")]
    Address { text: String, source: AddressError },
    #[error("{0} names no drive: give CHANGER,DRIVE[,DRIVE...]")]
    NoDrive(String),
}

impl Site {
    /// Parses the addresses of a changer and its drives, with commas between them.
    pub fn of_addresses(text: &str) -> Result<Self, SiteError> {
        let parse = |part: &str| {
            part.parse::<Address>()
                .map_err(|source| SiteError::Address { text: part.to_owned(), source })
        };
        let addresses = text.split(',').map(parse).collect::<Result<Vec<_>, _>>()?;
        match addresses.split_first() {
            Some((changer, drives)) if !drives.is_empty() => {
                Ok(Self::Devices { changer: changer.clone(), drives: drives.to_vec() })
            }
            _ => Err(SiteError::NoDrive(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_of_devices_has_a_changer_and_drives() {
        let site = Site::of_addresses("/dev/sg5,/dev/sg3,iscsi://h/t/1").expect("a library");
        let Site::Devices { changer, drives } = site else { panic!("these are devices") };
        assert_eq!((changer.to_string().as_str(), drives.len()), ("/dev/sg5", 2));
        let none = Site::of_addresses("/dev/sg5");
        assert_eq!(none, Err(SiteError::NoDrive("/dev/sg5".to_owned())));
        let bad = Site::of_addresses("iscsi://h/t,/dev/sg1");
        assert!(matches!(bad, Err(SiteError::Address { text, .. }) if text == "iscsi://h/t"));
    }
}
