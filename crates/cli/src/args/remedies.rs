//! What `run` changes in the waits of a program that stays as it is.

use std::time::Duration;

use clap::{Args, ValueEnum};
use punctual::margin::Aim;
use punctual::parse_duration;

/// The waits of the program, changed by a library that is loaded into it (LD_PRELOAD).
#[derive(Debug, Args)]
pub(crate) struct RemedyArgs {
    /// What usleep(0) and other sleeps of at most 1 us do: give the CPU to other threads, pause it, or back off from one to the other
    #[arg(long, value_name = "ACTION", help_heading = HEADING)]
    pub(crate) usleep0: Option<Sleep0>,
    /// What sched_yield does: pause, back off, or sleep for the shortest time
    #[arg(long, value_name = "ACTION", help_heading = HEADING)]
    pub(crate) sched_yield: Option<Yield>,
    /// Sleeps and timeouts end on time: sleep until a learned margin before the end, then spin
    ///
    /// Without a value, spins up to 2 ms to avoid one late wait. 5us: at most 5 us late in 99 of 100 waits. 5%: at most 5 % of the time
    /// waited as CPU time.
    #[arg(
        long, value_name = "LATENESS|CPU%", num_args = 0..=1, require_equals = true, default_missing_value = "balanced",
        value_parser = precise, help_heading = HEADING
    )]
    pub(crate) precise_sleep: Option<Precise>,
    /// Look for this long before blocking in poll, select, epoll_wait and futex, 1us to 1s
    #[arg(long, value_name = "DUR", value_parser = look, allow_hyphen_values = true, help_heading = HEADING)]
    pub(crate) poll_first: Option<Duration>,
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
    /// A sleep of 1 ns, which lets any thread run
    Sleep,
}

/// How precise sleeps are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Precise {
    Balanced,
    Lateness(Duration),
    Budget(f32),
}

/// The share of waits that keep a lateness.
const SHARE: f32 = 0.99;

fn precise(text: &str) -> Result<Precise, String> {
    if text == "balanced" {
        return Ok(Precise::Balanced);
    }
    if let Some(percent) = text.strip_suffix('%') {
        let share = percent.trim().parse::<f32>().ok().map(|percent| percent / 100.0);
        let valid = share.filter(|share| Aim::cpu_budget(*share).is_ok());
        return valid.map(Precise::Budget).ok_or_else(|| "expected above 0% to 100% (example: 5%)".to_owned());
    }
    let within = parse_duration(text).ok().filter(|within| *within <= Duration::from_millis(1));
    within
        .map(Precise::Lateness)
        .ok_or_else(|| "expected a lateness up to 1ms, or a share of CPU time (example: 5us, or 5%)".to_owned())
}

fn look(text: &str) -> Result<Duration, String> {
    let look = parse_duration(text).map_err(|error| error.to_string())?;
    let range = Duration::from_micros(1)..=Duration::from_secs(1);
    if range.contains(&look) { Ok(look) } else { Err("expected a duration from 1us to 1s (example: 20us)".to_owned()) }
}

impl RemedyArgs {
    /// The settings for the library, as its environment variable has them; none if nothing is asked.
    pub(crate) fn settings(&self) -> Option<String> {
        let name = |value: &dyn ToString| value.to_string();
        let settings = [
            self.usleep0.map(|action| format!("usleep0={}", value_of(action))),
            self.sched_yield.map(|action| format!("sched_yield={}", value_of(action))),
            self.precise_sleep.map(|precise| match precise {
                Precise::Balanced => "precise=balanced".to_owned(),
                Precise::Lateness(within) => format!("precise=lateness:{}:{SHARE}", within.as_nanos()),
                Precise::Budget(share) => format!("precise=budget:{}", name(&share)),
            }),
            self.poll_first.map(|look| format!("poll_first={}", look.as_nanos())),
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
        let none = RemedyArgs { usleep0: None, sched_yield: None, precise_sleep: None, poll_first: None };
        assert_eq!(none.settings(), None);
        let all = RemedyArgs {
            usleep0: Some(Sleep0::Backoff),
            sched_yield: Some(Yield::Sleep),
            precise_sleep: Some(precise("5us").unwrap()),
            poll_first: Some(look("20us").unwrap()),
        };
        let text = "usleep0=backoff,sched_yield=sleep,precise=lateness:5000:0.99,poll_first=20000";
        assert_eq!(all.settings().as_deref(), Some(text));
        let budget = RemedyArgs { precise_sleep: Some(precise("5%").unwrap()), ..none };
        assert_eq!(budget.settings().as_deref(), Some("precise=budget:0.05"));
    }

    #[test]
    fn what_is_refused_says_what_is_expected() {
        for bad in ["", "0%", "101%", "x%", "2ms", "5", "-1us", "nan%"] {
            assert!(precise(bad).is_err_and(|said| said.contains("example")), "{bad}");
        }
        for bad in ["", "1ns", "2s", "-1us", "x"] {
            assert!(look(bad).is_err(), "{bad}");
        }
    }
}
