//! Tracepoints: [`CpuEvents`] of one CPU, through a mapped ring of `perf_event_open(2)`; [`Recorder`] of all CPUs, through programs in the
//! kernel.
//!
//! Events have the time of CLOCK_MONOTONIC. Everything ends with the descriptors: nothing is left in the kernel after a
//! SIGKILL. The kernel drops events while a ring is full and counts them.
//!
//! An event of a [`Recorder`] costs a tenth of one of `perf_event_open(2)`: its program knows what is wanted, and touches little memory.
//! It needs Linux 5.12 and CAP_BPF with CAP_PERFMON, or CAP_SYS_ADMIN.

use std::ffi::CString;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use buffer::Buffer;
use event::{lost, sample};
use perf_event_open_sys::bindings::{self, perf_event_mmap_page};
use perf_event_open_sys::{ioctls, perf_event_open};
use program::{RAW, program};
use rustix::event::{PollFd, PollFlags};

use crate::memory::Mapping;
use crate::{Error, Result, bpf, check, descriptor, failed};

mod buffer;
mod event;
mod program;

pub use event::{Filter, Number, Record, Recorded, Sample, Syscall};

/// Most bytes that wait to be read, some 700 events. Reading more at once would keep other threads from the reader's
/// CPU.
const MOST_READ: usize = 1 << 16;

/// The events of one CPU and their ring.
#[derive(Debug)]
pub struct CpuEvents {
    cpu: usize,
    /// Before the descriptors, so that it is unmapped first.
    ring: Ring,
    /// The first owns the ring.
    events: Vec<OwnedFd>,
}

impl CpuEvents {
    /// `perf_event_open(2)`: the ring of this CPU, of `2^order` pages, without events.
    ///
    /// # Errors
    /// EACCES or EPERM without CAP_PERFMON or CAP_SYS_ADMIN, as `kernel.perf_event_paranoid` says. ENODEV for an offline CPU. EMFILE.
    /// EPERM from mmap(2) beyond `kernel.perf_event_mlock_kb`.
    pub fn open(cpu: usize, order: u32) -> Result<Self> {
        let mut attr = attr();
        attr.type_ = bindings::PERF_TYPE_SOFTWARE;
        attr.config = u64::from(bindings::PERF_COUNT_SW_DUMMY);
        attr.set_watermark(1);
        // The reader wakes rarely and still in time, and never has the CPU for long.
        attr.__bindgen_anon_2.wakeup_watermark = (rustix::param::page_size() << order >> 1).min(MOST_READ) as u32;
        let first = open(&mut attr, cpu).map_err(|e| e.on(format!("CPU {cpu}")))?;
        let ring = Ring::map(&first, order).map_err(|e| e.on(format!("the ring of CPU {cpu}")))?;
        Ok(Self { cpu, ring, events: vec![first] })
    }

    /// `perf_event_open(2)`, `PERF_EVENT_IOC_SET_OUTPUT`, `PERF_EVENT_IOC_SET_FILTER`: adds the tracepoint with this number,
    /// filtered in the kernel. It is off until [`CpuEvents::switch`].
    ///
    /// # Errors
    /// ENOENT for an unknown tracepoint; EINVAL for a filter with an unknown field; EACCES.
    pub fn add(&mut self, tracepoint: u64, filter: Option<&str>) -> Result<()> {
        let event = self::tracepoint(tracepoint, self.cpu)?;
        // SAFETY: takes two open descriptors of events of one CPU and one clock.
        check("ioctl(PERF_EVENT_IOC_SET_OUTPUT)", unsafe {
            ioctls::SET_OUTPUT(event.as_raw_fd(), self.events[0].as_raw_fd())
        })?;
        if let Some(filter) = filter {
            let text = CString::new(filter)
                .map_err(|_| Error::from_errno("ioctl(PERF_EVENT_IOC_SET_FILTER)", libc::EINVAL))?;
            // SAFETY: the kernel reads a string that ends with a zero byte.
            check("ioctl(PERF_EVENT_IOC_SET_FILTER)", unsafe {
                ioctls::SET_FILTER(event.as_raw_fd(), text.as_ptr().cast_mut())
            })
            .map_err(|e| e.on(filter))?;
        }
        self.events.push(event);
        Ok(())
    }

    /// `PERF_EVENT_IOC_ENABLE`, `PERF_EVENT_IOC_DISABLE`: switches all its events on or off.
    pub fn switch(&self, on: bool) -> Result<()> {
        for event in &self.events {
            // SAFETY: takes an open descriptor of an event.
            let done = unsafe {
                if on { ioctls::ENABLE(event.as_raw_fd(), 0) } else { ioctls::DISABLE(event.as_raw_fd(), 0) }
            };
            check("ioctl(PERF_EVENT_IOC_ENABLE)", done)?;
        }
        Ok(())
    }

    /// Reads all that the ring holds, and frees it. No system call.
    pub fn drain(&mut self, each: &mut dyn FnMut(Record<'_>)) {
        self.ring.drain(each);
    }

    /// `read(2)`: how many of its events found no room in the ring so far. None before Linux 6.0.
    #[must_use]
    pub fn dropped(&self) -> Option<u64> {
        let mut total = 0;
        for event in &self.events {
            // The count of the event, then that of the drops.
            let mut words = [0_u8; 16];
            let length = rustix::io::read(event, &mut words).ok().filter(|length| *length == words.len())?;
            total += u64::from_ne_bytes(words[length / 2..].try_into().ok()?);
        }
        Some(total)
    }

    /// The CPU.
    #[must_use]
    pub fn cpu(&self) -> usize {
        self.cpu
    }

    fn first(&self) -> BorrowedFd<'_> {
        self.events[0].as_fd()
    }
}

/// `poll(2)`: sleeps until a ring is half full, at most this long. Whether one is.
pub fn wait(rings: &[CpuEvents], timeout: Duration) -> Result<bool> {
    let mut fds: Vec<PollFd<'_>> =
        rings.iter().map(|ring| PollFd::from_borrowed_fd(ring.first(), PollFlags::IN)).collect();
    let timeout = timeout.try_into().map_err(|_| Error::from_errno("poll", libc::EINVAL))?;
    match rustix::event::poll(&mut fds, Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(errno) => Err(failed("poll")(errno)),
    }
}

/// The tracepoint with this number.
fn tracepoint(number: u64, cpu: usize) -> Result<OwnedFd> {
    let mut attr = attr();
    attr.type_ = bindings::PERF_TYPE_TRACEPOINT;
    attr.config = number;
    attr.__bindgen_anon_1.sample_period = 1;
    open(&mut attr, cpu).map_err(|e| e.on(format!("tracepoint {number} on CPU {cpu}")))
}

/// The attributes that all events share.
fn attr() -> bindings::perf_event_attr {
    let mut attr = bindings::perf_event_attr::default();
    attr.size = size_of::<bindings::perf_event_attr>() as u32;
    // The ring stands for the CPU, and the event's own field common_pid for the thread. Each byte more would delay a wake-up.
    attr.sample_type = u64::from(bindings::PERF_SAMPLE_TIME | bindings::PERF_SAMPLE_RAW);
    attr.set_disabled(1);
    attr.set_use_clockid(1);
    attr.clockid = libc::CLOCK_MONOTONIC;
    attr.read_format = u64::from(bindings::PERF_FORMAT_LOST);
    attr
}

fn open(attr: &mut bindings::perf_event_attr, cpu: usize) -> Result<OwnedFd> {
    // SAFETY: `attr` is initialised and names its own size.
    let call = |attr: &mut bindings::perf_event_attr| unsafe {
        perf_event_open(attr, -1, cpu as i32, -1, u64::from(bindings::PERF_FLAG_FD_CLOEXEC))
    };
    // SAFETY: the kernel gives the descriptor to this call alone.
    let opened = |returned| unsafe { descriptor("perf_event_open", returned) };
    match opened(call(attr)) {
        // Before Linux 6.0 an event does not count what it drops.
        Err(e) if e.errno() == libc::EINVAL => {
            attr.read_format = 0;
            opened(call(attr))
        }
        done => done,
    }
}

/// The mapped ring of perf_event_open(2), a page of positions and 2^n pages of data: the kernel writes at `data_head`, this process frees
/// at `data_tail`.
#[derive(Debug)]
struct Ring {
    mapping: Mapping,
    page: usize,
    bytes: usize,
    /// An entry that goes around the end, in one piece.
    pieced: Vec<u8>,
}

impl Ring {
    fn map(event: &OwnedFd, order: u32) -> Result<Self> {
        let page = rustix::param::page_size();
        let bytes = page << order;
        let mapping = Mapping::writable(page + bytes, libc::MAP_SHARED, event.as_raw_fd())?;
        Ok(Self { mapping, page, bytes, pieced: Vec::with_capacity(1 << 16) })
    }

    fn drain(&mut self, each: &mut dyn FnMut(Record<'_>)) {
        let head_of = std::mem::offset_of!(perf_event_mmap_page, data_head);
        let tail_of = std::mem::offset_of!(perf_event_mmap_page, data_tail);
        // SAFETY: both positions are aligned words of the first page, which is mapped as long as `self` lives. The kernel writes the
        // first and reads the second; both sides use them as atomics (perf_event_open(2), "mmap layout").
        let [head, tail] =
            [head_of, tail_of].map(|at| unsafe { &*self.mapping.start().as_ptr().add(at).cast::<AtomicU64>() });
        let end = head.load(Ordering::Acquire);
        let mut at = tail.load(Ordering::Relaxed);
        while at < end {
            let header = self.bytes_at(at, 8);
            let kind = u32::from_ne_bytes(header[..4].try_into().expect("four bytes"));
            let size = u64::from(u16::from_ne_bytes(header[6..8].try_into().expect("two bytes")));
            // A size of zero would never end; the kernel writes none.
            if size < 8 || size > end - at {
                break;
            }
            let body = self.bytes_at(at + 8, size as usize - 8);
            match kind {
                bindings::PERF_RECORD_SAMPLE => sample(body).map(Record::Sample),
                bindings::PERF_RECORD_LOST => lost(body).map(Record::Lost),
                _ => None,
            }
            .map(&mut *each);
            at += size;
        }
        tail.store(end, Ordering::Release);
    }

    /// These bytes of the ring, copied where they go around its end.
    fn bytes_at(&mut self, position: u64, length: usize) -> &[u8] {
        let from = (position as usize) & (self.bytes - 1);
        let straight = length.min(self.bytes - from);
        // SAFETY: `from + straight` lies in the data pages, and the kernel does not write there before `data_tail` passes.
        let first =
            unsafe { std::slice::from_raw_parts(self.mapping.start().as_ptr().add(self.page + from), straight) };
        if straight == length {
            return first;
        }
        self.pieced.clear();
        self.pieced.extend_from_slice(first);
        // SAFETY: the rest lies at the beginning of the data pages.
        let rest =
            unsafe { std::slice::from_raw_parts(self.mapping.start().as_ptr().add(self.page), length - straight) };
        self.pieced.extend_from_slice(rest);
        &self.pieced
    }
}

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
            let tracepoint = self::tracepoint(event.id.into(), self.cpu)?;
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
