//! What `cyclictest --help` and `--version` say.

use super::names::MATCHED;

/// This program, and what it behaves like.
pub(super) fn maker() -> String {
    format!("punctual {}, in the form of cyclictest V {MATCHED} of rt-tests", env!("CARGO_PKG_VERSION"))
}

/// The first line is cyclictest's, from which programs read the version.
pub(super) fn text() -> String {
    format!("cyclictest V {MATCHED}\n({})\nUsage:\ncyclictest <options>\n\n{OPTIONS}", maker())
}

const OPTIONS: &str = "\
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
