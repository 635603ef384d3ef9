//! The CPU's own counter: the TSC on x86, CNTVCT_EL0 on 64-bit Arm. Other architectures have none that programs may read.
//!
//! A [`RawCounter`] exists only where the counter may serve as a clock; otherwise [`NoCounter`] tells why not. What a
//! tick is worth is not known here: that is calibrated against a clock by whoever needs it.

/// Why the CPU's counter cannot serve as a clock here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoCounter(pub String);

/// The right to read the counter: proof that it is there and steady.
#[derive(Debug, Clone, Copy)]
pub struct RawCounter(());

impl RawCounter {
    /// Asks the CPU and the kernel whether the counter runs at one rate on all CPUs.
    ///
    /// On x86 the CPU must announce an invariant TSC (CPUID 8000_0007H:EDX bit 8) or the kernel must itself keep time
    /// with it, and the kernel must not have given it up as unstable. Errors say which of these failed.
    pub fn open() -> Result<Self, NoCounter> {
        availability().map(|()| Self(()))
    }

    /// What it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        if cfg!(target_arch = "x86_64") { "TSC" } else { "CNTVCT_EL0" }
    }

    /// Ticks now. The CPU may read it somewhat before earlier instructions are done.
    #[inline]
    #[must_use]
    pub fn ticks(self) -> u64 {
        read()
    }

    /// Ticks now, read after all earlier loads are done and before any later instruction starts.
    #[inline]
    #[must_use]
    pub fn ticks_serialised(self) -> u64 {
        read_serialised()
    }
}

/// Whether the counter may serve as a clock here, and if not, why.
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
    // The architecture demands one fixed rate on all CPUs, also in idle states (Arm ARM, "The Generic Timer").
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
            .map_err(|e| NoCounter(format!("nothing says that the kernel trusts the TSC: {path}: {e}")))
    };
    judge_tsc(invariant_tsc(), &read("current_clocksource")?, &read("available_clocksource")?)
}

/// Decides from what the CPU announces and the kernel uses. Where the kernel found the TSC unstable it keeps time with something
/// else and no longer offers it (kernel/time/clocksource.c, `clocksource_watchdog`).
#[cfg(target_arch = "x86_64")]
fn judge_tsc(invariant: bool, current: &str, offered: &str) -> Result<(), NoCounter> {
    if current == "tsc" {
        return Ok(());
    }
    let paravirtual = current.starts_with("kvm-clock") || current.starts_with("hyperv") || current.starts_with("xen");
    if !invariant {
        return Err(NoCounter(format!(
            "this CPU does not announce an invariant TSC (CPUID 8000_0007H:EDX bit 8) and the kernel keeps time with {current}"
        )));
    }
    if paravirtual || offered.split_whitespace().any(|name| name == "tsc") {
        return Ok(());
    }
    Err(NoCounter(format!(
        "the kernel gave up the TSC as unstable: it keeps time with {current} and offers only: {offered}"
    )))
}

#[cfg(target_arch = "x86_64")]
fn invariant_tsc() -> bool {
    let highest = crate::cpuid::leaf(0x8000_0000, 0)[0];
    highest >= 0x8000_0007 && crate::cpuid::leaf(0x8000_0007, 0)[3] & (1 << 8) != 0
}

#[cfg(target_arch = "x86_64")]
fn rdtsc_forbidden() -> bool {
    let mut mode: libc::c_int = 0;
    // SAFETY: PR_GET_TSC stores an int where the second argument points.
    let returned = unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut mode) };
    returned == 0 && mode == libc::PR_TSC_SIGSEGV
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_up_where_it_is() {
        let Ok(counter) = RawCounter::open() else {
            punctual_testing::lacks(&availability().unwrap_err().to_string());
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
