//! `bench browser`: how soon the page shows something in Chromium, with many nodes.
//!
//! The server, the browser and its script share this machine. Each load begins in a browser that
//! has kept nothing, and Chromium keeps nothing of a server whose certificate it does not trust.

use std::fs;

use e2e::harness::{Browser, api};
use e2e::scratch::Scratch;
use serde_json::{Value, json};

use crate::arguments::{PageArgs, number};
use crate::output;
use crate::page;
use crate::spread::Spread;
use crate::trouble::{Context as _, Trouble};

const PASSWORD: &str = "correct horse battery";
const LOGIN: &str = "root";
const NODES_DEFAULT: usize = 10_000;
const NODES_MAX: usize = 100_000;
const ROUNDS_DEFAULT: usize = 5;
const ROUNDS_MAX: usize = 100;

/// Measure how soon the page shows something, with many nodes
///
/// Registers the nodes by the REST API, and loads screens in Debian's Chromium.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Number of registered nodes
    #[arg(long, value_name = "N")]
    #[arg(default_value_t = NODES_DEFAULT, value_parser = number(1..=NODES_MAX))]
    nodes: usize,
    /// Number of loads of each screen
    #[arg(long, value_name = "N")]
    #[arg(default_value_t = ROUNDS_DEFAULT, value_parser = number(1..=ROUNDS_MAX))]
    rounds: usize,
    #[command(flatten)]
    page: PageArgs,
}

pub(crate) fn run(args: &Args) -> Result<(), Trouble> {
    let browser = Browser::new().ok_or_else(|| Trouble::new("this machine has no Chromium"))?;
    let loads = measure(args, &browser, &Scratch::new())?;
    let text = text(args, &loads);
    page::write(&args.page.out, "browser.md", &text)?;
    output::result(&if args.page.json { loads.to_string() } else { text })
}

/// Returns the samples of each screen.
fn measure(args: &Args, browser: &Browser, place: &Scratch) -> Result<Value, Trouble> {
    let (server, stranger) = api::start(&place.join("server"));
    let password = place.join("password");
    fs::write(&password, PASSWORD).while_doing(|| "write the password".to_owned())?;
    let file = password.display().to_string();
    server.admin(&["user", "add", LOGIN, "--role", "system", "--password-file", &file]);
    let key = server.admin(&["key", "add", "--user", LOGIN, "--kind", "full"]);
    output::step(&format!("registering {}", output::counted(args.nodes, "node")));
    let facts = json!({
        "url": stranger.url(),
        "login": LOGIN,
        "password": PASSWORD,
        "key": key["token"],
        "nodes": args.nodes,
        "rounds": args.rounds,
    });
    Ok(browser.play("paint", &facts))
}

fn text(args: &Args, loads: &Value) -> String {
    let head = page::head("The page in a browser");
    let rows: Vec<Vec<String>> = loads
        .as_object()
        .into_iter()
        .flatten()
        .map(|(screen, samples)| {
            let spread = |key, unit| page::cell(spread(samples, key, unit), 0);
            vec![
                screen.clone(),
                spread("paint", 1.0),
                spread("shown", 1.0),
                spread("bytes", 1000.0),
            ]
        })
        .collect();
    let head_of_table = ["screen", "first paint, ms", "first content, ms", "loaded, kB"];
    format!(
        "{head}\n{} are registered, and each screen is loaded {} by a browser that has kept \
         nothing. First paint is Chromium's first contentful paint. First content is the moment at \
         which figures or rows from the server stand on the screen.\n\n{}",
        output::counted(args.nodes, "node"),
        output::counted(args.rounds, "time"),
        page::table(&head_of_table, &rows)
    )
}

/// Returns the values of the samples under `key`, in a unit that is `unit` times as large.
fn spread(samples: &Value, key: &str, unit: f64) -> Spread {
    let samples = samples.as_array().into_iter().flatten();
    Spread::of(samples.filter_map(|sample| sample[key].as_f64()).map(|value| value / unit))
}
