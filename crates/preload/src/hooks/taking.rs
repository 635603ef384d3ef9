//! A wait for something that can also be tried: it tries first, blocks with a margin, tries until the limit.

use libc::{c_int, clockid_t, timespec};

use crate::caller::Caller;
use crate::now::{length_ns, now_ns, now_of, timespec as timespec_of};
use crate::settings::Settings;
use crate::{learn, next, settings};

/// Turns between two tries: each may take the memory away from who is about to give it free.
const TURNS: u32 = 8;
/// The longest time to try at the end of a wait, well above any margin. A wall clock may be set back meanwhile.
const LONGEST_TRY_NS: i64 = 1_000_000;

/// A semaphore, a lock.
pub(crate) trait Take {
    /// Takes it without waiting: 0, an error number, or none if it is not free.
    fn take(&self) -> Option<c_int>;
    /// Waits for it until this time of the clock: 0, ETIMEDOUT or another error number.
    fn block(&self, limit: &timespec) -> c_int;
}

/// The wait until this time of the clock, if a setting concerns it: 0 or an error number.
///
/// # Safety
/// `limit` is null or points to a timespec.
pub(crate) unsafe fn wait_until(
    caller: Caller,
    clock: clockid_t,
    limit: *const timespec,
    call: &impl Take,
) -> Option<c_int> {
    let settings = settings::of(caller);
    // SAFETY: `concerned` refuses null.
    concerned(&settings, clock, limit).then(|| wait(&settings, clock, unsafe { &*limit }, call))
}

/// Whether a setting concerns such a wait.
fn concerned(settings: &Settings, clock: clockid_t, limit: *const timespec) -> bool {
    let known = matches!(clock, libc::CLOCK_MONOTONIC | libc::CLOCK_REALTIME);
    known && !limit.is_null() && (settings.precise.is_some() || settings.poll_first_ns > 0)
}

/// The wait: 0 or an error number. `errno` stays as it is.
fn wait(settings: &Settings, clock: clockid_t, limit: &timespec, call: &impl Take) -> c_int {
    let errno = next::errno();
    let done = take_first(settings, call).unwrap_or_else(|| on_time(settings, clock, limit, call));
    next::set_errno(errno);
    done
}

fn take_first(settings: &Settings, call: &impl Take) -> Option<c_int> {
    if settings.poll_first_ns == 0 {
        return None;
    }
    let until_ns = now_ns() + settings.poll_first_ns;
    try_until(call, || now_ns() >= until_ns)
}

fn on_time(settings: &Settings, clock: clockid_t, limit: &timespec, call: &impl Take) -> c_int {
    let (Some(aim), Some(deadline_ns)) = (settings.precise, length_ns(limit)) else { return call.block(limit) };
    let now = now_of(clock);
    let wait_ns = deadline_ns - now;
    if wait_ns <= 0 {
        return call.block(limit);
    }
    if let Some(margin_ns) = learn::margin_ns(aim, wait_ns).filter(|margin_ns| wait_ns > *margin_ns) {
        let target_ns = deadline_ns - margin_ns;
        let done = call.block(&timespec_of(target_ns));
        if done != libc::ETIMEDOUT {
            return done;
        }
        learn::saw(aim, wait_ns, now_of(clock) - target_ns);
    }
    let last_ns = now_ns() + LONGEST_TRY_NS;
    let over = || now_of(clock) >= deadline_ns || now_ns() >= last_ns;
    if let Some(done) = try_until(call, over) {
        return done;
    }
    // Otherwise the clock was set back.
    if now_of(clock) >= deadline_ns { libc::ETIMEDOUT } else { call.block(limit) }
}

/// Tries at least once.
fn try_until(call: &impl Take, over: impl Fn() -> bool) -> Option<c_int> {
    loop {
        let done = call.take();
        if done.is_some() || over() {
            return done;
        }
        (0..TURNS).for_each(|_| std::hint::spin_loop());
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use punctual::margin::Aim;

    use super::*;

    /// Free after this many tries; blocks until its limit.
    struct Script {
        tries: Cell<u32>,
        free_after: u32,
        /// Blocks that end before the deadline.
        blocked: Cell<u32>,
        clock: clockid_t,
        deadline_ns: i64,
    }

    impl Take for Script {
        fn take(&self) -> Option<c_int> {
            self.tries.set(self.tries.get() + 1);
            (self.tries.get() > self.free_after).then_some(0)
        }

        fn block(&self, limit: &timespec) -> c_int {
            let early = length_ns(limit) < Some(self.deadline_ns);
            self.blocked.set(self.blocked.get() + u32::from(early));
            while now_of(self.clock) < length_ns(limit).unwrap_or(0) {
                std::thread::yield_now();
            }
            libc::ETIMEDOUT
        }
    }

    fn run(settings: Settings, clock: clockid_t, length_ns: i64, free_after: u32) -> (c_int, Script) {
        let deadline_ns = now_of(clock) + length_ns;
        let script = Script { tries: Cell::new(0), free_after, blocked: Cell::new(0), clock, deadline_ns };
        next::set_errno(77);
        let done = wait(&settings, clock, &timespec_of(deadline_ns), &script);
        assert!(done == 0 || now_of(clock) >= deadline_ns, "never early");
        assert_eq!(next::errno(), 77);
        (done, script)
    }

    #[test]
    fn what_is_free_is_taken_without_blocking() {
        let settings = Settings { poll_first_ns: 60_000_000_000, ..Settings::default() };
        let (done, script) = run(settings, libc::CLOCK_MONOTONIC, 60_000_000_000, 3);
        assert_eq!((done, script.tries.get(), script.blocked.get()), (0, 4, 0));
    }

    #[test]
    fn the_limit_is_kept_on_both_clocks() {
        let settings = Settings { precise: Some(Aim::default()), ..Settings::default() };
        for clock in [libc::CLOCK_MONOTONIC, libc::CLOCK_REALTIME] {
            // Each in a thread of its own, which has learned nothing: after many late blocks, polling is cheaper. A thread that
            // stands still for 2 ms before it reads the clock has no time left to block.
            let blocks = (0..20).filter(|_| {
                let counts = || {
                    let (done, script) = run(settings, clock, 2_000_000, u32::MAX);
                    assert_eq!(done, libc::ETIMEDOUT);
                    (script.tries.get(), script.blocked.get())
                };
                let (tries, blocked) = std::thread::scope(|scope| scope.spawn(counts).join()).unwrap();
                tries > 0 && blocked == 1
            });
            assert!(blocks.count() > 0, "blocks until the margin, then tries");
            assert_eq!(run(settings, clock, 2_000_000, 0).0, 0, "free at the end");
            assert_eq!(run(settings, clock, -5, 0).1.tries.get(), 0, "what is over is left to the C library");
        }
    }

    #[test]
    fn other_clocks_and_settings_are_kept() {
        let limit = timespec_of(1);
        let settings = Settings { precise: Some(Aim::default()), ..Settings::default() };
        assert!(concerned(&settings, libc::CLOCK_REALTIME, &raw const limit));
        assert!(!concerned(&settings, libc::CLOCK_BOOTTIME, &raw const limit));
        assert!(!concerned(&settings, libc::CLOCK_REALTIME, std::ptr::null()));
        assert!(!concerned(&Settings::default(), libc::CLOCK_REALTIME, &raw const limit));
    }
}
