//! What this library does, from the environment variable `PUNCTUAL_PRELOAD`, read once when the program is loaded.

use std::ffi::CStr;
use std::sync::OnceLock;
use std::time::Duration;

use punctual::margin::Aim;

use crate::caller::Caller;

/// What a wait of nearly no time does instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Zero {
    /// What the program asked for.
    #[default]
    Keep,
    /// `sched_yield(2)`.
    Yield,
    /// A pause of the CPU, some ten to a hundred cycles.
    Pause,
    /// Pauses at first, then yields, then the C library's call, while the thread does nothing else.
    Backoff,
    /// A sleep of 1 ns, which takes the CPU away for the length of a wake-up.
    Sleep,
}

/// The settings.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Settings {
    pub(crate) usleep0: Zero,
    pub(crate) sched_yield: Zero,
    pub(crate) precise: Option<Aim>,
    pub(crate) poll_first_ns: i64,
}

/// Longest time to look before blocking: beyond it, blocking is what the program needs.
const LONGEST_LOOK_NS: i64 = 1_000_000_000;

static SETTINGS: OnceLock<Settings> = OnceLock::new();
static KEPT: Settings = Settings { usleep0: Zero::Keep, sched_yield: Zero::Keep, precise: None, poll_first_ns: 0 };

/// The settings; before they are read, every call is kept.
#[inline]
pub(crate) fn get() -> &'static Settings {
    // A load and a comparison, without a lock.
    SETTINGS.get().unwrap_or(&KEPT)
}

/// The settings for calls from here.
#[inline]
pub(crate) fn of(_: Caller) -> &'static Settings {
    get()
}

/// Reads the environment. Runs once, when the program is loaded.
pub(crate) fn read() {
    // SAFETY: the name ends with a zero byte; no other thread exists yet that could change the environment.
    let value = unsafe { libc::getenv(c"PUNCTUAL_PRELOAD".as_ptr()) };
    if value.is_null() {
        return;
    }
    // SAFETY: getenv(3) returns a string that ends with a zero byte.
    let text = unsafe { CStr::from_ptr(value) };
    if let Some(settings) = text.to_str().ok().and_then(parse) {
        let _ = SETTINGS.set(settings);
    }
}

/// Settings such as `usleep0=yield,precise=budget:0.05`. None if one of them is unknown: then nothing is changed.
fn parse(text: &str) -> Option<Settings> {
    let mut settings = Settings::default();
    for setting in text.split(',').filter(|setting| !setting.is_empty()) {
        let (name, value) = setting.split_once('=')?;
        match name {
            "usleep0" => settings.usleep0 = zero(value).filter(|zero| *zero != Zero::Sleep)?,
            "sched_yield" => settings.sched_yield = zero(value).filter(|zero| *zero != Zero::Yield)?,
            "precise" => settings.precise = Some(aim(value)?),
            "poll_first" => {
                settings.poll_first_ns = value.parse().ok().filter(|ns| (1..=LONGEST_LOOK_NS).contains(ns))?;
            }
            _ => return None,
        }
    }
    Some(settings)
}

fn zero(value: &str) -> Option<Zero> {
    Some(match value {
        "keep" => Zero::Keep,
        "yield" => Zero::Yield,
        "pause" => Zero::Pause,
        "backoff" => Zero::Backoff,
        "sleep" => Zero::Sleep,
        _ => return None,
    })
}

fn aim(value: &str) -> Option<Aim> {
    let (name, rest) = value.split_once(':').unwrap_or((value, ""));
    match name {
        "balanced" if rest.is_empty() => Some(Aim::default()),
        "lateness" => {
            let (within, share) = rest.split_once(':')?;
            Aim::lateness(Duration::from_nanos(within.parse().ok()?), share.parse().ok()?).ok()
        }
        "budget" => Aim::cpu_budget(rest.parse().ok()?).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_together() {
        let settings = parse("usleep0=yield,sched_yield=backoff,precise=lateness:5000:0.99,poll_first=20000").unwrap();
        assert_eq!((settings.usleep0, settings.sched_yield), (Zero::Yield, Zero::Backoff));
        assert_eq!(settings.poll_first_ns, 20_000);
        assert_eq!(settings.precise, Some(Aim::Lateness { within: Duration::from_micros(5), share: 0.99 }));
        assert_eq!(parse("precise=budget:0.05").unwrap().precise, Some(Aim::CpuBudget { share: 0.05 }));
        assert_eq!(parse(""), Some(Settings::default()));
    }

    #[test]
    fn an_unknown_setting_changes_nothing() {
        for text in [
            "usleep0",
            "usleep0=sleep",
            "usleep0=never",
            "sched_yield=yield",
            "precise=",
            "precise=balanced:1",
            "precise=budget:2",
            "precise=lateness:5000",
            "poll_first=0",
            "poll_first=1000000001",
            "poll_first=-1",
            "usleep0=yield,more=1",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(text in "[a-z0-9_=,:.]{0,60}") {
            let _ = parse(&text);
        }
    }
}
