//! The instruction that does nothing.

/// Asks for a value in a register and does nothing with it: an empty loop around this is not optimised away, and is no slower than one.
#[inline(always)]
pub fn keep(value: u64) {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64", target_arch = "loongarch64"))]
    // SAFETY: no instruction at all.
    unsafe {
        std::arch::asm!("/* {0} */", in(reg) value, options(nomem, nostack, preserves_flags));
    }
    #[cfg(not(any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64",
        target_arch = "loongarch64"
    )))]
    std::hint::black_box(value);
}

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
