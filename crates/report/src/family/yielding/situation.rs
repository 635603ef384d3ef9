//! Situations of a yield: alone, or against competitors; each with the figures of its methods. What a
//! method of yielding costs and what it leaves to others, in sentences for the tables and for the first screen.

use punctual_record::Quantity;
use punctual_record::experiment::yielding::{CompetitorKind, Metrics, Parameters, Rank};

use crate::evidence::shares::left_to_others;
use crate::family::shared::Measured;
use crate::format::naming::AS_FOUND;
use crate::format::{gathered, grouped, listed, spoken, units};

pub(super) type Yield<'a> = Measured<'a, Parameters, Metrics>;

/// A call lets others run when it did so in at least this share of calls. Calls that never enter the scheduler are preempted during one call in
/// ten thousand at most. A slice lasts milliseconds.
pub(super) const YIELDS: f64 = 0.01;

/// The competitors of a series.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Situation {
    pub(super) competitors: u32,
    /// Absent: as found.
    pub(super) policy: Option<String>,
    pub(super) kind: Option<CompetitorKind>,
    pub(super) rank: Option<Rank>,
}

impl Situation {
    pub(super) fn from_parameters(parameters: &Parameters) -> Self {
        Self {
            competitors: parameters.competitors,
            policy: parameters.competitor_policy.clone().filter(|policy| policy != AS_FOUND),
            kind: parameters.competitor_kind,
            rank: parameters.competitor_rank,
        }
    }

    /// In words, for a heading or a sentence.
    pub(super) fn in_words(&self) -> String {
        if self.competitors == 0 {
            return "alone on its CPU".to_owned();
        }
        let plural = if self.competitors == 1 { "" } else { "s" };
        let number = units::count(self.competitors.into());
        let what = match self.kind {
            Some(CompetitorKind::Thread) => format!("competitor thread{plural}"),
            _ => format!("competitor{plural}"),
        };
        match self.policy.as_deref() {
            None => format!("with {number} {what} on its CPU"),
            Some(policy) => format!("with {number} {what} under {} on its CPU", policy),
        }
    }
}

/// A method in a situation: its calls, and those of them during which a competitor ran.
#[derive(Debug, Clone, Copy)]
pub(super) struct Figure<'a> {
    pub(super) calls: Yield<'a>,
    pub(super) away: Option<Yield<'a>>,
}

impl<'a> Figure<'a> {
    /// Its method.
    pub(super) fn name(&self) -> &'a str {
        &self.calls.series.subject
    }

    /// Share of the CPU that all competitors together had.
    pub(super) fn others_share(&self) -> Option<f64> {
        self.calls.metrics.competitor_cpu_share
    }

    /// What the caller left to them, of the CPU time of both.
    pub(super) fn left_to_others(&self) -> Option<f64> {
        left_to_others(self.calls.series)
    }

    /// Share of the calls that let a competitor run; none when there was no competitor.
    pub(super) fn yielded(&self) -> Option<f64> {
        self.calls.metrics.yielded_share
    }

    pub(super) fn lets_others_run(&self) -> bool {
        self.yielded().is_some_and(|share| share >= YIELDS)
    }

    /// By which methods are ordered: what it leaves to others; those that do not let them run come last.
    pub(super) fn rank(&self) -> f64 {
        if self.lets_others_run() { self.left_to_others().unwrap_or(0.0) } else { -1.0 }
    }

    /// Share of its calls that slept, of a method whose system call sleeps. Since Linux 7.2 a sleep whose time is over returns
    /// without giving up the CPU.
    pub(super) fn slept(&self) -> Option<f64> {
        let sleeps = self.calls.metrics.observed.as_deref()?.contains("nanosleep");
        sleeps.then_some(self.calls.voluntary_switches_per_op?.min(1.0))
    }

    /// How long the calls took during which a competitor ran, at the median.
    pub(super) fn away_ns(&self) -> Option<i64> {
        self.away?.summary.p50
    }

    /// What a call costs, ns: in the bare loop, or, where there was none, at the median.
    pub(super) fn cost_ns(&self) -> Option<f64> {
        self.calls.metrics.bare_ns.or_else(|| self.calls.summary.p50.map(|ns| ns as f64))
    }
}

/// The situations, each with its figures, in the order alone, fewest competitors first.
pub(super) fn situations<'a>(series: &[Yield<'a>]) -> Vec<(Situation, Vec<Figure<'a>>)> {
    let figure = |calls: Yield<'a>| {
        let same = |other: &&Yield<'_>| {
            other.quantity == Quantity::Away
                && other.subject == calls.subject
                && other.conditions == calls.conditions
                && other.parameters == calls.parameters
        };
        Figure { calls, away: series.iter().find(same).copied() }
    };
    let calls = series.iter().filter(|s| s.quantity == Quantity::CallCost);
    let figures: Vec<Figure<'a>> = calls.map(|calls| figure(*calls)).collect();
    let mut situations = grouped(&figures, |figure| Situation::from_parameters(figure.calls.parameters));
    situations.sort_by(|a, b| a.0.cmp(&b.0));
    situations
}

/// What programs call to yield, by custom.
const HABITS: [&str; 2] = ["sched_yield", "usleep0"];

/// Methods against competitors whose rank is the caller's: what a method calls decides who runs.
#[derive(Debug, Clone)]
pub(super) struct Contest<'a> {
    /// Busy competitors.
    pub(super) competitors: u32,
    /// The methods under one set of conditions.
    pub(super) figures: Vec<Figure<'a>>,
    /// The same methods alone, as far as they were measured.
    pub(super) alone: Vec<Figure<'a>>,
}

impl<'a> Contest<'a> {
    /// The contest with the fewest competitors, under the first set of conditions that has one.
    pub(super) fn from_situations(situations: &[(Situation, Vec<Figure<'a>>)]) -> Option<Self> {
        let even = |situation: &Situation| {
            situation.competitors > 0 && situation.policy.is_none() && situation.rank == Some(Rank::Same)
        };
        let (situation, figures) = situations.iter().find(|(situation, _)| even(situation))?;
        let conditions = &figures.first()?.calls.series.conditions;
        let same = |figure: &&Figure<'a>| figure.calls.series.conditions == *conditions;
        let alone = situations.iter().find(|(situation, _)| situation.competitors == 0);
        Some(Self {
            competitors: situation.competitors,
            figures: figures.iter().filter(same).copied().collect(),
            alone: alone.into_iter().flat_map(|(_, figures)| figures).filter(same).copied().collect(),
        })
    }

    /// The share that competitors get from a fair scheduler although the caller never yields.
    pub(super) fn fair_share(&self) -> f64 {
        f64::from(self.competitors) / f64::from(self.competitors + 1)
    }

    /// The habits that were measured.
    pub(super) fn habits(&self) -> impl Iterator<Item = &Figure<'a>> {
        HABITS.iter().filter_map(|name| self.figures.iter().find(|figure| figure.name() == *name))
    }

    /// A method alone.
    pub(super) fn alone(&self, figure: &Figure<'_>) -> Option<&Figure<'a>> {
        self.alone.iter().find(|alone| alone.name() == figure.name())
    }
}

/// Most names in a list before the rest is counted.
pub(super) const MOST_NAMES: usize = 12;
/// From this ratio on, two costs are compared as a multiple.
const MUCH: f64 = 2.0;

pub(super) fn cost(figure: &Figure<'_>) -> String {
    units::or_absent(figure.cost_ns(), spoken::fine)
}

/// What the calls cost alone.
pub(super) fn costs(figures: &[&Figure<'_>]) -> Vec<String> {
    let mut sorted: Vec<&Figure<'_>> = figures.iter().copied().filter(|f| f.cost_ns().is_some()).collect();
    sorted.sort_by(|a, b| a.cost_ns().unwrap_or(0.0).total_cmp(&b.cost_ns().unwrap_or(0.0)));
    let list: Vec<String> = sorted.iter().map(|f| format!("{} {}", f.name(), cost(f))).collect();
    if list.is_empty() {
        return Vec::new();
    }
    let mut texts = vec![format!("A call costs: {}.", listed(&list, usize::MAX))];
    if let Some((yielding, sleeping)) = pair(&sorted, "sched_yield", "usleep0")
        && dearer(sleeping, yielding)
        && let Some((yielding, sleeping)) = yielding.cost_ns().zip(sleeping.cost_ns())
    {
        let times = sleeping / yielding.max(0.1);
        if times >= MUCH {
            let times = units::count(times.round() as u64);
            texts.push(format!("A usleep(0) costs {times} times what a sched_yield() does."));
        }
    }
    texts
}

/// Whether the intervals of both medians do not overlap.
pub(super) fn dearer(one: &Figure<'_>, other: &Figure<'_>) -> bool {
    let interval = |figure: &Figure<'_>| figure.calls.summary.ci95.p50;
    interval(one).zip(interval(other)).is_some_and(|(one, other)| one.low > other.high)
}

fn pair<'a, 'b>(figures: &[&'a Figure<'b>], one: &str, two: &str) -> Option<(&'a Figure<'b>, &'a Figure<'b>)> {
    let find = |name: &str| figures.iter().copied().find(|f| f.calls.subject == name);
    Some((find(one)?, find(two)?))
}

/// Which calls let the competitors run, what they got, and for how long the caller was away.
pub(super) fn who_gains(situation: &Situation, figures: &[&Figure<'_>]) -> Vec<String> {
    let known: Vec<&Figure<'_>> = figures.iter().copied().filter(|f| f.yielded().is_some()).collect();
    if situation.rank == Some(Rank::Higher) {
        let shares = known.iter().filter_map(|f| f.others_share());
        let Some(least) = shares.reduce(f64::min) else { return Vec::new() };
        return vec![format!(
            "The competitor runs before the caller whenever it is ready, whatever the caller calls, and had {} of the CPU at least.",
            spoken::share(least)
        )];
    }
    if known.is_empty() {
        return Vec::new();
    }
    let (mut yields, never): (Vec<&Figure<'_>>, Vec<&Figure<'_>>) =
        known.into_iter().partition(|f| f.lets_others_run());
    let share = |figure: &Figure<'_>| figure.left_to_others().unwrap_or(0.0);
    yields.sort_by(|a, b| share(b).total_cmp(&share(a)));
    let alike = gathered(yields.iter().filter_map(|figure| Some((gain(figure)?, figure.name().to_owned()))));
    let mut texts: Vec<String> =
        alike.into_iter().map(|(text, names)| format!("{} {text}.", listed(&names, MOST_NAMES))).collect();
    if texts.is_empty() {
        texts.push("No method let others run.".to_owned());
    }
    if !never.is_empty() {
        let names: Vec<String> = never.iter().map(|f| f.name().to_owned()).collect();
        let most = never.iter().filter_map(|f| f.yielded()).fold(0.0, f64::max);
        let preempted = if most > 0.0 {
            format!(" (the scheduler took the CPU by itself during {} of the calls at most)", spoken::share(most))
        } else {
            String::new()
        };
        texts.push(format!("These did not yield: {}{preempted}.", listed(&names, MOST_NAMES)));
    }
    texts
}

/// `both` with one competitor, `all` with several: the threads that divide the CPU time.
pub(super) const fn sharers(competitors: u32) -> &'static str {
    if competitors == 1 { "both" } else { "all" }
}

/// What one method's calls did for the competitors.
fn gain(figure: &Figure<'_>) -> Option<String> {
    let mut text = format!(
        "let others run in {} of the calls and left them {} of the CPU time of {}",
        spoken::share(figure.yielded()?),
        spoken::share(figure.left_to_others()?),
        sharers(figure.calls.parameters.competitors)
    );
    if let Some(away) = figure.away_ns() {
        text.push_str(&format!(", away for {} at p50", spoken::duration(away)));
    }
    Some(text)
}
