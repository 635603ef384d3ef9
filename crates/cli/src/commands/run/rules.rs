//! The file of `--rules`: refused, with the line and the nearest word, before anything is touched.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use punctual::Policy;
use punctual::conditions::{Applied, Condition, Conditions, Refused};
use punctual_record::remedy;
use punctual_rules::BadRule;

use crate::commands::run::args::RunArgs;
use crate::refusal::{BadUsage, Nearest};

/// The longest file that the library reads.
const LONGEST: u64 = 64 << 10;

/// The rules of a file, each of which is valid.
#[derive(Debug, Default)]
pub(super) struct Rules {
    /// The scheduling that a line asks for.
    scheduling: Vec<(usize, Conditions)>,
}

/// The rules, if a file is named.
pub(super) fn asked(file: Option<&Path>) -> Result<Rules, BadUsage> {
    let Some(path) = file else { return Ok(Rules::default()) };
    read(path).map_err(|why| BadUsage::invalid("--rules", path.display(), why))
}

/// Why a file of rules was refused.
#[derive(Debug, thiserror::Error)]
enum BadRules {
    #[error("{0}; expected a file of rules (example: rules.txt)")]
    Unreadable(#[from] std::io::Error),
    /// A pipe would be empty for the program.
    #[error("expected a regular file of rules (example: rules.txt)")]
    NotRegular,
    #[error("expected a file of at most 64 KiB (example: 60 lines)")]
    TooLong,
    #[error("expected a path in UTF-8 (example: rules.txt)")]
    NotUtf8,
    /// A line that is no rule.
    #[error("{bad}{nearest}")]
    Rule { bad: BadRule, nearest: Nearest },
    /// A rule that no thread of this machine can have.
    #[error("line {line}: '{}={}': {}; {}", no.condition, no.value(), no.why, remedy::of_refused(no))]
    Impossible { line: usize, no: Box<Refused> },
}

impl From<BadRule> for BadRules {
    fn from(bad: BadRule) -> Self {
        let nearest = bad.unknown().map(|word| Nearest::to(word, punctual_rules::words().map(str::to_owned)));
        Self::Rule { nearest: nearest.unwrap_or_default(), bad }
    }
}

fn read(path: &Path) -> Result<Rules, BadRules> {
    if !path.metadata()?.is_file() {
        return Err(BadRules::NotRegular);
    }
    let mut text = String::new();
    let length = File::open(path)?.take(LONGEST + 1).read_to_string(&mut text)?;
    if length as u64 > LONGEST {
        return Err(BadRules::TooLong);
    }
    path.canonicalize()?.to_str().ok_or(BadRules::NotUtf8)?;
    Ok(Rules { scheduling: scheduling(&text)? })
}

/// The lines that schedule threads.
fn scheduling(text: &str) -> Result<Vec<(usize, Conditions)>, BadRules> {
    let mut found = Vec::new();
    for rule in punctual_rules::rules(text) {
        let (line, rule) = rule?;
        let asked = rule.scheduling.conditions();
        if let Some(no) = asked.impossible_here() {
            return Err(BadRules::Impossible { line, no: Box::new(no) });
        }
        if !asked.is_empty() {
            found.push((line, asked));
        }
    }
    Ok(found)
}

impl Rules {
    /// Tries the settings of threads on this thread, and puts them back. What is refused here, the program is refused too.
    pub(super) fn troubles(&self) -> Vec<String> {
        let lines = self.scheduling.iter();
        lines
            .flat_map(|(line, asked)| {
                let real_time = asked.get_policy().is_some_and(|policy: Policy| policy.is_real_time());
                // Other policies need no privilege; not every one can be left without.
                let asked = if real_time { asked.clone() } else { asked.clone().without(Condition::POLICY) };
                let Applied { guard: _guard, refused } = asked.allow_irreversible().apply();
                let refused = refused
                    .iter()
                    .map(|refused| format!("rules, line {line}: {refused}; {}", remedy::of_refused(refused)));
                refused.collect::<Vec<_>>()
            })
            .collect()
    }
}

// A seccomp filter that the program inherits, and the system calls that the loaded library makes instead of the program's own.

/// Calls of each flag.
const OF_PRECISE: &str = "ppoll, futex and prctl(PR_SET_TIMERSLACK)";
const OF_POLL_FIRST: &str = "rt_sigprocmask, ppoll and futex";
const OF_RULES: &str =
    "openat, read, fstat, mmap, munmap, close, prctl, sched_getattr, sched_setattr, sched_setaffinity and prlimit64";
const OF_OBSERVE: &str = "openat, fstat, mmap, clock_gettime and getrusage";

/// What the flags make the program call, where a filter is on.
pub(super) fn notice(args: &RunArgs) -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let calls = calls(args);
    (is_filtered(&status) && !calls.is_empty()).then(|| {
        format!(
            "the program inherits a seccomp filter (Seccomp in /proc/self/status). A filter that answers with an error is heeded; one that kills ends \
             the program at a call that it does not allow: {}",
            calls.join("; ")
        )
    })
}

fn is_filtered(status: &str) -> bool {
    status.lines().find_map(|line| line.strip_prefix("Seccomp:")).is_some_and(|mode| mode.trim() != "0")
}

fn calls(args: &RunArgs) -> Vec<String> {
    let remedies = &args.remedies;
    let flags = [
        ("--precise-sleep", OF_PRECISE, remedies.precise_sleep.is_some()),
        ("--poll-first", OF_POLL_FIRST, remedies.poll_first.is_some()),
        ("--usleep0", "sched_yield", remedies.usleep0.is_some()),
        ("--sched-yield", "sched_yield and nanosleep", remedies.sched_yield.is_some()),
        ("--rules", OF_RULES, remedies.rules.is_some()),
        ("--observe", OF_OBSERVE, args.observe.observe),
    ];
    flags.into_iter().filter(|(.., given)| *given).map(|(flag, calls, _)| format!("{flag} makes {calls}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        scheduling(text).unwrap_err().to_string()
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
        let refusal = |path: &Path| read(path).unwrap_err().to_string();
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

    #[test]
    fn a_mode_other_than_0_is_a_filter() {
        assert!(is_filtered("Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n"));
        assert!(!is_filtered("Seccomp:\t0\nSeccomp_filters:\t2\n"));
        assert!(!is_filtered("Name:\tSeccomp:\t2\n"), "a kernel without CONFIG_SECCOMP");
    }
}
