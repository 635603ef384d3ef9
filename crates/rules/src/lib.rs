//! The words for `libpunctual_preload.so`: what a wait does instead, and for whom.
//!
//! [`Settings`] reads the variable `PUNCTUAL_PRELOAD`: words such as `usleep0=yield,poll-first=20us`, which are the flags of `punctual run`.
//! [`rules`] reads the file that its last word, `rules=FILE`, names:
//!
//! ```text
//! # who                           what
//! *                               sched-yield=pause
//! library=libmpich.so*            usleep0=yield
//! site=libfoo.so:poll_loop        poll-first=20us
//! thread=audio*                   precise-sleep=5us policy=fifo:40 cpu=1
//! thread=audio* library=libm*.so  precise-sleep=keep
//! ```
//!
//! A rule holds where all its conditions hold. A later rule wins over an earlier one, and each wins over the settings of the variable.
//!
//! Refused: unknown words, values out of range, and a word given twice in a line. So is a line that says nothing or of nobody.
//!
//! A line of the file is a [`Rule`]. In its patterns of names, `*` is any text, `?` any byte.
#![forbid(unsafe_code)]

use std::fmt;

use punctual::Policy;
use punctual::conditions::{Condition, Conditions, Value};

use crate::waits::WORDS;

mod waits;

pub use waits::{BadWord, Settings, Waits, Zero, poll_first, precise_sleep};

/// Whether the whole name is as the pattern says. It neither allocates nor recurses.
#[must_use]
pub fn matches(pattern: &str, name: &[u8]) -> bool {
    let pattern = pattern.as_bytes();
    // What is compared next: of the pattern, and of the name.
    let (mut at, mut next) = (0, 0);
    // Where both go on if the last star has to take one byte more.
    let mut again = None;
    while next < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                again = Some((at + 1, next + 1));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[next] => (at, next) = (at + 1, next + 1),
            _ => {
                let Some((after_star, resumed)) = again else { return false };
                (at, next, again) = (after_star, resumed, Some((after_star, resumed + 1)));
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Most rules of a file: the library keeps one bit for each.
pub const MOST_RULES: usize = 60;

/// What is said of the calls from a place in the program, the threads with a name, or both.
#[derive(Debug, Clone)]
pub struct Rule<'a> {
    /// The pattern of the threads' names. None: all threads.
    pub thread: Option<&'a str>,
    /// Where the calls are made. None: everywhere.
    pub place: Option<Place<'a>>,
    /// What the waits do.
    pub waits: Waits,
    /// How the threads are scheduled; never by SCHED_DEADLINE.
    pub scheduling: Conditions,
}

/// Where a call is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// The pattern of the file's name: of a library, or of the program.
    pub library: &'a str,
    /// The pattern of the function's name, as the symbol table has it. None: the whole file.
    pub symbol: Option<&'a str>,
}

impl Place<'_> {
    /// Whether a file with this path is meant. It is by its name, or by its path where the pattern has a slash.
    #[must_use]
    pub fn is_in(&self, path: &[u8]) -> bool {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        matches(self.library, if self.library.contains('/') { path } else { name })
    }
}

/// The conditions that rules give to threads.
const OF_THREADS: [Condition; 4] = [Condition::POLICY, Condition::SLICE, Condition::CPU, Condition::TIMER_SLACK];

/// All words of a rule.
pub fn words() -> impl Iterator<Item = &'static str> {
    WORDS.into_iter().chain(["thread", "library", "site"]).chain(OF_THREADS.map(Condition::name))
}

/// A line that was refused, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRule {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: Why,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// One of its words.
    Word(BadWord),
    /// The line as a whole.
    Line(&'static str),
}

impl fmt::Display for BadRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match &self.why {
            Why::Word(word) => word.fmt(f),
            Why::Line(why) => f.write_str(why),
        }
    }
}

impl BadRule {
    /// The name that is unknown, if that is what is wrong.
    #[must_use]
    pub fn unknown(&self) -> Option<&str> {
        match &self.why {
            Why::Word(BadWord::Unknown(word)) => Some(word.split_once('=').map_or(word, |(name, _)| name)),
            _ => None,
        }
    }
}

const NOBODY: &str = "expected for whom: *, thread=NAME, library=FILE or site=FILE:FUNCTION (example: thread=audio*)";
const NOTHING: &str = "expected what to do (example: usleep0=yield)";
const NOT_HERE: &str = "policy, slice, cpu and timer-slack belong to threads, not to places (example: thread=audio*)";
const TOO_MANY: &str = "expected at most 60 rules";

/// The rules of a file. Empty lines and what follows a `#` are left out.
pub fn rules(text: &str) -> impl Iterator<Item = Result<(usize, Rule<'_>), BadRule>> {
    let lines = text.lines().enumerate().map(|(n, line)| (n + 1, words_of(line)));
    let lines = lines.filter(|(_, words)| words.clone().next().is_some());
    lines.enumerate().map(|(nth, (line, words))| {
        let rule = if nth < MOST_RULES { Rule::from_words(words) } else { Err(Why::Line(TOO_MANY)) };
        rule.map(|rule| (line, rule)).map_err(|why| BadRule { line, why })
    })
}

fn words_of(line: &str) -> impl Iterator<Item = &str> + Clone {
    line.split_whitespace().take_while(|word| !word.starts_with('#'))
}

impl<'a> Rule<'a> {
    fn from_words(words: impl Iterator<Item = &'a str>) -> Result<Self, Why> {
        let mut rule = Self { thread: None, place: None, waits: Waits::default(), scheduling: Conditions::new() };
        let mut named = false;
        for word in words {
            if rule.who(word).map_err(Why::Word)? {
                named = true;
                continue;
            }
            if !rule.waits.add(word).map_err(Why::Word)? && !rule.schedule(word).map_err(Why::Word)? {
                return Err(Why::Word(BadWord::Unknown(word.to_owned())));
            }
        }
        match &rule {
            _ if !named => Err(Why::Line(NOBODY)),
            rule if rule.waits.is_empty() && rule.scheduling.is_empty() => Err(Why::Line(NOTHING)),
            rule if rule.place.is_some() && !rule.scheduling.is_empty() => Err(Why::Line(NOT_HERE)),
            _ => Ok(rule),
        }
    }

    /// Adds how threads are scheduled. False if the word is of something else.
    fn schedule(&mut self, word: &str) -> Result<bool, BadWord> {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let Some(condition) = OF_THREADS.into_iter().find(|condition| condition.name() == name) else {
            return Ok(false);
        };
        if self.scheduling.value(condition).is_some() {
            return Err(BadWord::Twice(name.to_owned()));
        }
        let bad = |expected| BadWord::Value(word.to_owned(), expected);
        let asked = condition.parse(value).map_err(|invalid| bad(invalid.to_string()))?;
        // SCHED_DEADLINE promises CPU time to one thread; a pattern may be of many.
        if matches!(asked, Value::Policy(Policy::Deadline { .. })) {
            return Err(bad("expected other, batch, idle, rr:PRIO or fifo:PRIO (example: fifo:40)".to_owned()));
        }
        self.scheduling = std::mem::take(&mut self.scheduling).with(asked);
        Ok(true)
    }

    /// Adds for whom it is. False if the word is of something else.
    fn who(&mut self, word: &'a str) -> Result<bool, BadWord> {
        let bad = |expected: &str| BadWord::Value(word.to_owned(), expected.to_owned());
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let twice = match name {
            "*" if word == "*" => return Ok(true),
            "thread" | "library" if value.is_empty() => {
                return Err(bad("expected a name or a pattern (example: audio*)"));
            }
            "thread" => self.thread.replace(value).is_some(),
            "library" => self.place.replace(Place { library: value, symbol: None }).is_some(),
            "site" => {
                let site = value.rsplit_once(':').filter(|(file, function)| !file.is_empty() && !function.is_empty());
                let (library, function) =
                    site.ok_or_else(|| bad("expected a file and a function (example: site=libfoo.so:poll_loop)"))?;
                self.place.replace(Place { library, symbol: Some(function) }).is_some()
            }
            _ => return Ok(false),
        };
        if twice { Err(BadWord::Twice(name.to_owned())) } else { Ok(true) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use punctual::CpuSet;

    use super::*;
    use crate::Zero;

    #[test]
    fn stars_and_question_marks() {
        for (pattern, name) in [
            ("", ""),
            ("*", ""),
            ("*", "x"),
            ("libfoo.so*", "libfoo.so.1"),
            ("*foo*", "libfoo.so"),
            ("a?c", "abc"),
            ("*aab", "aaaab"),
            ("a*b*c", "a-b-b-c"),
            ("**", "abc"),
        ] {
            assert!(matches(pattern, name.as_bytes()), "{pattern} {name}");
        }
        for (pattern, name) in
            [("", "x"), ("a", "A"), ("a?", "a"), ("libfoo.so", "libfoo.so.1"), ("*b", "abc"), ("a*b*c", "a-c-b")]
        {
            assert!(!matches(pattern, name.as_bytes()), "{pattern} {name}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_name_is_its_own_pattern_and_a_part_of_a_starred_one(name in "[a-z.]{0,12}", more in "[a-z.]{0,6}") {
            proptest::prop_assert!(matches(&name, name.as_bytes()));
            let (starred, longer) = (format!("*{name}*"), format!("{more}{name}{more}"));
            proptest::prop_assert!(matches(&starred, longer.as_bytes()));
        }
    }

    fn one(line: &str) -> Result<Rule<'_>, String> {
        let rule = rules(line).next().expect("a line");
        rule.map(|(_, rule)| rule).map_err(|bad| bad.to_string())
    }

    #[test]
    fn a_line_says_for_whom_and_what() {
        let rule =
            one("thread=audio* precise-sleep=5us policy=fifo:40 cpu=0-1 slice=100us timer-slack=1ns # loud").unwrap();
        assert_eq!((rule.thread, rule.place), (Some("audio*"), None));
        assert_eq!(
            (rule.scheduling.get_policy(), rule.scheduling.get_cpus()),
            (Some(Policy::Fifo(40)), Some(CpuSet::from_iter([0, 1])))
        );
        assert_eq!(rule.scheduling.get_slice(), Some(Duration::from_micros(100)));
        assert_eq!(rule.scheduling.get_timer_slack(), Some(Duration::from_nanos(1)));
        let rule = one("site=libfoo.so:poll_loop thread=a usleep0=yield").unwrap();
        assert_eq!(rule.place, Some(Place { library: "libfoo.so", symbol: Some("poll_loop") }));
        assert_eq!((rule.thread, rule.waits.usleep0), (Some("a"), Some(Zero::Yield)));
        let rule = one("* sched-yield=keep").unwrap();
        assert_eq!((rule.thread, rule.place), (None, None));
    }

    #[test]
    fn a_file_has_comments_empty_lines_and_numbers() {
        let text = "# first\n\n* usleep0=yield\r\n  \n\tthread=x poll-first=20us\n";
        let lines: Vec<usize> = rules(text).map(|rule| rule.unwrap().0).collect();
        assert_eq!(lines, [3, 5]);
    }

    #[test]
    fn libraries_are_meant_by_name_or_by_path() {
        let place = |library| Place { library, symbol: None };
        assert!(place("libfoo.so*").is_in(b"/usr/lib/libfoo.so.1"));
        assert!(place("/usr/*/libfoo.so.1").is_in(b"/usr/lib/libfoo.so.1"));
        assert!(!place("usr*").is_in(b"/usr/lib/libfoo.so.1"));
    }

    #[test]
    fn what_is_refused_names_the_line_and_the_word() {
        for (line, said) in [
            ("usleep0=yield", "line 1: expected for whom"),
            ("*", "line 1: expected what to do"),
            ("* uslep0=yield", "line 1: unknown word 'uslep0=yield'"),
            ("* usleep0=never", "line 1: 'usleep0=never': expected keep"),
            ("thread= usleep0=yield", "line 1: 'thread=': expected a name"),
            ("library= usleep0=yield", "line 1: 'library=': expected a name"),
            ("site=libfoo.so usleep0=yield", "line 1: 'site=libfoo.so': expected a file and a function"),
            ("site=libfoo.so: usleep0=yield", "expected a file and a function"),
            ("site=a:b library=c usleep0=yield", "'library' is given twice"),
            ("thread=a thread=b usleep0=yield", "'thread' is given twice"),
            ("* usleep0=yield usleep0=keep", "'usleep0' is given twice"),
            ("* cpu=0 cpu=1", "'cpu' is given twice"),
            ("library=a slice=1ms", "belong to threads"),
            ("* policy=fifo", "'policy=fifo': expected a priority"),
            ("* policy=deadline:1ms/10ms/10ms", "expected other, batch"),
            ("* slice=1us", "'slice=1us': expected a duration"),
            ("* cpu=x", "'cpu=x': expected CPU numbers"),
            ("* timer-slack=0s", "'timer-slack=0s': expected"),
        ] {
            let refused = one(line).unwrap_err();
            assert!(refused.contains(said), "{line}: {refused}");
        }
        let bad = rules("* usleep0=yield\n* uslep0=yield").nth(1).unwrap().unwrap_err();
        assert_eq!((bad.line, bad.unknown()), (2, Some("uslep0")));
        let many = "* usleep0=yield\n".repeat(MOST_RULES + 1);
        assert_eq!(rules(&many).filter(Result::is_err).count(), 1);
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(text in "(thread=|library=|site=|\\*|cpu=|policy=| |\n|[a-z0-9:#%=*]){0,20}") {
            let _ = rules(&text).count();
        }
    }
}
