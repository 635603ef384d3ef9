//! A timer slack of 1 ns for a thread, as long as one of its sleepers holds it.

use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};

use punctual_linux::Error;
use punctual_linux::prctl::{set_timer_slack_ns, timer_slack_ns};

/// The smallest slack: 0 selects the default (prctl(2)).
const FINE_NS: u64 = 1;

thread_local! {
    /// The number of guards on this thread, and the slack before the first.
    static HELD: Cell<(usize, u64)> = const { Cell::new((0, 0)) };
}

/// Is not `Send`, and says so in the message of the compiler.
trait BuildItOnTheThreadThatWaits: Unpin + UnwindSafe + RefUnwindSafe {}

/// Holds the slack of the calling thread at 1 ns. The last guard of a thread restores the slack that the first one found.
#[derive(Debug)]
pub(super) struct FineSlack {
    state: State,
    problem: Option<Box<Error>>,
    bound_to_thread: PhantomData<dyn BuildItOnTheThreadThatWaits>,
}

/// Whether the slack is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Slack has no effect on this clock, or the kernel refused.
    Never,
    /// Not held now.
    Released,
    /// Held now.
    Held,
}

impl FineSlack {
    /// A guard that holds nothing yet. `matters`: waits use kernel timers.
    pub(super) const fn new(matters: bool) -> Self {
        let state = if matters { State::Released } else { State::Never };
        Self { state, problem: None, bound_to_thread: PhantomData }
    }

    /// Sets the slack, unless held already. A refusal is kept as a problem, not an error: waits still work.
    #[inline]
    pub(super) fn hold(&mut self) {
        if self.state == State::Released {
            self.take_hold();
        }
    }

    #[cold]
    fn take_hold(&mut self) {
        let (guards, before) = HELD.get();
        let found = if guards > 0 { Ok(before) } else { timer_slack_ns() };
        match found.and_then(|found| set_timer_slack_ns(FINE_NS).map(|()| found)) {
            Ok(found) => {
                HELD.set((guards + 1, found));
                self.state = State::Held;
            }
            Err(error) => {
                self.state = State::Never;
                self.problem = Some(Box::new(error));
            }
        }
    }

    /// Sets the slack again: the kernel resets it when the thread leaves a real-time policy.
    pub(super) fn renew(&self) {
        if self.state == State::Held {
            // Worked before. If refused now, sleeps end later, and the margin learns that.
            let _ = set_timer_slack_ns(FINE_NS);
        }
    }

    /// Releases the slack.
    pub(super) fn release(&mut self) {
        if self.state != State::Held {
            return;
        }
        self.state = State::Released;
        let (guards, before) = HELD.get();
        HELD.set((guards - 1, before));
        // 0 is the slack under a real-time policy; the kernel sets and resets it with the policy.
        if guards == 1 && before != 0 {
            let _ = set_timer_slack_ns(before);
        }
    }

    pub(super) fn problem(&self) -> Option<&Error> {
        self.problem.as_deref()
    }
}

impl Drop for FineSlack {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held() -> FineSlack {
        let mut slack = FineSlack::new(true);
        slack.hold();
        slack
    }

    fn on_a_thread(test: impl FnOnce() + Send + 'static) {
        std::thread::spawn(test).join().unwrap();
    }

    #[test]
    fn the_last_to_go_puts_it_back_in_any_order() {
        on_a_thread(|| {
            set_timer_slack_ns(43_210).unwrap();
            let (first, second) = (held(), held());
            assert_eq!(timer_slack_ns().unwrap(), FINE_NS);
            drop(first);
            assert_eq!(timer_slack_ns().unwrap(), FINE_NS);
            drop(second);
            assert_eq!(timer_slack_ns().unwrap(), 43_210);
        });
    }

    #[test]
    fn who_rests_gives_it_back_and_takes_it_again() {
        on_a_thread(|| {
            set_timer_slack_ns(43_210).unwrap();
            let mut slack = held();
            slack.release();
            slack.release();
            assert_eq!(timer_slack_ns().unwrap(), 43_210);
            slack.hold();
            assert_eq!(timer_slack_ns().unwrap(), FINE_NS);
        });
    }

    #[test]
    fn a_panic_puts_it_back_too() {
        on_a_thread(|| {
            set_timer_slack_ns(43_210).unwrap();
            let caught = std::panic::catch_unwind(|| {
                let _fine = held();
                panic!("while it is held");
            });
            assert!(caught.is_err());
            assert_eq!(timer_slack_ns().unwrap(), 43_210);
        });
    }

    #[test]
    fn where_it_does_not_matter_it_is_left_alone() {
        on_a_thread(|| {
            set_timer_slack_ns(43_210).unwrap();
            let mut none = FineSlack::new(false);
            none.hold();
            none.renew();
            assert_eq!(timer_slack_ns().unwrap(), 43_210);
        });
    }
}
