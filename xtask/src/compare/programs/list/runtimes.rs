//! Languages and their runtimes: each program waits in the way of its language.

use crate::compare::programs::program::Work::Ends;
use crate::compare::programs::program::{Figure, LATE, PLAIN, Program, REMEDIED, less, more};

const fn python(name: &'static str, script: &'static str, figures: &'static [Figure]) -> Program {
    let version = "\"$PYTHON\" --version";
    Program { name, packages: "python3", version, work: Ends(script), figures, remedies: !figures.is_empty(), ..PLAIN }
}

/// Two threads that poll for each other, alone or beside one that computes, on one CPU.
const fn polling(name: &'static str, script: &'static str, figures: &'static [Figure]) -> Program {
    Program {
        name,
        packages: "gcc libc6-dev",
        version: "cc --version",
        setup: "cc -O2 -std=gnu11 -o polling $P/polling.c -lpthread",
        work: Ends(script),
        figures,
        ..REMEDIED
    }
}

const ALONE: &[Figure] = &[more("round trips/s")];
const BESIDE: &[Figure] = &[more("round trips/s"), more("computed beside them/s")];

pub(super) const PROGRAMS: &[Program] = &[
    python("python: time.sleep", "exec \"$PYTHON\" $P/sleep.py", LATE),
    python("python: asyncio.sleep", "exec \"$PYTHON\" $P/asyncio_tasks.py", LATE),
    python("python: Condition.wait, timeout", "exec \"$PYTHON\" $P/timeouts.py", LATE),
    python("python: Condition", "exec \"$PYTHON\" $P/condition.py", &[]),
    python("python: GIL", "exec \"$PYTHON\" $P/gil.py", &[]),
    python("python: busy", "exec \"$PYTHON\" $P/busy.py", &[]),
    Program {
        name: "node: setInterval",
        packages: "nodejs",
        version: "node --version",
        work: Ends("exec node $P/timers.js"),
        figures: LATE,
        ..REMEDIED
    },
    Program {
        name: "java",
        packages: "openjdk-17-jdk-headless",
        version: "java -version 2>&1",
        setup: "javac -d . $P/Sleeper.java",
        work: Ends("exec java Sleeper"),
        figures: &[less("Thread.sleep late at p50, us"), less("parkNanos late at p50, us")],
        ..REMEDIED
    },
    Program {
        name: "Go, static",
        packages: "golang-go",
        version: "go version",
        setup: "CGO_ENABLED=0 go build -o sleeper $P/sleeper.go",
        work: Ends("exec ./sleeper"),
        ..PLAIN
    },
    Program {
        name: "Rust",
        packages: "rustc",
        version: "rustc --version",
        setup: "rustc -O -o sleeper $P/sleeper.rs",
        work: Ends("exec ./sleeper"),
        figures: &[less("4000 turns by Condvar, s"), less("thread::sleep late at p50, us")],
        ..REMEDIED
    },
    polling("C: usleep(0) in a loop", "exec ./polling usleep alone", ALONE),
    polling("C: usleep(0) beside a busy thread", "exec ./polling usleep", BESIDE),
    polling("C: sched_yield beside a busy thread", "exec ./polling yield", BESIDE),
    Program {
        name: "C, static (musl)",
        packages: "musl-tools",
        version: "dpkg-query -W musl-tools",
        setup: "musl-gcc -O2 -static -o static $P/static.c",
        work: Ends("exec ./static"),
        ..PLAIN
    },
    Program {
        name: "busybox sh",
        packages: "busybox-static",
        version: "busybox | head -n 1",
        work: Ends("exec busybox sh -c 'i=0; while [ $i -lt 100 ]; do busybox usleep 1000; i=$((i+1)); done; echo $i'"),
        ..PLAIN
    },
    Program {
        name: "bash",
        packages: "bash",
        version: "bash --version | head -n 1",
        work: Ends("exec bash -c 'for i in {1..80}; do sleep 0.003; done; echo $i; exit 3'"),
        ..PLAIN
    },
    Program {
        name: "perl: select",
        packages: "perl",
        version: "perl -e 'print $^V'",
        work: Ends("exec perl $P/select.pl"),
        figures: LATE,
        ..REMEDIED
    },
    Program {
        name: "ruby: sleep",
        packages: "ruby",
        version: "ruby --version",
        work: Ends("exec ruby $P/queue.rb"),
        figures: LATE,
        ..REMEDIED
    },
];
