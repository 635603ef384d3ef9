//! Names in every form of report: sets of conditions, parameters, series.
//!
//! The name of a set is its label: the phrases of the requested settings (`SCHED_FIFO 40, slack 1 ns`). Added
//! are an unusual inherited policy or nice value, and the refused settings.

use std::collections::BTreeMap;

use punctual_record::{ConditionSet, NICE, POLICY, Param, Run, Setting};
use serde::Serialize;

use super::{counted, sanitize, units};

/// A set of which nothing was asked.
pub(crate) const AS_FOUND: &str = "as found";

/// Calls with the thread's slack (prctl(2), PR_SET_TIMERSLACK), by how well they stand for what programs do.
pub(crate) const SLEEPING_CALLS: [&str; 4] = ["clock_nanosleep_abs", "clock_nanosleep", "nanosleep", "usleep"];

/// What the set of conditions with this label is called in a document: `SCHED_FIFO 40, slack 50 µs, policy refused`.
pub(crate) fn conditions(run: &Run, label: &str) -> String {
    phrase(&label_of(run, label))
}

/// The same for files that programs read: `slack 50 us`.
pub(crate) fn label_of(run: &Run, label: &str) -> String {
    name_of(run.conditions.iter().find(|set| set.label == label), label)
}

fn name_of(set: Option<&ConditionSet>, label: &str) -> String {
    let inherited: Vec<&str> = set.into_iter().flat_map(inherited).collect();
    let own = (label != AS_FOUND || inherited.is_empty()).then_some(label);
    let mut name = own.into_iter().chain(inherited).collect::<Vec<_>>().join(", ");
    for refusal in set.iter().flat_map(|set| &set.refused) {
        name.push_str(&format!(", {} refused", refusal.condition));
    }
    sanitize(&name)
}

/// What the process was started with (chrt(1), nice(1)) and nothing here asked for. The kernel does not use the nice
/// value of a real-time thread.
fn inherited(set: &ConditionSet) -> impl Iterator<Item = &str> {
    let inherited = |name, usual: Param| {
        let setting = set.setting(name).filter(|setting| setting.asked.is_none())?;
        setting.applied.as_ref().filter(|applied| **applied != usual).map(|_| setting.phrase.as_str())
    };
    let nice = if set.is_real_time() { None } else { inherited(NICE, Param::Int(0)) };
    inherited(POLICY, Param::Text("other".into())).into_iter().chain(nice)
}

/// The phrase of a setting in a document, with the unit that figures have: `slack 50 us` becomes `slack 50 µs`.
pub(crate) fn phrase(text: &str) -> String {
    let spelled = |word: &str| {
        let stem = word.trim_end_matches(|c: char| c.is_ascii_punctuation());
        if stem == "us" { word.replacen("us", "µs", 1) } else { word.to_owned() }
    };
    sanitize(text).split(' ').map(spelled).collect::<Vec<_>>().join(" ")
}

/// A name of conditions after what was measured under them: `under SCHED_FIFO 40`, `as found`.
pub(crate) fn under(name: &str) -> String {
    if name == AS_FOUND { name.to_owned() } else { format!("under {name}") }
}

/// What was asked of every set of a run.
pub(crate) fn asked_of_all(run: &Run) -> Vec<&Setting> {
    let Some((first, others)) = run.conditions.split_first() else { return Vec::new() };
    let same = |set: &ConditionSet, setting: &Setting| {
        set.setting(&setting.condition).is_some_and(|other| other.asked == setting.asked)
    };
    let asked = first.settings.iter().filter(|setting| setting.asked.is_some());
    asked.filter(|setting| others.iter().all(|other| same(other, setting))).collect()
}

/// A parameter as text: `asked 100 µs`, `size 64`.
pub(crate) fn parameter(name: &str, value: &Param) -> String {
    let shown = match (name.strip_suffix("_ns"), value) {
        (Some(_), Param::Int(ns)) => units::exact(*ns),
        (_, Param::Int(n)) => n.to_string(),
        (_, Param::Flag(flag)) => if *flag { "yes" } else { "no" }.to_owned(),
        (_, Param::Real(x)) => units::significant(*x),
        (_, Param::Text(text)) => sanitize(text),
    };
    let name = name.strip_suffix("_ns").unwrap_or(name).replace('_', " ");
    format!("{} {shown}", sanitize(&name))
}

/// What titles of pictures say of parameters that have a word as their value.
const SPOKEN: [(&str, &str, &str); 24] = [
    ("competitor_kind", "process", "a process"),
    ("competitor_kind", "thread", "a thread"),
    ("competitor_policy", AS_FOUND, "scheduled as found"),
    ("competitor_rank", "higher", "which goes first"),
    ("competitor_rank", "same", "of the same rank"),
    ("competitor_rank", "lower", "which goes last"),
    ("figure", "sleep_adds", "what a sleep adds"),
    ("figure", "clock_costs", "what the clock costs"),
    ("figure", "plain", "as asked"),
    ("figure", "compensated", "shortened by TN"),
    ("figure", "remeasured", "shortened by TN measured again"),
    ("figure", "compensated_sleeper", "the library's Sleeper"),
    ("load", "busy", "busy CPU"),
    ("load", "idle", "idle CPU"),
    ("measured", "arrival", "as they arrive"),
    ("measured", "departure", "as they leave"),
    ("mode", "ping-pong", "there and back"),
    ("mode", "rate", "at a rate"),
    ("mode", "saturated", "as fast as they are taken"),
    ("mode", "sporadic", "with a pause after each"),
    ("place", "any-cpu", "on any CPU"),
    ("place", "same-cpu", "on one CPU"),
    ("place", "two-cpus", "on two CPUs"),
    ("to", "tick-only", "nothing is sent"),
];

/// Names of numbers, with what stands before and after the number.
const COUNTED: [(&str, &str, &str); 9] = [
    ("competitors", "with ", " competitors"),
    ("deadline_ns", "due after ", ""),
    ("interval_ns", "every ", ""),
    ("loops", "", " loops"),
    ("period_ns", "every ", ""),
    ("rate_per_second", "", " a second"),
    ("rest_ns", "after a rest of ", ""),
    ("size", "", " B"),
    ("work_ns", "work of ", ""),
];

/// A parameter as a person says it: `on one CPU`, `64 B`; without such words as [`parameter`] has it.
pub(crate) fn spoken_parameter(name: &str, value: &Param) -> String {
    if let Param::Text(text) = value
        && let Some((.., words)) = SPOKEN.iter().find(|(known, key, _)| *known == name && key == text)
    {
        return (*words).to_owned();
    }
    match (COUNTED.iter().find(|(known, ..)| *known == name), value) {
        (Some(("competitors", ..)), Param::Int(0)) => "alone".to_owned(),
        (Some(("competitors", ..)), Param::Int(1)) => "with 1 competitor".to_owned(),
        (Some((_, before, after)), Param::Int(n)) if name.ends_with("_ns") => {
            format!("{before}{}{after}", units::exact(*n))
        }
        (Some((_, before, after)), Param::Int(n)) => format!("{before}{n}{after}"),
        (Some((_, before, after)), Param::Real(x)) => format!("{before}{}{after}", units::significant(*x)),
        _ => parameter(name, value),
    }
}

/// A subject with its parameters: `nanosleep, asked 100 µs`.
pub(crate) fn subject(subject: &str, parameters: &BTreeMap<String, Param>) -> String {
    let parameters = parameters.iter().map(|(name, value)| parameter(name, value));
    [sanitize(subject)].into_iter().chain(parameters).collect::<Vec<_>>().join(", ")
}

/// What a variant is called in the record: `timer_slack`.
pub(crate) fn code_of(variant: &impl Serialize) -> String {
    let value = serde_json::to_value(variant).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// Lines of code from a run, for a terminal.
pub(crate) fn code(code: &str) -> String {
    /// What belongs to one call or condition is shorter.
    const MOST_LINES: usize = 12;
    code.lines().take(MOST_LINES).map(sanitize).collect::<Vec<_>>().join("\n")
}

/// The name that more than half of `names` are, where they differ.
pub(crate) fn usual(names: &[&str]) -> Option<String> {
    let counts = counted(names.iter().copied());
    let (usual, _) = counts.iter().find(|(_, count)| *count * 2 > names.len())?;
    (counts.len() > 1).then(|| (*usual).to_owned())
}

#[cfg(test)]
mod tests {
    use punctual_record::Refusal;

    use super::*;

    #[test]
    fn titles_have_words() {
        let text = |name: &str, value: &str| spoken_parameter(name, &Param::Text(value.into()));
        assert_eq!([text("mode", "ping-pong"), text("place", "same-cpu")], ["there and back", "on one CPU"]);
        assert_eq!(text("mode", "\u{1b}[2J"), "mode ?[2J", "of another version");
        let int = |name: &str, value: i64| spoken_parameter(name, &Param::Int(value));
        assert_eq!(
            [int("size", 64), int("competitors", 0), int("competitors", 2)],
            ["64 B", "alone", "with 2 competitors"]
        );
        assert_eq!([int("work_ns", 750_000), int("asked_ns", 100_000)], ["work of 750 µs", "asked 100 µs"]);
    }

    fn setting(condition: &str, asked: Option<Param>, applied: Param, phrase: &str) -> Setting {
        let (condition, phrase) = (condition.to_owned(), phrase.to_owned());
        Setting { condition, asked, applied: Some(applied), phrase }
    }

    fn named(label: &str, settings: Vec<Setting>) -> String {
        let refusal = Refusal { condition: "cpu".into(), ..Refusal::default() };
        let refused = if label.contains("CPU") { vec![refusal] } else { Vec::new() };
        name_of(Some(&ConditionSet { label: label.into(), settings, refused }), label)
    }

    #[test]
    fn an_inherited_policy_or_nice_value_is_named() {
        let policy = |text: &str, phrase| setting(POLICY, None, Param::Text(text.into()), phrase);
        let (other, fifo) = (|| policy("other", "SCHED_OTHER"), || policy("fifo:9", "SCHED_FIFO 9"));
        let nice = |nice| setting(NICE, None, Param::Int(nice), &format!("nice {nice}"));
        let asked = |nice| setting(NICE, Some(Param::Int(nice)), Param::Int(nice), &format!("nice {nice}"));
        assert_eq!(named("as found", vec![other(), nice(0)]), "as found");
        assert_eq!(named("as found", vec![]), "as found");
        assert_eq!(named("as found", vec![other(), nice(-20)]), "nice -20");
        assert_eq!(named("slack 1 ns", vec![other(), nice(5)]), "slack 1 ns, nice 5");
        assert_eq!(named("as found", vec![fifo(), nice(0)]), "SCHED_FIFO 9");
        assert_eq!(named("as found", vec![fifo(), nice(5)]), "SCHED_FIFO 9", "it has no effect");
        assert_eq!(named("nice 5", vec![other(), asked(5)]), "nice 5", "once");
        assert_eq!(named("CPU 1", vec![other(), nice(-20)]), "CPU 1, nice -20, cpu refused");
    }

    #[test]
    fn a_phrase_has_the_unit_of_figures() {
        assert_eq!(
            phrase("SCHED_FIFO 40, slack 50 us, C-states within 2 us"),
            "SCHED_FIFO 40, slack 50 µs, C-states within 2 µs"
        );
        assert_eq!(phrase("the bus is idle"), "the bus is idle");
    }
}
