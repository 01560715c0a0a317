//! Attributes of objects besides content: modes, owners, times, extended attributes, ACLs, flags.

use std::io;

use rustix::fs::{FileType, IFlags, Timespec};

use super::Planter;

/// A capability set as the kernel stores it: revision 2, effective, `cap_net_bind_service`.
const CAPABILITY: [u8; 20] = *b"\x01\0\0\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

const ACL_VERSION: u32 = 2;
const ACL_NO_ID: u32 = u32::MAX;

/// One line of an ACL, with the numbers of `linux/posix_acl_xattr.h`.
struct AclLine {
    tag: u16,
    permissions: u16,
    id: u32,
}

const fn line(tag: u16, permissions: u16, id: u32) -> AclLine {
    AclLine { tag, permissions, id }
}

/// The ACL `u::rw-,u:1234:r--,g::r--,g:4321:rw-,m::rw-,o::---`.
const ACL: [AclLine; 6] = [
    line(0x01, 6, ACL_NO_ID),
    line(0x02, 4, 1234),
    line(0x04, 4, ACL_NO_ID),
    line(0x08, 6, 4321),
    line(0x10, 6, ACL_NO_ID),
    line(0x20, 0, ACL_NO_ID),
];

fn acl_bytes(lines: &[AclLine]) -> Vec<u8> {
    let mut bytes = ACL_VERSION.to_le_bytes().to_vec();
    for line in lines {
        bytes.extend(line.tag.to_le_bytes());
        bytes.extend(line.permissions.to_le_bytes());
        bytes.extend(line.id.to_le_bytes());
    }
    bytes
}

impl Planter {
    pub(super) fn modes(&mut self) -> io::Result<()> {
        let folder = self.top.make(b"modes")?;
        for mode in [0, 0o400, 0o200, 0o111, 0o777, 0o4755, 0o2755, 0o6711, 0o1644, 0o7777] {
            let name = format!("file-{mode:04o}").into_bytes();
            Self::write(&folder, &name, format!("mode {mode:04o}").as_bytes())?;
            self.modes.push(("modes", name, mode));
        }
        for mode in [0, 0o555, 0o700, 0o1777, 0o2755, 0o7777] {
            let name = format!("folder-{mode:04o}").into_bytes();
            Self::write(&folder.make(&name)?, b"inside", b"behind a closed door?")?;
            self.modes.push(("modes", name, mode));
        }
        Ok(())
    }

    pub(super) fn owners(&mut self) -> io::Result<()> {
        let folder = self.top.make(b"owners")?;
        for (uid, gid) in [(1000, 1000), (0, 100), (65534, 65534), (70_000, 4_294_967_294)] {
            let file = format!("file-{uid}-{gid}").into_bytes();
            Self::write(&folder, &file, b"owned")?;
            let inner = format!("folder-{uid}-{gid}").into_bytes();
            drop(folder.make(&inner)?);
            let symlink = format!("symlink-{uid}-{gid}").into_bytes();
            folder.symlink(&symlink, b"nowhere")?;
            for name in [&file, &inner, &symlink] {
                let result = folder.set_owner(name, uid, gid);
                self.attempt(format!("owner {uid}:{gid}"), result);
            }
        }
        // A change of owner clears setuid: a restore must set the owner first.
        Self::write(&folder, b"setuid-of-another", b"owned")?;
        let result = folder.set_owner(b"setuid-of-another", 1000, 1000);
        self.attempt("owner 1000:1000", result);
        self.modes.push(("owners", b"setuid-of-another".to_vec(), 0o6755));
        Ok(())
    }

    pub(super) fn times(&mut self) -> io::Result<()> {
        let folder = self.top.make(b"times")?;
        let times = [
            ("epoch", 0, 0),
            ("one-nanosecond", 1_234_567_890, 1),
            ("last-nanosecond", 1_234_567_890, 999_999_999),
            ("before-1970", -1_500_000_000, 123_456_789),
            ("just-before-1970", -1, 999_999_999),
            ("after-2038", 3_000_000_000, 5),
            ("far-future", 13_569_465_600, 987_654_321),
        ];
        for (name, tv_sec, tv_nsec) in times {
            Self::write(&folder, name.as_bytes(), name.as_bytes())?;
            let inner = format!("folder-{name}");
            Self::write(&folder.make(inner.as_bytes())?, b"inside", b"")?;
            let symlink = format!("symlink-{name}");
            folder.symlink(symlink.as_bytes(), b"nowhere")?;
            for object in [name, &inner, &symlink] {
                let path = format!("times/{object}").into_bytes();
                self.times.insert(path, Timespec { tv_sec, tv_nsec });
            }
        }
        Ok(())
    }

    pub(super) fn xattrs(&mut self) -> io::Result<()> {
        let folder = self.top.make(b"xattrs")?;
        Self::write(&folder, b"file", b"with attributes")?;
        Self::write(&folder, b"program", b"#!/bin/true\n")?;
        folder.symlink(b"symlink", b"file")?;
        drop(folder.make(b"folder")?);
        let fifo = folder.make_special(b"fifo", FileType::Fifo, 0);
        self.attempt("fifo", fifo);
        let large = self.random("xattr").bytes(2000);
        let attributes: [(&[u8], &str, &[u8]); 11] = [
            (b"file", "user.text", b"value"),
            (b"file", "user.empty", b""),
            (b"file", "user.bytes", b"\0\xff\n\0"),
            (b"file", "user.large", &large),
            (b"file", "user.na\u{ef}ve name", b"name with a space"),
            (b"file", "trusted.holdfast-test", b"root only"),
            (b"folder", "user.folder", b"value"),
            (b"folder", "trusted.folder", b"value"),
            (b"symlink", "trusted.symlink", b"on the link itself"),
            (b"fifo", "trusted.fifo", b"on a fifo"),
            (b"program", "security.capability", &CAPABILITY),
        ];
        for (name, attribute, value) in attributes {
            let result = folder.set_xattr(name, attribute, value);
            self.attempt(format!("xattr {attribute} of {}", name.escape_ascii()), result);
        }
        Ok(())
    }

    pub(super) fn acls(&mut self) -> io::Result<()> {
        let folder = self.top.make(b"acls")?;
        Self::write(&folder, b"file", b"with an ACL")?;
        // Files that are made in a folder with a default ACL inherit it. A restore has to prevent
        // that.
        let inner = folder.make(b"folder")?;
        Self::write(&inner, b"made-before", b"without an ACL")?;
        let access = acl_bytes(&ACL);
        let wanted: [(&[u8], &str); 3] = [
            (b"file", "system.posix_acl_access"),
            (b"folder", "system.posix_acl_access"),
            (b"folder", "system.posix_acl_default"),
        ];
        for (name, attribute) in wanted {
            let result = folder.set_xattr(name, attribute, &access);
            self.attempt(format!("ACL {attribute}"), result);
        }
        Self::write(&inner, b"made-after", b"with an inherited ACL")
    }

    pub(super) fn flags(&mut self) -> io::Result<()> {
        let folder = self.top.make(b"flags")?;
        let wanted = [
            ("nodump", IFlags::NODUMP),
            ("noatime", IFlags::NOATIME),
            ("append", IFlags::APPEND),
            ("immutable", IFlags::IMMUTABLE),
            ("both", IFlags::IMMUTABLE.union(IFlags::NODUMP)),
        ];
        for (name, flags) in wanted {
            Self::write(&folder, name.as_bytes(), b"flagged")?;
            let inner = format!("folder-{name}");
            Self::write(&folder.make(inner.as_bytes())?, b"inside", b"in a flagged folder")?;
            for object in [name, &inner] {
                self.flags.push(("flags", object.as_bytes().to_vec(), flags));
            }
        }
        Ok(())
    }
}
