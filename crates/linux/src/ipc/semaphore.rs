//! Counters that processes add to and wait for, each in its own shared memory: unnamed POSIX semaphores (`sem_overview(7)`), and monitors,
//! a number guarded by a robust mutex with a condition variable (`pthread_mutexattr_setrobust(3)`, `pthread_cond_wait(3)`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Region;
use crate::futex::{self, Scope};
use crate::{Error, Result, check, check_errno_return};

/// Offsets in the memory of a monitor; the structures have 40 and 48 bytes with glibc on x86-64.
const MUTEX: usize = 0;
const CONDITION: usize = 256;
const VALUE: usize = 512;
const HALT: usize = 516;
const BYTES: usize = 1024;

/// Offset of the signal counters in a condition variable. `__g_signals` is at 40 up to glibc 2.40 and at 32 from 2.41 on
/// (sysdeps/nptl/bits/thread-shared-types.h). In musl, a waiter returns when any word changed.
const SIGNALS: usize = 32;
/// A large count of signals in any unit; the low bits, flags and a lock, are clear.
const SIGNALLED: u32 = 0x7fff_fff0;

/// A counter with a mutex and a condition variable. Clones share the counter.
#[derive(Debug, Clone)]
pub struct Monitor {
    memory: Arc<Region>,
}

impl Monitor {
    /// `pthread_mutex_init(3)` and `pthread_cond_init(3)`, process-shared, with a robust mutex; the counter starts at `value`.
    pub fn new(value: u32) -> Result<Self> {
        let monitor = Self { memory: Arc::new(Region::anonymous(BYTES)?) };
        let mut mutex_attributes = std::mem::MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        let mut condition_attributes = std::mem::MaybeUninit::<libc::pthread_condattr_t>::uninit();
        // SAFETY: attributes are initialised before they are used and destroyed after. Mutex and condition get writable memory of
        // their size and alignment that nobody else knows yet.
        unsafe {
            let attributes = mutex_attributes.as_mut_ptr();
            check_errno_return("pthread_mutexattr_init", libc::pthread_mutexattr_init(attributes))?;
            libc::pthread_mutexattr_setpshared(attributes, libc::PTHREAD_PROCESS_SHARED);
            libc::pthread_mutexattr_setrobust(attributes, libc::PTHREAD_MUTEX_ROBUST);
            let made = libc::pthread_mutex_init(monitor.mutex(), attributes);
            libc::pthread_mutexattr_destroy(attributes);
            check_errno_return("pthread_mutex_init", made)?;
            let attributes = condition_attributes.as_mut_ptr();
            check_errno_return("pthread_condattr_init", libc::pthread_condattr_init(attributes))?;
            libc::pthread_condattr_setpshared(attributes, libc::PTHREAD_PROCESS_SHARED);
            let made = libc::pthread_cond_init(monitor.condition(), attributes);
            libc::pthread_condattr_destroy(attributes);
            check_errno_return("pthread_cond_init", made)?;
        }
        monitor.memory.u32(VALUE).store(value, Ordering::Relaxed);
        Ok(monitor)
    }

    fn mutex(&self) -> *mut libc::pthread_mutex_t {
        self.memory.at(MUTEX, size_of::<libc::pthread_mutex_t>(), align_of::<libc::pthread_mutex_t>()).cast()
    }

    fn condition(&self) -> *mut libc::pthread_cond_t {
        self.memory.at(CONDITION, size_of::<libc::pthread_cond_t>(), align_of::<libc::pthread_cond_t>()).cast()
    }

    /// Locks the mutex. EOWNERDEAD: its holder died; the mutex is made consistent and unlocked, and the call fails.
    #[inline]
    fn lock(&self) -> Result<Locked<'_>> {
        // SAFETY: initialised, and mapped as long as `self`.
        match unsafe { libc::pthread_mutex_lock(self.mutex()) } {
            0 => Ok(Locked(self)),
            libc::EOWNERDEAD => {
                // SAFETY: held by this thread, in the state that this call is for.
                unsafe {
                    libc::pthread_mutex_consistent(self.mutex());
                    libc::pthread_mutex_unlock(self.mutex());
                }
                Err(Error::from_errno("pthread_mutex_lock", libc::EOWNERDEAD))
            }
            error => Err(Error::from_errno("pthread_mutex_lock", error)),
        }
    }

    /// Adds one and wakes one waiter (`pthread_cond_signal(3)` with the mutex held).
    #[inline]
    pub fn add(&self) -> Result<()> {
        let locked = self.lock()?;
        self.memory.u32(VALUE).fetch_add(1, Ordering::Relaxed);
        // SAFETY: initialised, and mapped as long as `self`.
        let returned = unsafe { libc::pthread_cond_signal(self.condition()) };
        drop(locked);
        check_errno_return("pthread_cond_signal", returned)
    }

    /// Waits for one and takes it (`pthread_cond_wait(3)`). EINTR after [`Monitor::halt`].
    #[inline]
    pub fn take(&self) -> Result<()> {
        let locked = self.lock()?;
        let value = self.memory.u32(VALUE);
        while value.load(Ordering::Relaxed) == 0 {
            if self.memory.u32(HALT).load(Ordering::Relaxed) != 0 {
                return Err(Error::from_errno("pthread_cond_wait", libc::EINTR));
            }
            // SAFETY: initialised and mapped as long as `self`; the mutex is held by this thread.
            match unsafe { libc::pthread_cond_wait(self.condition(), self.mutex()) } {
                0 => {}
                // The mutex is held again even so, and `locked` unlocks it.
                libc::EOWNERDEAD => {
                    // SAFETY: held by this thread, in the state that this call is for.
                    unsafe { libc::pthread_mutex_consistent(self.mutex()) };
                    return Err(Error::from_errno("pthread_cond_wait", libc::EOWNERDEAD));
                }
                error => return Err(Error::from_errno("pthread_cond_wait", error)),
            }
        }
        value.fetch_sub(1, Ordering::Relaxed);
        drop(locked);
        Ok(())
    }

    /// Takes one if there is one.
    #[inline]
    pub fn try_take(&self) -> Result<bool> {
        let locked = self.lock()?;
        let value = self.memory.u32(VALUE);
        let taken = value.load(Ordering::Relaxed) != 0;
        if taken {
            value.fetch_sub(1, Ordering::Relaxed);
        }
        drop(locked);
        Ok(taken)
    }

    /// Ends every wait of this process with EINTR. Call it when no other process uses the monitor any longer; it is unusable afterwards.
    ///
    /// A process killed inside `pthread_cond_signal(3)` may leave the condition's inner lock taken. glibc's condition is not robust: the next
    /// user would block. So this sets all its words, the signal counters to a large count, and wakes every sleeper. A wake-up alone does not
    /// suffice: glibc's waiter sleeps again without a signal.
    pub fn halt(&self) {
        self.memory.u32(HALT).store(1, Ordering::SeqCst);
        let words = || (CONDITION..CONDITION + size_of::<libc::pthread_cond_t>()).step_by(4);
        for at in words() {
            self.memory.u32(at).store(if at < CONDITION + SIGNALS { 0 } else { SIGNALLED }, Ordering::SeqCst);
        }
        for at in words() {
            // No sleeper is no error.
            let _ = futex::wake(self.memory.u32(at), u32::MAX, Scope::Shared);
        }
    }
}

/// The locked mutex; unlocked on drop.
struct Locked<'a>(&'a Monitor);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // SAFETY: held by this thread.
        unsafe { libc::pthread_mutex_unlock(self.0.mutex()) };
    }
}

/// A semaphore for this process and its forked children. Clones share the semaphore.
#[derive(Debug, Clone)]
pub struct Semaphore {
    memory: Arc<Region>,
}

impl Semaphore {
    /// `sem_init(3)`, shared between processes.
    pub fn new(value: u32) -> Result<Self> {
        let memory = Arc::new(Region::anonymous(size_of::<libc::sem_t>())?);
        let semaphore = Self { memory };
        // SAFETY: writable memory of the right size, aligned to a page, that nobody else knows yet.
        check("sem_init", unsafe { libc::sem_init(semaphore.raw(), 1, value) })?;
        Ok(semaphore)
    }

    fn raw(&self) -> *mut libc::sem_t {
        self.memory.at(0, size_of::<libc::sem_t>(), 1).cast()
    }

    /// `sem_post(3)`.
    #[inline]
    pub fn post(&self) -> Result<()> {
        // SAFETY: initialised, and mapped as long as `self`.
        check("sem_post", unsafe { libc::sem_post(self.raw()) }).map(drop)
    }

    /// `sem_wait(3)`.
    #[inline]
    pub fn wait(&self) -> Result<()> {
        // SAFETY: initialised, and mapped as long as `self`.
        check("sem_wait", unsafe { libc::sem_wait(self.raw()) }).map(drop)
    }

    /// `sem_trywait(3)`; `false`: it is zero.
    #[inline]
    pub fn try_wait(&self) -> Result<bool> {
        // SAFETY: initialised, and mapped as long as `self`.
        match unsafe { libc::sem_trywait(self.raw()) } {
            0 => Ok(true),
            _ => match Error::last("sem_trywait") {
                e if e.errno() == libc::EAGAIN => Ok(false),
                e => Err(e),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::Child;

    #[test]
    fn counts_between_processes() {
        let (there, back) = (Monitor::new(0).unwrap(), Monitor::new(0).unwrap());
        let (a, b) = (there.clone(), back.clone());
        let mut child = Child::spawn("monitor", move || {
            for _ in 0..1000 {
                a.take().unwrap();
                b.add().unwrap();
            }
        })
        .unwrap();
        for _ in 0..1000 {
            there.add().unwrap();
            back.take().unwrap();
        }
        assert!(!back.try_take().unwrap());
        assert_eq!(child.wait().unwrap(), crate::child::Ended::Exited(0));
    }

    #[test]
    fn a_wait_for_the_dead_ends() {
        let monitor = Monitor::new(0).unwrap();
        let waiting = monitor.clone();
        let waiter = std::thread::spawn(move || waiting.take().unwrap_err().errno());
        while !waiter.is_finished() {
            monitor.halt();
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(waiter.join().unwrap(), libc::EINTR);
    }
}
