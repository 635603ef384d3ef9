//! Timer expiries, counted by their signals.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The `siginfo_t` of a timer's signal in the kernel's layout (`asm-generic/siginfo.h`).
#[repr(C)]
struct TimerInfo {
    signo: i32,
    errno: i32,
    code: i32,
    fields: TimerFields,
}

#[repr(C)]
struct TimerFields {
    timer: i32,
    overrun: i32,
    value: libc::sigval,
}

/// The value of the timer, if `info` came from a timer.
///
/// # Safety
/// `info` must be a `siginfo_t` filled by the kernel.
pub(crate) unsafe fn timer_value(info: *const libc::siginfo_t) -> Option<usize> {
    const { assert!(size_of::<TimerInfo>() <= size_of::<libc::siginfo_t>()) };
    // SAFETY: the kernel filled `info`; for SI_TIMER it has the layout of `TimerInfo`, and any bytes are valid for it.
    unsafe {
        if (*info).si_code != libc::SI_TIMER {
            return None;
        }
        Some((*info.cast::<TimerInfo>()).fields.value.sival_ptr as usize)
    }
}

/// Expiries of each timer with a handler. A static table instead of a pointer: a handler may touch atomics only. The signal of a
/// deleted timer must be harmless.
static FIRED: [AtomicU32; 64] = [const { AtomicU32::new(0) }; 64];
static SLOTS: AtomicU64 = AtomicU64::new(0);

/// A slot of the table.
#[derive(Debug)]
pub(crate) struct Slot(usize);

impl Slot {
    /// A free slot; `None` if 64 timers with a handler exist.
    pub(crate) fn claim() -> Option<Self> {
        let mut used = SLOTS.load(Ordering::Relaxed);
        loop {
            let free = used.trailing_ones();
            if free == u64::BITS {
                return None;
            }
            match SLOTS.compare_exchange_weak(used, used | 1 << free, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some(Self(free as usize)),
                Err(now) => used = now,
            }
        }
    }

    pub(crate) fn number(&self) -> usize {
        self.0
    }

    /// Expiries so far, wrapping.
    pub(crate) fn fired(&self) -> u32 {
        FIRED[self.0].load(Ordering::Acquire)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        SLOTS.fetch_and(!(1 << self.0), Ordering::AcqRel);
    }
}

/// Counts a timer's expiry; ignores other signals.
pub(super) extern "C" fn count(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel calls this with a filled siginfo_t (SA_SIGINFO).
    if let Some(slot) = unsafe { timer_value(info) }
        && let Some(fired) = FIRED.get(slot)
    {
        fired.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_run_out_and_come_back() {
        let all: Vec<_> = std::iter::from_fn(Slot::claim).collect();
        assert!(all.len() <= 64 && !all.is_empty());
        assert!(Slot::claim().is_none());
        drop(all);
        assert!(Slot::claim().is_some());
    }
}
