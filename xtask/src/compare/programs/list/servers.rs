//! Servers under load.

use crate::compare::programs::program::Work::Serves;
use crate::compare::programs::program::{Figure, Program, REMEDIED, more};

const RATE: &[Figure] = &[more("requests/s")];

pub(super) const PROGRAMS: &[Program] = &[
    Program {
        name: "redis-server",
        packages: "redis-server redis-tools",
        version: "redis-server --version",
        work: Serves {
            server: "exec redis-server --port 18100 --bind 127.0.0.1 --save '' --loglevel warning",
            worker: false,
            ready: "redis-cli -p 18100 ping",
            load: "redis-benchmark -p 18100 --csv -c 20 -n 15000 -t set,get > many && \
                   redis-benchmark -p 18100 --csv -c 1 -n 4000 -t get > one && \
                   cat many one | tr -d '\"' | awk -F, '/^[SG]ET/ { print $2 }' > $FIGURES; cut -d, -f1 many one",
        },
        figures: &[more("20 clients: SET/s"), more("20 clients: GET/s"), more("one client: GET/s")],
        ..REMEDIED
    },
    Program {
        name: "memcached",
        packages: "memcached",
        version: "memcached --version",
        work: Serves {
            server: "exec memcached -u nobody -l 127.0.0.1 -p 18101 -t 2",
            worker: false,
            ready: "perl -MIO::Socket::INET -e 'IO::Socket::INET->new(PeerAddr => \"127.0.0.1:18101\") or exit 1'",
            load: "exec perl $P/memcached.pl 18101",
        },
        ..REMEDIED
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
            load: "ab -q -c 8 -n 5000 http://127.0.0.1:18102/file > ab && awk '/^Requests per/ { print $4 }' ab > $FIGURES; \
                   grep -E '^(Complete|Failed|HTML)' ab",
        },
        figures: RATE,
        ..REMEDIED
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
            load: "pgbench -h $PWD -p 18103 -U postgres -c 4 -j 2 -t 150 postgres > bench 2>&1; \
                   awk '/^tps/ { print $3 }' bench > $FIGURES; grep processed bench",
        },
        figures: &[more("transactions/s")],
        ..REMEDIED
    },
];
