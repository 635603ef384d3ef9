"""Reads pictures as they come. How late they are, in us, beside the most punctual one."""

import hashlib
import statistics
import sys
import time

import figures

size, rate = int(sys.argv[1]), float(sys.argv[2])
digest, times = hashlib.md5(), []
while picture := sys.stdin.buffer.read(size):
    times.append(time.monotonic())
    digest.update(picture)
late = [at - n / rate for n, at in enumerate(times)]
figures.write((statistics.median(late) - min(late)) * 1e6)
print(len(times), "pictures", digest.hexdigest())
