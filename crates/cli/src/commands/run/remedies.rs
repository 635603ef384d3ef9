//! What `run` changes in the waits of a program that stays as it is.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use punctual::format_duration;
use punctual_rules::BadValue;

/// The waits of the program, changed by a library that is loaded into it (LD_PRELOAD).
#[derive(Debug, Args)]
pub(crate) struct RemedyArgs {
    /// Replace usleep(0) and other sleeps of at most 1 us: yield, pause, or back off from one to the other
    #[arg(long, value_name = "ACTION", help_heading = HEADING)]
    pub(crate) usleep0: Option<Sleep0>,
    /// Replace sched_yield: pause, back off, or sleep for the shortest time
    #[arg(long, value_name = "ACTION", help_heading = HEADING)]
    pub(crate) sched_yield: Option<Yield>,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sleep0 {
    /// sched_yield(2)
    Yield,
    /// A pause of the CPU
    Pause,
    /// Pauses, then yields, then the sleep itself
    Backoff,
}

/// Instead of a yield.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Yield {
    /// A pause of the CPU
    Pause,
    /// Pauses, then yields
    Backoff,
    /// A sleep of 20 us, which lets any thread run
    Sleep,
}

fn precise(text: &str) -> Result<String, BadValue> {
    // An empty value would be that of `balanced` in a file of rules; typed, it is a slip.
    if text.is_empty() { Err(BadValue::NoAim) } else { punctual_rules::precise_sleep(text).map(|_| text.to_owned()) }
}

impl RemedyArgs {
    /// The settings for the library, as its environment variable has them; none if nothing is asked.
    pub(crate) fn settings(&self) -> Option<String> {
        let settings = [
            self.usleep0.map(|action| format!("usleep0={}", value_of(action))),
            self.sched_yield.map(|action| format!("sched-yield={}", value_of(action))),
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

fn value_of(action: impl ValueEnum) -> String {
    action.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_those_of_the_library() {
        let none = RemedyArgs { usleep0: None, sched_yield: None, precise_sleep: None, poll_first: None, rules: None };
        assert_eq!(none.settings(), None);
        let all = RemedyArgs {
            usleep0: Some(Sleep0::Backoff),
            sched_yield: Some(Yield::Sleep),
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
        let sleeps = Sleep0::value_variants().iter().map(|action| format!("usleep0={}", value_of(*action)));
        let yields = Yield::value_variants().iter().map(|action| format!("sched-yield={}", value_of(*action)));
        for word in sleeps.chain(yields) {
            assert!(punctual_rules::Settings::parse(&word).is_ok(), "{word}");
        }
    }

    #[test]
    fn what_is_refused_says_what_is_expected() {
        for bad in ["", "0%", "101%", "x%", "2ms", "5", "-1us", "nan%"] {
            assert!(precise(bad).is_err_and(|said| said.to_string().contains("example")), "{bad}");
        }
    }
}
