//! A finding on one duration, and merging of equal findings on several.
//!
//! A [`Sentence`] keeps its figures apart from its words. Findings of two durations are equal if their words are; they
//! become one sentence with the figures of both.

use crate::format::prose::{listed, unbroken};

/// Words with figures between them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sentence(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Words(String),
    /// One figure per duration.
    Figures(Vec<String>),
}

impl Sentence {
    /// A sentence that begins with these words.
    #[must_use]
    pub fn new(words: impl Into<String>) -> Self {
        Self(vec![Piece::Words(words.into())])
    }

    /// Adds words, spaces included.
    #[must_use]
    pub fn words(mut self, words: impl AsRef<str>) -> Self {
        match self.0.last_mut() {
            Some(Piece::Words(last)) => last.push_str(words.as_ref()),
            _ => self.0.push(Piece::Words(words.as_ref().to_owned())),
        }
        self
    }

    /// Adds a figure, which stays on one line with its unit.
    #[must_use]
    pub fn figure(mut self, figure: impl AsRef<str>) -> Self {
        self.0.push(Piece::Figures(vec![unbroken(figure.as_ref())]));
        self
    }

    /// Whether only the figures differ.
    fn is_like(&self, other: &Self) -> bool {
        let alike = |(mine, its): (&Piece, &Piece)| match (mine, its) {
            (Piece::Words(mine), Piece::Words(its)) => mine == its,
            (Piece::Figures(_), Piece::Figures(_)) => true,
            _ => false,
        };
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(alike)
    }

    /// Takes in the figures of a sentence that is like this one.
    fn merge(&mut self, other: Self) {
        for (mine, its) in self.0.iter_mut().zip(other.0) {
            if let (Piece::Figures(mine), Piece::Figures(its)) = (mine, its) {
                mine.extend(its);
            }
        }
    }

    /// The sentence as text: `24.2 and 28.8 µs late`.
    #[must_use]
    pub fn text(&self) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Words(words) => words.clone(),
            Piece::Figures(figures) => figures_text(figures),
        };
        self.0.iter().map(piece).collect()
    }
}

/// Equal figures once; of figures in one unit only the last has it.
fn figures_text(figures: &[String]) -> String {
    let first = figures.first().map_or("", String::as_str);
    if figures.iter().all(|figure| figure == first) {
        return first.to_owned();
    }
    let split =
        |figure: &String| figure.split_once('\u{a0}').map(|(number, unit)| (number.to_owned(), unit.to_owned()));
    let parts: Vec<(String, String)> = figures.iter().filter_map(split).collect();
    let one_unit = parts.len() == figures.len() && parts.iter().all(|(_, unit)| *unit == parts[0].1);
    if !one_unit || parts[0].1.contains('\u{a0}') {
        return listed(figures, usize::MAX);
    }
    let numbers: Vec<String> = parts.iter().map(|(number, _)| number.clone()).collect();
    format!("{}\u{a0}{}", listed(&numbers, usize::MAX), parts[0].1)
}

/// What kind of finding, in the order in which they are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// What to use.
    Answer,
    /// What spinning buys.
    TradeOff,
    /// CPU time.
    Cpu,
    /// Timers without slack.
    Slack,
    /// What a change of conditions brings.
    Conditions,
}

/// The code that belongs to a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Code {
    /// What a method is called by.
    Call(String),
    /// What sets a condition.
    Setting(String),
}

/// One finding: what it says, further sentences, the code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Its kind.
    pub place: Place,
    /// What it says.
    pub head: Sentence,
    /// What is to be added.
    pub tails: Vec<Sentence>,
    /// What to write.
    pub code: Option<Code>,
}

impl Finding {
    /// A finding with nothing to add.
    #[must_use]
    pub fn new(place: Place, head: Sentence) -> Self {
        Self { place, head, tails: Vec::new(), code: None }
    }

    /// All it says, as one text.
    #[must_use]
    pub fn text(&self) -> String {
        let sentences: Vec<String> = [&self.head].into_iter().chain(&self.tails).map(Sentence::text).collect();
        sentences.join(" ")
    }
}

/// A finding and the durations it holds for, ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Said {
    asked: Vec<i64>,
    place: Place,
    head: Sentence,
    /// Each with the durations for which it is to be added.
    tails: Vec<(Vec<i64>, Sentence)>,
    code: Option<Code>,
}

impl Said {
    fn takes_in(&mut self, asked: i64, finding: Finding) -> Option<Finding> {
        let same = self.place == finding.place && self.code == finding.code && self.head.is_like(&finding.head);
        if !same || self.asked.contains(&asked) {
            return Some(finding);
        }
        self.asked.push(asked);
        self.head.merge(finding.head);
        for tail in finding.tails {
            match self.tails.iter_mut().find(|(its, mine)| !its.contains(&asked) && mine.is_like(&tail)) {
                Some((its, mine)) => {
                    its.push(asked);
                    mine.merge(tail);
                }
                None => self.tails.push((vec![asked], tail)),
            }
        }
        None
    }

    fn text(&self, name: &impl Fn(i64) -> String) -> String {
        let mut text = self.head.text();
        let (always, sometimes): (Vec<_>, Vec<_>) = self.tails.iter().partition(|(asked, _)| *asked == self.asked);
        for (asked, tail) in always.into_iter().chain(sometimes) {
            text.push(' ');
            let tail = tail.text();
            if *asked == self.asked {
                text.push_str(&tail);
            } else {
                let names: Vec<String> = asked.iter().map(|&ns| name(ns)).collect();
                text.push_str(&format!("For {}: {}", listed(&names, usize::MAX), lower(&tail)));
            }
        }
        text
    }
}

fn lower(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_lowercase().chain(chars).collect())
}

/// What is said of some durations together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The durations, ascending.
    pub asked: Vec<i64>,
    /// What is said, and the code.
    pub items: Vec<(String, Option<Code>)>,
}

/// Findings of several durations (ascending), the same ones said once: groups by their first duration, those without an answer last, and
/// among these what holds for more durations later. `name`: how a duration is called.
#[must_use]
pub fn together(findings: Vec<(i64, Vec<Finding>)>, name: impl Fn(i64) -> String) -> Vec<Group> {
    let mut said: Vec<Said> = Vec::new();
    for (asked, findings) in findings {
        for finding in findings {
            let mut left = Some(finding);
            for known in &mut said {
                left = left.and_then(|finding| known.takes_in(asked, finding));
            }
            let Some(Finding { place, head, tails, code }) = left else { continue };
            let tails = tails.into_iter().map(|tail| (vec![asked], tail)).collect();
            said.push(Said { asked: vec![asked], place, head, tails, code });
        }
    }
    said.sort_by_key(|said| said.place);
    let mut groups: Vec<(Place, Group)> = Vec::new();
    for said in said {
        let item = (said.text(&name), said.code.clone());
        match groups.iter_mut().find(|(_, group)| group.asked == said.asked) {
            Some((_, group)) => group.items.push(item),
            None => groups.push((said.place, Group { asked: said.asked, items: vec![item] })),
        }
    }
    groups.sort_by_key(|(place, group)| {
        let addition = if *place == Place::Answer { 0 } else { group.asked.len() };
        (addition, group.asked.first().copied(), group.asked.clone())
    });
    groups.into_iter().map(|(_, group)| group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn finding(words: &str, figure: &str) -> Finding {
        Finding::new(Place::Answer, Sentence::new(format!("{words}: ")).figure(figure).words(" late."))
    }

    #[test]
    fn the_same_words_are_said_once() {
        let mut first = finding("a", "24.2 µs");
        first.tails.push(Sentence::new("At p50, b is alike."));
        let second = finding("a", "28.8 µs");
        let groups = together(vec![(1, vec![first]), (2, vec![second, finding("c", "1 ns")])], |ns| format!("{ns}"));
        assert_eq!(groups.len(), 2);
        assert_eq!(groups[0].asked, [1, 2]);
        let text = groups[0].items[0].0.replace('\u{a0}', " ");
        assert_eq!(text, "a: 24.2 and 28.8 µs late. For 1: at p50, b is alike.");
        assert_eq!(groups[1].asked, [2]);
    }

    #[test]
    fn figures_in_different_units_keep_them() {
        let text = |figures: &[&str]| figures_text(&figures.iter().map(|f| unbroken(f)).collect::<Vec<_>>());
        assert_eq!(text(&["1 ns", "2.00 µs"]), unbroken("1 ns").to_owned() + " and " + &unbroken("2.00 µs"));
        assert_eq!(text(&["16 %", "16 %"]), unbroken("16 %"));
        assert_eq!(text(&["1 µs", "2 µs", "3 µs"]), "1, 2 and 3\u{a0}µs");
    }

    proptest! {
        #[test]
        fn every_finding_is_said_for_its_duration(names in prop::collection::vec("[a-c]", 1..12)) {
            let findings: Vec<(i64, Vec<Finding>)> =
                names.iter().enumerate().map(|(i, name)| (i as i64, vec![finding(name, &format!("{i} ns"))])).collect();
            let groups = together(findings, |ns| format!("{ns}"));
            for (i, name) in names.iter().enumerate() {
                let told = |group: &&Group| {
                    group.asked.contains(&(i as i64)) && group.items.iter().any(|(text, _)| text.starts_with(name.as_str()))
                };
                prop_assert_eq!(groups.iter().filter(told).count(), 1);
            }
        }
    }
}
