#!/usr/bin/env python3
"""Programs that read cyclictest, run from their own sources on what `punctual` prints under cyclictest's name.

DIR has clones of their repositories, each under the name of its repository; one that is not there is not run, and said so. Root is needed
for FIFO. Runs take 2 s at most. It prints a Markdown table: what was run, on which command line, and what it said.
"""

import contextlib
import importlib.util
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import types
from pathlib import Path
from xml.etree import ElementTree

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


def need(*modules):
    for name in modules:
        if not importlib.util.find_spec(name):
            raise NotRun(f"needs the Python module {name}")


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


# What rteval does around its module: from its defaults to the report, for a second.
RTEVAL = """
import time
from rteval.Log import Log
from rteval.modules.measurement import cyclictest
from rteval.rtevalConfig import rtevalConfig
from rteval.version import RTEVAL_VERSION
log = Log()
config = rtevalConfig({}, logger=log)
wanted = {name: one["default"] for name, one in cyclictest.ModuleParameters().items()}
config.AppendConfig("cyclictest", wanted | {"interval": 1000, "cpulist": "0", "usingCpupower": False})
module = cyclictest.Cyclictest(config.GetSection("cyclictest"), log)
module._WorkloadSetup()
module._WorkloadPrepare()
module._WorkloadTask()
time.sleep(1)
module._WorkloadCleanup()
print(f"REPORT {RTEVAL_VERSION}", module.MakeReport())
"""


def rteval():
    package = source("rteval/rteval/modules/measurement/cyclictest.py").parents[3]
    need("libxml2", "lxml")
    text = said(sys.executable, "-c", RTEVAL, cwd=WORK, env={**ENVIRONMENT, "PYTHONPATH": str(package)})
    version, report = text.split("REPORT ")[1].split(" ", 1)
    report = ElementTree.fromstring(report)
    core = report.find("core/statistics")
    values = {name: core.find(name).text for name in ["samples", "minimum", "median", "maximum", "standard_deviation"]}
    assert int(values["samples"]) > 100 and int(values["minimum"]) <= int(values["maximum"]), values
    told = ", ".join(f"{name} {value}" for name, value in values.items())
    return f"its module in its package ({version}), from the defaults to the report: `{report.get('command_line')}`, ended by SIGINT", told


def chromeos():
    script = source("chromeos-audiotest/script/cyclic_bench.py")

    def bench(*words):
        return json.loads(said(sys.executable, script, "--interval=1000", "--loops=500", "--json", *words))["stats"]

    real_time = bench("--policy=rr", "--priority=12", "--threads=2")
    other = bench("--policy=other", "--priority=0")
    broken = bench("--policy=rr", "--priority=12", "--breaktrace=1")
    for one in real_time + other + broken:
        assert 0 <= one["min"] <= one["median"] <= one["p99"] <= one["max"], one
    assert len(real_time) == 2 and broken[0]["max"] > 1, broken
    told = f"p50 {real_time[0]['median']} us, p99 {real_time[0]['p99']} us of thread 0; SCHED_OTHER {other[0]['median']} us; break value {broken[0]['max']} us"
    return "its whole script: `--policy=rr --priority=12 --threads=2 --json`, with `--policy=other`, and with `--breaktrace=1`", told


def seapath():
    folder = source("ansible/.github/test-report/cyclictest_plot.sh").parent
    run = source("ansible/roles/cyclictest/files/run_cyclictest.py")
    tool("gnuplot")
    written, drawn = WORK / "output", WORK / "plot.png"
    said(sys.executable, run, "-d", "1", written)
    said("bash", folder / "cyclictest_plot.sh", "-i", written, "-o", drawn, "-l", "100")
    picture = drawn.read_bytes()
    assert picture.startswith(b"\x89PNG"), picture[:16]
    columns = {len(line.split()) for line in written.read_text().splitlines() if line[:1].isdigit()}
    return "its runner and its plot, whose steps are OSADL's: `-l5000 -m -S -p90 -i200 -h400 -q`, and gnuplot", f"columns {columns}; a PNG of {len(picture)} bytes"


def yardstick():
    script = source("yardstick/yardstick/benchmark/scenarios/compute/cyclictest_benchmark.bash")
    line = "-a 0 -b 1000000 -i 1000 -p 99 -l 1000 -t 1 -h 90 -m"
    told = json.loads(said("bash", script, *line.split()))
    assert int(told["min"]) <= int(told["avg"]) <= int(told["max"]), told
    return f"its whole script: `{line}`", ", ".join(f"{name} {value}" for name, value in told.items())


def starlingx():
    folder = source("test/keywords/cloud_platform/cyclictest/objects/cyclictest_statistics_object.py").parents[4]
    log = types.SimpleNamespace(get_logger=lambda: types.SimpleNamespace(log_info=print))
    for name in ["framework", "framework.logging", "framework.logging.automation_logger"]:
        sys.modules.setdefault(name, log)
    sys.path.insert(0, str(folder))
    from keywords.cloud_platform.cyclictest.objects.cyclictest_statistics_object import CyclictestStatisticsObject

    line, histogram = "--priority=95 --histofall=40000 --nsecs --threads=2 --affinity=0 -m -q -D 1", WORK / "histfile"
    cyclictest(f"{line} --histfile={histogram}")
    with contextlib.redirect_stdout(io.StringIO()):
        told = CyclictestStatisticsObject.from_hist_file(str(histogram)).calculate_statistics()
    assert told.get_num_threads() == 2 and told.get_average() > 0, told
    return f"its parser of histogram files: `{line} --histfile=...` (without its `--smi`)", str(told)


def ros():
    folder = source("ros-realtime-rpi4-image/latency-analysis/cyclictest_latency_plotter.py").parent
    need("numpy")
    for name in ["matplotlib", "matplotlib.pyplot"]:
        sys.modules.setdefault(name, types.ModuleType(name))
    sys.path.insert(0, str(folder))
    import cyclictest_latency_plotter

    line, histogram = "--mlockall --smp --priority=80 --interval=200 -D 1 -H 400 -q", WORK / "ros"
    cyclictest(f"{line} --histfile={histogram}")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        read = cyclictest_latency_plotter.load_latency_hist(histogram)
    assert read, printed.getvalue()
    data, about = read
    return f"its parser: `{line} --histfile=...`, in which the last column must be the sum of the others", f"{data.shape[0]} rows, max {about['max']}"


def crucible():
    text = source("bench-cyclictest/cyclictest-post-process").read_text()
    (expression,) = re.findall(r"/(\^# Max.*?)/", text)
    line, histogram = "--policy fifo --priority 95 --interval 1000 --histofall 100 --duration 1 --quiet --affinity 0 --threads 2 --mlockall", WORK / "crucible"
    cyclictest(f"{line} --histfile {histogram}")
    found = [one for one in (re.match(expression, row) for row in histogram.read_text().splitlines()) if one]
    values = found[0][1].split()
    assert len(values) == 3 and int(values[2]) == max(map(int, values[:2])), values
    return f"its expression `{expression}` by Python, on its line `{line} --histfile ...`: the last column is the system's", f"system {int(values[-1])}"


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
    "chromiumos/platform/audiotest": chromeos,
    "seapath/ansible, OSADL's plot": seapath,
    "opnfv/yardstick": yardstick,
    "starlingx/test": starlingx,
    "ros-realtime/ros-realtime-rpi4-image": ros,
    "perftool-incubator/bench-cyclictest": crucible,
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
