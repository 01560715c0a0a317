//! Options of restores, retrieves and queries.

use crate::options::definition::{
    Definition, Homes, Kind, done, flag, needless, option, partly, refused,
};

const MEDIA: &str = "the server reads its media in their order by itself";
const BACKUP_SETS: &str =
    "there are no backup sets; a copy pool or a second server takes their place";
const GROUPS: &str = "a group is a set of paths; give all of them to one command";
const MAIL: &str = "mailboxes of mail servers are not restored";
const FASTBACK: &str = "FastBack has no counterpart";

pub(super) const OPTIONS: &[Definition] = &[
    option(
        "REPlace",
        Kind::Word(&["prompt", "all", "yes", "no"]),
        Homes::OPT_CMD,
        done("--replace of the restore; 'prompt' asks once, and without a terminal means no"),
    ),
    flag("IFNewer", done("--replace if-newer")),
    flag("INActive", done("--inactive")),
    flag("LATest", done("--inactive, which takes the newest version of what is gone")),
    flag("PIck", done("a numbered list to choose from")),
    option("PITDate", Kind::Text, Homes::CMD, done("--at, by the format of DATEFORMAT")),
    option("PITTime", Kind::Text, Homes::CMD, done("--at, with 23:59:59 as the default")),
    option("FROMDate", Kind::Text, Homes::CMD, done("versions from this day on")),
    option("FROMTime", Kind::Text, Homes::CMD, done("versions from this time of FROMDATE on")),
    option("TODate", Kind::Text, Homes::CMD, done("versions until this day")),
    option("TOTime", Kind::Text, Homes::CMD, done("versions until this time of TODATE")),
    flag("DIRSonly", done("directories without files")),
    flag("FILESOnly", done("files without directories")),
    option(
        "PRESERvepath",
        Kind::Word(&["subtree", "complete", "nobase", "none"]),
        Homes::CMD,
        done("the place of each object below the destination"),
    ),
    flag("NOPrompt", done("nothing is asked")),
    flag(
        "DETail",
        partly(
            "the copy groups of 'query mgmtclass', the times and inodes of 'query backup', and a \
             line for each file of space management; other queries show the same with it as \
             without it",
        ),
    ),
    flag("QUERYSUMMary", done("the number and the size of the objects that a query finds")),
    option(
        "QUOTESareliteral",
        Kind::YesNo,
        Homes::ANY_CMD,
        done("quotes in a list of files are part of the names"),
    ),
    option(
        "WILDCARDSareliteral",
        Kind::YesNo,
        Homes::ANY_CMD,
        done("wildcards in a list of files are part of the names"),
    ),
    option("TAPEPrompt", Kind::YesNo, Homes::OPT_CMD, needless(MEDIA)),
    option(
        "MAKesparsefile",
        Kind::YesNo,
        Homes::OPT_CMD,
        needless("holes of a file come back as holes"),
    ),
    option(
        "DELType",
        Kind::Word(&["active", "inactive", "all"]),
        Homes::CMD,
        done("--active or --inactive of the deletion"),
    ),
    option("CLAss", Kind::Text, Homes::CMD, needless("backups are of this node's own files")),
    option("OBJtype", Kind::Text, Homes::CMD, done("images of 'delete backup', otherwise files")),
    option(
        "TYPE",
        Kind::Word(&["activateretention", "hold", "release"]),
        Homes::CMD,
        done("event, hold or release of 'holdfast archives'"),
    ),
    option("MODE", Kind::Text, Homes::CMD, needless("an image sends only what has changed")),
    option("GROUPName", Kind::Text, Homes::CMD, needless(GROUPS)),
    option("VIRTUALFSname", Kind::Text, Homes::CMD, needless(GROUPS)),
    flag("SHOWMembers", needless(GROUPS)),
    option("LOCALbackupset", Kind::YesNo, Homes::CMD, needless(BACKUP_SETS)),
    option(
        "BACKUPSETName",
        Kind::Text,
        Homes::CMD,
        refused(BACKUP_SETS, "restore from the server itself"),
    ),
    option(
        "FILEName",
        Kind::Path,
        Homes::CMD,
        done("the file that gets the system's facts, or the lines of a preview"),
    ),
    option(
        "CSV",
        Kind::Path,
        Homes::CMD,
        refused("a query does not write CSV", "give --json, or use 'holdfast list --json'"),
    ),
    flag("CONsole", done("the result of 'preview' on standard output, where it always goes")),
    option(
        "FILTER",
        Kind::Word(&["all", "included", "excluded"]),
        Homes::CMD,
        done("--filter of 'preview'"),
    ),
    option(
        "TRAVerse",
        Kind::YesNo,
        Homes::CMD,
        done("'preview' goes into directories, as without it; with no, or -subdir=no, it does not"),
    ),
    flag("SHOWINtermediate", needless("a query shows what is stored, and nothing else")),
    option(
        "GUITREEViewafterbackup",
        Kind::YesNo,
        Homes::ANY,
        needless("there is no graphical client"),
    ),
    option("MBOBJREFRESHThresh", Kind::Text, Homes::ANY, needless(MAIL)),
    option("MBPCTREFRESHThresh", Kind::Text, Homes::ANY, needless(MAIL)),
    option("FBBranch", Kind::Text, Homes::CMD, needless(FASTBACK)),
    option("FBCLIentname", Kind::Text, Homes::CMD, needless(FASTBACK)),
    option("FBPOlicyname", Kind::Text, Homes::CMD, needless(FASTBACK)),
    option("FBREPOSLocation", Kind::Text, Homes::CMD, needless(FASTBACK)),
    option("FBSERVer", Kind::Text, Homes::CMD, needless(FASTBACK)),
    option("FBVOLumename", Kind::Text, Homes::CMD, needless(FASTBACK)),
    option(
        "TAGSCHEDULE",
        Kind::Text,
        Homes::CMD,
        needless("labels of nodes choose the schedule at the server"),
    ),
];
