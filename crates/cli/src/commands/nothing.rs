//! The error for a run without results: the reason and the remedy.

use punctual_record::{Notice, Run};

use crate::args::Flags;

/// Whether a run has no results.
pub(super) fn is_in(run: &Run) -> bool {
    run.series.is_empty() && run.paths.is_empty()
}

/// The error for a run without results.
pub(super) fn measured(run: &Run) -> anyhow::Error {
    let failed = |notice: &Notice| match notice {
        Notice::PartFailed { part, why, .. } => Some((format!("{part}: {why}"), None)),
        _ => None,
    };
    let not_measured = run.not_measured.iter().map(|its| (format!("{}: {}", its.subject, its.why), its.remedy.clone()));
    let reasons: Vec<(String, Option<String>)> = not_measured.chain(run.notices.iter().filter_map(failed)).collect();
    let Some((why, remedy)) = reasons.first() else {
        let more_time = Flags::of(&run.subcommand).in_remedy("give more time");
        return anyhow::anyhow!("nothing was measured; {more_time}, or see the notices above");
    };
    let remedy = remedy.as_ref().map(|remedy| format!("; {remedy}")).unwrap_or_default();
    let more = match reasons.len() - 1 {
        0 => String::new(),
        1 => " (and 1 more reason above)".to_owned(),
        n => format!(" (and {n} more reasons above)"),
    };
    anyhow::anyhow!("nothing was measured: {why}{remedy}{more}")
}
