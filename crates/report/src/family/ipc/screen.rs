//! The first screen of messages: which mechanism is the quickest, which passes most messages, which takes the least CPU time, and a
//! table of all. It is about one size under the first conditions; the other tables have the rest.

use std::collections::BTreeSet;

use punctual_record::Run;
use punctual_record::experiment::ipc::{Mode, Placement};

use crate::document::{Album, Columns, Table};
use crate::evidence::{MIN_ROUNDS, Outcome};
use crate::family::ipc::matters::{USUAL, change, naming_of};
use crate::family::ipc::traffic::{
    Message, Race, brief, bytes, contests, does_not_pay, lists, place, races, sleeps, used,
};
use crate::family::shared::{ALWAYS, also, has_few_rounds};
use crate::format::{counted, distinct, listed, spoken, unbroken, units};
use crate::pictures::dots::{self, Dot, Panel};
use crate::verdict::{Advice, Standing};

/// Most names in a sentence.
const NAMES: usize = 3;
/// Most places side by side.
const PLACES: usize = 2;
/// Less is the scatter of CPU time.
const LESS: f64 = 0.9;

/// The messages of the first screen.
pub(super) struct Field<'a> {
    /// Those whose latency is not time in a queue, of one kind of traffic.
    latency: Vec<Message<'a>>,
    /// Those that are sent as fast as they are taken.
    saturated: Vec<Message<'a>>,
    places: Vec<Placement>,
}

/// A sentence, and the mechanism that it names.
type Said = (String, Option<String>);

impl<'a> Field<'a> {
    /// `None` where there are no messages.
    pub(super) fn new(messages: &[Message<'a>]) -> Option<Self> {
        let conditions = &messages.first()?.series.conditions;
        let own = || messages.iter().copied().filter(|message| message.series.conditions == *conditions);
        let size = most_common(own())?;
        // What carries no more than a signal has a size of its own.
        let sizes = |name: &str| {
            distinct(own().filter(|message| naming_of(message) == name).map(|message| message.parameters.size))
        };
        let belongs = |message: &Message<'a>| message.parameters.size == size || sizes(&naming_of(message)).len() == 1;
        let (saturated, mut latency): (Vec<_>, Vec<_>) =
            own().filter(belongs).partition(|message| message.parameters.mode == Mode::Saturated);
        if let Some(first) = latency.first().map(|message| message.parameters) {
            latency.retain(|message| {
                message.parameters.mode == first.mode && message.parameters.interval_ns == first.interval_ns
            });
        }
        let all = latency.iter().chain(&saturated);
        let places: BTreeSet<Placement> = all.map(|message| message.parameters.place).collect();
        Some(Self { places: places.into_iter().collect(), latency, saturated })
    }

    /// The winners, each with its sentence; none where there is one mechanism only.
    pub(super) fn sentences(&self, run: &Run) -> Vec<Said> {
        if distinct(self.latency.iter().chain(&self.saturated).map(naming_of)).len() < 2 {
            return Vec::new();
        }
        if self.latency.iter().chain(&self.saturated).all(|message| has_few_rounds(message)) {
            let text = format!("Which mechanism is the best was not tested: fewer than {MIN_ROUNDS} rounds.");
            return vec![(text, None)];
        }
        let mut said = self.quickest(run);
        said.extend(self.most());
        said.extend(self.least_cpu());
        said
    }

    /// The mechanism, and its place where there are several.
    fn name(&self, message: &Message<'_>) -> String {
        let name = naming_of(message);
        if self.places.len() > 1 { format!("{name} on {}", place(message.parameters)) } else { name }
    }

    fn quickest(&self, run: &Run) -> Vec<Said> {
        let (sleeping, spinning): (Vec<_>, Vec<_>) = self.latency.iter().copied().partition(sleeps);
        let both: Vec<Vec<Message<'a>>> =
            contests(&self.latency).iter().map(|contest| lists(contest)[2].clone()).collect();
        let raced = races(run, &[vec![sleeping, spinning], both].concat());
        let (first, places) = raced.split_at(2);
        let mut said: Vec<Said> = Vec::new();
        for (race, who) in first.iter().zip(["a receiver that sleeps", "one that polls, which takes a CPU"]) {
            said.extend(race.as_ref().filter(|race| !race.others.is_empty()).map(|race| self.won(race, who)));
        }
        said.extend(places.iter().flatten().filter_map(does_not_pay).map(|text| (text, None)));
        said
    }

    /// `Quickest with a receiver that sleeps: pipe on one CPU, 6.50 µs at p50 (64 B, there and back).`
    fn won(&self, race: &Race<'_>, who: &str) -> Said {
        let parameters = race.best.parameters;
        let names = |outcome: Outcome| -> Vec<String> {
            let those = race.others.iter().filter(|(_, effect)| effect.outcome == outcome);
            those.map(|(message, _)| self.name(message)).collect()
        };
        let word = if names(Outcome::Better).is_empty() { "Lowest p50" } else { "Quickest" };
        let (size, late) = (unbroken(&bytes(parameters.size)), spoken::duration(race.best.summary.p50.unwrap_or(0)));
        let name = self.name(&race.best);
        if names(Outcome::NotTested).len() == race.others.len() {
            let why = race.others.iter().find_map(|(_, effect)| effect.why.as_deref()).unwrap_or("too few rounds");
            return (format!("Which mechanism is the quickest with {who} was not tested: {why}."), None);
        }
        let text = format!("{word} with {who}: {name}, {late} ({size}, {}).", brief(parameters));
        let (alike, untested) = (names(Outcome::NoDifference), names(Outcome::NotTested));
        let others = also([("No difference shown from", alike), ("Not tested against", untested)], NAMES);
        (text + &others, Some(naming_of(&race.best)))
    }

    /// What passes most. These are figures, not tests: a round has no rate. With few rounds there are none.
    fn most(&self) -> Option<Said> {
        let rate = |message: &Message<'_>| message.metrics.per_second.unwrap_or(0.0);
        let mut known: Vec<&Message<'_>> =
            self.saturated.iter().filter(|message| rate(message) > 0.0 && !has_few_rounds(message)).collect();
        known.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
        let best = *known.first()?;
        let other = known.iter().find(|message| naming_of(message) != naming_of(best))?;
        let shown = |message: &Message<'_>| {
            format!("{}, {}", self.name(message), unbroken(&units::count(rate(message).round() as u64)))
        };
        let near = known.iter().skip(1).take_while(|message| rate(message) > LESS * rate(best));
        let near: Vec<String> = near.map(|message| self.name(message)).collect();
        let mut text = format!("Most messages a second: {}", shown(best));
        if !near.is_empty() {
            text.push_str(&format!("; hardly fewer: {}", listed(&near, NAMES)));
        }
        if !near.contains(&self.name(other)) {
            text.push_str(&format!("; next mechanism: {}", shown(other)));
        }
        Some((text + ".", Some(naming_of(best))))
    }

    /// What takes the least CPU time of both processes, and what takes hardly more.
    fn least_cpu(&self) -> Option<Said> {
        let messages = if self.latency.is_empty() { &self.saturated } else { &self.latency };
        let mut known: Vec<(f64, &Message<'_>)> = messages
            .iter()
            .filter(|message| !has_few_rounds(message))
            .filter_map(|message| Some((cpu(message)?, message)))
            .collect();
        known.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (least, best) = *known.first()?;
        // A difference to itself on another place is a matter of the place.
        known.iter().find(|(_, message)| naming_of(message) != naming_of(best))?;
        let mut text =
            format!("Least CPU time of both processes: {}, {} a message", self.name(best), spoken::fine(least));
        let near = known.iter().skip(1).take_while(|(ns, _)| least > LESS * ns);
        let near: Vec<String> = near.map(|(_, message)| self.name(message)).collect();
        if !near.is_empty() {
            text.push_str(&format!("; hardly more: {}", listed(&near, NAMES)));
        }
        Some((text + ".", Some(naming_of(best))))
    }

    /// Every mechanism whose latency is no time in a queue, a panel for each place; what programs use most is what the others are compared
    /// with.
    pub(super) fn picture(&self, own: &[&Advice]) -> Option<Album> {
        let is_advised = |message: &Message<'_>| {
            let what = change(message);
            own.iter().any(|advice| advice.standing == Standing::Advised && advice.is_about(&what))
        };
        let name = |message: &Message<'a>, size: u64| match message.parameters.size {
            own if own == size => naming_of(message),
            own => format!("{} ({})", naming_of(message), bytes(own)),
        };
        let dot = |message: &Message<'a>, size: u64| Dot {
            baseline: message.subject == USUAL && sleeps(message),
            advised: is_advised(message),
            ..Dot::new(&name(message, size), message.series)
        };
        let panel = |at: &Placement| {
            let mut here: Vec<&Message<'a>> =
                self.latency.iter().filter(|message| message.parameters.place == *at).collect();
            here.sort_by_key(|message| message.summary.p50);
            let first = here.first()?.parameters;
            let size = most_common(here.iter().map(|message| **message))?;
            let title = format!("{} {} on {}", unbroken(&bytes(size)), brief(first), place(first));
            Some(Panel { title, rows: here.into_iter().map(|message| dot(message, size)).collect() })
        };
        dots::album(self.places.iter().filter_map(panel).collect())
    }

    /// A row for each mechanism, the quickest first. `named`: the rows that stay.
    pub(super) fn table(&self, named: Vec<String>) -> Table {
        let places = &self.places[..self.places.len().min(PLACES)];
        let message_of = |name: &str, list: &[Message<'a>], at: Placement| {
            list.iter().copied().find(|message| naming_of(message) == name && message.parameters.place == at)
        };
        let p50 =
            |name: &str, at: Placement| message_of(name, &self.latency, at).and_then(|message| message.summary.p50);
        let rate = |name: &str, at: Placement| {
            message_of(name, &self.saturated, at).and_then(|message| message.metrics.per_second)
        };
        let mut names = distinct(self.latency.iter().chain(&self.saturated).map(naming_of));
        let least = |name: &str| places.iter().filter_map(|at| p50(name, *at)).min().unwrap_or(i64::MAX);
        let most = |name: &str| places.iter().filter_map(|at| rate(name, *at)).fold(0.0, f64::max);
        names.sort_by(|a, b| least(a).cmp(&least(b)).then(most(b).total_cmp(&most(a))));
        // Three figures of two places find room.
        let (late, full) = (!self.latency.is_empty(), !self.saturated.is_empty());
        let mut columns = Columns::new().left("mechanism", ALWAYS, |name: &String| name.clone());
        for &at in places {
            let mut all = self.latency.iter().chain(&self.saturated).map(|message| message.parameters);
            let over = all.find(|parameters| parameters.place == at).map(place).unwrap_or_default();
            let message = move |name: &str| message_of(name, if late { &self.latency } else { &self.saturated }, at);
            let a_second = move |name: &String| rate(name, at).map(|rate| rate.round() as u64);
            columns = columns.over(over, |columns| {
                columns
                    .when(late, |columns| columns.ns("p50", ALWAYS, move |name| p50(name, at)))
                    .when(late && !full, |columns| columns.ns("p99", ALWAYS, move |name| message(name)?.summary.p99))
                    .when(full, |columns| columns.count("a second", ALWAYS, a_second))
                    .fine("CPU", ALWAYS, move |name| cpu(&message(name)?))
            });
        }
        let figure = |name: &String| {
            let best = if late { units::duration(least(name)) } else { units::count(most(name).round() as u64) };
            (name.clone(), if late && least(name) == i64::MAX { String::new() } else { best })
        };
        let figures = names.iter().map(figure).collect();
        columns.plain(&names).ranked_by(if late { "p50" } else { "a second" }, figures, named)
    }
}

/// The size that most mechanisms were measured with, the smallest of several.
fn most_common<'a>(messages: impl Iterator<Item = Message<'a>>) -> Option<u64> {
    let pairs = distinct(messages.map(|message| (message.parameters.size, naming_of(&message))));
    let counts = counted(pairs.into_iter().map(|(size, _)| size));
    counts.into_iter().rev().max_by_key(|(_, mechanisms)| *mechanisms).map(|(size, _)| size)
}

/// CPU time of both processes for a message.
fn cpu(message: &Message<'_>) -> Option<f64> {
    let (sender, receiver) = used(message);
    Some(sender.cpu_ns? + receiver.cpu_ns?)
}
