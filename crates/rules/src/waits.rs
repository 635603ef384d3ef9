//! What a wait does instead: [`Waits`], and what the variable `PUNCTUAL_PRELOAD` says of all: [`Settings`].

use std::time::Duration;

use punctual::margin::Aim;
use punctual::parse_duration;

/// What a wait of nearly no time does instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Zero {
    /// What the program asked for.
    #[default]
    Keep,
    /// `sched_yield(2)`.
    Yield,
    /// A pause of the CPU, some ten to a hundred cycles.
    Pause,
    /// Pauses at first, then yields, then the C library's call, while the thread does nothing else.
    Backoff,
    /// A sleep of 20 µs, which gives up the CPU also without timer slack, as at a real-time priority.
    Sleep,
}

/// What is said of waits. None: nothing is said.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Waits {
    /// Instead of sleeps of at most 1 µs.
    pub usleep0: Option<Zero>,
    /// Instead of `sched_yield`.
    pub sched_yield: Option<Zero>,
    /// How sleeps and timeouts end on time; `Some(None)`: as the program has them.
    pub precise_sleep: Option<Option<Aim>>,
    /// How long to look before blocking, in ns; 0: not at all.
    pub poll_first_ns: Option<i64>,
}

/// A word that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadWord {
    /// No such name.
    Unknown(String),
    /// The name stands twice.
    Twice(String),
    /// A value that the name does not take, and what it takes.
    Value(String, String),
}

impl std::fmt::Display for BadWord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown(word) => write!(f, "unknown word '{word}'"),
            Self::Twice(word) => write!(f, "'{word}' is given twice"),
            Self::Value(word, expected) => write!(f, "'{word}': {expected}"),
        }
    }
}

/// The words of [`Waits`].
pub(crate) const WORDS: [&str; 4] = ["usleep0", "sched-yield", "precise-sleep", "poll-first"];

/// The share of waits that keep a lateness.
const SHARE: f32 = 0.99;
/// Times to look before blocking: beyond them, blocking is what the program needs.
const LOOKS: std::ops::RangeInclusive<Duration> = Duration::from_micros(1)..=Duration::from_secs(1);
const LONGEST_LATENESS: Duration = Duration::from_millis(1);

/// A value of `precise-sleep`: `5us`, or `5%`; empty for a balance of both.
///
/// # Errors
/// A lateness or a share out of range, and what is neither.
pub fn precise_sleep(text: &str) -> Result<Aim, String> {
    if text.is_empty() || text == "balanced" {
        return Ok(Aim::default());
    }
    if let Some(percent) = text.strip_suffix('%') {
        let share = percent.trim().parse::<f32>().ok().map(|percent| percent / 100.0);
        let aim = share.and_then(|share| Aim::cpu_budget(share).ok());
        return aim.ok_or_else(|| "expected above 0% to 100% (example: 5%)".to_owned());
    }
    let within = parse_duration(text).ok().filter(|within| *within <= LONGEST_LATENESS);
    let aim = within.and_then(|within| Aim::lateness(within, SHARE).ok());
    aim.ok_or_else(|| "expected a lateness up to 1ms, or a share of CPU time (example: 5us, or 5%)".to_owned())
}

/// A value of `poll-first`.
///
/// # Errors
/// No duration, and one out of range.
pub fn poll_first(text: &str) -> Result<Duration, String> {
    let look = parse_duration(text).map_err(|error| error.to_string())?;
    if LOOKS.contains(&look) { Ok(look) } else { Err("expected a duration from 1us to 1s (example: 20us)".to_owned()) }
}

fn zero(text: &str, allowed: &[(&'static str, Zero)]) -> Result<Zero, String> {
    let found = allowed.iter().find(|(name, _)| *name == text).map(|(_, zero)| *zero);
    found.ok_or_else(|| {
        let names: Vec<&str> = allowed.iter().map(|(name, _)| *name).collect();
        format!("expected {} (example: {})", names.join(", "), names[1])
    })
}

const USLEEP0: [(&str, Zero); 4] =
    [("keep", Zero::Keep), ("yield", Zero::Yield), ("pause", Zero::Pause), ("backoff", Zero::Backoff)];
const SCHED_YIELD: [(&str, Zero); 4] =
    [("keep", Zero::Keep), ("pause", Zero::Pause), ("backoff", Zero::Backoff), ("sleep", Zero::Sleep)];

impl Waits {
    /// Adds what a word says, such as `usleep0=yield`. False if it is of something else.
    ///
    /// # Errors
    /// A value that its name does not take, and a name that was given before.
    pub fn add(&mut self, word: &str) -> Result<bool, BadWord> {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let bad = |why| BadWord::Value(word.to_owned(), why);
        let kept = value == "keep";
        let twice = match name {
            "usleep0" => self.usleep0.replace(zero(value, &USLEEP0).map_err(bad)?).is_some(),
            "sched-yield" => self.sched_yield.replace(zero(value, &SCHED_YIELD).map_err(bad)?).is_some(),
            "precise-sleep" => {
                let aim = if kept { None } else { Some(precise_sleep(value).map_err(bad)?) };
                self.precise_sleep.replace(aim).is_some()
            }
            "poll-first" => {
                let look = if kept { Duration::ZERO } else { poll_first(value).map_err(bad)? };
                self.poll_first_ns.replace(look.as_nanos() as i64).is_some()
            }
            _ => return Ok(false),
        };
        if twice { Err(BadWord::Twice(name.to_owned())) } else { Ok(true) }
    }

    /// Whether nothing is said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What the variable says.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Settings<'a> {
    /// For every call.
    pub waits: Waits,
    /// The file of rules.
    pub rules: Option<&'a str>,
}

impl<'a> Settings<'a> {
    /// Reads `usleep0=yield,precise-sleep=5us,rules=FILE`. `rules` comes last: its file may have commas in its name.
    ///
    /// # Errors
    /// An unknown name, or a value that its name does not take.
    pub fn parse(text: &'a str) -> Result<Self, BadWord> {
        let mut settings = Self::default();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(file) = rest.strip_prefix("rules=") {
                settings.rules = Some(file);
                break;
            }
            let (word, more) = rest.split_once(',').unwrap_or((rest, ""));
            if !word.is_empty() && !settings.waits.add(word)? {
                return Err(BadWord::Unknown(word.to_owned()));
            }
            rest = more;
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(text: &str) -> Result<Waits, BadWord> {
        let mut waits = Waits::default();
        for word in text.split_whitespace() {
            assert!(waits.add(word)?, "{word}");
        }
        Ok(waits)
    }

    #[test]
    fn words_are_read_together() {
        let waits = waits("usleep0=yield sched-yield=backoff precise-sleep=5us poll-first=20us").unwrap();
        assert_eq!((waits.usleep0, waits.sched_yield), (Some(Zero::Yield), Some(Zero::Backoff)));
        assert_eq!(waits.poll_first_ns, Some(20_000));
        assert_eq!(waits.precise_sleep, Some(Aim::lateness(Duration::from_micros(5), 0.99).ok()));
    }

    #[test]
    fn a_wait_can_stay_as_it_is() {
        let kept = waits("usleep0=keep sched-yield=keep precise-sleep=keep poll-first=keep").unwrap();
        assert_eq!((kept.usleep0, kept.sched_yield), (Some(Zero::Keep), Some(Zero::Keep)));
        assert_eq!((kept.precise_sleep, kept.poll_first_ns), (Some(None), Some(0)));
        assert_eq!(waits("precise-sleep").unwrap().precise_sleep, Some(Some(Aim::default())));
        assert!(!kept.is_empty() && Waits::default().is_empty());
    }

    #[test]
    fn bad_values_are_refused_with_an_example() {
        for bad in [
            "usleep0",
            "usleep0=sleep",
            "usleep0=never",
            "sched-yield=yield",
            "precise-sleep=0%",
            "precise-sleep=101%",
            "precise-sleep=x%",
            "precise-sleep=2ms",
            "precise-sleep=5",
            "precise-sleep=-1us",
            "precise-sleep=nan%",
            "poll-first",
            "poll-first=1ns",
            "poll-first=2s",
            "poll-first=-1us",
        ] {
            let refused = waits(bad).unwrap_err().to_string();
            assert!(refused.contains(bad) && refused.contains("example"), "{refused}");
        }
        assert_eq!(waits("usleep0=yield usleep0=keep").unwrap_err().to_string(), "'usleep0' is given twice");
        assert_eq!(Waits::default().add("usleep=1"), Ok(false));
    }

    #[test]
    fn words_and_a_file() {
        assert_eq!(Settings::parse("").unwrap(), Settings::default());
        let settings = Settings::parse("usleep0=yield,,precise-sleep,rules=/a,b=c").unwrap();
        assert_eq!((settings.waits.usleep0, settings.rules), (Some(Zero::Yield), Some("/a,b=c")));
    }

    #[test]
    fn unknown_words_are_refused() {
        for bad in ["usleep0", "more=1", "usleep0=yield,more=1", "thread=x", "policy=fifo:1", "rules"] {
            assert!(Settings::parse(bad).is_err(), "{bad}");
        }
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(text in "[a-z0-9_=,:.%-]{0,60}") {
            let _ = Settings::parse(&text);
        }
    }
}
