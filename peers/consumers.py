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


def origin():
    text = source("origin/test/extended/kernel/tools.go").read_text()
    (function,) = re.findall(r"^func parseCyclictestResults\(.*?^}\n", text, re.M | re.S)
    report = WORK / "cyclictestresults.json"
    line = "--duration=1s --priority=95 --threads=1 --affinity=0 --interval=1000 --breaktrace=7500 --mainaffinity=0 -m"
    cyclictest(f"{line} --json={report}")
    # It wraps errors by a package of its own.
    around = '''package main
import ("encoding/json"; "fmt"; "os")
type wrapping struct{}
func (wrapping) Wrap(err error, what string) error { return fmt.Errorf("%s: %w", what, err) }
var errors wrapping
func main() {
	report, _ := os.ReadFile(os.Args[1])
	fmt.Println("below 7500 us:", parseCyclictestResults(string(report), 7500), "; below -1 us:", parseCyclictestResults(string(report), -1))
}
'''
    folder = WORK / "origin"
    folder.mkdir()
    (folder / "main.go").write_text(around + function)
    told = said(tool("go"), "run", "main.go", report, cwd=folder, timeout=300).strip()
    assert "below 7500 us: <nil>" in told and "over the max latency threshold: [0]" in told, told
    return f"its `parseCyclictestResults`, built from its source, on the JSON of `{line} --json=...`: the test itself needs a cluster", told


class Modules(types.ModuleType):
    """What the module of rteval takes from the rest of rteval, and does not use while it reads."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"DEBUG": 0, "INFO": 1})


def python_3(path):
    """The source of a Python file, converted by 2to3 where it is in Python 2."""
    text = path.read_text().expandtabs()
    try:
        ast.parse(text)
        return text, ""
    except SyntaxError:
        pass
    try:
        from lib2to3 import refactor
    except ImportError as error:
        raise NotRun("this clone is in Python 2, and this Python has no lib2to3") from error
    tool = refactor.RefactoringTool(refactor.get_fixers_from_package("lib2to3.fixes"))
    return str(tool.refactor_string(text, path.name)), ", converted by 2to3"


def rteval():
    path = source("rteval/rteval/modules/measurement/cyclictest.py")
    text, how = python_3(path)
    for name in ["libxml2", "rteval", "rteval.Log", "rteval.modules", "rteval.misc"]:
        sys.modules.setdefault(name, Modules(name))
    scope = {"__name__": "cyclictest"}
    # Keys are a list in Python 2.
    exec(compile(text.replace("keys.sort()", "keys = list(keys); keys.sort()"), path, "exec"), scope)
    module, data = scope["Cyclictest"], scope["RunData"]
    buckets = 2000
    line = ["-i1000", "-qmun", f"-h {buckets}", "-p95", "-t1", "-a0", "-D1"]
    run = subprocess.run([LINK, *line], env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    reader = module.__new__(module)
    reader._log = lambda *_: None
    reader._setFinished = lambda: None
    private = {"cpus": ["0"], "started": True, "cyclicprocess": types.SimpleNamespace(poll=lambda: 0), "cyclicoutput": io.StringIO(run.stdout)}
    private |= {"nullfp": os.open("/dev/null", os.O_RDWR), "breaktraceval": None}
    private["cyclicdata"] = {name: data(name, kind, 95, reader._log) for name, kind in [("0", "core"), ("system", "system")]}
    for name, value in private.items():
        setattr(reader, f"_Cyclictest__{name}", value)
    reader._WorkloadCleanup()
    told = re.sub(r"\s+", " ", str(private["cyclicdata"]["0"]))
    counted = int(re.search(r"numsamples: (\d+)", told)[1])
    assert counted > 100, told
    return f"its `_WorkloadCleanup` and `reduce`{how}, on its own line `{' '.join(line)}`", told


CONSUMERS = {
    "Linaro/test-definitions": linaro,
    "canonical/checkbox, tests": checkbox_tests,
    "canonical/checkbox": checkbox,
    "openshift/cluster-node-tuning-operator": node_tuning,
    "openshift-kni/cnf-features-deploy": cnf_runner,
    "gormanm/mmtests": mmtests,
    "openshift/origin": origin,
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
