//! A wait with a time limit. One for events looks first, blocks with a margin, looks until the limit. One for something that can be tried
//! tries first, blocks with a margin, tries until the limit.

use libc::{c_int, clockid_t, sigset_t, timespec};
use punctual::margin::Aim;

use crate::next::{length_ns, now_ns, now_of, timespec as timespec_of};
use crate::polling::{Polled, Waiter, poll_until};
use crate::settings::Settings;
use crate::{next, settings};

/// A call that waits for events.
pub(crate) trait Look {
    /// Looks without waiting: what the function returns.
    fn look(&mut self) -> c_int;
    /// Blocks for at least this long, without an event; without end where there is none.
    fn block(&mut self, limit: Option<&timespec>) -> c_int;
    /// Whether it can block for parts of a millisecond.
    fn is_exact(&self) -> bool {
        true
    }
    /// The signals that it blocks while it waits; null for the thread's.
    fn mask(&self) -> *const sigset_t {
        std::ptr::null()
    }
    /// Gives the program what the wait found, and returns that.
    fn finish(&mut self, found: c_int) -> c_int {
        found
    }
}

/// The wait. `limit_ns` is none where it has no end.
pub(crate) fn wait(settings: &Settings, limit_ns: Option<i64>, call: &mut impl Look) -> c_int {
    let found = poll_and_block(settings, limit_ns, call);
    call.finish(found)
}

fn poll_and_block(settings: &Settings, limit_ns: Option<i64>, call: &mut impl Look) -> c_int {
    let began_ns = now_ns();
    let deadline_ns = limit_ns.map(|limit| began_ns.saturating_add(limit));
    if settings.poll_first_ns > 0 {
        let until_ns = (began_ns + settings.poll_first_ns).min(deadline_ns.unwrap_or(i64::MAX));
        let waiter = Waiter { mask: call.mask(), ..Waiter::CANCELLED };
        match poll_until(until_ns, waiter, || false, || Some(call.look()).filter(|found| *found != 0)) {
            Polled::Found(found) => return found,
            Polled::Interrupted => return next::failed(libc::EINTR),
            Polled::Over => {}
        }
    }
    let Some(deadline_ns) = deadline_ns else { return call.block(None) };
    match settings.precise {
        Some(aim) if call.is_exact() => until(aim, deadline_ns, call),
        _ => call.block(Some(&timespec_of(deadline_ns - now_ns()))),
    }
}

fn until(aim: Aim, deadline_ns: i64, call: &mut impl Look) -> c_int {
    let now = now_ns();
    let wait_ns = deadline_ns - now;
    if let Some(margin_ns) = settings::margin_ns(aim, wait_ns).filter(|margin_ns| wait_ns > *margin_ns) {
        let target_ns = deadline_ns - margin_ns;
        let found = call.block(Some(&timespec_of(target_ns - now)));
        if found != 0 {
            return found;
        }
        settings::saw(aim, wait_ns, now_ns() - target_ns);
    }
    look_until(deadline_ns, call)
}

/// Looks at least once.
fn look_until(until_ns: i64, call: &mut impl Look) -> c_int {
    let errno = next::errno();
    loop {
        let found = call.look();
        if found != 0 {
            return found;
        }
        if now_ns() >= until_ns {
            next::set_errno(errno);
            return 0;
        }
    }
}

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
    if let Some(margin_ns) = settings::margin_ns(aim, wait_ns).filter(|margin_ns| wait_ns > *margin_ns) {
        let target_ns = deadline_ns - margin_ns;
        let done = call.block(&timespec_of(target_ns));
        if done != T::TIMED_OUT {
            return Some(done);
        }
        settings::saw(aim, wait_ns, now_of(clock) - target_ns);
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

    /// Finds something at the look or block with this number.
    struct Script {
        calls: Vec<Option<i64>>,
        finds_at: usize,
        /// How much longer it blocks, at least.
        late_ns: i64,
    }

    impl Script {
        fn answer(&mut self, limit: Option<i64>) -> c_int {
            self.calls.push(limit);
            c_int::from(self.calls.len() == self.finds_at)
        }
    }

    impl Look for Script {
        fn look(&mut self) -> c_int {
            self.answer(Some(0))
        }

        fn block(&mut self, limit: Option<&timespec>) -> c_int {
            if let Some(limit) = limit {
                std::thread::sleep(std::time::Duration::new(limit.tv_sec as u64, limit.tv_nsec as u32));
                crate::next::spin_until(now_ns() + self.late_ns);
            }
            self.answer(limit.map(|limit| limit.tv_nsec as i64))
        }
    }

    fn run(settings: Settings, limit_ns: Option<i64>, finds_at: usize) -> (c_int, Vec<Option<i64>>) {
        let mut script = Script { calls: Vec::new(), finds_at, late_ns: 0 };
        let began = now_ns();
        let found = wait(&settings, limit_ns, &mut script);
        if found == 0 {
            assert!(now_ns() - began >= limit_ns.unwrap(), "never early");
        }
        (found, script.calls)
    }

    #[test]
    fn what_is_there_at_the_first_look_does_not_block() {
        let settings = Settings { poll_first_ns: 1_000_000_000, ..Settings::default() };
        assert_eq!(run(settings, None, 1), (1, vec![Some(0)]));
        let (found, calls) = run(settings, None, 4);
        assert_eq!((found, calls.len()), (1, 4));
    }

    #[test]
    fn without_an_end_it_blocks_without_an_end() {
        assert_eq!(run(Settings::default(), None, 1), (1, vec![None]));
    }

    #[test]
    fn a_limit_is_kept_and_blocked_for_less() {
        let settings = Settings { precise: Some(Aim::default()), ..Settings::default() };
        for _ in 0..20 {
            let (found, calls) = run(settings, Some(2_000_000), usize::MAX);
            assert_eq!(found, 0);
            assert!(calls[0].unwrap() < 2_000_000, "{calls:?}");
        }
        assert_eq!(run(Settings::default(), Some(0), usize::MAX).0, 0);
    }

    #[test]
    fn a_block_that_ends_late_is_begun_with_a_margin() {
        let settings = Settings { precise: Some(Aim::default()), ..Settings::default() };
        let asked_ns = || {
            let mut script = Script { calls: Vec::new(), finds_at: usize::MAX, late_ns: 150_000 };
            wait(&settings, Some(1_000_000), &mut script);
            script.calls[0].unwrap()
        };
        // In a thread of its own, which has learned nothing. It may learn that looking is cheaper.
        let last_ns = std::thread::scope(|scope| {
            scope.spawn(|| (0..200).map(|_| asked_ns()).fold(None, |_, last_ns| Some(last_ns))).join()
        })
        .unwrap();
        assert!(last_ns.unwrap() < 900_000, "{last_ns:?}");
    }

    /// Free after this many tries; blocks until its limit.
    struct Tries {
        tries: Cell<u32>,
        free_after: u32,
        /// Blocks that end before the deadline.
        blocked: Cell<u32>,
        clock: clockid_t,
        deadline_ns: i64,
        /// The C library refuses to wait.
        refused: bool,
    }

    impl Take for Tries {
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

    fn take_all(settings: Settings, clock: clockid_t, length_ns: i64, free_after: u32) -> (c_int, Tries) {
        run_script(settings, clock, length_ns, free_after, false)
    }

    fn run_script(
        settings: Settings,
        clock: clockid_t,
        length_ns: i64,
        free_after: u32,
        refused: bool,
    ) -> (c_int, Tries) {
        let deadline_ns = now_of(clock) + length_ns;
        let script = Tries { tries: Cell::new(0), free_after, blocked: Cell::new(0), clock, deadline_ns, refused };
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
        let (done, script) = take_all(settings, libc::CLOCK_MONOTONIC, 60_000_000_000, 3);
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
                    let (done, script) = take_all(settings, clock, 2_000_000, u32::MAX);
                    assert_eq!(done, libc::ETIMEDOUT);
                    (script.tries.get(), script.blocked.get())
                };
                let (tries, blocked) = std::thread::scope(|scope| scope.spawn(counts).join()).unwrap();
                tries > 1 && blocked == 1
            });
            assert!(blocks.count() > 0, "blocks until the margin, then tries");
            assert_eq!(take_all(settings, clock, 2_000_000, 0).0, 0, "free at the end");
            assert_eq!(
                take_all(settings, clock, -5, u32::MAX).1.tries.get(),
                1,
                "what is over is left to the C library"
            );
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
