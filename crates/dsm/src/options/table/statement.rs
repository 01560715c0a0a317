//! Include and exclude statements.

use crate::options::definition::{Definition, Fate, Homes, Kind, done, needless, option};

const IMAGES: &str = "an image is made only of a disk that a command names";
const NO_MACHINES: &str = "machines are backed up by the commands of images, which name them";
const NAS: &str = "file servers are not backed up by NDMP";

const fn statement(spelling: &'static str, fate: Fate) -> Definition {
    option(spelling, Kind::Statement, Homes::ANY, fate)
}

pub(super) const OPTIONS: &[Definition] = &[
    statement("EXCLude", done("exclude and exclude.spacemgmt")),
    statement("EXCLude.backup", done("exclude.backup")),
    statement("EXCLude.file", done("exclude.backup")),
    statement("EXCLude.file.backup", done("exclude.backup")),
    statement("EXCLude.archive", done("exclude.archive")),
    statement("EXCLude.dir", done("exclude.dir")),
    statement("EXCLude.fs", done("exclude.fs")),
    statement("EXCLude.attribute.symlink", done("exclude.attribute.symlink")),
    statement("EXCLude.spacemgmt", done("exclude.spacemgmt")),
    statement("EXCLude.compression", done("exclude.compression")),
    statement("EXCLude.dedup", done("exclude.dedup")),
    statement("EXCLude.encrypt", done("exclude.encrypt")),
    statement("EXCLude.image", needless(IMAGES)),
    statement("EXCLude.fs.nas", needless(NAS)),
    statement("EXCLude.vmdisk", needless(NO_MACHINES)),
    statement("EXCLude.vmlocaldisk", needless(NO_MACHINES)),
    statement("INCLUde", done("include and include.spacemgmt")),
    statement("INCLUde.backup", done("include.backup")),
    statement("INCLUde.file", done("include")),
    statement("INCLUde.archive", done("include.archive")),
    statement(
        "INCLUde.attribute.symlink",
        done("the links that no exclude.attribute.symlink names"),
    ),
    statement("INCLUde.spacemgmt", done("include.spacemgmt")),
    statement("INCLUde.compression", done("include.compression")),
    statement("INCLUde.dedup", done("include.dedup")),
    statement("INCLUde.encrypt", done("include.encrypt")),
    statement("INCLUde.image", needless(IMAGES)),
    statement("INCLUde.fs", needless("each file system is walked in bounded memory")),
    statement("INCLUde.fs.nas", needless(NAS)),
    statement("INCLUde.vm", needless(NO_MACHINES)),
    statement("INCLUde.vmdisk", needless(NO_MACHINES)),
    statement("INCLUde.vmlocaldisk", needless(NO_MACHINES)),
    statement("INCLUde.vmsnapshotattempts", needless(NO_MACHINES)),
    statement("INCLUde.vmtsmvss", needless(NO_MACHINES)),
];
