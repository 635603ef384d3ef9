//! The commands that faults are tried on.

/// `switch` measures changes of frequency.
pub(crate) const CPUFREQ: &str = "/sys/devices/system/cpu/cpufreq/policy0";

/// What a command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Measures, and writes a run.
    Measures,
    /// Runs a program.
    Runs,
    /// Watches a running one.
    Watches,
    /// Reads saved runs, and writes a file.
    Reads,
}

/// A command. In its words OUT is the file that it writes, and OLD and NEW are saved runs. TO is a free
/// address, and PID this process.
#[derive(Debug)]
pub(crate) struct Subject {
    /// In the table.
    pub(crate) name: &'static str,
    /// What it does.
    pub(crate) kind: Kind,
    /// Its words.
    words: &'static [&'static str],
    /// Added for a run that is over soon.
    short: &'static [&'static str],
    /// Added for one that goes on until something ends it.
    long: &'static [&'static str],
}

const SHORT: &[&str] = &["--duration", "120ms", "--rounds", "2", "--json", "OUT"];
const LONG: &[&str] = &["--duration", "10m", "--rounds", "9999", "--json", "OUT"];

const fn measures(name: &'static str, words: &'static [&'static str]) -> Subject {
    Subject { name, kind: Kind::Measures, words, short: SHORT, long: LONG }
}

const fn reads(name: &'static str, words: &'static [&'static str]) -> Subject {
    Subject { name, kind: Kind::Reads, words, short: &[], long: &[] }
}

/// All of them.
pub(crate) const SUBJECTS: &[Subject] = &[
    measures("wait", &["wait", "nanosleep", "futex", "--for", "200us"]),
    measures("why", &["why", "--for", "200us"]),
    measures(
        "yield",
        &["yield", "sched_yield", "--competitors", "1", "--policy", "fifo:40", "--competitor-policy", "fifo:50"],
    ),
    measures("polls", &["yield", "sched_yield", "--polls", "0,100"]),
    measures("ipc", &["ipc", "posix-mq", "sysv-mq", "shm-futex", "ring", "pipe", "tcp"]),
    measures("pace", &["pace", "--rate", "2k", "--by", "hybrid,usleep", "--to", "TO"]),
    measures("calibrate", &["calibrate", "nanosleep"]),
    Subject {
        name: "cyclic",
        kind: Kind::Measures,
        words: &["cyclic", "--policy", "other", "--json", "OUT"],
        short: &["--duration", "120ms"],
        long: &["--duration", "10m"],
    },
    Subject {
        name: "ramp",
        kind: Kind::Measures,
        words: &["governor", "ramp", "--work", "100us", "--rest", "10ms"],
        short: &["--loops", "20", "--rounds", "1", "--json", "OUT"],
        long: &["--loops", "200", "--rounds", "400", "--json", "OUT"],
    },
    Subject {
        name: "switch",
        kind: Kind::Measures,
        words: &["governor", "switch"],
        short: &["--switches", "1", "--rounds", "1", "--json", "OUT"],
        long: &["--switches", "10", "--rounds", "100", "--json", "OUT"],
    },
    Subject {
        name: "checkup",
        kind: Kind::Measures,
        words: &["checkup"],
        short: &["--quick", "--json", "OUT"],
        long: &["--thorough", "--json", "OUT"],
    },
    Subject {
        name: "run",
        kind: Kind::Runs,
        words: &["run", "--nice", "1", "--"],
        short: &["echo", "ran"],
        long: &["sleep", "600"],
    },
    Subject {
        name: "why --",
        kind: Kind::Runs,
        words: &["why", "--"],
        short: &["echo", "ran"],
        long: &["sleep", "600"],
    },
    Subject {
        name: "why --pid",
        kind: Kind::Watches,
        words: &["why", "--pid", "PID", "--json", "OUT"],
        short: &["--duration", "120ms"],
        long: &["--duration", "10m"],
    },
    reads("report", &["report", "OLD", "--html", "-o", "OUT"]),
    reads("compare", &["compare", "OLD", "NEW", "--html", "OUT"]),
    reads("merge", &["merge", "OLD", "NEW", "-o", "OUT"]),
];

impl Subject {
    /// The words of a run that is over soon.
    pub(crate) fn short(&self) -> Vec<&'static str> {
        [self.words, self.short].concat()
    }

    /// The words of a run that goes on until something ends it.
    pub(crate) fn long(&self) -> Vec<&'static str> {
        [self.words, self.long].concat()
    }

    /// Whether it measures.
    pub(crate) fn measures(&self) -> bool {
        self.kind == Kind::Measures
    }

    /// Whether this machine has what it measures.
    pub(crate) fn is_possible(&self) -> bool {
        self.name != "switch" || std::path::Path::new(CPUFREQ).exists()
    }

    /// Whether its short run takes seconds.
    pub(crate) fn is_slow(&self) -> bool {
        self.name == "checkup"
    }
}
