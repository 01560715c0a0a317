//! `holdfast admin reclaim`: frees the space of data that is no longer needed.

use client::Recompression;
use client::admin::{Admin, Reclamation, ReclamationRequest};
use serde::Serialize;

use super::recompression::{self, EffectDocument, EffortCheck};
use crate::context::Context;
use crate::error::{CommandError, DONE, WARNED};
use crate::output;
use crate::quantity;

/// Free the space of data that no version, archive or deletion needs any more
///
/// The server does this by itself after an expiration. Backups and restores continue meanwhile. A
/// run that is stopped with Ctrl-C or killed loses nothing, and the next run continues its work.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Example:
  holdfast admin --server /srv/holdfast reclaim --dry-run
  holdfast admin --server /srv/holdfast reclaim --dead-percent 20
  holdfast admin --server /srv/holdfast reclaim --recompress 15")]
pub(crate) struct Args {
    /// Show the size of the dead data, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Percent of a pack that must be dead before its live data is written again [default: the
    /// setting in server.toml]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=100))]
    dead_percent: Option<u32>,
    /// Compress harder what is written again: standard, or a level of zstd from 1 to 19; data that
    /// would not become smaller stays as it is [default: the setting in server.toml]
    #[arg(long, value_name = "LEVEL", allow_hyphen_values = true, conflicts_with = "dry_run")]
    recompress: Option<Recompression>,
    /// Release a server that was recovered, or whose catalogue was put back: from then on it
    /// removes data that its catalogue does not name; back up all nodes first
    #[arg(long, conflicts_with = "dry_run")]
    release: bool,
}

pub(super) fn run(
    args: &Args,
    admin: &mut Admin,
    context: &mut Context,
) -> Result<u8, CommandError> {
    let Args { dry_run, dead_percent, release, recompress } = *args;
    let request = ReclamationRequest { dry_run, dead_percent, release, recompress };
    let shows = context.shows_steps();
    let mut check = EffortCheck::new(recompress);
    let outcome = admin.reclaim(request, &mut |state| {
        check.see(state.recompression.as_ref());
        if shows {
            output::say(&format!(
                "pages and versions read: {}, {} written again, {} removed",
                quantity::count(state.examined),
                quantity::bytes_with_unit(state.bytes_rewritten),
                quantity::counted(state.packs_removed, "pack"),
            ));
        }
    })?;
    check.see(outcome.recompression.as_ref());
    if context.output.is_json() {
        context.output.json(&OutcomeDocument::new(&outcome, args.dry_run));
    } else {
        context.output.text(&text(&outcome, args.dry_run));
    }
    let is_whole = outcome.packs_unread == 0 && outcome.packs_stuck == 0;
    let code = if is_whole { DONE } else { WARNED };
    Ok(check.code(code))
}

fn text(outcome: &Reclamation, is_dry: bool) -> String {
    let all = format!(
        "{} with {}: {} of data is dead, before compression.\n",
        quantity::counted(outcome.packs, "pack"),
        quantity::bytes_with_unit(outcome.pack_bytes),
        quantity::bytes_with_unit(outcome.dead_bytes),
    );
    let unread = match outcome.packs_unread {
        0 => String::new(),
        count => format!(
            "{} cannot be read and {} as {} {}: run 'holdfast admin audit'.\n",
            quantity::counted(count, "pack"),
            if count == 1 { "stays" } else { "stay" },
            if count == 1 { "it" } else { "they" },
            quantity::are(count)
        ),
    };
    if is_dry {
        return all + &unread;
    }
    let waiting = match outcome.packs_waiting {
        0 => String::new(),
        count => format!(
            "{} {} removed after the last reader has ended.\n",
            quantity::counted(count, "pack"),
            quantity::are(count)
        ),
    };
    let locked = match outcome.packs_locked {
        0 => String::new(),
        count => format!(
            "{} with {} cannot be removed: the object store locks {}.\n",
            quantity::counted(count, "pack"),
            quantity::bytes_with_unit(outcome.bytes_locked),
            if count == 1 { "it" } else { "them" }
        ),
    };
    let stuck = match outcome.packs_stuck {
        0 => String::new(),
        count => format!(
            "{} cannot be removed: the server's log says why. The next run tries again.\n",
            quantity::counted(count, "pack"),
        ),
    };
    let recompressed = outcome.recompression.as_ref().map(recompression::text).unwrap_or_default();
    format!(
        "{all}{} with {} {} removed; {} with {} of live data {} written again.\n\
         {recompressed}{waiting}{locked}{unread}{stuck}",
        quantity::counted(outcome.packs_removed, "pack"),
        quantity::bytes_with_unit(outcome.bytes_removed),
        quantity::are(outcome.packs_removed),
        quantity::counted(outcome.packs_rewritten, "pack"),
        quantity::bytes_with_unit(outcome.bytes_rewritten),
        quantity::are(outcome.packs_rewritten),
    )
}

/// `reclaim --json`.
#[derive(Serialize)]
struct OutcomeDocument<'a> {
    packs: u64,
    pack_bytes: u64,
    dead_bytes: u64,
    packs_removed: u64,
    bytes_removed: u64,
    packs_rewritten: u64,
    bytes_rewritten: u64,
    packs_waiting: u64,
    packs_locked: u64,
    bytes_locked: u64,
    packs_unread: u64,
    packs_stuck: u64,
    examined: u64,
    recompression: Option<EffectDocument<'a>>,
    dry_run: bool,
}

impl<'a> OutcomeDocument<'a> {
    fn new(outcome: &'a Reclamation, dry_run: bool) -> Self {
        Self {
            packs: outcome.packs,
            pack_bytes: outcome.pack_bytes,
            dead_bytes: outcome.dead_bytes,
            packs_removed: outcome.packs_removed,
            bytes_removed: outcome.bytes_removed,
            packs_rewritten: outcome.packs_rewritten,
            bytes_rewritten: outcome.bytes_rewritten,
            packs_waiting: outcome.packs_waiting,
            packs_locked: outcome.packs_locked,
            bytes_locked: outcome.bytes_locked,
            packs_unread: outcome.packs_unread,
            packs_stuck: outcome.packs_stuck,
            examined: outcome.examined,
            recompression: outcome.recompression.as_ref().map(EffectDocument::new),
            dry_run,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use client::admin::RecompressionEffect;

    use super::*;

    /// A program with the options of the command only.
    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        args: Args,
    }

    fn parse(options: &[&str]) -> Result<Option<Recompression>, String> {
        let words = ["reclaim"].iter().chain(options);
        let parsed = Program::try_parse_from(words).map_err(|error| error.to_string())?;
        Ok(parsed.args.recompress)
    }

    #[test]
    fn an_effort_of_recompression_is_standard_or_a_level_from_1_to_19() {
        assert_eq!(parse(&[]), Ok(None));
        for effort in ["standard", "1", "19"] {
            let parsed = parse(&["--recompress", effort]);
            assert_eq!(
                parsed.map(|effort| effort.expect("is given").to_string()),
                Ok(effort.into())
            );
        }
        for effort in ["0", "none", "-5", "20", "hard"] {
            let refused = parse(&["--recompress", effort]).expect_err("is refused");
            assert!(refused.contains("standard, or a level of zstd from 1 to 19"), "{refused}");
        }
        let refused = parse(&["--dry-run", "--recompress", "9"]).expect_err("nothing is written");
        assert!(refused.contains("cannot be used with"), "{refused}");
    }

    #[test]
    fn the_outcome_says_what_a_recompression_has_gained() {
        let effect = |effort: &str| RecompressionEffect {
            effort: effort.to_owned(),
            before_bytes: 3 << 20,
            after_bytes: 2 << 20,
            gpu_bytes: 0,
        };
        let recompression = Some(effect("19"));
        let outcome = Reclamation { packs_rewritten: 1, recompression, ..Reclamation::default() };
        let line = "Records compressed at level 19: 3.00 MB before, 2.00 MB after.\n";
        assert!(text(&outcome, false).contains(line), "{}", text(&outcome, false));
        let standard = recompression::text(&effect("standard"));
        assert!(standard.starts_with("Records compressed with the standard effort: "));
        let by_gpu = RecompressionEffect { gpu_bytes: 8 << 20, ..effect("1") };
        let line = "3.00 MB before, 2.00 MB after; a GPU compressed 8.00 MB of data.\n";
        assert!(recompression::text(&by_gpu).ends_with(line), "{}", recompression::text(&by_gpu));
        let json = serde_json::to_value(OutcomeDocument::new(&outcome, false)).expect("encodes");
        assert_eq!(json["recompression"]["effort"], "19");
        assert_eq!(json["recompression"]["bytes_before"], 3 << 20);
        assert_eq!(json["recompression"]["gpu_bytes"], 0);
    }
}
