//! The functions of the C library behind those of this one, and the time by them: in ns, on CLOCK_MONOTONIC where no other clock is named.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of the C library, looked up once.
///
/// `dlsym(3)` allocates only when it fails, so a lookup inside of an allocator's own start does not recurse.
pub(crate) struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Its address; null where the C library lacks it.
    #[inline]
    pub(crate) fn address(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Relaxed);
        if found.is_null() { self.look_up() } else { found }
    }

    #[cold]
    fn look_up(&self) -> *mut c_void {
        // SAFETY: the name ends with a zero byte. The order of loading is fixed, so every thread finds the same.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        let found = if cfg!(target_arch = "x86_64") && self.name == TWO_VERSIONS { newer(found) } else { found };
        self.found.swap(found, Ordering::Relaxed);
        found
    }
}

/// On x86-64 the C library has two of this function that differ. The older one is for condition variables of LinuxThreads.
const TWO_VERSIONS: &CStr = c"pthread_cond_timedwait";

/// The newer version, if this is the older one. Not every dlsym(3) prefers the newer one. dlvsym(3) alone would pass over a function without
/// a version, such as ThreadSanitizer's.
fn newer(found: *mut c_void) -> *mut c_void {
    // SAFETY: the names end with a zero byte.
    let version = |version: &CStr| unsafe { libc::dlvsym(libc::RTLD_NEXT, TWO_VERSIONS.as_ptr(), version.as_ptr()) };
    if found == version(c"GLIBC_2.2.5") { version(c"GLIBC_2.3.2") } else { found }
}

/// The function that a thread runs.
pub(crate) type Start = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// Declares functions of the C library with their types, and `look_up_all`.
macro_rules! next {
    ($($name:ident ( $($argument:ident : $type:ty),* ) -> $returned:ty;)*) => {
        $(
            /// The C library's.
            #[inline]
            pub(crate) unsafe fn $name($($argument: $type),*) -> $returned {
                let address = lookups::$name.address();
                if address.is_null() {
                    set_errno(libc::ENOSYS);
                    return -1;
                }
                // SAFETY: the C library's function of this name has this type.
                let function: unsafe extern "C-unwind" fn($($type),*) -> $returned = unsafe { std::mem::transmute(address) };
                // SAFETY: the caller keeps the function's contract.
                unsafe { function($($argument),*) }
            }
        )*

        #[allow(non_upper_case_globals, reason = "named after the functions")]
        mod lookups {
            use super::Next;

            $(
                pub(super) static $name: Next = Next::new(
                    match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                        Ok(name) => name,
                        Err(_) => panic!("a name without a zero byte"),
                    },
                );
            )*

            pub(super) static ALL: &[&Next] = &[$(&$name),*];
        }
    };
}

next! {
    nanosleep(asked: *const libc::timespec, rest: *mut libc::timespec) -> libc::c_int;
    clock_nanosleep(clock: libc::clockid_t, flags: libc::c_int, asked: *const libc::timespec, rest: *mut libc::timespec) -> libc::c_int;
    usleep(microseconds: libc::useconds_t) -> libc::c_int;
    thrd_sleep(asked: *const libc::timespec, rest: *mut libc::timespec) -> libc::c_int;
    sched_yield() -> libc::c_int;
    poll(fds: *mut libc::pollfd, count: libc::nfds_t, timeout_ms: libc::c_int) -> libc::c_int;
    ppoll(fds: *mut libc::pollfd, count: libc::nfds_t, timeout: *const libc::timespec, mask: *const libc::sigset_t) -> libc::c_int;
    select(count: libc::c_int, read: *mut libc::fd_set, write: *mut libc::fd_set, except: *mut libc::fd_set, timeout: *mut libc::timeval) -> libc::c_int;
    pselect(count: libc::c_int, read: *mut libc::fd_set, write: *mut libc::fd_set, except: *mut libc::fd_set, timeout: *const libc::timespec, mask: *const libc::sigset_t) -> libc::c_int;
    epoll_wait(epoll: libc::c_int, events: *mut libc::epoll_event, most: libc::c_int, timeout_ms: libc::c_int) -> libc::c_int;
    epoll_pwait(epoll: libc::c_int, events: *mut libc::epoll_event, most: libc::c_int, timeout_ms: libc::c_int, mask: *const libc::sigset_t) -> libc::c_int;
    epoll_pwait2(epoll: libc::c_int, events: *mut libc::epoll_event, most: libc::c_int, timeout: *const libc::timespec, mask: *const libc::sigset_t) -> libc::c_int;
    sem_trywait(semaphore: *mut libc::sem_t) -> libc::c_int;
    sem_timedwait(semaphore: *mut libc::sem_t, limit: *const libc::timespec) -> libc::c_int;
    sem_clockwait(semaphore: *mut libc::sem_t, clock: libc::clockid_t, limit: *const libc::timespec) -> libc::c_int;
    pthread_mutex_timedlock(mutex: *mut libc::pthread_mutex_t, limit: *const libc::timespec) -> libc::c_int;
    pthread_mutex_clocklock(mutex: *mut libc::pthread_mutex_t, clock: libc::clockid_t, limit: *const libc::timespec) -> libc::c_int;
    mtx_timedlock(mutex: *mut c_void, limit: *const libc::timespec) -> libc::c_int;
    pthread_cond_timedwait(condition: *mut libc::pthread_cond_t, mutex: *mut libc::pthread_mutex_t, limit: *const libc::timespec) -> libc::c_int;
    pthread_cond_clockwait(condition: *mut libc::pthread_cond_t, mutex: *mut libc::pthread_mutex_t, clock: libc::clockid_t, limit: *const libc::timespec) -> libc::c_int;
    cnd_timedwait(condition: *mut c_void, mutex: *mut c_void, limit: *const libc::timespec) -> libc::c_int;
    pthread_testcancel() -> libc::c_int;
    pthread_setcancelstate(state: libc::c_int, before: *mut libc::c_int) -> libc::c_int;
    pthread_setcanceltype(kind: libc::c_int, before: *mut libc::c_int) -> libc::c_int;
    prctl(option: libc::c_int, a: libc::c_ulong, b: libc::c_ulong, c: libc::c_ulong, d: libc::c_ulong) -> libc::c_int;
    pthread_setname_np(thread: libc::pthread_t, name: *const libc::c_char) -> libc::c_int;
    pthread_create(thread: *mut libc::pthread_t, attributes: *const libc::pthread_attr_t, start: Start, argument: *mut c_void) -> libc::c_int;
    syscall(number: libc::c_long, a: libc::c_long, b: libc::c_long, c: libc::c_long, d: libc::c_long, e: libc::c_long, f: libc::c_long) -> libc::c_long;
}

/// Finds all functions, before a signal handler or another thread can need them.
pub(crate) fn look_up_all() {
    for next in lookups::ALL {
        next.address();
    }
}

/// Whether the C library has this function.
pub(crate) fn has_epoll_pwait2() -> bool {
    !lookups::epoll_pwait2.address().is_null()
}

pub(crate) fn errno() -> libc::c_int {
    // SAFETY: the C library gives each thread its own, always valid.
    unsafe { *libc::__errno_location() }
}

pub(crate) fn set_errno(errno: libc::c_int) {
    // SAFETY: the same.
    unsafe { *libc::__errno_location() = errno };
}

/// -1, with this error number: what most functions return.
pub(crate) fn failed<T: From<i8>>(errno: libc::c_int) -> T {
    set_errno(errno);
    T::from(-1)
}

/// The name of the calling thread (PR_GET_NAME in prctl(2)): that of the program, in the thread that runs `main`.
pub(crate) fn thread_name(room: &mut [u8; 16]) -> &[u8] {
    // SAFETY: writes at most 16 bytes.
    unsafe { prctl(libc::PR_GET_NAME, room.as_mut_ptr() as _, 0, 0, 0) };
    let length = room.iter().position(|byte| *byte == 0).unwrap_or(room.len());
    &room[..length]
}

/// Ends the thread if it was cancelled (pthreads(7)). For waits that make no call which does.
pub(crate) fn end_if_cancelled() {
    // SAFETY: takes nothing.
    unsafe { pthread_testcancel() };
}

/// The largest time that a wait may reach: beyond it, arithmetic would wrap.
const FURTHEST_NS: i64 = i64::MAX / 2;

pub(crate) fn now_ns() -> i64 {
    now_of(libc::CLOCK_MONOTONIC)
}

/// The time on this clock.
#[inline]
pub(crate) fn now_of(clock: libc::clockid_t) -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec; the vDSO does it without a system call.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now.tv_sec as i64 * 1_000_000_000 + now.tv_nsec as i64
}

/// The length of a valid timespec, at most some 146 years.
pub(crate) fn length_ns(time: &libc::timespec) -> Option<i64> {
    if time.tv_sec < 0 || !(0..1_000_000_000).contains(&time.tv_nsec) {
        return None;
    }
    Some((time.tv_sec as i64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as i64).min(FURTHEST_NS))
}

/// A time as a timespec; zero at least.
pub(crate) fn timespec(ns: i64) -> libc::timespec {
    let ns = ns.max(0);
    libc::timespec { tv_sec: (ns / 1_000_000_000) as libc::time_t, tv_nsec: (ns % 1_000_000_000) as _ }
}

/// The clock itself: its last reading ends a wait, so a wait is never early.
pub(crate) fn spin_until(deadline_ns: i64) {
    while now_ns() < deadline_ns {
        std::hint::spin_loop();
    }
}

/// An open file, by system calls: the C library's functions are cancellation points (pthreads(7)).
pub(crate) struct File(pub(crate) libc::c_int);

impl File {
    pub(crate) fn open(path: &CStr) -> Option<Self> {
        let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK;
        // SAFETY: the path ends with a zero byte.
        let file =
            unsafe { syscall(libc::SYS_openat, libc::AT_FDCWD.into(), path.as_ptr() as _, flags.into(), 0, 0, 0) };
        (file >= 0).then_some(Self(file as _))
    }

    pub(crate) fn read(&self, into: &mut [u8]) -> Option<usize> {
        loop {
            // SAFETY: writes into the slice.
            let read =
                unsafe { syscall(libc::SYS_read, self.0.into(), into.as_mut_ptr() as _, into.len() as _, 0, 0, 0) };
            if read >= 0 {
                return Some(read as usize);
            }
            if errno() != libc::EINTR {
                return None;
            }
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: this value owns the descriptor.
        unsafe { syscall(libc::SYS_close, self.0.into(), 0, 0, 0, 0, 0) };
    }
}

/// The value of an environment variable. For the start of the program: no other thread exists yet that could change the environment.
pub(crate) fn variable(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: the name ends with a zero byte, and getenv(3) returns null or a string that does.
    unsafe { libc::getenv(name.as_ptr()).as_ref().map(|value| CStr::from_ptr(value)) }
}

/// Maps anonymous memory, zeroed, where the kernel has room. An allocator may hold its lock where this library may not wait for it.
pub(crate) fn map(bytes: usize) -> Option<*mut c_void> {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, where the kernel has room.
    let begin = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    (begin != libc::MAP_FAILED).then_some(begin)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other C libraries have one version.
    #[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
    #[test]
    fn the_newer_of_two_versions_is_found() {
        let find = |version: &CStr| {
            // SAFETY: the names end with a zero byte.
            unsafe { libc::dlvsym(libc::RTLD_NEXT, TWO_VERSIONS.as_ptr(), version.as_ptr()) }
        };
        let (old, new) = (find(c"GLIBC_2.2.5"), find(c"GLIBC_2.3.2"));
        assert!(!old.is_null() && !new.is_null());
        assert_eq!((newer(old), newer(new), lookups::pthread_cond_timedwait.address()), (new, new, new));
    }

    proptest::proptest! {
        #[test]
        fn a_length_goes_both_ways(sec in 0..1_000_000_000_i64, nsec in 0..1_000_000_000_i64) {
            let time = libc::timespec { tv_sec: sec as _, tv_nsec: nsec as _ };
            let back = timespec(length_ns(&time).unwrap());
            proptest::prop_assert_eq!((back.tv_sec, back.tv_nsec), (time.tv_sec, time.tv_nsec));
        }
    }

    #[test]
    fn invalid_lengths_are_left_to_the_kernel() {
        for (tv_sec, tv_nsec) in [(-1, 0), (0, -1), (0, 1_000_000_000)] {
            assert_eq!(length_ns(&libc::timespec { tv_sec, tv_nsec }), None);
        }
        assert_eq!(length_ns(&libc::timespec { tv_sec: libc::time_t::MAX, tv_nsec: 0 }), Some(FURTHEST_NS));
        assert_eq!(timespec(-5).tv_nsec, 0);
    }
}
