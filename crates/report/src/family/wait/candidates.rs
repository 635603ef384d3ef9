//! The remedies for late wake-ups that a run can judge: conditions, timers without slack, absolute deadlines, the
//! library's sleeper, spinning.

use punctual_record::{POLICY, Quantity, Remedy, Run, Series, TIMER_SLACK};

use crate::family::figures::{Figure, Figures, Lever, best, by_asked, large_slack, levers, without_slack};
use crate::format::naming;
use crate::format::units;
use crate::verdict::{Candidate, Code, Goal, Price, Trial};

use super::interrupted::undisturbed;

/// The library's sleeper.
const SLEEPER: &str = "hybrid";
/// The same for a program as it is.
const PRECISE: &str = "punctual run --precise-sleep -- PROGRAM";
/// The cause that timer slack is.
const SLACK: &str = "timer slack";

/// Those of all durations.
pub(in crate::family) fn candidates<'a>(run: &'a Run, series: &[&'a Series]) -> Vec<Candidate<'a>> {
    let of = |(asked, series): (i64, Vec<&'a Series>)| {
        let figures = Figures::of(run, asked, &series);
        let mut all = conditions(&figures);
        all.extend(timer(&figures));
        all.extend(absolute(&figures));
        all.extend(awake(&figures));
        all
    };
    by_asked(&undisturbed(series)).into_iter().flat_map(of).collect()
}

/// The changes of conditions that these figures can judge.
pub(in crate::family) fn conditions<'a>(figures: &Figures<'a>) -> Vec<Candidate<'a>> {
    levers(figures).iter().filter_map(|lever| condition(figures, lever)).collect()
}

fn trial<'a>(figures: &Figures<'a>, before: &Figure<'a>, after: &Figure<'a>) -> Trial<'a> {
    Trial { case: figures.asked_ns, name: units::exact, before: before.series, after: after.series }
}

/// A change of conditions, shown by the call that programs use most.
fn condition<'a>(figures: &Figures<'a>, lever: &Lever<'_, 'a>) -> Option<Candidate<'a>> {
    let (from, to) = lever.leader()?;
    let setting = lever.setting;
    let slack = setting.condition == TIMER_SLACK || (setting.condition == POLICY && large_slack(lever.from).is_some());
    let remedy = Remedy::of_setting(setting);
    let (price, code) = remedy.map(|remedy| (remedy.price, remedy.code)).unwrap_or_default();
    Some(Candidate {
        id: format!("{} {}", setting.condition, lever.name()),
        goal: Goal::WakeOnTime,
        cause: if slack { SLACK.to_owned() } else { setting.condition.clone() },
        what: naming::phrase(&setting.phrase),
        instead_of: lever.from.label.clone(),
        trials: vec![trial(figures, from, to)],
        price,
        code,
    })
}

/// A timer without slack instead of a sleeping call, under the same conditions.
fn timer<'a>(figures: &Figures<'a>) -> Option<Candidate<'a>> {
    let (from, to) = without_slack(figures)?;
    Some(Candidate {
        cause: SLACK.to_owned(),
        price: Price { program: Some("a file descriptor".to_owned()), ..Price::default() },
        ..call(figures, from, to)
    })
}

/// An absolute deadline instead of a duration, by the same call under the same conditions.
fn absolute<'a>(figures: &Figures<'a>) -> Option<Candidate<'a>> {
    let relative = |to: &Figure<'_>| {
        let name = to.series.about.relative.as_deref()?;
        let same = |row: &&Figure<'_>| row.conditions == to.conditions && row.series.subject == name;
        figures.sleeping().filter(same).find(|row| row.series.quantity == Quantity::Overshoot)
    };
    let to = figures.sleeping().find(|row| row.series.quantity == Quantity::Lateness && relative(row).is_some())?;
    Some(Candidate { cause: "relative durations".to_owned(), ..call(figures, relative(to)?, to) })
}

/// One call instead of another.
fn call<'a>(figures: &Figures<'a>, from: &Figure<'a>, to: &Figure<'a>) -> Candidate<'a> {
    Candidate {
        id: format!("{} instead of {}", to.subject, from.subject),
        goal: Goal::WakeOnTime,
        cause: to.subject.clone(),
        what: to.subject.clone(),
        instead_of: from.subject.clone(),
        trials: vec![trial(figures, from, to)],
        price: Price::default(),
        code: Code::of_series(&to.series.about, to.code.clone()),
    }
}

/// Spinning for the last part of a wait, by the library's sleeper. Where that was not measured, spinning for all of it.
fn awake<'a>(figures: &Figures<'a>) -> Option<Candidate<'a>> {
    let from = figures.reference()?;
    let like = |row: &&Figure<'_>| row.conditions == from.conditions;
    if let Some(to) = figures.exact().filter(like).find(|row| row.subject == SLEEPER) {
        return Some(Candidate {
            id: "sleeper".to_owned(),
            what: "punctual::Sleeper".to_owned(),
            price: Price { program: Some("the crate punctual".to_owned()), ..Price::default() },
            code: Code { shell: Some(PRECISE.to_owned()), ..Code::of_series(&to.series.about, to.code.clone()) },
            ..call(figures, from, to)
        });
    }
    let to = best(figures.exact().filter(like).filter(|row| row.sleeps() == Some(false)))?;
    Some(Candidate { id: "spinning".to_owned(), cause: "spinning".to_owned(), ..call(figures, from, to) })
}
