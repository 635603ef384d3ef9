//! Series that can share a picture.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use punctual_record::{Distribution, Param, Quantity, Run, Series};

use crate::document::{Album, Picture};
use crate::format::naming;
use crate::format::naming::spoken_parameter;
use crate::format::{counted, grouped};

/// Parameters by which lines of one picture may differ. Those that differ otherwise make figures incomparable and are in a
/// picture's title.
const WITHIN: [&str; 4] = ["polls", "receive", "sender_cpu", "receiver_cpu"];

/// Most lines in one picture.
pub(super) const MOST_LINES: usize = 48;
/// Lines shown at first.
pub(super) const AT_FIRST: usize = 8;

/// Series of one picture.
#[derive(Debug)]
pub(super) struct Group<'a> {
    /// What all of them share, for instance `asked 100 µs`.
    pub(super) label: String,
    /// What their figures are.
    pub(super) quantity: Quantity,
    /// The series: the baseline, what is advised, then the best median first.
    pub(super) members: Vec<Member<'a>>,
    /// Series that are in the tables only. Their calls make far more of a wait than was asked, and would flatten all others.
    pub(super) coarse: usize,
}

/// A series and its name within the picture.
#[derive(Debug)]
pub(super) struct Member<'a> {
    /// The series.
    pub(super) series: &'a Series,
    /// Subject, and what distinguishes it from others of that subject.
    pub(super) name: String,
    /// The name, and what it is to the others: the baseline, or advised.
    pub(super) label: String,
    /// Whether the others are compared with it.
    pub(super) is_baseline: bool,
    /// Whether the verdict advises it.
    pub(super) is_advised: bool,
    /// Its samples, decoded on demand: decoding takes most of the time, and few of many series are drawn.
    decoded: OnceCell<Option<Distribution>>,
}

impl Member<'_> {
    /// Its samples; None where the file has none that can be decoded.
    pub(super) fn distribution(&self) -> Option<&Distribution> {
        let decode = || Distribution::from_series(self.series).ok().filter(|samples| samples.count() > 0);
        self.decoded.get_or_init(decode).as_ref()
    }

    /// Whether a picture wanted its samples, and there are some that cannot be decoded.
    pub(super) fn is_undrawn(&self) -> bool {
        self.series.summary.count > 0 && self.decoded.get().is_some_and(Option::is_none)
    }
}

/// Whether figures that differ in this parameter cannot be compared.
pub(super) fn is_apart(name: &str) -> bool {
    !WITHIN.contains(&name)
}

/// What the figures are called on an axis.
pub(crate) fn quantity_name(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Overshoot | Quantity::Lateness => "how late",
        Quantity::OneWay => "one-way latency",
        Quantity::RoundTrip => "round trip",
        Quantity::CallCost => "cost of a call",
        Quantity::Away => "time away from the CPU",
        Quantity::Loop => "duration of a loop",
        Quantity::FirstLoops => "duration of the first loops",
        Quantity::PeriodJitter => "period jitter",
        Quantity::Settling => "time until the new speed",
        Quantity::Response => "response time",
    }
}

/// Overshoot and lateness are both "how late", and are compared.
fn comparable(quantity: Quantity) -> Quantity {
    if quantity == Quantity::Overshoot { Quantity::Lateness } else { quantity }
}

/// What a series shares with others of its group: parameters that `apart` names, in words.
pub(super) fn shared(series: &Series, apart: impl Fn(&str) -> bool) -> String {
    let parameters = series.experiment.parameters();
    let kept = parameters.iter().filter(|(name, _)| apart(name));
    let words: Vec<String> = kept.map(|(name, value)| spoken_parameter(name, value)).collect();
    words.join(", ")
}

/// Names of series within a picture: the subject, with conditions and parameters where they differ. Parameters count only
/// between series of one subject.
pub(super) fn names(series: &[&Series]) -> Vec<String> {
    let one_set = series.windows(2).all(|pair| pair[0].conditions == pair[1].conditions);
    let parameters: Vec<_> = series.iter().map(|series| series.experiment.parameters()).collect();
    let differs = |name: &str| parameters.windows(2).any(|pair| pair[0].get(name) != pair[1].get(name));
    let within: Vec<&str> = WITHIN.iter().copied().filter(|name| differs(name)).collect();
    let of_subject = counted(series.iter().map(|series| series.subject.as_str()));
    let name = |(series, parameters): (&&Series, &BTreeMap<String, Param>)| {
        let mut words = vec![series.subject.clone()];
        if !one_set {
            words.push(series.conditions.clone());
        }
        if of_subject[series.subject.as_str()] == 1 {
            return words.join(", ");
        }
        words.extend(within.iter().filter_map(|name| Some(spoken_parameter(name, parameters.get(*name)?))));
        words.join(", ")
    };
    series.iter().zip(&parameters).map(name).collect()
}

/// The series in groups, in the order in which each group first appears.
pub(super) fn groups<'a>(run: &'a Run, series: &[&'a Series], advised: &[&Series]) -> Vec<Group<'a>> {
    let is_advised = |series: &Series| advised.iter().any(|one| std::ptr::eq(*one, series));
    let by_key = grouped(series, |series| (comparable(series.quantity), shared(series, is_apart)));
    let labels = labels(&by_key);
    let mut groups = Vec::new();
    for (((quantity, _), mut members), label) in by_key.into_iter().zip(labels) {
        members.sort_by_key(|series| (rounds_up(series), !is_advised(series), series.summary.p50.unwrap_or(i64::MAX)));
        let exact = members.iter().filter(|series| !rounds_up(series)).count();
        let coarse = if exact > 0 { members.len() - exact } else { 0 };
        // They were sorted to the end.
        members.truncate(members.len() - coarse);
        let baseline = baseline(run, &members);
        if let Some(at) = baseline {
            members[..=at].rotate_right(1);
        }
        let names = names(&members);
        let member = |(i, (series, name)): (usize, (&&'a Series, String))| {
            let is_baseline = i == 0 && baseline.is_some();
            let is_advised = is_advised(series) && !is_baseline;
            let role = match (is_baseline, is_advised) {
                (true, _) => " (baseline)",
                (_, true) => " (advised)",
                _ => "",
            };
            let label = format!("{name}{role}");
            Member { series, name, label, is_baseline, is_advised, decoded: OnceCell::new() }
        };
        let members = members.iter().zip(names).enumerate().map(member).collect();
        groups.push(Group { label, quantity, members, coarse });
    }
    groups
}

/// Quantity and shared parameters of a group, with its series.
type Keyed<'a> = ((Quantity, String), Vec<&'a Series>);

/// What distinguishes each group: its quantity where there are several, and the parameters that differ. Where that is not enough
/// it is all that its series share.
fn labels(groups: &[Keyed<'_>]) -> Vec<String> {
    let parameters: Vec<_> = groups.iter().map(|(_, members)| members[0].experiment.parameters()).collect();
    let values = |name: &str| {
        let mut values: Vec<&Param> = parameters.iter().filter_map(|parameters| parameters.get(name)).collect();
        values.dedup();
        values.len()
    };
    let one_quantity = groups.windows(2).all(|pair| pair[0].0.0 == pair[1].0.0);
    let label = |quantity: Quantity, subject: &str| {
        let parts = [if one_quantity { "" } else { quantity_name(quantity) }, subject];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
    };
    let differing = |members: &[&Series]| shared(members[0], |name| is_apart(name) && values(name) > 1);
    let short: Vec<String> =
        groups.iter().map(|((quantity, _), members)| label(*quantity, &differing(members))).collect();
    if groups.len() > 1 && counted(&short).len() == groups.len() {
        return short;
    }
    groups.iter().map(|((quantity, all), _)| label(*quantity, all)).collect()
}

/// The series that the others are compared with: the call that programs use most, under the usual conditions. Without such a
/// call it is what was measured under several conditions, under the first of them.
fn baseline(run: &Run, members: &[&Series]) -> Option<usize> {
    let labels: Vec<&str> = members.iter().map(|series| series.conditions.as_str()).collect();
    let first = || run.conditions.iter().map(|set| set.label.as_str()).find(|label| labels.contains(label));
    let usual = naming::usual(&labels).or_else(|| first().map(str::to_owned))?;
    let under =
        |subject: &str| members.iter().position(|series| series.subject == subject && series.conditions == usual);
    let several = labels.iter().any(|label| *label != usual);
    let known = naming::SLEEPING_CALLS.iter().find_map(|name| under(name));
    known.or_else(|| {
        let sets = counted(members.iter().map(|series| series.subject.as_str()));
        let varied = members.iter().map(|series| series.subject.as_str()).max_by_key(|name| sets[name]);
        under(varied.filter(|name| several && sets[name] > 1)?)
    })
}

/// Whether the call makes more of the wait than was asked: such series are looked at last.
fn rounds_up(series: &Series) -> bool {
    series.experiment.any_wait().is_some_and(|wait| wait.rounds_to().is_some())
}

impl Group<'_> {
    /// Whether its samples have an order that matters, so that sorting them would hide what they show.
    pub(super) fn is_ordered(&self) -> bool {
        self.members.iter().any(|member| member.series.samples.is_some())
    }

    /// How to read a picture, with what it leaves out.
    pub(super) fn about(&self, text: &str) -> String {
        match self.coarse {
            0 => text.to_owned(),
            n => format!("{text} Not drawn: {n} series of calls that round the wait up; they are in the table."),
        }
    }

    /// A title: what is shown, of what.
    pub(super) fn title(&self, shown: &str) -> String {
        if self.label.is_empty() { shown.to_owned() } else { format!("{shown}, {}", self.label) }
    }
}

/// The baseline's place among these members.
pub(super) fn place_of_baseline(members: &[&Member<'_>]) -> Option<usize> {
    members.iter().position(|member| member.is_baseline)
}

/// Which members are shown at first: the baseline, what is advised, and others up to `most`, of different subjects if possible, the best
/// first.
pub(super) fn shown(members: &[&Member<'_>], most: usize) -> Vec<bool> {
    let mut shown: Vec<bool> = members.iter().map(|member| member.is_baseline || member.is_advised).collect();
    let mut subjects: Vec<&str> = Vec::new();
    let mut count = shown.iter().filter(|shown| **shown).count();
    for (i, member) in members.iter().enumerate() {
        let is_new = !subjects.contains(&member.series.subject.as_str());
        subjects.push(&member.series.subject);
        if count < most && is_new && !shown[i] {
            shown[i] = true;
            count += 1;
        }
    }
    let missing = most.saturating_sub(count);
    shown.iter_mut().filter(|is_shown| !**is_shown).take(missing).for_each(|is_shown| *is_shown = true);
    shown
}

/// Most pictures of a kind: beyond, a page is no longer looked at, only large.
const MOST_PICTURES: usize = 24;

/// The pictures of the first of `all`, each with what distinguishes it. The album says how many more there are.
pub(crate) fn album<T>(
    kind: &'static str,
    all: impl IntoIterator<Item = (String, T)>,
    draw: impl Fn(&str, T) -> Option<Picture>,
) -> Album {
    let mut album = Album { kind, ..Album::default() };
    let mut more = 0;
    for (label, one) in all {
        if album.pictures.len() == MOST_PICTURES {
            more += 1;
        } else if let Some(picture) = draw(&label, one) {
            album.pictures.push((label, picture));
        }
    }
    if more > 0 {
        album.missing = format!("{more} more of these are not drawn; the tables have all figures.");
    }
    album
}
