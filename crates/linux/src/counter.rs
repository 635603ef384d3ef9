//! The CPU's counter: the TSC on x86, CNTVCT_EL0 on 64-bit Arm; and the instructions that wait until it has a value. Programs cannot read
//! one on other architectures.
//!
//! A [`RawCounter`] exists only if the counter can serve as a clock; otherwise [`Unavailable`] has the reason. Its rate is not known here:
//! the caller calibrates it against a clock.
//!
//! A [`UserWait`] spends time in user mode by TPAUSE or UMWAIT (Intel), MWAITX (AMD) or WFET (Arm). Each such wait is one instruction. It
//! may end early: at an interrupt, at a write to the watched memory, or at the kernel's limit. That is 100 000 cycles by default
//! (`/sys/devices/system/cpu/umwait_control/max_time`). The caller loops. [`nop`] and [`keep`] are for empty loops.

use std::sync::atomic::AtomicU64;

/// The reason why the CPU's counter cannot serve as a clock, or why the CPU has no such instruction to wait.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// Access to the counter: proof that it exists and runs at a constant rate.
#[derive(Debug, Clone, Copy)]
pub struct RawCounter(());

impl RawCounter {
    /// Checks with the CPU and the kernel that the counter runs at one rate on all CPUs.
    ///
    /// On x86, the CPU announces an invariant TSC (CPUID 8000_0007H:EDX bit 8), or it is the kernel's clock source. In both cases the
    /// kernel must not have marked it unstable. The error names the failed condition.
    pub fn open() -> Result<Self, Unavailable> {
        arch::availability().map(|()| Self(()))
    }

    /// The counter's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        if cfg!(target_arch = "x86_64") { "TSC" } else { "CNTVCT_EL0" }
    }

    /// Reads the counter. The CPU may do so before earlier instructions complete.
    #[inline]
    #[must_use]
    pub fn ticks(self) -> u64 {
        arch::read()
    }

    /// Reads the counter after all earlier loads complete and before any later instruction starts.
    #[inline]
    #[must_use]
    pub fn ticks_serialised(self) -> u64 {
        arch::read_serialised()
    }
}

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

/// Memory to watch: never written, in its own cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Watched(#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "WFET watches none"))] AtomicU64);

impl UserWait {
    /// Checks that the CPU has `instruction` and that its counter can serve as a clock.
    pub fn open(instruction: Instruction) -> Result<Self, Unavailable> {
        arch::announced(instruction)?;
        Ok(Self { instruction, counter: RawCounter::open()? })
    }

    /// Executes the instruction once, with `deadline` in ticks of the counter. Ends at the deadline or earlier.
    #[inline]
    pub fn until(&self, deadline: u64, watched: &Watched) {
        arch::wait_once(self.instruction, self.counter, deadline, watched);
    }
}

/// The TSC and the waits of x86-64.
#[cfg(target_arch = "x86_64")]
mod arch {
    use super::{Instruction, RawCounter, Unavailable, Watched};

    #[inline]
    pub(super) fn read() -> u64 {
        // SAFETY: a `RawCounter` exists, so RDTSC is allowed in this thread (see `availability`).
        unsafe { std::arch::x86_64::_rdtsc() }
    }

    #[inline]
    pub(super) fn read_serialised() -> u64 {
        // SAFETY: as above; LFENCE belongs to SSE2, which every x86-64 CPU has.
        unsafe {
            std::arch::x86_64::_mm_lfence();
            let ticks = std::arch::x86_64::_rdtsc();
            std::arch::x86_64::_mm_lfence();
            ticks
        }
    }

    pub(super) fn availability() -> Result<(), Unavailable> {
        if rdtsc_forbidden() {
            return Err(Unavailable("RDTSC is forbidden in this thread (prctl PR_SET_TSC)".into()));
        }
        let folder = "/sys/devices/system/clocksource/clocksource0";
        let read = |file: &str| {
            let path = format!("{folder}/{file}");
            std::fs::read_to_string(&path)
                .map(|text| text.trim().to_owned())
                .map_err(|e| Unavailable(format!("the kernel's clock sources are unreadable: {path}: {e}")))
        };
        judge_tsc(invariant_tsc(), &read("current_clocksource")?, &read("available_clocksource")?)
    }

    /// Decides from the CPU's announcement and the kernel's clock source. A kernel that found the TSC unstable uses another clock source and
    /// no longer offers the TSC (kernel/time/clocksource.c, `clocksource_watchdog`).
    pub(super) fn judge_tsc(invariant: bool, current: &str, offered: &str) -> Result<(), Unavailable> {
        if current == "tsc" {
            return Ok(());
        }
        let paravirtual =
            current.starts_with("kvm-clock") || current.starts_with("hyperv") || current.starts_with("xen");
        if !invariant {
            return Err(Unavailable(format!(
                "this CPU does not announce an invariant TSC (CPUID 8000_0007H:EDX bit 8), and the kernel's clock source is {current}"
            )));
        }
        if paravirtual || offered.split_whitespace().any(|name| name == "tsc") {
            return Ok(());
        }
        Err(Unavailable(format!(
            "the kernel marked the TSC unstable: its clock source is {current}, and it offers only: {offered}"
        )))
    }

    fn invariant_tsc() -> bool {
        let highest = cpuid(0x8000_0000, 0)[0];
        highest >= 0x8000_0007 && cpuid(0x8000_0007, 0)[3] & (1 << 8) != 0
    }

    fn rdtsc_forbidden() -> bool {
        let mut mode: libc::c_int = 0;
        // SAFETY: PR_GET_TSC stores an int where the second argument points.
        let returned = unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut mode) };
        returned == 0 && mode == libc::PR_TSC_SIGSEGV
    }

    /// The CPUID instruction: the registers EAX, EBX, ECX, EDX of a leaf and sub-leaf. Leaves above the highest return data of another leaf (Intel) or zeros
    /// (AMD): check leaf 0 or 8000_0000H first.
    #[allow(unused_unsafe, reason = "the intrinsic is safe from Rust 1.92 on")]
    fn cpuid(leaf: u32, sub_leaf: u32) -> [u32; 4] {
        // SAFETY: every x86-64 CPU has CPUID.
        let answer = unsafe { std::arch::x86_64::__cpuid_count(leaf, sub_leaf) };
        [answer.eax, answer.ebx, answer.ecx, answer.edx]
    }

    pub(super) fn announced(instruction: Instruction) -> Result<(), Unavailable> {
        let highest = |base| cpuid(base, 0)[0];
        let (announced, what) = match instruction {
            Instruction::Tpause | Instruction::Umwait => (
                highest(0) >= 7 && cpuid(7, 0)[2] & (1 << 5) != 0,
                "this CPU does not announce WAITPKG (CPUID 7.0:ECX bit 5)",
            ),
            Instruction::Mwaitx => (
                highest(0x8000_0000) >= 0x8000_0001 && cpuid(0x8000_0001, 0)[2] & (1 << 29) != 0,
                "this CPU does not announce MONITORX (CPUID 8000_0001H:ECX bit 29)",
            ),
            Instruction::Wfet => (false, "WFET is an instruction of 64-bit Arm CPUs (FEAT_WFxT)"),
        };
        if announced { Ok(()) } else { Err(Unavailable(what.into())) }
    }

    #[inline]
    pub(super) fn wait_once(instruction: Instruction, counter: RawCounter, deadline: u64, watched: &Watched) {
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
}

/// CNTVCT_EL0 and WFET of 64-bit Arm.
#[cfg(target_arch = "aarch64")]
mod arch {
    use super::{Instruction, RawCounter, Unavailable, Watched};

    #[inline]
    pub(super) fn read() -> u64 {
        let ticks: u64;
        // SAFETY: Linux lets programs read CNTVCT_EL0 on every 64-bit Arm CPU (or emulates it where an erratum forbids).
        unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
        ticks
    }

    #[inline]
    pub(super) fn read_serialised() -> u64 {
        let ticks: u64;
        // SAFETY: as above; ISB only orders.
        unsafe {
            std::arch::asm!("isb", "mrs {}, cntvct_el0", "isb", out(reg) ticks, options(nostack, preserves_flags));
        };
        ticks
    }

    /// Whether the counter can serve as a clock; otherwise the reason.
    #[allow(clippy::unnecessary_wraps)]
    pub(super) fn availability() -> Result<(), Unavailable> {
        // The architecture requires one fixed rate on all CPUs, in idle states too (Arm ARM, "The Generic Timer").
        Ok(())
    }

    pub(super) fn announced(instruction: Instruction) -> Result<(), Unavailable> {
        /// `HWCAP2_WFXT`, arch/arm64/include/uapi/asm/hwcap.h.
        const WFXT: libc::c_ulong = 1 << 31;
        // SAFETY: takes a number.
        let capabilities = unsafe { libc::getauxval(libc::AT_HWCAP2) };
        match instruction {
            Instruction::Wfet if capabilities & WFXT != 0 => Ok(()),
            Instruction::Wfet => Err(Unavailable("this CPU does not announce FEAT_WFxT (HWCAP2 bit 31)".into())),
            _ => Err(Unavailable("this instruction belongs to x86 CPUs".into())),
        }
    }

    #[inline]
    pub(super) fn wait_once(_: Instruction, _: RawCounter, deadline: u64, _: &Watched) {
        // SAFETY: called only through a `UserWait`, so the CPU has FEAT_WFxT. WFET X0 (0xd5031000 | Rd) changes nothing.
        unsafe { std::arch::asm!(".inst 0xd5031000", in("x0") deadline, options(nostack, preserves_flags)) };
    }
}

/// Other architectures have neither: nothing is opened, so nothing is read.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod arch {
    use super::{Instruction, RawCounter, Unavailable, Watched};

    pub(super) fn read() -> u64 {
        unreachable!("no RawCounter can be opened on this architecture")
    }

    pub(super) fn read_serialised() -> u64 {
        read()
    }

    pub(super) fn availability() -> Result<(), Unavailable> {
        Err(Unavailable(format!("programs cannot read a CPU counter on {}", std::env::consts::ARCH)))
    }

    pub(super) fn announced(_: Instruction) -> Result<(), Unavailable> {
        Err(Unavailable(format!("CPUs of {} have no timed wait in user mode", std::env::consts::ARCH)))
    }

    pub(super) fn wait_once(_: Instruction, _: RawCounter, _: u64, _: &Watched) {
        unreachable!("refused by `UserWait::open`")
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_up_where_it_is() {
        let Ok(counter) = RawCounter::open() else {
            punctual_testing::lacks(punctual_testing::Lack::Counter);
            return;
        };
        let mut last = counter.ticks_serialised();
        for _ in 0..10_000 {
            let now = counter.ticks_serialised();
            assert!(now >= last);
            last = now;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(counter.ticks() > last);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_tsc_is_judged_by_cpu_and_kernel() {
        assert!(arch::judge_tsc(true, "tsc", "tsc hpet").is_ok());
        assert!(arch::judge_tsc(false, "tsc", "tsc").is_ok(), "what the kernel keeps time with is good enough");
        assert!(arch::judge_tsc(true, "kvm-clock", "kvm-clock").is_ok());
        assert!(arch::judge_tsc(true, "hpet", "tsc hpet").is_ok(), "chosen by the administrator, not given up");
        assert!(arch::judge_tsc(true, "hpet", "hpet acpi_pm").unwrap_err().0.contains("unstable"));
        assert!(arch::judge_tsc(false, "kvm-clock", "kvm-clock tsc").unwrap_err().0.contains("invariant"));
    }
}
