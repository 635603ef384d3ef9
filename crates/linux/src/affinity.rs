//! The CPUs that a thread may run on: `sched_setaffinity(2)`, `sched_getaffinity(2)`.
//!
//! CPUs are lists of numbers. The masks grow with the machine, beyond the 1024 CPUs of the C library's `cpu_set_t`.

use crate::{Error, Result};

const BITS: usize = libc::c_ulong::BITS as usize;
/// Most CPUs of a mask; the kernel's largest `CONFIG_NR_CPUS` is 8192 (arch/x86/Kconfig).
pub const MOST_CPUS: usize = 65_536;

/// `sched_getaffinity(2)`: the CPUs that thread `tid` (0: the calling thread) may run on, ascending.
///
/// The kernel leaves out CPUs that are offline.
pub fn affinity(tid: i32) -> Result<Vec<usize>> {
    let mut words = 1024 / BITS;
    loop {
        let mut mask: Vec<libc::c_ulong> = vec![0; words];
        let bytes = words * size_of::<libc::c_ulong>();
        // SAFETY: the mask has `bytes` writable bytes, and the kernel writes at most that many.
        let returned = unsafe { libc::syscall(libc::SYS_sched_getaffinity, tid, bytes, mask.as_mut_ptr()) };
        if returned >= 0 {
            return Ok(numbers(&mask));
        }
        let error = Error::last("sched_getaffinity");
        // EINVAL: the mask is shorter than the kernel's.
        if error.errno() != libc::EINVAL || words * BITS >= MOST_CPUS {
            return Err(error);
        }
        words *= 2;
    }
}

/// `sched_setaffinity(2)`: lets thread `tid` (0: the calling thread) run on `cpus` only.
///
/// The kernel silently drops CPUs that are offline or outside the cpuset: read the result back with [`affinity`]. EINVAL: no CPU is
/// left, or a number is [`MOST_CPUS`] or more.
pub fn set_affinity(tid: i32, cpus: &[usize]) -> Result<()> {
    let last = cpus.iter().copied().max().unwrap_or(0);
    if last >= MOST_CPUS {
        return Err(Error::from_errno("sched_setaffinity", libc::EINVAL).on(format!("CPU {last}")));
    }
    let mut mask: Vec<libc::c_ulong> = vec![0; last / BITS + 1];
    for cpu in cpus {
        mask[cpu / BITS] |= 1 << (cpu % BITS);
    }
    let bytes = mask.len() * size_of::<libc::c_ulong>();
    // SAFETY: the mask has `bytes` readable bytes, and the kernel only reads it.
    let returned = unsafe { libc::syscall(libc::SYS_sched_setaffinity, tid, bytes, mask.as_ptr()) };
    if returned == -1 { Err(Error::last("sched_setaffinity")) } else { Ok(()) }
}

fn numbers(mask: &[libc::c_ulong]) -> Vec<usize> {
    (0..mask.len() * BITS).filter(|cpu| mask[cpu / BITS] >> (cpu % BITS) & 1 == 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cpu_and_back() {
        std::thread::spawn(|| {
            let before = affinity(0).unwrap();
            assert!(!before.is_empty());
            set_affinity(0, &before[..1]).unwrap();
            assert_eq!(affinity(0).unwrap(), before[..1]);
            set_affinity(0, &before).unwrap();
            assert_eq!(affinity(0).unwrap(), before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn cpus_that_cannot_exist_are_refused() {
        assert_eq!(set_affinity(0, &[]).unwrap_err().errno(), libc::EINVAL);
        assert_eq!(set_affinity(0, &[MOST_CPUS - 1]).unwrap_err().errno(), libc::EINVAL);
        assert_eq!(set_affinity(0, &[usize::MAX]).unwrap_err().errno(), libc::EINVAL);
    }
}
