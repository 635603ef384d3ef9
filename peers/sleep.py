#!/usr/bin/env python3
"""Lateness and CPU time of the library's sleeper, beside spin_sleep, std and tokio (src/bin/sleep.rs).

Lateness is the time after the wait minus the deadline; CPU time is that of the thread's clock. The oracle knows the hybrid's
wake-ups in advance: it is the fixed margin that spins least for no more late waits. The claims compare each turn of the hybrid
with those of spin_sleep in the same round, and the median of the rounds' ratios counts: a hypervisor that takes the CPU in some
rounds spoils those, not the median.
"""

import argparse
import json
import math
import os
import subprocess
from pathlib import Path

from turns import HERE, median, middle, output, percentile, punctual, ratio

# The conditions of each place, and whether a busy program is on the last CPU.
PLACES = {
    "other": ("SCHED_OTHER, alone", [], False),
    "other-neighbour": ("SCHED_OTHER, beside a busy neighbour", [], True),
    "fifo": ("SCHED_FIFO 40, alone", ["--policy", "fifo:40"], False),
    "fifo-neighbour": ("SCHED_FIFO 40, beside a busy neighbour", ["--policy", "fifo:40"], True),
    "kept-awake": ("SCHED_OTHER, alone, CPUs kept awake", ["--dma-latency", "0us"], False),
}
HYBRID, PEER = "punctual hybrid", "spin_sleep"
# Durations with claims. At 20 us all spin, and at 10 ms a turn has too few waits for a 99th percentile.
CLAIMED_NS = [100_000, 1_000_000]
# From this lateness on a wait counts as late. A percentile needs ten samples above it.
LATE_NS, ENOUGH_FOR_P999 = 1_000, 10_000
# Largest median lateness of the hybrid by its own clock reading: the figures of the tables include two more readings.
P50_NS = 100


def measured(conditions, has_neighbour, rounds):
    """The turns of a place."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", HERE / "target"))
    build = ["cargo", "build", "--release", "--quiet", "--bin", "sleep"]
    subprocess.run(build, cwd=HERE, check=True)
    command = [punctual(), "run", "--require", *conditions, "--"] if conditions else []
    busy = ["taskset", "-c", str(max(os.sched_getaffinity(0))), "sh", "-c", "while :; do :; done"]
    neighbour = subprocess.Popen(busy) if has_neighbour else None
    try:
        lines = output(*command, target / "release/sleep", rounds).splitlines()
    finally:
        if neighbour:
            neighbour.kill()
    return [json.loads(line) for line in lines]


def oracle_ns(wake_ups, cpu_ns):
    """CPU time per wait of the oracle, if the waits took `cpu_ns` each: all but the spinning is unchanged.

    Latencies of 10 to 19 us and a margin of 30 us: the oracle's margin is 18 us, and it spins for 3.6 us on average.

    >>> oracle_ns([(us * 1000, 30_000 - us * 1000) for us in range(10, 20)], 18_500)
    6600.0
    """
    count = len(wake_ups)
    # A wait is late if no time was left to spin.
    late = sum(spun == 0 for _, spun in wake_ups)
    latencies = sorted(latency for latency, _ in wake_ups)
    margin = max(latencies[max(count - 1 - late, 0)] - LATE_NS, 0)
    least = sum(max(margin - latency, 0) for latency in latencies) / count
    return max(cpu_ns - sum(spun for _, spun in wake_ups) / count, 0) + least


def us(ns):
    """Microseconds with three significant digits."""
    return f"{ns / 1e3:.{2 if abs(ns) < 1e4 else int(abs(ns) < 1e5)}f}"


def duration(ns):
    return f"{ns // 1_000_000} ms" if ns >= 1_000_000 else f"{ns // 1000} us"


def summed(turns):
    """The figures of a peer's turns for one duration."""
    lateness = sorted(ns for turn in turns for ns in turn["lateness_ns"])
    wake_ups = [wake_up for turn in turns for wake_up in turn["wake_ups"]]
    cpu_ns, elapsed_ns = (sum(turn[name] for turn in turns) for name in ("cpu_ns", "elapsed_ns"))
    count = len(lateness)
    known = len(wake_ups) == count
    return {
        "peer": turns[0]["peer"], "asked_ns": turns[0]["asked_ns"], "waits": count, "cpu": cpu_ns / elapsed_ns,
        "p50": percentile(lateness, 0.5), "p99": percentile(lateness, 0.99),
        "p999": percentile(lateness, 0.999) if count >= ENOUGH_FOR_P999 else None,
        "late": sum(ns > LATE_NS for ns in lateness) / count,
        "oracle": oracle_ns(wake_ups, cpu_ns / count) * count / elapsed_ns if known else None,
    }  # fmt: skip


def print_table(figures):
    print("| wait | | n | p50 us | p99 us | p99.9 us | later than 1 us | CPU | oracle's CPU |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|")
    for row in figures:
        p999 = us(row["p999"]) if row["p999"] is not None else "–"
        oracle = f"{row['oracle']:.1%} ({row['cpu'] / row['oracle']:.2f})" if row["oracle"] else ""
        print(f"| {duration(row['asked_ns'])} | {row['peer']} | {row['waits']} | {us(row['p50'])} | {us(row['p99'])} | {p999} "
              f"| {row['late']:.2%} | {row['cpu']:.1%} | {oracle} |")  # fmt: skip


def print_claims(turns):
    """The hybrid against spin_sleep, turn by turn: no later at p99, and at most half of the CPU time."""
    def column(peer, asked_ns, figure):
        return [figure(turn) for turn in turns if turn["peer"] == peer and turn["asked_ns"] == asked_ns]

    def p(share):
        return lambda turn: percentile(turn["lateness_ns"], share)

    print("\nThe middle turn of hybrid and its peer, and the middle of the rounds' ratios with its 95 % interval:\n")
    print("| wait | beside | p50 us | p99 us | p99, ratio | no later? | CPU, ratio | at most half? |")
    print("|---|---|---:|---:|---:|---|---:|---|")
    cpu_share = lambda turn: turn["cpu_ns"] / max(turn["elapsed_ns"], 1)
    for asked_ns in CLAIMED_NS:
        for peer in sorted({turn["peer"] for turn in turns if turn["peer"].startswith(PEER)}, reverse=True):
            both = lambda figure: (column(HYBRID, asked_ns, figure), column(peer, asked_ns, figure))
            p50, p99 = (" : ".join(us(median(values)) for values in both(p(share))) for share in (0.5, 0.99))
            later, cpu = ratio(*both(p(0.99))), ratio(*both(cpu_share))
            print(f"| {duration(asked_ns)} | {peer} | {p50} | {p99} | {later.value:.2f} ({later.interval()}) | {later.within(0, 1)} "
                  f"| {cpu.value:.2f} ({cpu.interval()}) | {cpu.within(0, 0.5)} |")  # fmt: skip
    late = []
    for asked_ns in CLAIMED_NS:
        own = middle(column(HYBRID, asked_ns, lambda turn: median(turn["by_itself_ns"])))
        late.append(f"{duration(asked_ns)}: {own.within(0, P50_NS)}, {own.value:.0f} ns ({own.interval('{:.0f}')})")
    print(f"\nHybrid's p50 at most {P50_NS} ns by its own last reading of the clock: {'; '.join(late)}.", flush=True)


# A plot of lateness against CPU time, a panel per duration: sizes in pixels, and decades of the axes.
WIDTH, HEIGHT, TITLE = 500, 360, 40
LEFT, TOP, RIGHT, BOTTOM = 60, 30, WIDTH - 20, HEIGHT - 50
CPU_PERCENT, LATENESS_US = (-1, 3), (-2, 4)
# Distinguishable with colour blindness (Okabe and Ito).
COLOURS = ["#0072b2", "#56b4e9", "#009e73", "#d55e00", "#e69f00", "#787878", "#cc79a7"]


def along(value, decades, begin, end):
    """Where a value stands on a logarithmic axis.

    >>> along(0.1, CPU_PERCENT, LEFT, RIGHT), along(1e3, CPU_PERCENT, LEFT, RIGHT), along(0, CPU_PERCENT, LEFT, RIGHT)
    (60.0, 480.0, 60.0)
    """
    low, high = decades
    decade = min(max(math.log10(value) if value > 0 else low, low), high)
    return begin + (decade - low) / (high - low) * (end - begin)


def panel(figures, has_legend):
    """A dot at p50 and a line to p99 for each peer."""
    yield f'<text x="{WIDTH / 2}" y="20" font-size="16" text-anchor="middle">wait {duration(figures[0]["asked_ns"])}</text>'
    for decade in range(CPU_PERCENT[0], CPU_PERCENT[1] + 1):
        x = along(10**decade, CPU_PERCENT, LEFT, RIGHT)
        yield f'<path d="M{x:.1f} {TOP}V{BOTTOM}" stroke="#ddd"/>'
        yield f'<text x="{x:.1f}" y="{BOTTOM + 16}" text-anchor="middle">{10**decade:g}</text>'
    for decade in range(LATENESS_US[0], LATENESS_US[1] + 1):
        y = along(10**decade, LATENESS_US, BOTTOM, TOP)
        yield f'<path d="M{LEFT} {y:.1f}H{RIGHT}" stroke="#ddd"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{10**decade:g}</text>'
    yield f'<text x="{WIDTH / 2}" y="{HEIGHT - 12}" text-anchor="middle">CPU, %</text>'
    yield f'<text transform="translate(14 {HEIGHT / 2 + 36}) rotate(-90)">lateness, us</text>'
    for place, (row, colour) in enumerate(zip(figures, COLOURS)):
        x = along(row["cpu"] * 100, CPU_PERCENT, LEFT, RIGHT)
        p50, p99 = (along(row[figure] / 1e3, LATENESS_US, BOTTOM, TOP) for figure in ("p50", "p99"))
        yield f'<path d="M{x:.1f} {p50:.1f}V{p99:.1f}" stroke="{colour}" stroke-width="2"/>'
        yield f'<circle cx="{x:.1f}" cy="{p50:.1f}" r="5" fill="{colour}"/>'
        if has_legend:
            y = TOP + 14 + 16 * place
            yield f'<circle cx="{WIDTH - 150}" cy="{y - 4}" r="4" fill="{colour}"/>'
            yield f'<text x="{WIDTH - 140}" y="{y}">{row["peer"]}</text>'


def svg(figures):
    durations = list(dict.fromkeys(row["asked_ns"] for row in figures))
    size = f"0 0 {2 * WIDTH} {TITLE + 2 * HEIGHT}"
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size}" font-family="sans-serif" font-size="12">'
    yield '<rect width="100%" height="100%" fill="white"/>'
    title = "lateness (dot: p50, line: to p99) against CPU time"
    yield f'<text x="{WIDTH}" y="26" font-size="20" text-anchor="middle">{title}</text>'
    for place, asked_ns in enumerate(durations):
        yield f'<g transform="translate({place % 2 * WIDTH} {TITLE + place // 2 * HEIGHT})">'
        yield from panel([row for row in figures if row["asked_ns"] == asked_ns], place == 0)
        yield "</g>"
    yield "</svg>\n"


def steal():
    """The time that the hypervisor took, and all time, in ticks."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return ticks[7], sum(ticks)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("places", nargs="*", choices=[[], *PLACES], help="default: all")
    parser.add_argument("--rounds", type=int, default=30, help="one turn per peer and duration")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="plot lateness against CPU time, for the first place")
    args = parser.parse_args()
    for place in args.places or PLACES:
        name, conditions, has_neighbour = PLACES[place]
        before = steal()
        turns = measured(conditions, has_neighbour, args.rounds)
        taken, ticks = (after - before for after, before in zip(steal(), before))
        kinds = dict.fromkeys((turn["asked_ns"], turn["peer"]) for turn in sorted(turns, key=lambda turn: turn["asked_ns"]))
        figures = [summed([turn for turn in turns if (turn["asked_ns"], turn["peer"]) == kind]) for kind in kinds]
        print(f"\n## {name}\n")
        print_table(figures)
        print(f"\nThe hypervisor took {taken / ticks:.1%} of the CPUs' time.")
        print_claims(turns)
        if args.svg:
            args.svg.write_text("\n".join(svg(figures)))
            args.svg = None


if __name__ == "__main__":
    main()
