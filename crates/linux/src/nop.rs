//! The instruction `nop`.

/// Requires a value in a register, without any instruction: keeps an empty loop from being optimised away.
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

/// Executes one `nop`; nothing on unknown architectures.
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
