//! The options of cyclictest: those of 2.x, those that only older versions took, with what each sets ([`Options`]); and what `--help` and
//! `--version` say.

use punctual::{CpuSet, Policy};
use punctual_linux::clock::Clock;

use crate::args::getopt::{Opt, Value};

/// The version of rt-tests whose options and output these are.
pub(super) const MATCHED: &str = "2.40";

/// The policy of the measuring threads, as `--policy` names it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Class {
    #[default]
    Other,
    Batch,
    Idle,
    Fifo,
    Rr,
}

impl Class {
    const ALL: [Self; 5] = [Self::Other, Self::Batch, Self::Idle, Self::Fifo, Self::Rr];

    /// The class whose name the text begins with; `other` if there is none.
    pub(super) fn named(text: &str) -> Self {
        let text = text.to_ascii_lowercase();
        Self::ALL.into_iter().find(|class| text.starts_with(class.name())).unwrap_or_default()
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Other => "other",
            Self::Batch => "batch",
            Self::Idle => "idle",
            Self::Fifo => "fifo",
            Self::Rr => "rr",
        }
    }

    pub(super) fn is_real_time(self) -> bool {
        matches!(self, Self::Fifo | Self::Rr)
    }
}

/// When the threads start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Alignment {
    #[default]
    None,
    Together,
    FullSecond,
}

/// Everything a command line asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) threads: usize,
    /// The CPUs of the measuring threads, one after the other. `None`: all that this process may use.
    pub(super) affinity: Option<CpuSet>,
    pub(super) main_affinity: Option<CpuSet>,
    pub(super) class: Class,
    pub(super) priority: u8,
    pub(super) priospread: bool,
    pub(super) interval_us: i32,
    pub(super) distance_us: i64,
    pub(super) alignment: Alignment,
    pub(super) offset_ns: i64,
    /// 0: CLOCK_MONOTONIC; 1: CLOCK_REALTIME.
    pub(super) clock: i32,
    pub(super) relative: bool,
    pub(super) system: bool,
    pub(super) posix_timers: bool,
    pub(super) loops: Option<u64>,
    pub(super) duration_s: Option<i64>,
    pub(super) break_above: Option<i64>,
    pub(super) tracemark: bool,
    pub(super) spike_above: Option<i64>,
    pub(super) spike_nodes: usize,
    pub(super) buckets: usize,
    pub(super) histofall: bool,
    pub(super) histfile: Option<String>,
    pub(super) json: Option<String>,
    pub(super) fifo: Option<String>,
    /// `None`: the machine's latency is left alone.
    pub(super) latency_us: Option<u32>,
    pub(super) laptop: bool,
    pub(super) mlockall: bool,
    pub(super) nsecs: bool,
    pub(super) oscope: i32,
    pub(super) quiet: bool,
    pub(super) verbose: bool,
    /// `-v` stands before `-a`, so that the CPUs are named twice, as theirs are.
    pub(super) verbose_before_cpus: bool,
    pub(super) refresh_on_max: bool,
    pub(super) resolution: bool,
    pub(super) debug: bool,
    pub(super) smi: bool,
}

impl Options {
    /// The policy of thread `number`; `None`: SCHED_OTHER.
    pub(super) fn policy(&self, number: usize) -> Option<Policy> {
        let priority = self.priority_of(number);
        match self.class {
            Class::Fifo if priority > 0 => Some(Policy::Fifo(priority)),
            Class::Rr if priority > 0 => Some(Policy::RoundRobin(priority)),
            _ => None,
        }
    }

    /// The priority of thread `number`.
    pub(super) fn priority_of(&self, number: usize) -> u8 {
        let below = if self.priospread { number.min(99) as u8 } else { 0 };
        self.priority.saturating_sub(below)
    }

    /// The interval of thread `number`.
    pub(super) fn interval_of(&self, number: usize) -> i64 {
        i64::from(self.interval_us).saturating_add(self.distance_us.saturating_mul(number as i64)).max(1)
    }

    /// The clock that the threads read.
    pub(super) fn clock(&self) -> Clock {
        if self.clock == 1 { Clock::Realtime } else { Clock::Monotonic }
    }

    /// The CPU of thread `number`: one after the other, and from the beginning again.
    pub(super) fn cpu_of(&self, number: usize, allowed: &CpuSet) -> Option<usize> {
        let cpus = self.affinity.as_ref().unwrap_or(allowed);
        cpus.as_slice().get(number.checked_rem(cpus.len())?).copied()
    }
}

/// What an option sets.
#[derive(Debug, Clone, Copy)]
pub(super) enum Id {
    /// This is on.
    On(fn(&mut Options) -> &mut bool),
    /// This number is its value.
    Number(fn(&mut Options) -> &mut i32),
    /// This text is its value.
    Text(fn(&mut Options) -> &mut Option<String>),
    Affinity,
    Aligned,
    Breaktrace,
    DefaultSystem,
    Distance,
    Duration,
    Histogram,
    Histofall,
    Latency,
    Loops,
    MainAffinity,
    Priority,
    Policy,
    Secaligned,
    Smp,
    Spike,
    SpikeNodes,
    Threads,
    /// Each text is written at once anyway.
    Unbuffered,
    Help,
    Version,
    Numa,
    /// It has no effect: what it asked for is done anyway, or is gone.
    Gone(&'static str),
}

impl PartialEq for Id {
    /// Options that are gone for one reason are alike: the beginning of their names may stand for each. No others are.
    fn eq(&self, other: &Self) -> bool {
        matches!((self, other), (Self::Gone(one), Self::Gone(other)) if one == other)
    }
}

/// An option of one of the tables below.
const fn opt(short: Option<char>, long: Option<&'static str>, value: Value, id: Id) -> Opt<Id> {
    Opt { short, long, value, id }
}

use Value::{Attached, Needed, No};

/// The options of 2.x.
pub(super) const TODAY: &[Opt<Id>] = &[
    opt(Some('a'), Some("affinity"), Attached, Id::Affinity),
    opt(Some('A'), Some("aligned"), Attached, Id::Aligned),
    opt(Some('b'), Some("breaktrace"), Needed, Id::Breaktrace),
    opt(Some('c'), Some("clock"), Needed, Id::Number(|options| &mut options.clock)),
    opt(None, Some("default-system"), No, Id::DefaultSystem),
    opt(Some('d'), Some("distance"), Needed, Id::Distance),
    opt(Some('D'), Some("duration"), Needed, Id::Duration),
    opt(Some('F'), Some("fifo"), Needed, Id::Text(|options| &mut options.fifo)),
    opt(Some('h'), Some("histogram"), Needed, Id::Histogram),
    opt(Some('H'), Some("histofall"), Needed, Id::Histofall),
    opt(None, Some("histfile"), Needed, Id::Text(|options| &mut options.histfile)),
    opt(Some('i'), Some("interval"), Needed, Id::Number(|options| &mut options.interval_us)),
    opt(None, Some("json"), Needed, Id::Text(|options| &mut options.json)),
    opt(None, Some("laptop"), No, Id::On(|options| &mut options.laptop)),
    opt(None, Some("latency"), Needed, Id::Latency),
    opt(Some('l'), Some("loops"), Needed, Id::Loops),
    opt(None, Some("mainaffinity"), Needed, Id::MainAffinity),
    opt(Some('m'), Some("mlockall"), No, Id::On(|options| &mut options.mlockall)),
    opt(Some('M'), Some("refresh_on_max"), No, Id::On(|options| &mut options.refresh_on_max)),
    opt(Some('N'), Some("nsecs"), No, Id::On(|options| &mut options.nsecs)),
    opt(Some('o'), Some("oscope"), Needed, Id::Number(|options| &mut options.oscope)),
    opt(Some('p'), Some("priority"), Needed, Id::Priority),
    opt(None, Some("policy"), Needed, Id::Policy),
    opt(None, Some("priospread"), No, Id::On(|options| &mut options.priospread)),
    opt(Some('q'), Some("quiet"), No, Id::On(|options| &mut options.quiet)),
    opt(Some('r'), Some("relative"), No, Id::On(|options| &mut options.relative)),
    opt(Some('R'), Some("resolution"), No, Id::On(|options| &mut options.resolution)),
    opt(None, Some("secaligned"), Attached, Id::Secaligned),
    opt(Some('s'), Some("system"), No, Id::On(|options| &mut options.system)),
    opt(Some('S'), Some("smp"), No, Id::Smp),
    opt(None, Some("spike"), Needed, Id::Spike),
    opt(None, Some("spike-nodes"), Needed, Id::SpikeNodes),
    opt(None, Some("smi"), No, Id::On(|options| &mut options.smi)),
    opt(Some('t'), Some("threads"), Attached, Id::Threads),
    opt(None, Some("tracemark"), No, Id::On(|options| &mut options.tracemark)),
    opt(Some('u'), Some("unbuffered"), No, Id::Unbuffered),
    opt(Some('v'), Some("verbose"), No, Id::On(|options| &mut options.verbose)),
    opt(None, Some("dbg_cyclictest"), No, Id::On(|options| &mut options.debug)),
    opt(Some('x'), Some("posix_timers"), No, Id::On(|options| &mut options.posix_timers)),
    opt(Some('?'), Some("help"), No, Id::Help),
];

/// What an old option asked of the kernel's tracer.
const TRACER: &str = "cyclictest 2.x sets no tracer either (set it in tracefs; --tracemark marks and stops it)";
/// What is usual today.
const USUAL: &str = "threads wait with clock_nanosleep(2) unless -x or -s is given";

/// The options of 1.x and before that 2.x refuses, and the one of this program alone.
pub(super) const OLD: &[Opt<Id>] = &[
    opt(None, Some("version"), No, Id::Version),
    opt(Some('n'), Some("nanosleep"), No, Id::Gone(USUAL)),
    opt(Some('U'), Some("numa"), No, Id::Numa),
    opt(None, Some("notrace"), No, Id::Gone("nothing is traced unless --tracemark is given")),
    opt(Some('B'), Some("preemptirqs"), No, Id::Gone(TRACER)),
    opt(Some('C'), Some("context"), No, Id::Gone(TRACER)),
    opt(Some('E'), Some("event"), No, Id::Gone(TRACER)),
    opt(Some('f'), Some("ftrace"), No, Id::Gone(TRACER)),
    opt(Some('I'), Some("irqsoff"), No, Id::Gone(TRACER)),
    opt(Some('P'), Some("preemptoff"), No, Id::Gone(TRACER)),
    opt(Some('w'), Some("wakeup"), No, Id::Gone(TRACER)),
    opt(Some('W'), Some("wakeuprt"), No, Id::Gone(TRACER)),
    opt(Some('O'), Some("traceopt"), Needed, Id::Gone(TRACER)),
    opt(Some('T'), Some("tracer"), Needed, Id::Gone(TRACER)),
    opt(Some('X'), None, No, Id::On(|options| &mut options.debug)),
    opt(Some('y'), None, Needed, Id::Policy),
    opt(Some('e'), None, Needed, Id::Latency),
];

/// Options that older versions had, and what they are called in 2.x.
pub(super) const RENAMED: [(&str, &str); 3] = [("-X", "--dbg_cyclictest"), ("-y", "--policy"), ("-e", "--latency")];

/// This program, and what it behaves like.
pub(super) fn maker() -> String {
    format!("punctual {}, in the form of cyclictest V {MATCHED} of rt-tests", env!("CARGO_PKG_VERSION"))
}

/// The first line is cyclictest's, from which programs read the version.
pub(super) fn help() -> String {
    format!("cyclictest V {MATCHED}\n({})\nUsage:\ncyclictest <options>\n\n{HELP}", maker())
}

const HELP: &str = "\
Threads
-t [NUM] --threads=NUM     threads; without NUM one for each CPU [default: 1]
-a [CPUS] --affinity=CPUS  CPUs of the threads in turn (0-3,8; !2; all)
                           [default: each CPU in turn]
-S       --smp             a thread on each CPU, all with one priority
-p PRIO  --priority=PRIO   real-time priority of the threads, 1 to 99
         --policy=NAME     other, normal, batch, idle, fifo or rr; only fifo and
                           rr change what the threads run under
         --priospread      each thread has a priority less than the one before
         --mainaffinity=CPUS  CPUs of the thread that prints
-m       --mlockall        lock all memory

Wake-ups
-i US    --interval=US     interval of the first thread [default: 1000]
-d US    --distance=US     each thread's interval is longer by this [default: 500]
-A [US]  --aligned=US      all threads start together, each later by US
         --secaligned [US] all threads start at a full second, plus US
-c CLOCK --clock=CLOCK     0 CLOCK_MONOTONIC [default], 1 CLOCK_REALTIME
-r       --relative        wait for an interval, not until a time
-s       --system          wait with nanosleep(2)
-x       --posix_timers    wait for a signal of timer_create(2)
-R       --resolution      measure the step of the clock

End
-l NUM   --loops=NUM       end after NUM cycles of a thread [default: never]
-D TIME  --duration=TIME   end after this many seconds (or 5m, 2h, 1d)
-b US    --breaktrace=US   end when a wake-up is later than this
         --tracemark       then write to the kernel's trace, and stop it

Machine
         --latency=US      PM QoS request of /dev/cpu_dma_latency [default: 0]
         --default-system  request nothing
         --laptop          request nothing, to save the battery
         --smi             count system management interrupts (Intel)

Output
-q       --quiet           only the result
-v       --verbose         each value, as thread:cycle:value
-o NUM   --oscope=NUM      with -v, the largest of each NUM values
-N       --nsecs           values in ns, not us
-M       --refresh_on_max  draw only after a new maximum
-h US    --histogram=US    histogram of the values below US
-H US    --histofall=US    the same with a column of all threads
         --histfile=FILE   write the histogram to FILE
         --json=FILE       write the result to FILE as JSON (-: stdout)
-F PATH  --fifo=PATH       a named pipe that gives the figures to who reads it
         --spike=US        list the values above US
         --spike-nodes=NUM list at most NUM of them [default: 1024]
-u       --unbuffered      write each line at once
         --dbg_cyclictest  with -R, each reading of the clock
         --help            this text
         --version         this program, and the version that it matches

SIGUSR1 prints the figures on stderr, SIGUSR2 writes them to
/dev/shm/cyclictestPID. punctual cyclic --help shows the native form.
";
