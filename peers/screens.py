#!/usr/bin/env python3
"""Shows the first screen of every command on a terminal of 24 lines of 80 columns, as Markdown.

    peers/screens.py target/release/punctual > docs/results/screens.md

Each command runs four times: as root and as a plain user (nobody), alone and beside as many busy loops as there are CPUs. A screen that
takes more than 24 lines, the prompt included, or more than 80 columns fails the script. --note TEXT says what else ran on the machine.
"""

import argparse
import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios

LINES, COLUMNS = 24, 80
NOBODY = 65534

COMMANDS = [
    "punctual",
    "punctual wait --duration 3s",
    "punctual wait nanosleep timerfd hybrid --for 10us,100us,1ms --duration 3s",
    "punctual wait nanosleep ppoll --policy other,fifo:40 --timer-slack 50us,1ns --duration 3s",
    "punctual yield --duration 3s",
    "punctual yield --polls 0,10,1000 --duration 3s",
    "punctual ipc --duration 6s",
    "punctual ipc pipe ring --size 64,64k --duration 3s",
    "punctual calibrate --duration 3s",
    "punctual pace --tick-only --rate 5000 --duration 3s",
    "punctual governor ramp",
    "punctual governor switch",
    "punctual why --duration 2s",
    "punctual cyclic --duration 3s",
]


class Screen:
    """A terminal as far as the command uses one: lines, and a cursor that goes up and erases what is below."""

    def __init__(self):
        self.lines, self.row, self.column, self.most = [""], 0, 0, 0

    def feed(self, text):
        for piece in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|[\r\n]|[^\x1b\r\n]+|\x1b", text):
            if piece == "\n":
                self.row += 1
                if self.row == len(self.lines):
                    self.lines.append("")
            elif piece == "\r":
                self.column = 0
            elif piece.startswith("\x1b["):
                self.obey(piece[2:-1], piece[-1])
            elif piece != "\x1b":
                line = self.lines[self.row].ljust(self.column)
                self.lines[self.row] = line[: self.column] + piece + line[self.column + len(piece) :]
                self.column += len(piece)
        self.most = max(self.most, len(self.lines))

    def obey(self, number, letter):
        if letter == "A":
            self.row = max(0, self.row - int(number or 1))
        elif letter == "B":
            self.row = min(len(self.lines) - 1, self.row + int(number or 1))
        elif letter == "J":
            self.lines = self.lines[: self.row + 1]
            self.lines[self.row] = self.lines[self.row][: self.column]
        elif letter == "K":
            keep = 0 if number == "2" else self.column
            self.lines[self.row] = self.lines[self.row][:keep]

    def text(self):
        return "\n".join(line.rstrip() for line in self.lines).rstrip("\n")


def shown(binary, command, user, state):
    """What the terminal shows at the end."""
    words = [binary] + command.split()[1:]
    if user != "root":
        words = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] + words
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    environment = {"PATH": os.environ["PATH"], "TERM": "xterm", "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
    environment |= {"HOME": state, "PUNCTUAL_LOCK_NAMESPACE": ""}
    child = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd="/")
    os.close(theirs)
    screen, rest = Screen(), b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        rest += piece
        text = rest.decode(errors="ignore")
        if len(text.encode()) == len(rest) and not re.search(r"\x1b(\[[0-9;?]*)?$", text):
            screen.feed(text)
            rest = b""
    child.wait()
    os.close(ours)
    return screen.text(), child.returncode


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("binary")
    options.add_argument("--note", default="")
    options.add_argument("--only", default="", help="only commands that contain this")
    options.add_argument("--loads", default="quiet,busy")
    options = options.parse_args()
    binary = os.path.abspath(options.binary)
    failed = []
    print("# First screens\n")
    print("The first screen of every command on a terminal of 24 lines of 80 columns, as root and as a plain user (nobody), alone and")
    print("beside as many busy loops as there are CPUs. `peers/screens.py` makes this page, and fails where a screen does not fit.")
    if options.note:
        print(f"\n{options.note}")
    users = ["root", "nobody"] if os.geteuid() == 0 else ["nobody"]
    for command in COMMANDS:
        if options.only not in command:
            continue
        print(f"\n## `{command}`")
        for load in options.loads.split(","):
            loops = []
            if load == "busy":
                loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(os.cpu_count())]
            try:
                for user in users:
                    with tempfile.TemporaryDirectory() as state:
                        if os.geteuid() == 0 and user != "root":
                            os.chown(state, NOBODY, NOBODY)
                            os.chmod(state, 0o700)
                        text, status = shown(binary, command, user, state)
                    lines = text.split("\n")
                    rows = sum(max(1, -(-len(line) // COLUMNS)) for line in lines)
                    # The terminal itself wraps an error.
                    wide = [line for line in lines if len(line) > COLUMNS and not line.startswith("punctual: ")]
                    if rows > LINES - 1 or wide:
                        failed.append(f"{command} ({load}, {user}): {rows} lines, {max(map(len, lines))} columns")
                    print(f"\n{load}, {user}, status {status}:\n\n```text\n{text}\n```", flush=True)
            finally:
                for loop in loops:
                    loop.kill()
                    loop.wait()
    for line in failed:
        print(line, file=sys.stderr)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
