//! Instructions that spend time in user mode: `nop`, and those that wait until a value of the CPU's counter. The latter are TPAUSE and
//! UMWAIT (Intel), MWAITX (AMD), and WFET (Arm).
//!
//! Each such wait is one instruction. It may end early: at an interrupt, at a write to the watched memory, or at the kernel's limit. That
//! is 100 000 cycles by default (`/sys/devices/system/cpu/umwait_control/max_time`). The caller loops.

use std::sync::atomic::AtomicU64;

use crate::counter::RawCounter;

/// An instruction that waits in user mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instruction {
    /// TPAUSE: pauses until a time (Intel SDM; WAITPKG).
    Tpause,
    /// UMONITOR and UMWAIT: watches memory until a time (Intel SDM; WAITPKG).
    Umwait,
    /// MONITORX and MWAITX: watches memory for a time (AMD APM; MONITORX).
    Mwaitx,
    /// WFET: waits for an event until a time (Arm ARM; FEAT_WFxT).
    Wfet,
}

/// Proof that this CPU has the instruction.
#[derive(Debug, Clone, Copy)]
pub struct UserWait {
    instruction: Instruction,
    counter: RawCounter,
}

/// The reason why the instruction is unavailable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoUserWait(pub String);

/// Memory to watch: never written, in its own cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Watched(#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "WFET watches none"))] AtomicU64);

impl UserWait {
    /// Checks that the CPU has `instruction` and that its counter can serve as a clock.
    pub fn open(instruction: Instruction) -> Result<Self, NoUserWait> {
        announced(instruction)?;
        let counter = RawCounter::open().map_err(|e| NoUserWait(e.to_string()))?;
        Ok(Self { instruction, counter })
    }

    /// Executes the instruction once, with `deadline` in ticks of the counter. Ends at the deadline or earlier.
    #[inline]
    pub fn until(&self, deadline: u64, watched: &Watched) {
        wait_once(self.instruction, self.counter, deadline, watched);
    }
}

#[cfg(target_arch = "x86_64")]
fn announced(instruction: Instruction) -> Result<(), NoUserWait> {
    let highest = |base| crate::counter::cpuid(base, 0)[0];
    let (announced, what) = match instruction {
        Instruction::Tpause | Instruction::Umwait => (
            highest(0) >= 7 && crate::counter::cpuid(7, 0)[2] & (1 << 5) != 0,
            "this CPU does not announce WAITPKG (CPUID 7.0:ECX bit 5)",
        ),
        Instruction::Mwaitx => (
            highest(0x8000_0000) >= 0x8000_0001 && crate::counter::cpuid(0x8000_0001, 0)[2] & (1 << 29) != 0,
            "this CPU does not announce MONITORX (CPUID 8000_0001H:ECX bit 29)",
        ),
        Instruction::Wfet => (false, "WFET is an instruction of 64-bit Arm CPUs (FEAT_WFxT)"),
    };
    if announced { Ok(()) } else { Err(NoUserWait(what.into())) }
}

#[cfg(target_arch = "aarch64")]
fn announced(instruction: Instruction) -> Result<(), NoUserWait> {
    /// `HWCAP2_WFXT`, arch/arm64/include/uapi/asm/hwcap.h.
    const WFXT: libc::c_ulong = 1 << 31;
    // SAFETY: takes a number.
    let capabilities = unsafe { libc::getauxval(libc::AT_HWCAP2) };
    match instruction {
        Instruction::Wfet if capabilities & WFXT != 0 => Ok(()),
        Instruction::Wfet => Err(NoUserWait("this CPU does not announce FEAT_WFxT (HWCAP2 bit 31)".into())),
        _ => Err(NoUserWait("this instruction belongs to x86 CPUs".into())),
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn announced(_: Instruction) -> Result<(), NoUserWait> {
    Err(NoUserWait(format!("CPUs of {} have no timed wait in user mode", std::env::consts::ARCH)))
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn wait_once(instruction: Instruction, counter: RawCounter, deadline: u64, watched: &Watched) {
    match instruction {
        Instruction::Tpause => tpause(deadline),
        Instruction::Umwait => umwait(deadline, watched),
        Instruction::Mwaitx => {
            let remaining = deadline.saturating_sub(counter.ticks()).min(u32::MAX.into());
            if remaining > 0 {
                mwaitx(remaining as u32, watched);
            }
        }
        Instruction::Wfet => unreachable!("refused by `UserWait::open`"),
    }
}

/// The instructions are given as bytes, since assemblers need a flag for them.
#[cfg(target_arch = "x86_64")]
#[inline]
fn tpause(deadline: u64) {
    // SAFETY: called only through a `UserWait`, so the CPU has WAITPKG. TPAUSE ECX changes no memory and no register but
    // the flags. ECX = 0 asks for C0.2, the deeper state.
    unsafe {
        std::arch::asm!(
            ".byte 0x66, 0x0f, 0xae, 0xf1",
            in("ecx") 0_u32,
            in("eax") deadline as u32,
            in("edx") (deadline >> 32) as u32,
            options(nostack),
        );
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn umwait(deadline: u64, watched: &Watched) {
    let line = std::ptr::from_ref(&watched.0);
    // SAFETY: as for `tpause`; UMONITOR RAX watches memory that is valid for the call and reads it only.
    unsafe {
        std::arch::asm!(
            ".byte 0xf3, 0x0f, 0xae, 0xf0",
            "mov eax, {low:e}",
            ".byte 0xf2, 0x0f, 0xae, 0xf1",
            low = in(reg) deadline as u32,
            inout("rax") line => _,
            in("ecx") 0_u32,
            in("edx") (deadline >> 32) as u32,
            options(nostack),
        );
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn mwaitx(ticks: u32, watched: &Watched) {
    let line = std::ptr::from_ref(&watched.0);
    // SAFETY: called only through a `UserWait`, so the CPU has MONITORX. MONITORX RAX (ECX, EDX: 0) watches memory that is
    // valid for the call. MWAITX takes its hints in EAX and ECX, and the time in EBX. EAX is 0xf0: stay in C0, as the kernel's
    // own delay does. ECX has bit 1: with a timer. The compiler reserves EBX, which is therefore saved around it.
    unsafe {
        std::arch::asm!(
            ".byte 0x0f, 0x01, 0xfa",
            "mov {saved:r}, rbx",
            "mov ebx, {ticks:e}",
            "mov eax, 0xf0",
            "mov ecx, 2",
            ".byte 0x0f, 0x01, 0xfb",
            "mov rbx, {saved:r}",
            saved = out(reg) _,
            ticks = in(reg) ticks,
            inout("rax") line => _,
            inout("ecx") 0_u32 => _,
            in("edx") 0_u32,
            options(nostack),
        );
    }
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn wait_once(_: Instruction, _: RawCounter, deadline: u64, _: &Watched) {
    // SAFETY: called only through a `UserWait`, so the CPU has FEAT_WFxT. WFET X0 (0xd5031000 | Rd) changes nothing.
    unsafe { std::arch::asm!(".inst 0xd5031000", in("x0") deadline, options(nostack, preserves_flags)) };
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn wait_once(_: Instruction, _: RawCounter, _: u64, _: &Watched) {
    unreachable!("refused by `UserWait::open`")
}

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
