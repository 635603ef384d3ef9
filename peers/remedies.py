#!/usr/bin/env python3
"""Real programs under each remedy of `punctual run`: the same output and exit status, what they gain or lose, and the CPU time.

A round is a turn under each remedy and two under `run` without any. Each round begins with another of them, so that drift hits
all. Programs: apt-get install -y --no-install-recommends $(peers/remedies.py --packages).
"""

import argparse
import math
import sys

from play import ALONE, Place, add_choice, chosen, figures
from turns import median, ratio

# `run` with these flags. The control is a second turn without any.
REMEDIES = ["--timer-slack 1ns", "--usleep0 yield", "--sched-yield backoff", "--precise-sleep", "--precise-sleep=5%", "--poll-first 20us"]
WAYS = [*REMEDIES, "none again", "none"]
# From a turn to the next: the control does not directly precede the turn without a remedy. It has no factor in common with the
# number of ways.
STRIDE = 3
# Fewer rounds show no difference: all rounds of one of seven comparisons agree by chance in less than 0.7 % of cases.
FEWEST_ROUNDS = 9


def number(value):
    """Three digits."""
    return f"{value:.{max(0, min(3, 2 - math.floor(math.log10(abs(value))))) if value else 3}f}"


def cell(ours, theirs, less_is_better):
    """The median and its ratio to the turn without a remedy, or that the rounds do not agree on a difference.

    >>> halved = [0.46 + 0.01 * turn for turn in range(9)]
    >>> cell(halved, [1] * 9, True), cell(halved, [1] * 9, False)
    ('better 0.500: x 0.50 [0.46 0.54]', '**worse** 0.500: x 0.50 [0.46 0.54]')
    >>> cell([0.5] * 8 + [1.1], [1] * 9, True), cell([0.5] * 8, [1] * 8, True)
    ('scatter [0.50 1.10]', 'few rounds: x 0.50')
    """
    share = ratio(ours, theirs, len(WAYS) - 1)
    if math.isinf(share.low):
        return f"few rounds: x {share.value:.2f}"
    less = share.within(0, 1)
    if less == "cannot tell":
        return f"scatter [{share.low:.2f} {share.high:.2f}]"
    gain = "better" if (less == "yes") == less_is_better else "**worse**"
    return f"{gain} {number(median(ours))}: x {share.value:.2f} [{share.low:.2f} {share.high:.2f}]"


def head(*columns):
    names = [*columns, "none", *(f"`{way}`" if way in REMEDIES else way for way in WAYS[:-1])]
    rules = ["---"] * len(columns) + ["---:"] * len(WAYS)
    return f"| {' | '.join(names)} |\n|{'|'.join(rules)}|"


def line(columns, values, less_is_better):
    """A row of what a figure was in each round under each way, the last of which is none."""
    *remedied, none = values
    cells = [cell(ours, none, less_is_better) for ours in remedied]
    return f"| {' | '.join([*columns, number(median(none)), *cells])} |"


def played(place, rounds):
    """The outcomes of all rounds under each way, and what differs from the program alone."""
    alone, outcomes, faults = place.play(ALONE), [[] for _ in WAYS], []
    for turn in range(rounds):
        for step in range(len(WAYS)):
            way = (turn + STRIDE * step) % len(WAYS)
            flags = WAYS[way].split() if WAYS[way] in REMEDIES else []
            outcome = place.play(flags)
            if outcome.said != alone.said:
                faults.append(f"{WAYS[way]}: {outcome.said}, but without `run` {alone.said}")
            outcomes[way].append(outcome)
    return outcomes, faults


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add_choice(parser)
    parser.add_argument("--rounds", type=int, default=9, help="a round is a turn under each remedy; fewer than 9 show no difference")
    args = parser.parse_args()
    programs = chosen(args, lambda program: program.get("remedies"))
    print(head("program", "version", "same output, status", "figure"))
    prices, left_out, failed = [], [], []
    for program in programs:
        name = program["name"]
        try:
            with Place(program) as place:
                if not place.version:
                    left_out.append(f"{name} ({program['packages']})")
                    continue
                outcomes, faults = played(place, args.rounds)
        except (RuntimeError, OSError, ValueError) as error:
            failed.append(f"{name}: {error}")
            continue
        for place_of_figure, (figure, less_is_better) in enumerate(figures(program)):
            values = [[outcome.figures[place_of_figure] for outcome in turns] for turns in outcomes]
            print(line([name, place.version, "NO" if faults else "yes", figure], values, less_is_better), flush=True)
        prices.append(line([name], [[outcome.cpu for outcome in turns] for turns in outcomes], True))
        failed += [f"{name}: {fault}" for fault in faults]
    print("", head("program: CPU time, s"), *prices, sep="\n")
    if args.rounds < FEWEST_ROUNDS:
        print(f"{args.rounds} rounds show no difference: it takes {FEWEST_ROUNDS}.")
    if left_out:
        print(f"Left out, since they are not installed: {', '.join(left_out)}.")
    sys.exit("\n".join(failed) or None)


if __name__ == "__main__":
    main()
