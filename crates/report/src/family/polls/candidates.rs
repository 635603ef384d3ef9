//! Numbers of polls instead of blocking, for an idle and for a busy CPU.

use punctual_record::experiment::polls::Load;
use punctual_record::{Experiment, Run, Series};

use crate::evidence::Outcome;
use crate::evidence::shares::{self, Baseline};
use crate::format::{sanitize, spoken};
use crate::verdict::{Candidate, Code, Goal, Price, Trial};

use super::super::shared::measured;
use crate::family::polls::setting::{BLOCKING, Setting, described, under_the_first};

/// Shares of the CPU for which the setting with the least latency is a candidate. The least is a fair half, less what
/// switching costs.
const WANTED: [f64; 3] = [0.4, 0.9, 0.99];

/// Each situation by itself. A number of polls that pays on an idle CPU may cost a time slice on a busy one.
pub(in crate::family) fn candidates<'a>(_: &'a Run, series: &[&'a Series]) -> Vec<Candidate<'a>> {
    let settings = under_the_first(&measured(series, Experiment::polls));
    let Some(from) = settings.iter().find(|setting| setting.subject == BLOCKING) else { return Vec::new() };
    let mut all = Vec::new();
    for load in [Load::Idle, Load::Busy] {
        let mut chosen: Vec<&Setting<'a>> = Vec::new();
        for wanted in WANTED {
            let enough = settings.iter().filter(|its| its.subject != BLOCKING && its.share() >= Some(wanted));
            let least = enough.filter(|its| its.one_way(load).is_some());
            let least = least.min_by_key(|its| its.one_way(load).and_then(|series| series.summary.p50));
            let new = |its: &&Setting<'a>| !chosen.iter().any(|known| std::ptr::eq(*known, *its));
            chosen.extend(least.filter(new));
        }
        all.extend(chosen.into_iter().filter_map(|to| candidate(load, from, to)));
    }
    all
}

fn candidate<'a>(load: Load, from: &Setting<'a>, to: &Setting<'a>) -> Option<Candidate<'a>> {
    let name = |load: i64| if load == 0 { "on an idle CPU" } else { "on a busy CPU" }.to_owned();
    let trial =
        Trial { case: i64::from(load == Load::Busy), name, before: from.one_way(load)?, after: to.one_way(load)? };
    Some(Candidate {
        id: format!("{} {}", described(to), name(trial.case)),
        goal: Goal::PassMessages,
        cause: name(trial.case),
        what: described(to),
        instead_of: described(from),
        trials: vec![trial],
        // On a busy CPU the case itself has the shares.
        price: Price { others: taken(from, to).filter(|_| load == Load::Idle), ..Price::default() },
        code: Code { c: code(to), ..Code::default() },
    })
}

/// What it takes from a busy program, where a difference is shown.
fn taken(from: &Setting<'_>, to: &Setting<'_>) -> Option<String> {
    let question = (Baseline::Series(from.busy?.series), to.busy?.series);
    let effect = shares::test(&[question]).into_iter().next().filter(|effect| effect.outcome == Outcome::Worse)?;
    Some(format!(
        "a busy program gets {} of the CPU instead of {}",
        spoken::share(effect.after?),
        spoken::share(effect.before?)
    ))
}

fn code(to: &Setting<'_>) -> Option<String> {
    let call = to.idle.or(to.busy)?.series.about.call.as_deref().map(sanitize);
    match (to.polls?, call) {
        (0, _) => Some("while (!ready()) _mm_pause();".to_owned()),
        (1, Some(call)) => Some(format!("while (!ready()) {call};")),
        (polls, Some(call)) => Some(format!("for (unsigned i = 1; !ready(); i++) if (i % {polls} == 0) {call};")),
        (_, None) => None,
    }
}
