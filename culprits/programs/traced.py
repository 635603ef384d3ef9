"""strace follows a program of many system calls."""

import os
import subprocess
import sys
from pathlib import Path

from injected import begin, victim

program = victim(Path(os.environ["CULPRIT_TOOLS"]) / "c/calls", stdin=subprocess.PIPE)
tracer = subprocess.Popen(["strace", "-f", "-o", "/dev/null", "-p", str(program.pid)], stderr=subprocess.PIPE, text=True)
tracer.stderr.readline()
begin(program.pid)
program.stdin.write(b"\n")
program.stdin.flush()
program.wait()
sys.stdin.read()
tracer.kill()
