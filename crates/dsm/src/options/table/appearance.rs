//! Options of the output.

use crate::options::definition::{Definition, Homes, Kind, done, flag, needless, option};

const SCROLL: &str = "the output is not stopped at each page; pipe it into a pager";

pub(super) const OPTIONS: &[Definition] = &[
    option(
        "DATEformat",
        Kind::Number { min: 0, max: 7 },
        Homes::OPT_CMD,
        done("the form of dates, in what is written and in what is read"),
    ),
    option(
        "TIMEformat",
        Kind::Number { min: 0, max: 7 },
        Homes::OPT_CMD,
        done("the form of times"),
    ),
    option(
        "NUMberformat",
        Kind::Number { min: 0, max: 6 },
        Homes::OPT_CMD,
        done("the marks of thousands and decimals"),
    ),
    option(
        "LANGuage",
        Kind::Text,
        Homes::ANY,
        needless("messages are in English, which scripts can rely on"),
    ),
    option("QUIET", Kind::Flag, Homes::OPT_CMD, done("no line for each file")),
    option(
        "VERBose",
        Kind::Flag,
        Homes::OPT_CMD,
        done("a line for each file that is sent or restored"),
    ),
    option("SCROLLLines", Kind::Number { min: 1, max: 80 }, Homes::OPT_CMD, needless(SCROLL)),
    option("SCROLLPrompt", Kind::YesNo, Homes::OPT_CMD, needless(SCROLL)),
    flag("JSON", done("the documents of Holdfast's own commands instead of TSM's lines")),
];
