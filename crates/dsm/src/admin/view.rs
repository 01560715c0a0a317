//! Views: tables with TSM's names and columns.
//!
//! The columns of a view stand in one text, each with a mark for its kind:
//!
//! ```text
//!   NODE_NAME@     a name: equal in upper and lower case, and shown in capitals
//!   REG_TIME!      a time: 2026-11-26 15:20:30.000000
//!   NUM_FILES#     a whole number
//!   PCT_UTILIZED%  a number with one decimal; %% has two
//!   PLATFORM_NAME  any other text
//! ```
//!
//! A value that the server does not report is missing. It is empty in a report, and NULL in SQL.

/// Kind of the values in a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Text,
    Name,
    Time,
    Integer,
    /// A number with this number of decimals.
    Decimal(u8),
}

/// A column of a view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    pub name: &'static str,
    pub kind: Kind,
}

/// A view.
#[derive(Debug)]
pub struct View {
    pub name: &'static str,
    columns: &'static str,
    /// Source of its rows in Holdfast.
    pub source: &'static str,
}

/// A value of a view.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Value {
    #[default]
    Missing,
    Text(String),
    Integer(i64),
    Real(f64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Missing, T::into)
    }
}

/// Rows with their values, for programs.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Records {
    /// Names of the columns; each is there once.
    pub names: Vec<String>,
    pub rows: Vec<Vec<Value>>,
}

impl Records {
    /// Makes the records without rows. A name that is taken gets a number.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        let mut known: Vec<String> = Vec::new();
        for name in names {
            let numbered = (2..).map(|number| format!("{name}_{number}"));
            let free = std::iter::once(name.clone()).chain(numbered);
            let mut free = free.filter(|name| !known.contains(name));
            known.extend(free.next());
        }
        Self { names: known, rows: Vec::new() }
    }
}

/// Rows of a view.
#[derive(Debug)]
pub struct Table {
    pub view: &'static View,
    pub rows: Vec<Vec<Value>>,
}

impl View {
    pub fn columns(&self) -> impl Iterator<Item = Column> {
        self.columns.split_whitespace().map(|text| {
            let name = text.trim_end_matches(['@', '!', '#', '%']);
            let kind = match &text[name.len()..] {
                "@" => Kind::Name,
                "!" => Kind::Time,
                "#" => Kind::Integer,
                "%" => Kind::Decimal(1),
                "%%" => Kind::Decimal(2),
                _ => Kind::Text,
            };
            Column { name, kind }
        })
    }

    /// Returns the place of a column. The column must be one of the view.
    pub fn index(&self, column: &str) -> usize {
        let found = self.columns().position(|known| known.name == column);
        found.unwrap_or_else(|| panic!("{} has no column {column}", self.name))
    }

    /// Makes a row with these values. All other columns have none.
    pub fn row<'n>(&self, values: impl IntoIterator<Item = (&'n str, Value)>) -> Vec<Value> {
        let mut row = vec![Value::Missing; self.columns().count()];
        for (column, value) in values {
            row[self.index(column)] = value;
        }
        row
    }
}

impl Table {
    pub fn new(view: &'static View) -> Self {
        Self { view, rows: Vec::new() }
    }

    /// Writes the values of all columns of names in capitals, as TSM keeps names.
    pub fn capitalise_names(&mut self) {
        let is_name =
            |(index, column): (usize, Column)| (column.kind == Kind::Name).then_some(index);
        let indexes: Vec<usize> = self.view.columns().enumerate().filter_map(is_name).collect();
        for row in &mut self.rows {
            for index in &indexes {
                if let Value::Text(name) = &mut row[*index] {
                    name.make_ascii_uppercase();
                }
            }
        }
    }

    /// Adds a row with these values.
    pub fn add<'n>(&mut self, values: impl IntoIterator<Item = (&'n str, Value)>) {
        self.rows.push(self.view.row(values));
    }
}

/// Returns the view with this name, in upper or lower case.
pub fn find(name: &str) -> Option<&'static View> {
    VIEWS.iter().copied().find(|view| view.name.eq_ignore_ascii_case(name))
}

/// Returns true if a view has a column `name` of times.
pub fn is_time(name: &str) -> bool {
    let mut columns = VIEWS.iter().flat_map(|view| view.columns());
    columns.any(|column| column.kind == Kind::Time && column.name.eq_ignore_ascii_case(name))
}

/// Returns the number of decimals of the column `name` in one of the views `among`, if it is one of
/// numbers with decimals.
pub fn decimals(name: &str, among: &[&str]) -> Option<u8> {
    let views = VIEWS.iter().filter(|view| among.contains(&view.name));
    let mut columns = views.flat_map(|view| view.columns());
    columns.find_map(|column| match column.kind {
        Kind::Decimal(decimals) if column.name.eq_ignore_ascii_case(name) => Some(decimals),
        _ => None,
    })
}

macro_rules! views {
    ($($name:ident($sql:literal, $source:literal) = $columns:literal;)+) => {
        $(pub static $name: View = View { name: $sql, columns: $columns, source: $source };)+
        /// All views.
        pub static VIEWS: &[&View] = &[$(&$name),+];
    };
}

views! {
    NODES("NODES", "holdfast admin node list") =
        "NODE_NAME@ PLATFORM_NAME DOMAIN_NAME@ PWSET_TIME! INVALID_PW_COUNT# CONTACT COMPRESSION \
         ARCHDELETE BACKDELETE LOCKED LASTACC_TIME! REG_TIME! REG_ADMIN@ LASTSESS_COMMMETH \
         LASTSESS_RECVD# LASTSESS_SENT# LASTSESS_DURATION# CLIENT_VERSION# CLIENT_RELEASE# \
         CLIENT_LEVEL# CLIENT_SUBLEVEL# CLIENT_OS_LEVEL OPTION_SET@ URL NODETYPE PASSEXP# KEEP_MP \
         MAX_MP_ALLOWED# COLLOCGROUP_NAME@ TCP_NAME TCP_ADDRESS GUID TXNGROUPMAX# EMAIL_ADDRESS \
         DEDUPLICATION LABELS SESSION_SECURITY TRANSPORT_METHOD APPLICATION_VERSION# \
         APPLICATION_RELEASE# APPLICATION_LEVEL# APPLICATION_SUBLEVEL# LASTSESS_IDLEWAIT% \
         LASTSESS_COMMWAIT% LASTSESS_MEDIAWAIT% AUTO_FS_RENAME VALIDATEPROTOCOL DATAWRITEPATH \
         DATAREADPATH SESSION_INITIATION CLIENT_HLA CLIENT_LLA PROXY_TARGET PROXY_AGENT \
         AUTHENTICATION SSL_REQUIRED REPL_STATE REPL_MODE CLIENT_OS_NAME";
    FILESPACES("FILESPACES", "holdfast admin node show") =
        "NODE_NAME@ FILESPACE_NAME FILESPACE_ID# FILESPACE_TYPE CAPACITY# PCT_UTIL% \
         BACKUP_START! BACKUP_END! DELETE_OCCURRED! UNICODE_FILESPACE FILESPACE_HEXNAME \
         NUM_ACTIVE# PLATFORM";
    OCCUPANCY("OCCUPANCY", "holdfast admin stats") =
        "NODE_NAME@ TYPE FILESPACE_NAME STGPOOL_NAME@ NUM_FILES# PHYSICAL_MB%% LOGICAL_MB%% \
         REPORTING_MB%% FILESPACE_ID#";
    AUDITOCC("AUDITOCC", "holdfast admin stats") =
        "NODE_NAME@ BACKUP_MB# BACKUP_COPY_MB# ARCHIVE_MB# ARCHIVE_COPY_MB# SPACEMG_MB# \
         SPACEMG_COPY_MB# TOTAL_MB#";
    BACKUPS("BACKUPS", "holdfast admin node versions") =
        "NODE_NAME@ FILESPACE_NAME FILESPACE_ID# STATE TYPE HL_NAME LL_NAME OBJECT_ID# \
         BACKUP_DATE! DEACTIVATE_DATE! OWNER CLASS_NAME@ FILE_SIZE#";
    ARCHIVES("ARCHIVES", "holdfast admin node versions --archives") =
        "NODE_NAME@ FILESPACE_NAME FILESPACE_ID# TYPE HL_NAME LL_NAME OBJECT_ID# ARCHIVE_DATE! \
         OWNER DESCRIPTION CLASS_NAME@ FILE_SIZE#";
    VOLUMES("VOLUMES", "holdfast admin volume list") =
        "VOLUME_NAME@ STGPOOL_NAME@ DEVCLASS_NAME@ EST_CAPACITY_MB% PCT_UTILIZED% STATUS ACCESS \
         PCT_RECLAIM% SCRATCH ERROR_STATE WRITE_ERRORS# READ_ERRORS# TIMES_MOUNTED# \
         LAST_WRITE_DATE! LAST_READ_DATE! PENDING_DATE! LOCATION CHG_TIME! CHG_ADMIN@ \
         COLLOCGROUP_NAME@ SCALEDCAP_APPLIED NUM_SIDES# WRITE_PASS# MVSLF_CAPABLE \
         BEGIN_RCLM_DATE! END_RCLM_DATE! VOL_ENCR_KEYMGR";
    CONTENTS("CONTENTS", "the versions that have data on one volume") =
        "VOLUME_NAME@ NODE_NAME@ TYPE FILESPACE_NAME FILE_NAME AGGREGATED FILE_SIZE# SEGMENT \
         CACHED FILESPACE_ID# CLASS_NAME@ DEACTIVATE_DATE!";
    STGPOOLS("STGPOOLS", "holdfast admin pool list") =
        "STGPOOL_NAME@ POOLTYPE DEVCLASS@ STG_TYPE EST_CAPACITY_MB% SPACE_USED_MB% TRIGGERUTIL% \
         PCT_UTILIZED% PCT_MIGR% PCT_LOGICAL% HIGHMIG# LOWMIG# MIGPROCESS# NEXTSTGPOOL@ MAXSIZE# \
         ACCESS DESCRIPTION OVFLOCATION CACHE COLLOCATE RECLAIM# MAXSCRATCH# NUMSCRATCHUSED# \
         REUSEDELAY# MIGDELAY# MIGCONTINUE CRCDATA DEDUPLICATE TOTAL_CLOUD_SPACE_MB% \
         USED_CLOUD_SPACE_MB% LOCAL_EST_CAPACITY_MB% LOCAL_PCT_LOGICAL% LOCAL_PCT_UTILIZED% URL \
         MISSING_MB% RECLAIMPROCESS# SPACE_SAVED_MB% COMP_SPACE_SAVED_MB% DEDUP_SPACE_SAVED_MB% \
         MIGR_RUNNING MIGR_MB% MIGR_SECONDS# RECL_RUNNING RECL_VOLUME@ RECLAIMSTGPOOL@ \
         OFFSITERCLMLIMIT RECLAMATIONTYPE COPYSTGPOOLS COPYCONTINUE ACTIVEDATAPOOLS DATAFORMAT \
         LANFREE SHREDDING CHG_TIME! CHG_ADMIN@";
    EVENTS("EVENTS", "holdfast admin event list") =
        "SCHEDULED_START! ACTUAL_START! DOMAIN_NAME@ SCHEDULE_NAME@ NODE_NAME@ STATUS RESULT# \
         REASON COMPLETED!";
    SUMMARY("SUMMARY", "holdfast admin event list, holdfast admin tasks") =
        "START_TIME! END_TIME! ACTIVITY NUMBER# ENTITY@ COMMMETH ADDRESS SCHEDULE_NAME@ EXAMINED# \
         AFFECTED# FAILED# BYTES# IDLE# MEDIAW# PROCESSES# SUCCESSFUL VOLUME_NAME@ DRIVE_NAME@ \
         LIBRARY_NAME@ LAST_USE COMM_WAIT# NUM_OFFSITE_VOLS# BYTES_PROTECTED# BYTES_WRITTEN# \
         DEDUP_SAVINGS# COMP_SAVINGS#";
    SUMMARY_EXTENDED("SUMMARY_EXTENDED", "as SUMMARY") =
        "START_TIME! END_TIME! ACTIVITY NUMBER# ENTITY@ COMMMETH ADDRESS SCHEDULE_NAME@ EXAMINED# \
         AFFECTED# FAILED# BYTES# IDLE# MEDIAW# PROCESSES# SUCCESSFUL VOLUME_NAME@ DRIVE_NAME@ \
         LIBRARY_NAME@ LAST_USE COMM_WAIT# NUM_OFFSITE_VOLS# BYTES_PROTECTED# BYTES_WRITTEN# \
         DEDUP_SAVINGS# COMP_SAVINGS# ACTIVITY_TYPE ACTIVITY_DETAILS";
    ACTLOG("ACTLOG", "holdfast admin log, event list, tasks") =
        "DATE_TIME! MSGNO# SEVERITY MESSAGE ORIGINATOR NODENAME@ OWNERNAME@ SCHEDNAME@ DOMAINNAME@ \
         SESSID# SERVERNAME SESSION# PROCESS#";
    PROCESSES("PROCESSES", "holdfast admin tasks, event list") =
        "PROCESS_NUM# PROCESS START_TIME! FILES_PROCESSED# BYTES_PROCESSED# STATUS";
    SESSIONS("SESSIONS", "holdfast admin event list") =
        "SESSION_ID# START_TIME! COMMMETHOD STATE WAIT_SECONDS# BYTES_SENT# BYTES_RECEIVED# \
         SESSION_TYPE CLIENT_PLATFORM CLIENT_NAME@ OWNER_NAME SCHEDULE_NAME@ MOUNT_POINT_WAIT \
         INPUT_MOUNT_WAIT INPUT_VOL_WAIT INPUT_VOL_ACCESS OUTPUT_MOUNT_WAIT OUTPUT_VOL_WAIT \
         OUTPUT_VOL_ACCESS LAST_VERB VERB_STATE";
    DOMAINS("DOMAINS", "holdfast admin domain list") =
        "DOMAIN_NAME@ SET_LAST_ACTIVATED@ ACTIVATE_DATE! DEFMGMTCLASS@ NUM_NODES# BACKRETENTION# \
         ARCHRETENTION# DESCRIPTION CHG_TIME! CHG_ADMIN@ ACTIVEDESTINATION HAS_DRAFT";
    POLICYSETS("POLICYSETS", "holdfast admin policy show") =
        "DOMAIN_NAME@ SET_NAME@ DEFMGMTCLASS@ DESCRIPTION CHG_TIME! CHG_ADMIN@";
    MGMTCLASSES("MGMTCLASSES", "holdfast admin policy show") =
        "DOMAIN_NAME@ SET_NAME@ CLASS_NAME@ DEFAULTMC DESCRIPTION SPACEMGTECHNIQUE \
         AUTOMIGNONUSE# MIGREQUIRESBKUP MIGDESTINATION@ CHG_TIME! CHG_ADMIN@ LOCKED_UNTIL!";
    BU_COPYGROUPS("BU_COPYGROUPS", "holdfast admin policy show") =
        "DOMAIN_NAME@ SET_NAME@ CLASS_NAME@ COPYGROUP_NAME@ VEREXISTS VERDELETED RETEXTRA RETONLY \
         MODE SERIALIZATION FREQUENCY# DESTINATION@ TOC_DESTINATION@ CHG_TIME! CHG_ADMIN@";
    AR_COPYGROUPS("AR_COPYGROUPS", "holdfast admin policy show") =
        "DOMAIN_NAME@ SET_NAME@ CLASS_NAME@ COPYGROUP_NAME@ RETVER MODE SERIALIZATION FREQUENCY \
         DESTINATION@ RETINIT RETMIN# CHG_TIME! CHG_ADMIN@";
    CLIENT_SCHEDULES("CLIENT_SCHEDULES", "holdfast admin schedule list") =
        "DOMAIN_NAME@ SCHEDULE_NAME@ DESCRIPTION ACTION OPTIONS OBJECTS PRIORITY# STARTDATE \
         STARTTIME DURATION# DURUNITS PERIOD# PERUNITS DAYOFWEEK EXPIRATION CHG_TIME! CHG_ADMIN@ \
         SCHED_STYLE ENH_MONTH DAYOFMONTH WEEKOFMONTH ACTIVE TIME_ZONE FOLLOWERS";
    ADMIN_SCHEDULES("ADMIN_SCHEDULES", "holdfast admin schedule list") =
        "SCHEDULE_NAME@ DESCRIPTION ACTION CMD PRIORITY# STARTDATE STARTTIME DURATION# DURUNITS \
         PERIOD# PERUNITS DAYOFWEEK EXPIRATION CHG_TIME! CHG_ADMIN@ SCHED_STYLE ENH_MONTH \
         DAYOFMONTH WEEKOFMONTH ACTIVE TIME_ZONE";
    ASSOCIATIONS("ASSOCIATIONS", "holdfast admin schedule show") =
        "DOMAIN_NAME@ SCHEDULE_NAME@ NODE_NAME@ CHG_TIME! CHG_ADMIN@";
    LIBRARIES("LIBRARIES", "holdfast admin library list") =
        "LIBRARY_NAME@ LIBRARY_TYPE DEVICE SHARED AUTOLABEL OBEYMOUNTRETENTION SERIAL_NUMBER \
         MOUNTRETENTION# MOUNTLIMIT# PROBLEM LAST_UPDATE_BY@ LAST_UPDATE! ACS_ID# PRIVATE_CAT# \
         SCRATCH_CAT# SCRATCH_WORM# EXT_MGR LANFREE PRIMARY_LIB_MGR WWN RESETDRIVES";
    DRIVES("DRIVES", "holdfast admin library show") =
        "LIBRARY_NAME@ DRIVE_NAME@ DEVICE_TYPE ONLINE READ_FORMATS WRITE_FORMATS ELEMENT# \
         DRIVE_STATE VOLUME_NAME@ ALLOCATED_TO CLEAN_FREQ DRIVE_SERIAL LAST_UPDATE_BY@ \
         LAST_UPDATE! PROBLEM ACS_DRIVE_ID WWN";
    PATHS("PATHS", "holdfast admin library show") =
        "SOURCE_NAME@ SOURCE_TYPE DESTINATION_NAME@ DESTINATION_TYPE LIBRARY_NAME@ NODE_NAME@ \
         DEVICE ONLINE LAST_UPDATE_BY@ LAST_UPDATE! INITIATOR# LUN# DIRECTORY";
    LIBVOLUMES("LIBVOLUMES", "holdfast admin volume list, library show") =
        "LIBRARY_NAME@ VOLUME_NAME@ STATUS OWNER LAST_USE HOME_ELEMENT# CLEANINGS_LEFT# DEVTYPE \
         MEDIATYPE";
    MOUNTS("MOUNTS", "holdfast admin library show") =
        "VOLUME_NAME@ LIBRARY_NAME@ DRIVE_NAME@ STATUS";
    REQUESTS("REQUESTS", "holdfast admin queue") =
        "REQUEST_ID# KIND NODE_NAME@ USER_ID# PROGRAM VOLUME_NAME@ PACKS# PACKS_DONE# AHEAD# \
         ESTIMATE_SECONDS# SINCE!";
    ADMINS("ADMINS", "the users who may open the administration socket") =
        "ADMIN_NAME@ LASTACC_TIME! PWSET_TIME! CONTACT LOCKED INVALID_PW_COUNT# SYSTEM_PRIV \
         POLICY_PRIV STORAGE_PRIV OPERATOR_PRIV REG_TIME! REG_ADMIN@ CLIENT_ACCESS CLIENT_OWNER \
         PASSEXP# EMAIL_ADDRESS AUTHENTICATION SSL_REQUIRED SESSION_SECURITY TRANSPORT_METHOD";
    STATUS("STATUS", "holdfast admin servers") =
        "SERVER_NAME@ SERVER_HLA SERVER_LLA PLATFORM VERSION# RELEASE# LEVEL# SUBLEVEL# \
         RESTART_DATE! AVAILABILITY ACCOUNTING ACTLOGRETENTION# LICENSECOMPLIANCE KEEPS_HOUSE \
         SILENT_SECONDS# BACKUPS# DISK_ERRORS# LAST_DISK_ERROR HOLD INSTALL_DATE! \
         SCHEDULER AUTHENTICATION PASSEXP# INVALIDPWLIMIT# MINPWLENGTH# REGISTRATION ACTLOGSIZE# \
         SUMMARYRETENTION# EVENTRETENTION# MAXSESSIONS# MAXSCHEDSESSIONS# CLIENTACTDURATION# \
         RANDOMIZE QUERYSCHEDPERIOD MAXCMDRETRIES RETRYPERIOD SCHEDMODE LOGMODE";
    DB("DB", "holdfast admin catalog list") =
        "DATABASE_NAME TOT_FILE_SYSTEM_MB# USED_DB_SPACE_MB# FREE_SPACE_MB# TOTAL_PAGES# \
         USABLE_PAGES# USED_PAGES# FREE_PAGES# BUFF_HIT_RATIO% TOTAL_BUFF_REQ# SORT_OVERFLOW# \
         PKG_HIT_RATIO% PCT_UTILIZED% LAST_BACKUP_DATE! NUM_BACKUPS# LAST_REORG! LOCK_ESCALATION# \
         FULL_DEV_CLASS NUM_BACKUP_INCR#";
    LOG("LOG", "the log file of the catalogue") =
        "TOTAL_SPACE_MB% USED_SPACE_MB% FREE_SPACE_MB% PCT_UTILIZED% ACTIVE_LOG_DIR ARCH_LOG_DIR \
         MIRROR_LOG_DIR AFAILOVER_LOG_DIR";
    VOLHISTORY("VOLHISTORY", "holdfast admin catalog list") =
        "DATE_TIME! TYPE BACKUP_SERIES# BACKUP_OPERATION# VOLUME_SEQ# DEVCLASS VOLUME_NAME \
         LOCATION BYTES# IS_DOUBTFUL";
    CLOPTSETS("CLOPTSETS", "holdfast admin optionset list") =
        "OPTIONSET_NAME@ DESCRIPTION LAST_UPDATE_BY@ LAST_UPDATE! VERSION#";
    CLIENTOPTS("CLIENTOPTS", "holdfast admin optionset show") =
        "OPTIONSET_NAME@ OPTION_NAME@ SEQNUMBER# OPTION_VALUE FORCE";
    COLLOCGROUP("COLLOCGROUP", "holdfast admin node list") = "COLLOCGROUP_NAME@ NODE_NAME@";
    SYSDUMMY1("SYSDUMMY1", "one row, for expressions without a table") = "IBMREQD";
    TABLES("TABLES", "these tables") = "TABSCHEMA TABNAME@ COLCOUNT# REMARKS";
    COLUMNS("COLUMNS", "the columns of these tables") =
        "TABSCHEMA TABNAME@ COLNAME@ COLNO# TYPENAME LENGTH# SCALE# REMARKS";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn views_and_their_columns_have_names_of_their_own() {
        let names: BTreeSet<&str> = VIEWS.iter().map(|view| view.name).collect();
        assert_eq!(names.len(), VIEWS.len());
        for view in VIEWS {
            let columns: Vec<Column> = view.columns().collect();
            let names: BTreeSet<&str> = columns.iter().map(|column| column.name).collect();
            assert_eq!(names.len(), columns.len(), "{}", view.name);
            let is_name =
                |name: &str| name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric());
            assert!(names.iter().all(|name| is_name(name)), "{}", view.name);
        }
    }

    #[test]
    fn names_are_in_capitals_and_other_text_is_not() {
        let mut table = Table::new(&FILESPACES);
        table.add([("NODE_NAME", "anna".into()), ("FILESPACE_NAME", "/home".into())]);
        table.capitalise_names();
        assert_eq!(table.rows[0][..2], [Value::from("ANNA"), Value::from("/home")]);
    }

    #[test]
    fn a_row_has_a_value_for_each_column() {
        let row = NODES.row([("NODE_NAME", "anna".into()), ("REG_TIME", Value::Missing)]);
        assert_eq!(row.len(), NODES.columns().count());
        assert_eq!(row[0], Value::Text("anna".to_owned()));
        assert_eq!(Value::from(None::<u64>), Value::Missing);
        assert!(is_time("end_time") && !is_time("ENTITY"));
        assert_eq!(find("nodes").map(|view| view.name), Some("NODES"));
        let records = Records::new(["A", "B", "A", "A_2"].map(str::to_owned));
        assert_eq!(records.names, ["A", "B", "A_2", "A_2_2"]);
    }
}
