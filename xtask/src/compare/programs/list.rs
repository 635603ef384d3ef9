//! Real programs. Their sources are in `xtask/programs`, which the scripts know as `$P`.

/// A program.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) name: &'static str,
    /// What Debian packages have it.
    pub(super) packages: &'static str,
    /// Prints its version.
    pub(super) version: &'static str,
    /// Runs once, in an empty folder.
    pub(super) setup: &'static str,
    pub(super) work: Work,
}

/// What it does.
#[derive(Debug)]
pub(super) enum Work {
    /// It runs to its end, and prints what has to be the same.
    Ends(&'static str),
    /// It serves until SIGTERM.
    Serves {
        /// The server.
        server: &'static str,
        /// Its child serves, and is the one to attach to.
        worker: bool,
        /// Succeeds once it serves.
        ready: &'static str,
        /// What is timed, and prints what has to be the same.
        load: &'static str,
    },
}

use Work::{Ends, Serves};

const fn python(name: &'static str, script: &'static str) -> Program {
    Program { name, packages: "python3", version: PYTHON, setup: "", work: Ends(script) }
}

const PYTHON: &str = "\"$PYTHON\" --version";

pub(super) const PROGRAMS: &[Program] = &[
    python("python: time.sleep", "exec \"$PYTHON\" $P/sleep.py"),
    python("python: asyncio", "exec \"$PYTHON\" $P/asyncio_tasks.py"),
    python("python: Condition", "exec \"$PYTHON\" $P/condition.py"),
    python("python: GIL", "exec \"$PYTHON\" $P/gil.py"),
    python("python: busy", "exec \"$PYTHON\" $P/busy.py"),
    Program {
        name: "node",
        packages: "nodejs",
        version: "node --version",
        setup: "",
        work: Ends("exec node $P/timers.js"),
    },
    Program {
        name: "java",
        packages: "openjdk-17-jdk-headless",
        version: "java -version 2>&1",
        setup: "javac -d . $P/Sleeper.java",
        work: Ends("exec java Sleeper"),
    },
    Program {
        name: "Go, static",
        packages: "golang-go",
        version: "go version",
        setup: "CGO_ENABLED=0 go build -o sleeper $P/sleeper.go",
        work: Ends("exec ./sleeper"),
    },
    Program {
        name: "Rust",
        packages: "rustc",
        version: "rustc --version",
        setup: "rustc -O -o sleeper $P/sleeper.rs",
        work: Ends("exec ./sleeper"),
    },
    Program {
        name: "C, static (musl)",
        packages: "musl-tools",
        version: "dpkg-query -W musl-tools",
        setup: "musl-gcc -O2 -static -o static $P/static.c",
        work: Ends("exec ./static"),
    },
    Program {
        name: "busybox sh",
        packages: "busybox-static",
        version: "busybox | head -n 1",
        setup: "",
        work: Ends("exec busybox sh -c 'i=0; while [ $i -lt 100 ]; do busybox usleep 1000; i=$((i+1)); done; echo $i'"),
    },
    Program {
        name: "bash",
        packages: "bash",
        version: "bash --version | head -n 1",
        setup: "",
        work: Ends("exec bash -c 'for i in {1..80}; do sleep 0.003; done; echo $i; exit 3'"),
    },
    Program {
        name: "perl",
        packages: "perl",
        version: "perl -e 'print $^V'",
        setup: "",
        work: Ends("exec perl $P/select.pl"),
    },
    Program {
        name: "ruby",
        packages: "ruby",
        version: "ruby --version",
        setup: "",
        work: Ends("exec ruby $P/queue.rb"),
    },
    Program {
        name: "MPICH, 2 ranks",
        packages: "mpich libmpich-dev",
        version: "mpichversion | head -n 1",
        setup: "mpicc.mpich -O2 -o ring $P/ring.c",
        work: Ends("exec mpiexec.mpich -n 2 ./ring"),
    },
    Program {
        name: "stress-ng",
        packages: "stress-ng",
        version: "stress-ng --version",
        setup: "",
        work: Ends(
            "exec stress-ng -q --switch 1 --switch-ops 20000 --futex 1 --futex-ops 20000 --pipe 1 --pipe-ops 20000 \
             --mq 1 --mq-ops 10000 --poll 1 --poll-ops 2000 --fork 1 --fork-ops 300",
        ),
    },
    Program {
        name: "ffmpeg",
        packages: "ffmpeg",
        version: "ffmpeg -version | head -n 1",
        setup: "",
        work: Ends(
            "exec ffmpeg -loglevel error -f lavfi -i testsrc=duration=6:size=640x480 -c:v mpeg4 -threads 2 -f md5 -",
        ),
    },
    Program {
        name: "sox",
        packages: "sox",
        version: "sox --version",
        setup: "",
        work: Ends("sox -n -R -r 48000 -t wav - synth 20 sine 300:3300 reverb | md5sum"),
    },
    Program {
        name: "sqlite3",
        packages: "sqlite3",
        version: "sqlite3 --version",
        setup: "",
        work: Ends("rm -f db*; exec sqlite3 db < $P/tables.sql"),
    },
    Program {
        name: "git",
        packages: "git",
        version: "git --version",
        setup: "git init -q a && cd a && for i in $(seq 60); do date +$i > f$i && git add f$i && git -c user.name=a -c user.email=b \
                commit -qm $i --date=2026-01-01T00:00:00; done",
        work: Ends(
            "rm -rf b && git clone -q --no-local a b && cd b && git log --stat --format=%s | md5sum && git -c gc.autoDetach=false gc -q",
        ),
    },
    Program {
        name: "make -j2",
        packages: "make gcc",
        version: "make --version | head -n 1",
        setup: "for i in $(seq 12); do echo \"#include <stdio.h>\nint f$i(void) { return printf(\\\"%d\\\", $i); }\" > f$i.c; done; \
                echo 'f.a: $(patsubst %.c,%.o,$(wildcard *.c)); @ar rcD $@ $(sort $^)' > Makefile",
        work: Ends("rm -f *.o f.a; make -s -j2 && md5sum f.a; make -s missing; exit $?"),
    },
    Program {
        name: "curl, busybox httpd",
        packages: "curl busybox-static",
        version: "curl --version | head -n 1",
        setup: "head -c 300000 /dev/zero > file",
        work: Ends(
            "busybox httpd -f -p 127.0.0.1:18099 & trap 'kill $!' EXIT; \
             until curl -so /dev/null http://127.0.0.1:18099/file; do sleep 0.01; done; \
             for i in $(seq 20); do curl -s --limit-rate 20m http://127.0.0.1:18099/file | md5sum; done",
        ),
    },
    Program {
        name: "cyclictest -q",
        packages: "rt-tests",
        version: "cyclictest --help | head -n 1",
        setup: "",
        work: Ends("exec cyclictest -q -p 40 -i 1000 -l 1000 | tr -s ' 0-9' '#'"),
    },
    Program {
        name: "redis-server",
        packages: "redis-server redis-tools",
        version: "redis-server --version",
        setup: "",
        work: Serves {
            server: "exec redis-server --port 18100 --bind 127.0.0.1 --save '' --loglevel warning",
            worker: false,
            ready: "redis-cli -p 18100 ping",
            load: "redis-benchmark -p 18100 -q -c 20 -n 20000 -t set,get,lpush | tr -d '\\n' | wc -l",
        },
    },
    Program {
        name: "memcached",
        packages: "memcached",
        version: "memcached --version",
        setup: "",
        work: Serves {
            server: "exec memcached -u nobody -l 127.0.0.1 -p 18101 -t 2",
            worker: false,
            ready: "perl -MIO::Socket::INET -e 'IO::Socket::INET->new(PeerAddr => \"127.0.0.1:18101\") or exit 1'",
            load: "exec perl $P/memcached.pl 18101",
        },
    },
    Program {
        name: "nginx",
        packages: "nginx-light apache2-utils",
        version: "nginx -v 2>&1",
        setup: "mkdir www && head -c 20000 /dev/zero > www/file && echo \"daemon off; pid $PWD/pid; error_log stderr crit; \
                worker_processes 1; events {} http { access_log off; server { listen 127.0.0.1:18102; root $PWD/www; } }\" > conf \
                && chmod -R go+rX .",
        work: Serves {
            server: "exec nginx -e stderr -c $PWD/conf",
            worker: true,
            ready: "curl -so /dev/null http://127.0.0.1:18102/file",
            load: "ab -q -c 8 -n 10000 http://127.0.0.1:18102/file | grep -E '^(Complete|Failed|HTML)'",
        },
    },
    Program {
        name: "postgres, pgbench",
        packages: "postgresql postgresql-contrib",
        version: "postgres --version",
        setup: "chown postgres . && runuser -u postgres -- $(dirname $(readlink -f $(command -v postgres)))/initdb -D data \
                > log && echo \"unix_socket_directories = '$PWD'\nport = 18103\nlog_min_messages = fatal\" >> data/postgresql.conf",
        work: Serves {
            server: "exec setpriv --reuid=postgres --regid=postgres --clear-groups postgres -D data",
            worker: false,
            ready: "psql -h $PWD -p 18103 -U postgres -c 'SELECT 1' postgres && \
                    { [ -f filled ] || { pgbench -h $PWD -p 18103 -U postgres -iq postgres && touch filled; }; }",
            load: "pgbench -h $PWD -p 18103 -U postgres -c 4 -j 2 -t 150 postgres 2>&1 | grep processed",
        },
    },
];
