//! The layers of the workspace, and the arrows that are allowed between crates.
//!
//! ```text
//!   free  holdfast  bench  e2e  fuzz  xtask  sim  disk
//!   L6    image
//!   L5    hsm baseline mount
//!   L4    alerts  server  client
//!   L3    tape  store
//!   L2    index  catalog  pool  nbd  gpu  journal  web
//!   L1    policy  chunk  format  wire
//!   L0    model  sys
//! ```
//!
//! A crate depends on crates of lower layers only. The free crates combine the others, and only
//! free crates depend on free crates.

/// Layer of a crate. A crate may depend on crates of lower layers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Layer {
    Numbered(u8),
    Free,
}

/// A dependency between two crates, and the reason why it is an exception to the layers.
struct Arrow {
    from: &'static str,
    to: &'static str,
    reason: &'static str,
}

const LAYERS: [(&str, u8); 25] = [
    ("model", 0),
    ("sys", 0),
    ("policy", 1),
    ("chunk", 1),
    ("format", 1),
    ("wire", 1),
    ("index", 2),
    ("catalog", 2),
    ("pool", 2),
    ("nbd", 2),
    ("gpu", 2),
    ("journal", 2),
    ("web", 2),
    ("tape", 3),
    ("store", 3),
    ("alerts", 4),
    ("server", 4),
    ("client", 4),
    ("agent", 5),
    ("api", 5),
    ("baseline", 5),
    ("hsm", 5),
    ("mount", 5),
    ("dsm", 5),
    ("image", 6),
];
const FREE: [&str; 7] = ["holdfast", "bench", "e2e", "fuzz", "xtask", "sim", "disk"];

const ALLOWED: [Arrow; 3] = [
    Arrow {
        from: "sys",
        to: "model",
        reason: "its functions take and return names and times of model",
    },
    Arrow { from: "chunk", to: "format", reason: "format defines the bytes of a quantum" },
    Arrow { from: "store", to: "tape", reason: "store decides which pack goes to which volume" },
];
const REFUSED: [Arrow; 12] = [
    Arrow { from: "hsm", to: "server", reason: "it may know the server only through wire" },
    Arrow { from: "baseline", to: "server", reason: "it may know the server only through wire" },
    Arrow { from: "mount", to: "server", reason: "it may know the server only through wire" },
    Arrow { from: "image", to: "server", reason: "it may know the server only through wire" },
    Arrow { from: "hsm", to: "store", reason: "it may know the server only through wire" },
    Arrow { from: "client", to: "store", reason: "it may know the server only through wire" },
    Arrow { from: "client", to: "catalog", reason: "it may know the server only through wire" },
    Arrow { from: "client", to: "pool", reason: "it may know the server only through wire" },
    Arrow { from: "policy", to: "sys", reason: "crates of layer 1 must do no I/O" },
    Arrow { from: "chunk", to: "sys", reason: "crates of layer 1 must do no I/O" },
    Arrow { from: "format", to: "sys", reason: "crates of layer 1 must do no I/O" },
    Arrow { from: "wire", to: "sys", reason: "crates of layer 1 must do no I/O" },
];

/// Returns the layer of the crate `name`; `None` for a crate outside the workspace.
pub(crate) fn layer(name: &str) -> Option<Layer> {
    if FREE.contains(&name) {
        return Some(Layer::Free);
    }
    LAYERS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, layer)| Layer::Numbered(*layer))
}

/// Returns the reason why `from` must not depend on `to`, if there is one.
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
            Some("only free crates may depend on a free crate".to_owned())
        }
        (Layer::Numbered(upper), Layer::Numbered(lower)) => {
            (lower >= upper).then(|| format!("layer {upper} must not depend on layer {lower}"))
        }
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
