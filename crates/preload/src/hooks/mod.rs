//! The functions that a program finds in place of the C library's. Each adds where it is called from, counts its wait
//! ([`crate::observe`]), and goes on to the hook.
//!
//! Rust cannot read its own return address, so each entry is a few instructions. They put it behind the arguments. On other
//! architectures it is unknown.

mod limits;
mod locks;
mod looking;
mod sleeping;
mod thread;
mod timeouts;

use libc::{
    c_char, c_int, c_long, c_uint, c_ulong, c_void, clockid_t, epoll_event, fd_set, nfds_t, pollfd, pthread_attr_t,
    pthread_cond_t, pthread_mutex_t, pthread_t, sem_t, sigset_t, timespec, timeval, useconds_t,
};
use punctual_linux::call_table::calls;

use self::limits::{length, limit, limit_for_kernel, limit_given, limit_of_ms, limit_of_timeval, until, until_some};
use self::timeouts::Events;
use crate::callers::Caller;
use crate::next::{self, Start};
use crate::observe::{How, Limit, observed, yields};

/// The instructions for a function, by its number of arguments: one token for each.
#[cfg(target_arch = "x86_64")]
macro_rules! instructions {
    () => {
        concat!("mov rdi, [rsp]", "\n jmp {}")
    };
    ($a:tt) => {
        concat!("mov rsi, [rsp]", "\n jmp {}")
    };
    ($a:tt $b:tt) => {
        concat!("mov rdx, [rsp]", "\n jmp {}")
    };
    ($a:tt $b:tt $c:tt) => {
        concat!("mov rcx, [rsp]", "\n jmp {}")
    };
    ($a:tt $b:tt $c:tt $d:tt) => {
        concat!("mov r8, [rsp]", "\n jmp {}")
    };
    ($a:tt $b:tt $c:tt $d:tt $e:tt) => {
        concat!("mov r9, [rsp]", "\n jmp {}")
    };
    // The registers are full. The stack is aligned to 16 bytes before a call, and unwinding (pthreads(7)) needs its height.
    ($a:tt $b:tt $c:tt $d:tt $e:tt $f:tt) => {
        concat!(
            "push qword ptr [rsp]\n .cfi_adjust_cfa_offset 8",
            "\n call {}",
            "\n add rsp, 8\n .cfi_adjust_cfa_offset -8\n ret"
        )
    };
    ($a:tt $b:tt $c:tt $d:tt $e:tt $f:tt $g:tt) => {
        concat!(
            "sub rsp, 8\n .cfi_adjust_cfa_offset 8",
            "\n push qword ptr [rsp + 8]\n .cfi_adjust_cfa_offset 8",
            "\n push qword ptr [rsp + 24]\n .cfi_adjust_cfa_offset 8",
            "\n call {}",
            "\n add rsp, 24\n .cfi_adjust_cfa_offset -24\n ret"
        )
    };
}

/// The instructions that put the return address into the register with this number.
#[cfg(target_arch = "aarch64")]
macro_rules! into_register {
    ($number:literal) => {
        concat!("mov x", $number, ", x30\n b {}")
    };
}

#[cfg(target_arch = "riscv64")]
macro_rules! into_register {
    ($number:literal) => {
        concat!("mv a", $number, ", ra\n tail {}")
    };
}

#[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
macro_rules! instructions {
    () => {
        into_register!(0)
    };
    ($a:tt) => {
        into_register!(1)
    };
    ($a:tt $b:tt) => {
        into_register!(2)
    };
    ($a:tt $b:tt $c:tt) => {
        into_register!(3)
    };
    ($a:tt $b:tt $c:tt $d:tt) => {
        into_register!(4)
    };
    ($a:tt $b:tt $c:tt $d:tt $e:tt) => {
        into_register!(5)
    };
    ($a:tt $b:tt $c:tt $d:tt $e:tt $f:tt) => {
        into_register!(6)
    };
    ($a:tt $b:tt $c:tt $d:tt $e:tt $f:tt $g:tt) => {
        into_register!(7)
    };
}

/// `name(arguments) -> type = hook`: the hook has the same arguments, and the caller behind them.
macro_rules! entries {
    ($($name:ident ( $($argument:ident : $type:ty),* ) -> $returned:ty = $hook:path;)*) => {$(
        #[doc = concat!("As the C library's `", stringify!($name), "`.")]
        ///
        /// # Safety
        /// As the C library's.
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[unsafe(naked)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $returned {
            const _: unsafe extern "C-unwind" fn($($type,)* Caller) -> $returned = $hook;
            core::arch::naked_asm!(
                ".cfi_startproc",
                instructions!($($argument)*),
                ".cfi_endproc",
                sym $hook
            )
        }

        #[doc = concat!("As the C library's `", stringify!($name), "`.")]
        ///
        /// # Safety
        /// As the C library's.
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $returned {
            // SAFETY: the arguments of the caller.
            #[allow(unused_unsafe, reason = "some hooks are safe")]
            unsafe { $hook($($argument,)* Caller::UNKNOWN) }
        }
    )*};
}

/// `name(arguments) -> type = |caller, own| hook, call, limit, how it ended;`: the entry counts the wait ([`crate::observe`]) that the hook
/// makes, whose `own` is the C library's function with the same arguments. Without a file to count in, it is the hook alone.
macro_rules! observed {
    ($(
        $name:ident ( $($argument:ident : $type:ty),* ) -> $returned:ty =
            |$caller:tt, $own:tt| $hook:expr, $call:ident, $limit:expr, $how:expr;
    )*) => {
        mod counted {
            use super::*;

            $(pub(super) unsafe extern "C-unwind" fn $name($($argument: $type,)* caller: Caller) -> $returned {
                let make = || {
                    // SAFETY: the arguments of the caller.
                    let ($caller, $own) = (caller, || unsafe { next::$name($($argument),*) });
                    // SAFETY: the arguments of the caller.
                    #[allow(unused_unsafe, reason = "some hooks are safe")]
                    unsafe { $hook }
                };
                observed(calls::$call, caller, || $limit, make, $how)
            })*
        }

        entries! { $($name($($argument: $type),*) -> $returned = counted::$name;)* }
    };
}

observed! {
    nanosleep(asked: *const timespec, rest: *mut timespec) -> c_int =
        |caller, _| sleeping::nanosleep(asked, rest, caller), NANOSLEEP, length(asked), slept;
    clock_nanosleep(clock: clockid_t, flags: c_int, asked: *const timespec, rest: *mut timespec) -> c_int =
        |caller, _| sleeping::clock_nanosleep(clock, flags, asked, rest, caller),
        CLOCK_NANOSLEEP, length_or_end(clock, flags, asked), slept;
    usleep(microseconds: useconds_t) -> c_int =
        |caller, _| sleeping::usleep(microseconds, caller), USLEEP, Limit::For(i64::from(microseconds) * 1_000), slept;
    thrd_sleep(asked: *const timespec, rest: *mut timespec) -> c_int =
        |caller, _| sleeping::thrd_sleep(asked, rest, caller), THRD_SLEEP, length(asked), slept;
    poll(fds: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int =
        |caller, own| timeouts::until(caller, limit_of_ms(timeout_ms), Events::Poll { fds, count }, own),
        POLL, limit_of_ms(timeout_ms), events;
    ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int =
        |caller, own| timeouts::until(caller, limit_given(timeout), Events::Ppoll { fds, count, mask }, own),
        PPOLL, limit(timeout), events;
    select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval) -> c_int =
        |caller, own| timeouts::select(count, [read, write, except], timeout, caller, own),
        SELECT, limit_of_timeval(timeout), events;
    pselect(
        count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *const timespec, mask: *const sigset_t
    ) -> c_int =
        |caller, own| timeouts::pselect(count, [read, write, except], limit_given(timeout), mask, caller, own),
        PSELECT, limit(timeout), events;
    epoll_wait(epoll: c_int, found: *mut epoll_event, most: c_int, timeout_ms: c_int) -> c_int =
        |caller, own| timeouts::until(caller, limit_of_ms(timeout_ms), Events::EpollWait { epoll, found, most }, own),
        EPOLL_WAIT, limit_of_ms(timeout_ms), events;
    epoll_pwait(epoll: c_int, found: *mut epoll_event, most: c_int, timeout_ms: c_int, mask: *const sigset_t) -> c_int =
        |caller, own| {
            timeouts::until(caller, limit_of_ms(timeout_ms), Events::EpollPwait { epoll, found, most, mask }, own)
        },
        EPOLL_PWAIT, limit_of_ms(timeout_ms), events;
    epoll_pwait2(
        epoll: c_int, found: *mut epoll_event, most: c_int, timeout: *const timespec, mask: *const sigset_t
    ) -> c_int =
        |caller, own| {
            timeouts::until(caller, limit_for_kernel(timeout), Events::EpollPwait2 { epoll, found, most, mask }, own)
        },
        EPOLL_PWAIT2, limit(timeout), events;
    sem_timedwait(semaphore: *mut sem_t, time: *const timespec) -> c_int =
        |caller, _| locks::semaphore(semaphore, None, time, caller),
        SEM_TIMEDWAIT, until(libc::CLOCK_REALTIME, time), posted;
    sem_clockwait(semaphore: *mut sem_t, clock: clockid_t, time: *const timespec) -> c_int =
        |caller, _| locks::semaphore(semaphore, Some(clock), time, caller), SEM_CLOCKWAIT, until(clock, time), posted;
    pthread_mutex_timedlock(mutex: *mut pthread_mutex_t, time: *const timespec) -> c_int =
        |caller, _| locks::pthread_mutex(mutex, libc::CLOCK_REALTIME, time, caller),
        MUTEX_TIMEDLOCK, until(libc::CLOCK_REALTIME, time), error;
    pthread_mutex_clocklock(mutex: *mut pthread_mutex_t, clock: clockid_t, time: *const timespec) -> c_int =
        |caller, _| locks::pthread_mutex(mutex, clock, time, caller), MUTEX_CLOCKLOCK, until(clock, time), error;
    mtx_timedlock(mutex: *mut c_void, time: *const timespec) -> c_int =
        |caller, _| locks::mtx(mutex, time, caller), MTX_TIMEDLOCK, until(libc::CLOCK_REALTIME, time), result_of_c11;
    // A condition variable cannot be tried. Between two short waits, a signal of a thread without the mutex would reach nobody. So these
    // stay the C library's own, and their timeouts end on time as far as the slack goes, which is 1 ns where sleeps are precise.
    //
    // The version of pthread_cond_timedwait(3) is that since glibc 2.3.2: a library of Rust has one version script, which names no
    // versions. So programs of before 2003 find this one too.
    pthread_cond_timedwait(condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, time: *const timespec) -> c_int =
        |_, own| own(), COND_TIMEDWAIT, until_some(time), error;
    pthread_cond_clockwait(
        condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, clock: clockid_t, time: *const timespec
    ) -> c_int =
        |_, own| own(), COND_CLOCKWAIT, until(clock, time), error;
    cnd_timedwait(condition: *mut c_void, mutex: *mut c_void, time: *const timespec) -> c_int =
        |_, own| own(), CND_TIMEDWAIT, until(libc::CLOCK_REALTIME, time), result_of_c11;
}

entries! {
    sleep(seconds: c_uint) -> c_uint = counted_sleep;
    sched_yield() -> c_int = counted_yield;
    pthread_yield() -> c_int = counted_yield;
    thrd_yield() -> c_int = counted_yield;
    pthread_setname_np(thread: pthread_t, name: *const c_char) -> c_int = thread::pthread_setname_np;
    prctl(option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int = thread::prctl;
    pthread_create(thread: *mut pthread_t, attributes: *const pthread_attr_t, start: Start, argument: *mut c_void) -> c_int = thread::pthread_create;
    syscall(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long) -> c_long = syscall_counted;
}

/// As sleep(3).
extern "C-unwind" fn counted_sleep(seconds: c_uint, caller: Caller) -> c_uint {
    let limit = || Limit::For(i64::from(seconds) * 1_000_000_000);
    observed(calls::SLEEP, caller, limit, || sleeping::sleep(seconds, caller), slept)
}

/// As sched_yield(2).
extern "C-unwind" fn counted_yield(caller: Caller) -> c_int {
    yields(caller, || sleeping::sched_yield(caller))
}

/// As syscall(2): a wait by its number is counted as the function of its name.
///
/// # Safety
/// As syscall(2).
unsafe extern "C-unwind" fn syscall_counted(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
    caller: Caller,
) -> c_long {
    // SAFETY: the arguments of the caller.
    let make = || unsafe { locks::syscall(number, [a, b, c, d, e, f], caller) };
    let slept = |done: &c_long, _| if *done == 0 { How::Expired } else { How::Failed };
    match number {
        libc::SYS_futex if locks::waits(b) => {
            observed(calls::FUTEX, caller, || limit_of_futex(b, d as *const timespec), make, woken)
        }
        libc::SYS_sched_yield => yields(caller, make),
        libc::SYS_nanosleep => observed(calls::NANOSLEEP, caller, || length(a as *const timespec), make, slept),
        libc::SYS_clock_nanosleep => {
            let limit = || length_or_end(a as clockid_t, b as c_int, c as *const timespec);
            observed(calls::CLOCK_NANOSLEEP, caller, limit, make, slept)
        }
        _ => make(),
    }
}

/// What clock_nanosleep(2) takes.
fn length_or_end(clock: clockid_t, flags: c_int, time: *const timespec) -> Limit {
    if flags == libc::TIMER_ABSTIME { until(clock, time) } else { length(time) }
}

/// `FUTEX_WAIT` takes a length, `FUTEX_WAIT_BITSET` a time.
fn limit_of_futex(operation: c_long, time: *const timespec) -> Limit {
    match time.is_null() {
        true => Limit::Endless,
        false if locks::has_deadline(operation) => until(locks::clock_of(operation), time),
        false => length(time),
    }
}

/// Of a function that returns 0 when its time is over.
fn slept<T: Default + PartialEq>(done: &T, _: Limit) -> How {
    if *done == T::default() { How::Expired } else { How::Failed }
}

/// Of a function that returns how many events there are.
fn events(done: &c_int, limit: Limit) -> How {
    match done {
        1.. => How::Event,
        0 if limit == Limit::Look => How::Nothing,
        0 => How::Expired,
        _ => How::Failed,
    }
}

/// Of a futex: a word that had changed already is an event too.
fn woken(done: &c_long, _: Limit) -> How {
    match done {
        0 => How::Event,
        _ => match next::errno() {
            libc::ETIMEDOUT => How::Expired,
            libc::EAGAIN => How::Event,
            _ => How::Failed,
        },
    }
}

/// Of sem_timedwait(3).
fn posted(done: &c_int, _: Limit) -> How {
    if *done == 0 { How::Event } else { of_error(next::errno()) }
}

/// Of a function that returns an error number.
fn error(done: &c_int, _: Limit) -> How {
    of_error(*done)
}

fn of_error(error: c_int) -> How {
    match error {
        0 => How::Event,
        libc::ETIMEDOUT => How::Expired,
        _ => How::Failed,
    }
}

/// Of a function of C11: glibc's `thrd_timedout` is 4 (threads.h).
fn result_of_c11(done: &c_int, _: Limit) -> How {
    match done {
        0 => How::Event,
        4 => How::Expired,
        _ => How::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The arguments of a hook, in their order.
    type Seen = Vec<c_long>;

    thread_local! {
        static SEEN: std::cell::RefCell<(Seen, Caller)> = const { std::cell::RefCell::new((Vec::new(), Caller::UNKNOWN)) };
    }

    fn see(arguments: &[c_long], caller: Caller) -> c_int {
        SEEN.with(|seen| *seen.borrow_mut() = (arguments.to_vec(), caller));
        if arguments.contains(&-1) {
            std::panic::resume_unwind(Box::new("cancelled"));
        }
        arguments.len() as c_int
    }

    macro_rules! hooks {
        ($($hook:ident($($argument:ident),*))*) => {$(
            unsafe extern "C-unwind" fn $hook($($argument: c_long,)* caller: Caller) -> c_int {
                see(&[$($argument),*], caller)
            }
        )*};
    }

    hooks! {
        hook0() hook1(a) hook2(a, b) hook3(a, b, c) hook4(a, b, c, d) hook5(a, b, c, d, e) hook6(a, b, c, d, e, f)
        hook7(a, b, c, d, e, f, g)
    }

    entries! {
        entry0() -> c_int = hook0;
        entry1(a: c_long) -> c_int = hook1;
        entry2(a: c_long, b: c_long) -> c_int = hook2;
        entry3(a: c_long, b: c_long, c: c_long) -> c_int = hook3;
        entry4(a: c_long, b: c_long, c: c_long, d: c_long) -> c_int = hook4;
        entry5(a: c_long, b: c_long, c: c_long, d: c_long, e: c_long) -> c_int = hook5;
        entry6(a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long) -> c_int = hook6;
        entry7(a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long, g: c_long) -> c_int = hook7;
    }

    /// Calls all of them. The last argument is `last`.
    #[inline(never)]
    fn call(which: usize, last: c_long) -> c_int {
        // SAFETY: the hooks above take any numbers.
        unsafe {
            match which {
                0 => entry0(),
                1 => entry1(last),
                2 => entry2(1, last),
                3 => entry3(1, 2, last),
                4 => entry4(1, 2, 3, last),
                5 => entry5(1, 2, 3, 4, last),
                6 => entry6(1, 2, 3, 4, 5, last),
                _ => entry7(1, 2, 3, 4, 5, 6, last),
            }
        }
    }

    #[test]
    fn a_hook_gets_its_arguments_and_the_address_behind_the_call() {
        let known = cfg!(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"));
        let begin = call as *const () as usize;
        for which in 0..=7_usize {
            assert_eq!(call(which, which as c_long), which as c_int);
            let (seen, caller) = SEEN.take();
            assert_eq!(seen, (1..=which as c_long).collect::<Seen>());
            let inside = (begin..begin + 4096).contains(&caller.0);
            assert!(if known { inside } else { caller == Caller::UNKNOWN }, "{which}: {caller:?}, {begin}");
        }
    }

    #[test]
    fn a_cancelled_thread_unwinds_through_every_entry() {
        for which in 1..=7 {
            std::panic::catch_unwind(|| call(which, -1)).unwrap_err();
            assert_eq!(SEEN.take().0.len(), which);
        }
    }

    fn time(sec: i64, nsec: i64) -> timespec {
        timespec { tv_sec: sec as _, tv_nsec: nsec as _ }
    }

    #[test]
    fn a_futex_waits_for_a_length_or_until_a_time_of_its_clock() {
        let (wait, bitset) = (c_long::from(libc::FUTEX_WAIT), c_long::from(libc::FUTEX_WAIT_BITSET));
        let realtime = c_long::from(libc::FUTEX_CLOCK_REALTIME);
        assert_eq!(limit_of_futex(wait, std::ptr::null()), Limit::Endless);
        assert_eq!(limit_of_futex(wait, &time(1, 0)), Limit::For(1_000_000_000));
        assert_eq!(limit_of_futex(bitset, &time(1, 0)), Limit::Until(1_000_000_000));
        let Limit::Until(then_ns) = limit_of_futex(bitset | realtime, &time(1, 0)) else { panic!("a time") };
        assert!(then_ns < 0, "1970: {then_ns}");
    }

    #[test]
    fn the_results_say_how_a_wait_ended() {
        assert_eq!([0, libc::ETIMEDOUT, libc::EPERM].map(of_error), [How::Event, How::Expired, How::Failed]);
        let in_c11 = [0, 4, 2].map(|done| result_of_c11(&done, Limit::Endless));
        assert_eq!(in_c11, [How::Event, How::Expired, How::Failed]);
        assert_eq!([0, 4].map(|done: c_int| slept(&done, Limit::For(1))), [How::Expired, How::Failed]);
        assert_eq!([3, 0, -1].map(|done| events(&done, Limit::For(1))), [How::Event, How::Expired, How::Failed]);
        assert_eq!(events(&0, Limit::Look), How::Nothing);
        let woken_by = |error| {
            next::set_errno(error);
            woken(&-1, Limit::Endless)
        };
        let ended = [libc::ETIMEDOUT, libc::EAGAIN, libc::EINTR].map(woken_by);
        assert_eq!((ended, woken(&0, Limit::Endless)), ([How::Expired, How::Event, How::Failed], How::Event));
        next::set_errno(libc::ETIMEDOUT);
        assert_eq!([0, -1].map(|done| posted(&done, Limit::Endless)), [How::Event, How::Expired]);
    }
}
