"""Where the culprits play: cgroups, processes that never outlive the driver, and what a machine needs.

All processes of a play are in one cgroup of the unified hierarchy, so one write ends them, whatever they forked. A keeper, which
ignores the terminal's signals, does so too once the driver has died. What even that leaves behind is removed at the next start.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import build

PREFIX = "culprits-"


def mounts():
    """The cgroup hierarchies: a folder for each controller of version 1, and that of version 2 under the name `unified`."""
    found = {}
    for line in Path("/proc/mounts").read_text().splitlines():
        _, folder, kind, options, *_ = line.split()
        if kind == "cgroup2":
            found["unified"] = Path(folder)
        elif kind == "cgroup":
            found.update({option: Path(folder) for option in options.split(",")})
    return found


def hierarchy(controller):
    """The folder of the hierarchy that has this controller, and whether it is of version 2."""
    found = mounts()
    if controller in found:
        return found[controller], False
    unified = found.get("unified")
    if unified and controller == "freezer":
        return unified, True
    if unified and controller in (unified / "cgroup.controllers").read_text().split():
        return unified, True
    return None, False


def write(path, text):
    with open(path, "w") as file:
        file.write(str(text))


def remove(group):
    """Ends all processes of a cgroup and of those below it, thawed, and removes them."""
    below = sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True)
    for each in [*below, group]:
        for file, text in (("freezer.state", "THAWED"), ("cgroup.freeze", "0"), ("cgroup.kill", "1")):
            try:
                write(each / file, text)
            except OSError:
                pass
        for _ in range(200):
            pids = (each / "cgroup.procs").read_text().split() if each.exists() else []
            for pid in pids:
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except OSError:
                    pass
            if not pids:
                break
            time.sleep(0.02)
        for _ in range(100):
            try:
                each.rmdir()
                break
            except FileNotFoundError:
                break
            except OSError:
                # The kernel still counts processes that have just ended.
                time.sleep(0.02)


def groups_of(name):
    return [path for folder in set(mounts().values()) if (path := folder / name).is_dir()]


def clean(name):
    """Removes what is left of a driver: first the cgroup that has its processes, then those with limits, then its folders."""
    for group in sorted(groups_of(name), key=lambda path: not (path / "cgroup.kill").exists()):
        remove(group)
    for folder in build.TARGET.glob(f"{name}-*"):
        shutil.rmtree(folder, ignore_errors=True)


def clean_leftovers():
    """Removes what drivers have left that no longer run."""
    names = {path.name for folder in set(mounts().values()) for path in folder.glob(PREFIX + "*") if path.is_dir()}
    names |= {path.name.rpartition("-")[0] for path in build.TARGET.glob(PREFIX + "*")}
    for name in sorted(names):
        pid = name.removeprefix(PREFIX)
        if not (pid.isdigit() and b"culprits.py" in command_of(pid)):
            print(f"removing what {name} left", file=sys.stderr)
            clean(name)


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


class Room:
    """The cgroups and processes of one driver."""

    def __init__(self):
        self.name = f"{PREFIX}{os.getpid()}"
        self.processes = None
        unified = mounts().get("unified")
        if unified and os.geteuid() == 0:
            self.processes = unified / self.name / "processes"
            self.processes.mkdir(parents=True)
        # The keeper's stdin ends with the driver, however that ends.
        self.keeper = subprocess.Popen([sys.executable, __file__, self.name], stdin=subprocess.PIPE, start_new_session=True)

    def limited(self, limits, draws):
        """A cgroup with limits as a manifest has them, each drawn between its bounds. Returns its folder."""
        controller = limits["controller"]
        folder, second = hierarchy(controller)
        group = folder / self.name / "limited"
        group.mkdir(parents=True)
        drawn = {key: draws.randint(*bounds) for key, bounds in limits.items() if key != "controller"}
        if second and controller != "freezer":
            write(folder / self.name / "cgroup.subtree_control", f"+{controller}")
        if "quota_percent" in drawn:
            period = drawn["period_ms"] * 1000
            quota = max(period * drawn["quota_percent"] // 100, 1000)
            if second:
                write(group / "cpu.max", f"{quota} {period}")
            else:
                write(group / "cpu.cfs_period_us", period)
                write(group / "cpu.cfs_quota_us", quota)
        if "rt_percent" in drawn:
            # A limit of the cgroup above bounds it too.
            for each in (group.parent, group):
                write(each / "cpu.rt_period_us", 100000)
                write(each / "cpu.rt_runtime_us", drawn["rt_percent"] * 1000)
        if "memory_mib" in drawn:
            write(group / ("memory.max" if second else "memory.limit_in_bytes"), drawn["memory_mib"] << 20)
        return group

    def start(self, command, **options):
        """Starts a process in the room; it and its children end with the play."""

        def enter():
            ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
            if self.processes:
                write(self.processes / "cgroup.procs", "0")

        return subprocess.Popen([str(word) for word in command], preexec_fn=enter, start_new_session=True, **options)

    def aside(self, command):
        """Starts a process that outlives the plays: the load beside them."""
        if self.processes:
            beside = self.processes.with_name("beside")
            beside.mkdir(exist_ok=True)
            here, self.processes = self.processes, beside
            try:
                return self.start(command)
            finally:
                self.processes = here
        return self.start(command)

    def end_play(self, processes):
        """Ends everything that runs in the room, and removes the cgroups with limits."""
        for group in groups_of(self.name):
            for each in ("limited", "processes"):
                if (group / each).is_dir():
                    remove(group / each)
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if self.processes:
            self.processes.mkdir(exist_ok=True)

    def close(self):
        self.end_play([])
        clean(self.name)
        self.keeper.stdin.close()
        self.keeper.wait()


def lack(need):
    """Why this machine does not have what a culprit needs, or None."""
    if need == "root":
        return None if os.geteuid() == 0 else "needs root"
    if need == "two-cpus":
        return None if len(os.sched_getaffinity(0)) > 1 else "needs two CPUs"
    if need == "swap":
        return None if len(Path("/proc/swaps").read_text().splitlines()) > 1 else "needs swap; none is on"
    if need == "real-time":
        return None if os.geteuid() == 0 or real_time_allowed() else "needs the right to real-time policies"
    if need.startswith("cgroup-"):
        controller = need.removeprefix("cgroup-")
        folder, _ = hierarchy("cpu" if controller == "rt" else controller)
        if not folder:
            return f"needs the cgroup controller {controller}"
        if controller == "rt" and not (folder / "cpu.rt_runtime_us").exists():
            return "needs cpu.rt_runtime_us: cgroup v1, CONFIG_RT_GROUP_SCHED"
        return None if os.access(folder, os.W_OK) else f"needs to write {folder}"
    return None if shutil.which(need) else f"needs the program {need}"


def real_time_allowed():
    import resource

    return resource.getrlimit(resource.RLIMIT_RTPRIO)[0] > 0


if __name__ == "__main__":
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    sys.stdin.read()
    clean(sys.argv[1])
