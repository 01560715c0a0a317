//! The layers of the workspace and which arrows between crates are allowed.
//!
//! ```text
//!   free  holdfast  bench  e2e  xtask  sim
//!   L5    hsm
//!   L4    server  client
//!   L3    tape  store
//!   L2    index  catalog  pool
//!   L1    policy  chunk  format  wire
//!   L0    model  sys
//! ```
//!
//! A crate depends on crates of lower layers only. The free crates put the others together, and
//! only free crates depend on them.

/// Rank of a crate: it may depend on crates of lower ranks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Layer {
    Numbered(u8),
    Free,
}

/// A dependency that the layers alone judge wrongly, with the reason.
struct Arrow {
    from: &'static str,
    to: &'static str,
    reason: &'static str,
}

const LAYERS: [(&str, u8); 14] = [
    ("model", 0),
    ("sys", 0),
    ("policy", 1),
    ("chunk", 1),
    ("format", 1),
    ("wire", 1),
    ("index", 2),
    ("catalog", 2),
    ("pool", 2),
    ("tape", 3),
    ("store", 3),
    ("server", 4),
    ("client", 4),
    ("hsm", 5),
];
const FREE: [&str; 5] = ["holdfast", "bench", "e2e", "xtask", "sim"];

const ALLOWED: [Arrow; 3] = [
    Arrow { from: "sys", to: "model", reason: "the seams speak in the model's names and times" },
    Arrow { from: "chunk", to: "format", reason: "a quantum is written in the format's bytes" },
    Arrow { from: "store", to: "tape", reason: "it decides which pack lies on which volume" },
];
const REFUSED: [Arrow; 9] = [
    Arrow { from: "hsm", to: "server", reason: "it knows the server through wire only" },
    Arrow { from: "hsm", to: "store", reason: "it knows the server through wire only" },
    Arrow { from: "client", to: "store", reason: "it knows the server through wire only" },
    Arrow { from: "client", to: "catalog", reason: "it knows the server through wire only" },
    Arrow { from: "client", to: "pool", reason: "it knows the server through wire only" },
    Arrow { from: "policy", to: "sys", reason: "L1 does no I/O" },
    Arrow { from: "chunk", to: "sys", reason: "L1 does no I/O" },
    Arrow { from: "format", to: "sys", reason: "L1 does no I/O" },
    Arrow { from: "wire", to: "sys", reason: "L1 does no I/O" },
];

/// The layer of the workspace's crate `name`; `None` for a crate from elsewhere.
pub(crate) fn layer(name: &str) -> Option<Layer> {
    if FREE.contains(&name) {
        return Some(Layer::Free);
    }
    LAYERS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, layer)| Layer::Numbered(*layer))
}

/// The reason why `from` must not depend on `to`, if there is one.
pub(crate) fn objection(from: &str, to: &str) -> Option<String> {
    let (Some(from_layer), Some(to_layer)) = (layer(from), layer(to)) else { return None };
    let named = |arrow: &&Arrow| arrow.from == from && arrow.to == to;
    if let Some(refused) = REFUSED.iter().find(named) {
        return Some(refused.reason.to_owned());
    }
    if ALLOWED.iter().any(|arrow| named(&arrow)) {
        return None;
    }
    match (from_layer, to_layer) {
        (Layer::Free, _) => None,
        (Layer::Numbered(_), Layer::Free) => {
            Some("nothing depends on the crates that compose the others".to_owned())
        }
        (Layer::Numbered(upper), Layer::Numbered(lower)) => (lower >= upper)
            .then(|| format!("arrows point only downwards, from L{upper} not to L{lower}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(from: &str, to: &str, allowed: bool) {
        let objection = objection(from, to);
        assert_eq!(objection.is_none(), allowed, "{from} -> {to}: {objection:?}");
    }

    #[test]
    fn arrows_point_downwards() {
        check("policy", "model", true);
        check("server", "pool", true);
        check("hsm", "client", true);
        check("server", "store", true);
        check("store", "server", false);
        check("model", "policy", false);
        check("pool", "server", false);
    }

    #[test]
    fn crates_of_one_layer_are_independent() {
        check("catalog", "index", false);
        check("catalog", "pool", false);
        check("pool", "catalog", false);
        check("index", "catalog", false);
        check("server", "client", false);
        check("client", "server", false);
        check("format", "chunk", false);
        check("model", "sys", false);
    }

    #[test]
    fn the_architecture_has_the_same_layers() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ARCHITECTURE.md");
        let text = std::fs::read_to_string(path).expect("it is in the tree");
        for (name, layer) in LAYERS {
            assert!(
                text.contains(&format!("\n| {layer} | `{name}` |")),
                "{name} is in layer {layer}"
            );
        }
        assert!(FREE.iter().all(|name| !text.contains(&format!(" | `{name}` | "))
            || text.contains(&format!("\n| - | `{name}` |"))));
    }

    #[test]
    fn the_exceptions_hold_one_way() {
        for Arrow { from, to, reason } in ALLOWED {
            check(from, to, true);
            check(to, from, false);
            assert!(!reason.is_empty());
        }
        for Arrow { from, to, .. } in REFUSED {
            check(from, to, false);
        }
    }

    #[test]
    fn free_crates_compose_the_others_and_each_other() {
        check("holdfast", "server", true);
        check("bench", "e2e", true);
        check("server", "sim", false);
    }

    #[test]
    fn crates_from_elsewhere_are_not_judged() {
        check("server", "tokio", true);
        assert_eq!(layer("tokio"), None);
    }
}
