//! The CPU's counter: the TSC on x86, CNTVCT_EL0 on 64-bit Arm. Programs cannot read one on other architectures.
//!
//! A [`RawCounter`] exists only if the counter can serve as a clock; otherwise [`NoCounter`] has the reason. Its rate is not known here:
//! the caller calibrates it against a clock.

/// The reason why the CPU's counter cannot serve as a clock.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoCounter(pub String);

/// Access to the counter: proof that it exists and runs at a constant rate.
#[derive(Debug, Clone, Copy)]
pub struct RawCounter(());

impl RawCounter {
    /// Checks with the CPU and the kernel that the counter runs at one rate on all CPUs.
    ///
    /// On x86, the CPU announces an invariant TSC (CPUID 8000_0007H:EDX bit 8), or it is the kernel's clock source. In both cases the
    /// kernel must not have marked it unstable. The error names the failed condition.
    pub fn open() -> Result<Self, NoCounter> {
        availability().map(|()| Self(()))
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
        read()
    }

    /// Reads the counter after all earlier loads complete and before any later instruction starts.
    #[inline]
    #[must_use]
    pub fn ticks_serialised(self) -> u64 {
        read_serialised()
    }
}

/// Whether the counter can serve as a clock; otherwise the reason.
pub fn availability() -> Result<(), NoCounter> {
    arch_availability()
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn read() -> u64 {
    // SAFETY: a `RawCounter` exists, so RDTSC is allowed in this thread (see `arch_availability`).
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn read_serialised() -> u64 {
    // SAFETY: as above; LFENCE belongs to SSE2, which every x86-64 CPU has.
    unsafe {
        std::arch::x86_64::_mm_lfence();
        let ticks = std::arch::x86_64::_rdtsc();
        std::arch::x86_64::_mm_lfence();
        ticks
    }
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn read() -> u64 {
    let ticks: u64;
    // SAFETY: Linux lets programs read CNTVCT_EL0 on every 64-bit Arm CPU (or emulates it where an erratum forbids).
    unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
    ticks
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn read_serialised() -> u64 {
    let ticks: u64;
    // SAFETY: as above; ISB only orders.
    unsafe {
        std::arch::asm!("isb", "mrs {}, cntvct_el0", "isb", out(reg) ticks, options(nostack, preserves_flags));
    };
    ticks
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn read() -> u64 {
    unreachable!("no RawCounter can be opened on this architecture")
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn read_serialised() -> u64 {
    read()
}

#[cfg(target_arch = "aarch64")]
#[allow(clippy::unnecessary_wraps)]
fn arch_availability() -> Result<(), NoCounter> {
    // The architecture requires one fixed rate on all CPUs, in idle states too (Arm ARM, "The Generic Timer").
    Ok(())
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn arch_availability() -> Result<(), NoCounter> {
    Err(NoCounter(format!("programs cannot read a CPU counter on {}", std::env::consts::ARCH)))
}

#[cfg(target_arch = "x86_64")]
fn arch_availability() -> Result<(), NoCounter> {
    if rdtsc_forbidden() {
        return Err(NoCounter("RDTSC is forbidden in this thread (prctl PR_SET_TSC)".into()));
    }
    let folder = "/sys/devices/system/clocksource/clocksource0";
    let read = |file: &str| {
        let path = format!("{folder}/{file}");
        std::fs::read_to_string(&path)
            .map(|text| text.trim().to_owned())
            .map_err(|e| NoCounter(format!("the kernel's clock sources are unreadable: {path}: {e}")))
    };
    judge_tsc(invariant_tsc(), &read("current_clocksource")?, &read("available_clocksource")?)
}

/// Decides from the CPU's announcement and the kernel's clock source. A kernel that found the TSC unstable uses another clock source and
/// no longer offers the TSC (kernel/time/clocksource.c, `clocksource_watchdog`).
#[cfg(target_arch = "x86_64")]
fn judge_tsc(invariant: bool, current: &str, offered: &str) -> Result<(), NoCounter> {
    if current == "tsc" {
        return Ok(());
    }
    let paravirtual = current.starts_with("kvm-clock") || current.starts_with("hyperv") || current.starts_with("xen");
    if !invariant {
        return Err(NoCounter(format!(
            "this CPU does not announce an invariant TSC (CPUID 8000_0007H:EDX bit 8), and the kernel's clock source is {current}"
        )));
    }
    if paravirtual || offered.split_whitespace().any(|name| name == "tsc") {
        return Ok(());
    }
    Err(NoCounter(format!(
        "the kernel marked the TSC unstable: its clock source is {current}, and it offers only: {offered}"
    )))
}

#[cfg(target_arch = "x86_64")]
fn invariant_tsc() -> bool {
    let highest = cpuid(0x8000_0000, 0)[0];
    highest >= 0x8000_0007 && cpuid(0x8000_0007, 0)[3] & (1 << 8) != 0
}

#[cfg(target_arch = "x86_64")]
fn rdtsc_forbidden() -> bool {
    let mut mode: libc::c_int = 0;
    // SAFETY: PR_GET_TSC stores an int where the second argument points.
    let returned = unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut mode) };
    returned == 0 && mode == libc::PR_TSC_SIGSEGV
}

/// The CPUID instruction: the registers EAX, EBX, ECX, EDX of a leaf and sub-leaf. Leaves above the highest return data of another leaf (Intel) or zeros
/// (AMD): check leaf 0 or 8000_0000H first.
#[allow(unused_unsafe, reason = "the intrinsic is safe from Rust 1.92 on")]
#[cfg(target_arch = "x86_64")]
pub(crate) fn cpuid(leaf: u32, sub_leaf: u32) -> [u32; 4] {
    // SAFETY: every x86-64 CPU has CPUID.
    let answer = unsafe { std::arch::x86_64::__cpuid_count(leaf, sub_leaf) };
    [answer.eax, answer.ebx, answer.ecx, answer.edx]
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
        assert!(judge_tsc(true, "tsc", "tsc hpet").is_ok());
        assert!(judge_tsc(false, "tsc", "tsc").is_ok(), "what the kernel keeps time with is good enough");
        assert!(judge_tsc(true, "kvm-clock", "kvm-clock").is_ok());
        assert!(judge_tsc(true, "hpet", "tsc hpet").is_ok(), "chosen by the administrator, not given up");
        assert!(judge_tsc(true, "hpet", "hpet acpi_pm").unwrap_err().0.contains("unstable"));
        assert!(judge_tsc(false, "kvm-clock", "kvm-clock tsc").unwrap_err().0.contains("invariant"));
    }
}
