//! Options of space management.

use crate::options::definition::{Definition, Homes, Kind, done, flag, needless, option, refused};

const DAEMONS: &str = "the number of recalls at once follows from the drives and the network";
const MONITOR: &str = "the file system is watched all the time, and no daemon looks in intervals";
const LOG: &str = "messages of space management are in the journal of the system";
const QUEUE: &str = "each recall goes through a queue in the order of the media";
const PER_FILE_SYSTEM: &str = "'holdfast hsm add' has this for each file system";

pub(super) const OPTIONS: &[Definition] = &[
    option("MAXRECALLdaemons", Kind::Text, Homes::SYS, needless(DAEMONS)),
    option("MINRECALLdaemons", Kind::Text, Homes::SYS, needless(DAEMONS)),
    option("MAXMIGRators", Kind::Text, Homes::SYS, needless(DAEMONS)),
    option("MAXCANDProcs", Kind::Text, Homes::SYS, needless(MONITOR)),
    option("MAXRECOncileproc", Kind::Text, Homes::SYS, needless(MONITOR)),
    option("MAXTHRESHoldproc", Kind::Text, Homes::SYS, needless(MONITOR)),
    option("CANDIDATESInterval", Kind::Text, Homes::SYS, needless(MONITOR)),
    option("CHECKThresholds", Kind::Text, Homes::SYS, needless(MONITOR)),
    option(
        "CHECKFororphans",
        Kind::YesNo,
        Homes::SYS_CMD,
        needless("a reconciliation always does"),
    ),
    option(
        "RECOncileinterval",
        Kind::Text,
        Homes::SYS,
        needless("a schedule of the server runs 'hsm reconcile'"),
    ),
    option(
        "MIGFILEEXPiration",
        Kind::Text,
        Homes::SYS,
        needless("the management class says how long copies of deleted files are kept"),
    ),
    option("MINMIGFILEsize", Kind::Text, Homes::SYS_CMD, done("--min-size of 'hsm add'")),
    option("MINPARTIALrecallsize", Kind::Text, Homes::SYS_CMD, done("--whole of 'hsm add'")),
    option("MINSTREAMfilesize", Kind::Text, Homes::SYS_CMD, needless(PER_FILE_SYSTEM)),
    option(
        "ERRORPRog",
        Kind::Text,
        Homes::SYS,
        needless("systemd can start a program when the service fails"),
    ),
    option("KERNelmessages", Kind::YesNo, Homes::SYS, needless(LOG)),
    option(
        "HSMBACKENDMODE",
        Kind::Text,
        Homes::SYS,
        needless("the server of the node is the only place of migrated data"),
    ),
    option("HSMDISABLEAUTOMIGDaemons", Kind::YesNo, Homes::SYS, done("--high 100 of 'hsm add'")),
    option(
        "HSMDISTRIBUTEDRecall",
        Kind::YesNo,
        Homes::SYS,
        needless("each machine recalls its own files"),
    ),
    option("HSMENABLEIMMEDIATEMigrate", Kind::YesNo, Homes::SYS, needless(PER_FILE_SYSTEM)),
    option("HSMEXTOBJIDAttr", Kind::YesNo, Homes::SYS, needless("a stub has its record beside it")),
    option(
        "HSMGROUPEDMigrate",
        Kind::YesNo,
        Homes::SYS,
        needless("small files go into packs together"),
    ),
    option("HSMLOGEVENTFlags", Kind::Text, Homes::SYS, needless(LOG)),
    option("HSMLOGMAX", Kind::Text, Homes::SYS, needless(LOG)),
    option("HSMLOGName", Kind::Path, Homes::SYS, needless(LOG)),
    option("HSMLOGRetention", Kind::Text, Homes::SYS, needless(LOG)),
    option("HSMLOGSAMPLEinterval", Kind::Text, Homes::SYS, needless(LOG)),
    option("HSMMAXRECALLTAPEDrives", Kind::Text, Homes::SYS, needless(QUEUE)),
    option(
        "HSMMIGZEROBLOCKfiles",
        Kind::YesNo,
        Homes::SYS,
        needless("a file without blocks takes no space, and is left alone"),
    ),
    option("HSMMULTIServer", Kind::YesNo, Homes::SYS, needless("one server manages a file system"))
        .with(&[(
            "yes",
            refused(
                "one server manages a file system",
                "manage each file system from the node of its own server, and remove the line",
            ),
        )]),
    option(
        "MIGRATEServer",
        Kind::Text,
        Homes::SYS,
        done("chooses the stanza of the commands of space management"),
    ),
    option("HSMOPTIMIZEDRECALLonly", Kind::YesNo, Homes::SYS, done("--requests-only of 'hsm add'")),
    option("HSMRECALLBUFFERsize", Kind::Text, Homes::SYS, needless(DAEMONS)),
    option("HSMLOGFACILITY", Kind::Text, Homes::SYS, needless(LOG)),
    option(
        "CHECKSTUBs",
        Kind::YesNo,
        Homes::ANY_CMD,
        needless("a stub is recognised by its record, whatever its size"),
    ),
    option(
        "RESTOREMIGstate",
        Kind::YesNo,
        Homes::OPT_CMD,
        needless("files come back with their content; 'holdfast restore --stubs-from' makes stubs"),
    ),
    option(
        "STAGINGDIRectory",
        Kind::Path,
        Homes::ANY,
        needless("nothing is staged on this machine"),
    ),
    option("PREMIGrate", Kind::Flag, Homes::CMD, done("'hsm premigrate'")),
    option("RESIDent", Kind::Flag, Homes::CMD, done("--resident of the recall")),
    option("PREView", Kind::Flag, Homes::CMD, done("--dry-run of the recall")),
    option("Recursive", Kind::Flag, Homes::CMD, done("goes through directories")),
    option("NOHEADer", Kind::Flag, Homes::CMD, done("results without their heading")),
    option(
        "HThreshold",
        Kind::Number { min: 0, max: 100 },
        Homes::CMD,
        done("--high of 'hsm add'"),
    ),
    option("LThreshold", Kind::Number { min: 0, max: 100 }, Homes::CMD, done("--low of 'hsm add'")),
    option(
        "PMpercentage",
        Kind::Number { min: 0, max: 100 },
        Homes::CMD,
        done("--premigrated of 'hsm add'"),
    ),
    option(
        "AGefactor",
        Kind::Number { min: 0, max: 999_999_999 },
        Homes::CMD,
        needless("'holdfast hsm policy' shows which files migrate first"),
    ),
    option(
        "SIzefactor",
        Kind::Number { min: 0, max: 999_999_999 },
        Homes::CMD,
        needless("'holdfast hsm policy' shows which files migrate first"),
    ),
    option(
        "STubsize",
        Kind::Text,
        Homes::CMD,
        needless("a stub takes no space, and no part of the file stays in it"),
    ),
    option(
        "QUOTA",
        Kind::Text,
        Homes::CMD,
        needless("limits on what a node stores are set at the server"),
    ),
    option(
        "MAXFiles",
        Kind::Text,
        Homes::CMD,
        needless("a file system may have any number of migrated files"),
    ),
    option(
        "PREVIEWSize",
        Kind::Text,
        Homes::CMD,
        needless("a stub takes no space, and no part of the file stays in it"),
    ),
    option("MAXCANDIdates", Kind::Text, Homes::CMD, needless(MONITOR)),
    option(
        "READSTARTSrecall",
        Kind::Text,
        Homes::CMD,
        needless("'holdfast hsm add --whole' says which files come back part by part"),
    ),
    flag("FILEINFO", needless("a reconciliation always releases the copies that no file names")),
    flag("ALLFiles", done("the size of each file")),
    flag("SUMMary", done("the size of what is named alone, without the directories in it")),
    flag("ORPHANCHECK", done("--dry-run of 'hsm reconcile', which names the stubs without a copy")),
];
