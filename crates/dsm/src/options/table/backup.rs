//! Options of backups and archives.

use crate::options::definition::{Definition, Homes, Kind, done, flag, needless, option, refused};

const MEMORY: &str = "a backup takes a bounded amount of memory, whatever the number of files";
const ATTRIBUTES: &str = "access control lists and attributes are always kept and compared";
const NAMES: &str = "names are bytes, so no file space has to be renamed";
const NAS: &str = "file servers are not backed up by NDMP";
const SNAPDIFF: &str = "the lists of changes of file servers are not read";

pub(super) const OPTIONS: &[Definition] = &[
    option("COMPRESSIon", Kind::YesNo, Homes::ANY_CMD, done("compression in client.toml")),
    option(
        "COMPRESSAlways",
        Kind::YesNo,
        Homes::ANY_CMD,
        needless("data that does not become smaller is stored as it is, without a second reading"),
    ),
    option("DEDUPLication", Kind::YesNo, Homes::ANY_CMD, done("deduplication in client.toml")),
    option(
        "ENABLEDEDUPCache",
        Kind::YesNo,
        Homes::ANY,
        done("dedup_cache_megabytes in client.toml"),
    ),
    option("DEDUPCACHEPath", Kind::Path, Homes::ANY, done("dedup_cache_folder in client.toml")),
    option(
        "DEDUPCACHESize",
        Kind::Number { min: 1, max: 2048 },
        Homes::ANY,
        done("dedup_cache_megabytes in client.toml"),
    ),
    option(
        "TXNBytelimit",
        Kind::Size { min_kib: 300, max_kib: 34_359_738_368 },
        Homes::SYS_CMD,
        done("txnbytelimit; values below 1M and above 1G count as those"),
    ),
    option(
        "RESOURceutilization",
        Kind::Number { min: 1, max: 100 },
        Homes::SYS_CMD,
        done("resourceutilization; without it the number is chosen during the run"),
    ),
    option(
        "MEMORYEFficientbackup",
        Kind::Word(&["no", "yes", "diskcachemethod"]),
        Homes::ANY_CMD,
        needless(MEMORY),
    ),
    option("DISKCACHELocation", Kind::Path, Homes::ANY, needless(MEMORY)),
    option(
        "DISKBuffsize",
        Kind::Number { min: 16, max: 1023 },
        Homes::SYS,
        needless("the size of each read follows from the size of the file"),
    ),
    option(
        "LARGECOmmbuffers",
        Kind::YesNo,
        Homes::ANY,
        needless("the size of each read follows from the size of the file"),
    ),
    option(
        "CHAngingretries",
        Kind::Number { min: 0, max: 4 },
        Homes::SYS_CMD,
        needless("the serialization of the management class decides about files that change"),
    ),
    option("DIRMc", Kind::Text, Homes::ANY, done("dirmc in client.toml")),
    option("ARCHMc", Kind::Text, Homes::CMD, done("--class of the archive")),
    option(
        "BACKMc",
        Kind::Text,
        Homes::CMD,
        refused(
            "a command does not bind files to a class; the statements do",
            "write 'include PATTERN CLASS' in the list",
        ),
    ),
    option(
        "DOMain",
        Kind::Domain,
        Homes::ANY_CMD,
        done("paths in client.toml, and the paths of a backup without paths"),
    ),
    option(
        "DOMAIN.Image",
        Kind::Domain,
        Homes::ANY_CMD,
        done("the disks of 'backup image' without a disk"),
    ),
    option("DOMAIN.Nas", Kind::Domain, Homes::ANY_CMD, needless(NAS)),
    option(
        "DOMAIN.VMfull",
        Kind::Text,
        Homes::ANY_CMD,
        needless("machines are backed up by the commands of images, which name them"),
    ),
    option(
        "VIRTUALMountpoint",
        Kind::Path,
        Homes::SYS,
        done(
            "virtual_filespaces in client.toml: it is a file space of its own, which the file \
             space around it leaves out",
        ),
    ),
    option("INCLexcl", Kind::Path, Homes::ANY, done("a list of statements, in place of this line")),
    option("SUbdir", Kind::YesNo, Homes::OPT_CMD, done("whether a command descends")),
    option(
        "FOLlowsymbolic",
        Kind::YesNo,
        Homes::OPT_CMD,
        needless("symbolic links are stored as links"),
    )
    .with(&[(
        "yes",
        refused(
            "a symbolic link is stored as a link, and what it points to is not followed",
            "name the places that the links point to in DOMAIN, and remove the line",
        ),
    )]),
    option(
        "ARCHSYMLinkasfile",
        Kind::YesNo,
        Homes::OPT_CMD,
        needless("symbolic links are archived as links"),
    )
    .with(&[(
        "yes",
        refused(
            "a symbolic link is archived as a link, and what it points to is not followed",
            "archive the places that the links point to, and write ARCHSYMLINKASFILE NO",
        ),
    )]),
    option("SKIPACL", Kind::YesNo, Homes::ANY_CMD, needless(ATTRIBUTES)),
    option("SKIPACLUPdatecheck", Kind::YesNo, Homes::ANY_CMD, needless(ATTRIBUTES)),
    option(
        "UPDATECTime",
        Kind::YesNo,
        Homes::ANY_CMD,
        needless("a changed change time leads to a comparison of all attributes"),
    ),
    option(
        "PRESERVELastaccessdate",
        Kind::YesNo,
        Homes::ANY_CMD,
        needless(
            "files are read without a change of their access time, where the system allows it",
        ),
    ),
    option("AUTOFsrename", Kind::Word(&["prompt", "yes", "no"]), Homes::ANY_CMD, needless(NAMES)),
    option(
        "AUTOMount",
        Kind::Domain,
        Homes::OPT_CMD,
        refused(
            "a backup mounts no file systems",
            "let a PRESCHEDULECMD mount them, and name them in DOMAIN",
        ),
    ),
    option(
        "NFSTIMEout",
        Kind::Number { min: 0, max: 120 },
        Homes::ANY_CMD,
        needless("all-local leaves out file systems on networks, so none can hold it up"),
    ),
    option(
        "REMOVEOPerandlimit",
        Kind::Flag,
        Homes::CMD,
        needless("a command takes any number of paths"),
    ),
    option(
        "IEObjtype",
        Kind::Text,
        Homes::CMD,
        needless("statements on deduplication are about files"),
    ),
    flag(
        "ABSolute",
        done("reads all files again; what has not changed is sent only if the server lacks it"),
    ),
    flag("FULL", done("--full of the backup, as -absolute")),
    flag("INCRBydate", done("an ordinary incremental, which is as quick and misses nothing")),
    option("FILEList", Kind::Path, Homes::CMD, done("the paths in a file, one on each line")),
    option("DEScription", Kind::Text, Homes::CMD, done("--description of the archive")),
    flag("DELetefiles", done("--delete of the archive")),
    option(
        "V2archive",
        Kind::Flag,
        Homes::CMD,
        needless("an archive has the directories, too, so that their attributes come back"),
    ),
    option(
        "DISABLENQR",
        Kind::YesNo,
        Homes::ANY_CMD,
        needless("the server sends in the order of its media in each case"),
    ),
    option(
        "DONTLoad",
        Kind::Text,
        Homes::ANY,
        needless("there are no plug-ins that could be left out"),
    ),
    flag("NOJournal", done("--no-journal")),
    flag(
        "SNAPDiff",
        refused(SNAPDIFF, "run 'incremental' without it; the journal knows what has changed"),
    ),
    option("SNAPDIFFCHANGELogdir", Kind::Path, Homes::ANY_CMD, needless(SNAPDIFF)),
    flag("SNAPDIFFHTTPS", needless(SNAPDIFF)),
    flag("CREATEnewbase", needless(SNAPDIFF)),
    flag("USEEXISTINGbase", needless(SNAPDIFF)),
    option("BASESNAPSHOTName", Kind::Text, Homes::CMD, needless(SNAPDIFF)),
    option("DIFFSNAPSHOT", Kind::Word(&["create", "latest"]), Homes::CMD, needless(SNAPDIFF)),
    option("DIFFSNAPSHOTName", Kind::Text, Homes::CMD, needless(SNAPDIFF)),
    option(
        "SNAPSHOTRoot",
        Kind::Path,
        Homes::ANY_CMD,
        refused(
            "a backup stores paths as they are, so files in a snapshot would get other names",
            "write SNAPSHOTPROVIDERFS LINUX_LVM, which makes the snapshot and keeps the names",
        ),
    ),
    option("MONitor", Kind::Text, Homes::CMD, needless(NAS)),
    option("NASNodename", Kind::Text, Homes::ANY_CMD, needless(NAS)),
    option("TOC", Kind::Word(&["no", "preferred", "yes"]), Homes::CMD, needless(NAS)),
    option(
        "ENCRYptkey",
        Kind::Word(&["save", "prompt", "generate"]),
        Homes::ANY,
        done("the key that 'holdfast key create' makes, in encryption.keys"),
    )
    .with(&[(
        "prompt",
        refused(
            "a key is in a file, and no password that a person could type",
            "write ENCRYPTKEY SAVE, run 'holdfast key create', and keep a copy of the file",
        ),
    )]),
    option(
        "ENCRYPTIONType",
        Kind::Word(&["aes128", "aes256", "des56"]),
        Homes::ANY,
        needless("files of include.encrypt are encrypted with 256-bit keys"),
    ),
    option(
        "SRVOPTSETENCryptiondisabled",
        Kind::YesNo,
        Homes::SYS,
        needless("keys are the node's own, and no option set reaches them"),
    ),
    option(
        "ENABLEARCHIVERETENTIONProtection",
        Kind::YesNo,
        Homes::SYS,
        needless("the server's policy protects archives, whatever a node says"),
    ),
    option(
        "AUDITLOGGing",
        Kind::Word(&["off", "basic", "full"]),
        Homes::ANY_CMD,
        needless("--verbose names each object, and the server keeps an audit trail"),
    ),
    option(
        "AUDITLOGName",
        Kind::Path,
        Homes::ANY_CMD,
        needless("--verbose names each object, and the server keeps an audit trail"),
    ),
    option(
        "COLlocatebyfilespec",
        Kind::YesNo,
        Homes::ANY_CMD,
        needless("the server lays the packs of a node together"),
    ),
    option(
        "AFMSKIPuncachedfiles",
        Kind::YesNo,
        Homes::ANY,
        refused(
            "uncached files of Active File Management are not recognised",
            "back up the file system at the home cluster",
        ),
    ),
    option(
        "SKIPMIgrated",
        Kind::YesNo,
        Homes::ANY_CMD,
        needless("a backup of a migrated file reads nothing back, so nothing has to be skipped"),
    ),
];
