//! [`Hint`]: what to do, in words. The words that ask for another setting of the measurement are kept apart, so that the command
//! can name its flag for it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::experiment::words;

words! {
    /// A setting of the measurement that a hint asks for, with the words of the hint. The command has a flag for it.
    pub enum Ask {
        /// A longer time.
        MoreTime = "give more time",
        /// A number of samples instead of a time.
        Samples = "ask for a number of samples",
        /// More rounds.
        MoreRounds = "more rounds",
        /// Datagrams over the network.
        Address = "send datagrams to an address",
        /// Smaller messages, or fewer at once.
        SmallerSizeOrDepth = "a smaller size or depth",
        /// Smaller messages.
        SmallerSize = "a smaller size",
        /// Fewer messages at once.
        SmallerDepth = "a smaller depth",
        /// A receiver that polls.
        Polling = "receive by polling",
        /// A sender on another CPU.
        SenderCpu = "give the sender another CPU",
        /// Another CPU.
        AnotherCpu = "choose another CPU",
        /// A CPU that nothing else uses.
        QuietCpu = "name a quiet CPU",
        /// The CPUs between which messages pass.
        Cpus = "name the CPUs",
        /// The CPUs on which it measures.
        MeasuredCpus = "name the measured CPUs",
        /// Fewer CPUs.
        FewerCpus = "measure on fewer CPUs",
    }
}

/// What to do. In a file it is a text.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "String", into = "String")]
#[cfg_attr(feature = "schema", schemars(with = "String", inline))]
pub struct Hint(Vec<Piece>);

#[derive(Debug, Clone)]
struct Piece {
    text: String,
    ask: Option<Ask>,
}

impl Hint {
    /// This hint, and more behind it.
    #[must_use]
    pub fn and(mut self, more: impl Into<Self>) -> Self {
        self.0.extend(more.into().0);
        self
    }

    /// Names what does each thing that it asks for, where there is something: `give more time (--duration)`.
    pub fn name(&mut self, flag: impl Fn(Ask) -> Option<&'static str>) {
        for piece in &mut self.0 {
            if let Some(flag) = piece.ask.take().and_then(&flag) {
                piece.text = format!("{} ({flag})", piece.text);
            }
        }
    }

    /// The same hint with other texts, such as neutralised ones.
    #[must_use]
    pub fn with_texts(mut self, change: impl Fn(&str) -> String) -> Self {
        self.0.iter_mut().for_each(|piece| piece.text = change(&piece.text));
        self
    }

    /// Whether it has no words.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|piece| piece.text.is_empty())
    }
}

impl From<Ask> for Hint {
    fn from(ask: Ask) -> Self {
        Self(vec![Piece { text: ask.name().to_owned(), ask: Some(ask) }])
    }
}

impl<T: AsRef<str>> From<T> for Hint {
    fn from(text: T) -> Self {
        Self(vec![Piece { text: text.as_ref().to_owned(), ask: None }])
    }
}

impl From<Hint> for String {
    fn from(hint: Hint) -> Self {
        hint.to_string()
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|piece| f.write_str(&piece.text))
    }
}

/// By its words: a file has nothing else.
impl PartialEq for Hint {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for Hint {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_asks_for_is_named_once_and_a_file_has_its_words() {
        let mut hint = Hint::from("repeat with ").and(Ask::MoreRounds).and(", or ").and(Ask::QuietCpu);
        let before = serde_json::to_string(&hint).unwrap();
        assert_eq!(before, "\"repeat with more rounds, or name a quiet CPU\"");
        assert_eq!(serde_json::from_str::<Hint>(&before).unwrap(), hint);
        let flag = |ask| (ask == Ask::MoreRounds).then_some("--rounds");
        hint.name(flag);
        hint.name(flag);
        assert_eq!(hint.to_string(), "repeat with more rounds (--rounds), or name a quiet CPU");
        let mut read: Hint = serde_json::from_str(&before).unwrap();
        read.name(flag);
        assert_eq!(read.to_string(), "repeat with more rounds, or name a quiet CPU", "words of a file are no requests");
    }
}
