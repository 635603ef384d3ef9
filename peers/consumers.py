#!/usr/bin/env python3
"""Programs that read cyclictest, run from their own sources on what `punctual` prints under cyclictest's name.

DIR has clones of their repositories, each under the name of its repository; one that is not there is not run, and said so. Root is needed
for FIFO. Runs take 2 s at most. It prints a Markdown table: what was run, on which command line, and what it said.
"""

import ast
import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import types
from pathlib import Path

from turns import punctual

if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
    raise SystemExit(__doc__)
DIR, COMMAND = Path(sys.argv[1]).resolve(), Path(sys.argv[2] if len(sys.argv) > 2 else punctual()).resolve()
WORK = Path(tempfile.mkdtemp())
LINK = WORK / "cyclictest"
LINK.symlink_to(COMMAND)
ENVIRONMENT = {**os.environ, "PATH": f"{WORK}:{os.environ['PATH']}"}


class NotRun(Exception):
    """Why a consumer was not run."""


def source(path):
    """A file or folder of a clone."""
    found = DIR / path
    if not found.exists():
        raise NotRun(f"{path} is not in the folder")
    return found


def tool(name):
    if not shutil.which(name):
        raise NotRun(f"needs {name}")
    return name


def said(*words, **options):
    """What a program printed on stdout; its failure is a verdict."""
    options = {"env": ENVIRONMENT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "timeout": 60, **options}
    done = subprocess.run([str(word) for word in words], **options)
    if done.returncode:
        raise AssertionError(f"status {done.returncode}: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
    return done.stdout


def cyclictest(line):
    return said(LINK, *line.split())


def last(text, count=3):
    return "; ".join(line.strip() for line in text.strip().splitlines()[-count:])


def linaro():
    script = source("test-definitions/automated/linux/cyclictest/cyclictest.sh")
    text = said("sh", "./cyclictest.sh", "-t", "1", "-a", "0", "-D", "1", cwd=script.parent)
    results = [line for line in text.splitlines() if "-latency pass" in line]
    assert len(results) == 3, text
    return "its whole script: `-q -p 98 -i 1000 -t 1 -a 0 -D 1 -m --json=...`", "; ".join(results)


def checkbox_tests():
    tests = source("checkbox/providers/base/tests/test_run_cyclictest.py")
    path = f"{tests.parent}:{source('checkbox/providers/base/bin')}"
    done = subprocess.run([sys.executable, "-m", "unittest", tests.stem], env={**ENVIRONMENT, "PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return "its unit tests, which run no cyclictest", last(done.stderr)


def checkbox():
    folder = source("checkbox/providers/base/bin/run_cyclictest.py").parent
    sys.path.insert(0, str(folder))
    import run_cyclictest

    line = "-a0 -t1 -m -p99 -i250 -h700 -q -D 1"
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        status = run_cyclictest.verify_cyclictest_results(types.SimpleNamespace(stdout=said("chrt", "-f", "99", LINK, *line.split())))
    lines = [re.sub(r"\s+", " ", one) for one in printed.getvalue().splitlines() if one.startswith("Test")]
    assert len(lines) == 2, printed.getvalue()
    return f"its verdict on `chrt -f 99 cyclictest {line}` (its own line asks for CPUs 2 and 3)", f"status {status}: " + "; ".join(lines)


def node_tuning():
    text = source("cluster-node-tuning-operator/test/e2e/performanceprofile/functests/4_latency/latency.go").read_text()
    (expression,) = re.findall(r"extractLatencyValues\(`(# Max.*?)`", text)
    found = re.search(expression, cyclictest("-D 1 -p 95 -t 1 -a 0 -h 30 -i 1000 -m -q"))
    values = [int(word) for word in found[1].split(" ") if word]
    return f"its expression `{expression}` by Python: the test itself needs a cluster", f"latencies {values}"


def cnf_runner():
    folder = source("cnf-features-deploy/cnf-tests/pod-utils/cyclictest-runner").parents[2]
    if len(os.sched_getaffinity(0)) < 2:
        raise NotRun("its runner keeps one CPU for the main thread: needs two")
    said(tool("go"), "build", "-mod=vendor", "-o", WORK / "runner", "./cnf-tests/pod-utils/cyclictest-runner", cwd=folder, timeout=600)
    # It calls /usr/bin/cyclictest, whatever PATH says.
    place = f"touch /usr/bin/cyclictest && mount --bind {COMMAND} /usr/bin/cyclictest && exec {WORK}/runner -duration 1 -histogram 30"
    text = said(tool("unshare"), "--mount", "sh", "-c", place)
    assert "# Max Latencies:" in text, text
    return "its runner, built from its source, in a mount namespace", next(one for one in text.splitlines() if "Max Lat" in one)


def mmtests():
    text = cyclictest("-p 95 -m -t 2 -a 0 -D 1 -h 500 -q")
    (WORK / "cyclictest-histogram.log").write_text(text)
    report = source("mmtests/shellpack_src/src/cyclictest/extract-report.pl")
    call = "sub open_log { open my $f, '<', $_[0] or die; $f } require $ARGV[0]; extractReport({}, '.')"
    rows = said(tool("perl"), "-e", call, report, cwd=WORK).splitlines()
    assert len(rows) == 4, text
    return "its `extractReport`, `-t 2` (it leaves the last thread out)", "; ".join(rows).replace("\t", " ")


def lkp():
    tool("ruby")
    if subprocess.run(["ruby", "-e", "require 'active_support'"], stderr=subprocess.DEVNULL).returncode:
        raise NotRun("needs the gem activesupport")
    text = said("ruby", source("lkp-tests/programs/cyclictest/parse"), input=cyclictest("-p 95 -m -i 1000 -h 100 -q -l 1000"))
    return "its parser", last(text)


def rteval():
    module = source("rteval/rteval/modules/measurement/cyclictest.py")
    try:
        ast.parse(module.read_text())
    except SyntaxError as error:
        raise NotRun("this clone is in Python 2") from error
    for absent in ["libxml2"]:
        try:
            __import__(absent)
        except ImportError as error:
            raise NotRun(f"needs Python's {absent}") from error
    sys.path.insert(0, str(source("rteval")))
    return "its module", last(said(sys.executable, "-m", "rteval.modules.measurement.cyclictest", cwd=source("rteval")))


CONSUMERS = {
    "Linaro/test-definitions": linaro,
    "canonical/checkbox, tests": checkbox_tests,
    "canonical/checkbox": checkbox,
    "openshift/cluster-node-tuning-operator": node_tuning,
    "openshift-kni/cnf-features-deploy": cnf_runner,
    "gormanm/mmtests": mmtests,
    "intel/lkp-tests": lkp,
    "rteval": rteval,
}

print("| consumer | verdict | what was run | what it said |\n|---|---|---|---|")
failed = 0
for name, consume in CONSUMERS.items():
    try:
        verdict, (ran, told) = "reads it", consume()
    except NotRun as why:
        verdict, ran, told = "not run", "", str(why)
    except Exception as error:
        verdict, ran, told = "FAILED", "", f"{type(error).__name__}: {error}"
        failed += 1
    print(f"| {name} | {verdict} | {ran} | {told.replace('|', '/')} |")
shutil.rmtree(WORK)
sys.exit(1 if failed else 0)
