//! A piece of advice as data, and in words.

use punctual_record::{Code, Price, Series};
use serde::Serialize;

use super::Level;
use crate::evidence::{Effect, Outcome, ShareEffect};
use crate::format::{listed, spoken, unbroken};

/// What is to be achieved, in the order in which advice is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// Wake up on time.
    WakeOnTime,
    /// Send at an even rate.
    SendEvenly,
    /// Pass messages quickly.
    PassMessages,
    /// Reach full speed soon.
    SpeedUp,
    /// Let other threads run.
    LetOthersRun,
    /// Give the CPU away and be back soon.
    BackSoon,
}

impl Goal {
    /// What precedes a remedy where its name does not tell its purpose.
    pub(crate) fn purpose(self) -> &'static str {
        match self {
            Self::LetOthersRun => "to let others run, ",
            Self::BackSoon => "to be back soon, ",
            _ => "",
        }
    }

    /// A smaller figure, and a larger one.
    pub(super) fn words(self) -> [&'static str; 2] {
        match self {
            Self::WakeOnTime | Self::SendEvenly => ["earlier", "later"],
            Self::BackSoon => ["sooner back", "later back"],
            Self::LetOthersRun | Self::PassMessages => ["shorter", "longer"],
            Self::SpeedUp => ["faster", "slower"],
        }
    }
}

/// What became of a remedy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Better in at least one case, worse in none.
    Advised,
    /// Better in some cases, worse in others.
    Mixed,
    /// Worse in at least one case, better in none.
    Worse,
    /// Tested, and no difference shown.
    NoDifference,
    /// Not tested.
    #[default]
    NotTested,
}

/// A remedy and what it did.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Advice {
    /// Its stable name: `timer-slack`.
    pub id: String,
    /// What it is for.
    pub goal: Goal,
    /// The experiment that shows it.
    pub experiment: String,
    /// What to use.
    pub what: String,
    /// What it replaces.
    pub instead_of: String,
    /// The outcome.
    pub standing: Standing,
    /// How far to trust it; unknown of what is not advised.
    pub trust: Level,
    /// Whether most of its gain is in the tail of a busy machine. A quiet one has less of it.
    pub in_company: bool,
    /// Its effect in each case.
    pub cases: Vec<Case>,
    /// What it costs.
    pub price: Price,
    /// What to write.
    pub code: Code,
    /// What speaks against its gain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
    /// Remedies of the same cause that show no difference from it: one of them is enough.
    pub equal: Vec<Variant>,
}

/// The effect in one case.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Case {
    /// The case: `100 µs`.
    pub case: String,
    /// At the median.
    pub p50: Effect,
    /// At the 99th percentile.
    pub p99: Effect,
    /// Share of a CPU before, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_share_before: Option<f64>,
    /// Share of a CPU after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_share_after: Option<f64>,
    /// CPU time per operation before, in ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ns_before: Option<f64>,
    /// CPU time per operation after, in ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ns_after: Option<f64>,
    /// The share of the CPU time of both that others get, where it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others: Option<ShareEffect>,
}

impl Case {
    /// Shares of a CPU before and after, where an operation takes another CPU time. A share alone is no price: a call that
    /// returns earlier is made more often.
    pub(crate) fn cpu_shares(&self) -> Option<[f64; 2]> {
        let (before, after) = (self.cpu_ns_before?, self.cpu_ns_after?);
        let alike = before.max(after) - before.min(after) <= 0.2 * before.max(after);
        let shares = [self.cpu_share_before?, self.cpu_share_after?];
        (!alike && (shares[1] - shares[0]).abs() >= 0.005).then_some(shares)
    }

    /// The shown gain in others' share of the CPU; 0 where there is none.
    #[must_use]
    pub fn share_gained(&self) -> f64 {
        let shown = self.others.as_ref().filter(|effect| effect.outcome == Outcome::Better);
        shown.and_then(|effect| effect.gain).map_or(0.0, |gain| gain.share)
    }

    /// `others get 81 % of the CPU time of both instead of 49 %`, where a difference is shown.
    fn shares(&self) -> Option<String> {
        let effect = self.others.as_ref().filter(|effect| effect.is_shown())?;
        Some(format!("others get {}", share_instead(effect)?))
    }
}

/// `81 % of the CPU time of both instead of 49 %`.
pub(crate) fn share_instead(effect: &ShareEffect) -> Option<String> {
    let [after, before] = [effect.after?, effect.before?].map(spoken::share);
    Some(format!("{after} of the CPU time of both instead of {before}"))
}

/// A p99 of which no difference is shown. That is little where its interval leaves room for one as large as the gain at p50.
fn undecided(case: &Case) -> String {
    let gained_ns = case.p50.gain.map_or(0, |gain| gain.ns.abs());
    if case.p99.gain.is_some_and(|gain| gain.most_ns() <= gained_ns) {
        return "no difference shown".to_owned();
    }
    match case.p99.before_ns.zip(case.p99.after_ns) {
        Some((before, after)) if before.max(after) > before.min(after).saturating_mul(2) => {
            format!("undecided, {} before and {} after,", spoken::duration(before), spoken::duration(after))
        }
        _ => "undecided".to_owned(),
    }
}

/// From this multiple of the gain at p50 on, a gain at p99 is one of the tail.
const MOSTLY: i64 = 3;

/// Whether the tail looks more than twice as long, and the rounds do not tell whether it is.
pub(super) fn tail_looks_longer(case: &Case) -> bool {
    let undecided = matches!(case.p99.outcome, Outcome::NoDifference | Outcome::NotTested);
    let tails = case.p99.before_ns.zip(case.p99.after_ns);
    undecided && tails.is_some_and(|(before, after)| after > before.saturating_mul(2))
}

/// The code of a remedy for people, each language under its name where there are several.
pub(crate) fn lines(code: &Code) -> Option<String> {
    let all: Vec<(&str, &str)> = code.languages().collect();
    match all.as_slice() {
        [] => None,
        [(_, only)] => Some((*only).to_owned()),
        _ => Some(all.iter().map(|(language, text)| format!("{language}:\n{text}")).collect::<Vec<_>>().join("\n")),
    }
}

/// The one line to write: in a shell, where a program stays as it is; else in C, else in another language. `None`: none has a line.
pub(crate) fn line_of(code: &Code) -> Option<&str> {
    [&code.shell, &code.c, &code.rust, &code.python].into_iter().flatten().find_map(|text| {
        let mut needed = text.lines().filter(|line| !is_preamble(line));
        needed.next().filter(|_| needed.next().is_none())
    })
}

/// A header or a module that the line needs.
fn is_preamble(line: &str) -> bool {
    line.is_empty() || line.starts_with("#include") || line.starts_with("import ")
}

/// Another remedy that is equal to an advice.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Variant {
    /// What to use.
    pub what: String,
    /// What it costs.
    pub price: Price,
    /// What to write.
    pub code: Code,
    /// How far it was shown to be equal.
    pub equality: Equality,
}

/// How far two remedies were shown to be equal: the whole interval of their difference is small beside what they gain.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Equality {
    /// The difference is shown to be small at the median and at the 99th percentile.
    Both {
        /// The largest difference at the median that is not excluded, in ns.
        p50_ns: i64,
        /// The same at the 99th percentile.
        p99_ns: i64,
    },
    /// The difference is shown to be small at the median. At the 99th percentile the rounds do not tell.
    Median {
        /// The largest difference at the median that is not excluded, in ns.
        p50_ns: i64,
    },
    /// The difference in what is left to others is shown to be small.
    Share {
        /// The largest difference that is not excluded, 0 to 1.
        share: f64,
    },
}

impl Equality {
    /// What two cases show together.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Share { share: a }, Self::Share { share: b }) => Self::Share { share: a.max(b) },
            (Self::Both { p50_ns: a, p99_ns: c }, Self::Both { p50_ns: b, p99_ns: d }) => {
                Self::Both { p50_ns: a.max(b), p99_ns: c.max(d) }
            }
            (one, other) => Self::Median { p50_ns: one.p50_ns().max(other.p50_ns()) },
        }
    }

    fn p50_ns(self) -> i64 {
        match self {
            Self::Both { p50_ns, .. } | Self::Median { p50_ns } => p50_ns,
            Self::Share { .. } => 0,
        }
    }

    /// `Equal at p50, within 3 µs, and undecided at p99`.
    fn words(self) -> String {
        match self {
            Self::Both { p50_ns, p99_ns } => format!(
                "Equal at p50, within {}, and at p99, within {}",
                spoken::duration(p50_ns),
                spoken::duration(p99_ns)
            ),
            Self::Median { p50_ns } => {
                format!("Equal at p50, within {}, and undecided at p99", spoken::duration(p50_ns))
            }
            Self::Share { share } => format!("Equal within {} of a CPU", spoken::share(share)),
        }
    }
}

impl Advice {
    /// The case with the largest shown gain at p50, else at p99; else the first.
    #[must_use]
    pub fn best(&self) -> Option<&Case> {
        let gain = |case: &&Case| {
            if self.goal == Goal::LetOthersRun {
                return ((1e6 * case.share_gained()) as i64, 0);
            }
            (case.p50.better().map_or(i64::MIN, |gain| gain.ns), case.p99.better().map_or(i64::MIN, |gain| gain.ns))
        };
        self.cases.iter().rev().max_by_key(gain)
    }

    /// Whether the gain shown at p99 is several times that at p50, in the case that gains most at p99.
    pub(super) fn gains_at_the_tail(&self) -> bool {
        let tail = |case: &Case| case.p99.better().map_or(0, |gain| gain.low_ns);
        let Some(case) = self.cases.iter().max_by_key(|case| tail(case)) else { return false };
        tail(case) > case.p50.gain.map_or(0, |gain| gain.ns.max(0)).saturating_mul(MOSTLY)
    }

    /// The case in which its tail looks more than twice as long, and the rounds do not tell whether it is.
    pub(crate) fn longer_tail(&self) -> Option<String> {
        let best = self.best()?.case.as_str();
        let looks_longer = |case: &&Case| case.case != best && tail_looks_longer(case);
        let case = self.cases.iter().filter(looks_longer).max_by_key(|case| case.p99.after_ns)?;
        let [before, after] = [case.p99.before_ns?, case.p99.after_ns?].map(spoken::duration);
        Some(format!("At {} p99 is undecided, {before} before and {after} after.", unbroken(&case.case)))
    }

    /// Whether it, or a variant of it, is what these conditions bring.
    pub(crate) fn is_about(&self, what: &str) -> bool {
        self.what == what || self.equal.iter().any(|variant| variant.what == what)
    }

    /// `52 µs earlier at 100 µs, 71 µs at p99; no privilege.` and further sentences.
    #[must_use]
    pub fn text(&self) -> String {
        let effect = self.effect();
        let mut text = format!("{effect}; {}.", listed(&self.cost(), usize::MAX));
        text.push_str(&self.variants());
        text
    }

    /// Whether it replaces a remedy that one of these advises.
    pub(super) fn is_further(&self, all: &[Self]) -> bool {
        all.iter().any(|other| other.goal == self.goal && other.is_about(&self.instead_of))
    }

    /// `to let others run, sched_yield()`: what it is called. What improves on another advice is no second gain on what was found.
    pub(crate) fn named(&self, all: &[Self]) -> String {
        let instead = if self.is_further(all) { format!(" instead of {}", self.instead_of) } else { String::new() };
        format!("{}{}{instead}", self.goal.purpose(), self.what)
    }

    /// The same for the first screen: `timer slack 1 ns: 52 µs earlier at 100 µs (p99 71 µs); no privilege.`
    #[must_use]
    pub fn short(&self, all: &[Self]) -> String {
        let lead = self.named(all);
        let Some(case) = self.best() else { return format!("{lead}: not tested.") };
        if self.goal == Goal::LetOthersRun {
            return format!("{lead}: {}", self.text());
        }
        let at = match case.case.as_str() {
            "" => String::new(),
            its if ["on ", "with ", "for "].iter().any(|word| its.starts_with(word)) => format!(" {}", unbroken(its)),
            place => format!(" at {}", unbroken(place)),
        };
        let p50 = self.moved(&case.p50).unwrap_or_else(|| "no difference at p50".to_owned()) + &at;
        let p99 = match self.moved(&case.p99) {
            Some(moved) => format!("p99 {moved}"),
            None if case.p99.outcome == Outcome::NotTested => "p99 not tested".to_owned(),
            None => format!("p99: {}", undecided(case).trim_end_matches(',')),
        };
        let cost = listed(&self.cost(), usize::MAX);
        format!("{lead}: {p50} ({p99}); {cost}.{}", self.variants())
    }

    /// What speaks against it, and ` Equal at p50, within 3 µs, and undecided at p99: timerfd and SCHED_FIFO 40 (CAP_SYS_NICE).`
    fn variants(&self) -> String {
        let mut text = self.doubt.as_ref().map_or(String::new(), |doubt| format!(" {doubt}"));
        if self.in_company {
            text.push_str(" Most of this gain is in the tail of a busy machine.");
        }
        if !self.equal.is_empty() {
            let named = |variant: &Variant| match &variant.price.privilege {
                Some(privilege) => format!("{} ({privilege})", variant.what),
                None => variant.what.clone(),
            };
            let names: Vec<String> = self.equal.iter().map(named).collect();
            let shown = self.equal.iter().map(|variant| variant.equality).reduce(Equality::and);
            let words = shown.map(Equality::words).unwrap_or_default();
            text.push_str(&format!(" {words}: {}.", listed(&names, 4)));
        }
        text
    }

    /// What it does in its best case; where it does something.
    #[must_use]
    pub fn effect(&self) -> String {
        let Some(case) = self.best() else { return "not tested".to_owned() };
        let at = if case.case.is_empty() { String::new() } else { format!(" ({})", unbroken(&case.case)) };
        if self.goal == Goal::LetOthersRun {
            let outcome = case.others.as_ref().map(|effect| effect.outcome);
            let none = if outcome == Some(Outcome::NoDifference) { "no difference shown" } else { "not tested" };
            return format!("{}{at}", case.shares().unwrap_or_else(|| none.to_owned()));
        }
        let none_shown = |effect: &Effect| effect.outcome == Outcome::NoDifference;
        let p50 = if none_shown(&case.p50) { Some("no difference shown".to_owned()) } else { self.moved(&case.p50) };
        let p99 = if none_shown(&case.p99) { Some(undecided(case)) } else { self.moved(&case.p99) };
        match (p50, p99) {
            (Some(p50), Some(p99)) => format!("{p50} at p50, {p99} at p99{at}"),
            (Some(p50), None) => format!("{p50} at p50, p99 not tested{at}"),
            (None, Some(p99)) => format!("p50 not tested, {p99} at p99{at}"),
            (None, None) => format!("not tested{at}"),
        }
    }

    /// `52 µs earlier`, where a gain or a loss is shown.
    fn moved(&self, effect: &Effect) -> Option<String> {
        let [smaller, larger] = self.goal.words();
        let gained = effect.better().map(|gain| (gain, smaller));
        let (by, word) = gained.or_else(|| Some((effect.worse()?, larger)))?;
        Some(format!("{} {word}", spoken::duration(by.ns)))
    }

    /// What it costs, in a few words each; never empty.
    fn cost(&self) -> Vec<String> {
        let by_time = self.best().filter(|_| self.goal != Goal::LetOthersRun);
        let cpu = by_time.and_then(Case::cpu_shares);
        let cpu = cpu
            .map(|[before, after]| format!("{} of a CPU instead of {}", spoken::share(after), spoken::share(before)));
        let Price { privilege, energy, others, program } = &self.price;
        let needs = match privilege {
            Some(privilege) => format!("needs {privilege}"),
            None => "no privilege".to_owned(),
        };
        let shares = by_time.and_then(Case::shares);
        cpu.into_iter()
            .chain(shares)
            .chain([needs])
            .chain([energy, others, program].into_iter().flatten().cloned())
            .collect()
    }
}

// A remedy that a run can judge.

/// A remedy, and the series that show what it does.
#[derive(Debug, Clone)]
pub(crate) struct Candidate<'a> {
    /// Its stable name. Candidates of one name and goal are one remedy in several cases.
    pub(crate) id: String,
    /// What it is for.
    pub(crate) goal: Goal,
    /// What it removes: remedies of one cause that show no difference are one advice.
    pub(crate) cause: String,
    /// What to use.
    pub(crate) what: String,
    /// What it replaces.
    pub(crate) instead_of: String,
    /// The cases.
    pub(crate) trials: Vec<Trial<'a>>,
    /// What it costs, beside CPU time.
    pub(crate) price: Price,
    /// What to write.
    pub(crate) code: Code,
}

impl<'a> Candidate<'a> {
    /// One thing instead of another in one case, which is a cause of its own and has no price and no code yet.
    pub(crate) fn instead(goal: Goal, what: String, instead_of: String, trial: Trial<'a>) -> Self {
        let id = format!("{what} instead of {instead_of}");
        let (price, code) = (Price::default(), Code::default());
        Self { id, goal, cause: what.clone(), what, instead_of, trials: vec![trial], price, code }
    }
}

/// One case of a remedy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trial<'a> {
    /// The case as a number, by which cases are ordered and matched: the duration asked in ns, a size.
    pub(crate) case: i64,
    /// Its name.
    pub(crate) name: fn(i64) -> String,
    /// Without the remedy.
    pub(crate) before: &'a Series,
    /// With it.
    pub(crate) after: &'a Series,
}
