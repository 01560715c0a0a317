//! Options of schedules, of commands around them, and of the logs.

use crate::options::definition::{Definition, Homes, Kind, done, needless, option};

const OF_SCHEDULE: &str = "the schedule at the server says how often a task is tried again";

pub(super) const OPTIONS: &[Definition] = &[
    option(
        "MANAGEDServices",
        Kind::Text,
        Homes::SYS,
        done("dsmcad runs the agent; a web client is not needed, because the server has the page"),
    ),
    option(
        "SCHEDMODe",
        Kind::Word(&["polling", "prompted"]),
        Homes::SYS_CMD,
        done("mode in the section [agent] of client.toml"),
    ),
    option(
        "QUERYSCHedperiod",
        Kind::Number { min: 1, max: 9999 },
        Homes::SYS_CMD,
        done("poll_minutes in the section [agent] of client.toml"),
    ),
    option("MAXCMDRetries", Kind::Number { min: 0, max: 9999 }, Homes::SYS, needless(OF_SCHEDULE)),
    option("RETRyperiod", Kind::Number { min: 1, max: 9999 }, Homes::SYS, needless(OF_SCHEDULE)),
    option(
        "SCHEDCMDDisabled",
        Kind::YesNo,
        Homes::SYS,
        done("commands in the section [agent] of client.toml"),
    ),
    option(
        "SCHEDCMDException",
        Kind::Text,
        Homes::SYS,
        done("a command in the list commands of the section [agent] of client.toml"),
    ),
    option(
        "SCHEDRESTRetrdisabled",
        Kind::YesNo,
        Homes::SYS,
        done("restores in the section [agent] of client.toml"),
    ),
    option(
        "SRVPREPOSTSCHeddisabled",
        Kind::YesNo,
        Homes::SYS,
        done("commands_around in the section [agent] of client.toml"),
    ),
    option(
        "SRVPREPOSTSNapdisabled",
        Kind::YesNo,
        Homes::SYS,
        done("commands_around in the section [agent] of client.toml"),
    ),
    option(
        "SCHEDGROUP",
        Kind::Text,
        Homes::SYS,
        needless("one agent follows all schedules of a node"),
    ),
    option(
        "PRESChedulecmd",
        Kind::Text,
        Homes::ANY_CMD,
        done("pre_command in client.toml, for commands that a schedule has started"),
    ),
    option(
        "PRENschedulecmd",
        Kind::Text,
        Homes::ANY_CMD,
        done("pre_command in client.toml, in the background"),
    ),
    option(
        "POSTSChedulecmd",
        Kind::Text,
        Homes::ANY_CMD,
        done("post_command in client.toml, for commands that a schedule has started"),
    ),
    option(
        "POSTNschedulecmd",
        Kind::Text,
        Homes::ANY_CMD,
        done("post_command in client.toml, in the background"),
    ),
    option("SCHEDLOGName", Kind::Path, Homes::ANY_CMD, done("the log that dsmcad writes")),
    option(
        "SCHEDLOGRetention",
        Kind::Retention,
        Homes::ANY_CMD,
        done("older lines of the log are removed, or saved in dsmsched.pru"),
    ),
    option(
        "SCHEDLOGMAX",
        Kind::Number { min: 0, max: 2047 },
        Homes::ANY_CMD,
        done("a larger log keeps its newest lines, half as much as it may have"),
    ),
    option("ERRORLOGName", Kind::Path, Homes::ANY_CMD, done("the log of errors")),
    option(
        "ERRORLOGRetention",
        Kind::Retention,
        Homes::ANY_CMD,
        done("older lines of the log are removed, or saved in dsmerlog.pru"),
    ),
    option(
        "ERRORLOGMAX",
        Kind::Number { min: 0, max: 2047 },
        Homes::ANY_CMD,
        done("a larger log keeps its newest lines, half as much as it may have"),
    ),
    option(
        "AUTODEPLOY",
        Kind::Word(&["no", "noreboot", "yes"]),
        Homes::ANY,
        needless("packages of the system bring new versions of the client"),
    ),
    option(
        "RUNASService",
        Kind::YesNo,
        Homes::CMD,
        needless("systemd runs the agent as a service"),
    ),
];
