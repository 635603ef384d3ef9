//! The functions that a program finds in place of the C library's. Each adds where it is called from, and goes on to the hook.
//!
//! Rust cannot read its own return address, so each entry is a few instructions. They put it behind the arguments. On other
//! architectures it is unknown.

use std::ffi::c_void;

use libc::{
    c_char, c_int, c_long, c_uint, c_ulong, clockid_t, epoll_event, fd_set, nfds_t, pollfd, pthread_attr_t,
    pthread_cond_t, pthread_mutex_t, pthread_t, sem_t, sigset_t, timespec, timeval, useconds_t,
};

use crate::callers::Caller;
use crate::hooks::{observed, thread};
use crate::next::Start;

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

entries! {
    nanosleep(asked: *const timespec, rest: *mut timespec) -> c_int = observed::nanosleep;
    clock_nanosleep(clock: clockid_t, flags: c_int, asked: *const timespec, rest: *mut timespec) -> c_int = observed::clock_nanosleep;
    usleep(microseconds: useconds_t) -> c_int = observed::usleep;
    sleep(seconds: c_uint) -> c_uint = observed::sleep;
    thrd_sleep(asked: *const timespec, rest: *mut timespec) -> c_int = observed::thrd_sleep;
    sched_yield() -> c_int = observed::sched_yield;
    pthread_yield() -> c_int = observed::sched_yield;
    thrd_yield() -> c_int = observed::sched_yield;
    poll(fds: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int = observed::poll;
    ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int = observed::ppoll;
    select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval) -> c_int = observed::select;
    pselect(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *const timespec, mask: *const sigset_t) -> c_int = observed::pselect;
    epoll_wait(epoll: c_int, events: *mut epoll_event, most: c_int, timeout_ms: c_int) -> c_int = observed::epoll_wait;
    epoll_pwait(epoll: c_int, events: *mut epoll_event, most: c_int, timeout_ms: c_int, mask: *const sigset_t) -> c_int = observed::epoll_pwait;
    epoll_pwait2(epoll: c_int, events: *mut epoll_event, most: c_int, timeout: *const timespec, mask: *const sigset_t) -> c_int = observed::epoll_pwait2;
    sem_timedwait(semaphore: *mut sem_t, limit: *const timespec) -> c_int = observed::sem_timedwait;
    sem_clockwait(semaphore: *mut sem_t, clock: clockid_t, limit: *const timespec) -> c_int = observed::sem_clockwait;
    pthread_mutex_timedlock(mutex: *mut pthread_mutex_t, limit: *const timespec) -> c_int = observed::pthread_mutex_timedlock;
    pthread_mutex_clocklock(mutex: *mut pthread_mutex_t, clock: clockid_t, limit: *const timespec) -> c_int = observed::pthread_mutex_clocklock;
    mtx_timedlock(mutex: *mut c_void, limit: *const timespec) -> c_int = observed::mtx_timedlock;
    pthread_cond_timedwait(condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, limit: *const timespec) -> c_int = observed::pthread_cond_timedwait;
    pthread_cond_clockwait(condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, clock: clockid_t, limit: *const timespec) -> c_int = observed::pthread_cond_clockwait;
    cnd_timedwait(condition: *mut c_void, mutex: *mut c_void, limit: *const timespec) -> c_int = observed::cnd_timedwait;
    pthread_setname_np(thread: pthread_t, name: *const c_char) -> c_int = thread::pthread_setname_np;
    prctl(option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int = thread::prctl;
    pthread_create(thread: *mut pthread_t, attributes: *const pthread_attr_t, start: Start, argument: *mut c_void) -> c_int = thread::pthread_create;
    syscall(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long) -> c_long = observed::syscall;
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
}
