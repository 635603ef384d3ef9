//! The options of cyclictest: those of 2.x, those that only older versions took, and what `--help` and `--version` say.

use crate::args::getopt::{Opt, Value};

/// The version of rt-tests whose options and output these are.
pub(super) const MATCHED: &str = "2.40";

/// An option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Id {
    Affinity,
    Aligned,
    Breaktrace,
    Clock,
    DefaultSystem,
    Distance,
    Duration,
    Fifo,
    Histogram,
    Histofall,
    Histfile,
    Interval,
    Json,
    Laptop,
    Latency,
    Loops,
    MainAffinity,
    Mlockall,
    RefreshOnMax,
    Nsecs,
    Oscope,
    Priority,
    Policy,
    Priospread,
    Quiet,
    Relative,
    Resolution,
    Secaligned,
    System,
    Smp,
    Spike,
    SpikeNodes,
    Smi,
    Threads,
    Tracemark,
    Unbuffered,
    Verbose,
    Debug,
    PosixTimers,
    Help,
    Version,
    Numa,
    /// It has no effect: what it asked for is done anyway, or is gone.
    Gone(&'static str),
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
    opt(Some('c'), Some("clock"), Needed, Id::Clock),
    opt(None, Some("default-system"), No, Id::DefaultSystem),
    opt(Some('d'), Some("distance"), Needed, Id::Distance),
    opt(Some('D'), Some("duration"), Needed, Id::Duration),
    opt(Some('F'), Some("fifo"), Needed, Id::Fifo),
    opt(Some('h'), Some("histogram"), Needed, Id::Histogram),
    opt(Some('H'), Some("histofall"), Needed, Id::Histofall),
    opt(None, Some("histfile"), Needed, Id::Histfile),
    opt(Some('i'), Some("interval"), Needed, Id::Interval),
    opt(None, Some("json"), Needed, Id::Json),
    opt(None, Some("laptop"), No, Id::Laptop),
    opt(None, Some("latency"), Needed, Id::Latency),
    opt(Some('l'), Some("loops"), Needed, Id::Loops),
    opt(None, Some("mainaffinity"), Needed, Id::MainAffinity),
    opt(Some('m'), Some("mlockall"), No, Id::Mlockall),
    opt(Some('M'), Some("refresh_on_max"), No, Id::RefreshOnMax),
    opt(Some('N'), Some("nsecs"), No, Id::Nsecs),
    opt(Some('o'), Some("oscope"), Needed, Id::Oscope),
    opt(Some('p'), Some("priority"), Needed, Id::Priority),
    opt(None, Some("policy"), Needed, Id::Policy),
    opt(None, Some("priospread"), No, Id::Priospread),
    opt(Some('q'), Some("quiet"), No, Id::Quiet),
    opt(Some('r'), Some("relative"), No, Id::Relative),
    opt(Some('R'), Some("resolution"), No, Id::Resolution),
    opt(None, Some("secaligned"), Attached, Id::Secaligned),
    opt(Some('s'), Some("system"), No, Id::System),
    opt(Some('S'), Some("smp"), No, Id::Smp),
    opt(None, Some("spike"), Needed, Id::Spike),
    opt(None, Some("spike-nodes"), Needed, Id::SpikeNodes),
    opt(None, Some("smi"), No, Id::Smi),
    opt(Some('t'), Some("threads"), Attached, Id::Threads),
    opt(None, Some("tracemark"), No, Id::Tracemark),
    opt(Some('u'), Some("unbuffered"), No, Id::Unbuffered),
    opt(Some('v'), Some("verbose"), No, Id::Verbose),
    opt(None, Some("dbg_cyclictest"), No, Id::Debug),
    opt(Some('x'), Some("posix_timers"), No, Id::PosixTimers),
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
    opt(Some('X'), None, No, Id::Debug),
    opt(Some('y'), None, Needed, Id::Policy),
    opt(Some('e'), None, Needed, Id::Latency),
];

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
