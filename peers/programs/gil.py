import ctypes
import threading
import time

ended = False


def busy():
    ctypes.CDLL(None).prctl(15, b"busy", 0, 0, 0)
    n = 0
    while not ended:
        n += 1


worker = threading.Thread(target=busy)
worker.start()
for _ in range(100):
    time.sleep(0.001)
ended = True
worker.join()
print("100 sleeps beside a busy thread")
