#!/usr/bin/env python3
"""Plays programs with one known ailment each under `punctual why`, and scores its first sentence.

    cargo xtask culprits                    # all, with a new seed, with the release build
    cargo xtask culprits --only lock-       # those with such a name
    cargo xtask culprits --bare --only quota --seeds 5     # without `why`: the programs' own figures
    culprits/culprits.py --list target/release/punctual

`manifest.py` describes a culprit, `losses.toml` what is expected of the record, `score.py` the points.
"""

import argparse
import datetime
import json
import os
import platform
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import build
import manifest
import room as rooms
import score
from play import Play, play

# A compiler that is busy all the time, as on a build machine.
COMPILER = """
import subprocess
text = "#include <stdio.h>\\n" + "".join(f"int f{n}(int a) {{ int s = 0; for (int i = 0; i < a; i++) s += i * {n} ^ a; return s; }}\\n"
                                         for n in range(3000))
while True:
    subprocess.run(["cc", "-O2", "-x", "c", "-c", "-", "-o", "/dev/null"], input=text.encode(), check=True)
"""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=None, help="repeats the draws of a run; default: a new one")
    parser.add_argument("--seeds", type=int, default=1, help="plays all with this many seeds in a row")
    parser.add_argument("--only", action="append", default=[], help="only culprits with this in their name; may be repeated")
    parser.add_argument("--busy", action="store_true", help="beside compilers, one for each CPU")
    parser.add_argument("--bare", action="store_true", help="without `why`: print the figures")
    parser.add_argument("--list", action="store_true", help="list the culprits and what they lack here")
    parser.add_argument("--keep", type=Path, help="write the screen and the record of each play into this folder")
    parser.add_argument("--again", type=Path, help="score what --keep has written into this folder")
    parser.add_argument("command", nargs="?", help="the release binary of punctual")
    return parser.parse_args()


def lacks(culprit):
    """What a culprit lacks here, or None."""
    needs = culprit.needs + [build.tool(source) for source in build.sources(culprit)]
    return next((reason for need in needs if (reason := rooms.lack(need))), None)


def unsteady(culprit, figures):
    """Why a run shows the machine instead of the ailment, or None."""
    for key, share in culprit.steady.items():
        if figures[key] > share * figures["ran_ns"]:
            return f"{key} is {figures[key] / figures['ran_ns']:.0%} of the run"
    for key in culprit.rivals:
        if figures[key] > 0.8 * figures[culprit.expected.size]:
            return f"{key} is {ms(figures[key])}"
    return None


def ms(ns):
    return f"{ns / 1e6:.3g} ms" if ns < 1e9 else f"{ns / 1e9:.2f} s"


def row(culprit, said, points, why, sentence):
    figures = said.figures or {}
    truth = f"{ms(figures[culprit.expected.size])} of {ms(figures['ran_ns'])}, {figures['times']}" if figures else "–"
    cells = [culprit.name, culprit.language, culprit.how, culprit.expected.kind, truth, points, why, sentence.replace("|", "/")]
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def keep(folder, culprit, said):
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{culprit.name}.txt").write_text(said.screen)
        whole = {"figures": said.figures, "record": said.record, "problem": said.problem}
        (folder / f"{culprit.name}.json").write_text(json.dumps(whole, indent=1))
    return said


def watched(room, culprit, seed, options):
    """A play under `why`; None where the machine lacks something."""
    return None if lacks(culprit) else keep(options.keep, culprit, play(room, culprit, seed, options.command))


def kept(folder, culprit):
    """A play that was kept; None if it was not."""
    file = folder / f"{culprit.name}.json"
    if not file.exists():
        return None
    found = json.loads(file.read_text())
    return Play(found["figures"], file.with_suffix(".txt").read_text(), found["record"], found["problem"])


def score_all(chosen, plays):
    """Scores the plays of these culprits, and prints a row for each, and the sums."""
    sums = {"points": 0, "of": 0, "false": 0, "void": 0, "skipped": 0, "played": 0}
    for culprit in chosen:
        if not (said := plays(culprit)):
            sums["skipped"] += 1
            print(row(culprit, Play(), "skipped", lacks(culprit), ""), flush=True)
            continue
        if said.figures and (reason := unsteady(culprit, said.figures)):
            sums["void"] += 1
            print(row(culprit, said, "void", reason, said.sentence()), flush=True)
            continue
        sums["played"] += 1
        sums["of"] += 2
        if not said.figures or not said.screen:
            print(row(culprit, said, 0, " ".join((said.problem or "no answer").split()), said.sentence()), flush=True)
            continue
        verdict = score.verdict(culprit, said)
        sums["points"] += verdict.points
        sums["false"] += verdict.points < 0
        print(row(culprit, said, verdict.points, verdict.why, said.sentence()), flush=True)
    print(f"\n**{sums['points']} of {sums['of']} points**; {sums['false']} false sentences; {sums['played']} played, "
          f"{sums['void']} void, {sums['skipped']} skipped.\n")


def show_figures(room, chosen, seed):
    for culprit in chosen:
        if reason := lacks(culprit):
            print(f"{culprit.name}: skipped: {reason}", flush=True)
            continue
        begin = time.monotonic()
        said = play(room, culprit, seed)
        told = json.dumps(said.figures) if said.figures else said.problem
        print(f"{culprit.name}: {told} ({time.monotonic() - begin:.1f} s)", flush=True)
        if said.figures:
            best = score.verdict_of_losses(culprit.expected, [score.ideal(culprit.expected, said.figures)], said.figures)
            if best.points != 2:
                print(f"{culprit.name}: the manifest refuses its own truth: {best.why}", flush=True)


def head(seed, options):
    version = subprocess.run([options.command, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    print(f"{datetime.date.today()}, {version}, Linux {platform.release()}, {os.cpu_count()} CPUs, load average {os.getloadavg()[0]:.1f}"
          f"{', beside compilers' if options.busy else ''}; --seed {seed}\n")
    print("| culprit | language | how | kind | lost of the run, times | points | | first sentence |")
    print("|---|---|---|---|---|---:|---|---|", flush=True)


def main():
    options = arguments()
    chosen = [each for each in manifest.all_culprits() if not options.only or any(part in each.name for part in options.only)]
    if options.list:
        for each in chosen:
            print(f"{each.name:24} {each.language:8} {each.how:8} {each.expected.kind:20} {lacks(each) or ''}")
        return
    if not chosen:
        raise SystemExit(f"no culprit has {' or '.join(options.only)} in its name; --list shows them")
    if options.again:
        return score_all(chosen, lambda culprit: kept(options.again, culprit))
    if not options.bare and not options.command:
        raise SystemExit("name the binary of punctual: culprits.py target/release/punctual")
    options.command = options.command and str(Path(options.command).resolve())
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, lambda *_: sys.exit(1))
    rooms.clean_leftovers()
    room = rooms.Room()
    try:
        for each in chosen:
            if not lacks(each):
                build.words(each)
        first = options.seed if options.seed is not None else random.randrange(1 << 31)
        load = [room.aside([sys.executable, "-c", COMPILER]) for _ in os.sched_getaffinity(0)] if options.busy else []
        for seed in range(first, first + options.seeds):
            if options.bare:
                print(f"seed {seed}")
                show_figures(room, chosen, seed)
                continue
            head(seed, options)
            score_all(chosen, lambda culprit: watched(room, culprit, seed, options))
        for each in load:
            each.kill()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    finally:
        room.close()


if __name__ == "__main__":
    main()
