//! The settings of this library: the environment variable `PUNCTUAL_PRELOAD`, read once when the program is
//! loaded; and what the calling thread learns under them: the margin of its waits.

use std::cell::{Cell, UnsafeCell};
use std::sync::OnceLock;

use punctual::margin::{Aim, Decision, MarginLearner};
use punctual_rules::{Waits, Zero};

use crate::callers::{self, Caller, Once};
use crate::next;
use crate::rules::Rules;

/// The settings of a call.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Settings {
    pub(crate) usleep0: Zero,
    pub(crate) sched_yield: Zero,
    pub(crate) precise: Option<Aim>,
    pub(crate) poll_first_ns: i64,
}

const KEPT: Settings = Settings { usleep0: Zero::Keep, sched_yield: Zero::Keep, precise: None, poll_first_ns: 0 };

/// The settings as read.
struct Loaded {
    general: Settings,
    rules: Option<Rules>,
}

/// Which rules decide under a set of rules.
static UNDER: Once<128> = Once::new();

static LOADED: OnceLock<Loaded> = OnceLock::new();

/// The settings for calls from here, by this thread. Before they are read, every call is kept.
#[inline]
pub(crate) fn for_caller(caller: Caller) -> Settings {
    // A load and a comparison, without a lock.
    match LOADED.get() {
        None => KEPT,
        Some(Loaded { general, rules: None }) => *general,
        Some(Loaded { general, rules: Some(rules) }) => general.under(rules, caller),
    }
}

/// Whether anything is set.
pub(crate) fn any() -> bool {
    LOADED.get().is_some()
}

/// The rules, if there are any.
#[inline]
pub(crate) fn rules() -> Option<&'static Rules> {
    LOADED.get()?.rules.as_ref()
}

/// Whether sleeps of any thread may have to end on time.
pub(crate) fn precise_everywhere() -> bool {
    LOADED.get().is_some_and(|loaded| {
        loaded.general.precise.is_some() || loaded.rules.as_ref().is_some_and(|rules| rules.everywhere_precise)
    })
}

/// Reads the environment. Runs once, when the program is loaded.
pub(crate) fn read() {
    let text = next::variable(c"PUNCTUAL_PRELOAD").and_then(|text| text.to_str().ok());
    if let Some(loaded) = text.and_then(load) {
        let _ = LOADED.set(loaded);
    }
}

/// None if a word or a rule is unknown: then nothing is changed.
fn load(text: &str) -> Option<Loaded> {
    let settings = punctual_rules::Settings::parse(text).ok()?;
    let rules = match settings.rules {
        Some(path) => Some(Rules::read(path)?),
        None => None,
    };
    Some(Loaded { general: KEPT.with(&settings.waits), rules })
}

impl Settings {
    /// These, changed by what is said.
    #[inline]
    fn with(self, waits: &Waits) -> Self {
        Self {
            usleep0: waits.usleep0.unwrap_or(self.usleep0),
            sched_yield: waits.sched_yield.unwrap_or(self.sched_yield),
            precise: waits.precise_sleep.unwrap_or(self.precise),
            poll_first_ns: waits.poll_first_ns.unwrap_or(self.poll_first_ns),
        }
    }

    fn under(&self, rules: &Rules, caller: Caller) -> Self {
        let hold = callers::rules_of_caller(rules, caller) & callers::rules_of_thread(rules);
        let decide = || rules.deciding(hold);
        let deciding = UNDER.get(hold, decide).unwrap_or_else(decide);
        rules.waits_of(deciding).fold(*self, |settings, waits| settings.with(waits))
    }
}

/// The longest margin: an ordinary machine wakes within it.
const LONGEST_MARGIN_NS: u32 = 250_000;

/// The learners of a thread.
struct Learned {
    /// A signal handler may wait in the middle of an update: it then waits without the margin.
    busy: Cell<bool>,
    /// For two aims, since rules may give a thread several. The second place is the latest's.
    learners: UnsafeCell<[Place; 2]>,
}

/// A learner, once a wait with its aim has begun. It is made in place, since a first wait may be on the small stack of a signal handler.
struct Place {
    is_begun: bool,
    learner: MarginLearner,
}

impl Place {
    const NEW: Self = Self { is_begun: false, learner: MarginLearner::new(Aim::Typical, LONGEST_MARGIN_NS) };

    fn is_for(&self, aim: Aim) -> bool {
        self.is_begun && self.learner.aim() == aim
    }

    #[inline(never)]
    fn begin(&mut self, aim: Aim) {
        self.learner.restart(aim, LONGEST_MARGIN_NS);
        self.is_begun = true;
    }
}

thread_local! {
    // No destructor and no lazy beginning: reading it neither allocates nor registers anything.
    static LEARNED: Learned = const { Learned { busy: Cell::new(false), learners: UnsafeCell::new([Place::NEW; 2]) } };
}

fn with<T>(aim: Aim, each: impl FnOnce(&mut MarginLearner) -> T) -> Option<T> {
    LEARNED.with(|learned| {
        if learned.busy.replace(true) {
            return None;
        }
        // SAFETY: only this thread has the cell, and `busy` keeps a signal handler out of it.
        let [first, second] = unsafe { &mut *learned.learners.get() };
        let place = if !first.is_begun || first.is_for(aim) { first } else { second };
        if !place.is_for(aim) {
            place.begin(aim);
        }
        let done = each(&mut place.learner);
        learned.busy.set(false);
        Some(done)
    })
}

/// The margin of a sleep for this long; none if it should be spun.
pub(crate) fn margin_ns(aim: Aim, wait_ns: i64) -> Option<i64> {
    match with(aim, |learner| learner.decide(wait_ns)) {
        Some(Decision::Spin) => None,
        Some(Decision::Sleep { margin_ns, .. }) => Some(margin_ns.into()),
        None => Some(0),
    }
}

/// A sleep as a part of such a wait ended this late.
pub(crate) fn saw(aim: Aim, wait_ns: i64, latency_ns: i64) {
    with(aim, |learner| learner.saw(wait_ns, latency_ns));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn general(text: &str) -> Option<Settings> {
        load(text).map(|loaded| loaded.general)
    }

    #[test]
    fn words_change_what_they_name() {
        let settings = general("usleep0=yield,poll-first=20us").unwrap();
        assert_eq!(settings, Settings { usleep0: Zero::Yield, poll_first_ns: 20_000, ..KEPT });
        assert_eq!(general("precise-sleep").unwrap().precise, Some(Aim::default()));
        assert_eq!(general(""), Some(KEPT));
    }

    #[test]
    fn an_unknown_word_and_a_missing_file_change_nothing() {
        for text in ["usleep0=never", "usleep0=yield,more=1", "usleep0=yield,rules=/nowhere"] {
            assert_eq!(general(text), None, "{text}");
        }
    }

    #[test]
    fn rules_hold_for_their_callers_and_threads() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let name = std::thread::current().name().unwrap()[..10].to_owned();
        let text = format!("* usleep0=pause\nthread={name}* poll-first=20us\nlibrary=libc.so* sched-yield=sleep\n");
        std::fs::write(file.path(), text).unwrap();
        let loaded = load(&format!("usleep0=yield,rules={}", file.path().display())).unwrap();
        let settings_at = |address: usize| loaded.general.under(loaded.rules.as_ref().unwrap(), Caller(address));
        let own = settings_at(general as *const () as usize);
        assert_eq!(own, Settings { usleep0: Zero::Pause, poll_first_ns: 20_000, ..KEPT });
        let libc = settings_at(libc::getppid as *const () as usize);
        assert_eq!(libc, Settings { sched_yield: Zero::Sleep, ..own });
        assert_eq!(settings_at(0), own, "an unknown caller");
    }

    #[test]
    fn a_thread_learns_its_margin() {
        for _ in 0..200 {
            assert!(margin_ns(Aim::default(), 1_000_000).is_some());
            saw(Aim::default(), 1_000_000, 40_000);
        }
        let margin = margin_ns(Aim::default(), 1_000_000).unwrap();
        assert!((30_000..=60_000).contains(&margin), "{margin}");
    }

    #[test]
    fn two_aims_learn_apart() {
        let (balanced, budget) = (Aim::default(), Aim::cpu_budget(1.0).unwrap());
        for _ in 0..200 {
            saw(balanced, 1_000_000, 40_000);
            saw(budget, 1_000_000, 10_000);
        }
        let margins = [balanced, budget].map(|aim| margin_ns(aim, 1_000_000).unwrap());
        assert!(margins[0] > 30_000 && margins[1] < 30_000, "{margins:?}");
        assert!(margin_ns(Aim::Typical, 1_000_000).unwrap() > 50_000, "a third begins anew");
    }

    #[test]
    fn a_handler_in_the_middle_of_an_update_waits_without_it() {
        let inside = with(Aim::default(), |_| margin_ns(Aim::default(), 1_000_000));
        assert_eq!(inside, Some(Some(0)));
    }
}
