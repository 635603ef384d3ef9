"""The sqlite3 shell under an ailment: `disk` (each statement is a transaction), `locked` (another connection holds the file), `nice`."""

import sqlite3
import subprocess
import sys
import threading
import time

from culprit import draws
from injected import WORK, begin, end, hog, hogs, schedstat, since, some_cpu, victim

kind = sys.argv[1]
file = f"orders-{draws.randint(100, 999)}.db"
cpu, thief = some_cpu(), f"thief-{draws.randint(10, 99)}"
setup = sqlite3.connect(WORK / file, check_same_thread=False, isolation_level=None)
setup.execute("create table t(a integer)")
shell = victim("sqlite3", file, cwd=WORK, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
               cpu=cpu if kind == "nice" else None, nice=19 if kind == "nice" else 0)


def ask(statement):
    """Lets the shell do something; returns once it has."""
    shell.stdin.write(statement + "\nselect 'done';\n")
    shell.stdin.flush()
    while "done" not in shell.stdout.readline():
        pass


ask("select 1;")
if kind == "nice":
    hog(thief, cpu)
started = begin(shell.pid)
lost = times = waited = 0
until = time.monotonic() + 2.5
if kind == "disk":
    while time.monotonic() < until:
        before, at = schedstat(shell.pid), time.monotonic_ns()
        ask("insert into t values (1);" * 20)
        passed, (ran, queued) = time.monotonic_ns() - at, since(shell.pid, before)
        lost, waited, times = lost + passed - ran - queued, waited + queued, times + 20
    # With its own settings sqlite forces the journal to the disk twice in a transaction, and the database once.
    end(started, lost, times, shell, file=f"{file}-journal", waited_ns=waited)
elif kind == "locked":
    ask(".timeout 5000")
    while time.monotonic() < until:
        setup.execute("begin exclusive")
        release = threading.Timer(draws.uniform(0.15, 0.3), lambda: setup.execute("commit"))
        release.start()
        at = time.monotonic_ns()
        ask("select count(*) from t;")
        lost, times = lost + time.monotonic_ns() - at, times + 1
        release.join()
    end(started, lost, times, shell, file=file)
else:
    before, hog_before = schedstat(shell.pid), schedstat(hogs[0])
    while time.monotonic() < until:
        ask("with recursive c(x) as (select 1 union all select x + 1 from c where x < 20000) select sum(x * x) from c;")
        times += 1
    end(started, since(shell.pid, before)[1], times, shell, culprit=thief, culprit_ns=since(hogs[0], hog_before)[0])
