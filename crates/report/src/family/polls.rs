//! Polls before yielding: a table of latencies, a table of shares, which number of polls to use on an idle and on a busy CPU,
//! and the Pareto front: no other setting gives both less latency and more of the CPU to others.

use punctual_record::experiment::polls::{Load, Metrics, Parameters, SenderPlace};
use punctual_record::{Experiment, Quantity, Run, Series};

use crate::document::{Block, Columns, Note, Section, Table};
use crate::evidence::shares::{Baseline, left_to_others};
use crate::evidence::{Effect, Outcome, at_p50, shares};
use crate::family::shared::{ALWAYS, Family, Measured, also, measured};
use crate::format::naming::under;
use crate::format::{distinct, grouped, sanitize, spoken, unbroken, units};
use crate::verdict::{Advice, Answer, Candidate, Code, Goal, Price, Trial, share_instead};

pub(super) const FAMILY: Family =
    Family { experiment: "polls", title: "Polling for a message", sections, candidates, answer };

fn sections(_: &Run, series: &[&Series]) -> Vec<Section> {
    let series = measured(series, Experiment::polls);
    let settings = settings(&series);
    let place = match series.first().map(|s| s.parameters.sender) {
        Some(SenderPlace::SameCpu) => "same CPU",
        _ => "other CPU",
    };
    let mut sections = Vec::new();
    for (label, own) in grouped(&settings, |s| s.conditions) {
        let under = under(label);
        let heading = format!("Latency of a message, receiver {under}, sender on the {place}");
        sections.push(latency(&own, &heading));
        let heading = format!("Shares of the CPU while no message comes, receiver {under}");
        sections.push(shares_section(&own, &heading));
        sections.extend(front_section(&own));
    }
    sections
}

/// The columns that tell the settings.
fn named<'a>() -> Columns<'a, Setting<'a>> {
    Columns::new().left("method", ALWAYS, |setting: &Setting<'_>| setting.subject.to_owned()).count(
        "polls",
        ALWAYS,
        |setting| setting.polls.map(u64::from),
    )
}

fn latency(settings: &[Setting<'_>], heading: &str) -> Section {
    let table = named()
        .estimate("idle p50", (ALWAYS, 30), |s| (s.p50(Load::Idle), s.idle.and_then(|s| s.summary.ci95.p50)))
        .ns("p99", 90, |s| s.idle?.summary.p99)
        .summary([("there and back p50", 70), ("p99", 40)], |s| Some(&s.idle_back?.series.summary))
        .estimate("busy p50", (ALWAYS, 20), |s| (s.p50(Load::Busy), s.busy.and_then(|s| s.summary.ci95.p50)))
        .ns("p99", 80, |s| s.busy?.summary.p99)
        .summary([("there and back p50", 60), ("p99", 35)], |s| Some(&s.busy_back?.series.summary))
        .plain(settings);
    Section::new(heading).with(Block::Table(table)).with(Block::Legend(vec![
        Note::always("idle: nothing else runs on the receiver's CPU; busy: a program that never waits runs there too."),
        Note::always("One way, from just before the message is written until the receiver has seen it; there and back is measured, not doubled."),
        Note::always("polls: number of polls before each yield; never_yields only polls; futex_wait sleeps until woken; backoff is punctual::Backoff, tuned."),
    ]))
}

fn shares_section(settings: &[Setting<'_>], heading: &str) -> Section {
    let table = named()
        .share("busy program", ALWAYS, Setting::share)
        .share("receiver", ALWAYS, Setting::receiver_share)
        .share("neither", 10, |s| Some((1.0 - s.share()? - s.receiver_share()?).max(0.0)))
        .plain(settings);
    let ideal = "busy program: what is left to others, ideally 100 %; receiver: what the waiting costs; neither: idle, the kernel, others.";
    Section::new(heading).with(Block::Table(table)).with(Block::Legend(vec![Note::always(ideal)]))
}

/// Most names of settings that show no difference.
const MOST: usize = 3;

/// A sentence or two for each situation.
fn answer(run: &Run, series: &[&Series], _: &[&Advice]) -> Answer {
    let settings = under_the_first(&measured(series, Experiment::polls));
    let (sentences, named): (Vec<String>, Vec<String>) =
        [Load::Idle, Load::Busy].into_iter().filter_map(|load| sentence(run, &settings, load)).unzip();
    Answer { table: screen(&settings, named), ..Answer::in_words(sentences) }
}

/// The figures of a first screen.
const FIGURES: [(&str, u8); 2] = [("p50", ALWAYS), ("p99", ALWAYS)];

/// A row for each setting: the least latency on an idle CPU first.
fn screen(settings: &[Setting<'_>], named: Vec<String>) -> Option<Table> {
    let mut sorted = settings.to_vec();
    sorted.sort_by_key(|setting| (setting.p50(Load::Idle).unwrap_or(i64::MAX), setting.p50(Load::Busy)));
    let table = Columns::new()
        .left("method", ALWAYS, |setting: &Setting<'_>| described(setting))
        .over("idle CPU", |columns| columns.summary(FIGURES, |s| Some(&s.idle?.series.summary)))
        .over("busy CPU", |columns| columns.summary(FIGURES, |s| Some(&s.busy?.series.summary)))
        .share("left to others", ALWAYS, Setting::left)
        .plain(&sorted);
    (!sorted.is_empty()).then(|| table.ranked("p50", named))
}

/// `On an idle CPU: sched_yield after 100 polls. A message takes 104 ns at p50; with futex_wait, 25.2 µs.`
///
/// Several settings may show no difference from the least latency. Of these, it is the one that leaves most to a busy
/// program.
fn sentence(run: &Run, settings: &[Setting<'_>], load: Load) -> Option<(String, String)> {
    let on = if load == Load::Idle { "an idle CPU" } else { "a busy CPU" };
    let mut known: Vec<&Setting<'_>> = settings.iter().filter(|setting| setting.one_way(load).is_some()).collect();
    known.sort_by_key(|setting| setting.p50(load));
    let (best, rest) = known.split_first().filter(|(_, rest)| !rest.is_empty())?;
    let effects = compared(run, load, best, rest);
    let found = |outcome: Outcome| {
        let those = rest.iter().zip(&effects).filter(move |(_, effect)| effect.outcome == outcome);
        those.map(|(setting, _)| *setting)
    };
    if found(Outcome::NotTested).count() == rest.len() {
        let why = effects.iter().find_map(|effect| effect.why.as_deref()).unwrap_or("too few rounds");
        return Some((format!("Which number of polls suits {on} was not tested: {}.", why), described(best)));
    }
    // What no test tells apart may still differ by far. Only what is shown to be within the least latency is as good.
    let least_ns = best.p50(load)?;
    let alike = rest.iter().zip(&effects).filter(|(_, effect)| effect.is_alike(least_ns)).map(|(setting, _)| *setting);
    let equal: Vec<&Setting<'_>> = std::iter::once(*best).chain(alike).collect();
    let share = |setting: &Setting<'_>| setting.left().unwrap_or(-1.0);
    // The first of equals: it has the least latency.
    let take = equal.iter().rev().copied().max_by(|a, b| share(a).total_cmp(&share(b)))?;
    let p50 = |setting: &Setting<'_>| setting.p50(load).map(spoken::duration);
    let mut text = format!("On {on}: {}. A message takes {} at p50", described(take), p50(take)?);
    if let Some(blocking) = known.iter().find(|setting| setting.subject == BLOCKING)
        && compared(run, load, take, &[*blocking]).iter().any(|effect| effect.outcome == Outcome::Better)
    {
        text.push_str(&format!("; with {BLOCKING}, {}", p50(blocking)?));
    }
    if let Some(share) = take.left() {
        text.push_str(&format!(". A busy program gets {} of the CPU time of both", spoken::share(share)));
    }
    text.push('.');
    let others: Vec<String> =
        equal.iter().filter(|setting| !std::ptr::eq(**setting, take)).map(|setting| described(setting)).collect();
    let undecided =
        found(Outcome::NoDifference).filter(|setting| !equal.iter().any(|known| std::ptr::eq(*known, *setting)));
    let undecided = undecided.map(described).collect();
    text.push_str(&also([("No difference shown from", others), ("Undecided against", undecided)], MOST));
    Some((text, described(take)))
}

/// What the one setting gains against each of the others at p50.
fn compared(run: &Run, load: Load, one: &Setting<'_>, others: &[&Setting<'_>]) -> Vec<Effect> {
    let Some(after) = one.one_way(load) else { return Vec::new() };
    at_p50(run, others.iter().filter_map(|other| Some([other.one_way(load)?, after])))
}

/// The Pareto front: least latency first, each next one with more left to others. Settings without figures are left out.
fn front<'a, 'b>(settings: impl IntoIterator<Item = &'a Setting<'b>>) -> Vec<&'a Setting<'b>>
where
    'b: 'a,
{
    let figures = |s: &'a Setting<'b>| Some((s.p50(Load::Idle)?, s.left()?, s));
    let mut known: Vec<(i64, f64, &Setting<'b>)> = settings.into_iter().filter_map(figures).collect();
    known.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
    let mut front: Vec<&Setting<'b>> = Vec::new();
    let mut most = f64::NEG_INFINITY;
    for (_, share, setting) in known {
        // Less is the scatter of shares.
        if share > most + 0.01 {
            most = share;
            front.push(setting);
        }
    }
    front
}

fn front_section(settings: &[Setting<'_>]) -> Option<Section> {
    let methods = distinct(settings.iter().filter(|s| s.polls.is_some_and(|n| n > 0)).map(|s| s.subject));
    let said: Vec<String> = methods.iter().filter_map(|method| of_method(settings, method)).collect();
    let lead = "The settings of which no other is better in both, latency on an idle CPU and the share that a busy program gets, by method:";
    let section = |said| Section::new("In words").with(Block::Paragraph(lead.to_owned())).with(Block::said(said));
    (!said.is_empty()).then(|| section(said))
}

fn of_method(settings: &[Setting<'_>], method: &str) -> Option<String> {
    let front = front(settings.iter().filter(|s| s.subject == method));
    let parts: Vec<String> = front
        .iter()
        .filter_map(|s| {
            let polls = unbroken(&units::count(s.polls?.into()));
            let latency = spoken::duration(s.p50(Load::Idle)?);
            let share = spoken::share(s.left()?);
            let plural = if s.polls == Some(1) { "" } else { "s" };
            Some(format!("{polls} poll{plural}: {latency}, {share}"))
        })
        .collect();
    (!parts.is_empty()).then(|| format!("{}: {}.", method, parts.join("; ")))
}

// A way of waiting for a message, with its series on an idle and on a busy CPU.

type Polled<'a> = Measured<'a, Parameters, Metrics>;

/// One way of waiting for a message, under one set of conditions.
#[derive(Debug, Clone, Copy, Default)]
struct Setting<'a> {
    subject: &'a str,
    conditions: &'a str,
    /// None: it does not poll a fixed number of times.
    polls: Option<u32>,
    idle: Option<Polled<'a>>,
    idle_back: Option<Polled<'a>>,
    busy: Option<Polled<'a>>,
    busy_back: Option<Polled<'a>>,
}

impl<'a> Setting<'a> {
    /// The one-way latencies under a load.
    fn one_way(&self, load: Load) -> Option<&'a Series> {
        let measured = match load {
            Load::Idle => self.idle,
            Load::Busy => self.busy,
        };
        Some(measured?.series).filter(|series| series.summary.p50.is_some())
    }

    /// One-way latency at p50 under a load, ns.
    fn p50(&self, load: Load) -> Option<i64> {
        self.one_way(load)?.summary.p50
    }

    /// What the receiver left to the busy program while no message came, of the CPU time of both.
    fn left(&self) -> Option<f64> {
        left_to_others(self.busy?.series)
    }

    /// Share of the CPU that the busy program had meanwhile.
    fn share(&self) -> Option<f64> {
        self.busy?.metrics.competitor_cpu_share
    }

    fn receiver_share(&self) -> Option<f64> {
        self.busy?.metrics.own_cpu_share
    }
}

fn settings<'a>(series: &[Polled<'a>]) -> Vec<Setting<'a>> {
    let key = |s: &Polled<'a>| (s.series.subject.as_str(), s.series.conditions.as_str(), s.parameters.polls);
    let setting = |((subject, conditions, polls), all): ((&'a str, &'a str, Option<u32>), Vec<Polled<'a>>)| {
        let series_of =
            |load, quantity| all.iter().copied().find(|s| (s.parameters.load, s.quantity) == (load, quantity));
        Setting {
            subject,
            conditions,
            polls,
            idle: series_of(Load::Idle, Quantity::OneWay),
            idle_back: series_of(Load::Idle, Quantity::RoundTrip),
            busy: series_of(Load::Busy, Quantity::OneWay),
            busy_back: series_of(Load::Busy, Quantity::RoundTrip),
        }
    };
    grouped(series, key).into_iter().map(setting).collect()
}

/// What blocks instead of polling.
const BLOCKING: &str = "futex_wait";

/// The settings under the first set of conditions.
fn under_the_first<'a>(series: &[Polled<'a>]) -> Vec<Setting<'a>> {
    let all = settings(series);
    let first = all.first().map(|setting| setting.conditions);
    all.into_iter().filter(|setting| Some(setting.conditions) == first).collect()
}

/// `sched_yield after 100 polls`.
fn described(setting: &Setting<'_>) -> String {
    let subject = setting.subject.to_owned();
    match setting.polls {
        None | Some(0) => subject,
        Some(1) => format!("{subject} after each poll"),
        Some(n) => format!("{subject} after {} polls", unbroken(&units::count(n.into()))),
    }
}

// Numbers of polls instead of blocking, for an idle and for a busy CPU.

/// Shares of the CPU for which the setting with the least latency is a candidate. The least is a fair half, less what
/// switching costs.
const WANTED: [f64; 3] = [0.4, 0.9, 0.99];

/// Each situation by itself. A number of polls that pays on an idle CPU may cost a time slice on a busy one.
fn candidates<'a>(_: &'a Run, series: &[&'a Series]) -> Vec<Candidate<'a>> {
    let settings = under_the_first(&measured(series, Experiment::polls));
    let Some(from) = settings.iter().find(|setting| setting.subject == BLOCKING) else { return Vec::new() };
    let mut all = Vec::new();
    for load in [Load::Idle, Load::Busy] {
        let mut chosen: Vec<&Setting<'a>> = Vec::new();
        for wanted in WANTED {
            let enough =
                settings.iter().filter(|setting| setting.subject != BLOCKING && setting.left() >= Some(wanted));
            let least = enough.filter(|setting| setting.one_way(load).is_some());
            let least = least.min_by_key(|setting| setting.p50(load));
            let new = |setting: &&Setting<'a>| !chosen.iter().any(|known| std::ptr::eq(*known, *setting));
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
        cause: name(trial.case),
        // On a busy CPU the case itself has the shares.
        price: Price { others: taken(from, to).filter(|_| load == Load::Idle), ..Price::default() },
        code: Code { c: code(to), ..Code::default() },
        ..Candidate::instead(Goal::PassMessages, described(to), described(from), trial)
    })
}

/// What it takes from a busy program, where a difference is shown.
fn taken(from: &Setting<'_>, to: &Setting<'_>) -> Option<String> {
    let question = (Baseline::Series(from.busy?.series), to.busy?.series);
    let effect = shares::test(&[question]).into_iter().next().filter(|effect| effect.outcome == Outcome::Worse)?;
    Some(format!("a busy program gets {}", share_instead(&effect)?))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_is_empty_without_figures() {
        assert!(front(&[Setting::default()]).is_empty());
        assert_eq!(front_section(&[Setting::default()]), None);
    }
}
