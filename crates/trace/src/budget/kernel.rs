//! The programs in the kernel: loaded, attached, asked. They end with this process, however that ends.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};

use aya::maps::{Array, HashMap, Map, MapData, MapError};
use aya::programs::perf_event::{PerfEventConfig, PerfEventLinkId, PerfEventScope, SamplePolicy, SoftwareEvent};
use aya::programs::{BtfTracePoint, Iter, PerfEvent, Program, ProgramError};
use aya::sys::{Stats, enable_stats};
use aya::{Btf, Ebpf, EbpfLoader, Pod};
use flate2::read::GzDecoder;
use punctual_linux::bpf;

use super::calls;
use super::raw;
use crate::clocks::Offsets;
use crate::{Error, Result, Target, names, tap};

/// Made of `bpf/budget.bpf.c` by `cargo xtask bpf`.
static PACKED_OBJECT: &[u8] = include_bytes!("../../bpf/budget.bpf.o.gz");

/// The programs and their tracepoints.
const TRACEPOINTS: [(&str, &str); 15] = [
    ("switched", "sched_switch"),
    ("waking", "sched_waking"),
    ("migrated", "sched_migrate_task"),
    ("forked", "sched_process_fork"),
    ("executed", "sched_process_exec"),
    ("exited", "sched_process_exit"),
    ("signalled", "signal_generate"),
    ("lock_asked_for", "posix_lock_inode"),
    ("timer_started", "hrtimer_start"),
    ("timer_expires", "hrtimer_expire_entry"),
    ("timer_expired", "hrtimer_expire_exit"),
    ("interrupt_begins", "irq_handler_entry"),
    ("interrupt_ends", "irq_handler_exit"),
    ("softirq_begins", "softirq_entry"),
    ("softirq_ends", "softirq_exit"),
];

/// Those of x86 alone: elsewhere a CPU's own timer is a device.
const TICKS: [(&str, &str); 2] = [("tick_begins", "local_timer_entry"), ("tick_ends", "local_timer_exit")];

/// The function of the timer that fills quotas up (kernel/sched/fair.c).
const REFILL: &str = "sched_cfs_period_timer";
/// The function of the timers that end the waits of threads (kernel/time/hrtimer.c).
const WAKEUP: &str = "hrtimer_wakeup";
/// The function of the timers of timerfd_create(2) (fs/timerfd.c).
const TIMERFD: &str = "timerfd_tmrproc";

/// The programs that sample, and from one sample to the next: no multiple of the periods that programs have. The first is for programs that
/// end soon. A sample takes tens of microseconds, so that one each ms is in one of a hundred round trips of 10 us, and is their 99th
/// percentile.
const OFTEN: (&str, u64) = ("sampled_often", 1_009_000);
const SELDOM: (&str, u64) = ("sampled", 4_036_000);

/// Threads that load programs, and the stack of each.
const LOADERS: usize = 8;
const STACK: usize = 512 << 10;

/// The programs as clang made them.
fn object() -> Result<Vec<u8>> {
    let mut object = Vec::new();
    let read = GzDecoder::new(PACKED_OBJECT).read_to_end(&mut object);
    read.map_err(|error| refused("unpacking the programs", &error))?;
    Ok(object)
}

/// Whom to watch.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Whom {
    /// Watched as soon as it has executed its program.
    pub(super) executes: u32,
    /// Threads that it creates are watched.
    pub(super) process: u32,
}

/// The programs, attached.
#[derive(Debug)]
pub(super) struct Programs {
    ebpf: Ebpf,
    /// While it is open, the kernel counts the run time of programs, which takes time itself.
    stats: Option<OwnedFd>,
    price_ns: Option<f64>,
    /// Threads that existed, and for which there was no room.
    left_out: usize,
    /// /proc/kallsyms names the kernel's functions.
    has_symbols: bool,
    /// The links of the program that samples often, while it does.
    often: Vec<PerfEventLinkId>,
}

impl Programs {
    /// Loads and attaches them.
    pub(super) fn attach(target: &Target, whom: Whom) -> Result<Self> {
        let btf = Btf::from_sys_fs().map_err(|error| refused("/sys/kernel/btf/vmlinux", &error))?;
        let found = names::addresses_of([REFILL, WAKEUP, TIMERFD]);
        let has_symbols = found.iter().any(Option::is_some);
        let [refill, wakeup, timerfd] = found.map(Option::unwrap_or_default);
        let (children, own) = (u32::from(target.with_children), std::process::id());
        let mut ebpf = EbpfLoader::new()
            .btf(Some(&btf))
            .allow_unsupported_maps()
            .map_max_entries("cpus", cpus())
            .override_global("EXECUTES", &whom.executes, true)
            .override_global("PROCESS", &whom.process, true)
            .override_global("CHILDREN", &children, true)
            .override_global("SELF", &own, true)
            .override_global("REFILL", &refill, true)
            .override_global("WAKEUP", &wakeup, true)
            .override_global("TIMERFD", &timerfd, true)
            .override_global("CALLS", &calls::kinds(), true)
            .override_global("CALLS_OF_32_BITS", &calls::of_32_bits(), true)
            .load(&object()?)
            .map_err(|error| refused("loading the programs", &error))?;
        load(&mut ebpf, &btf)?;
        for (name, tracepoint) in tracepoints() {
            let program = tracepoint_program(&mut ebpf, name)?;
            program.attach().map_err(|error| program_refused(tracepoint, &error))?;
        }
        sampler(&mut ebpf, SELDOM.0)?.load().map_err(|error| program_refused(SELDOM.0, &error))?;
        sampler(&mut ebpf, OFTEN.0)?.load().map_err(|error| program_refused(OFTEN.0, &error))?;
        let often = sample(&mut ebpf, OFTEN)?;
        let stats = enable_stats(Stats::RunTime).ok();
        let mut programs = Self { ebpf, stats, price_ns: None, left_out: 0, has_symbols, often };
        programs.seed(target)?;
        Ok(programs)
    }

    /// Begins to watch the threads that exist.
    fn seed(&mut self, target: &Target) -> Result<()> {
        if target.tids.is_empty() {
            return Ok(());
        }
        let mut targets: HashMap<_, u32, u32> = HashMap::try_from(self.ebpf.map_mut("targets").ok_or_else(no_map)?)
            .map_err(|error| refused("targets", &error))?;
        let watched = target.tids.iter().take_while(|tid| targets.insert(tid.cast_unsigned(), 1, 0).is_ok()).count();
        self.left_out = target.tids.len() - watched;
        self.over_tasks()
    }

    fn over_tasks(&mut self) -> Result<()> {
        let over = iterator(&mut self.ebpf)?;
        let link = over.attach().map_err(|error| program_refused("iter/task", &error))?;
        let link = over.take_link(link).map_err(|error| program_refused("iter/task", &error))?;
        let mut said = Vec::new();
        let file = link.into_file().map_err(|error| refused("iter/task", &error));
        file?.read_to_end(&mut said).map_err(|error| refused("iter/task", &error)).map(drop)
    }

    /// Ends the watch: all stretches end now. Returns the time, CLOCK_MONOTONIC.
    pub(super) fn end(&mut self) -> Result<u64> {
        // Programs in the kernel read the machine's clock.
        let now = tap::now_ns().wrapping_add_signed(-Offsets::read().monotonic_ns);
        let mut shared: Array<_, [u8; raw::CONTROL]> = Array::try_from(self.ebpf.map_mut("shared").ok_or_else(no_map)?)
            .map_err(|error| refused("shared", &error))?;
        let before = shared.get(&0, 0).map_err(|error| refused("shared", &error))?;
        shared.set(0, raw::ended(before, now), 0).map_err(|error| refused("shared", &error))?;
        self.over_tasks()?;
        Ok(now)
    }

    fn control(&self) -> Option<[u8; raw::CONTROL]> {
        let shared = self.ebpf.map("shared").and_then(|map| Array::<_, [u8; raw::CONTROL]>::try_from(map).ok())?;
        shared.get(&0, 0).ok()
    }

    /// Learns what an event costs: the run time of the two programs that run at each switch and wake-up, by their runs.
    pub(super) fn learn_price(&mut self) {
        if self.stats.is_none() {
            return;
        }
        let infos = ["switched", "waking"].map(|name| self.ebpf.program(name).and_then(|program| program.info().ok()));
        let (mut ns, mut runs) = (0.0, 0);
        for info in infos.iter().flatten() {
            ns += info.run_time().as_nanos() as f64;
            runs += info.run_count();
        }
        if runs > 0 {
            self.price_ns = Some(ns / runs as f64);
            self.stats = None;
        }
    }

    /// Samples seldom from now on: who runs for longer has samples enough.
    pub(super) fn sample_seldom(&mut self) {
        // Once: what both programs sampled would count twice.
        let often = std::mem::take(&mut self.often);
        if !often.is_empty()
            && let Ok(program) = sampler(&mut self.ebpf, OFTEN.0)
        {
            often.into_iter().for_each(|link| drop(program.detach(link)));
            let _ = sample(&mut self.ebpf, SELDOM);
        }
    }

    /// Threads that existed at the begin, and that are not watched because there are too many.
    pub(super) fn left_out(&self) -> usize {
        self.left_out
    }

    /// Whether the kernel's functions have names.
    pub(super) fn has_symbols(&self) -> bool {
        self.has_symbols
    }

    /// What an event costs, ns.
    pub(super) fn price_ns(&self) -> Option<f64> {
        self.price_ns
    }

    /// Stretches without room.
    pub(super) fn dropped(&self) -> u64 {
        self.control().map_or(0, |bytes| raw::dropped(&bytes))
    }

    /// Threads that were watched so far: their numbers begin at 1.
    pub(super) fn last_id(&self) -> u32 {
        self.control().map_or(0, |bytes| raw::last_id(&bytes))
    }

    /// How many of them belong to the program; the others are watched for the chains alone.
    pub(super) fn own_threads(&self) -> usize {
        let infos = self.all::<[u8; 4], [u8; raw::INFO]>("infos");
        infos.values().filter(|info| !raw::Info::read(info).aside).count()
    }

    /// The process of a thread.
    pub(super) fn process(&self, id: u32) -> Option<u32> {
        let infos = HashMap::<&MapData, u32, [u8; raw::INFO]>::try_from(self.ebpf.map("infos")?).ok()?;
        let info = raw::Info::read(&infos.get(&id, 0).ok()?);
        (!info.aside).then_some(info.name.pid)
    }

    /// Events of watched threads.
    pub(super) fn events(&self) -> u64 {
        let map = self.ebpf.map("cpus").and_then(|map| Array::<&MapData, [u8; raw::CPU]>::try_from(map).ok());
        map.map_or(0, |cpus| cpus.iter().flatten().map(|cpu| raw::events(&cpu)).sum())
    }

    /// All sums by their keys. Those for which the table had no room have the kind of their stretches alone.
    pub(super) fn sums(&self) -> BTreeMap<[u8; raw::KEY], [u8; raw::SUM]> {
        let mut sums = self.all("sums");
        for (id, rough) in self.all::<[u8; 4], [u8; raw::ROUGH]>("roughs") {
            sums.extend(raw::by_spent(id, &rough));
        }
        sums
    }

    /// All that a map holds.
    pub(super) fn all<K, V>(&self, name: &str) -> BTreeMap<K, V>
    where
        K: Pod + Ord + for<'a> TryFrom<&'a [u8]>,
        V: Pod + for<'a> TryFrom<&'a [u8]>,
    {
        let Some(map) = self.ebpf.map(name) else { return BTreeMap::new() };
        if let Map::HashMap(data) = map
            && let Ok(entries) = bpf::entries(data.fd().as_fd(), size_of::<K>(), size_of::<V>())
        {
            let values = entries.values.chunks_exact(size_of::<V>()).map(V::try_from);
            let entries = entries.keys.chunks_exact(size_of::<K>()).map(K::try_from).zip(values);
            return entries.filter_map(|(key, value)| Some((key.ok()?, value.ok()?))).collect();
        }
        // Kernels before 5.6: one entry at a time.
        HashMap::<&MapData, K, V>::try_from(map).map_or_else(
            |_| BTreeMap::new(),
            |map| map.iter().filter_map(|entry: std::result::Result<_, MapError>| entry.ok()).collect(),
        )
    }
}

fn tracepoints() -> impl Iterator<Item = (&'static str, &'static str)> {
    TRACEPOINTS.into_iter().chain(TICKS.into_iter().filter(|_| cfg!(target_arch = "x86_64")))
}

/// A program that is yet to be loaded.
enum Load<'a> {
    AtTracepoint(&'a mut BtfTracePoint, &'static str),
    OverTasks(&'a mut Iter),
}

impl Load<'_> {
    fn load(self, btf: &Btf) -> Result<()> {
        match self {
            Self::AtTracepoint(program, tracepoint) => {
                program.load(tracepoint, btf).map_err(|error| program_refused(tracepoint, &error))
            }
            Self::OverTasks(program) => program.load("task", btf).map_err(|error| program_refused("iter/task", &error)),
        }
    }
}

/// Loads the programs side by side: the kernel checks each for up to a fifth of a second. Threads that cannot be had are done without.
fn load(ebpf: &mut Ebpf, btf: &Btf) -> Result<()> {
    let tracepoints: BTreeMap<_, _> = tracepoints().collect();
    let loads = ebpf.programs_mut().filter_map(|(name, program)| match program {
        Program::BtfTracePoint(program) => Some(Load::AtTracepoint(program, tracepoints.get(name)?)),
        Program::Iter(program) => Some(Load::OverTasks(program)),
        _ => None,
    });
    let loads: Mutex<Vec<Load<'_>>> = Mutex::new(loads.collect());
    let next = || loads.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let load_all = || std::iter::from_fn(next).try_for_each(|program| program.load(btf));
    std::thread::scope(|scope| {
        let loader = || std::thread::Builder::new().name("load".into()).stack_size(STACK);
        let others: Vec<_> = (1..LOADERS).map_while(|_| loader().spawn_scoped(scope, load_all).ok()).collect();
        let own = load_all();
        let others = others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        others.fold(own, Result::and)
    })
}

fn tracepoint_program<'a>(ebpf: &'a mut Ebpf, name: &'static str) -> Result<&'a mut BtfTracePoint> {
    let program = ebpf.program_mut(name).ok_or_else(no_map)?;
    program.try_into().map_err(|error: ProgramError| refused(name, &error))
}

/// Begins to sample all CPUs. Where perf_event_open(2) is refused, running time is not cut.
fn sample(ebpf: &mut Ebpf, (name, ns): (&str, u64)) -> Result<Vec<PerfEventLinkId>> {
    let program = sampler(ebpf, name)?;
    let of_cpu = |cpu| {
        let (clock, period) = (PerfEventConfig::Software(SoftwareEvent::CpuClock), SamplePolicy::Period(ns));
        program.attach(clock, PerfEventScope::AllProcessesOneCpu { cpu }, period, false).ok()
    };
    Ok(tap::online().into_iter().map(|cpu| cpu as u32).map_while(of_cpu).collect())
}

fn sampler<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut PerfEvent> {
    let program = ebpf.program_mut(name).ok_or_else(no_map)?;
    program.try_into().map_err(|error: ProgramError| refused(name, &error))
}

fn iterator(ebpf: &mut Ebpf) -> Result<&mut Iter> {
    let program = ebpf.program_mut("over_tasks").ok_or_else(no_map)?;
    program.try_into().map_err(|error: ProgramError| program_refused("iter/task", &error))
}

fn no_map() -> Error {
    Error::Programs("the object has another form".to_owned())
}

fn refused(what: &str, error: &(dyn std::error::Error + 'static)) -> Error {
    let mut said = format!("{what}: {error}");
    let mut source = error.source();
    while let Some(error) = source {
        // Some say their source themselves.
        let text = error.to_string();
        if !said.contains(&text) {
            said = format!("{said}: {text}");
        }
        source = error.source();
    }
    if is_not_permitted(error) { Error::NotPermitted(said) } else { Error::Programs(said) }
}

/// Whether the kernel said EPERM.
fn is_not_permitted(error: &(dyn std::error::Error + 'static)) -> bool {
    let own = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error);
    own == Some(rustix::io::Errno::PERM.raw_os_error()) || error.source().is_some_and(is_not_permitted)
}

/// Without the verifier's log, which has thousands of lines.
fn program_refused(what: &str, error: &ProgramError) -> Error {
    match error {
        ProgramError::LoadError { io_error, verifier_log } => {
            let log = verifier_log.to_string();
            if is_locked_down(&log) {
                return Error::LockedDown;
            }
            let said = format!("{what}: {io_error}: {}", last_reason(&log));
            if is_not_permitted(io_error) { Error::NotPermitted(said) } else { Error::Programs(said) }
        }
        other => refused(what, other),
    }
}

/// The last line that is neither about the verifier's work nor a hint.
fn last_reason(log: &str) -> &str {
    const ITS_WORK: [&str; 4] = ["processed", "stack", "subprog", "verification"];
    let is_reason = |line: &&str| {
        line.starts_with(|first: char| !first.is_whitespace()) && !ITS_WORK.iter().any(|word| line.starts_with(word))
    };
    log.lines().rev().find(is_reason).unwrap_or_default()
}

/// Whether the verifier knows no helper that reads the kernel's memory: so it is under lockdown. Lines of the program begin with a number.
fn is_locked_down(log: &str) -> bool {
    log.lines().any(|line| line.contains("bpf_probe_read") && !line.starts_with(|first: char| first.is_ascii_digit()))
}

/// CPUs that the machine may have.
fn cpus() -> u32 {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = text.trim().rsplit([',', '-']).next().and_then(|last| last.parse::<u32>().ok());
    last.map_or(4096, |last| last + 1)
}

#[cfg(test)]
mod tests;
