import threading

import figures

condition = threading.Condition()


def wait(asked):
    with condition:
        condition.wait(timeout=asked)


figures.write(figures.late(200, 0.001, wait))
print("200 timeouts")
