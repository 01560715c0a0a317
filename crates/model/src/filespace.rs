//! Names of filespaces.
//!
//! The backups of a mount point are in a filespace whose name is the mount point. The part of an
//! archive that comes from one mount point is a filespace of its own. Its name is a NUL, the
//! archive's number, another NUL, and the mount point; no mount point has a NUL. The files migrated
//! from a mount point are in a filespace whose name has the word `space` instead of the number. The
//! images of a device are in a filespace whose name is `image:` and the name of the image; no mount
//! point begins like that.

use std::ops::Range;

/// Maximum length of a filespace's name, in bytes. A mount point of Linux is not longer.
pub const FILESPACE_BYTES_MAX: usize = 4096;

/// The name of the filespace for the part of the archive `number` that comes from `mount_point`.
pub fn archive_filespace(number: u64, mount_point: &[u8]) -> Vec<u8> {
    let mut name = format!("\0{number}\0").into_bytes();
    name.extend_from_slice(mount_point);
    name
}

/// The names of all filespaces of the archive `number`, as a range in the order of bytes.
pub fn archive_filespaces(number: u64) -> Range<Vec<u8>> {
    format!("\0{number}\0").into_bytes()..format!("\0{number}\x01").into_bytes()
}

/// The number of the archive that the filespace belongs to; `None` if it belongs to no archive. The
/// number must be written as [`archive_filespace`] writes it, so that no archive has two names for
/// the part of a mount point.
pub fn archive_number(filespace: &[u8]) -> Option<u64> {
    let rest = filespace.strip_prefix(b"\0")?;
    let end = rest.iter().position(|&byte| byte == 0)?;
    let number: u64 = str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == &rest[..end]).then_some(number)
}

const SPACE_PREFIX: &[u8] = b"\0space\0";

/// The name of the filespace for the files migrated from `mount_point`.
pub fn space_filespace(mount_point: &[u8]) -> Vec<u8> {
    [SPACE_PREFIX, mount_point].concat()
}

/// Lower limit of the names of filespaces for backups. The names of all other filespaces begin with
/// a NUL.
pub const BACKUP_FILESPACE_MIN: &[u8] = b"\x01";

/// Returns true if the filespace holds files migrated from a mount point.
pub fn is_space_filespace(filespace: &[u8]) -> bool {
    filespace.starts_with(SPACE_PREFIX)
}

const IMAGE_PREFIX: &[u8] = b"image:";

/// Name of the head of an image, in the root of its filespace. The image's parts are the versions
/// that were active when its head was inserted.
pub const IMAGE_HEAD: &[u8] = b"image";

/// The name of the filespace for the images called `name`.
pub fn image_filespace(name: &[u8]) -> Vec<u8> {
    [IMAGE_PREFIX, name].concat()
}

/// The name of the images in the filespace; `None` if the filespace holds no images.
pub fn image_name(filespace: &[u8]) -> Option<&[u8]> {
    filespace.strip_prefix(IMAGE_PREFIX)
}

/// Returns true if the filespace holds backups of a mount point or of images, neither archives nor
/// migrated files.
pub fn is_backup_filespace(filespace: &[u8]) -> bool {
    !filespace.contains(&0)
}

/// The mount point on the node from which the filespace comes.
pub fn mount_point(filespace: &[u8]) -> &[u8] {
    let Some(rest) = filespace.strip_prefix(b"\0") else { return filespace };
    match rest.iter().position(|&byte| byte == 0) {
        Some(end) => &rest[end + 1..],
        None => filespace,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_and_its_mount_point_are_found_again() {
        let name = archive_filespace(17, b"/home");
        assert_eq!(archive_number(&name), Some(17));
        assert_eq!(mount_point(&name), b"/home");
        assert_eq!((archive_number(b"/home"), mount_point(b"/home")), (None, &b"/home"[..]));
        for (other, is_within) in [(17, true), (1, false), (170, false), (18, false)] {
            for mount_point in [&b"/"[..], b"", b"\xff"] {
                let name = archive_filespace(other, mount_point);
                assert_eq!(archive_filespaces(17).contains(&name), is_within, "{other}");
                assert!(&name[..] < BACKUP_FILESPACE_MIN);
            }
        }
        let space = space_filespace(b"/home");
        assert!(&space[..] < BACKUP_FILESPACE_MIN);
        assert!(is_space_filespace(&space) && !is_space_filespace(&name));
        assert_eq!((mount_point(&space), archive_number(&space)), (&b"/home"[..], None));
        assert!(is_backup_filespace(b"/home") && !is_backup_filespace(&space));
        assert_eq!((archive_number(b"\0x\0/"), archive_number(b"\x0017")), (None, None));
        let image = image_filespace(b"/dev/sda");
        assert!(is_backup_filespace(&image) && &image[..] > BACKUP_FILESPACE_MIN);
        assert_eq!((image_name(&image), image_name(b"/dev/sda")), (Some(&b"/dev/sda"[..]), None));
        // Another spelling of a number would be a second name.
        assert_eq!((archive_number(b"\0+17\0/"), archive_number(b"\x00017\0/")), (None, None));
    }
}
