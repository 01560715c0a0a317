//! Options of the connection to the server, and of the node.

use crate::options::definition::{Definition, Homes, Kind, done, needless, option, refused};

const KERNEL: &str = "the kernel tunes this, and socket_buffer_bytes in client.toml can set it";
const TLS: &str = "each connection uses TLS 1.3, and the token of the enrolment names the server";
const ONE_PORT: &str = "one port serves nodes and administrators";
const NO_INBOUND: &str =
    "the agent keeps its own connection to the server, so nobody connects to it";
const NO_AGENT: &str = "there is no storage agent; data goes to the server on the network";
const SEVERAL: &str = "the server sends the addresses of its other servers to each node by itself";

pub(super) const OPTIONS: &[Definition] = &[
    option("SErvername", Kind::Text, Homes::ANY_CMD, done("begins or chooses a stanza of dsm.sys")),
    option("DEFAULTServer", Kind::Text, Homes::SYS, done("chooses the stanza that nobody names")),
    option("TCPServeraddress", Kind::Text, Homes::SYS_CMD, done("server in client.toml")),
    option(
        "TCPPort",
        Kind::Number { min: 1, max: 65_535 },
        Homes::SYS_CMD,
        done("the port of server in client.toml"),
    ),
    option(
        "NODename",
        Kind::Text,
        Homes::SYS_CMD,
        done(
            "the name with which the machine was enrolled, which must be the same; without it, \
             the name of the machine",
        ),
    ),
    option(
        "PASSWORDAccess",
        Kind::Word(&["prompt", "generate"]),
        Homes::SYS,
        done("the node's key and certificate, which renew themselves"),
    )
    .with(&[(
        "prompt",
        refused(
            "a node has a key in a file, and no password that a person could type",
            "write PASSWORDACCESS GENERATE; file permissions protect the key",
        ),
    )]),
    option(
        "PASSWORDDIR",
        Kind::Path,
        Homes::SYS,
        done("the folder with client.toml and node.pem; an old TSM.PWD in it is left alone"),
    ),
    option(
        "PAssword",
        Kind::Text,
        Homes::ANY_CMD,
        done(
            "a password, a token or an enrolment key, which makes the machine a node at its first \
             command",
        ),
    ),
    option(
        "MAILprog",
        Kind::Text,
        Homes::SYS,
        needless("a node has no password that changes, so nobody has to be written to"),
    ),
    option(
        "ASNODEname",
        Kind::Text,
        Homes::ANY_CMD,
        refused(
            "a node acts for itself only",
            "enrol a second node into a folder of its own, and name that folder with PASSWORDDIR",
        ),
    ),
    option(
        "VIRTUALNodename",
        Kind::Text,
        Homes::ANY_CMD,
        refused(
            "there is no password with which this machine could act as another node",
            "enrol the machine again under that name with 'holdfast admin node add NAME --again'",
        ),
    ),
    option(
        "FROMNode",
        Kind::Text,
        Homes::CMD,
        done("--from-node, for what that node lets this one read with 'set access'"),
    ),
    option(
        "FROMOwner",
        Kind::Text,
        Homes::CMD,
        refused(
            "the server keeps no owners apart from those in the files' attributes",
            "run the command without it",
        ),
    ),
    option(
        "COMMMethod",
        Kind::Word(&["tcpip", "v6tcpip", "sharedmem", "namedpipe"]),
        Homes::SYS_CMD,
        needless("TCP is the only way, over IPv4 and IPv6"),
    )
    .with(&[
        (
            "sharedmem",
            refused("there is no shared memory with the server", "write COMMMETHOD TCPIP"),
        ),
        ("namedpipe", refused("named pipes are on Windows only", "write COMMMETHOD TCPIP")),
    ]),
    option(
        "COMMRESTARTDuration",
        Kind::Number { min: 0, max: 9999 },
        Homes::SYS_CMD,
        done("minutes for which a command waits for a server that is away (--wait)"),
    ),
    option(
        "COMMRESTARTInterval",
        Kind::Number { min: 0, max: 65_535 },
        Homes::SYS_CMD,
        needless("the pauses between attempts grow by themselves"),
    ),
    option("TCPBuffsize", Kind::Number { min: 0, max: 512 }, Homes::SYS_CMD, needless(KERNEL)),
    option("TCPWindowsize", Kind::Number { min: 0, max: 2048 }, Homes::SYS_CMD, needless(KERNEL)),
    option("TCPNodelay", Kind::YesNo, Homes::SYS_CMD, needless("small messages are sent at once")),
    option("TCPADMINPort", Kind::Number { min: 1, max: 65_535 }, Homes::SYS, needless(ONE_PORT)),
    option("TCPCADAddress", Kind::Text, Homes::SYS_CMD, needless(NO_INBOUND)),
    option("TCPCLIENTAddress", Kind::Text, Homes::SYS_CMD, needless(NO_INBOUND)),
    option(
        "TCPCLIENTPort",
        Kind::Number { min: 0, max: 65_535 },
        Homes::SYS_CMD,
        needless(NO_INBOUND),
    ),
    option("HTTPport", Kind::Number { min: 0, max: 65_535 }, Homes::SYS, needless(NO_INBOUND)),
    option("WEBPorts", Kind::Text, Homes::SYS, needless(NO_INBOUND)),
    option("CADLISTENonport", Kind::YesNo, Homes::SYS, needless(NO_INBOUND)),
    option("SHMPort", Kind::Number { min: 0, max: 65_535 }, Homes::SYS, needless(ONE_PORT)),
    option(
        "SESSIONINITiation",
        Kind::Word(&["client", "serveronly", "clientorserver"]),
        Homes::SYS_CMD,
        needless(NO_INBOUND),
    )
    .with(&[(
        "serveronly",
        refused(
            "the node opens each connection, and the server none",
            "let the node reach the server's port, and remove the line",
        ),
    )]),
    option("SSL", Kind::YesNo, Homes::SYS_CMD, needless(TLS)),
    option(
        "SSLREQuired",
        Kind::Word(&["default", "yes", "no", "serveronly"]),
        Homes::SYS,
        needless(TLS),
    ),
    option("SSLACCEPTCERTFROMSERV", Kind::YesNo, Homes::SYS, needless(TLS)),
    option("SSLDISABLELEGACYtls", Kind::YesNo, Homes::SYS, needless(TLS)),
    option(
        "SSLFIPSMODE",
        Kind::YesNo,
        Homes::SYS,
        needless("TLS 1.3 with its own ciphers is in use"),
    )
    .with(&[(
        "yes",
        refused(
            "the cryptography of this program has no FIPS certificate",
            "remove the line if your rules allow it",
        ),
    )]),
    option("NRTABLEPath", Kind::Path, Homes::SYS, needless(SEVERAL)),
    option("MYPRIMARYSERVERname", Kind::Text, Homes::SYS, needless(SEVERAL)),
    option("MYREPLICATIONServer", Kind::Text, Homes::SYS, needless(SEVERAL)),
    option("REPLSERVERGUID", Kind::Text, Homes::SYS, needless(SEVERAL)),
    option("REPLSERVERNAME", Kind::Text, Homes::SYS, needless(SEVERAL)),
    option("REPLSSLPORT", Kind::Number { min: 1, max: 65_535 }, Homes::SYS, needless(SEVERAL)),
    option("REPLTCPPORT", Kind::Number { min: 1, max: 65_535 }, Homes::SYS, needless(SEVERAL)),
    option("REPLTCPSERVERADDRESS", Kind::Text, Homes::SYS, needless(SEVERAL)),
    option("USEREPLICATIONFAILOVER", Kind::YesNo, Homes::SYS, needless(SEVERAL)),
    option("FORCEFAILOVER", Kind::YesNo, Homes::SYS_CMD, needless(SEVERAL)),
    option("ENABLELanfree", Kind::YesNo, Homes::SYS_CMD, needless(NO_AGENT)),
    option(
        "LANFREECommmethod",
        Kind::Word(&["namedpipes", "tcpip", "v6tcpip", "sharedmem"]),
        Homes::SYS_CMD,
        needless(NO_AGENT),
    ),
    option(
        "LANFREEShmport",
        Kind::Number { min: 0, max: 65_535 },
        Homes::SYS_CMD,
        needless(NO_AGENT),
    ),
    option(
        "LANFREETCPport",
        Kind::Number { min: 0, max: 65_535 },
        Homes::SYS_CMD,
        needless(NO_AGENT),
    ),
    option("LANFREETCPSErveraddress", Kind::Text, Homes::SYS_CMD, needless(NO_AGENT)),
    option("LANFREESSL", Kind::YesNo, Homes::SYS, needless(NO_AGENT)),
    option(
        "GRoups",
        Kind::Text,
        Homes::SYS,
        refused(
            "the permissions of the node's folder decide who can use the node",
            "give the folder to that group, and remove the line",
        ),
    ),
    option(
        "USERS",
        Kind::Text,
        Homes::SYS,
        refused(
            "the permissions of the node's folder decide who can use the node",
            "give the folder to those users, and remove the line",
        ),
    ),
    option(
        "REVOKEremoteaccess",
        Kind::Word(&["access", "none"]),
        Homes::SYS,
        needless("nobody can open a session on this machine from elsewhere"),
    ),
    option(
        "ENABLEINSTRUMentation",
        Kind::YesNo,
        Homes::ANY_CMD,
        needless("each report has the times of all stages"),
    ),
    option(
        "INSTRLOGMAX",
        Kind::Number { min: 0, max: 2047 },
        Homes::ANY,
        needless("the times of the stages are in the report, and in no file"),
    ),
    option(
        "INSTRLOGName",
        Kind::Path,
        Homes::ANY,
        needless("the times of the stages are in the report, and in no file"),
    ),
    option("CLUSTERnode", Kind::YesNo, Homes::SYS, needless("a node is a folder, on any disk"))
        .with(&[(
            "yes",
            refused(
                "a cluster's node is an ordinary node whose folder is on the shared disk",
                "name that folder with PASSWORDDIR, and remove the line",
            ),
        )]),
];
