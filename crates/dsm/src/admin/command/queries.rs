//! QUERY.

use super::definition::{Action, Command, Request};
use super::parameter::{
    BEGIN_DATE, BEGIN_TIME, END_DATE, END_TIME, FORMAT, Parameter, ValueKind, choice, may, pattern,
};
use crate::admin::report::{self, Report};

const fn query(
    noun: &'static str,
    parameters: &'static [Parameter],
    report: fn(&Request) -> &'static Report,
    becomes: &'static str,
) -> Command {
    Command {
        verb: "Query",
        noun,
        parameters,
        action: Action::Query(report),
        becomes,
        question: "",
    }
}

const CLIENT_OR_ADMIN: Parameter = may("Type", ValueKind::Word(&["Client", "Administrative"]));
const BACKUP_OR_ARCHIVE: Parameter = may("Type", ValueKind::Word(&["Backup", "Archive"]));
const DOMAIN: Parameter = pattern("domain_name", "DOMAIN_NAME");
const SET: Parameter = pattern("policy_set_name", "SET_NAME");
const CLASS: Parameter = pattern("class_name", "CLASS_NAME");
const SCHEDULE: Parameter = pattern("schedule_name", "SCHEDULE_NAME");
const NODE: Parameter = pattern("node_name", "NODE_NAME");
/// Maximum number of rows of an answer.
pub(super) const COUNT: Parameter = may("COUnt", ValueKind::Number);
const LIBRARY: Parameter = pattern("library_name", "LIBRARY_NAME");
/// Kind of the names of filespaces: numbers, or bytes whatever their code is.
const NAME_TYPE: Parameter = may("NAMEType", ValueKind::Word(&["SERVER", "UNIcode", "FSID"]));

/// Kinds of volumes in TSM's history. Here it has the backups of the catalogue.
const VOLUME_TYPES: &[&str] = &[
    "All",
    "DBBackup",
    "DBDump",
    "DBRpf",
    "DBSnapshot",
    "EXPort",
    "BACKUPSET",
    "REMote",
    "RPFile",
    "RPFSnapshot",
    "STGDelete",
    "STGNew",
    "STGReuse",
];

fn is_admin(request: &Request) -> bool {
    request.text("Type") == Some("ADMINISTRATIVE")
}

pub(super) static QUERIES: &[Command] = &[
    query(
        "ACtlog",
        &[
            BEGIN_DATE,
            BEGIN_TIME,
            END_DATE,
            END_TIME,
            may("MSGno", ValueKind::List).filter("MSGNO"),
            may("Search", ValueKind::Text).contains("MESSAGE"),
            may("NODEname", ValueKind::List).filter("NODENAME"),
            may("ORiginator", ValueKind::Word(&["ALL", "SErver", "CLient"])).choices(
                "ORIGINATOR",
                &[choice("ALL", "*"), choice("SERVER", "SERVER"), choice("CLIENT", "CLIENT")],
            ),
            may("SCHedname", ValueKind::List).filter("SCHEDNAME"),
            may("DOmainname", ValueKind::List).filter("DOMAINNAME"),
            may("SESsnum", ValueKind::List).filter("SESSID"),
            may("OWNERname", ValueKind::List).filter("OWNERNAME"),
            FORMAT.accepted("a line has the same form always"),
        ],
        |_| &report::ACTLOG,
        "`admin log`, `admin event list`, `admin tasks`",
    ),
    query(
        "ADmin",
        &[
            pattern("admin_name", "ADMIN_NAME"),
            may("CLasses", ValueKind::Text).accepted("every administrator may do everything"),
            FORMAT.accepted("no more is known of an administrator"),
        ],
        |_| &report::ADMIN,
        "the users who may open the administration socket",
    ),
    query("ASSOCiation", &[DOMAIN, SCHEDULE], |_| &report::ASSOCIATION, "`admin schedule show`"),
    query(
        "AUDITOccupancy",
        &[
            NODE,
            may("DOmain", ValueKind::Text).refused("give the nodes by name or pattern"),
            may("POoltype", ValueKind::Text)
                .accepted("data that occurs in several pools counts once"),
        ],
        |_| &report::AUDIT_OCCUPANCY,
        "`admin stats`",
    ),
    query(
        "CLOptset",
        &[pattern("option_set_name", "OPTIONSET_NAME")],
        |_| &report::CLOPTSET,
        "`admin optionset show`",
    ),
    query(
        "COLLOCGroup",
        &[
            pattern("group_name", "COLLOCGROUP_NAME"),
            FORMAT.accepted("the members are always shown"),
        ],
        |_| &report::COLLOCGROUP,
        "`admin node list`",
    ),
    query(
        "CONtent",
        &[
            Parameter { is_required: true, ..pattern("volume_name", "VOLUME_NAME") },
            may("Node", ValueKind::List).filter("NODE_NAME"),
            may("FIlespace", ValueKind::List).filter("FILESPACE_NAME"),
            COUNT,
            may("Type", ValueKind::Word(&["ANY", "Backup", "Archive", "SPacemanaged"])).choices(
                "TYPE",
                &[
                    choice("ANY", "*"),
                    choice("BACKUP", "Bkup"),
                    choice("ARCHIVE", "Arch"),
                    choice("SPACEMANAGED", "SpMg"),
                ],
            ),
            FORMAT,
            may("DAmaged", ValueKind::Text).refused("'holdfast admin audit' names damaged files"),
            may("COPied", ValueKind::Text).refused("'query stgpool' shows what a copy lacks"),
            NAME_TYPE,
            may("CODEType", ValueKind::Text).accepted("names are bytes, whatever their code is"),
            may("FOLLOWLinks", ValueKind::YesNo)
                .accepted("each file counts, also if it shares data"),
        ],
        |_| &report::CONTENT,
        "the versions of all nodes that have data on the volume",
    ),
    query(
        "COpygroup",
        &[
            DOMAIN,
            SET,
            CLASS,
            pattern("copygroup_name", "COPYGROUP_NAME"),
            BACKUP_OR_ARCHIVE,
            FORMAT,
        ],
        |request| match request.text("Type") {
            Some("ARCHIVE") => &report::ARCHIVE_COPYGROUP,
            _ => &report::BACKUP_COPYGROUP,
        },
        "`admin policy show`",
    ),
    query("DB", &[FORMAT], |_| &report::DB, "`admin catalog list`"),
    query(
        "DBBackup",
        &[FORMAT.accepted("everything is always shown")],
        |_| &report::DBBACKUP,
        "`admin catalog list`",
    ),
    query("DBSpace", &[], |_| &report::DB, "`admin catalog list`"),
    query("DOmain", &[DOMAIN, FORMAT], |_| &report::DOMAIN, "`admin domain list`"),
    query(
        "DRive",
        &[LIBRARY, pattern("drive_name", "DRIVE_NAME"), FORMAT],
        |_| &report::DRIVE,
        "`admin library show`",
    ),
    query(
        "EVent",
        &[
            DOMAIN,
            SCHEDULE,
            may("Nodes", ValueKind::List).filter("NODE_NAME"),
            BEGIN_DATE,
            BEGIN_TIME,
            END_DATE,
            END_TIME,
            may("EXceptionsonly", ValueKind::YesNo).choices(
                "STATUS",
                &[choice("no", "*"), choice("yes", "Missed,Failed,Severed,Uncertain")],
            ),
            CLIENT_OR_ADMIN,
            FORMAT,
        ],
        |request| if is_admin(request) { &report::ADMIN_EVENT } else { &report::EVENT },
        "`admin event list`",
    ),
    query(
        "FIlespace",
        &[
            NODE,
            pattern("filespace_name", "FILESPACE_NAME"),
            NAME_TYPE,
            may("CODEType", ValueKind::Text).accepted("a name is its bytes"),
            FORMAT,
        ],
        |_| &report::FILESPACE,
        "`admin node show`",
    ),
    query("LIBRary", &[LIBRARY, FORMAT], |_| &report::LIBRARY, "`admin library list`"),
    query(
        "LIBVolume",
        &[
            LIBRARY,
            pattern("volume_name", "VOLUME_NAME"),
            FORMAT.accepted("everything is always shown"),
        ],
        |_| &report::LIBVOLUME,
        "`admin volume list`, `admin library show`",
    ),
    query("LOG", &[FORMAT], |_| &report::LOG, "the log file of the catalogue"),
    query(
        "MGmtclass",
        &[DOMAIN, SET, CLASS, FORMAT],
        |_| &report::MGMTCLASS,
        "`admin policy show`",
    ),
    query(
        "MOunt",
        &[pattern("volume_name", "VOLUME_NAME"), FORMAT.accepted("everything is always shown")],
        |_| &report::MOUNT,
        "`admin library show`",
    ),
    query(
        "Node",
        &[
            NODE,
            may("DOmain", ValueKind::List).filter("DOMAIN_NAME"),
            may("Type", ValueKind::Word(&["Client", "NAS", "Server", "Any", "OBJECTClient"]))
                .choices(
                    "NODETYPE",
                    &[
                        choice("ANY", "*"),
                        choice("CLIENT", "CLIENT"),
                        choice("NAS", "NAS"),
                        choice("SERVER", "SERVER"),
                        choice("OBJECTCLIENT", "OBJECTCLIENT"),
                    ],
                ),
            may("AUTHentication", ValueKind::Text).accepted("every node has a certificate"),
            FORMAT,
        ],
        |_| &report::NODE,
        "`admin node list`, `admin node show`",
    ),
    query(
        "OCCupancy",
        &[
            NODE,
            pattern("filespace_name", "FILESPACE_NAME"),
            may("STGpool", ValueKind::List).filter("STGPOOL_NAME"),
            may("DEVclass", ValueKind::Text)
                .refused("Holdfast has no device classes; give STGPOOL"),
            may("Type", ValueKind::Word(&["ANY", "Backup", "Archive", "SPacemanaged"])).choices(
                "TYPE",
                &[
                    choice("ANY", "*"),
                    choice("BACKUP", "Bkup"),
                    choice("ARCHIVE", "Arch"),
                    choice("SPACEMANAGED", "SpMg"),
                ],
            ),
            NAME_TYPE,
            may("CODEType", ValueKind::Text).accepted("a name is its bytes"),
        ],
        |_| &report::OCCUPANCY,
        "`admin stats`",
    ),
    query(
        "PATH",
        &[
            pattern("source_name", "SOURCE_NAME"),
            pattern("destination_name", "DESTINATION_NAME"),
            may("SRCType", ValueKind::Text).accepted("every source is the server"),
            may("DESTType", ValueKind::List).filter("DESTINATION_TYPE"),
            may("LIBRary", ValueKind::List).filter("LIBRARY_NAME"),
            FORMAT.accepted("everything is always shown"),
        ],
        |_| &report::PATH,
        "`admin library show`",
    ),
    query(
        "POlicyset",
        &[DOMAIN, SET, FORMAT.accepted("everything is always shown")],
        |_| &report::POLICYSET,
        "`admin policy show`",
    ),
    query(
        "PRocess",
        &[pattern("process_number", "PROCESS_NUM")],
        |_| &report::PROCESS,
        "`admin tasks`, `admin event list`",
    ),
    query(
        "REQuest",
        &[pattern("request_number", "REQUEST_ID")],
        |_| &report::REQUEST,
        "`admin queue`",
    ),
    query(
        "SCHedule",
        &[
            DOMAIN,
            SCHEDULE,
            may("Nodes", ValueKind::List).any_word("FOLLOWERS"),
            CLIENT_OR_ADMIN,
            FORMAT,
        ],
        |request| if is_admin(request) { &report::ADMIN_SCHEDULE } else { &report::SCHEDULE },
        "`admin schedule list`, `admin schedule show`",
    ),
    query(
        "SEssion",
        &[
            pattern("session_number", "SESSION_ID"),
            may("CLIENTName", ValueKind::List).filter("CLIENT_NAME"),
            may("Type", ValueKind::Word(&["Any", "Node", "Admin", "Server"])).choices(
                "SESSION_TYPE",
                &[
                    choice("ANY", "*"),
                    choice("NODE", "Node"),
                    choice("ADMIN", "Admin"),
                    choice("SERVER", "Server"),
                ],
            ),
            FORMAT.accepted("everything is always shown"),
        ],
        |_| &report::SESSION,
        "`admin event list`",
    ),
    query("STatus", &[], |_| &report::STATUS, "`admin servers`"),
    query(
        "STGpool",
        &[
            pattern("pool_name", "STGPOOL_NAME"),
            may("POoltype", ValueKind::Word(&["ANY", "PRimary", "COpy", "ACTIVEdata"])).choices(
                "POOLTYPE",
                &[
                    choice("ANY", "*"),
                    choice("PRIMARY", "PRIMARY"),
                    choice("COPY", "COPY"),
                    choice("ACTIVEDATA", "ACTIVEDATA"),
                ],
            ),
            FORMAT,
        ],
        |_| &report::STGPOOL,
        "`admin pool list`",
    ),
    query("SYStem", &[], |_| &report::STATUS, "`admin servers`; one query for each other noun"),
    query(
        "VOLHistory",
        &[may("Type", ValueKind::Word(VOLUME_TYPES)).choices(
            "TYPE",
            &[
                choice("ALL", "*"),
                choice("DBBACKUP", "BACKUP*"),
                choice("DBDUMP", "DBDUMP"),
                choice("DBRPF", "DBRPF"),
                choice("DBSNAPSHOT", "DBSNAPSHOT"),
                choice("EXPORT", "EXPORT"),
                choice("BACKUPSET", "BACKUPSET"),
                choice("REMOTE", "REMOTE"),
                choice("RPFILE", "RPFILE"),
                choice("RPFSNAPSHOT", "RPFSNAPSHOT"),
                choice("STGDELETE", "STGDELETE"),
                choice("STGNEW", "STGNEW"),
                choice("STGREUSE", "STGREUSE"),
            ],
        )],
        |_| &report::DBBACKUP,
        "`admin catalog list`",
    ),
    query(
        "VOLume",
        &[
            pattern("volume_name", "VOLUME_NAME"),
            may("ACCess", ValueKind::List).filter("ACCESS"),
            may("STatus", ValueKind::List).filter("STATUS"),
            may("STGpool", ValueKind::List).filter("STGPOOL_NAME"),
            may("DEVclass", ValueKind::List).filter("DEVCLASS_NAME"),
            FORMAT,
        ],
        |_| &report::VOLUME,
        "`admin volume list`",
    ),
    query(
        "SERver",
        &[pattern("server_name", "SERVER_NAME")],
        |_| &report::STATUS,
        "`admin servers`",
    ),
];
