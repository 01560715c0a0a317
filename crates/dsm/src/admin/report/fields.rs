//! The fields of each answer, with TSM's headings.

use super::{Field, Form, Report};
use crate::admin::view::{self, View};

const fn plain(heading: &'static str, columns: &'static str, width_max: usize) -> Field {
    Field { heading, columns, width_max, form: Form::Plain }
}

const fn count(heading: &'static str, columns: &'static str) -> Field {
    Field { heading, columns, width_max: 14, form: Form::Count(0) }
}

const fn decimals(heading: &'static str, columns: &'static str, number: u8) -> Field {
    Field { heading, columns, width_max: 14, form: Form::Count(number) }
}

const fn time(heading: &'static str, columns: &'static str) -> Field {
    Field { heading, columns, width_max: 20, form: Form::Time }
}

const fn days_since(heading: &'static str, columns: &'static str) -> Field {
    Field { heading, columns, width_max: 10, form: Form::DaysSince }
}

const fn report(view: &'static View, standard: &'static [Field], order: &'static str) -> Report {
    Report { view, standard, detailed: &[], order, without_rows: "" }
}

pub static NODE: Report = Report {
    detailed: &[
        plain("Node Name", "NODE_NAME", 64),
        plain("Platform", "PLATFORM_NAME", 16),
        plain("Client OS Level", "CLIENT_OS_LEVEL", 16),
        Field {
            heading: "Client Version",
            columns: "CLIENT_VERSION CLIENT_RELEASE CLIENT_LEVEL CLIENT_SUBLEVEL",
            width_max: 40,
            form: Form::Version,
        },
        plain("Policy Domain Name", "DOMAIN_NAME", 30),
        time("Last Access Date/Time", "LASTACC_TIME"),
        days_since("Days Since Last Access", "LASTACC_TIME"),
        time("Password Set Date/Time", "PWSET_TIME"),
        days_since("Days Since Password Set", "PWSET_TIME"),
        plain("Locked?", "LOCKED", 7),
        plain("Contact", "CONTACT", 30),
        plain("Compression", "COMPRESSION", 16),
        plain("Archive Delete Allowed?", "ARCHDELETE", 8),
        plain("Backup Delete Allowed?", "BACKDELETE", 8),
        time("Registration Date/Time", "REG_TIME"),
        plain("Registering Administrator", "REG_ADMIN", 30),
        plain("Last Communication Method Used", "LASTSESS_COMMMETH", 16),
        count("Bytes Received Last Session", "LASTSESS_RECVD"),
        count("Bytes Sent Last Session", "LASTSESS_SENT"),
        plain("Optionset", "OPTION_SET", 30),
        plain("URL", "URL", 40),
        plain("Node Type", "NODETYPE", 12),
        plain("Password Expiration Period", "PASSEXP", 12),
        plain("Keep Mount Point?", "KEEP_MP", 8),
        count("Maximum Mount Points Allowed", "MAX_MP_ALLOWED"),
        plain("TCP/IP Name", "TCP_NAME", 40),
        plain("TCP/IP Address", "TCP_ADDRESS", 40),
        plain("Collocation Group Name", "COLLOCGROUP_NAME", 30),
        plain("Email Address", "EMAIL_ADDRESS", 40),
        plain("Deduplication", "DEDUPLICATION", 20),
        plain("Session Security", "SESSION_SECURITY", 16),
        plain("Transport Method", "TRANSPORT_METHOD", 16),
        plain("Labels", "LABELS", 40),
        plain("Client OS Name", "CLIENT_OS_NAME", 40),
    ],
    ..report(
        &view::NODES,
        &[
            plain("Node Name", "NODE_NAME", 25),
            plain("Platform", "PLATFORM_NAME", 8),
            plain("Policy Domain Name", "DOMAIN_NAME", 14),
            days_since("Days Since Last Access", "LASTACC_TIME"),
            days_since("Days Since Password Set", "PWSET_TIME"),
            plain("Locked?", "LOCKED", 7),
        ],
        "NODE_NAME",
    )
};

pub static FILESPACE: Report = Report {
    detailed: &[
        plain("Node Name", "NODE_NAME", 64),
        plain("Filespace Name", "FILESPACE_NAME", 64),
        plain("Hexadecimal Filespace Name", "FILESPACE_HEXNAME", 64),
        plain("FSID", "FILESPACE_ID", 8),
        plain("Platform", "PLATFORM", 16),
        plain("Filespace Type", "FILESPACE_TYPE", 16),
        plain("Is Filespace Unicode?", "UNICODE_FILESPACE", 8),
        count("Capacity", "CAPACITY"),
        decimals("Pct Util", "PCT_UTIL", 1),
        time("Last Backup Start Date/Time", "BACKUP_START"),
        time("Last Backup Completion Date/Time", "BACKUP_END"),
        days_since("Days Since Last Backup Completed", "BACKUP_END"),
        count("Number of Active Objects", "NUM_ACTIVE"),
    ],
    ..report(
        &view::FILESPACES,
        &[
            plain("Node Name", "NODE_NAME", 20),
            plain("Filespace Name", "FILESPACE_NAME", 30),
            plain("FSID", "FILESPACE_ID", 4),
            plain("Platform", "PLATFORM", 8),
            plain("Filespace Type", "FILESPACE_TYPE", 9),
            plain("Is Filespace Unicode?", "UNICODE_FILESPACE", 9),
            count("Capacity", "CAPACITY"),
            decimals("Pct Util", "PCT_UTIL", 1),
        ],
        "",
    )
};

pub static OCCUPANCY: Report = report(
    &view::OCCUPANCY,
    &[
        plain("Node Name", "NODE_NAME", 20),
        plain("Type", "TYPE", 4),
        plain("Filespace Name", "FILESPACE_NAME", 30),
        plain("FSID", "FILESPACE_ID", 4),
        plain("Storage Pool Name", "STGPOOL_NAME", 14),
        count("Number of Files", "NUM_FILES"),
        decimals("Physical Space Occupied (MB)", "PHYSICAL_MB", 2),
        decimals("Logical Space Occupied (MB)", "LOGICAL_MB", 2),
    ],
    "",
);

pub static AUDIT_OCCUPANCY: Report = report(
    &view::AUDITOCC,
    &[
        plain("Client Node Name", "NODE_NAME", 25),
        count("Backup Storage Used (MB)", "BACKUP_MB"),
        count("Archive Storage Used (MB)", "ARCHIVE_MB"),
        count("Space-Managed Storage Used (MB)", "SPACEMG_MB"),
        count("Total Storage Used (MB)", "TOTAL_MB"),
    ],
    "NODE_NAME",
);

pub static SESSION: Report = report(
    &view::SESSIONS,
    &[
        count("Sess Number", "SESSION_ID"),
        plain("Comm. Method", "COMMMETHOD", 7),
        plain("Sess State", "STATE", 6),
        plain("Wait Time", "WAIT_SECONDS", 7),
        count("Bytes Sent", "BYTES_SENT"),
        count("Bytes Recvd", "BYTES_RECEIVED"),
        plain("Sess Type", "SESSION_TYPE", 7),
        plain("Platform", "CLIENT_PLATFORM", 8),
        plain("Client Name", "CLIENT_NAME", 25),
    ],
    "",
);

pub static PROCESS: Report = Report {
    without_rows: "ANR0944E QUERY PROCESS: No active processes found.",
    ..report(
        &view::PROCESSES,
        &[
            count("Process Number", "PROCESS_NUM"),
            plain("Process Description", "PROCESS", 20),
            plain("Process Status", "STATUS", 40),
        ],
        "",
    )
};

pub static EVENT: Report = Report {
    detailed: &[
        plain("Policy Domain Name", "DOMAIN_NAME", 30),
        plain("Schedule Name", "SCHEDULE_NAME", 30),
        plain("Node Name", "NODE_NAME", 64),
        time("Scheduled Start", "SCHEDULED_START"),
        time("Actual Start", "ACTUAL_START"),
        time("Completed", "COMPLETED"),
        plain("Status", "STATUS", 12),
        plain("Result", "RESULT", 8),
        plain("Reason", "REASON", 60),
    ],
    ..report(
        &view::EVENTS,
        &[
            time("Scheduled Start", "SCHEDULED_START"),
            time("Actual Start", "ACTUAL_START"),
            plain("Schedule Name", "SCHEDULE_NAME", 13),
            plain("Node Name", "NODE_NAME", 13),
            plain("Status", "STATUS", 11),
        ],
        "SCHEDULED_START",
    )
};

/// Answer about schedules of the server itself.
pub static ADMIN_EVENT: Report = report(
    &view::EVENTS,
    &[
        time("Scheduled Start", "SCHEDULED_START"),
        time("Actual Start", "ACTUAL_START"),
        plain("Schedule Name", "SCHEDULE_NAME", 20),
        plain("Status", "STATUS", 11),
    ],
    "SCHEDULED_START",
);

pub static SCHEDULE: Report = Report {
    detailed: &[
        plain("Policy Domain Name", "DOMAIN_NAME", 30),
        plain("Schedule Name", "SCHEDULE_NAME", 30),
        plain("Description", "DESCRIPTION", 60),
        plain("Action", "ACTION", 14),
        plain("Options", "OPTIONS", 60),
        plain("Objects", "OBJECTS", 60),
        plain("Priority", "PRIORITY", 8),
        plain("Start Date/Time", "STARTDATE STARTTIME", 40),
        plain("Duration", "DURATION DURUNITS", 12),
        plain("Schedule Style", "SCHED_STYLE", 10),
        plain("Period", "PERIOD PERUNITS", 12),
        plain("Day of Week", "DAYOFWEEK", 30),
        plain("Month", "ENH_MONTH", 30),
        plain("Day of Month", "DAYOFMONTH", 30),
        plain("Week of Month", "WEEKOFMONTH", 30),
        plain("Expiration", "EXPIRATION", 12),
        plain("Active?", "ACTIVE", 8),
        plain("Time Zone", "TIME_ZONE", 30),
        plain("Last Update by (administrator)", "CHG_ADMIN", 30),
        time("Last Update Date/Time", "CHG_TIME"),
    ],
    ..report(
        &view::CLIENT_SCHEDULES,
        &[
            plain("Domain", "DOMAIN_NAME", 14),
            plain("Schedule Name", "SCHEDULE_NAME", 16),
            plain("Action", "ACTION", 8),
            plain("Start Date/Time", "STARTDATE STARTTIME", 19),
            plain("Duration", "DURATION DURUNITS", 9),
            plain("Period", "PERIOD PERUNITS", 8),
            plain("Day", "DAYOFWEEK", 7),
        ],
        "SCHEDULE_NAME",
    )
};

pub static ADMIN_SCHEDULE: Report = Report {
    detailed: &[
        plain("Schedule Name", "SCHEDULE_NAME", 30),
        plain("Description", "DESCRIPTION", 60),
        plain("Command", "CMD", 60),
        plain("Priority", "PRIORITY", 8),
        plain("Start Date/Time", "STARTDATE STARTTIME", 40),
        plain("Duration", "DURATION DURUNITS", 12),
        plain("Schedule Style", "SCHED_STYLE", 10),
        plain("Period", "PERIOD PERUNITS", 12),
        plain("Day of Week", "DAYOFWEEK", 30),
        plain("Active?", "ACTIVE", 8),
        plain("Expiration", "EXPIRATION", 12),
        plain("Last Update by (administrator)", "CHG_ADMIN", 30),
        time("Last Update Date/Time", "CHG_TIME"),
    ],
    ..report(
        &view::ADMIN_SCHEDULES,
        &[
            plain("Schedule Name", "SCHEDULE_NAME", 16),
            plain("Start Date/Time", "STARTDATE STARTTIME", 19),
            plain("Duration", "DURATION DURUNITS", 9),
            plain("Period", "PERIOD PERUNITS", 8),
            plain("Day", "DAYOFWEEK", 7),
        ],
        "SCHEDULE_NAME",
    )
};

pub static ASSOCIATION: Report = report(
    &view::ASSOCIATIONS,
    &[
        plain("Policy Domain Name", "DOMAIN_NAME", 30),
        plain("Schedule Name", "SCHEDULE_NAME", 30),
        plain("Associated Nodes", "NODE_NAME", 40),
    ],
    "",
);

pub static ACTLOG: Report =
    report(&view::ACTLOG, &[time("Date/Time", "DATE_TIME"), plain("Message", "MESSAGE", 55)], "");

pub static STGPOOL: Report = Report {
    detailed: &[
        plain("Storage Pool Name", "STGPOOL_NAME", 30),
        plain("Storage Pool Type", "POOLTYPE", 12),
        plain("Device Class Name", "DEVCLASS", 30),
        plain("Storage Type", "STG_TYPE", 12),
        plain("URL", "URL", 60),
        decimals("Estimated Capacity (MB)", "EST_CAPACITY_MB", 1),
        decimals("Space Used (MB)", "SPACE_USED_MB", 1),
        decimals("Pct Util", "PCT_UTILIZED", 1),
        decimals("Pct Migr", "PCT_MIGR", 1),
        count("High Mig Pct", "HIGHMIG"),
        count("Low Mig Pct", "LOWMIG"),
        count("Migration Delay", "MIGDELAY"),
        plain("Next Storage Pool", "NEXTSTGPOOL", 30),
        count("Reclamation Threshold", "RECLAIM"),
        count("Maximum Scratch Volumes Allowed", "MAXSCRATCH"),
        count("Number of Scratch Volumes Used", "NUMSCRATCHUSED"),
        plain("Delay Period for Volume Reuse", "REUSEDELAY", 12),
        plain("Access", "ACCESS", 12),
        plain("Description", "DESCRIPTION", 40),
        plain("Collocate?", "COLLOCATE", 12),
        plain("Deduplicate Data?", "DEDUPLICATE", 8),
        decimals("Data Missing in this Copy Pool (MB)", "MISSING_MB", 1),
    ],
    ..report(
        &view::STGPOOLS,
        &[
            plain("Storage Pool Name", "STGPOOL_NAME", 14),
            plain("Device Class Name", "DEVCLASS", 12),
            decimals("Estimated Capacity (MB)", "EST_CAPACITY_MB", 1),
            decimals("Pct Util", "PCT_UTILIZED", 1),
            decimals("Pct Migr", "PCT_MIGR", 1),
            count("High Mig Pct", "HIGHMIG"),
            count("Low Mig Pct", "LOWMIG"),
            plain("Next Storage Pool", "NEXTSTGPOOL", 14),
        ],
        "STGPOOL_NAME",
    )
};

pub static VOLUME: Report = Report {
    detailed: &[
        plain("Volume Name", "VOLUME_NAME", 40),
        plain("Storage Pool Name", "STGPOOL_NAME", 30),
        plain("Device Class Name", "DEVCLASS_NAME", 30),
        decimals("Estimated Capacity (MB)", "EST_CAPACITY_MB", 1),
        decimals("Pct Util", "PCT_UTILIZED", 1),
        plain("Volume Status", "STATUS", 12),
        plain("Access", "ACCESS", 12),
        decimals("Pct. Reclaimable Space", "PCT_RECLAIM", 1),
        plain("Scratch Volume?", "SCRATCH", 8),
        plain("In Error State?", "ERROR_STATE", 8),
        time("Approx. Date Last Written", "LAST_WRITE_DATE"),
        time("Date Became Pending", "PENDING_DATE"),
        count("Number of Write Errors", "WRITE_ERRORS"),
        count("Number of Read Errors", "READ_ERRORS"),
        plain("Volume Location", "LOCATION", 40),
        plain("Collocation Group", "COLLOCGROUP_NAME", 30),
        plain("Last Update by (administrator)", "CHG_ADMIN", 30),
        time("Last Update Date/Time", "CHG_TIME"),
    ],
    ..report(
        &view::VOLUMES,
        &[
            plain("Volume Name", "VOLUME_NAME", 24),
            plain("Storage Pool Name", "STGPOOL_NAME", 12),
            plain("Device Class Name", "DEVCLASS_NAME", 10),
            decimals("Estimated Capacity (MB)", "EST_CAPACITY_MB", 1),
            decimals("Pct Util", "PCT_UTILIZED", 1),
            plain("Volume Status", "STATUS", 8),
        ],
        "VOLUME_NAME",
    )
};

pub static LIBRARY: Report = Report {
    detailed: &[
        plain("Library Name", "LIBRARY_NAME", 30),
        plain("Library Type", "LIBRARY_TYPE", 10),
        plain("Device", "DEVICE", 60),
        plain("Shared", "SHARED", 8),
        plain("AutoLabel", "AUTOLABEL", 10),
        count("Mount Retention (seconds)", "MOUNTRETENTION"),
        count("Mount Limit", "MOUNTLIMIT"),
        plain("Serial Number", "SERIAL_NUMBER", 30),
        plain("Problem", "PROBLEM", 60),
    ],
    ..report(
        &view::LIBRARIES,
        &[
            plain("Library Name", "LIBRARY_NAME", 20),
            plain("Library Type", "LIBRARY_TYPE", 10),
            plain("Device", "DEVICE", 30),
            plain("Shared", "SHARED", 6),
        ],
        "LIBRARY_NAME",
    )
};

pub static DRIVE: Report = Report {
    detailed: &[
        plain("Library Name", "LIBRARY_NAME", 30),
        plain("Drive Name", "DRIVE_NAME", 30),
        plain("Device Type", "DEVICE_TYPE", 30),
        plain("On-Line", "ONLINE", 8),
        plain("Drive State", "DRIVE_STATE", 12),
        plain("Volume Name", "VOLUME_NAME", 24),
        plain("Element", "ELEMENT", 8),
        plain("Serial Number", "DRIVE_SERIAL", 30),
        plain("Problem", "PROBLEM", 60),
    ],
    ..report(
        &view::DRIVES,
        &[
            plain("Library Name", "LIBRARY_NAME", 14),
            plain("Drive Name", "DRIVE_NAME", 14),
            plain("Device Type", "DEVICE_TYPE", 16),
            plain("On-Line", "ONLINE", 7),
        ],
        "",
    )
};

pub static PATH: Report = report(
    &view::PATHS,
    &[
        plain("Source Name", "SOURCE_NAME", 20),
        plain("Source Type", "SOURCE_TYPE", 8),
        plain("Destination Name", "DESTINATION_NAME", 16),
        plain("Destination Type", "DESTINATION_TYPE", 11),
        plain("Library", "LIBRARY_NAME", 14),
        plain("Device", "DEVICE", 24),
        plain("On-Line", "ONLINE", 7),
    ],
    "",
);

pub static CONTENT: Report = Report {
    detailed: &[
        plain("Node Name", "NODE_NAME", 64),
        plain("Type", "TYPE", 4),
        plain("Filespace Name", "FILESPACE_NAME", 64),
        plain("Client's Name for File", "FILE_NAME", 256),
        count("Stored Size", "FILE_SIZE"),
        plain("Management Class", "CLASS_NAME", 30),
        time("Deactivated", "DEACTIVATE_DATE"),
    ],
    ..report(
        &view::CONTENTS,
        &[
            plain("Node Name", "NODE_NAME", 15),
            plain("Type", "TYPE", 4),
            plain("Filespace Name", "FILESPACE_NAME", 20),
            plain("Client's Name for File", "FILE_NAME", 40),
        ],
        "",
    )
};

pub static LIBVOLUME: Report = report(
    &view::LIBVOLUMES,
    &[
        plain("Library Name", "LIBRARY_NAME", 14),
        plain("Volume Name", "VOLUME_NAME", 14),
        plain("Status", "STATUS", 10),
        plain("Owner", "OWNER", 10),
        plain("Last Use", "LAST_USE", 8),
        plain("Home Element", "HOME_ELEMENT", 8),
        plain("Device Type", "DEVTYPE", 6),
    ],
    "VOLUME_NAME",
);

pub static MOUNT: Report = report(
    &view::MOUNTS,
    &[
        plain("Volume Name", "VOLUME_NAME", 20),
        plain("Library Name", "LIBRARY_NAME", 16),
        plain("Drive Name", "DRIVE_NAME", 16),
        plain("Status", "STATUS", 12),
    ],
    "VOLUME_NAME",
);

pub static REQUEST: Report = Report {
    without_rows: "ANR8346I QUERY REQUEST: No requests are outstanding.",
    ..report(
        &view::REQUESTS,
        &[
            plain("Request Number", "REQUEST_ID", 8),
            plain("Kind", "KIND", 8),
            plain("Node Name", "NODE_NAME", 20),
            plain("Volume Name", "VOLUME_NAME", 12),
            count("Packs", "PACKS"),
            count("Packs Read", "PACKS_DONE"),
            count("Requests Ahead", "AHEAD"),
            count("Seconds Left", "ESTIMATE_SECONDS"),
        ],
        "",
    )
};

pub static DB: Report = Report {
    detailed: &[
        plain("Database Name", "DATABASE_NAME", 30),
        count("Total Space of File System (MB)", "TOT_FILE_SYSTEM_MB"),
        count("Space Used by Database (MB)", "USED_DB_SPACE_MB"),
        count("Free Space Available (MB)", "FREE_SPACE_MB"),
        count("Total Pages", "TOTAL_PAGES"),
        count("Usable Pages", "USABLE_PAGES"),
        count("Used Pages", "USED_PAGES"),
        count("Free Pages", "FREE_PAGES"),
        count("Number of Backups", "NUM_BACKUPS"),
        time("Last Complete Backup Date/Time", "LAST_BACKUP_DATE"),
    ],
    ..report(
        &view::DB,
        &[
            plain("Database Name", "DATABASE_NAME", 12),
            count("Total Pages", "TOTAL_PAGES"),
            count("Usable Pages", "USABLE_PAGES"),
            count("Used Pages", "USED_PAGES"),
            count("Free Pages", "FREE_PAGES"),
            count("Space Used by Database (MB)", "USED_DB_SPACE_MB"),
        ],
        "",
    )
};

pub static DBBACKUP: Report = report(
    &view::VOLHISTORY,
    &[
        time("Date/Time", "DATE_TIME"),
        plain("Volume Type", "TYPE", 12),
        plain("Backup Series", "BACKUP_SERIES", 8),
        plain("Volume Name", "VOLUME_NAME", 20),
        plain("Pools", "LOCATION", 30),
        count("Bytes", "BYTES"),
        plain("Doubtful?", "IS_DOUBTFUL", 9),
    ],
    "",
);

pub static LOG: Report = Report {
    without_rows: "ANR2034E QUERY LOG: No match found using this criteria. The catalogue keeps its \
                   own log, which needs no care.",
    ..report(
        &view::LOG,
        &[
            decimals("Total Space (MB)", "TOTAL_SPACE_MB", 1),
            decimals("Used Space (MB)", "USED_SPACE_MB", 1),
            decimals("Free Space (MB)", "FREE_SPACE_MB", 1),
        ],
        "",
    )
};

pub static STATUS: Report = report(
    &view::STATUS,
    &[
        plain("Server Name", "SERVER_NAME", 40),
        plain("Server Address", "SERVER_HLA SERVER_LLA", 40),
        plain("Platform", "PLATFORM", 16),
        plain("Server Version", "VERSION", 8),
        plain("Server Release", "RELEASE", 8),
        plain("Server Level", "LEVEL", 8),
        time("Server Restart Date/Time", "RESTART_DATE"),
        plain("Availability", "AVAILABILITY", 12),
        plain("Keeps House", "KEEPS_HOUSE", 8),
        count("Backups in Progress", "BACKUPS"),
        count("Disk Errors since Restart", "DISK_ERRORS"),
        plain("Last Disk Error", "LAST_DISK_ERROR", 60),
        plain("Held", "HOLD", 60),
    ],
    "",
);

pub static DOMAIN: Report = Report {
    detailed: &[
        plain("Policy Domain Name", "DOMAIN_NAME", 30),
        plain("Activated Policy Set", "SET_LAST_ACTIVATED", 30),
        plain("Activated Default Mgmt Class", "DEFMGMTCLASS", 30),
        count("Number of Registered Nodes", "NUM_NODES"),
        plain("Description", "DESCRIPTION", 40),
        count("Backup Retention (Grace Period)", "BACKRETENTION"),
        count("Archive Retention (Grace Period)", "ARCHRETENTION"),
        plain("Last Update by (administrator)", "CHG_ADMIN", 30),
        time("Last Update Date/Time", "CHG_TIME"),
        plain("Changes Pending", "HAS_DRAFT", 8),
    ],
    ..report(
        &view::DOMAINS,
        &[
            plain("Policy Domain Name", "DOMAIN_NAME", 14),
            plain("Activated Policy Set", "SET_LAST_ACTIVATED", 14),
            plain("Activated Default Mgmt Class", "DEFMGMTCLASS", 14),
            count("Number of Registered Nodes", "NUM_NODES"),
            plain("Description", "DESCRIPTION", 20),
            plain("Changes Pending", "HAS_DRAFT", 8),
        ],
        "DOMAIN_NAME",
    )
};

pub static POLICYSET: Report = report(
    &view::POLICYSETS,
    &[
        plain("Policy Domain Name", "DOMAIN_NAME", 16),
        plain("Policy Set Name", "SET_NAME", 16),
        plain("Default Mgmt Class Name", "DEFMGMTCLASS", 16),
        plain("Description", "DESCRIPTION", 20),
    ],
    "",
);

pub static MGMTCLASS: Report = Report {
    detailed: &[
        plain("Policy Domain Name", "DOMAIN_NAME", 30),
        plain("Policy Set Name", "SET_NAME", 30),
        plain("Mgmt Class Name", "CLASS_NAME", 30),
        plain("Default Mgmt Class?", "DEFAULTMC", 8),
        plain("Description", "DESCRIPTION", 40),
        plain("Space Management Technique", "SPACEMGTECHNIQUE", 16),
        plain("Auto-Migrate on Non-Use", "AUTOMIGNONUSE", 12),
        plain("Backup Required Before Migration", "MIGREQUIRESBKUP", 8),
        time("Locked until", "LOCKED_UNTIL"),
        plain("Last Update by (administrator)", "CHG_ADMIN", 30),
        time("Last Update Date/Time", "CHG_TIME"),
    ],
    ..report(
        &view::MGMTCLASSES,
        &[
            plain("Policy Domain Name", "DOMAIN_NAME", 14),
            plain("Policy Set Name", "SET_NAME", 14),
            plain("Mgmt Class Name", "CLASS_NAME", 16),
            plain("Default Mgmt Class ?", "DEFAULTMC", 8),
            plain("Description", "DESCRIPTION", 20),
        ],
        "",
    )
};

pub static BACKUP_COPYGROUP: Report = Report {
    detailed: &[
        plain("Policy Domain Name", "DOMAIN_NAME", 30),
        plain("Policy Set Name", "SET_NAME", 30),
        plain("Mgmt Class Name", "CLASS_NAME", 30),
        plain("Copy Group Name", "COPYGROUP_NAME", 30),
        plain("Versions Data Exists", "VEREXISTS", 8),
        plain("Versions Data Deleted", "VERDELETED", 8),
        plain("Retain Extra Versions", "RETEXTRA", 8),
        plain("Retain Only Version", "RETONLY", 8),
        plain("Copy Mode", "MODE", 12),
        plain("Copy Serialization", "SERIALIZATION", 14),
        plain("Copy Frequency", "FREQUENCY", 8),
        plain("Copy Destination", "DESTINATION", 30),
        plain("Last Update by (administrator)", "CHG_ADMIN", 30),
        time("Last Update Date/Time", "CHG_TIME"),
    ],
    ..report(
        &view::BU_COPYGROUPS,
        &[
            plain("Policy Domain Name", "DOMAIN_NAME", 12),
            plain("Policy Set Name", "SET_NAME", 10),
            plain("Mgmt Class Name", "CLASS_NAME", 12),
            plain("Copy Group Name", "COPYGROUP_NAME", 10),
            plain("Versions Data Exists", "VEREXISTS", 8),
            plain("Versions Data Deleted", "VERDELETED", 8),
            plain("Retain Extra Versions", "RETEXTRA", 8),
            plain("Retain Only Version", "RETONLY", 8),
        ],
        "",
    )
};

pub static ARCHIVE_COPYGROUP: Report = Report {
    detailed: &[
        plain("Policy Domain Name", "DOMAIN_NAME", 30),
        plain("Policy Set Name", "SET_NAME", 30),
        plain("Mgmt Class Name", "CLASS_NAME", 30),
        plain("Copy Group Name", "COPYGROUP_NAME", 30),
        plain("Retain Version", "RETVER", 8),
        plain("Retention Initiation", "RETINIT", 10),
        plain("Retain Minimum Days", "RETMIN", 8),
        plain("Copy Serialization", "SERIALIZATION", 14),
        plain("Copy Mode", "MODE", 12),
        plain("Copy Destination", "DESTINATION", 30),
    ],
    ..report(
        &view::AR_COPYGROUPS,
        &[
            plain("Policy Domain Name", "DOMAIN_NAME", 16),
            plain("Policy Set Name", "SET_NAME", 16),
            plain("Mgmt Class Name", "CLASS_NAME", 16),
            plain("Copy Group Name", "COPYGROUP_NAME", 12),
            plain("Retain Version", "RETVER", 8),
        ],
        "",
    )
};

pub static CLOPTSET: Report = report(
    &view::CLIENTOPTS,
    &[
        plain("Optionset", "OPTIONSET_NAME", 20),
        plain("Option", "OPTION_NAME", 20),
        plain("Sequence number", "SEQNUMBER", 8),
        plain("Use Option Set Value (FORCE)", "FORCE", 10),
        plain("Option Value", "OPTION_VALUE", 40),
    ],
    "",
);

pub static COLLOCGROUP: Report = report(
    &view::COLLOCGROUP,
    &[
        plain("Collocation Group Name", "COLLOCGROUP_NAME", 30),
        plain("Group Members", "NODE_NAME", 30),
    ],
    "COLLOCGROUP_NAME",
);

pub static ADMIN: Report = report(
    &view::ADMINS,
    &[
        plain("Administrator Name", "ADMIN_NAME", 20),
        days_since("Days Since Last Access", "LASTACC_TIME"),
        days_since("Days Since Password Set", "PWSET_TIME"),
        plain("Locked?", "LOCKED", 7),
        plain("Privilege Classes", "SYSTEM_PRIV", 20),
    ],
    "ADMIN_NAME",
);

/// All reports, for the tests.
#[cfg(test)]
pub(super) static REPORTS: [&Report; 33] = [
    &NODE,
    &FILESPACE,
    &OCCUPANCY,
    &AUDIT_OCCUPANCY,
    &SESSION,
    &PROCESS,
    &EVENT,
    &ADMIN_EVENT,
    &SCHEDULE,
    &ADMIN_SCHEDULE,
    &ASSOCIATION,
    &ACTLOG,
    &STGPOOL,
    &VOLUME,
    &LIBRARY,
    &DRIVE,
    &PATH,
    &LIBVOLUME,
    &CONTENT,
    &MOUNT,
    &REQUEST,
    &DB,
    &DBBACKUP,
    &LOG,
    &STATUS,
    &DOMAIN,
    &POLICYSET,
    &MGMTCLASS,
    &BACKUP_COPYGROUP,
    &ARCHIVE_COPYGROUP,
    &CLOPTSET,
    &COLLOCGROUP,
    &ADMIN,
];
