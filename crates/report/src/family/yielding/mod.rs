//! Yielding: a table for each situation, alone or against competitors, with the methods that let others run on top, and
//! conclusions in sentences.

mod answer;
mod situation;

use crate::evidence::at_p50;
use crate::family::yielding::situation::{Figure, Situation, YIELDS, situations};
use crate::family::yielding::situation::{MOST_NAMES, cost, costs, who_gains};
use punctual_record::{Experiment, Run, Series};

use crate::document::{Block, Columns, Note, Paint, Section};
use crate::family::shared::{ALWAYS, Family, measured};
use crate::format::naming::under;
use crate::format::{distinct, listed, spoken, units};

pub(super) const FAMILY: Family = Family {
    experiment: "yield",
    title: "Yielding the CPU",
    sections,
    candidates: answer::candidates,
    answer: answer::answer,
};

fn sections(run: &Run, series: &[&Series]) -> Vec<Section> {
    let situations = situations(&measured(series, Experiment::yields));
    let mut sections: Vec<Section> =
        situations.iter().map(|(situation, figures)| table_section(situation, figures)).collect();
    if let Some(last) = sections.last_mut() {
        last.blocks.push(Block::Legend(legend(run, &situations)));
    }
    sections.extend(conclusions(run, &situations));
    sections
}

fn table_section<'a>(situation: &Situation, figures: &[Figure<'a>]) -> Section {
    let first = &figures[0].calls.conditions;
    let one_set = figures.iter().all(|figure| figure.calls.conditions == *first);
    let mut heading = format!("yield {}", situation.in_words());
    if one_set && !first.is_empty() {
        heading.push_str(&format!(", caller {}", under(first)));
    }
    let mut sorted = figures.to_vec();
    let cost = |figure: &Figure<'_>| figure.cost_ns().unwrap_or(f64::MAX);
    sorted.sort_by(|a, b| b.rank().total_cmp(&a.rank()).then(cost(a).total_cmp(&cost(b))));
    let columns = columns(one_set, situation.competitors > 0);
    let row = |figure: &Figure<'a>| {
        let paint = if situation.competitors > 0 && !figure.lets_others_run() { Paint::Faint } else { Paint::Plain };
        columns.row(figure, paint)
    };
    let rows = sorted.iter().map(row).collect();
    Section::new(heading).with(Block::Table(columns.table(rows)))
}

/// The columns, with those that have something to say where there are competitors or where there are none.
fn columns<'a>(one_set: bool, against: bool) -> Columns<'a, Figure<'a>> {
    Columns::new()
        .left("method", ALWAYS, |s: &Figure<'_>| s.calls.subject.clone())
        .left("conditions", ALWAYS, |s| s.calls.conditions.clone())
        .only_if(!one_set)
        .count("n", 30, |s| Some(s.calls.summary.count))
        .when(against, |columns| {
            columns
                .share("lets others run", ALWAYS, |s| s.calls.metrics.yielded_share)
                .share("others' CPU", 120, Figure::others_share)
                .share("own CPU", 40, |s| s.calls.metrics.own_cpu_share)
                .summary([("away p50", 110), ("away p99", 60), ("away max", 20)], |s| Some(&s.away?.series.summary))
        })
        .fine("call (loop)", 130, |s| s.calls.metrics.bare_ns)
        .only_if(!against)
        .summary([("p50", 100), ("p99", 90), ("max", 50)], |s| Some(&s.calls.summary))
        .when(!against, |columns| {
            columns
                .fine("CPU (loop)", 80, |s| s.calls.metrics.bare_cpu_ns)
                .fine("user", 70, |s| s.calls.metrics.user_ns_per_op)
                .fine("system", 71, |s| s.calls.metrics.system_ns_per_op)
        })
        .switches("switches", 65, |s| (s.calls.voluntary_switches_per_op, s.calls.involuntary_switches_per_op))
        .left("system calls", 80, |s| s.calls.metrics.observed.clone().unwrap_or_else(|| units::ABSENT.to_owned()))
}

/// What the columns mean, each note only where its column is shown.
fn legend(run: &Run, situations: &[(Situation, Vec<Figure<'_>>)]) -> Vec<Note> {
    let read = units::duration_fine(run.clock.read_ns);
    let mut notes =
        vec![Note::always(format!("p50, p99, max: of single calls, one clock reading ({read}) contained."))];
    if situations.iter().any(|(situation, _)| situation.competitors == 0) {
        notes.push(Note::always(
            "call (loop): cost of a call in a loop that does nothing else, no clock reading contained.",
        ));
    }
    notes.push(Note::on("CPU (loop)", "CPU (loop): CPU time of such a call, by the thread's CPU clock."));
    notes.push(Note::on(
        "user",
        "user, system: its parts, to within 20 % of their sum; the kernel samples them at its ticks. Absent where the loop met too few.",
    ));
    if situations.iter().any(|(situation, _)| situation.competitors > 0) {
        notes.push(Note::always(
            "lets others run: share of the calls during which a competitor made progress of its own; away: how long these calls took.",
        ));
        notes.push(Note::on("others' CPU", "others' CPU: share of the CPU that all competitors together had."));
    }
    notes.push(Note::on(
        "switches",
        "switches: times per call that the caller gave up the CPU + was preempted; a yield counts as the latter.",
    ));
    notes.push(Note::on("system calls", "system calls: as seen here, by tracing one call."));
    notes
}

type Situations<'a> = [(Situation, Vec<Figure<'a>>)];

/// The words: a list per situation and set of conditions.
fn conclusions(run: &Run, situations: &Situations<'_>) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let labels =
        distinct(situations.iter().flat_map(|(_, figures)| figures).map(|f| f.calls.series.conditions.as_str()));
    for label in &labels {
        let under = match labels.len() {
            1 => String::new(),
            _ => format!(", {}", under(label)),
        };
        for (situation, figures) in situations {
            let own: Vec<&Figure<'_>> = figures.iter().filter(|f| f.calls.conditions == *label).collect();
            let texts = match situation.competitors {
                0 => costs(&own),
                _ => [who_gains(situation, &own), switches(&own)].concat(),
            };
            if !texts.is_empty() {
                let heading = format!("To yield {}{under}", situation.in_words());
                sections.push(Section::new(heading).with(Block::said(texts)));
            }
        }
    }
    if let (Some(first), Some(text)) = (sections.first_mut(), slack(run, situations)) {
        first.blocks.push(Block::said([text]));
    }
    sections
}

/// How the kernel counts what each call does (ru_nvcsw and ru_nivcsw of getrusage(2)).
fn switches(figures: &[&Figure<'_>]) -> Vec<String> {
    let class = |figure: &Figure<'_>| {
        let (voluntary, involuntary) =
            (figure.calls.voluntary_switches_per_op?, figure.calls.involuntary_switches_per_op?);
        let observed = figure.calls.metrics.observed.as_deref();
        Some(match () {
            () if voluntary >= YIELDS => 0,
            () if involuntary >= YIELDS && observed == Some("sched_yield") => 1,
            () if figure.slept().is_some() => 2,
            () if involuntary > 0.0 => 3,
            () => 4,
        })
    };
    let texts = [
        "Voluntary, because they wait (ru_nvcsw)",
        "They yield but stay ready, which the kernel counts as involuntary (ru_nivcsw)",
        "Sleeps that ended before the thread gave up the CPU (ru_nvcsw)",
        "Preempted only (ru_nivcsw)",
        "Neither voluntary nor preempted",
    ];
    let said = |(place, text): (usize, &&str)| {
        let names: Vec<String> =
            figures.iter().filter(|f| class(f) == Some(place)).map(|f| f.name().to_owned()).collect();
        (!names.is_empty()).then(|| format!("{text}: {}.", listed(&names, MOST_NAMES)))
    };
    texts.iter().enumerate().filter_map(said).collect()
}

/// What a shorter timer slack is shown to take off a call that sleeps. It is the largest effect of two variants that
/// differ in nothing else.
fn slack(run: &Run, situations: &Situations<'_>) -> Option<String> {
    let (_, alone) = situations.iter().find(|(situation, _)| situation.competitors == 0)?;
    let shorter = |(a, b): &(&Figure<'_>, &Figure<'_>)| {
        let (Some(from), Some(to)) = (set(run, a), set(run, b)) else { return false };
        let longer = from.timer_slack_ns().zip(to.timer_slack_ns()).is_some_and(|(from, to)| from > to);
        let sleeps = a.slept().is_some_and(|slept| slept >= YIELDS);
        sleeps && longer && a.calls.subject == b.calls.subject && from.policy() == to.policy()
    };
    let both: Vec<_> = alone.iter().flat_map(|a| alone.iter().map(move |b| (a, b))).filter(shorter).collect();
    let effects = at_p50(run, both.iter().map(|(a, b)| [a.calls.series, b.calls.series]));
    let gains = effects.into_iter().map(|effect| effect.better().map_or(0, |gain| gain.ns));
    let (_, (a, b)) = gains.zip(both).filter(|(gain, _)| *gain > 0).max_by_key(|(gain, _)| *gain)?;
    let slack = |figure| Some(spoken::exact(set(run, figure)?.timer_slack_ns()?));
    Some(format!(
        "Timer slack is a part of what a sleep of nothing costs: {} costs {} with {} of slack and {} with {}.",
        a.name(),
        cost(a),
        slack(a)?,
        cost(b),
        slack(b)?
    ))
}

fn set<'a>(run: &'a Run, figure: &Figure<'_>) -> Option<&'a punctual_record::ConditionSet> {
    run.conditions.iter().find(|set| set.label == figure.calls.conditions)
}
