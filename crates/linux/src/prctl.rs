//! Timer slack of the calling thread: `prctl(PR_SET_TIMERSLACK)`, `prctl(PR_GET_TIMERSLACK)`.
//!
//! A raw system call: the C library's `prctl` returns an `int`, too small for a slack above 2.1 s.

use crate::{Error, Result};

/// `prctl(PR_GET_TIMERSLACK)`: timer slack of the calling thread in ns. 0 under a real-time policy since Linux 6.13.
pub fn timer_slack_ns() -> Result<u64> {
    const UNUSED: libc::c_ulong = 0;
    // SAFETY: takes numbers and returns a number.
    let returned = unsafe { libc::syscall(libc::SYS_prctl, libc::PR_GET_TIMERSLACK, UNUSED, UNUSED, UNUSED, UNUSED) };
    // The result is unsigned: only -1, which the C library makes from an error, is a failure. No slack is that long on a 64-bit
    // kernel; on a 32-bit one, it is the longest.
    if returned == -1 && cfg!(target_pointer_width = "64") {
        return Err(Error::last("prctl(PR_GET_TIMERSLACK)"));
    }
    Ok(returned as libc::c_ulong as u64)
}

/// `prctl(PR_SET_TIMERSLACK)`: sets the timer slack of the calling thread, in ns.
///
/// 0 would select the thread's default, so it becomes 1, the smallest slack. ERANGE: the value does not fit the kernel's
/// `unsigned long`. Silently ignored under a real-time policy since Linux 6.13.
pub fn set_timer_slack_ns(slack_ns: u64) -> Result<()> {
    const CALL: &str = "prctl(PR_SET_TIMERSLACK)";
    // The kernel compares it as a signed long and treats values below 1 as 0 (kernel/sys.c).
    let Ok(slack) = libc::c_long::try_from(slack_ns.max(1)) else {
        return Err(Error::from_errno(CALL, libc::ERANGE).on(format!("{slack_ns} ns")));
    };
    const UNUSED: libc::c_ulong = 0;
    // SAFETY: takes numbers and returns a number.
    let returned = unsafe { libc::syscall(libc::SYS_prctl, libc::PR_SET_TIMERSLACK, slack, UNUSED, UNUSED, UNUSED) };
    if returned == -1 { Err(Error::last(CALL).on(format!("{slack_ns} ns"))) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slack_reads_back_also_above_an_int() {
        std::thread::spawn(|| {
            for slack in [1, 1234, 1_000_000_000, 2_147_483_647] {
                set_timer_slack_ns(slack).unwrap();
                assert_eq!(timer_slack_ns().unwrap(), slack);
            }
            #[cfg(target_pointer_width = "64")]
            for slack in [2_147_483_648, 5_000_000_000] {
                set_timer_slack_ns(slack).unwrap();
                assert_eq!(timer_slack_ns().unwrap(), slack);
            }
            set_timer_slack_ns(0).unwrap();
            assert_eq!(timer_slack_ns().unwrap(), 1);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn too_long_a_slack_is_refused() {
        assert_eq!(set_timer_slack_ns(u64::MAX).unwrap_err().errno(), libc::ERANGE);
    }
}
