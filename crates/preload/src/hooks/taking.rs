//! A wait for something that can also be tried: it tries first, blocks with a margin, tries until the limit.

use libc::{c_int, clockid_t, timespec};
use punctual::margin::Aim;

use crate::now::{length_ns, now_ns, now_of, timespec as timespec_of};
use crate::polling::{Polled, Waiter, poll_until};
use crate::settings::Settings;
use crate::{learn, next};

/// Turns between two tries: each may take the memory away from who is about to give it free.
const TURNS: u32 = 8;
/// The longest time to try at the end of a wait, well above any margin. A wall clock may be set back meanwhile.
const LONGEST_TRY_NS: i64 = 1_000_000;

/// A semaphore, a lock.
pub(crate) trait Take {
    /// The C library's result for a time that is over.
    const TIMED_OUT: c_int;
    /// The result where a signal ends the wait, which is then a cancellation point too.
    const INTERRUPTED: Option<c_int>;
    /// Takes it without waiting: its result, or none if it is not free.
    fn take(&self) -> Option<c_int>;
    /// Waits for it until this time of the clock: the C library's result, and its errno.
    fn block(&self, limit: &timespec) -> c_int;
}

/// The wait until this time of the clock. `limit` is read only when it is not free: so does the C library with a mutex.
pub(crate) fn wait_until<T: Take>(
    settings: &Settings,
    clock: clockid_t,
    limit: *const timespec,
    call: &T,
    kept: impl FnOnce() -> c_int,
) -> c_int {
    let errno = next::errno();
    if let Some(done) = call.take() {
        return done;
    }
    next::set_errno(errno);
    // SAFETY: the caller gave a pointer to a timespec, which the C library reads too.
    let limit = unsafe { *limit };
    let Some(deadline_ns) = length_ns(&limit) else { return kept() };
    let done = poll_first(settings, clock, deadline_ns, call)
        .or_else(|| on_time(settings.precise?, clock, deadline_ns, call))
        .unwrap_or_else(|| call.block(&limit));
    if done == 0 {
        next::set_errno(errno);
    }
    done
}

/// Whether a setting concerns such a wait.
pub(crate) fn concerned(settings: &Settings, clock: clockid_t, limit: *const timespec) -> bool {
    let known = matches!(clock, libc::CLOCK_MONOTONIC | libc::CLOCK_REALTIME);
    known && !limit.is_null() && (settings.precise.is_some() || settings.poll_first_ns > 0)
}

fn poll_first<T: Take>(settings: &Settings, clock: clockid_t, deadline_ns: i64, call: &T) -> Option<c_int> {
    if settings.poll_first_ns == 0 {
        return None;
    }
    let until_ns = now_ns() + settings.poll_first_ns;
    let is_over = || now_of(clock) >= deadline_ns;
    let Some(interrupted) = T::INTERRUPTED else {
        return try_until(call, || now_ns() >= until_ns || is_over());
    };
    match poll_until(until_ns, Waiter::CANCELLED, is_over, || take_after_pause(call)) {
        Polled::Found(done) => Some(done),
        Polled::Interrupted => Some(interrupted),
        Polled::Over => None,
    }
}

/// None where the C library has to wait.
fn on_time<T: Take>(aim: Aim, clock: clockid_t, deadline_ns: i64, call: &T) -> Option<c_int> {
    let wait_ns = deadline_ns - now_of(clock);
    if wait_ns <= 0 {
        return None;
    }
    if let Some(margin_ns) = learn::margin_ns(aim, wait_ns).filter(|margin_ns| wait_ns > *margin_ns) {
        let target_ns = deadline_ns - margin_ns;
        let done = call.block(&timespec_of(target_ns));
        if done != T::TIMED_OUT {
            return Some(done);
        }
        learn::saw(aim, wait_ns, now_of(clock) - target_ns);
    }
    if T::INTERRUPTED.is_some() {
        next::end_if_cancelled();
    }
    let last_ns = now_ns() + LONGEST_TRY_NS;
    let done = try_until(call, || now_of(clock) >= deadline_ns || now_ns() >= last_ns);
    // Otherwise the clock was set back.
    done.or_else(|| (now_of(clock) >= deadline_ns).then_some(T::TIMED_OUT))
}

/// Tries at least once.
fn try_until<T: Take>(call: &T, over: impl Fn() -> bool) -> Option<c_int> {
    loop {
        let done = call.take();
        if done.is_some() || over() {
            return done;
        }
        (0..TURNS).for_each(|_| std::hint::spin_loop());
    }
}

fn take_after_pause<T: Take>(call: &T) -> Option<c_int> {
    (0..TURNS).for_each(|_| std::hint::spin_loop());
    call.take()
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
        /// The C library refuses to wait.
        refused: bool,
    }

    impl Take for Script {
        const TIMED_OUT: c_int = libc::ETIMEDOUT;
        const INTERRUPTED: Option<c_int> = Some(libc::EINTR);

        fn take(&self) -> Option<c_int> {
            self.tries.set(self.tries.get() + 1);
            if self.refused { Some(libc::EDEADLK) } else { (self.tries.get() > self.free_after).then_some(0) }
        }

        fn block(&self, limit: &timespec) -> c_int {
            let asked_ns = length_ns(limit).unwrap_or(0);
            let early = asked_ns > 0 && asked_ns < self.deadline_ns;
            self.blocked.set(self.blocked.get() + u32::from(early));
            while now_of(self.clock) < asked_ns {
                std::thread::yield_now();
            }
            next::set_errno(5);
            libc::ETIMEDOUT
        }
    }

    fn run(settings: Settings, clock: clockid_t, length_ns: i64, free_after: u32) -> (c_int, Script) {
        run_script(settings, clock, length_ns, free_after, false)
    }

    fn run_script(
        settings: Settings,
        clock: clockid_t,
        length_ns: i64,
        free_after: u32,
        refused: bool,
    ) -> (c_int, Script) {
        let deadline_ns = now_of(clock) + length_ns;
        let script = Script { tries: Cell::new(0), free_after, blocked: Cell::new(0), clock, deadline_ns, refused };
        next::set_errno(77);
        let limit = timespec_of(deadline_ns);
        let done = wait_until(&settings, clock, &raw const limit, &script, || panic!("a valid limit"));
        assert!(done != libc::ETIMEDOUT || now_of(clock) >= deadline_ns, "never early");
        assert!(done != 0 || next::errno() == 77, "errno stays");
        (done, script)
    }

    #[test]
    fn what_is_refused_is_refused_at_once() {
        let settings = Settings { poll_first_ns: 60_000_000_000, precise: Some(Aim::default()), ..Settings::default() };
        let (done, script) = run_script(settings, libc::CLOCK_MONOTONIC, 60_000_000_000, u32::MAX, true);
        assert_eq!((done, script.tries.get()), (libc::EDEADLK, 1));
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
                tries > 1 && blocked == 1
            });
            assert!(blocks.count() > 0, "blocks until the margin, then tries");
            assert_eq!(run(settings, clock, 2_000_000, 0).0, 0, "free at the end");
            assert_eq!(run(settings, clock, -5, u32::MAX).1.tries.get(), 1, "what is over is left to the C library");
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
        let settings = Settings { poll_first_ns: 5, ..Settings::default() };
        assert!(concerned(&settings, libc::CLOCK_MONOTONIC, &raw const limit));
    }
}
