//! Options of the command line alone.

use crate::options::definition::{Definition, Homes, Kind, done, needless, option};

pub(super) const OPTIONS: &[Definition] = &[
    option("OPTFILE", Kind::Path, Homes::CMD, done("reads this file in place of dsm.opt")),
    option(
        "DATAONLY",
        Kind::YesNo,
        Homes::CMD,
        done("results without the heading of the program and the session"),
    ),
    option("Host", Kind::Text, Homes::CMD, needless("the address of the server is in client.toml")),
    option(
        "TRACEFlags",
        Kind::Text,
        Homes::ANY_CMD,
        needless("HOLDFAST_LOG chooses messages for people who develop the program"),
    ),
    option(
        "TRACEFIle",
        Kind::Path,
        Homes::ANY_CMD,
        needless("HOLDFAST_LOG chooses messages for people who develop the program"),
    ),
    option(
        "TRACEMax",
        Kind::Text,
        Homes::ANY_CMD,
        needless("HOLDFAST_LOG chooses messages for people who develop the program"),
    ),
    option(
        "TRACESegsize",
        Kind::Text,
        Homes::ANY_CMD,
        needless("HOLDFAST_LOG chooses messages for people who develop the program"),
    ),
    option(
        "TESTFLags",
        Kind::Text,
        Homes::ANY_CMD,
        needless("flags of tests are for IBM's own program"),
    ),
];
