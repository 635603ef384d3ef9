#!/usr/bin/env python3
"""Runs published command lines of cyclictest, and prints a table of status and shape beside cyclictest's own.

    peers/cyclic_lines.py [PUNCTUAL]

Each line of crates/cli/tests/cyclic/lines.txt runs on CPU 0 for three cycles. A shape is the kinds of lines: without their
numbers, their order and how often they stand there. Old options, which cyclictest 2.4 refuses, are left out of its line alone.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINES = ROOT / "crates/cli/tests/cyclic/lines.txt"
PUNCTUAL = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "target/release/punctual")
OLD = {"-n", "--nanosleep", "--notrace", "--numa"}
JOINED = {"-mnq": "-mq", "-nmv": "-mv"}


def shortened(words):
    """The line on CPU 0, for three cycles: it says otherwise neither which CPUs there are nor when it ends."""
    short, at = [], 0
    while at < len(words):
        word = words[at]
        follows = at + 1 < len(words) and words[at + 1][0].isdigit()
        if word == "--affinity" or (word in ("-a", "--mainaffinity") and follows):
            at += 1
            short += ["-a", "0"]
        elif re.match(r"-a\d|--affinity=|--mainaffinity=", word):
            short += ["-a", "0"]
        else:
            short.append(word)
        at += 1
    return short + ["-l", "3"]


def run(command):
    """The status, and the shapes of the lines: numbers of any width are one, and so are lines that are drawn again."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    lines = re.sub(r"\x1b\[\d+[AB]", "", done.stdout).splitlines()
    shapes = {re.sub(r"[ \t]*\d+(\.\d+)?", "9", line) for line in lines}
    # How many cycles were beyond the histogram is no matter of shape.
    shapes = {re.sub(r"^(# Thread9:).*", r"\1", shape) for shape in shapes if "loadavg" not in shape}
    return done.returncode, shapes


def main():
    print("| line | from | status | cyclictest's | same shape |\n|---|---|---|---|---|")
    for line in LINES.read_text(encoding="utf8").splitlines():
        if line.startswith("#"):
            continue
        source, arguments = line.split(" | ", 1)
        words = shortened(arguments.split())
        today = [JOINED.get(word, word) for word in words if word not in OLD]
        status, shape = run([PUNCTUAL, "cyclictest", *words])
        their_status, their_shape = run(["cyclictest", *today])
        print(f"| `{arguments}` | {source} | {status} | {their_status} | {'yes' if shape == their_shape else 'no'} |")


main()
