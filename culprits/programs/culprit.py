"""What the Python culprits have in common: draws of the seed, clocks, work, the line of figures."""

import ctypes
import json
import os
import random
import time

draws = random.Random(int(os.environ.get("CULPRIT_SEED", 1)))


def work(seconds):
    """Computes until the thread has used this much CPU time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(500))


def name(text):
    """Names the calling thread, as its kernel knows it."""
    ctypes.CDLL(None).prctl(15, text.encode(), 0, 0, 0)


def tell(begin, lost, times, **further):
    """Prints the figures; `begin` and `lost` are in ns."""
    print(json.dumps({"ran_ns": time.monotonic_ns() - begin, "lost_ns": int(lost), "times": times, **further}), flush=True)
