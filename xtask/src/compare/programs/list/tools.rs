//! Programs that work to their end.

use crate::compare::programs::program::Work::Ends;
use crate::compare::programs::program::{LATE, PLAIN, Program, REMEDIED};

pub(super) const PROGRAMS: &[Program] = &[
    Program {
        name: "game in SDL: SDL_Delay",
        packages: "libsdl2-dev gcc",
        version: "sdl2-config --version",
        setup: "cc -O2 -o game $P/game.c $(sdl2-config --cflags --libs)",
        work: Ends("SDL_VIDEODRIVER=dummy exec ./game"),
        figures: LATE,
        ..REMEDIED
    },
    Program {
        name: "OpenBLAS, 2 processes of 2 threads",
        packages: "libopenblas-dev pkg-config gcc",
        version: "pkg-config --modversion openblas",
        setup: "cc -O2 -o multiply $P/multiply.c $(pkg-config --cflags --libs openblas)",
        work: Ends("export OPENBLAS_NUM_THREADS=2; ./multiply & ./multiply; wait"),
        ..REMEDIED
    },
    Program {
        name: "MPICH, 2 ranks",
        packages: "mpich libmpich-dev",
        version: "mpichversion | head -n 1",
        setup: "mpicc.mpich -O2 -o ring $P/ring.c",
        work: Ends("exec mpiexec.mpich -n 2 ./ring"),
        ..PLAIN
    },
    Program {
        name: "stress-ng",
        packages: "stress-ng",
        version: "stress-ng --version",
        work: Ends(
            "exec stress-ng -q --switch 1 --switch-ops 4000 --futex 1 --futex-ops 4000 --pipe 1 --pipe-ops 20000 \
             --mq 1 --mq-ops 10000 --poll 1 --poll-ops 2000 --fork 1 --fork-ops 100",
        ),
        ..REMEDIED
    },
    Program {
        name: "ffmpeg",
        packages: "ffmpeg",
        version: "ffmpeg -version | head -n 1",
        work: Ends(
            "exec ffmpeg -loglevel error -f lavfi -i testsrc=duration=6:size=640x480 -c:v mpeg4 -threads 2 -f md5 -",
        ),
        ..PLAIN
    },
    Program {
        name: "ffmpeg -re",
        packages: "ffmpeg python3",
        version: "ffmpeg -version | head -n 1",
        work: Ends(
            "ffmpeg -loglevel error -re -f lavfi -i testsrc=duration=0.3:size=160x120:rate=50 -f rawvideo -pix_fmt rgb24 - \
             | \"$PYTHON\" $P/frames.py 57600 50",
        ),
        figures: LATE,
        ..REMEDIED
    },
    Program {
        name: "sox",
        packages: "sox",
        version: "sox --version",
        work: Ends("sox -n -R -r 48000 -t wav - synth 20 sine 300:3300 reverb | md5sum"),
        ..PLAIN
    },
    Program {
        name: "sqlite3",
        packages: "sqlite3",
        version: "sqlite3 --version",
        work: Ends("rm -f db*; exec sqlite3 db < $P/tables.sql"),
        ..REMEDIED
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
        ..REMEDIED
    },
    Program {
        name: "make -j2",
        packages: "make gcc",
        version: "make --version | head -n 1",
        setup: "for i in $(seq 12); do echo \"#include <stdio.h>\nint f$i(void) { return printf(\\\"%d\\\", $i); }\" > f$i.c; done; \
                echo 'f.a: $(patsubst %.c,%.o,$(wildcard *.c)); @ar rcD $@ $(sort $^)' > Makefile",
        work: Ends("rm -f *.o f.a; make -s -j2 && md5sum f.a; make -s missing; exit $?"),
        ..PLAIN
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
        ..REMEDIED
    },
    Program {
        name: "cyclictest -q",
        packages: "rt-tests",
        version: "cyclictest --help | head -n 1",
        work: Ends("exec cyclictest -q -p 40 -i 1000 -l 1000 | tr -s ' 0-9' '#'"),
        ..PLAIN
    },
];
