"""The manifests: what a culprit is, how it is built and started, and what is expected of the first sentence about it.

A manifest is `manifests/NAME.toml`:

    language = "C"                  what people would call it
    source = "hog.c"                in programs/, built by its extension; absent where nothing is built
    run = ["$BUILT", "fifo"]        the command; it prints its figures as one line of JSON. Default: ["$BUILT"]
    how = "command"                 `command`: `punctual why -- RUN`. `pid`: RUN is a scene, which prints {"pid": N}, begins with a
                                    line of its stdin, and prints the figures; `punctual why --pid N` watches meanwhile.
    builds = ["service.go"]         further sources that it plays
    existing = true                 an existing program under an injected ailment
    needs = ["root", "cgroup-cpu"]  what room.lack knows, or a program; without it the culprit is skipped, and that is said
    steady = {latest_ns = 0.01}     a run is void, since the machine made it what it was, if this figure is a larger share of it,
    rivals = ["waited_ns"]          or if this one is more than four fifths of the size

    [cgroup]                        made for each run, in the environment as CULPRIT_CGROUP; all bounds are drawn between
    controller = "cpu"
    quota_percent = [20, 30]        of a CPU; with period_ms. Others: rt_percent of 100 ms, memory_mib

    [expected]
    kind = "quota"                  a name of losses.toml; `or` has others that are as true
    sentence = "..."                for people: the sentence in words, with the figures in braces
    size = "lost_ns"                the figure with the size; 20 % off is right
    sizes = {computes = "cpu_ns"}   that of another kind
    wall = true                     the figure is by the wall clock: `queued_ns`, what the program waited for its CPU, is in it
    subject = "quota"               the thread that leads; "$KEY" is a figure
    place = {cgroup = "$cgroup"}    what has to be named, for two points
    known = {culprit = "$culprit"}  what may be absent, but not wrong

    [today]                         regular expressions over the text of the engine that writes no `causes.losses`
    names = ["..."]                 the first sentence names the ailment
    lists = ["..."]                 the first screen lists it
    false = ["..."]                 the first sentence is false
"""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
LOSSES = tomllib.loads((HERE / "losses.toml").read_text())
KEYS = {"language", "source", "builds", "run", "how", "existing", "needs", "steady", "rivals", "cgroup", "expected", "today"}


@dataclass
class Expected:
    """What the first sentence has to be about."""

    kind: str
    sentence: str
    subject: str
    also: list = field(default_factory=list)
    size: str = "lost_ns"
    tolerance: float = 0.2
    sizes: dict = field(default_factory=dict)
    wall: bool = False
    place: dict = field(default_factory=dict)
    known: dict = field(default_factory=dict)

    def healthy(self):
        return LOSSES[self.kind].get("healthy", False)


@dataclass
class Culprit:
    name: str
    language: str
    expected: Expected
    source: str = None
    run: list = field(default_factory=lambda: ["$BUILT"])
    builds: list = field(default_factory=list)
    how: str = "command"
    existing: bool = False
    needs: list = field(default_factory=list)
    steady: dict = field(default_factory=dict)
    rivals: list = field(default_factory=list)
    cgroup: dict = None
    today: dict = field(default_factory=dict)


def culprit(path):
    """Reads and checks one manifest."""
    fields = tomllib.loads(path.read_text())
    if unknown := fields.keys() - KEYS:
        raise SystemExit(f"invalid manifest {path}: unknown key {', '.join(sorted(unknown))} (known: {', '.join(sorted(KEYS))})")
    expected = fields.pop("expected")
    expected["also"] = expected.pop("or", [])
    made = Culprit(name=path.stem, expected=Expected(**expected), **fields)
    for kind in [made.expected.kind, *made.expected.also]:
        if kind not in LOSSES:
            raise SystemExit(f"invalid manifest {path}: kind {kind} is not in losses.toml")
    for key in made.expected.place:
        if key not in LOSSES[made.expected.kind]["place"]:
            raise SystemExit(f"invalid manifest {path}: losses of kind {made.expected.kind} have no place `{key}`")
    if made.how not in ("command", "pid"):
        raise SystemExit(f"invalid manifest {path}: `how` is command or pid, not {made.how}")
    return made


def all_culprits():
    return [culprit(path) for path in sorted((HERE / "manifests").glob("*.toml"))]
