//! Commands of TSM that this program does not have, with the reason, and what does it instead.

use super::definition::{Action, Command};

const fn refused(verb: &'static str, noun: &'static str, reason: &'static str) -> Command {
    Command {
        verb,
        noun,
        parameters: &[],
        action: Action::Unsupported,
        becomes: reason,
        question: "",
    }
}

const ADMINISTRATORS: &str =
    "root and the owner of the server's folder administer it, and their rights are not divided";
const LIBRARY: &str = "'holdfast admin library add' makes a library with its drives";
const OTHER_SERVERS: &str =
    "several servers share one catalogue, and 'holdfast server join' adds one";
const REPLICATION: &str =
    "'holdfast admin pool add --copy' and 'holdfast admin pool copy' keep second copies";
const SCRIPTS: &str = "write a macro, or a shell script that calls dsmadmc";
const SETTINGS: &str = "settings of the server are in server.toml";
const RECOVERY: &str =
    "'holdfast server recovery' writes the file from which a server is made again";

pub(super) static COMMANDS: &[Command] = &[
    refused(
        "Query",
        "DEVclass",
        "Holdfast has no device classes; a pool names its folder, bucket or library",
    ),
    refused("Query", "LICense", "Holdfast needs no licence"),
    refused("Query", "MEDia", "'query libvolume' and 'query volume' list the volumes"),
    refused("Query", "DRMedia", "'query volume access=offsite' lists volumes that are away"),
    refused("Query", "OPTion", SETTINGS),
    refused("Query", "SCRipt", SCRIPTS),
    refused("Query", "NODEGroup", "nodes have labels: 'holdfast admin node set NODE --label'"),
    refused(
        "Query",
        "PROXynode",
        "a node is restored under its own name: 'holdfast admin node add NODE --again'",
    ),
    refused("Query", "RESTore", "an interrupted restore is run again, and goes on"),
    refused("Query", "REPLICation", REPLICATION),
    refused("Query", "NODEData", "the catalogue does not list the volumes of a node"),
    refused("Query", "SPACETrigger", "'holdfast admin pool list' shows the marks of pools"),
    refused("Query", "CLEANup", "'query process' lists the work under way"),
    refused("Query", "CONTAINer", "packs have numbers and no names; 'query stgpool' counts them"),
    refused("Query", "ENabled", "'query node' shows the nodes that are locked"),
    refused("Query", "EXPORT", "Holdfast exports nothing"),
    refused("REGister", "ADmin", ADMINISTRATORS),
    refused("REGister", "LICense", "Holdfast needs no licence"),
    refused("UPDate", "ADmin", ADMINISTRATORS),
    refused("REMove", "ADmin", ADMINISTRATORS),
    refused("REName", "ADmin", ADMINISTRATORS),
    refused("REName", "STGpool", "a pool keeps its name"),
    refused("REName", "FIlespace", "a filespace has the name of its mount point"),
    refused("LOCK", "ADmin", ADMINISTRATORS),
    refused("UNLOCK", "ADmin", ADMINISTRATORS),
    refused("GRant", "AUTHority", ADMINISTRATORS),
    refused(
        "GRant",
        "PROXynode",
        "a node is restored under its own name: 'holdfast admin node add NODE --again'",
    ),
    refused("REVoke", "AUTHority", ADMINISTRATORS),
    refused("REVoke", "PROXynode", "there are no proxy nodes"),
    refused("DEFine", "STGpool", "'holdfast admin pool add NAME URL' makes a pool"),
    refused(
        "DEFine",
        "DEVclass",
        "Holdfast has no device classes; 'holdfast admin pool add NAME URL' names the place",
    ),
    refused("DEFine", "LIBRary", LIBRARY),
    refused("DEFine", "DRive", LIBRARY),
    refused("DEFine", "PATH", LIBRARY),
    refused("DEFine", "Volume", "'holdfast admin volume label' makes volumes"),
    refused("DEFine", "SERver", OTHER_SERVERS),
    refused("DEFine", "SCRipt", SCRIPTS),
    refused("DEFine", "COLLOCGroup", "'update node NODE collocgroup=GROUP' makes the group"),
    refused(
        "DEFine",
        "COLLOCMember",
        "'update node NODE collocgroup=GROUP' puts a node into a group",
    ),
    refused("DEFine", "NODEGroup", "nodes have labels: 'holdfast admin node set NODE --label'"),
    refused("DEFine", "SPACETrigger", "'holdfast admin pool set --capacity' limits a pool"),
    refused("DEFine", "DBSpace", "'holdfast admin catalog move' moves the catalogue"),
    refused("DEFine", "STGRule", "'holdfast admin pool set --next' and '--delay' move data by age"),
    refused("DELete", "DRive", LIBRARY),
    refused("DELete", "PATH", LIBRARY),
    refused("DELete", "VOLHistory", "old copies of the catalogue go by themselves"),
    refused("DELete", "SCRipt", SCRIPTS),
    refused("DELete", "EVent", "'event_days' of server.toml says how long events are kept"),
    refused("UPDate", "LIBRary", "'holdfast admin library set' changes a library"),
    refused("UPDate", "PATH", LIBRARY),
    refused("UPDate", "CLIENTOpt", "an option has one value, and no number"),
    refused("UPDate", "SCRipt", SCRIPTS),
    refused("RUn", "", SCRIPTS),
    refused("SET", "", SETTINGS),
    refused("SETOPT", "", SETTINGS),
    refused("SHow", "", "'holdfast admin servers' and the log of the server tell its state"),
    refused("ENable", "SEssions", "'unlock node' admits nodes"),
    refused("DISAble", "SEssions", "'lock node' refuses nodes"),
    refused("AUDit", "LICenses", "Holdfast needs no licence"),
    refused("AUDit", "STGpool", "'holdfast admin audit' reads all pools outside of libraries"),
    refused("DELete", "DEVclass", "Holdfast has no device classes"),
    refused("DELete", "COLLOCGroup", "a group without nodes is gone"),
    refused(
        "DELete",
        "COLLOCMember",
        "'update node NODE collocgroup=\"\"' takes a node out of its group",
    ),
    refused("UPDate", "DEVclass", "Holdfast has no device classes"),
    refused("BAckup", "VOLHistory", RECOVERY),
    refused("BAckup", "DEVCONFig", RECOVERY),
    refused("BAckup", "Node", "'holdfast admin run NODE -- backup' backs a node up now"),
    refused("PREPARE", "", RECOVERY),
    refused("RESTORE", "STGpool", "'holdfast admin pool repair' repairs packs from other pools"),
    refused("RESTORE", "Volume", "'holdfast admin pool repair' repairs packs from other pools"),
    refused("PROTect", "STGpool", REPLICATION),
    refused("REPLicate", "Node", REPLICATION),
    refused("EXPort", "Node", "Holdfast exports nothing"),
    refused(
        "IMport",
        "Node",
        "'holdfast dsm import' takes option files; data is restored and backed up",
    ),
    refused("GENerate", "BACKUPSET", "'holdfast image backup' and copy pools take this place"),
    refused("MOVe", "DRMedia", "'update volume VOLUME access=offsite' takes a volume away"),
    refused("MOVe", "NODEdata", "'move data' empties a volume; pools collocate by themselves"),
    refused("REPLY", "", "no operator is waited for"),
];
