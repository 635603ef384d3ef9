//! Tracepoints of all CPUs, written by programs in the kernel: `bpf(2)`.
//!
//! An event costs a tenth of one of `perf_event_open(2)`: the program knows what is wanted, and touches little memory. Events have the
//! time of CLOCK_MONOTONIC. Everything ends with the descriptors: nothing is left in the kernel after a SIGKILL. Needs Linux 5.12 and
//! CAP_BPF with CAP_PERFMON, or CAP_SYS_ADMIN.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

use perf_event_open_sys::ioctls;

use super::MOST_READ;
use super::buffer::Buffer;
use super::event::{Record, Recorded, Syscall};
use super::program::{RAW, program};
use crate::{Error, Result, bpf, check};

/// `BPF_PROG_TYPE_TRACEPOINT` (include/uapi/linux/bpf.h).
const TRACEPOINT: u32 = 5;
/// From one look at the rings to the next: the programs wake nobody.
const LOOK: Duration = Duration::from_millis(10);

/// The programs and their rings.
#[derive(Debug)]
pub struct Recorder {
    /// Each with its tracepoint, or its link to one.
    programs: Vec<(OwnedFd, OwnedFd)>,
    buffer: Buffer,
    cpus: usize,
    /// One that is online.
    cpu: usize,
}

impl Recorder {
    /// `bpf(2)`: rings of these sizes for the CPUs from 0 on. A size is a power of two, at least a page, or 0
    /// for none.
    ///
    /// # Errors
    /// EPERM without CAP_BPF; EINVAL before Linux 5.5; ENOMEM.
    pub fn open(sizes: &[usize]) -> Result<Self> {
        let page = rustix::param::page_size();
        let cpu = sizes.iter().position(|size| *size > 0);
        let (Some(cpu), true) = (cpu, sizes.iter().all(|size| *size == 0 || size.is_power_of_two() && *size >= page))
        else {
            return Err(Error::from_errno("bpf", libc::EINVAL).on("the size of a ring"));
        };
        // A second ring of each CPU is for calls. While their programs run, an interrupt may add events of its own.
        let (programs, cpus, buffer) = (Vec::new(), sizes.len(), Buffer::open(&sizes.repeat(2))?);
        Ok(Self { programs, buffer, cpus, cpu })
    }

    /// `bpf(2)`, `perf_event_open(2)`, `PERF_EVENT_IOC_SET_BPF`, for calls `BPF_RAW_TRACEPOINT_OPEN`: records this event too. It is off until [`Recorder::switch`].
    ///
    /// # Errors
    /// EPERM; EINVAL on kernels without such programs; EACCES for a size beyond the event's fields.
    pub fn add(&mut self, event: &Recorded<'_>) -> Result<()> {
        if !event.fits() {
            return Err(Error::from_errno("bpf", libc::E2BIG).on(format!("tracepoint {}", event.id)));
        }
        let named = |e: Error| e.on(format!("tracepoint {}", event.id));
        let code = |first| program(self.buffer.map(), event, self.buffer.bytes(), first);
        let pair = if let Some(syscall) = event.syscall.filter(|_| RAW) {
            let program = bpf::load(bpf::RAW_TRACEPOINT, &code(self.cpus)).map_err(named)?;
            let name = if syscall == Syscall::Enter { "sys_enter" } else { "sys_exit" };
            (bpf::attach(&program, name)?, program)
        } else {
            let program = bpf::load(TRACEPOINT, &code(0)).map_err(named)?;
            let tracepoint = super::tracepoint(event.id.into(), self.cpu)?;
            // SAFETY: takes two open descriptors.
            let done = unsafe { ioctls::SET_BPF(tracepoint.as_raw_fd(), program.as_raw_fd().cast_unsigned()) };
            check("ioctl(PERF_EVENT_IOC_SET_BPF)", done).map_err(named)?;
            (tracepoint, program)
        };
        self.programs.push(pair);
        Ok(())
    }

    /// Switches all events on or off, at once. No system call.
    pub fn switch(&self, on: bool) {
        self.buffer.switch(on);
    }

    /// Reads all that the rings hold, each in its order, with ring and CPU, and frees it. No system call.
    pub fn drain(&mut self, each: &mut dyn FnMut(usize, usize, Record<'_>)) {
        let cpus = self.cpus;
        self.buffer.drain(&mut |ring, record| each(ring, ring % cpus, record));
    }

    /// Events so far that found no room, or came while another program ran on their CPU (`recursion_misses`, since Linux 6.7).
    #[must_use]
    pub fn dropped(&self) -> u64 {
        let missed = |(_, program): &(OwnedFd, OwnedFd)| -> Option<u64> {
            let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", program.as_raw_fd())).ok()?;
            text.lines().find_map(|line| line.strip_prefix("recursion_misses:"))?.trim().parse().ok()
        };
        self.buffer.lost() + self.programs.iter().filter_map(missed).sum::<u64>()
    }

    /// Sleeps until a ring is half full or has 64 KiB to read, at most this long. Whether one has.
    pub fn wait(&self, timeout: Duration) -> bool {
        let begin = Instant::now();
        loop {
            if self.buffer.has(MOST_READ as u64) {
                return true;
            }
            let left = timeout.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return false;
            }
            std::thread::sleep(left.min(LOOK));
        }
    }
}

impl Drop for Recorder {
    /// At each the kernel waits until no CPU runs its program (`synchronize_rcu_tasks_trace`), some 40 ms. Closed at once, all wait once.
    fn drop(&mut self) {
        std::thread::scope(|scope| {
            for program in self.programs.drain(..) {
                // Where no thread can be started, it is closed here.
                let _ = std::thread::Builder::new().spawn_scoped(scope, move || drop(program));
            }
        });
    }
}
