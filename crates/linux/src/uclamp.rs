//! Utilization clamps of one thread: `sched_setattr(2)` with SCHED_FLAG_UTIL_CLAMP_MIN (Linux 5.3, CONFIG_UCLAMP_TASK).
//!
//! The scheduler takes the thread for at least as busy as the lower clamp. The governor `schedutil` chooses the frequency accordingly. A
//! single thread can thus request speed while it runs. It needs no privilege up to the administrator's limit.

use crate::sched::Attributes;
use crate::{Result, check};

/// The clamp for full speed (`SCHED_CAPACITY_SCALE`).
pub const FULL: u32 = 1024;

/// `SCHED_FLAG_KEEP_POLICY | SCHED_FLAG_KEEP_PARAMS`: change nothing else.
const KEEP_ALL: u64 = 0x08 | 0x10;
/// `SCHED_FLAG_UTIL_CLAMP_MIN`.
const CLAMP_MIN: u64 = 0x20;

/// The kernel's `struct sched_attr` with utilisation clamps (`SCHED_ATTR_SIZE_VER1`, 56 bytes).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Clamped {
    attributes: Attributes,
    min: u32,
    max: u32,
}

const SIZE: u32 = 56;
const _: () = assert!(size_of::<Clamped>() == SIZE as usize);

/// `sched_getattr(2)`: the lower clamp of thread `tid` (0: the calling one), 0 to [`FULL`]. 0 on a kernel without clamps.
pub fn minimum(tid: i32) -> Result<u32> {
    let mut now = Clamped::default();
    // SAFETY: the pointer is valid for SIZE writable bytes, and the kernel writes at most SIZE.
    let returned = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut now, SIZE, 0_u32) };
    check("sched_getattr", returned as i32)?;
    Ok(now.min)
}

/// `sched_setattr(2)`: sets the lower clamp of thread `tid` (0: the calling one), 0 to [`FULL`].
///
/// EOPNOTSUPP: the kernel was built without CONFIG_UCLAMP_TASK. E2BIG: it is older than 5.3. EPERM: the clamp exceeds
/// `/proc/sys/kernel/sched_util_clamp_min` or needs CAP_SYS_NICE.
pub fn set_minimum(tid: i32, clamp: u32) -> Result<()> {
    let mut wanted = request(clamp);
    // SAFETY: the pointer is valid for `size` bytes. The kernel reads them, and on E2BIG writes the size it knows into `size`,
    // hence mut.
    let returned = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw mut wanted, 0_u32) };
    check("sched_setattr(UTIL_CLAMP_MIN)", returned as i32).map(drop)
}

/// A request that changes only the lower clamp.
fn request(min: u32) -> Clamped {
    let attributes = Attributes { size: SIZE, flags: KEEP_ALL | CLAMP_MIN, ..Attributes::default() };
    Clamped { attributes, min, max: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_kernels_structure() {
        let wanted = request(0x0102_0304);
        // SAFETY: the structure has no padding: its size is the sum of its fields', and every byte is initialised.
        let bytes = unsafe { std::slice::from_raw_parts((&raw const wanted).cast::<u8>(), SIZE as usize) };
        // include/uapi/linux/sched/types.h: size, policy, flags, nice, priority, runtime, deadline, period, util_min, util_max.
        let mut expected = [0_u8; 56];
        expected[0..4].copy_from_slice(&56_u32.to_ne_bytes());
        expected[8..16].copy_from_slice(&0x38_u64.to_ne_bytes());
        expected[48..52].copy_from_slice(&0x0102_0304_u32.to_ne_bytes());
        assert_eq!(bytes, expected);
    }

    /// Set: this is the traced process.
    const LOOKED_AT: &str = "PUNCTUAL_TEST_CLAMPS";

    #[test]
    fn strace_reads_what_was_meant() {
        if std::env::var_os(LOOKED_AT).is_some() {
            // The test checks the request, refused or not.
            drop(set_minimum(0, 512));
            return;
        }
        let traced = std::process::Command::new("strace")
            .args(["-f", "-e", "trace=sched_setattr"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "uclamp::tests::strace_reads_what_was_meant"])
            .env(LOOKED_AT, "1")
            .output();
        let text = match &traced {
            Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stderr).into_owned(),
            // strace is missing, or tracing is forbidden.
            _ => return punctual_testing::skip("strace cannot trace here; Debian: apt-get install strace"),
        };
        let asked: Vec<&str> = text.lines().filter(|line| line.contains("sched_setattr(0, {size=56")).collect();
        assert_eq!(asked.len(), 1, "{text}");
        let flags = "SCHED_FLAG_KEEP_POLICY|SCHED_FLAG_KEEP_PARAMS|SCHED_FLAG_UTIL_CLAMP_MIN";
        assert!(asked.iter().all(|line| line.contains(flags)), "{text}");
        assert!(asked[0].contains("sched_util_min=512"), "{text}");
    }

    #[test]
    fn a_value_beyond_full_is_refused_and_changes_nothing() {
        std::thread::spawn(|| {
            let before = minimum(0).unwrap();
            let error = set_minimum(0, FULL + 1).unwrap_err();
            // EINVAL from a kernel with clamps, which checks the value; the others from one without, as in `a_clamp_is_kept`.
            let known = [libc::EINVAL, libc::EOPNOTSUPP, libc::E2BIG, libc::ENOSYS];
            assert!(known.contains(&error.errno()), "{error}");
            assert_eq!(minimum(0).unwrap(), before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_clamp_is_kept_or_refused_with_a_reason() {
        std::thread::spawn(|| {
            let before = minimum(0).unwrap();
            match set_minimum(0, 512) {
                Ok(()) => {
                    assert_eq!(minimum(0).unwrap(), 512);
                    set_minimum(0, before).unwrap();
                    assert_eq!(minimum(0).unwrap(), before);
                }
                Err(error) => {
                    let known = [libc::EOPNOTSUPP, libc::E2BIG, libc::EPERM, libc::ENOSYS];
                    assert!(known.contains(&error.errno()), "{error}");
                    assert_eq!(minimum(0).unwrap(), 0);
                }
            }
        })
        .join()
        .unwrap();
    }
}
