//! The instruction that does nothing.

/// Executes one `nop` (on CPUs that this project does not know: nothing).
#[inline(always)]
pub fn nop() {
    #[cfg(any(
        target_arch = "x86_64",
        target_arch = "x86",
        target_arch = "aarch64",
        target_arch = "arm",
        target_arch = "riscv64",
        target_arch = "riscv32",
        target_arch = "loongarch64"
    ))]
    // SAFETY: the instruction changes nothing but the instruction pointer.
    unsafe {
        std::arch::asm!("nop", options(nomem, nostack, preserves_flags));
    }
}
