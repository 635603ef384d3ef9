//! What `run` changes in the waits of a program that stays as it is: by its flags, or by the file of `--rules`, which is refused, with the
//! line and the nearest word, before anything is touched.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use punctual::conditions::{Applied, Condition, Conditions};
use punctual::{Policy, format_duration};
use punctual_record::remedy;
use punctual_rules::BadRule;

use crate::refusal::{BadUsage, Nearest};

/// The waits of the program, changed by a library that is loaded into it (LD_PRELOAD).
#[derive(Debug, Args)]
pub(crate) struct RemedyArgs {
    /// Replace usleep(0) and other sleeps of at most 1 us: yield, pause, or back off from one to the other
    #[arg(long, value_name = "ACTION", help_heading = HEADING, value_parser = word_of(INSTEAD_OF_SLEEP))]
    pub(crate) usleep0: Option<String>,
    /// Replace sched_yield: pause, back off, or sleep for the shortest time
    #[arg(long, value_name = "ACTION", help_heading = HEADING, value_parser = word_of(INSTEAD_OF_YIELD))]
    pub(crate) sched_yield: Option<String>,
    /// Sleeps and timeouts end on time: sleep until a learned margin before the end, then spin
    ///
    /// Holds for sleeps, poll, select, epoll_wait, semaphores and mutexes. Condition variables gain only the timer slack. Without a value,
    /// spins up to 2 ms to avoid one late wait. With 5us, aims for 99 of 100 waits at most 5 us late. With 5%, spins for at most 5 % of the
    /// time waited.
    #[arg(
        long, value_name = "LATENESS|CPU%", num_args = 0..=1, require_equals = true, default_missing_value = "balanced",
        value_parser = precise, help_heading = HEADING
    )]
    pub(crate) precise_sleep: Option<String>,
    /// Poll for this long, 1us to 1s, before blocking in poll, select, epoll_wait, futex, semaphores and mutexes with a timeout
    #[arg(long, value_name = "DUR", value_parser = punctual_rules::poll_first, allow_hyphen_values = true, help_heading = HEADING)]
    pub(crate) poll_first: Option<Duration>,
    /// Apply the rules of a file: these settings for some threads, libraries or functions only, and scheduling
    ///
    /// A line has patterns and settings. All its patterns must match. A later line wins, and each
    /// wins over the flags:
    ///   thread=audio* precise-sleep=5us policy=fifo:40 cpu=1
    ///   library=libmpich.so* usleep0=yield
    ///   site=libfoo.so:poll_loop poll-first=20us
    ///
    /// Names have * and ?; * alone is every call. A wait may also be kept: usleep0=keep.
    /// Threads, not places, take policy (other, batch, idle, rr:PRIO, fifo:PRIO), slice, cpu
    /// and timer-slack. A real-time thread that computes for 2 s without a blocking call gets
    /// SIGXCPU (RLIMIT_RTTIME).
    #[arg(long, value_name = "FILE", help_heading = HEADING, verbatim_doc_comment)]
    pub(crate) rules: Option<PathBuf>,
}

const HEADING: &str = "Waits of the program (through the C library)";

/// Instead of a sleep of nearly no time.
const INSTEAD_OF_SLEEP: [(&str, &str); 3] = [
    ("yield", "sched_yield(2)"),
    ("pause", "A pause of the CPU"),
    ("backoff", "Pauses, then yields, then the sleep itself"),
];

/// Instead of a yield.
const INSTEAD_OF_YIELD: [(&str, &str); 3] = [
    ("pause", "A pause of the CPU"),
    ("backoff", "Pauses, then yields"),
    ("sleep", "A sleep of 20 us, which lets any thread run"),
];

/// One of these words, each with a line of help.
fn word_of(words: [(&'static str, &'static str); 3]) -> PossibleValuesParser {
    PossibleValuesParser::new(words.map(|(word, help)| PossibleValue::new(word).help(help)))
}

fn precise(text: &str) -> Result<String, String> {
    // An empty value would be that of `balanced` in a file of rules; typed, it is a slip.
    if text.is_empty() {
        return Err("expected a lateness, or a share of CPU time (example: 5us, or 5%)".to_owned());
    }
    punctual_rules::precise_sleep(text).map(|_| text.to_owned())
}

impl RemedyArgs {
    /// The settings for the library, as its environment variable has them; none if nothing is asked.
    pub(crate) fn settings(&self) -> Option<String> {
        let settings = [
            self.usleep0.as_ref().map(|action| format!("usleep0={action}")),
            self.sched_yield.as_ref().map(|action| format!("sched-yield={action}")),
            self.precise_sleep.as_ref().map(|aim| format!("precise-sleep={aim}")),
            self.poll_first.map(|look| format!("poll-first={}", format_duration(look))),
            // The last one: a path may have commas. The program may have another folder.
            self.rules
                .as_ref()
                .map(|rules| format!("rules={}", rules.canonicalize().as_ref().unwrap_or(rules).display())),
        ];
        let settings: Vec<String> = settings.into_iter().flatten().collect();
        (!settings.is_empty()).then(|| settings.join(","))
    }
}

/// The longest file that the library reads.
const LONGEST: u64 = 64 << 10;

/// The lines of a file that schedule threads, with what each asks for.
pub(super) type Scheduling = Vec<(usize, Conditions)>;

/// Those of the file, if one is named, all of whose rules are valid.
pub(super) fn scheduling_of(file: Option<&Path>) -> Result<Scheduling, BadUsage> {
    let Some(path) = file else { return Ok(Scheduling::new()) };
    read(path).map_err(|why| BadUsage::invalid("--rules", path.display(), why))
}

/// The error says what is expected.
fn read(path: &Path) -> Result<Scheduling, String> {
    let unreadable = |error: std::io::Error| format!("{error}; expected a file of rules (example: rules.txt)");
    // A pipe would be empty for the program.
    if !path.metadata().map_err(unreadable)?.is_file() {
        return Err("expected a regular file of rules (example: rules.txt)".into());
    }
    let mut text = String::new();
    let length = File::open(path).and_then(|file| file.take(LONGEST + 1).read_to_string(&mut text));
    if length.map_err(unreadable)? as u64 > LONGEST {
        return Err("expected a file of at most 64 KiB (example: 60 lines)".into());
    }
    path.canonicalize().map_err(unreadable)?.to_str().ok_or("expected a path in UTF-8 (example: rules.txt)")?;
    scheduling(&text)
}

/// The lines that schedule threads.
fn scheduling(text: &str) -> Result<Scheduling, String> {
    let mut found = Vec::new();
    for rule in punctual_rules::rules(text) {
        let (line, rule) = rule.map_err(with_nearest)?;
        let asked = rule.scheduling;
        if let Some(no) = asked.impossible_here() {
            let (value, remedy) = (no.value(), remedy::of_refused(&no));
            return Err(format!("line {line}: '{}={value}': {}; {remedy}", no.condition, no.why));
        }
        if !asked.is_empty() {
            found.push((line, asked));
        }
    }
    Ok(found)
}

/// What is wrong with a line, and the words that it may have meant.
fn with_nearest(bad: BadRule) -> String {
    let nearest = bad.unknown().map(|word| Nearest::to(word, punctual_rules::words().map(str::to_owned)));
    format!("{bad}{}", nearest.unwrap_or_default())
}

/// Tries the settings of threads on this thread, and puts them back. What is refused here, the program is refused too.
pub(super) fn troubles(scheduling: &Scheduling) -> Vec<String> {
    let mut troubles = Vec::new();
    for (line, asked) in scheduling {
        let real_time = asked.get_policy().is_some_and(|policy: Policy| policy.is_real_time());
        // Other policies need no privilege; not every one can be left without.
        let asked = if real_time { asked.clone() } else { asked.clone().without(Condition::POLICY) };
        let Applied { guard: _guard, refused } = asked.allow_irreversible().apply();
        let refused = refused.iter();
        troubles.extend(refused.map(|no| format!("rules, line {line}: {no}; {}", remedy::of_refused(no))));
    }
    troubles
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_those_of_the_library() {
        let none = RemedyArgs { usleep0: None, sched_yield: None, precise_sleep: None, poll_first: None, rules: None };
        assert_eq!(none.settings(), None);
        let all = RemedyArgs {
            usleep0: Some("backoff".into()),
            sched_yield: Some("sleep".into()),
            precise_sleep: Some(precise("5us").unwrap()),
            poll_first: Some(punctual_rules::poll_first("20us").unwrap()),
            rules: None,
        };
        let text = "usleep0=backoff,sched-yield=sleep,precise-sleep=5us,poll-first=20us";
        assert_eq!(all.settings().as_deref(), Some(text));
        assert!(punctual_rules::Settings::parse(text).is_ok());
    }

    #[test]
    fn every_action_is_one_of_the_library() {
        let sleeps = INSTEAD_OF_SLEEP.map(|(action, _)| format!("usleep0={action}"));
        let yields = INSTEAD_OF_YIELD.map(|(action, _)| format!("sched-yield={action}"));
        for word in sleeps.into_iter().chain(yields) {
            assert!(punctual_rules::Settings::parse(&word).is_ok(), "{word}");
        }
    }

    #[test]
    fn what_is_refused_says_what_is_expected() {
        for bad in ["", "0%", "101%", "x%", "2ms", "5", "-1us", "nan%"] {
            assert!(precise(bad).is_err_and(|said| said.to_string().contains("example")), "{bad}");
        }
    }

    fn refused(text: &str) -> String {
        scheduling(text).unwrap_err()
    }

    #[test]
    fn a_slip_is_answered_with_its_line_and_the_nearest_word() {
        assert_eq!(
            refused("* usleep0=yield\n\n* uslep0=yield"),
            "line 3: unknown word 'uslep0=yield'; nearest: usleep0"
        );
        assert_eq!(refused("thraed=a usleep0=yield"), "line 1: unknown word 'thraed=a'; nearest: thread");
        assert_eq!(refused("* qqqq=1"), "line 1: unknown word 'qqqq=1'");
        let cpu = refused("* cpu=8191");
        assert!(cpu.starts_with("line 1: 'cpu=8191': "), "{cpu}");
    }

    #[test]
    fn what_a_file_asks_of_threads_is_known() {
        let found = scheduling("thread=a policy=fifo:40\n* usleep0=yield\nthread=b slice=1ms cpu=0").unwrap();
        assert_eq!(found.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(found[0].1.get_policy(), Some(Policy::Fifo(40)));
    }

    #[test]
    fn what_is_no_file_of_rules_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules");
        let refusal = |path: &Path| read(path).unwrap_err();
        assert!(refusal(&path).contains("No such file"));
        assert!(refusal(folder.path()).contains("regular file"));
        assert!(refusal(Path::new("/dev/null")).contains("regular file"));
        std::fs::write(&path, "#".repeat(70_000)).unwrap();
        assert!(refusal(&path).contains("64 KiB"));
        std::fs::write(&path, b"\xff").unwrap();
        assert!(refusal(&path).contains("UTF-8"));
        std::fs::write(&path, "* usleep0=yield").unwrap();
        assert!(read(&path).is_ok());
    }
}
