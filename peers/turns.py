"""What the comparisons of this folder share: builds, runs of commands, and the statistics of programs that take turns.

Both figures of a pair are measured in direct succession, so that drift (the host's clock, its other guests) affects both. An
interval is that of the median over the turns at 95 %, from order statistics. It holds without any assumption about the figures.
"""

import json
import math
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "peers"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
CONFIDENCE = 0.95


def punctual():
    """The release binary, with the library that it loads into programs beside it; or the binary that $PUNCTUAL names."""
    if "PUNCTUAL" in os.environ:
        return Path(os.environ["PUNCTUAL"]).resolve()
    build = ["cargo", "build", "--release", "--quiet", "--package", "punctual-cli", "--package", "punctual-preload"]
    subprocess.run(build, cwd=ROOT, check=True)
    return TARGET / "release/punctual"


def compiled(name):
    """A program of `peers/c`, compiled as a user would."""
    program = TARGET / "peers-c" / name
    program.parent.mkdir(parents=True, exist_ok=True)
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-std=gnu11"]
    subprocess.run(["cc", *flags, "-o", program, HERE / "c" / f"{name}.c", "-lpthread", "-lrt"], check=True)
    return program


def output(*command):
    """What a command writes to stdout."""
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, check=True).stdout


def run_of(*command):
    """The run that a measuring command of punctual writes as JSON."""
    return json.loads(output(*command, "--rounds", "1", "--quiet", "--json", "-"))


def in_turns(turns, contestants):
    """Calls all of them in each turn, and returns the figures of each. A turn begins with another one, so that none always
    follows the same."""
    figures = [[] for _ in contestants]
    for turn in range(turns):
        for step in range(len(contestants)):
            who = (turn + step) % len(contestants)
            figures[who].append(contestants[who]())
    return figures


def percentile(values, share):
    """The nearest-rank percentile.

    >>> percentile([3, 1, 2], 0.5), percentile([1, 2, 3, 4], 0.5), percentile(range(1, 101), 0.99)
    (2, 2, 99)
    """
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)), 1) - 1] if ordered else math.nan


def median(values):
    return percentile(values, 0.5)


@dataclass
class Middle:
    """A median over turns with its interval."""

    value: float
    low: float
    high: float

    def interval(self, form="{:.2f}"):
        if math.isinf(self.low):
            return "an interval takes 6 turns"
        return f"{form.format(self.low)} to {form.format(self.high)}"

    def within(self, low, high):
        """Whether the true median is within these bounds: `cannot tell` takes more turns, or a quieter machine.

        >>> Middle(1, 0, 2).within(-3, 3), Middle(1, 0, 2).within(-3, -1), Middle(1, 0, 2).within(-3, 1)
        ('yes', 'no', 'cannot tell')
        """
        if low <= self.low and self.high <= high:
            return "yes"
        return "no" if self.low > high or self.high < low else "cannot tell"


def middle(values, comparisons=1):
    """The median and its interval, which holds beside this number of comparisons: their error rates are added (Bonferroni).

    >>> middle(range(9)), middle(range(9), 7)
    (Middle(value=4, low=1, high=7), Middle(value=4, low=0, high=8))
    >>> middle(range(5)).within(-9, 9), middle(range(6)).interval(), middle(range(8), 7).low
    ('cannot tell', '0.00 to 5.00', -inf)
    """
    ordered = sorted(values)
    count = len(ordered)
    # The chance that fewer than `rank` of the turns lie on one side of the true median, twice.
    missed = lambda rank: 2 * sum(math.comb(count, below) for below in range(rank)) / 2**count
    ranks = [rank for rank in range(1, count // 2 + 1) if missed(rank) <= (1 - CONFIDENCE) / comparisons]
    if not ranks:
        return Middle(median(ordered), -math.inf, math.inf)
    return Middle(median(ordered), ordered[ranks[-1] - 1], ordered[count - ranks[-1]])


def ratio(ours, theirs, comparisons=1):
    """Our figures divided by theirs, turn by turn."""
    return middle([a / b for a, b in zip(ours, theirs)], comparisons)


def difference(ours, theirs):
    """Our figures minus theirs, turn by turn."""
    return middle([a - b for a, b in zip(ours, theirs)])
