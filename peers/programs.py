#!/usr/bin/env python3
"""Real programs with `punctual why` and without: the same output and exit status, what was found, what watching costs.

A row for each program of programs.toml. It fails if one of them says something else while it is watched, or if its record
contradicts itself. Programs: apt-get install -y --no-install-recommends $(peers/programs.py --packages).
"""

import argparse
import sys
from collections import Counter

from play import ALONE, ATTACHED, STARTED, Place, add_choice, chosen
from turns import difference, median, ratio


def cut(causes):
    """The share of wake-ups that were cut."""
    return f"{100 * causes['split'] / causes['wake_ups']:.1f} %" if causes["wake_ups"] else "-"


def cause_words(cause):
    return " ".join([cause["cause"].replace("_", " "), cause.get("culprit") or ""]).rstrip()


def largest(causes):
    """The largest causes over all calls, with their shares of the time lost."""
    times = Counter()
    for call in causes["calls"]:
        for cause in call["causes"]:
            times[cause_words(cause)] += cause["time"]["total_ns"]
    total = max(times.total(), 1)
    return ", ".join(f"{name} {100 * ns / total:.0f} %" for name, ns in times.most_common(3))


def worst(causes):
    """The worst wake-up: its lateness, thread, call and largest part."""
    if not causes.get("worst"):
        return "-"
    wake = causes["worst"][0]
    part = max(wake["parts"], key=lambda part: part["ns"], default=None)
    most = f", {100 * part['ns'] / max(wake['late_ns'], 1):.0f} % {cause_words(part)}" if part else ""
    return f"{wake['late_ns'] / 1e6:.2f} ms {wake['thread']} {wake['call']}{most}"


def contradictions(causes):
    """What contradicts itself in a record; nothing if all is well."""
    if causes["split"] > causes["wake_ups"]:
        yield f"{causes['split']} of {causes['wake_ups']} wake-ups are cut"
    for call in causes["calls"]:
        name, late = f"{call['thread']} {call['call']}", call["late"]["total_ns"]
        summed = sum(cause["time"]["total_ns"] for cause in call["causes"])
        if summed != late:
            yield f"{name}: causes are {summed} ns of {late} ns"
        if call["blocked"] + call["at_once"] != call["calls"]:
            yield f"{name}: calls do not add up"
        if not call["thread"] or call["call"].startswith("syscall "):
            yield f"thread '{call['thread']}', call '{call['call']}': a name is missing"
    for wake in causes.get("worst", []):
        name = f"{wake['thread']} {wake['call']} late by {wake['late_ns']} ns"
        parts, timeline = sum(part["ns"] for part in wake["parts"]), wake.get("timeline", [])
        follows = zip(timeline, timeline[1:])
        if parts != wake["late_ns"]:
            yield f"{name}: parts are {parts} ns"
        elif any(a["cpu"] == b["cpu"] and a["from_ns"] + a["ns"] > b["from_ns"] for a, b in follows):
            yield f"{name}: stretches of one CPU overlap"
        elif len(timeline) < 48 and not any(stretch["activity"] == "itself" for stretch in timeline):
            yield f"{name}: the thread is not in its timeline"


def row(place, pairs):
    """The row of a program, and what is wrong."""
    alone, faults = place.play(ALONE), []

    def judged(mode):
        outcome = place.play(mode)
        if outcome.said != alone.said:
            faults.append(f"{mode}: {outcome.said}, but alone {alone.said}")
        faults.extend(contradictions(outcome.causes or {"split": 0, "wake_ups": 0, "calls": []}))
        return outcome

    outcomes = {STARTED: [], ALONE: []}
    for pair in range(pairs):
        for mode in [STARTED, ALONE] if pair % 2 == 0 else [ALONE, STARTED]:
            outcomes[mode].append(judged(mode))
    attached = judged(ATTACHED).causes
    causes = outcomes[STARTED][-1].causes
    watched, unwatched = ([outcome.took for outcome in outcomes[mode]] for mode in (STARTED, ALONE))
    around = [[outcome.whole - outcome.took for outcome in outcomes[mode]] for mode in (STARTED, ALONE)]
    slower = ratio(watched, unwatched)
    cells = [place.program["name"], place.version, "NO" if faults else "yes", causes["wake_ups"], cut(causes), causes["lost_events"],
             largest(causes), worst(causes), f"{median(unwatched):.2f}", f"x {slower.value:.2f} ({slower.interval()})",
             f"{difference(*around).value:+.2f}", attached["wake_ups"], cut(attached), attached["lost_events"]]  # fmt: skip
    return cells, faults


parser = argparse.ArgumentParser(description=__doc__)
add_choice(parser)
parser.add_argument("--pairs", type=int, default=6, help="pairs of turns, in the order ABBA")
args = parser.parse_args()
programs = chosen(args)
print("| program | version | same output, status | n | cut | lost | most time lost to | latest | s | watched | before, after, s "
      "| --pid: n | cut | lost |\n|---|---|---|---:|---:|---:|---|---|---:|---:|---:|---:|---:|---:|")  # fmt: skip
failed = []
for program in programs:
    try:
        with Place(program) as place:
            if not place.version:
                raise RuntimeError(f"not installed: {program['packages']}")
            cells, faults = row(place, args.pairs)
        print("|", " | ".join(map(str, cells)), "|", flush=True)
        failed += [f"{program['name']}: {fault}" for fault in faults]
    except (RuntimeError, OSError, ValueError) as error:
        failed.append(f"{program['name']}: {error}")
sys.exit("\n".join(failed) or None)
