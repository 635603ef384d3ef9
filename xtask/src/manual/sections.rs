//! The sections of a manual page that the command line does not define: examples, exit status, files, related pages.

/// An example: a command line, and what it is for.
type Example = (&'static str, &'static str);

/// What a page has beside its flags.
pub(super) struct Sections {
    /// The command, as its page is named: `punctual-wait`.
    pub(super) page: &'static str,
    /// Command lines that its parser takes.
    pub(super) examples: &'static [Example],
    /// What its exit statuses mean.
    status: &'static [Example],
    /// Its files.
    files: &'static [Example],
    /// Related pages.
    see_also: &'static str,
}

const MEASURED: &[Example] = &[
    ("0", "Done."),
    ("1", "Failed: nothing was measured, an output was not written, or a required condition was lost."),
    ("2", "Bad usage. Nothing was changed."),
    ("3", "A limit is exceeded."),
    ("4", "A limit could not be judged, and none is exceeded."),
    ("128 + n", "Ended by signal n, after what had been measured was reported (130: Ctrl-C)."),
];
const PLAIN: &[Example] = &[("0", "Done."), ("1", "Failed."), ("2", "Bad usage. Nothing was changed.")];

const LAST: Example = (
    "$XDG_STATE_HOME/punctual/last.json, or ~/.local/state/punctual/last.json",
    "The last run of this user, which `punctual report last` shows. /var/tmp/punctual-UID is used where neither folder can be.",
);
const UNWRITTEN: Example =
    ("unwritten-*.json in the same folder", "Runs whose outputs could not be written; the last 20 are kept.");
const JOURNAL: Example =
    ("/run/punctual", "What to restore if the command is killed: governors, frequency limits, interrupts.");
const NUMBERED: Example = ("run-*.json in the same folder", "The last 20 runs, which the first screens name.");
const KEPT: &[Example] = &[LAST, NUMBERED, UNWRITTEN, JOURNAL];

/// A page of a command that measures.
const MEASURING: Sections = Sections { page: "", examples: &[], status: MEASURED, files: KEPT, see_also: "" };
/// A page of a command that reads runs.
const READING: Sections = Sections { status: PLAIN, files: &[LAST], ..MEASURING };
/// A page of a command that changes the machine.
const CHANGING: Sections = Sections { status: PLAIN, files: &[JOURNAL], ..MEASURING };

/// All pages.
pub(super) const PAGES: &[Sections] = &[
    Sections {
        page: "punctual",
        examples: &[
            ("punctual", "Measure this machine for under 30 s and say what to use."),
            ("punctual --quick", "The same within 5 s, with wider intervals."),
            ("punctual report --full last", "All tables of the last run."),
            ("punctual --html machine.html", "A page with charts as well."),
        ],
        see_also: "punctual-wait(1), punctual-yield(1), punctual-ipc(1), punctual-run(1), punctual-report(1), \
                   punctual-compare(1), sched(7), time(7), cyclictest(8)",
        ..MEASURING
    },
    Sections {
        page: "punctual-about",
        examples: &[(
            "punctual about",
            "What is installed and where, and the remedy for each condition that is refused.",
        )],
        status: PLAIN,
        files: &[(
            "../lib/punctual, beside the command's folder",
            "The libraries that `punctual run` loads into programs.",
        )],
        see_also: "punctual-run(1), capabilities(7), setcap(8), limits.conf(5)",
    },
    Sections {
        page: "punctual-checkup",
        examples: &[
            ("punctual checkup --thorough --json machine.json", "Take some minutes; keep the whole run."),
            ("punctual checkup --repeat 4 --json base.json", "Four runs, base-1.json to base-4.json, as a baseline."),
            ("punctual checkup --full", "Print all tables, not only the first screen."),
        ],
        see_also: "punctual(1), punctual-report(1), punctual-compare(1)",
        ..MEASURING
    },
    Sections {
        page: "punctual-wait",
        examples: &[
            ("punctual wait", "About 40 methods for 10 us, 100 us and 1 ms."),
            ("punctual wait usleep nanosleep --for 1us --policy other,rr:40", "What a real-time policy brings."),
            ("punctual wait clock_nanosleep_abs --timer-slack 50us,1ns --samples 100k", "What timer slack costs."),
            ("punctual wait --for 1ms --interrupt 200us", "What signals make of sleeps."),
            (
                "punctual wait clock_nanosleep_abs --for 1ms --fail-if p99=200us",
                "A limit for CI: status 3 if it is exceeded.",
            ),
            ("punctual wait --list", "All methods and what they need."),
        ],
        see_also: "punctual(1), nanosleep(2), clock_nanosleep(2), timerfd_create(2), PR_SET_TIMERSLACK(2const), sched(7)",
        ..MEASURING
    },
    Sections {
        page: "punctual-cyclic",
        examples: &[
            ("punctual cyclic", "Ten seconds of 1 ms wake-ups on every CPU, at the highest priority that may be had."),
            ("punctual cyclic --load cpu,fork --duration 10m --json loaded.json", "Beside load, which the run names."),
            ("punctual cyclic --fail-if max=150us", "A limit for CI: status 3 if it is exceeded."),
            (
                "punctual cyclic --every 200us --policy fifo:90 --cpu 2-3",
                "What `cyclictest -p 90 -i 200 -a 2-3 -t 2` measures.",
            ),
        ],
        see_also: "punctual(1), punctual-why(1), cyclictest(8), sched(7), clock_nanosleep(2)",
        ..MEASURING
    },
    Sections {
        page: "punctual-why",
        examples: &[
            ("punctual why", "Own waits of 100 us and 1 ms: where their lateness comes from."),
            ("punctual why -- ./my-program", "A program, from its first instruction to its end."),
            ("punctual why --pid 1234 --duration 30s", "A running process, for half a minute."),
            ("punctual why --pid 1234 --thread 'worker-*' --html why.html", "Some of its threads, as a page."),
            ("punctual why --pid 1234 --advise", "What would make it wake up earlier, tried on the running process."),
            (
                "punctual why -o why.txt --json why.json -- ./my-program",
                "The report to files; stderr stays the program's.",
            ),
        ],
        status: &[
            ("0", "Done."),
            ("1", "It failed while running; stderr says why."),
            ("2", "Bad usage: nothing was changed or started."),
            ("any", "With a program: its own status; 128 + N after signal N, 127 if not found, 126 if not executable."),
        ],
        files: KEPT,
        see_also: "punctual-wait(1), punctual-run(1), perf_event_open(2), proc(5), perf-sched(1), capabilities(7)",
    },
    Sections {
        page: "punctual-ipc",
        examples: &[
            ("punctual ipc --size 64,16k", "The usual mechanisms, with small and larger messages."),
            ("punctual ipc posix-mq --mode sporadic --cpus 1,0", "Rare messages from CPU 1 to CPU 0."),
            ("punctual ipc posix-mq --mode saturated --policy other,fifo:40", "Many messages, under two policies."),
            ("punctual ipc ring pipe --matrix", "Every pair of CPUs."),
        ],
        see_also: "punctual(1), mq_overview(7), pipe(7), unix(7), shm_overview(7), futex(2)",
        ..MEASURING
    },
    Sections {
        page: "punctual-yield",
        examples: &[
            ("punctual yield", "15 methods, alone and beside competitors."),
            ("punctual yield sched_yield usleep0 --competitors 2", "Two methods beside two competitors."),
            ("punctual yield --polls 0,100,1k,10k", "How often to poll before yielding."),
        ],
        see_also: "punctual(1), sched_yield(2), sched(7), getrusage(2)",
        ..MEASURING
    },
    Sections {
        page: "punctual-calibrate",
        examples: &[
            ("punctual calibrate", "What nanosleep adds: as found, with slack 1 ns, under SCHED_FIFO."),
            ("punctual calibrate usleep select --check 200us", "Two methods, and waits of 200 us shortened by it."),
            ("punctual calibrate --watch", "As it drifts, until Ctrl-C."),
        ],
        see_also: "punctual(1), punctual-wait(1), nanosleep(2)",
        ..MEASURING
    },
    Sections {
        page: "punctual-pace",
        examples: &[
            (
                "punctual pace --rate 15k --tick-only",
                "How evenly each method keeps 15 000 events a second; sends nothing.",
            ),
            ("punctual pace --rate 15k --to 127.0.0.1:9999 --duration 3s", "The same with datagrams to one address."),
            ("punctual pace --sweep 1k..1M --tick-only", "The highest rate that each method holds."),
            ("punctual pace --receive 0.0.0.0:9999", "The other end, on another machine."),
        ],
        see_also: "punctual(1), udp(7), tc-fq(8), tc-etf(8)",
        ..MEASURING
    },
    Sections {
        page: "punctual-report",
        examples: &[
            ("punctual report --full last", "All tables of the last run."),
            ("punctual report run.json --html -o run.html", "A page with charts; it holds the whole run."),
            ("punctual report run.html --json", "The run of a page."),
            ("punctual report run.json --hgrm -o folder", "A distribution per series, and index.csv."),
        ],
        see_also: "punctual(1), punctual-compare(1), punctual-merge(1)",
        ..READING
    },
    Sections {
        page: "punctual-compare",
        examples: &[
            ("punctual compare old.json new.json", "What changed between two runs."),
            ("punctual compare old.json last", "The last run against an older one."),
            (
                "punctual compare --old old-1.json old-2.json --new new-1.json new-2.json",
                "Several runs a side find smaller changes.",
            ),
        ],
        status: &[
            ("0", "Done; every figure with a limit was judged, and none exceeds it."),
            ("1", "Failed, or nothing could be compared."),
            ("2", "Bad usage."),
            ("3", "A limit is exceeded."),
            ("4", "A limit could not be judged, and none is exceeded; with --allow-unjudged it is 0."),
        ],
        files: &[LAST],
        see_also: "punctual(1), punctual-report(1), punctual-merge(1)",
    },
    Sections {
        page: "punctual-merge",
        examples: &[("punctual merge base-1.json base-2.json -o base.json", "Two runs of one kind as one.")],
        see_also: "punctual(1), punctual-compare(1)",
        ..READING
    },
    Sections {
        page: "punctual-run",
        examples: &[
            ("punctual run --policy fifo:40 --cpu 1 -- ./my-program", "A program under SCHED_FIFO, on CPU 1."),
            (
                "punctual run --governor performance --dma-latency 0us -- ./my-program",
                "A fast CPU without deep C-states, while it runs.",
            ),
            ("punctual run --dry-run --policy fifo:40 -- ./my-program", "Only say what would be done."),
        ],
        status: &[
            ("n", "The exit status of the program."),
            ("128 + n", "The program was ended by signal n."),
            ("1", "A required condition was refused."),
            ("2", "Bad usage. Nothing was changed."),
            ("126, 127", "The program cannot be executed, or was not found."),
        ],
        files: &[JOURNAL],
        see_also: "punctual(1), chrt(1), taskset(1), cpupower(1), sched(7)",
    },
    Sections {
        page: "punctual-governor",
        examples: &[
            ("punctual governor", "Governors, limits, idle states, and what they mean."),
            ("punctual governor ramp", "How fixed work speeds up after a rest."),
            ("punctual governor set performance", "Set a governor until `punctual governor restore`."),
        ],
        see_also: "punctual(1), punctual-run(1), cpupower(1)",
        ..CHANGING
    },
    Sections {
        page: "punctual-governor-ramp",
        examples: &[("punctual governor ramp --csv ramp.csv", "A row per loop, a column per governor, for gnuplot.")],
        see_also: "punctual-governor(1), punctual-governor-boost(1)",
        ..MEASURING
    },
    Sections {
        page: "punctual-governor-switch",
        examples: &[("punctual governor switch powersave performance", "How long a change takes, in both directions.")],
        see_also: "punctual-governor(1)",
        ..MEASURING
    },
    Sections {
        page: "punctual-governor-boost",
        examples: &[(
            "punctual governor boost --period 10ms --work 750us",
            "A periodic task as found, boosted, at full speed.",
        )],
        see_also: "punctual-governor(1)",
        ..MEASURING
    },
    Sections {
        page: "punctual-governor-set",
        examples: &[
            ("punctual governor set performance", "On all CPUs."),
            ("punctual governor set userspace --speed 1.2GHz --cpu 1", "One frequency, for the policy of CPU 1."),
        ],
        see_also: "punctual-governor-restore(1)",
        ..CHANGING
    },
    Sections {
        page: "punctual-governor-restore",
        examples: &[("punctual governor restore", "What `set` or a killed run changed.")],
        see_also: "punctual-governor-set(1)",
        ..CHANGING
    },
    Sections {
        page: "punctual-governor-show",
        examples: &[("punctual governor show", "What is set, and what can be set.")],
        see_also: "punctual-governor(1)",
        ..CHANGING
    },
];

impl Sections {
    /// The sections in roff.
    pub(super) fn roff(&self) -> String {
        let mut text = String::new();
        for (title, entries) in [("EXAMPLES", self.examples), ("EXIT STATUS", self.status), ("FILES", self.files)] {
            text.push_str(&format!(".SH \"{title}\"\n"));
            for (term, meaning) in entries {
                text.push_str(&format!(".TP\n\\fB{}\\fR\n{}\n", escaped(term), escaped(meaning)));
            }
        }
        text + &format!(".SH \"SEE ALSO\"\n{}\n", escaped(self.see_also))
    }
}

/// Text of which roff takes no character as its own.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}
