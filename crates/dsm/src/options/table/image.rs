//! Options of images and snapshots.

use crate::options::definition::{Definition, Homes, Kind, done, flag, needless, option, refused};

const SIZES: &str = "the snapshot's size is chosen by the means of the volume manager";

pub(super) const OPTIONS: &[Definition] = &[
    option(
        "SNAPSHOTPROVIDERFs",
        Kind::Word(&["none", "linux_lvm", "jfs2", "vss"]),
        Homes::ANY_CMD,
        done("snapshot in client.toml"),
    )
    .with(&[
        ("jfs2", refused("JFS2 is on AIX only", "write SNAPSHOTPROVIDERFS NONE")),
        ("vss", refused("VSS is on Windows only", "write SNAPSHOTPROVIDERFS NONE")),
    ]),
    option(
        "SNAPSHOTPROVIDERImage",
        Kind::Word(&["none", "linux_lvm", "jfs2", "vss"]),
        Homes::ANY_CMD,
        done("image_snapshot in client.toml"),
    )
    .with(&[
        ("jfs2", refused("JFS2 is on AIX only", "write SNAPSHOTPROVIDERIMAGE NONE")),
        ("vss", refused("VSS is on Windows only", "write SNAPSHOTPROVIDERIMAGE NONE")),
    ]),
    option("SNAPSHOTCACHESize", Kind::Number { min: 1, max: 100 }, Homes::ANY_CMD, needless(SIZES)),
    option("PRESNAPshotcmd", Kind::Text, Homes::ANY_CMD, done("freeze in client.toml")),
    option("POSTSNAPshotcmd", Kind::Text, Homes::ANY_CMD, done("thaw in client.toml")),
    option(
        "IMAGEGapsize",
        Kind::Text,
        Homes::ANY_CMD,
        done("unused blocks are not read; 0 means all_blocks in client.toml"),
    ),
    option(
        "DYNAMICImage",
        Kind::YesNo,
        Homes::ANY_CMD,
        needless("an image without a snapshot is made in any case, and says that it is one"),
    ),
    flag(
        "IMAGETodate",
        refused("an image is of one moment", "choose the image with -pitdate and -pittime"),
    ),
    flag("IMAGETOFile", needless("the destination of 'restore image' may be a file")),
    flag("VERIFYImage", needless("each block is checked before it is written")),
    flag(
        "INCREmental",
        refused(
            "files are not restored over an image",
            "restore the image, and then the files with 'restore -ifnewer'",
        ),
    ),
    option(
        "INCRTHreshold",
        Kind::Text,
        Homes::ANY_CMD,
        needless("an image after the first one sends only what has changed"),
    ),
];
