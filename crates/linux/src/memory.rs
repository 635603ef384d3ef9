//! Locks the process in memory and pre-faults the stack: `mlockall(2)`, `munlockall(2)`.
//!
//! A lock belongs to the whole process. The caller counts its users.

use crate::{Result, check};

/// Bytes of stack that [`prefault_stack`] touches: 128 KiB, more than measuring and pacing loops use. The default stack of a Rust thread
/// is 2 MiB.
pub const PREFAULTED_STACK_BYTES: usize = 128 * 1024;

const PAGE: usize = 4096;

/// `mlockall(MCL_CURRENT | MCL_FUTURE)`: keeps every page of the process, present and future, in memory.
pub fn lock_all() -> Result<()> {
    // SAFETY: takes flags; changes residency of pages, never their contents.
    check("mlockall(MCL_CURRENT | MCL_FUTURE)", unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) })?;
    Ok(())
}

/// `munlockall(2)`: unlocks every page of the process, including pages locked by other code.
pub fn unlock_all() -> Result<()> {
    // SAFETY: takes nothing; changes residency of pages, never their contents.
    check("munlockall", unsafe { libc::munlockall() })?;
    Ok(())
}

/// Writes to each page of the next [`PREFAULTED_STACK_BYTES`] of the calling thread's stack. Later use then causes no page fault. The
/// thread must have that much stack left.
#[inline(never)]
pub fn prefault_stack() {
    let mut stack = [0_u8; PREFAULTED_STACK_BYTES];
    for offset in (0..PREFAULTED_STACK_BYTES).step_by(PAGE) {
        // SAFETY: `offset` is inside the array, which is writable and lives until the function returns. The write is
        // volatile, so that the compiler does not leave it out: nothing reads it.
        unsafe { stack.as_mut_ptr().add(offset).write_volatile(1) };
    }
    std::hint::black_box(&stack);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After a fork by another test, the next write to each page is a fault. So this test runs in a process of its
    /// own.
    #[test]
    fn prefaulted_stack_does_not_fault_again() {
        if !punctual_testing::in_a_process_of_its_own("memory::tests::prefaulted_stack_does_not_fault_again") {
            return;
        }
        std::thread::spawn(|| {
            prefault_stack();
            let before = crate::usage::thread_usage().unwrap();
            prefault_stack();
            let after = crate::usage::thread_usage().unwrap();
            assert_eq!(after.minor_faults, before.minor_faults);
        })
        .join()
        .unwrap();
    }
}
