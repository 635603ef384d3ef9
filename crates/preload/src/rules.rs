//! The rules of a file, read once when the program is loaded. A set of rules is a number: one bit for each.

use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

use punctual::conditions::{Condition, Conditions, Value};
use punctual_rules::{MOST_RULES, Place, Rule, Waits};

/// The longest file: 60 lines are far below it.
const LONGEST: u64 = 64 << 10;

/// As little slack as there is, since sleeps are precise. A rule cannot ask for 0.
pub(crate) const LEAST_SLACK: Duration = Duration::ZERO;

/// The highest bit is no rule's.
const _: () = assert!(MOST_RULES < 64);

/// All rules, and sets of them.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    rules: Vec<Rule<'static>>,
    /// Those for calls from anywhere.
    pub(crate) anywhere: u64,
    /// Those for threads with any name.
    pub(crate) any_thread: u64,
    /// Those that change waits.
    pub(crate) waits: u64,
    /// Those that schedule threads.
    pub(crate) scheduling: u64,
    /// Those with functions.
    pub(crate) symbols: u64,
    /// Sleeps of threads that only their places tell are precise.
    pub(crate) everywhere_precise: bool,
}

impl Rules {
    /// The rules of a file; none if it cannot be read, or if one of them is refused.
    pub(crate) fn read(path: &str) -> Option<Self> {
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()?;
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let mut text = String::new();
        let read = file.take(LONGEST + 1).read_to_string(&mut text).ok()?;
        if read as u64 > LONGEST {
            return None;
        }
        Self::parse(text.leak())
    }

    fn parse(text: &'static str) -> Option<Self> {
        let mut all = Self::default();
        for rule in punctual_rules::rules(text) {
            let (_, mut rule) = rule.ok()?;
            let precise = matches!(rule.waits.precise_sleep, Some(Some(_)));
            // Lateness of the slack's size need not be spun away. The slack of all threads is set when the
            // program is loaded.
            let slack = rule.scheduling.value(Condition::TIMER_SLACK);
            if precise && rule.thread.is_some() && rule.place.is_none() && slack.is_none() {
                rule.scheduling = rule.scheduling.with(Value::TimerSlack(LEAST_SLACK));
            }
            all.everywhere_precise |= precise && (rule.thread.is_none() || rule.place.is_some());
            let bit = 1 << all.rules.len();
            let into = |set: &mut u64, holds: bool| *set |= if holds { bit } else { 0 };
            into(&mut all.anywhere, rule.place.is_none());
            into(&mut all.any_thread, rule.thread.is_none());
            into(&mut all.waits, !rule.waits.is_empty());
            into(&mut all.scheduling, !rule.scheduling.is_empty());
            into(&mut all.symbols, rule.place.is_some_and(|place| place.symbol.is_some()));
            all.rules.push(rule);
        }
        Some(all)
    }

    /// All of them.
    pub(crate) fn all(&self) -> u64 {
        (1 << self.rules.len()) - 1
    }

    fn within(&self, set: u64) -> impl Iterator<Item = (u64, &Rule<'static>)> {
        let bits = (0..self.rules.len()).map(|n| 1 << n).zip(&self.rules);
        bits.filter(move |(bit, _)| bit & set != 0)
    }

    /// Those of this set with a place that is as asked.
    pub(crate) fn at(&self, set: u64, is_there: impl Fn(&Place<'static>) -> bool) -> u64 {
        self.within(set).filter(|(_, rule)| rule.place.as_ref().is_some_and(&is_there)).map(|(bit, _)| bit).sum()
    }

    /// Those for a thread with this name.
    pub(crate) fn of_thread(&self, name: &[u8]) -> u64 {
        let named = |rule: &Rule| rule.thread.is_none_or(|pattern| punctual_rules::matches(pattern, name));
        self.within(self.all()).filter(|(_, rule)| named(rule)).map(|(bit, _)| bit).sum()
    }

    /// Their settings of waits, in their order.
    pub(crate) fn waits_of(&self, set: u64) -> impl Iterator<Item = &Waits> {
        let set = set & self.waits;
        let mut left = set;
        std::iter::from_fn(move || {
            let nth = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            self.rules.get(nth as usize).map(|rule| &rule.waits)
        })
    }

    /// Those of a set that say the last word on a wait: at most four.
    pub(crate) fn deciding(&self, set: u64) -> u64 {
        let last = |says: fn(&Waits) -> bool| {
            self.within(set & self.waits).filter(|(_, rule)| says(&rule.waits)).last().map_or(0, |(bit, _)| bit)
        };
        last(|waits| waits.usleep0.is_some())
            | last(|waits| waits.sched_yield.is_some())
            | last(|waits| waits.precise_sleep.is_some())
            | last(|waits| waits.poll_first_ns.is_some())
    }

    /// Their settings of threads, in their order.
    pub(crate) fn scheduling_of(&self, set: u64) -> impl Iterator<Item = &Conditions> {
        self.within(set & self.scheduling).map(|(_, rule)| &rule.scheduling)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "* usleep0=yield\nthread=a* poll-first=20us\nlibrary=l usleep0=keep\nsite=l:f thread=b usleep0=pause\n* cpu=0\n";

    #[test]
    fn rules_are_sorted_into_sets() {
        let rules = Rules::parse(TEXT).unwrap();
        assert_eq!((rules.all(), rules.anywhere, rules.any_thread), (0b11111, 0b10011, 0b10101));
        assert_eq!((rules.waits, rules.scheduling, rules.symbols), (0b01111, 0b10000, 0b01000));
        assert_eq!((rules.deciding(0b11111), rules.deciding(0b00111), rules.deciding(0b10000)), (0b01010, 0b00110, 0));
        assert_eq!(rules.at(0b11111, |place| place.is_in(b"/l")), 0b01100);
        assert_eq!((rules.of_thread(b"ab"), rules.of_thread(b"b")), (0b10111, 0b11101));
        assert_eq!(rules.waits_of(0b10010).map(|waits| waits.poll_first_ns).collect::<Vec<_>>(), [Some(20_000)]);
        assert_eq!((rules.scheduling_of(0b11111).count(), rules.waits_of(0b11111).count()), (1, 4));
    }

    #[test]
    fn a_bad_file_has_no_rules() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules");
        let read = || Rules::read(path.to_str().unwrap());
        assert!(read().is_none(), "missing");
        std::fs::write(&path, TEXT).unwrap();
        assert!(read().is_some());
        std::fs::write(&path, "* usleep0=yield\n* uslep0=yield\n").unwrap();
        assert!(read().is_none(), "an unknown word");
        std::fs::write(&path, "#".repeat(70_000)).unwrap();
        assert!(read().is_none(), "too long");
        std::fs::write(&path, b"* usleep0=yield # \xff\n").unwrap();
        assert!(read().is_none(), "no text");
        assert!(Rules::read(folder.path().to_str().unwrap()).is_none() && Rules::read("/dev/null").is_none());
    }
}
