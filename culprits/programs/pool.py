"""The main thread hands work to a pool of processes, and waits for it: a thread of its own reads the results from their pipe."""

import json
import multiprocessing
import time

from culprit import draws, name, work

worker = f"worker-{draws.randrange(10, 100)}"
each = draws.uniform(0.02, 0.08)

if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(1, initializer=name, initargs=(worker,)) as pool:
        begin, lost, times = time.monotonic_ns(), 0, 0
        while time.monotonic_ns() - begin < 2_500_000_000:
            start = time.monotonic_ns()
            pool.apply(work, (each,))
            lost += time.monotonic_ns() - start
            times += 1
        figures = {"ran_ns": time.monotonic_ns() - begin, "lost_ns": lost, "times": times, "culprit": worker}
    print(json.dumps(figures), flush=True)
